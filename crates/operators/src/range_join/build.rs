//! The build side: its rows, sorted by the compared value, and which of them have had a partner.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use futures::TryStreamExt;
use parking_lot::Mutex;

use super::conditions::{Ranges, Way};
use super::form_of;
use super::keys::{Keys, SortedRows};
use super::reach::Reach;
use crate::stop::Stop;

/// Rows that are held, ready for searches.
pub(super) struct BuildSide {
    pub(super) rows: RecordBatch,
    /// The rows in the order of the key of the join's first bounds.
    pub(super) sorted: SortedRows,
    /// The rows in the order of another value, which has a bound of its own.
    pub(super) other: Option<Other>,
    /// Which rows have had a partner, if that is needed.
    pub(super) marks: Option<Marks>,
    /// Workers that have not read their part of the probe side to its end.
    pub(super) probing: AtomicUsize,
    _held: MemoryReservation,
}

/// The rows in the order of another value.
pub(super) struct Other {
    way: Way,
    includes: bool,
    sorted: SortedRows,
    /// By position in the first order: a row's rank in this order, from the bottom or from the top, from 1 on; 0 for a
    /// row without the value.
    pub(super) reach: Reach,
}

impl Other {
    fn new(keys: Keys, way: Way, includes: bool, first: &SortedRows) -> Other {
        let mut numbers = vec![0_u32; keys.len()];
        let sorted = SortedRows::new(keys);
        let count = sorted.rows().len();
        for (place, row) in sorted.rows().iter().enumerate() {
            let number = if way == Way::Above { place + 1 } else { count - place };
            numbers[*row as usize] = u32::try_from(number).expect("no more rows than places");
        }
        let by_first: Vec<u32> = first.rows().iter().map(|row| numbers[*row as usize]).collect();
        Other { way, includes, sorted, reach: Reach::new(&by_first) }
    }

    /// The least rank of a row that is within the bound `values[at]`.
    pub(super) fn least(&self, values: &Keys, at: usize) -> u32 {
        let count = self.sorted.rows().len();
        let least = match self.way {
            Way::Above => self.sorted.count_below(values, at, !self.includes) + 1,
            Way::Below => count - self.sorted.count_below(values, at, self.includes) + 1,
        };
        u32::try_from(least).unwrap_or(u32::MAX)
    }
}

/// Which rows of the build side have had a partner.
pub(super) struct Marks {
    bits: Vec<AtomicU64>,
    /// The sum of all workers' stretches, if whole stretches are marked.
    stretches: Mutex<Option<Stretches>>,
}

/// For each position of the sorted rows, how many more stretches cover it than the one before; and the memory for that.
pub(super) struct Stretches {
    pub(super) changes: Vec<i64>,
    pub(super) _held: MemoryReservation,
}

impl Marks {
    fn bytes(rows: usize) -> usize {
        rows.div_ceil(64) * size_of::<u64>()
    }

