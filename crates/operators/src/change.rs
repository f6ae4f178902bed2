//! The rows of an `UPDATE` or `DELETE`: held until all are known, then changed one after the other.
//!
//! A statement decides what it changes before it changes anything. So a row that its own change moves behind the scan
//! is not met again (the Halloween problem). The rows wait in memory, which is charged to the statement's account: a
//! `DELETE` keeps sixteen bytes a row, an `UPDATE` the new values of its rows.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Int32Type};
use hobt_access::AccessError;
use hobt_base::{SqlError, errors};
use hobt_catalog::row_image;
use hobt_engine::{RowAt, RowUpdate};
use hobt_functions::array_value;
use hobt_types::Value;

use super::insert::{WriteTarget, column};
use super::places::Places;
use hobt_table::{ChangeKind, RowLimit, StatementRun, UnseenRows};

/// About what one row's position takes in the set of those seen.
const SEEN_BYTES: u64 = 32;

/// Batches that a statement holds in its memory account until it has changed a table.
#[derive(Debug)]
pub struct HeldBatches {
    run: Arc<StatementRun>,
    target: WriteTarget,
    batches: Vec<RecordBatch>,
    rows: u64,
    held_bytes: u64,
}

impl HeldBatches {
    /// Holds no batch yet; for a change of `target`.
    pub fn new(run: &Arc<StatementRun>, target: &WriteTarget) -> HeldBatches {
        let (run, target) = (Arc::clone(run), target.clone());
        HeldBatches { run, target, batches: Vec::new(), rows: 0, held_bytes: 0 }
    }

    /// Keeps a batch.
    ///
    /// # Errors
    /// 701.
    pub fn keep(&mut self, batch: RecordBatch) -> Result<(), SqlError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = compact(batch)?;
        self.hold(bytes_of(&batch)?)?;
        self.rows += batch.num_rows() as u64;
        self.batches.push(batch);
        Ok(())
    }

    /// Charges the memory of columns that were computed for a batch and live as long as it.
    ///
    /// # Errors
    /// 701.
    pub fn charge(&mut self, batch: usize, columns: &[(usize, ArrayRef)]) -> Result<(), SqlError> {
        let own = self.batches[batch].columns();
        let made = columns.iter().filter(|(_, array)| !own.iter().any(|column| Arc::ptr_eq(column, array)));
        let bytes: usize = made.map(|(_, array)| array.get_array_memory_size()).sum();
        self.hold(bytes as u64)
    }

    /// The batches, none of them empty.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// How many rows they have.
    pub fn row_count(&self) -> u64 {
        self.rows
    }

    /// Keeps only the first `rows` rows.
    fn cut(&mut self, rows: u64) {
        self.rows = self.rows.min(rows);
        let mut left = self.rows;
        for batch in &mut self.batches {
            let rows = left.min(batch.num_rows() as u64);
            left -= rows;
            *batch = batch.slice(0, usize::try_from(rows).expect("at most the batch's rows"));
        }
        self.batches.retain(|batch| batch.num_rows() > 0);
    }

    fn hold(&mut self, bytes: u64) -> Result<(), SqlError> {
        let grown = self.run.context.memory().grow(bytes);
        grown.map_err(|error| self.target.sql_error(AccessError::OutOfMemory(error)))?;
        self.held_bytes += bytes;
        Ok(())
    }
}

impl Drop for HeldBatches {
    fn drop(&mut self) {
        self.run.context.memory().shrink(self.held_bytes);
    }
}

/// Collects the rows that a statement changes. The first column is the row's position.
#[derive(Debug)]
pub struct ChangedRows {
    held: HeldBatches,
    /// The rows seen, where a row may come more than once.
    seen: Option<HashSet<RowAt>>,
    limit: Option<RowLimit>,
}

impl ChangedRows {
    /// For a query over `target`. `repeats`: it may give a row more than once. `limit`: how many rows count.
    pub fn new(run: &Arc<StatementRun>, target: &WriteTarget, repeats: bool, limit: Option<RowLimit>) -> ChangedRows {
        ChangedRows { held: HeldBatches::new(run, target), seen: repeats.then(HashSet::new), limit }
    }

