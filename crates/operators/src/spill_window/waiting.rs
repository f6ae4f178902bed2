//! Rows that wait for their functions' columns, the first in first: in memory if they are few, otherwise in files.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use hobt_base::SqlError;
use hobt_table::StatementRun;
use hobt_udf::external;

use crate::held::{Charge, HeldBatches, IntoBatches, bytes_of, compact};

/// The bytes of the rows of one file, about. A file goes when all of its rows have gone.
const FILE_BYTES: u64 = 64 << 20;

/// Bytes that the functions' operator takes for a row that waits, beside the columns that it reads: 130 were measured
/// with `LEAD` of an `int` by 2.9 million rows.
const KEPT_ROW_BYTES: usize = 128;

/// The rows, and what is counted for the columns of them that the functions' operator keeps.
pub(super) struct Waiting {
    run: Arc<StatementRun>,
    charge: Charge,
    /// The rest of a batch of which some rows have gone.
    begun: Option<RecordBatch>,
    /// The rows behind it that are in memory, with the bytes charged for each batch.
    in_memory: VecDeque<(RecordBatch, u64)>,
    /// The rows behind those, and those of further files.
    reading: Option<IntoBatches>,
    files: VecDeque<HeldBatches>,
    /// How many rows of files are still to be read. With none, rows wait in memory again.
    rows_on_disk: usize,
    /// For what the operator keeps: about as many rows as wait here.
    reservation: MemoryReservation,
    rows: usize,
}

impl Waiting {
    pub(super) fn new(run: &Arc<StatementRun>, reservation: MemoryReservation) -> Waiting {
        let (begun, in_memory, reading, files) = Default::default();
        let (run, charge) = (Arc::clone(run), Charge::new(run));
        Waiting { run, charge, begun, in_memory, reading, files, rows_on_disk: 0, reservation, rows: 0 }
    }

    /// Adds rows, of which the operator gets `light`.
    ///
    /// # Errors
    /// There is no memory for what the operator keeps; errors of a spill file.
    pub(super) fn push(&mut self, rows: RecordBatch, light: &RecordBatch) -> Result<()> {
        let light_bytes = usize::try_from(bytes_of(light).map_err(external)?).unwrap_or(usize::MAX);
        self.reservation.try_grow(light_bytes.saturating_add(rows.num_rows() * KEPT_ROW_BYTES))?;
        self.rows += rows.num_rows();
        self.keep(rows).map_err(external)
    }

    fn keep(&mut self, rows: RecordBatch) -> Result<(), SqlError> {
        let rows = compact(rows)?;
        if self.rows_on_disk == 0 {
            self.reading = None;
            let bytes = bytes_of(&rows)?;
            if self.charge.grow(bytes) {
                self.in_memory.push_back((rows, bytes));
                return Ok(());
            }
        }
        if self.files.back().is_none_or(|file| file.bytes() >= FILE_BYTES) {
            self.files.push_back(HeldBatches::new(&self.run));
        }
        self.rows_on_disk += rows.num_rows();
        self.files.back_mut().expect("there is one now").keep_on_disk(rows)
    }

    /// The next rows, at most `count`.
    ///
    /// # Errors
    /// There are none; errors of a spill file.
    pub(super) fn pop(&mut self, count: usize) -> Result<RecordBatch> {
        let mut rows = match self.begun.take() {
            Some(rows) => rows,
            None => self.next_batch().map_err(external)?,
        };
        if rows.num_rows() > count {
            self.begun = Some(rows.slice(count, rows.num_rows() - count));
            rows = rows.slice(0, count);
        }
        let left = self.rows.saturating_sub(rows.num_rows());
        // Rounded down, so that nothing stays of what was divided often.
        let kept = self.reservation.size() as u128 * left as u128 / self.rows.max(1) as u128;
        self.reservation.resize(usize::try_from(kept).unwrap_or_default());
        self.rows = left;
        Ok(rows)
    }

    fn next_batch(&mut self) -> Result<RecordBatch, SqlError> {
        if let Some((rows, bytes)) = self.in_memory.pop_front() {
            self.charge.shrink(bytes);
            return Ok(rows);
        }
        loop {
            if let Some(rows) = self.reading.as_mut().and_then(Iterator::next) {
                return rows.inspect(|rows| self.rows_on_disk -= rows.num_rows());
            }
            self.reading = match self.files.pop_front() {
                Some(file) => Some(file.into_batches()?),
                None => return Err(SqlError::internal("a window has more rows than its input")),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::compute::concat_batches;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
    use hobt_base::SplitMix64;

    use super::*;
    use crate::held::tests::{batch_of, with_run};

    /// A queue that grows beyond its memory and shrinks again, several times, to one row that is left of a batch.
    #[test]
    fn rows_come_in_their_order_and_wait_in_memory_again_when_they_are_few() {
        with_run("waiting", |_, run| {
            let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
            let mut random = SplitMix64::new(7);
            let mut waiting = Waiting::new(run, MemoryConsumer::new("test").register(&pool));
            let (mut pushed, mut popped, mut left) = (Vec::new(), Vec::new(), 0);
            for round in 0..3 {
                for _ in 0..100 {
                    let rows = 1 + random.below(2000) as usize;
                    let batch = batch_of(&mut random, rows);
                    left += batch.num_rows();
                    waiting.push(batch.clone(), &batch).expect("room");
                    pushed.push(batch);
                }
                assert!(waiting.rows_on_disk > 0, "round {round}");
                while left > 1 {
                    let count = (1 + random.below(3000) as usize).min(left - 1);
                    let rows = waiting.pop(count).expect("rows");
                    assert!(rows.num_rows() <= count);
                    left -= rows.num_rows();
                    popped.push(rows);
                }
                assert_eq!((waiting.rows, waiting.rows_on_disk), (1, 0), "round {round}");
                assert!(pool.reserved() < 1000, "{} bytes for one row", pool.reserved());
                // A few rows behind the last one: no file is made for them.
                let batch = batch_of(&mut random, 10);
                waiting.push(batch.clone(), &batch).expect("room");
                assert_eq!((waiting.in_memory.len(), waiting.files.len()), (1, 0), "round {round}");
                left += 10;
                pushed.push(batch);
            }
            while left > 0 {
                let rows = waiting.pop(left).expect("rows");
                left -= rows.num_rows();
                popped.push(rows);
            }
            let all = |batches: &[RecordBatch]| concat_batches(&pushed[0].schema(), batches).expect("one batch");
            assert!(all(&popped) == all(&pushed));
            assert!(pool.reserved() == 0 && waiting.pop(1).is_err(), "nothing is left");
        });
    }
}