    fn new(rows: usize) -> Marks {
        let bits = (0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Marks { bits, stretches: Mutex::default() }
    }

    pub(super) fn set(&self, row: u32) {
        let (word, bit) = (&self.bits[row as usize / 64], 1 << (row % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(super) fn is_set(&self, row: u32) -> bool {
        self.bits[row as usize / 64].load(Ordering::Relaxed) & (1 << (row % 64)) != 0
    }

    /// Adds the stretches of one worker.
    pub(super) fn add_stretches(&self, own: Stretches) {
        let mut all = self.stretches.lock();
        match &mut *all {
            Some(all) => all.changes.iter_mut().zip(own.changes).for_each(|(all, change)| *all += change),
            None => *all = Some(own),
        }
    }

    /// Marks the rows that stretches cover.
    pub(super) fn mark_stretches(&self, sorted: &SortedRows) {
        let Some(all) = self.stretches.lock().take() else { return };
        let mut depth = 0;
        for (row, change) in sorted.rows().iter().zip(all.changes) {
            depth += change;
            if depth > 0 {
                self.set(*row);
            }
        }
    }
}

/// The inputs for making a build side.
pub(super) struct Builder<'r> {
    pub(super) ranges: &'r Ranges,
    pub(super) marks: bool,
    pub(super) workers: usize,
    pub(super) stop: Stop,
}

/// The result of making a build side.
pub(super) enum Built {
    /// It fits.
    Whole(Arc<BuildSide>),
    /// The rows read, for whose sorting there was no memory, and the stream of the rest.
    TooLarge(HeldRows, SendableRecordBatchStream),
}

/// Rows that are in memory until they are written to a file.
pub(super) struct HeldRows {
    batches: Vec<RecordBatch>,
    held: MemoryReservation,
}

impl HeldRows {
    /// Takes over `held`, which from now on is for these rows only. It is resized to them even beyond the memory limit.
    pub(super) fn new(batches: Vec<RecordBatch>, held: MemoryReservation) -> HeldRows {
        held.resize(batches.iter().map(RecordBatch::get_array_memory_size).sum());
        HeldRows { batches, held }
    }

    /// Calls `give` with each batch, and releases its memory afterwards.
    ///
    /// # Errors
    /// The error of `give`.
    pub(super) fn give(self, mut give: impl FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        for batch in self.batches {
            give(&batch)?;
            self.held.shrink(batch.get_array_memory_size());
        }
        Ok(())
    }
}

/// Bytes reserved for each batch: its rows, their concatenated copy, and the compared values; and for each row the sort
/// keys and positions.
pub(super) fn weight(batch: &RecordBatch) -> usize {
    const ROW_BYTES: usize = 2 * SortedRows::SORTING_BYTES + 6 * size_of::<u32>();
    3 * batch.get_array_memory_size() + batch.num_rows() * ROW_BYTES
}

impl Builder<'_> {
    /// Reads all rows and sorts them, if there is memory for them.
    ///
    /// # Errors
    /// The input's errors; the cancellation of the statement.
    pub(super) async fn build(self, mut input: SendableRecordBatchStream, held: MemoryReservation) -> Result<Built> {
        let (schema, mut batches) = (input.schema(), Vec::new());
        while let Some(batch) = input.try_next().await? {
            let has_room = held.try_grow(weight(&batch)).is_ok();
            batches.push(batch);
            if !has_room {
                return Ok(Built::TooLarge(HeldRows::new(batches, held), input));
            }
        }
        drop(input);
        self.sorted(&schema, &batches, held).map(|build| Built::Whole(Arc::new(build)))
    }

    /// Sorts rows whose [`weight`] is held.
    ///
    /// # Errors
    /// A value that cannot be computed, "resources exhausted" if more is kept than was reserved, the cancellation of
    /// the statement.
    pub(super) fn sorted(
        self,
        schema: &SchemaRef,
        batches: &[RecordBatch],
        held: MemoryReservation,
    ) -> Result<BuildSide> {
        let rows = concat_batches(schema, batches)?;
        let count = rows.num_rows();
        if u32::try_from(count).is_err() {
            let text = format!("a join by ranges holds {count} rows, and no more than {} fit", u32::MAX);
            return Err(DataFusionError::ResourcesExhausted(text));
        }
        self.stop.check()?;
        let mut kept = rows.get_array_memory_size();
        let mut keys = |expr: &Arc<dyn PhysicalExpr>| {
            let array: ArrayRef = expr.evaluate(&rows)?.into_array(count)?;
            let keys = form_of(expr, &rows.schema())?.keys(&array)?;
            kept += keys.bytes() + count * SortedRows::SORTED_BYTES;
            Ok::<Keys, DataFusionError>(keys)
        };
        let sorted = SortedRows::new(keys(&self.ranges.key)?);
        self.stop.check()?;
        let other =
            self.ranges.other.as_ref().map(|bound| {
                Ok::<_, DataFusionError>(Other::new(keys(&bound.key)?, bound.way, bound.includes, &sorted))
            });
        let other = other.transpose()?;
        kept += other.as_ref().map_or(0, |_| Reach::bytes(count));
        let marks = self.marks.then(|| Marks::new(count));
        kept += marks.as_ref().map_or(0, |_| Marks::bytes(count));
        held.try_resize(kept)?;
        let probing = AtomicUsize::new(self.workers);
        Ok(BuildSide { rows, sorted, other, marks, probing, _held: held })
    }
}
