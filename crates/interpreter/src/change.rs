//! `UPDATE` and `DELETE`.
//!
//! Steps of a statement: bind → lock the target and the tables read → run the query that finds the rows to change →
//! check the new values → change the rows one by one on the statement's own thread → return what `OUTPUT` asks for.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use hobt_base::SqlError;
use hobt_catalog::Table;
use hobt_engine::DatabaseUse;
use hobt_tsql::ast::{Delete, Output, QueryHint, TargetName, Update};

use super::direct::Wanted;
use super::event::DoneKind;
use super::failure::Failure;
use super::foreign_key::{ChangedKeyRows, KeyRows};
use super::names::UsedTable;
use super::output_clause::{OutputSink, OutputTarget};
use super::query::bind_options;
use super::row_locks::{Others, Rounds};
use crate::direct::learned::Learned;
use crate::interpreter::{Interpreter, Outcome};
use crate::plans::ChangeShown;
use crate::query::one_stream;
use crate::stored_table::{store_of, with_columns};
use hobt_binder::{BindOptions, Binder, BoundChange, OutputInput, QueryHints};
use hobt_operators::{ChangedRows, HeldBatches, WriteTarget, delete_rows, stored_columns, update_rows};
use hobt_table::{StatementRun, Writes};

/// A statement that changes existing rows.
#[derive(Clone, Copy)]
pub(super) enum Change<'s> {
    Update(&'s Update),
    Delete(&'s Delete),
}

impl Change<'_> {
    pub(super) fn name(&self) -> &TargetName {
        match self {
            Change::Update(update) => &update.target.name,
            Change::Delete(delete) => &delete.target.name,
        }
    }

    pub(super) fn output(&self) -> Option<&Output> {
        match self {
            Change::Update(update) => update.output.as_ref(),
            Change::Delete(delete) => delete.output.as_ref(),
        }
    }

    pub(super) fn options(&self) -> &[QueryHint] {
        match self {
            Change::Update(update) => &update.options,
            Change::Delete(delete) => &delete.options,
        }
    }

    pub(super) fn bind(
        &self,
        binder: &Binder<'_>,
        into: Option<&hobt_binder::InsertTarget>,
    ) -> Result<BoundChange, SqlError> {
        match self {
            Change::Update(update) => binder.bind_update(update, into),
            Change::Delete(delete) => binder.bind_delete(delete, into),
        }
    }
}

/// Where the batches of the rows to change have their new values: the columns of the query come first.
#[derive(Default)]
struct NewValues {
    /// How many columns the query has.
    width: usize,
    /// The columns that change, by their positions in the table.
    changed: Vec<usize>,
}

impl NewValues {
    /// A column of the table after the change.
    fn after(&self, bound: &BoundChange, batch: &RecordBatch, column: usize) -> Result<ArrayRef, SqlError> {
        match self.changed.iter().position(|place| *place == column) {
            Some(at) => Ok(Arc::clone(batch.column(self.width + at))),
            None => before(bound, batch, column),
        }
    }

    /// All columns of the table after the change.
    fn all(&self, bound: &BoundChange, batch: &RecordBatch) -> Result<Vec<ArrayRef>, SqlError> {
        (0..bound.before.len()).map(|column| self.after(bound, batch, column)).collect()
    }
}

/// A column of the table before the change.
fn before(bound: &BoundChange, batch: &RecordBatch, column: usize) -> Result<ArrayRef, SqlError> {
    let place = bound.before[column].ok_or_else(|| SqlError::internal("a column that the plan does not read"))?;
    Ok(Arc::clone(batch.column(place)))
}

