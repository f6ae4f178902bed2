//! The rows of an `UPDATE`, `DELETE` or `MERGE`: held until all are known, then changed one after the other.
//!
//! A statement decides what it changes before it changes anything. So a row that its own change moves behind the scan
//! is not met again (the Halloween problem). The rows wait in memory, or on disk if they are many (`held`): a `DELETE`
//! keeps the rows' positions, an `UPDATE` their new values too.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int32Type;
use hobt_base::{SqlError, errors};
use hobt_catalog::row_image;
use hobt_engine::{RowAt, RowUpdate, TakenOut};
use hobt_functions::array_value;
use hobt_types::Value;

use super::held::{Distinct, HeldBatches};
use super::insert::{WriteTarget, column};
use super::places::{Places, places_array};
use hobt_table::{ChangeKind, RowLimit, StatementRun, UnseenRows};
use hobt_udf::sql_error_of;

/// Collects the rows that a statement changes. The first column is the row's position.
#[derive(Debug)]
pub struct ChangedRows {
    held: HeldBatches,
    /// The rows seen, where a row may come more than once.
    seen: Option<Distinct>,
    limit: Option<RowLimit>,
}

impl ChangedRows {
    /// For the rows of a query. `repeats`: it may give a row more than once. `limit`: how many rows count.
    pub fn new(run: &Arc<StatementRun>, repeats: bool, limit: Option<RowLimit>) -> ChangedRows {
        ChangedRows { held: HeldBatches::new(run), seen: repeats.then(|| Distinct::new(run)), limit }
    }

    /// Adds rows. A row without a position, or one that has come before, is left out.
    ///
    /// # Errors
    /// 5123, 1105 and 823 of a spill file.
    pub fn take(&mut self, batch: RecordBatch) -> Result<(), SqlError> {
        if matches!(self.limit, Some(RowLimit::Rows(limit)) if self.held.row_count() >= limit) {
            return Ok(());
        }
        let is_new = match &mut self.seen {
            Some(seen) => seen.take(&batch, &mut |_| Ok(()))?,
            None => {
                let places = Places::of(&batch)?;
                if places.null_count() == 0 {
                    return self.held.keep_found(batch);
                }
                (0..batch.num_rows()).map(|row| Some(places.is_somewhere(row))).collect()
            }
        };
        self.held.keep_found(filter_record_batch(&batch, &is_new).map_err(internal)?)
    }

    /// The rows that count, now that all have come.
    ///
    /// # Errors
    /// As [`ChangedRows::take`].
    pub fn finish(self) -> Result<HeldBatches, SqlError> {
        let mut held = self.held;
        if let Some(seen) = self.seen {
            seen.finish(&mut |_| Ok(()), &mut |batch| held.keep_found(batch))?;
        }
        if let Some(limit) = self.limit {
            held.cut(limit.of(held.row_count()));
        }
        held.in_place_order()
    }
}

/// Collects the rows of a `MERGE`. The first column is the row's position, the second the number of its action.
#[derive(Debug)]
pub struct MergedRows {
    run: Arc<StatementRun>,
    actions: Vec<ChangeKind>,
    deleted: HeldBatches,
    updated: HeldBatches,
    inserted: HeldBatches,
    /// The rows that are updated or deleted; `None` once all have come.
    seen: Option<Distinct>,
    /// Rows of the target that other transactions are changing, where that matters.
    unseen: Option<Arc<UnseenRows>>,
    /// The positions of rows of the target that keep rows of the source from being inserted, as far as other
    /// transactions may be changing them.
    idle: HeldBatches,
}

impl MergedRows {
    /// For the rows of a query; `actions` holds the kinds of its actions by their numbers.
    pub fn new(run: &Arc<StatementRun>, actions: Vec<ChangeKind>, unseen: Option<&Arc<UnseenRows>>) -> MergedRows {
        let [deleted, updated, inserted, idle] = [(); 4].map(|()| HeldBatches::new(run));
        let (seen, unseen) = (Some(Distinct::new(run)), unseen.cloned());
        MergedRows { run: Arc::clone(run), actions, deleted, updated, inserted, seen, unseen, idle }
    }