    /// Adds rows. A row without a position, or one that has come before, is left out.
    ///
    /// # Errors
    /// 701.
    pub fn take(&mut self, batch: RecordBatch) -> Result<(), SqlError> {
        if matches!(self.limit, Some(RowLimit::Rows(limit)) if self.held.row_count() >= limit) {
            return Ok(());
        }
        let places = Places::of(&batch)?;
        if places.null_count() == 0 && self.seen.is_none() {
            return self.held.keep(batch);
        }
        let is_new = (0..batch.num_rows()).map(|row| {
            Ok(match &mut self.seen {
                Some(seen) => places.place(row)?.is_some_and(|place| seen.insert(place)),
                None => places.is_somewhere(row),
            })
        });
        let is_new = BooleanArray::from(is_new.collect::<Result<Vec<bool>, SqlError>>()?);
        if self.seen.is_some() {
            self.held.hold(is_new.true_count() as u64 * SEEN_BYTES)?;
        }
        self.held.keep(filter_record_batch(&batch, &is_new).map_err(internal)?)
    }

    /// The rows that count, now that all have come.
    pub fn finish(self) -> HeldBatches {
        let mut held = self.held;
        if let Some(limit) = self.limit {
            held.cut(limit.of(held.rows));
        }
        held
    }
}

/// Collects the rows of a `MERGE`. The first column is the row's position, the second the number of its action.
#[derive(Debug)]
pub struct MergedRows {
    held: HeldBatches,
    actions: Vec<ChangeKind>,
    /// The kind of change for each batch held.
    kinds: Vec<ChangeKind>,
    /// The rows that are updated or deleted.
    seen: HashSet<RowAt>,
    /// Rows of the target that other transactions are changing, where that matters.
    unseen: Option<Arc<UnseenRows>>,
    /// Rows of the target that keep rows of the source from being inserted, as far as other transactions may be
    /// changing them.
    idle: Vec<RowAt>,
}

impl MergedRows {
    /// For a change of `target`; `actions` holds the kinds of its actions by their numbers.
    pub fn new(
        run: &Arc<StatementRun>,
        target: &WriteTarget,
        actions: Vec<ChangeKind>,
        unseen: Option<&Arc<UnseenRows>>,
    ) -> MergedRows {
        let (held, unseen) = (HeldBatches::new(run, target), unseen.cloned());
        MergedRows { held, actions, kinds: Vec::new(), seen: HashSet::new(), unseen, idle: Vec::new() }
    }

    /// Adds rows, split by their kind of change.
    ///
    /// # Errors
    /// 701; 8672 for a row of the target that is taken a second time.
    pub fn take(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let places = Places::of(batch)?;
        let numbers = batch.columns().get(1).and_then(|column| column.as_primitive_opt::<Int32Type>());
        let numbers = numbers.ok_or_else(|| SqlError::internal("rows of a MERGE without their actions"))?;
        let kind_at = |row: usize| {
            let number = numbers.is_valid(row).then(|| usize::try_from(numbers.value(row)).ok()).flatten();
            number.and_then(|number| self.actions.get(number))
        };
        let kinds: Vec<Option<ChangeKind>> = (0..batch.num_rows()).map(|row| kind_at(row).copied()).collect();
        if self.unseen.as_ref().is_some_and(|unseen| unseen.is_watched()) {
            for row in (0..batch.num_rows()).filter(|row| kinds[*row].is_none()) {
                self.held.hold(SEEN_BYTES)?;
                self.idle.extend(places.place(row)?);
            }
        }
        for kind in [ChangeKind::Delete, ChangeKind::Update, ChangeKind::Insert] {
            let is_meant: BooleanArray = kinds.iter().map(|known| Some(*known == Some(kind))).collect();
            if is_meant.true_count() == 0 {
                continue;
            }
            if kind != ChangeKind::Insert {
                self.held.hold(is_meant.true_count() as u64 * SEEN_BYTES)?;
                for row in (0..batch.num_rows()).filter(|&row| is_meant.value(row)) {
                    let place = places.row(row)?;
                    // A row's state before and after an uncommitted change count as one row.
                    let is_of_two_moments = || self.unseen.as_ref().is_some_and(|unseen| unseen.has_met(&place));
                    if self.seen.contains(&place) && !is_of_two_moments() {
                        return Err(errors::MERGE_ROW_TWICE.error());
                    }
                    self.seen.insert(place);
                }
            }
            self.held.keep(filter_record_batch(batch, &is_meant).map_err(internal)?)?;
            self.kinds.push(kind);
        }
        Ok(())
    }

    /// As [`HeldBatches::charge`].
    ///
    /// # Errors
    /// 701.
    pub fn charge(&mut self, batch: usize, columns: &[(usize, ArrayRef)]) -> Result<(), SqlError> {
        self.held.charge(batch, columns)
    }

    /// The batches, none of them empty, with their kinds of change.
    pub fn pieces(&self) -> impl Iterator<Item = (ChangeKind, &RecordBatch)> {
        self.kinds.iter().copied().zip(self.held.batches())
    }

