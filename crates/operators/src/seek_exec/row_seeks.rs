//! Seeks one after the other, in the order requested: a loop does one for each row of its outer side.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use hobt_access::{AccessError, Direction, KeyRange, TreeSeek};
use hobt_txn::IoCounts;

use super::SeekExec;
use super::rows::RowBuilder;
use hobt_table::OperatorProfile;
use hobt_udf::external;

/// Seeks in the index of a [`SeekExec`]; the ranges of that operator itself are not read.
pub(crate) struct RowSeeks {
    exec: Arc<SeekExec>,
    /// One for each tree, with its partition's position.
    seeks: Vec<(usize, TreeSeek)>,
    /// The tree in which the current range is read.
    at: usize,
    rows: RowBuilder,
    counts: Arc<IoCounts>,
}

impl RowSeeks {
    /// Seeks with the settings of `exec`, whose batches end after `bytes_max` bytes of texts and binaries. The first
    /// worker counts the index as used.
    ///
    /// # Errors
    /// The table cannot be opened.
    pub(crate) fn new(
        exec: &Arc<SeekExec>,
        profile: &OperatorProfile,
        is_first: bool,
        bytes_max: usize,
    ) -> Result<RowSeeks> {
        let run = Arc::clone(exec.table.run());
        if is_first {
            exec.note_uses(&run);
        }
        let counts = run.io_counts(&exec.table.table().name);
        let seek = |(place, tree): &(usize, Arc<_>)| {
            let (settings, context) = (exec.table.scan_settings(), Arc::clone(&run.context));
            let none = std::iter::empty();
            (*place, TreeSeek::new(Arc::clone(tree), none, Direction::Forward, settings, context, Arc::clone(&counts)))
        };
        let seeks: Vec<(usize, TreeSeek)> = exec.path.trees.iter().map(seek).collect();
        let rows = RowBuilder::new(exec, &run, Arc::clone(&counts), profile, bytes_max).map_err(external)?;
        Ok(RowSeeks { exec: Arc::clone(exec), at: seeks.len(), seeks, rows, counts })
    }

    /// Begins a range; the one before must have been read to its end.
    pub(crate) fn begin(&mut self, range: &KeyRange) {
        for (_, seek) in &mut self.seeks {
            self.counts.scans.fetch_add(1, Ordering::Relaxed);
            seek.add_range(range.clone());
        }
        self.at = 0;
    }

    /// Continues the range until it has ended, or there are `rows_max` rows, possibly more by the rest of a leaf, or
    /// enough bytes. Returns whether the range has ended. Blocks on reads and latches.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or the statement was cancelled.
    pub(crate) fn read(&mut self, rows_max: usize) -> Result<bool> {
        let read = self.read_leaves(rows_max);
        read.map_err(|error| external(self.exec.table.sql_error(error)))
    }

    fn read_leaves(&mut self, rows_max: usize) -> Result<bool, AccessError> {
        while let Some((partition, seek)) = self.seeks.get_mut(self.at) {
            if self.rows.rows >= rows_max || self.rows.is_full() {
                return Ok(false);
            }
            if self.rows.has_rest() {
                self.rows.take_rest(*partition, seek, usize::MAX)?;
                continue;
            }
            match seek.advance()? {
                true => self.rows.take_leaf(*partition, seek, usize::MAX)?,
                false => self.at += 1,
            }
        }
        Ok(true)
    }

    /// Rows since the last batch.
    pub(crate) fn rows(&self) -> usize {
        self.rows.rows
    }

    /// Rows read so far.
    pub(crate) fn rows_read(&self) -> u64 {
        self.rows.read
    }

    /// Publishes the counters of filters.
    pub(crate) fn publish(&mut self) {
        self.rows.publish();
    }

    /// The rows since the last batch.
    ///
    /// # Errors
    /// A value that its type cannot have.
    pub(crate) fn take_batch(&mut self) -> Result<RecordBatch> {
        self.rows.take_batch(&self.exec.table, &self.exec.schema)
    }
}
