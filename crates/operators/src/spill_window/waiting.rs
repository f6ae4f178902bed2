//! Rows that wait for their functions' columns, the first in first: in memory if they are few, otherwise in files.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use hobt_base::SqlError;
use hobt_table::StatementRun;
use hobt_udf::external;

use crate::held::{Charge, HeldBatches, IntoBatches, bytes_of, compact};

/// The bytes of the rows of one file, about. A file goes when all of its rows have gone.
const FILE_BYTES: u64 = 64 << 20;

/// The rows, and what is counted for the columns of them that the functions' operator keeps.
pub(super) struct Waiting {
    run: Arc<StatementRun>,
    charge: Charge,
    /// The first rows.
    in_memory: VecDeque<RecordBatch>,
    /// The rows behind them, and those of further files.
    reading: Option<IntoBatches>,
    files: VecDeque<HeldBatches>,
    /// For the columns that the operator keeps: about as many rows as wait here.
    reservation: MemoryReservation,
    rows: usize,
}

impl Waiting {
    pub(super) fn new(run: &Arc<StatementRun>, reservation: MemoryReservation) -> Waiting {
        let (in_memory, reading, files) = Default::default();
        Waiting { run: Arc::clone(run), charge: Charge::new(run), in_memory, reading, files, reservation, rows: 0 }
    }

    /// Adds rows, of which the operator gets `light`.
    ///
    /// # Errors
    /// There is no memory for what the operator keeps; errors of a spill file.
    pub(super) fn push(&mut self, rows: RecordBatch, light: &RecordBatch) -> Result<()> {
        self.reservation.try_grow(usize::try_from(bytes_of(light).map_err(external)?).unwrap_or(usize::MAX))?;
        self.rows += rows.num_rows();
        self.keep(rows).map_err(external)
    }

    fn keep(&mut self, rows: RecordBatch) -> Result<(), SqlError> {
        if self.reading.is_none() && self.files.is_empty() {
            let rows = compact(rows.clone())?;
            if self.charge.grow(bytes_of(&rows)?) {
                self.in_memory.push_back(rows);
                return Ok(());
            }
        }
        if self.files.back().is_none_or(|file| file.bytes() >= FILE_BYTES) {
            self.files.push_back(HeldBatches::new(&self.run));
        }
        self.files.back_mut().expect("there is one now").keep_on_disk(rows)
    }

    /// The next rows, at most `count`.
    ///
    /// # Errors
    /// There are none; errors of a spill file.
    pub(super) fn pop(&mut self, count: usize) -> Result<RecordBatch> {
        let Some(mut rows) = self.next().map_err(external)? else {
            return Err(internal_datafusion_err!("a window has more rows than its input"));
        };
        if rows.num_rows() > count {
            let rest = rows.slice(count, rows.num_rows() - count);
            rows = rows.slice(0, count);
            self.charge.overdraw(bytes_of(&rest).map_err(external)?);
            self.in_memory.push_front(rest);
        }
        let light_bytes = self.reservation.size() / self.rows.max(1) * rows.num_rows();
        self.rows = self.rows.saturating_sub(rows.num_rows());
        let kept = if self.rows == 0 { 0 } else { self.reservation.size().saturating_sub(light_bytes) };
        self.reservation.resize(kept);
        Ok(rows)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        if let Some(rows) = self.in_memory.pop_front() {
            self.charge.shrink(bytes_of(&rows)?);
            return Ok(Some(rows));
        }
        loop {
            if let Some(rows) = self.reading.as_mut().and_then(Iterator::next) {
                return rows.map(Some);
            }
            let Some(file) = self.files.pop_front() else {
                self.reading = None;
                return Ok(None);
            };
            self.reading = Some(file.into_batches()?);
        }
    }
}