impl Interpreter<'_> {
    pub(super) fn update(&mut self, update: &Update, learned: &mut Learned) -> Result<Outcome, Failure> {
        if let Some(outcome) = self.run_learned(Wanted::Change(Change::Update(update)), learned)? {
            return Ok(outcome);
        }
        let rows = self.change(Change::Update(update))?;
        Ok(Outcome::counted(DoneKind::Update, rows))
    }

    pub(super) fn delete(&mut self, delete: &Delete, learned: &mut Learned) -> Result<Outcome, Failure> {
        if let Some(outcome) = self.run_learned(Wanted::Change(Change::Delete(delete)), learned)? {
            return Ok(outcome);
        }
        let rows = self.change(Change::Delete(delete))?;
        Ok(Outcome::counted(DoneKind::Delete, rows))
    }

    fn change(&mut self, change: Change<'_>) -> Result<u64, Failure> {
        let hints = QueryHints::read(change.options()).map_err(Failure::of_binding)?;
        let options = bind_options(&hints);
        let run = self.new_run(Some(&hints))?;
        self.in_run(&run, |this| this.change_within_run(&run, options, change))
    }

    /// Like [`Interpreter::change`], as a part of the run `run`.
    pub(super) fn change_within_run(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        change: Change<'_>,
    ) -> Result<u64, Failure> {
        let into = self.lock_change(run, options, change)?;
        let columns = into.as_ref().map(OutputTarget::columns);
        let mut rounds = Rounds::default();
        let is_main = !self.has_plan();
        let (mut bound, target, held) = loop {
            if is_main {
                self.forget_plan();
            }
            let (bound, target, mut held, has_ended) = self.find_rows(run, options, change, columns)?;
            rounds.are_locked = bound.table.locks_rows();
            let others = Others { unseen: bound.table.unseen(), has_ended, idle: Vec::new() };
            if self.lock_found_rows(run, &target, (&mut held.batches()?, &others), &mut rounds)? {
                break (bound, target, held);
            }
        };
        note_update(run, &bound, &target);
        let (mut held, new) = new_rows(run, held, &mut bound, &target)?;
        run.begin_writing(held.row_count());
        apply(run, &target, &bound, (&mut held, &new))?;
        self.check_new_keys(run, &target)?;
        let referring = self.referring_keys(&target);
        if !referring.is_empty() {
            let keys = |batch: &RecordBatch| {
                let before = (0..bound.before.len()).map(|column| before(&bound, batch, column).ok()).collect();
                let after = bound.values.as_ref().map(|_| new.all(&bound, batch)).transpose()?;
                Ok(KeyRows { before, after: after.unwrap_or_default() })
            };
            let mut changed = ChangedKeyRows { rows: &mut held, keys: &keys, is_update: bound.values.is_some() };
            self.follow_keys(run, &target, &referring, &mut changed)?;
        }
        let sink = bound.output.clone().map(|output| OutputSink { output, into });
        if let Some(sink) = &sink {
            let put_out = |batch: Result<RecordBatch, SqlError>| {
                let batch = batch?;
                sink.output.evaluate(batch.num_rows(), &|input| match input {
                    OutputInput::Inserted(column) => new.after(&bound, &batch, column),
                    OutputInput::Deleted(column) => before(&bound, &batch, column),
                    OutputInput::Plan(place) => Ok(Arc::clone(batch.column(place))),
                    OutputInput::Action => Err(SqlError::internal("$action outside of a MERGE")),
                })
            };
            self.put_out(run, sink, held.batches()?.map(put_out))?;
        }
        if let Some(values) = &bound.values {
            for (variable, value) in values.variables()? {
                self.frame_mut().set(&variable.value, value.value)?;
            }
        }
        Ok(held.row_count())
    }

    /// Runs the query that finds the rows to change. The rows have not been changed yet, and may still be changed by
    /// other transactions. The flag says whether the query ran to its end.
    fn find_rows(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        change: Change<'_>,
        columns: Option<&hobt_binder::InsertTarget>,
    ) -> Result<(BoundChange, WriteTarget, HeldBatches, bool), Failure> {
        let bound: RefCell<Option<BoundChange>> = RefCell::default();
        let bind = |binder: &Binder<'_>| {
            let change = change.bind(binder, columns)?;
            change.watch_unseen();
            let query = change.query.clone();
            *bound.borrow_mut() = Some(change);
            Ok(query)
        };
        let prepared = self.prepare(run, options, &bind, &one_stream)?;
        let bound = bound.into_inner().ok_or_else(|| SqlError::internal("a change that was not bound"))?;
        let target = self.ruled(run, change_store(change, &bound)?)?;
        // Before the query runs, so that the plan is complete when it is viewed during the run.
        self.note_change(|| ChangeShown {
            database: target.database().clone(),
            table: Arc::clone(target.table()),
            columns: bound.values.as_ref().map(|values| values.columns().collect()),
            rows: 0,
        });
        self.follow(run, &prepared, Writes::OneByOne, 1.0);
        let mut rows = ChangedRows::new(run, bound.repeats, bound.limit);
        let ended = self.run_prepared(run, prepared, &mut |batch| rows.take(batch));
        let has_ended = Self::query_ended(ended, bound.table.unseen())?;
        Ok((bound, target, rows.finish()?, has_ended))
    }

    /// Locks the target of a change, the tables that it reads, and the target of its `OUTPUT`, all in one step.
    fn lock_change(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        change: Change<'_>,
    ) -> Result<Option<OutputTarget>, Failure> {
        self.until_locked(run, |this| {
            let into = match change.output() {
                Some(output) => this.output_target(output)?,
                None => None,
            };
            let names = this.names(run);
            let columns = into.as_ref().map(OutputTarget::columns);
            let bound = change.bind(&Binder::new(&names, options), columns).map_err(Failure::of_binding)?;
            let mut used = names.into_used();
            let (database, table) = target_of(&bound)?;
            used.push(UsedTable::changed(database, table, &[]));
            used.extend(into.as_ref().map(OutputTarget::used));
            Ok((into, used))
        })
    }
}

