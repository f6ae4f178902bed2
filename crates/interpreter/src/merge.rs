//! `MERGE`.
//!
//! As for `UPDATE`, everything is decided and checked before anything changes. The rows come from one query (see the
//! binder's `merge`) and are held by their kind of change. Inserts are done last.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::concat;
use arrow::record_batch::RecordBatch;
use hobt_base::SqlError;
use hobt_functions::{carrier, value_to_array};
use hobt_tsql::ast::{Merge, TargetName};
use hobt_types::Value;

use super::event::DoneKind;
use super::failure::Failure;
use super::foreign_key::{ChangedKeyRows, KeyRows};
use super::identity::integer_of_type;
use super::names::UsedTable;
use super::output_clause::{OutputSink, OutputTarget};
use super::query::bind_options;
use super::row_locks::{Others, Rounds};
use crate::insert_target::Target;
use crate::interpreter::{Interpreter, Outcome};
use crate::plans::ChangeShown;
use crate::query::one_stream;
use crate::stored_table::{store_of, whole_batch, with_columns};
use hobt_binder::{ACTION_TYPE, BindOptions, Binder, BoundMerge, OutputInput, QueryHints};
use hobt_operators::{
    HeldBatches, MergedParts, MergedRows, WriteTarget, delete_rows, insert_held, stored_columns, update_rows,
};
use hobt_table::{ChangeKind, StatementRun, Writes};

/// Rows with one kind of change, and their new values.
struct Piece {
    kind: ChangeKind,
    /// The columns of the query; the new values may follow.
    rows: RecordBatch,
    /// The table's columns in stored form. Empty for a delete.
    after: Vec<ArrayRef>,
}

impl Piece {
    /// A batch of rows that the query found, which is followed by the new values unless it is deleted.
    fn new(kind: ChangeKind, bound: &BoundMerge, rows: Result<RecordBatch, SqlError>) -> Result<Piece, SqlError> {
        let rows = rows?;
        let after = if kind == ChangeKind::Delete { Vec::new() } else { after_of(bound, &rows) };
        Ok(Piece { kind, rows, after })
    }
}

/// The new values behind the columns of the query.
fn after_of(bound: &BoundMerge, rows: &RecordBatch) -> Vec<ArrayRef> {
    rows.columns()[rows.num_columns() - bound.before.len()..].to_vec()
}

