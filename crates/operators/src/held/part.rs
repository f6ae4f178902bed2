//! One of the files that rows are split into. Few rows at a time come for each, and are gathered before they are
//! written.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use hobt_base::SqlError;
use hobt_table::StatementRun;

use super::{HeldBatches, arrow_error};

/// Rows that are gathered for one file before they are written, and bytes.
const GATHERED_ROWS: usize = 8192;
const GATHERED_BYTES: usize = 32 << 10;

/// Rows on their way into a file.
#[derive(Debug)]
pub(super) struct Part {
    gathered: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    held: HeldBatches,
}

impl Part {
    /// No rows yet.
    pub(super) fn new(run: &Arc<StatementRun>) -> Part {
        Part { gathered: Vec::new(), rows: 0, bytes: 0, held: HeldBatches::new(run) }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// 5123, 1105 and 823 of the file.
    pub(super) fn add(&mut self, batch: RecordBatch) -> Result<(), SqlError> {
        self.rows += batch.num_rows();
        self.bytes += usize::try_from(super::bytes_of(&batch)?).unwrap_or(usize::MAX);
        self.gathered.push(batch);
        match self.rows >= GATHERED_ROWS || self.bytes >= GATHERED_BYTES {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn write(&mut self) -> Result<(), SqlError> {
        if let Some(first) = self.gathered.first() {
            let batch = concat_batches(&first.schema(), &self.gathered).map_err(arrow_error)?;
            self.held.keep_on_disk(batch)?;
        }
        self.gathered.clear();
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// All rows.
    ///
    /// # Errors
    /// As [`Part::add`].
    pub(super) fn finish(mut self) -> Result<HeldBatches, SqlError> {
        self.write()?;
        Ok(self.held)
    }
}
