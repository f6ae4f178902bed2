//! Batches that a statement holds until it needs them: in memory, or in a spill file if they are many.
//!
//! ```text
//!   keep ── few ──► memory, charged to the statement ──┐
//!     └─ more than a share of the memory, or than is   ├─► batches(): in their order, one at a time, any number of times
//!        left of it: all of them ──► one spill file ───┘
//! ```
//! Each batch comes back as it was kept. Nothing here fails for want of memory; a full disk is 1105, as for sorts.
//!
//! `distinct` finds rows that come twice, without holding all positions; `place_order` sorts rows by position.

mod charge;
mod distinct;
mod file;
mod part;
mod place_order;
mod source;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use hobt_base::SqlError;

use hobt_table::StatementRun;

pub(crate) use charge::Charge;
pub(crate) use distinct::Distinct;
use file::{BatchFile, FileBatches, arrow_error};
use place_order::PlaceOrder;

/// Batches that a statement holds. Those of one collection have equal columns.
#[derive(Debug)]
pub struct HeldBatches {
    run: Arc<StatementRun>,
    charge: Charge,
    batches: VecDeque<RecordBatch>,
    /// Where they are if they are not in memory.
    file: Option<BatchFile>,
    rows: u64,
    /// About the bytes of all batches.
    bytes: u64,
    /// The order of rows to be changed.
    order: PlaceOrder,
}

impl HeldBatches {
    /// Holds no batch yet.
    pub fn new(run: &Arc<StatementRun>) -> HeldBatches {
        let (charge, batches) = (Charge::new(run), VecDeque::new());
        HeldBatches {
            run: Arc::clone(run),
            charge,
            batches,
            file: None,
            rows: 0,
            bytes: 0,
            order: PlaceOrder::default(),
        }
    }

    /// What one collection of a statement may take of memory before it goes to disk, in bytes.
    pub fn memory_share(run: &StatementRun) -> u64 {
        Charge::share(run)
    }

