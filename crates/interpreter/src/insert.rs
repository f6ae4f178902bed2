//! `INSERT`: `VALUES` rows are written directly to the heap, queries run through the executor.
//!
//! Unlisted columns receive their `IDENTITY`, their `DEFAULT` or NULL. The submodules: `target` for the table and
//! columns, `values`, `query` and `execute` for the sources of rows.

mod execute;
mod query;
mod target;
mod values;

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use hobt_base::{SqlError, errors};
use hobt_catalog::TableColumn;
use hobt_tsql::ast::{Insert, InsertSource, Query, TableHint};

use super::direct::Wanted;
use super::event::{DoneKind, Message};
use super::failure::Failure;
use super::names::UsedTable;
use super::output_clause::{OutputSink, OutputTarget};
use super::query::bind_options;
use super::reading::is_private;
use crate::capture::Captured;
use crate::direct::learned::Learned;
use crate::insert_target::Target;
use crate::interpreter::{Interpreter, Outcome};
use crate::plans::ChangeShown;
use hobt_binder::{BindOptions, Binder, OutputInput, QueryHints, SourceColumn};
use hobt_operators::WriteTarget;
use hobt_table::StatementRun;
use hobt_txn::locks::LockMode;

pub(super) use values::default_of;

/// The target and the output of an `INSERT`.
struct Write {
    target: Target,
    store: WriteTarget,
    sink: Option<OutputSink>,
}