    /// Adds rows, split by their kind of change.
    ///
    /// # Errors
    /// 8672 for a row of the target that is taken a second time; 5123, 1105 and 823 of a spill file.
    pub fn take(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let numbers = batch.columns().get(1).and_then(|column| column.as_primitive_opt::<Int32Type>());
        let numbers = numbers.ok_or_else(|| SqlError::internal("rows of a MERGE without their actions"))?;
        let kind_at = |row: usize| {
            let number = numbers.is_valid(row).then(|| usize::try_from(numbers.value(row)).ok()).flatten();
            number.and_then(|number| self.actions.get(number))
        };
        let kinds: Vec<Option<ChangeKind>> = (0..batch.num_rows()).map(|row| kind_at(row).copied()).collect();
        let rows_of = |meant: Option<ChangeKind>| {
            let is_meant: BooleanArray = kinds.iter().map(|kind| Some(*kind == meant)).collect();
            match is_meant.true_count() {
                0 => Ok(None),
                _ => filter_record_batch(batch, &is_meant).map(Some).map_err(internal),
            }
        };
        if self.unseen.as_ref().is_some_and(|unseen| unseen.is_watched())
            && let Some(idle) = rows_of(None)?
        {
            self.idle.keep(places_of(&idle)?)?;
        }
        for kind in [ChangeKind::Delete, ChangeKind::Update, ChangeKind::Insert] {
            let Some(rows) = rows_of(Some(kind))? else { continue };
            if let Some(seen) = self.seen.as_mut().filter(|_| kind != ChangeKind::Insert) {
                seen.take(&places_of(&rows)?, &mut |place| once(place, self.unseen.as_ref()))?;
            }
            match kind {
                ChangeKind::Insert => self.inserted.keep(rows)?,
                _ => self.of_kind(kind).keep_found(rows)?,
            }
        }
        Ok(())
    }

    /// Checks, now that all rows have come, that no row of the target is taken twice.
    ///
    /// # Errors
    /// As [`MergedRows::take`].
    pub fn finish(&mut self) -> Result<(), SqlError> {
        let Some(seen) = self.seen.take() else { return Ok(()) };
        seen.finish(&mut |place| once(place, self.unseen.as_ref()), &mut |_| Ok(()))?;
        for found in [&mut self.deleted, &mut self.updated] {
            *found = std::mem::replace(found, HeldBatches::new(&self.run)).in_place_order()?;
        }
        Ok(())
    }

    /// The rows with a kind of change.
    pub fn of_kind(&mut self, kind: ChangeKind) -> &mut HeldBatches {
        match kind {
            ChangeKind::Delete => &mut self.deleted,
            ChangeKind::Update => &mut self.updated,
            ChangeKind::Insert => &mut self.inserted,
        }
    }

    /// The rows of the target that are changed.
    ///
    /// # Errors
    /// 1105 and 823 of a spill file; also for each batch.
    pub fn found(&mut self) -> Result<impl Iterator<Item = Result<RecordBatch, SqlError>>, SqlError> {
        Ok(self.deleted.batches()?.chain(self.updated.batches()?))
    }

    /// Rows of the target that are not changed, but keep rows of the source from being inserted, and that other
    /// transactions are changing.
    ///
    /// # Errors
    /// 1105 and 823 of a spill file.
    pub fn idle(&mut self) -> Result<Vec<RowAt>, SqlError> {
        let mut met = Vec::new();
        let Some(unseen) = &self.unseen else { return Ok(met) };
        for batch in self.idle.batches()? {
            let batch = batch?;
            let places = Places::of(&batch)?;
            for row in 0..batch.num_rows() {
                met.extend(places.place(row)?.filter(|place| unseen.has_met(place)));
            }
        }
        Ok(met)
    }

    /// The rows by their kind of change.
    pub fn into_parts(self) -> MergedParts {
        let MergedRows { deleted, updated, inserted, .. } = self;
        MergedParts { deleted, updated, inserted }
    }
}