    /// Keeps a batch, unless it is empty.
    ///
    /// # Errors
    /// 5123, 1105 and 823 of a spill file.
    ///
    /// # Panics
    /// Batches have been taken from a file.
    pub fn keep(&mut self, batch: RecordBatch) -> Result<(), SqlError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = compact(batch)?;
        let bytes = bytes_of(&batch)?;
        self.rows += batch.num_rows() as u64;
        self.bytes += bytes;
        if self.file.is_none() {
            if self.charge.grow(bytes) {
                self.batches.push_back(batch);
                return Ok(());
            }
            self.go_to_disk(&batch)?;
        }
        self.append(&batch)
    }

    /// As [`HeldBatches::keep`], for rows whose first column is their position.
    pub(crate) fn keep_found(&mut self, batch: RecordBatch) -> Result<(), SqlError> {
        self.order.note(&batch)?;
        self.keep(batch)
    }

    /// The rows of [`HeldBatches::keep_found`] in the order of their positions, if they are on disk and come from all
    /// over the table.
    pub(crate) fn in_place_order(self) -> Result<HeldBatches, SqlError> {
        if !self.is_on_disk() || !self.order.is_scattered() {
            return Ok(self);
        }
        let run = Arc::clone(&self.run);
        let mut sorted = HeldBatches::new(&run);
        place_order::sort(&run, self, &mut |batch| sorted.keep(batch))?;
        Ok(sorted)
    }

    /// Keeps a batch in the file, whatever memory there is.
    pub(crate) fn keep_on_disk(&mut self, batch: RecordBatch) -> Result<(), SqlError> {
        let batch = compact(batch)?;
        self.rows += batch.num_rows() as u64;
        self.bytes += bytes_of(&batch)?;
        if self.file.is_none() {
            self.go_to_disk(&batch)?;
        }
        self.append(&batch)
    }

    fn append(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        if self.run.is_cancelled() {
            return Err(SqlError::cancelled());
        }
        self.file.as_mut().map_or(Ok(()), |file| file.append(batch))
    }

    /// Moves the batches in memory to a file, for batches like `next`.
    fn go_to_disk(&mut self, next: &RecordBatch) -> Result<(), SqlError> {
        let schema = self.batches.front().unwrap_or(next).schema();
        self.file = Some(BatchFile::create(self.run.instance.spills(), &schema)?);
        while let Some(batch) = self.batches.pop_front() {
            self.append(&batch)?;
        }
        self.charge.shrink(self.charge.bytes());
        Ok(())
    }

    /// The batches, none of them empty. None can be kept any more if they are on disk.
    ///
    /// # Errors
    /// 1105 and 823 of a spill file; also for each batch.
    pub fn batches(&mut self) -> Result<Batches<'_>, SqlError> {
        let left = self.rows;
        Ok(Batches(match &mut self.file {
            Some(file) => Source::File(Box::new(RowsOfFile { batches: file.read()?, left })),
            None => Source::Memory(self.batches.iter(), left),
        }))
    }

    /// As [`HeldBatches::batches`], each of which is released once it is taken.
    ///
    /// # Errors
    /// As [`HeldBatches::batches`].
    pub fn into_batches(mut self) -> Result<IntoBatches, SqlError> {
        let (batches, left) = (self.file.as_mut().map(BatchFile::read).transpose()?, self.rows);
        let file = batches.map(|batches| RowsOfFile { batches, left });
        Ok(IntoBatches { held: self, file, left })
    }

    /// The batches, which any number of places read.
    ///
    /// # Errors
    /// 1105 and 823 of a spill file.
    pub(crate) fn shared(mut self) -> Result<SharedBatches, SqlError> {
        let reopen = self.file.as_mut().map(BatchFile::reopen).transpose()?;
        Ok(SharedBatches { reopen: reopen.map(|reopen| Box::new(reopen) as Reopen), held: self })
    }

    /// How many rows they have.
    pub fn row_count(&self) -> u64 {
        self.rows
    }

    /// About the bytes of all batches that were kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether they are in a file.
    pub fn is_on_disk(&self) -> bool {
        self.file.is_some()
    }

    /// Gives back only the first `rows` rows from now on.
    pub fn cut(&mut self, rows: u64) {
        self.rows = self.rows.min(rows);
    }
}

/// The batches of a file.
struct RowsOfFile {
    batches: FileBatches,
    /// Rows that are still to be given.
    left: u64,
}

impl Iterator for RowsOfFile {
    type Item = Result<RecordBatch, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = &mut self.batches;
        next_of(&mut self.left, || batches.next().map(|batch| batch.map_err(arrow_error)))
    }
}

/// The batches of [`HeldBatches::batches`].
pub struct Batches<'h>(Source<'h>);

enum Source<'h> {
    /// With the rows that are still to be given.
    Memory(std::collections::vec_deque::Iter<'h, RecordBatch>, u64),
    File(Box<RowsOfFile>),
}

impl Iterator for Batches<'_> {
    type Item = Result<RecordBatch, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Memory(batches, left) => next_of(left, || batches.next().cloned().map(Ok)),
            Source::File(batches) => batches.next(),
        }
    }
}

/// The batches of [`HeldBatches::into_batches`].
pub struct IntoBatches {
    held: HeldBatches,
    file: Option<RowsOfFile>,
    /// Rows in memory that are still to be given.
    left: u64,
}

impl Iterator for IntoBatches {
    type Item = Result<RecordBatch, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(batches) = &mut self.file {
            return batches.next();
        }
        let held = &mut self.held;
        next_of(&mut self.left, || {
            held.batches.pop_front().map(|batch| {
                held.charge.shrink(bytes_of(&batch)?);
                Ok(batch)
            })
        })
    }
}

type Reopen = Box<dyn Fn() -> Result<FileBatches, SqlError> + Send + Sync>;