impl Interpreter<'_> {
    pub(super) fn insert(
        &mut self,
        insert: &Insert,
        caught_here: bool,
        learned: &mut Learned,
    ) -> Result<Outcome, Failure> {
        if let Some(outcome) = self.run_learned(Wanted::Insert(insert), learned)? {
            return Ok(outcome);
        }
        let hints = QueryHints::read(&insert.options).map_err(Failure::of_binding)?;
        if let InsertSource::Execute { call } = &insert.source {
            return self.transactions().in_insert_exec(|this| {
                // The procedure's own statements run first: they must not wait for the lock that this statement takes.
                let target = this.insert_target(insert)?;
                // What holds the rows during the call. It changes nothing, so it is in no transaction.
                let holding = this.new_run_in(None, Some(&hints))?;
                let captured = this.captured_rows(&holding, call, &target, caught_here)?;
                this.insert_rows_of(insert, &hints, Some(captured))
            });
        }
        self.insert_rows_of(insert, &hints, None)
    }

    fn insert_rows_of(
        &mut self,
        insert: &Insert,
        hints: &QueryHints,
        captured: Option<Captured>,
    ) -> Result<Outcome, Failure> {
        let run = self.new_run(Some(hints))?;
        let rows = self.in_run(&run, |this| {
            let (target, into) = this.locked_target(&run, insert, hints)?;
            let sink = this.insert_sink(&run, insert, &target, into)?;
            let store = this.ruled(&run, target.store()?)?;
            store.note_update(&run.instance, None);
            this.note_change(|| ChangeShown {
                database: store.database().clone(),
                table: Arc::clone(store.table()),
                columns: None,
                rows: match &insert.source {
                    InsertSource::Values { rows } => rows.len() as u64,
                    InsertSource::Query { .. } => 0,
                    InsertSource::DefaultValues | InsertSource::Execute { .. } => {
                        captured.as_ref().map_or(1, |captured| captured.rows.row_count().max(1))
                    }
                },
            });
            let write = Write { store, target, sink };
            let rows = match (&insert.source, captured) {
                (InsertSource::Values { rows }, _) => this.insert_values(&run, insert, &write, rows),
                (InsertSource::DefaultValues, _) => {
                    let row = this.whole_row(&run, &write.target, Vec::new())?;
                    this.insert_whole(&run, insert, &write, vec![row])
                }
                (InsertSource::Query { query }, _) => this.insert_from_query(&run, &write, insert, query, hints),
                (InsertSource::Execute { .. }, Some(captured)) => this.insert_captured(&run, insert, &write, captured),
                (InsertSource::Execute { .. }, None) => {
                    Err(SqlError::internal("an INSERT of a call's rows without the call").into())
                }
            }?;
            this.check_new_keys(&run, &write.store)?;
            Ok(rows)
        })?;
        if run.left_duplicates_out() {
            let line = insert.target.span.position.line;
            self.send_message(Message::of(line, errors::DUPLICATE_KEY_IGNORED.error()))?;
        }
        Ok(Outcome::counted(DoneKind::Insert, rows))
    }

    /// The table of an `INSERT`, locked together with the tables that its query reads.
    fn locked_target(
        &mut self,
        run: &Arc<StatementRun>,
        insert: &Insert,
        hints: &QueryHints,
    ) -> Result<(Target, Option<OutputTarget>), Failure> {
        self.until_locked(run, |this| {
            let target = this.insert_target(insert)?;
            let into = match &insert.output {
                Some(output) => this.output_target(output)?,
                None => None,
            };
            let mut used = match &insert.source {
                InsertSource::Query { query } => {
                    let query = with_tables_of(insert, query);
                    this.check_width(run, bind_options(hints), &target, &query)?
                }
                _ => Vec::new(),
            };
            let (database, table) = target.table();
            let mut changed = UsedTable::changed(database, Arc::clone(&table), &insert.target.hints);
            let is_lone_heap = table.indexes.len() == 1 && !table.is_clustered();
            if this.loads_beside_others && is_lone_heap && locks_table(insert) && !is_private(&changed.database, &table)
            {
                changed.mode = LockMode::BulkUpdate;
            }
            used.push(changed);
            used.extend(into.as_ref().map(OutputTarget::used));
            Ok(((target, into), used))
        })
    }

    /// Returns inserted rows through `OUTPUT`.
    fn put_out_inserted(
        &mut self,
        run: &Arc<StatementRun>,
        sink: &OutputSink,
        batches: impl Iterator<Item = Result<RecordBatch, SqlError>>,
    ) -> Result<(), Failure> {
        let put_out = batches.map(|batch| {
            let batch = batch?;
            sink.output.evaluate(batch.num_rows(), &|input| match input {
                OutputInput::Inserted(column) => Ok(Arc::clone(batch.column(column))),
                _ => Err(SqlError::internal("an INSERT that puts out something else than what it inserts")),
            })
        });
        self.put_out(run, sink, put_out)
    }

    /// The output of an `INSERT`.
    fn insert_sink(
        &self,
        run: &Arc<StatementRun>,
        insert: &Insert,
        target: &Target,
        into: Option<OutputTarget>,
    ) -> Result<Option<OutputSink>, Failure> {
        let Some(output) = &insert.output else { return Ok(None) };
        let column = |column: &TableColumn| SourceColumn {
            name: column.name.clone(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: column.collation,
        };
        let columns: Vec<SourceColumn> = target.table.columns.iter().map(column).collect();
        let names = self.names(run);
        let binder = Binder::new(&names, BindOptions::default());
        let filled = into.as_ref().map(OutputTarget::columns);
        let output = binder.bind_insert_output(output, &columns, filled).map_err(Failure::of_binding)?;
        Ok(Some(OutputSink { output, into }))
    }
}

/// Whether an `INSERT` locks the whole table, so that all workers may write.
pub(super) fn locks_table(insert: &Insert) -> bool {
    insert.target.hints.contains(&TableHint::TabLock) || insert.target.hints.contains(&TableHint::TabLockX)
}

/// The query of an `INSERT`, with the common table expressions of the statement.
pub(super) fn with_tables_of(insert: &Insert, query: &Query) -> Query {
    let mut query = query.clone();
    if query.with.is_empty() {
        query.with.clone_from(&insert.with);
    }
    query
}
