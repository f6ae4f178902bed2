//! Finds the rows of a stream whose position comes for the first time, whatever memory there is.
//!
//! ```text
//!   row ── its position is in the set: it comes again
//!     ├─ the set has room: it is new, and the position joins the set
//!     └─ the set is full: into one of 16 files, by a hash of the position ──► when all rows have come, file after
//!                                                                            file the same way, by other bits
//! ```
//! All rows of a position that is not in the set are in one file, in their order. So the first of them is found, as if
//! the set had had room.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{filter_record_batch, take_record_batch};
use hobt_base::SqlError;
use hobt_engine::RowAt;
use hobt_table::StatementRun;

use super::part::Part;
use super::{Charge, arrow_error};
use crate::places::Places;

/// Files that one set splits the rest into, and the bits of the hash that choose one.
const FILES: usize = 16;
const BITS: u32 = FILES.ilog2();
/// How often the rest can be split by other bits.
const LEVELS: u32 = u64::BITS / BITS;
/// What a set may hold in any case: with less, a file would be split although it is small.
const LEAST_BYTES: u64 = 256 << 10;
/// About what a position takes in the set, beside its key.
const PLACE_BYTES: u64 = 96;

/// Is told of a row whose position has come before.
pub(crate) type Twice<'t> = dyn FnMut(&RowAt) -> Result<(), SqlError> + 't;

/// The positions that have come.
#[derive(Debug)]
pub(crate) struct Distinct {
    run: Arc<StatementRun>,
    level: u32,
    seen: HashSet<RowAt>,
    charge: Charge,
    /// Rows that are not decided yet; empty while the set has room.
    rest: Vec<Part>,
}

impl Distinct {
    /// No position has come yet.
    pub(crate) fn new(run: &Arc<StatementRun>) -> Distinct {
        Distinct::at(run, 0)
    }

    fn at(run: &Arc<StatementRun>, level: u32) -> Distinct {
        let (seen, charge) = (HashSet::new(), Charge::new(run));
        Distinct { run: Arc::clone(run), level, seen, charge, rest: Vec::new() }
    }

    /// Takes rows, whose first column is their position. Tells for each whether it is known to be new: not a row
    /// without a position, and not one that [`Distinct::finish`] decides on.
    ///
    /// # Errors
    /// Those of `twice`; 5123, 1105 and 823 of a spill file.
    pub(crate) fn take(&mut self, batch: &RecordBatch, twice: &mut Twice<'_>) -> Result<BooleanArray, SqlError> {
        let places = Places::of(batch)?;
        let mut open: Vec<Vec<u32>> = vec![Vec::new(); FILES];
        let mut is_new = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let Some(place) = places.place(row)? else {
                is_new.push(false);
                continue;
            };
            let is_known = self.seen.contains(&place);
            if is_known {
                twice(&place)?;
            }
            let has_room = !is_known && self.rest.is_empty() && self.has_room(&place);
            is_new.push(has_room);
            if has_room {
                self.seen.insert(place);
            } else if !is_known {
                if self.rest.is_empty() {
                    self.rest.extend((0..FILES).map(|_| Part::new(&self.run)));
                }
                open[self.file_of(&place)].push(u32::try_from(row).expect("a row of a batch"));
            }
        }
        for (rest, rows) in self.rest.iter_mut().zip(open).filter(|(_, rows)| !rows.is_empty()) {
            rest.add(take_record_batch(batch, &UInt32Array::from(rows)).map_err(arrow_error)?)?;
        }
        Ok(BooleanArray::from(is_new))
    }

    /// Gives the rows that are new among those that were not decided, now that all have come.
    ///
    /// # Errors
    /// As [`Distinct::take`], and those of `give`.
    pub(crate) fn finish(
        self,
        twice: &mut Twice<'_>,
        give: &mut dyn FnMut(RecordBatch) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let Distinct { run, level, seen, charge, rest } = self;
        drop((seen, charge));
        for rest in rest {
            let mut of_rest = Distinct::at(&run, level + 1);
            for batch in rest.finish()?.into_batches()? {
                if run.is_cancelled() {
                    return Err(SqlError::cancelled());
                }
                let batch = batch?;
                let is_new = of_rest.take(&batch, twice)?;
                give(filter_record_batch(&batch, &is_new).map_err(arrow_error)?)?;
            }
            of_rest.finish(twice, give)?;
        }
        Ok(())
    }

    fn has_room(&mut self, place: &RowAt) -> bool {
        let key = match place {
            RowAt::Heap { .. } => 0,
            RowAt::Tree { key, .. } => key.len() as u64,
        };
        let bytes = PLACE_BYTES + key;
        if self.charge.grow(bytes) {
            return true;
        }
        // Equal hashes of all bits cannot be split.
        let must_hold = self.charge.bytes() < LEAST_BYTES || self.level + 1 == LEVELS;
        if must_hold {
            self.charge.overdraw(bytes);
        }
        must_hold
    }

    fn file_of(&self, place: &RowAt) -> usize {
        let mut hasher = DefaultHasher::new();
        place.hash(&mut hasher);
        (hasher.finish() >> (self.level * BITS)) as usize % FILES
    }
}