/// Batches that any number of places read.
pub(crate) struct SharedBatches {
    held: HeldBatches,
    /// Reads the file from its beginning, if they are in one.
    reopen: Option<Reopen>,
}

impl SharedBatches {
    /// All batches, none of them empty.
    ///
    /// # Errors
    /// 1105 and 823 of a spill file; also for each batch.
    pub(crate) fn read(self: &Arc<SharedBatches>) -> Result<SharedReading, SqlError> {
        let (batches, left) = (self.reopen.as_ref().map(|reopen| reopen()).transpose()?, self.held.rows);
        let file = batches.map(|batches| RowsOfFile { batches, left });
        Ok(SharedReading { of: Arc::clone(self), file, next: 0 })
    }
}

/// The batches of [`SharedBatches::read`].
pub(crate) struct SharedReading {
    of: Arc<SharedBatches>,
    file: Option<RowsOfFile>,
    /// The next batch in memory.
    next: usize,
}

impl Iterator for SharedReading {
    type Item = Result<RecordBatch, SqlError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(batches) = &mut self.file {
            return batches.next();
        }
        let batch = self.of.held.batches.get(self.next)?;
        self.next += 1;
        Some(Ok(batch.clone()))
    }
}

/// The next batch, or as many of its rows as are left to be given.
fn next_of(
    left: &mut u64,
    next: impl FnOnce() -> Option<Result<RecordBatch, SqlError>>,
) -> Option<Result<RecordBatch, SqlError>> {
    if *left == 0 {
        return None;
    }
    let batch = next().unwrap_or_else(|| Err(SqlError::internal("fewer rows than were kept")));
    Some(batch.inspect_err(|_| *left = 0).map(|batch| {
        let rows = usize::try_from(*left).unwrap_or(usize::MAX).min(batch.num_rows());
        *left -= rows as u64;
        if rows < batch.num_rows() { batch.slice(0, rows) } else { batch }
    }))
}

/// The texts or binary values of a column: the bytes of its rows, and of the buffers that hold them, which other rows
/// may share.
fn value_bytes(column: &ArrayRef) -> Option<(usize, usize)> {
    let sum = |buffers: &[Buffer]| buffers.iter().map(Buffer::len).sum();
    if let Some(texts) = column.as_string_view_opt() {
        return Some((texts.total_buffer_bytes_used(), sum(texts.data_buffers())));
    }
    column.as_binary_view_opt().map(|values| (values.total_buffer_bytes_used(), sum(values.data_buffers())))
}

/// The batch without the bytes of other rows that its text and binary buffers keep alive.
pub(crate) fn compact(batch: RecordBatch) -> Result<RecordBatch, SqlError> {
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        let is_loose = value_bytes(column).is_some_and(|(used, buffers)| buffers > 2 * used + 1024);
        match (is_loose, column.as_string_view_opt(), column.as_binary_view_opt()) {
            (true, Some(texts), _) => Arc::new(texts.gc()),
            (true, _, Some(values)) => Arc::new(values.gc()),
            _ => Arc::clone(column),
        }
    });
    // Rows may have no columns: `ROW_NUMBER` needs none.
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options).map_err(arrow_error)
}

/// Bytes of a batch's rows. A column that it has twice counts once; buffers shared with other batches are counted once
/// for each batch, but not beyond what the rows use of them.
pub(crate) fn bytes_of(batch: &RecordBatch) -> Result<u64, SqlError> {
    let mut bytes = 0;
    for (place, column) in batch.columns().iter().enumerate() {
        if batch.columns()[..place].iter().any(|known| Arc::ptr_eq(known, column)) {
            continue;
        }
        bytes += match value_bytes(column) {
            Some((used, buffers)) => size_of::<u128>() * column.len() + used.min(buffers),
            None => column.to_data().get_slice_memory_size().map_err(arrow_error)?,
        };
    }
    Ok(bytes as u64)
}