    /// Rows of the target that are not changed but keep rows of the source from being inserted: all of them if other
    /// transactions are changing any row.
    pub fn idle(&self) -> &[RowAt] {
        &self.idle
    }

    /// How many rows there are.
    pub fn row_count(&self) -> u64 {
        self.held.row_count()
    }
}

fn internal(error: arrow::error::ArrowError) -> SqlError {
    SqlError::internal(error.to_string())
}

/// The batch without the bytes of other rows that its text and binary buffers keep alive.
fn compact(batch: RecordBatch) -> Result<RecordBatch, SqlError> {
    let is_loose = |used: usize, buffers: usize| buffers > 2 * used + 1024;
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        if let Some(texts) = column.as_string_view_opt() {
            let buffers = texts.data_buffers().iter().map(|buffer| buffer.len()).sum();
            if is_loose(texts.total_buffer_bytes_used(), buffers) {
                return Arc::new(texts.gc());
            }
        } else if let Some(binaries) = column.as_binary_view_opt() {
            let buffers = binaries.data_buffers().iter().map(|buffer| buffer.len()).sum();
            if is_loose(binaries.total_buffer_bytes_used(), buffers) {
                return Arc::new(binaries.gc());
            }
        }
        Arc::clone(column)
    });
    RecordBatch::try_new(batch.schema(), columns.collect()).map_err(internal)
}

/// Bytes of a batch's rows. Buffers shared with other batches are counted once for each batch.
fn bytes_of(batch: &RecordBatch) -> Result<u64, SqlError> {
    let mut bytes = 0;
    for column in batch.columns() {
        bytes += match column.data_type() {
            DataType::Utf8View | DataType::BinaryView => column.get_array_memory_size(),
            _ => column.to_data().get_slice_memory_size().map_err(internal)?,
        };
    }
    Ok(bytes as u64)
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
    Ok(())
}

/// Gives rows new values. Each piece is a batch of [`ChangedRows`] and all columns of the table, as the table stores
/// them.
///
/// # Errors
/// 511, 1105, 2601, 2627, 3617, 701 and what storage returns.
pub fn update_rows<'b>(
    run: &StatementRun,
    target: &WriteTarget,
    pieces: impl IntoIterator<Item = (&'b RecordBatch, Result<Vec<ArrayRef>, SqlError>)>,
) -> Result<(), SqlError> {
    let types = || target.table().columns.iter().map(|column| column.sql_type);
    // A key may pass from one row to another, so all rows go through the indexes together. A heap without indexes takes
    // rows as they come.
    let together = target.writer().has_indexes() || target.table().is_clustered();
    let mut updates = Vec::new();
    let mut held = Held { run, bytes: 0 };
    for (rows, columns) in pieces {
        let (places, columns) = (Places::of(rows)?, columns?);
        for row in 0..rows.num_rows() {
            let values =
                columns.iter().zip(types()).map(|(array, sql_type)| array_value(array.as_ref(), row, sql_type));
            let values = values.collect::<Result<Vec<Value>, SqlError>>()?;
            let image = row_image(types(), &values).map_err(|error| SqlError::internal(error.to_string()))?;
            if together {
                held.hold(target, UPDATE_BYTES + 2 * image.byte_count() as u64)?;
            }
            updates.push(RowUpdate { at: places.row(row)?, partition: target.partition_of_row(&values), row: image });
            if !together {
                apply(run, target, &updates)?;
                updates.clear();
            }
        }
    }
    apply(run, target, &updates)
}

/// About what a row to be updated takes beside its values.
const UPDATE_BYTES: u64 = 256;

/// Memory of rows that are to be updated, until they are.
struct Held<'r> {
    run: &'r StatementRun,
    bytes: u64,
}

impl Held<'_> {
    fn hold(&mut self, target: &WriteTarget, bytes: u64) -> Result<(), SqlError> {
        let grown = self.run.context.memory().grow(bytes);
        grown.map_err(|error| target.sql_error(AccessError::OutOfMemory(error)))?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.run.context.memory().shrink(self.bytes);
    }
}

fn apply(run: &StatementRun, target: &WriteTarget, updates: &[RowUpdate]) -> Result<(), SqlError> {
    let updated = target.writer().update(&run.context, updates, &mut || run.is_cancelled());
    updated.map_err(|error| target.write_error(error))?;
    check_cancelled(run)
}

fn check_cancelled(run: &StatementRun) -> Result<(), SqlError> {
    if run.is_cancelled() { Err(SqlError::cancelled()) } else { Ok(()) }
}