/// The rows of a `MERGE` by their kind of change.
#[derive(Debug)]
pub struct MergedParts {
    /// Rows that are deleted.
    pub deleted: HeldBatches,
    /// Rows that are updated.
    pub updated: HeldBatches,
    /// Rows that are inserted.
    pub inserted: HeldBatches,
}

/// 8672 for a row of the target that is taken a second time. A row's state before and after an uncommitted change count
/// as one row.
fn once(place: &RowAt, unseen: Option<&Arc<UnseenRows>>) -> Result<(), SqlError> {
    match unseen.is_some_and(|unseen| unseen.has_met(place)) {
        true => Ok(()),
        false => Err(errors::MERGE_ROW_TWICE.error()),
    }
}

/// The positions of rows alone.
fn places_of(rows: &RecordBatch) -> Result<RecordBatch, SqlError> {
    rows.project(&[0]).map_err(internal)
}

fn internal(error: arrow::error::ArrowError) -> SqlError {
    SqlError::internal(error.to_string())
}

/// Columns of a table as it stores them. `columns` are positions in the table, with values in the type's carrier.
///
/// # Errors
/// 515, 2628, 8115.
pub fn stored_columns(
    target: &WriteTarget,
    columns: Vec<(usize, ArrayRef)>,
) -> Result<Vec<(usize, ArrayRef)>, SqlError> {
    let definitions = &target.table().columns;
    let stored =
        columns.into_iter().map(|(place, array)| Ok((place, column::stored(target, &definitions[place], &array)?)));
    stored.collect()
}

/// Deletes rows. `rows` is a batch of [`ChangedRows`].
///
/// # Errors
/// 3617 and what storage returns.
pub fn delete_rows(run: &StatementRun, target: &WriteTarget, rows: &RecordBatch) -> Result<(), SqlError> {
    let places = Places::of(rows)?;
    for row in 0..rows.num_rows() {
        check_cancelled(run)?;
        let deleted = target.writer().delete(&run.context, &places.row(row)?);
        deleted.map_err(|error| target.write_error(error))?;
    }
    run.note_written(rows.num_rows());
    escalate_if_due(run, target);
    Ok(())
}

/// The new values of a batch of rows: all columns of the table, as the table stores them.
pub type NewColumns<'c> = dyn Fn(&RecordBatch) -> Result<Vec<ArrayRef>, SqlError> + 'c;

/// Rows whose new values are in memory as values and as rows at the same time.
const GROUP_ROWS: usize = 256;

/// Gives rows new values. `rows` are those of [`ChangedRows`], `changed` the table's columns that change, `None` for
/// unknown ones.
///
/// ```text
///   no row may get a key that another one had    group after group: old entries out, new entries in
///   one may                                      old entries of all rows out, then new entries of all rows in
/// ```
/// In the second way, what was taken out of each row's indexes is held until all of it is put in.
///
/// # Errors
/// 511, 1105, 2601, 2627, 3617, 701 and what storage returns.
pub fn update_rows(
    run: &Arc<StatementRun>,
    target: &WriteTarget,
    rows: &mut HeldBatches,
    changed: Option<&[usize]>,
    columns: &NewColumns<'_>,
) -> Result<(), SqlError> {
    let updating = Updating { run, target, columns };
    let is_one_group = rows.row_count() <= GROUP_ROWS as u64 && !rows.is_on_disk();
    if !is_one_group && target.writer().passes_keys(changed) {
        return updating.in_two_passes(rows);
    }
    let mut group = Vec::new();
    for batch in rows.batches()? {
        updating.each(&batch?, &mut |_, update| {
            group.push(update);
            if group.len() == GROUP_ROWS {
                updating.apply(&group)?;
                group.clear();
            }
            Ok(())
        })?;
    }
    updating.apply(&group)
}

/// An update of a table's rows.
struct Updating<'u> {
    run: &'u Arc<StatementRun>,
    target: &'u WriteTarget,
    columns: &'u NewColumns<'u>,
}