impl Interpreter<'_> {
    pub(super) fn merge(&mut self, merge: &Merge) -> Result<Outcome, Failure> {
        let hints = QueryHints::read(&merge.options).map_err(Failure::of_binding)?;
        let brings_matched = self.state.options.row_count == 0;
        let options = BindOptions { brings_matched, ..bind_options(&hints) };
        let run = self.new_run(Some(&hints))?;
        let rows = self.in_run(&run, |this| {
            let into = this.lock_merge(&run, options, merge)?;
            let columns = into.as_ref().map(OutputTarget::columns);
            let mut rounds = Rounds::default();
            let (bound, store, mut rows) = loop {
                this.forget_plan();
                let (bound, store, mut rows, has_ended) = this.find_merged(&run, options, merge, columns)?;
                rounds.are_locked = bound.table.locks_rows();
                let others = Others { unseen: bound.table.unseen(), has_ended, idle: rows.idle()? };
                if this.lock_found_rows(&run, &store, (&mut rows.found()?, &others), &mut rounds)? {
                    break (bound, store, rows.into_parts());
                }
            };
            store.note_update(&run.instance, None);
            for kind in [ChangeKind::Update, ChangeKind::Insert] {
                this.complete(&run, &bound, &store, (kind, of_kind(&mut rows, kind)))?;
            }
            run.begin_writing(rows.deleted.row_count() + rows.updated.row_count() + rows.inserted.row_count());
            apply(&run, &store, &bound, &mut rows)?;
            this.check_new_keys(&run, &store)?;
            let referring = this.referring_keys(&store);
            for kind in [ChangeKind::Delete, ChangeKind::Update] {
                let keys = |rows: &RecordBatch| Ok(Piece::new(kind, &bound, Ok(rows.clone()))?.keys(&bound));
                let is_update = kind == ChangeKind::Update;
                let mut changed = ChangedKeyRows { rows: of_kind(&mut rows, kind), keys: &keys, is_update };
                this.follow_keys(&run, &store, &referring, &mut changed)?;
            }
            if let Some(output) = bound.output.clone() {
                let sink = OutputSink { output, into };
                let MergedParts { deleted, updated, inserted } = &mut rows;
                let pieces = [
                    (ChangeKind::Delete, deleted.batches()?),
                    (ChangeKind::Update, updated.batches()?),
                    (ChangeKind::Insert, inserted.batches()?),
                ];
                let pieces = pieces.into_iter().flat_map(|(kind, batches)| batches.map(move |batch| (kind, batch)));
                let put_out = pieces.map(|(kind, batch)| {
                    let piece = Piece::new(kind, &bound, batch)?;
                    sink.output.evaluate(piece.rows.num_rows(), &|input| piece.column(&bound, &store, input))
                });
                this.put_out(&run, &sink, put_out)?;
            }
            Ok(rows.deleted.row_count() + rows.updated.row_count() + rows.inserted.row_count())
        })?;
        Ok(Outcome::counted(DoneKind::Merge, rows))
    }

    /// Runs the query of a `MERGE`. The rows that it finds have not been changed yet, and may still be changed by other
    /// transactions. The flag says whether the query ran to its end.
    fn find_merged(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        merge: &Merge,
        columns: Option<&hobt_binder::InsertTarget>,
    ) -> Result<(BoundMerge, WriteTarget, MergedRows, bool), Failure> {
        let bound: RefCell<Option<BoundMerge>> = RefCell::default();
        let bind = |binder: &Binder<'_>| {
            let merge = binder.bind_merge(merge, columns)?;
            merge.watch_unseen();
            let query = merge.query.clone();
            *bound.borrow_mut() = Some(merge);
            Ok(query)
        };
        let prepared = self.prepare(run, options, &bind, &one_stream)?;
        let bound = bound.into_inner().ok_or_else(|| SqlError::internal("a MERGE that was not bound"))?;
        let store = self.ruled(run, merge_store(merge, &bound)?)?;
        self.note_change(|| ChangeShown {
            database: store.database().clone(),
            table: Arc::clone(store.table()),
            columns: None,
            rows: 0,
        });
        self.follow(run, &prepared, Writes::OneByOne, 1.0);
        let unseen = bound.table.unseen();
        let mut rows = MergedRows::new(run, bound.actions.clone(), unseen);
        let ended = self.run_prepared(run, prepared, &mut |batch| rows.take(&batch)).and_then(|()| rows.finish());
        let has_ended = Self::query_ended(ended, unseen)?;
        Ok((bound, store, rows, has_ended))
    }

    /// Locks the target, the tables that are read, and the target of `OUTPUT`, all in one step.
    fn lock_merge(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        merge: &Merge,
    ) -> Result<Option<OutputTarget>, Failure> {
        self.until_locked(run, |this| {
            let into = match &merge.output {
                Some(output) => this.output_target(output)?,
                None => None,
            };
            let names = this.names(run);
            let columns = into.as_ref().map(OutputTarget::columns);
            let bound = Binder::new(&names, options).bind_merge(merge, columns).map_err(Failure::of_binding)?;
            let mut used = names.into_used();
            let table = &bound.table;
            let (database, table) = (table.database().clone(), Arc::clone(table.table()));
            used.push(UsedTable::changed(database, table, &[]));
            used.extend(into.as_ref().map(OutputTarget::used));
            Ok((into, used))
        })
    }

    /// Computes and checks the new values of rows, and adds them to the rows. Inserted rows receive their identity
    /// values.
    fn complete(
        &mut self,
        run: &Arc<StatementRun>,
        bound: &BoundMerge,
        store: &WriteTarget,
        (kind, held): (ChangeKind, &mut HeldBatches),
    ) -> Result<(), Failure> {
        let store = store.clone().written_by(if kind == ChangeKind::Insert { "INSERT" } else { "UPDATE" });
        for rows in std::mem::replace(held, HeldBatches::new(run)).into_batches()? {
            let rows = rows?;
            let mut columns: Vec<ArrayRef> = bound.after.iter().map(|&place| Arc::clone(rows.column(place))).collect();
            if kind == ChangeKind::Insert {
                self.number_rows(run, bound, rows.num_rows(), &mut columns)?;
            }
            let columns = match store.has_rules() {
                true => store.completed(columns, rows.num_rows(), None)?,
                false => stored_columns(&store, columns.into_iter().enumerate().collect())?
                    .into_iter()
                    .map(|(_, array)| array)
                    .collect(),
            };
            held.keep(with_columns(&rows, columns.into_iter())?)?;
        }
        Ok(())
    }

    /// Fills an identity column with the next values.
    fn number_rows(
        &mut self,
        run: &Arc<StatementRun>,
        bound: &BoundMerge,
        rows: usize,
        columns: &mut [ArrayRef],
    ) -> Result<(), Failure> {
        let table = &bound.table;
        let mut identities = table.table().columns.iter().enumerate();
        let Some((place, column)) = identities.find(|(_, column)| column.identity.is_some()) else { return Ok(()) };
        let target = Target::of_table(table.database().clone(), Arc::clone(table.table()));
        let first = self.next_identity(run, &target, column, rows as u64)?;
        let increment = column.identity.map_or(1, |identity| i128::from(identity.increment));
        let mut last = first;
        let mut values = Vec::with_capacity(rows);
        for row in 0..rows {
            last = first + increment * row as i128;
            values.push(value_to_array(&integer_of_type(last, column)?, column.sql_type)?);
        }
        let values: Vec<&dyn arrow::array::Array> = values.iter().map(AsRef::as_ref).collect();
        columns[place] = concat(&values).map_err(|error| SqlError::internal(error.to_string()))?;
        self.note_identity(last);
        Ok(())
    }
}

