//! The build side: its rows, sorted by what the join compares, and which of them have had a partner.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use futures::TryStreamExt;
use parking_lot::Mutex;

use super::conditions::{Ranges, Way};
use super::keys::{KeyForm, Keys, SortedRows};
use super::reach::Reach;
use super::{Stop, form_of};

/// Rows that are held, ready to be searched.
pub(super) struct BuildSide {
    pub(super) rows: RecordBatch,
    /// Them by the value that the join's first bounds are of.
    pub(super) sorted: SortedRows,
    /// Which of them are within the bound of another value.
    pub(super) other: Option<Other>,
    /// Which have had a partner, where that is to be known.
    pub(super) marks: Option<Marks>,
    /// Workers that have not read their part of the other side to its end.
    pub(super) probing: AtomicUsize,
    _held: MemoryReservation,
}

/// The rows by another value.
pub(super) struct Other {
    way: Way,
    includes: bool,
    sorted: SortedRows,
    /// By the places of the first order: how far up, or down, a row is in this one, from 1 on; 0 of one without the
    /// value.
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

    /// What a row's number is at least that is within the bound `values[at]`.
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
    /// How many more stretches of the sorted rows cover a place than the one before, where whole stretches are marked.
    stretches: Mutex<Vec<i64>>,
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
    pub(super) fn add_stretches(&self, changes: &[i64]) {
        let mut all = self.stretches.lock();
        if all.len() < changes.len() {
            all.resize(changes.len(), 0);
        }
        all.iter_mut().zip(changes).for_each(|(all, change)| *all += change);
    }

    /// Marks the rows that stretches cover.
    pub(super) fn mark_stretches(&self, sorted: &SortedRows) {
        let all = std::mem::take(&mut *self.stretches.lock());
        let mut depth = 0;
        for (row, change) in sorted.rows().iter().zip(all) {
            depth += change;
            if depth > 0 {
                self.set(*row);
            }
        }
    }
}

/// What a build side is made with.
pub(super) struct Builder<'r> {
    pub(super) ranges: &'r Ranges,
    pub(super) marks: bool,
    pub(super) workers: usize,
    pub(super) stop: Stop,
}

impl Builder<'_> {
    /// Reads all rows and sorts them.
    ///
    /// # Errors
    /// The rows' own, "resources exhausted" where there is no memory for them, the cancellation of the statement.
    pub(super) async fn build(
        self,
        mut input: SendableRecordBatchStream,
        held: MemoryReservation,
    ) -> Result<BuildSide> {
        let (schema, mut batches, mut count) = (input.schema(), Vec::new(), 0);
        while let Some(batch) = input.try_next().await? {
            held.try_grow(batch.get_array_memory_size())?;
            count += batch.num_rows();
            batches.push(batch);
        }
        drop(input);
        if u32::try_from(count).is_err() {
            let text = format!("a join of ranges holds {count} rows, and no more than {} fit", u32::MAX);
            return Err(DataFusionError::ResourcesExhausted(text));
        }
        self.stop.check()?;
        let apart = held.size();
        held.try_grow(apart)?;
        let rows = concat_batches(&schema, &batches)?;
        drop(batches);
        held.try_resize(rows.get_array_memory_size())?;
        self.sorted(rows, held)
    }

    fn sorted(self, rows: RecordBatch, held: MemoryReservation) -> Result<BuildSide> {
        let count = rows.num_rows();
        let keys = |expr: &Arc<dyn PhysicalExpr>, held: &MemoryReservation| {
            let array: ArrayRef = expr.evaluate(&rows)?.into_array(count)?;
            // Of a type that compares by bytes these are about as many as the values'.
            let bytes = array.get_array_memory_size() + count * SortedRows::SORTING_BYTES;
            held.try_grow(bytes)?;
            let form: KeyForm = form_of(expr, &rows.schema())?;
            let keys = form.keys(&array)?;
            let kept = keys.bytes() + count * SortedRows::SORTED_BYTES;
            if kept > bytes {
                held.try_grow(kept - bytes)?;
            }
            Ok::<_, DataFusionError>((keys, bytes.saturating_sub(kept)))
        };
        let (first, spare) = keys(&self.ranges.key, &held)?;
        let sorted = SortedRows::new(first);
        held.shrink(spare);
        self.stop.check()?;
        let other = match &self.ranges.other {
            None => None,
            Some(bound) => {
                let (values, spare) = keys(&bound.key, &held)?;
                held.try_grow(Reach::bytes(count) + 2 * count * size_of::<u32>())?;
                let other = Other::new(values, bound.way, bound.includes, &sorted);
                held.shrink(spare + 2 * count * size_of::<u32>());
                Some(other)
            }
        };
        if self.marks {
            held.try_grow(Marks::bytes(count))?;
        }
        let marks = self.marks.then(|| Marks::new(count));
        let probing = AtomicUsize::new(self.workers);
        Ok(BuildSide { rows, sorted, other, marks, probing, _held: held })
    }
}