impl Updating<'_> {
    /// Calls `take` for the rows of a batch, with their positions in it.
    fn each(
        &self,
        batch: &RecordBatch,
        take: &mut dyn FnMut(usize, RowUpdate) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let types = || self.target.table().columns.iter().map(|column| column.sql_type);
        let (places, columns) = (Places::of(batch)?, (self.columns)(batch)?);
        for row in 0..batch.num_rows() {
            check_cancelled(self.run)?;
            let values =
                columns.iter().zip(types()).map(|(array, sql_type)| array_value(array.as_ref(), row, sql_type));
            let values = values.collect::<Result<Vec<Value>, SqlError>>()?;
            let image = row_image(types(), &values).map_err(|error| SqlError::internal(error.to_string()))?;
            let partition = self.target.partition_of_row(&values);
            take(row, RowUpdate { at: places.row(row)?, partition, row: image })?;
        }
        Ok(())
    }

    fn apply(&self, updates: &[RowUpdate]) -> Result<(), SqlError> {
        let updated = self.target.writer().update(&self.run.context, updates, &mut || self.run.is_cancelled());
        updated.map_err(|error| self.target.write_error(error))?;
        self.run.note_written(updates.len());
        escalate_if_due(self.run, self.target);
        check_cancelled(self.run)
    }

    fn in_two_passes(&self, rows: &mut HeldBatches) -> Result<(), SqlError> {
        let (writer, context) = (self.target.writer(), &self.run.context);
        let mut taken_out = HeldBatches::new(self.run);
        for batch in rows.batches()? {
            let mut of_batch = Vec::new();
            self.each(&batch?, &mut |_, update| {
                let taken = writer.take_out(context, &update).map_err(|error| self.target.write_error(error))?;
                of_batch.push(taken);
                Ok(())
            })?;
            taken_out.keep(self.batch_of(&of_batch)?)?;
            self.run.note_written(of_batch.len() / 2);
            escalate_if_due(self.run, self.target);
        }
        let mut taken_out = taken_out.into_batches()?;
        for batch in rows.batches()? {
            let taken_out = taken_out.next().unwrap_or_else(|| Err(lost()))?;
            let nows = Places::of(&taken_out)?;
            let entries = taken_out.columns().get(1).and_then(|column| column.as_binary_view_opt()).ok_or_else(lost)?;
            let rows = taken_out.num_rows();
            self.each(&batch?, &mut |row, update| {
                let entries = entries.value(row).iter().map(|entry| *entry != 0).collect();
                let taken_out = TakenOut { now: nows.place(row)?, entries };
                writer.put_in(context, &update, taken_out).map_err(|error| self.target.write_error(error))
            })?;
            self.run.note_written(rows - rows / 2);
            escalate_if_due(self.run, self.target);
        }
        Ok(())
    }

    /// What was taken out of the indexes of a batch's rows: where they are now, and a byte for each index.
    fn batch_of(&self, taken_out: &[TakenOut]) -> Result<RecordBatch, SqlError> {
        let nows = places_array(self.target.table(), taken_out.iter().map(|taken| taken.now.as_ref()));
        let bytes = |taken: &TakenOut| taken.entries.iter().map(|entry| u8::from(*entry)).collect::<Vec<u8>>();
        let entries: ArrayRef = Arc::new(BinaryViewArray::from_iter_values(taken_out.iter().map(bytes)));
        let columns = [("now", nows.map_err(sql_error_of)?, true), ("entries", entries, false)];
        RecordBatch::try_from_iter_with_nullable(columns).map_err(internal)
    }
}

fn lost() -> SqlError {
    SqlError::internal("rows of an UPDATE without what was taken out of their indexes")
}

/// The keys of unique indexes are locked while rows change.
fn escalate_if_due(run: &StatementRun, target: &WriteTarget) {
    if let Some(locks) = target.row_locks(run) {
        locks.escalate_if_due();
    }
}

fn check_cancelled(run: &StatementRun) -> Result<(), SqlError> {
    if run.is_cancelled() { Err(SqlError::cancelled()) } else { Ok(()) }
}