impl Piece {
    /// The rows' old and new values, for the foreign keys that refer to them.
    fn keys(&self, bound: &BoundMerge) -> KeyRows {
        let before = |place: &Option<usize>| place.map(|place| Arc::clone(self.rows.column(place)));
        KeyRows { before: bound.before.iter().map(before).collect(), after: self.after.clone() }
    }

    /// A column that `OUTPUT` reads.
    fn column(&self, bound: &BoundMerge, store: &WriteTarget, input: OutputInput) -> Result<ArrayRef, SqlError> {
        let nothing = |column: usize| {
            let sql_type = store.table().columns[column].sql_type;
            Ok(new_null_array(&carrier(sql_type), self.rows.num_rows()))
        };
        match input {
            OutputInput::Inserted(column) if self.kind == ChangeKind::Delete => nothing(column),
            OutputInput::Inserted(column) => Ok(Arc::clone(&self.after[column])),
            OutputInput::Deleted(column) if self.kind == ChangeKind::Insert => nothing(column),
            OutputInput::Deleted(column) => {
                let place = bound.before[column];
                let place = place.ok_or_else(|| SqlError::internal("a column that the plan does not read"))?;
                Ok(Arc::clone(self.rows.column(place)))
            }
            OutputInput::Plan(place) => Ok(Arc::clone(self.rows.column(place))),
            OutputInput::Action => {
                let name = match self.kind {
                    ChangeKind::Insert => "INSERT",
                    ChangeKind::Update => "UPDATE",
                    ChangeKind::Delete => "DELETE",
                };
                let name = value_to_array(&Value::Text(name.to_owned()), ACTION_TYPE)?;
                let names = vec![&*name; self.rows.num_rows()];
                concat(&names).map_err(|error| SqlError::internal(error.to_string()))
            }
        }
    }
}

/// The heaps to change, under the name that messages use.
fn merge_store(merge: &Merge, bound: &BoundMerge) -> Result<WriteTarget, SqlError> {
    let table = &bound.table;
    let store = store_of(table.database().clone(), Arc::clone(table.table()))?;
    Ok(match &merge.target.name {
        TargetName::Variable(name) => store.called(name.value.clone()),
        TargetName::Object(_) => store,
    })
}

fn of_kind(rows: &mut MergedParts, kind: ChangeKind) -> &mut HeldBatches {
    match kind {
        ChangeKind::Delete => &mut rows.deleted,
        ChangeKind::Update => &mut rows.updated,
        ChangeKind::Insert => &mut rows.inserted,
    }
}

fn apply(
    run: &Arc<StatementRun>,
    store: &WriteTarget,
    bound: &BoundMerge,
    rows: &mut MergedParts,
) -> Result<(), SqlError> {
    // Deletes come first, so that their keys are free for updated and inserted rows.
    rows.deleted.batches()?.try_for_each(|batch| delete_rows(run, store, &batch?))?;
    // Each action has columns of its own.
    update_rows(run, store, &mut rows.updated, None, &|batch| Ok(after_of(bound, batch)))?;
    let count = rows.inserted.row_count();
    let inserted = rows.inserted.batches()?.map(|batch| whole_batch(store, after_of(bound, &batch?)));
    insert_held(run, store, count, inserted)?;
    Ok(())
}
