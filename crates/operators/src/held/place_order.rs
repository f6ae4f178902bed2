//! Sorts rows to be changed by their positions.
//!
//! Where a join finds the rows, each may lie on another page than the one before. If there are many, a page is read
//! and written again for each of its rows, and a heap cannot keep one version for all rows of a page. So rows that went
//! to disk are sorted before they change:
//!
//! ```text
//!   rows ── fit into memory ──► sorted there
//!     └─ do not: into 32 files by ranges of positions, which a sample bounds ──► file after file the same way
//! ```
//! The order saves work and decides nothing. So a range that does not get smaller is left as it is.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, sort_to_indices, take_record_batch};
use hobt_base::{SplitMix64, SqlError};
use hobt_table::StatementRun;

use super::part::Part;
use super::{Charge, HeldBatches, arrow_error};
use crate::places::Places;

/// Files that rows are split into, and how often.
const FILES: usize = 32;
const LEVELS: u32 = 6;
/// Rows of the sample, of a batch and in all.
const SAMPLED_OF_BATCH: usize = 8;
const SAMPLED: usize = 4096;
/// About the bytes of a sorted batch, and its rows.
const BATCH_BYTES: u64 = 256 << 10;
const BATCH_ROWS: u64 = 8192;

/// How many batches of rows have come, and how many of them are not in the order of their positions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlaceOrder {
    batches: u64,
    scattered: u64,
}

impl PlaceOrder {
    /// Counts a batch. Its first column is the rows' position.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn note(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let is_sorted = match Places::of(batch)? {
            Places::Numbers(numbers) => numbers.values().is_sorted(),
            Places::Keys(keys) => (1..keys.len()).all(|row| keys.value(row - 1) <= keys.value(row)),
        };
        self.batches += 1;
        self.scattered += u64::from(!is_sorted);
        Ok(())
    }

    /// Whether the rows come from all over the table. Workers that scan it alternate, but each of their batches is
    /// sorted.
    pub(super) fn is_scattered(self) -> bool {
        self.scattered * 4 > self.batches
    }
}

/// Gives rows, whose first column is their position, in the order of the positions.
///
/// # Errors
/// 5123, 1105 and 823 of a spill file; those of `give`.
pub(super) fn sort(
    run: &Arc<StatementRun>,
    held: HeldBatches,
    give: &mut dyn FnMut(RecordBatch) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    sort_at(run, held, 0, give)
}

fn sort_at(
    run: &Arc<StatementRun>,
    mut held: HeldBatches,
    level: u32,
    give: &mut dyn FnMut(RecordBatch) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    // The rows are there twice while they are sorted.
    if held.bytes <= Charge::share(run) / 2 {
        return sort_in_memory(run, held, give);
    }
    if level == LEVELS {
        return held.into_batches()?.try_for_each(|batch| give(batch?));
    }
    let bounds = Bounds::sampled(&mut held)?;
    let mut parts: Vec<Part> = (0..FILES).map(|_| Part::new(run)).collect();
    for batch in held.into_batches()? {
        if run.is_cancelled() {
            return Err(SqlError::cancelled());
        }
        let batch = batch?;
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); FILES];
        bounds.each(&Places::of(&batch)?, &mut |row, part| {
            rows[part].push(u32::try_from(row).expect("a row of a batch"));
        });
        for (part, rows) in parts.iter_mut().zip(rows).filter(|(_, rows)| !rows.is_empty()) {
            part.add(take_record_batch(&batch, &UInt32Array::from(rows)).map_err(arrow_error)?)?;
        }
    }
    parts.into_iter().try_for_each(|part| sort_at(run, part.finish()?, level + 1, give))
}

fn sort_in_memory(
    run: &Arc<StatementRun>,
    held: HeldBatches,
    give: &mut dyn FnMut(RecordBatch) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let (bytes, count) = (held.bytes, held.row_count());
    let mut charge = Charge::new(run);
    charge.overdraw(2 * bytes);
    let batches = held.into_batches()?.collect::<Result<Vec<RecordBatch>, SqlError>>()?;
    let Some(first) = batches.first() else { return Ok(()) };
    let all = concat_batches(&first.schema(), &batches).map_err(arrow_error)?;
    drop(batches);
    let order = sort_to_indices(all.column(0), None, None).map_err(arrow_error)?;
    let length = (BATCH_BYTES * count / bytes.max(1)).clamp(16, BATCH_ROWS);
    let length = usize::try_from(length).expect("at most the rows of a batch");
    for first in (0..order.len()).step_by(length) {
        let rows = order.slice(first, length.min(order.len() - first));
        give(take_record_batch(&all, &rows).map_err(arrow_error)?)?;
    }
    Ok(())
}

/// Positions that bound ranges with about as many rows each.
enum Bounds {
    Numbers(Vec<i128>),
    Keys(Vec<Vec<u8>>),
}

impl Bounds {
    /// Bounds by some of the rows.
    fn sampled(held: &mut HeldBatches) -> Result<Bounds, SqlError> {
        let (mut numbers, mut keys, mut come) = (Sample::default(), Sample::default(), SplitMix64::new(1));
        for batch in held.batches()? {
            let batch = batch?;
            let places = Places::of(&batch)?;
            for _ in 0..SAMPLED_OF_BATCH.min(batch.num_rows()) {
                let row = usize::try_from(come.below(batch.num_rows() as u64)).expect("a row of a batch");
                match places {
                    Places::Numbers(column) => numbers.add(column.value(row), &mut come),
                    Places::Keys(column) => keys.add(column.value(row).to_vec(), &mut come),
                }
            }
        }
        Ok(if keys.values.is_empty() { Bounds::Numbers(numbers.bounds()) } else { Bounds::Keys(keys.bounds()) })
    }

    /// Calls `take` for each row with its range.
    fn each(&self, places: &Places<'_>, take: &mut dyn FnMut(usize, usize)) {
        match (self, places) {
            (Bounds::Numbers(bounds), Places::Numbers(numbers)) => {
                for (row, number) in numbers.values().iter().enumerate() {
                    take(row, bounds.partition_point(|bound| bound <= number));
                }
            }
            (Bounds::Keys(bounds), Places::Keys(keys)) => {
                for row in 0..keys.len() {
                    take(row, bounds.partition_point(|bound| bound.as_slice() <= keys.value(row)));
                }
            }
            _ => unreachable!("the positions of a table's rows are of one kind"),
        }
    }
}

/// Values of which each that has come is there with equal probability (reservoir sampling, Vitter 1985).
struct Sample<T> {
    values: Vec<T>,
    come: u64,
}

impl<T> Default for Sample<T> {
    fn default() -> Sample<T> {
        Sample { values: Vec::new(), come: 0 }
    }
}

impl<T: Ord> Sample<T> {
    fn add(&mut self, value: T, random: &mut SplitMix64) {
        self.come += 1;
        if self.values.len() < SAMPLED {
            return self.values.push(value);
        }
        let place = random.below(self.come);
        if let Some(kept) = usize::try_from(place).ok().and_then(|place| self.values.get_mut(place)) {
            *kept = value;
        }
    }

    /// At most one value less than there are files.
    fn bounds(mut self) -> Vec<T> {
        self.values.sort_unstable();
        let step = self.values.len().div_ceil(FILES).max(1);
        let bounds = self.values.into_iter().enumerate().filter(|(at, _)| at % step == 0).skip(1);
        bounds.map(|(_, value)| value).collect()
    }
}