/// The table to change.
fn target_of(bound: &BoundChange) -> Result<(DatabaseUse, Arc<Table>), SqlError> {
    let table = &bound.table;
    Ok((table.database().clone(), Arc::clone(table.table())))
}

/// The heaps to change, under the name that messages use.
fn change_store(change: Change<'_>, bound: &BoundChange) -> Result<WriteTarget, SqlError> {
    let (database, table) = target_of(bound)?;
    let store = store_of(database, table)?.written_by(match change {
        Change::Update(_) => "UPDATE",
        Change::Delete(_) => "DELETE",
    });
    Ok(match change.name() {
        TargetName::Variable(name) => store.called(name.value.clone()),
        TargetName::Object(_) => store,
    })
}

/// Counts an update of the table, and of each index with a column that the statement may change.
fn note_update(run: &StatementRun, bound: &BoundChange, target: &WriteTarget) {
    let columns = bound.values.as_ref().map(|values| {
        let computed = target.table().columns.iter().enumerate().filter(|(_, column)| column.computed.is_some());
        values.columns().chain(computed.map(|(place, _)| place)).collect::<Vec<_>>()
    });
    target.note_update(&run.instance, columns.as_deref());
}

/// Computes and checks the new values of all rows before any row changes, and adds them to the rows.
fn new_rows(
    run: &Arc<StatementRun>,
    held: HeldBatches,
    bound: &mut BoundChange,
    target: &WriteTarget,
) -> Result<(HeldBatches, NewValues), SqlError> {
    let mut new = NewValues::default();
    if bound.values.is_none() {
        return Ok((held, new));
    }
    let mut with_new = HeldBatches::new(run);
    for batch in held.into_batches()? {
        let batch = batch?;
        let columns = match &mut bound.values {
            Some(values) => stored_columns(target, values.take(&batch)?)?,
            None => Vec::new(),
        };
        let columns = completed(&batch, bound, target, columns)?;
        new = NewValues { width: batch.num_columns(), changed: columns.iter().map(|(place, _)| *place).collect() };
        with_new.keep(with_columns(&batch, columns.into_iter().map(|(_, array)| array))?)?;
    }
    Ok((with_new, new))
}

/// The columns that change, including the computed columns that depend on them.
fn completed(
    before: &RecordBatch,
    bound: &BoundChange,
    target: &WriteTarget,
    mut new: Vec<(usize, ArrayRef)>,
) -> Result<Vec<(usize, ArrayRef)>, SqlError> {
    if bound.values.is_none() || !target.has_rules() {
        return Ok(new);
    }
    let columns =
        (0..target.table().columns.len()).map(|column| match new.iter().find(|(place, _)| *place == column) {
            Some((_, array)) => Ok(Arc::clone(array)),
            None => {
                let place = bound.before[column];
                let place = place.ok_or_else(|| SqlError::internal("a column that the plan does not read"))?;
                Ok(Arc::clone(before.column(place)))
            }
        });
    let changed: Vec<usize> = new.iter().map(|(place, _)| *place).collect();
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, SqlError>>()?;
    let columns = target.completed(columns, before.num_rows(), Some(&changed))?;
    let is_computed = |place: &usize| target.table().columns[*place].computed.is_some();
    new.extend((0..columns.len()).filter(is_computed).map(|place| (place, Arc::clone(&columns[place]))));
    Ok(new)
}

fn apply(
    run: &Arc<StatementRun>,
    target: &WriteTarget,
    bound: &BoundChange,
    (held, new): (&mut HeldBatches, &NewValues),
) -> Result<(), SqlError> {
    match bound.values {
        None => held.batches()?.try_for_each(|batch| delete_rows(run, target, &batch?)),
        Some(_) => update_rows(run, target, held, Some(&new.changed), &|batch| new.all(bound, batch)),
    }
}
