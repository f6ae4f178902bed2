//! `OUTPUT`: the destination of the rows that a statement returns.
//!
//! Rows are returned when all changes are made: to the client as a result set, or into a table as an `INSERT` does.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use hobt_base::{SqlError, errors};
use hobt_functions::array_value;
use hobt_tsql::ast::{ChangeTarget, Insert, InsertSource, Output, Span};

use super::event::ResultColumn;
use super::failure::Failure;
use super::names::UsedTable;
use crate::insert_target::Target;
use crate::interpreter::Interpreter;
use hobt_binder::BoundOutput;
use hobt_operators::{WriteTarget, insert_rows};
use hobt_table::StatementRun;

/// The table of `OUTPUT … INTO`.
pub(super) struct OutputTarget {
    target: Target,
    store: WriteTarget,
}

impl OutputTarget {
    /// The columns that the rows fill.
    pub(super) fn columns(&self) -> &hobt_binder::InsertTarget {
        self.target.columns()
    }

    /// The table, as it must be locked.
    pub(super) fn used(&self) -> UsedTable {
        self.target.used()
    }
}

/// The output of a statement, and its destination.
pub(super) struct OutputSink {
    pub(super) output: BoundOutput,
    /// The target table. `None` for the client.
    pub(super) into: Option<OutputTarget>,
}

impl Interpreter<'_> {
    /// The table that an `OUTPUT` goes to.
    pub(super) fn output_target(&mut self, output: &Output) -> Result<Option<OutputTarget>, Failure> {
        let Some(name) = &output.into else { return Ok(None) };
        let target = ChangeTarget { name: name.clone(), hints: Vec::new(), span: Span::default() };
        let target = self.insert_target(&Insert {
            with: Vec::new(),
            top: None,
            target,
            columns: output.columns.clone(),
            output: None,
            source: InsertSource::DefaultValues,
            options: Vec::new(),
        })?;
        let (_, table) = target.table();
        let is_referenced = self.referring_keys(&target.store()?);
        let key = table.constraints.foreign_keys.first().or(is_referenced.first().map(|(_, key)| key));
        if let Some(key) = key {
            return Err(Failure::of_binding(errors::OUTPUT_INTO_FOREIGN_KEY.with([&table.name, &key.head.name])));
        }
        let run = self.new_run(None)?;
        let ruled = self.ruled(&run, target.store()?);
        run.end(true)?;
        let store = ruled?;
        Ok(Some(OutputTarget { target, store }))
    }

    /// Writes rows to the destination, one batch at a time.
    pub(super) fn put_out(
        &mut self,
        run: &Arc<StatementRun>,
        sink: &OutputSink,
        batches: impl Iterator<Item = Result<RecordBatch, SqlError>>,
    ) -> Result<(), Failure> {
        if let Some(into) = &sink.into {
            into.store.note_update(&run.instance, None);
        }
        match &sink.into {
            Some(into)
                if self.state.transaction.is_none() || into.target.is_variable() == self.scope.changes_variable =>
            {
                for batch in batches {
                    self.put_into(run, &sink.output, into, &batch?)?;
                }
                Ok(())
            }
            // One of the two tables is a variable, which takes part in no transaction, and the other is not.
            Some(into) => {
                let open = self.state.transaction.as_ref().filter(|_| !into.target.is_variable());
                let apart = self.new_run_in(open, None)?;
                let (database, table) = into.target.table();
                self.list_row_locks(&apart.context, &[UsedTable::changed(database, table, &[])]);
                let mut batches = batches;
                let done = batches.try_for_each(|batch| self.put_into(&apart, &sink.output, into, &batch?));
                apart.uses_database(&into.target.table().0);
                apart.end(done.is_ok())?;
                done
            }
            None => self.put_to_client(&sink.output, batches),
        }
    }

    fn put_into(
        &mut self,
        run: &Arc<StatementRun>,
        output: &BoundOutput,
        into: &OutputTarget,
        batch: &RecordBatch,
    ) -> Result<(), Failure> {
        let mut rows = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().zip(&output.columns);
            let values = values.map(|(array, column)| array_value(array.as_ref(), row, column.sql_type));
            rows.push(self.whole_row(run, &into.target, values.collect::<Result<_, _>>()?)?);
        }
        insert_rows(run, &into.store, &rows)?;
        Ok(())
    }

    fn put_to_client(
        &mut self,
        output: &BoundOutput,
        batches: impl Iterator<Item = Result<RecordBatch, SqlError>>,
    ) -> Result<(), Failure> {
        let column = |column: &hobt_binder::ResultColumn| ResultColumn {
            name: column.name.clone().unwrap_or_default(),
            sql_type: column.sql_type,
            nullable: column.nullable,
        };
        let columns: Vec<ResultColumn> = output.columns.iter().map(column).collect();
        self.begin_result_set(columns)?;
        let mut rows = 0;
        for batch in batches {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            self.give_rows(batch)?;
        }
        self.end_result_set(rows)
    }
}

impl Target {
    /// The table, as an `INSERT` locks it.
    pub(super) fn used(&self) -> UsedTable {
        let (database, table) = self.table();
        UsedTable::changed(database, table, &[])
    }
}
