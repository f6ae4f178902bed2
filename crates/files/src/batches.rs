//! One reading that several statements share, each of which takes so many rows: `BATCHSIZE`.

use std::sync::Arc;

use arrow::array::RecordBatch;
use hobt_base::SqlError;
use parking_lot::Mutex;

use crate::read::{BatchReader, FileRows};
use crate::rejected::Rejections;

/// A reading of which each statement takes the next rows. One worker reads at a time.
pub struct FileBatches {
    rejections: Arc<Rejections>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reader: Option<Box<dyn BatchReader>>,
    /// Rows that were read for the batch before.
    rest: Option<RecordBatch>,
    /// Rows that the running statement may take.
    left: usize,
    is_finished: bool,
}

impl std::fmt::Debug for FileBatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileBatches").finish_non_exhaustive()
    }
}

impl FileBatches {
    /// Nothing has been read; up to `max_errors` rows may be rejected in all.
    pub fn new(max_errors: u64) -> FileBatches {
        FileBatches { rejections: Arc::new(Rejections::new(max_errors)), state: Mutex::default() }
    }

    /// The rows that are rejected, of all statements.
    pub fn rejections(&self) -> &Arc<Rejections> {
        &self.rejections
    }

    /// Lets the next statement take `rows` rows.
    pub fn begin(&self, rows: usize) {
        self.state.lock().left = rows;
    }

    /// Whether all rows have been taken.
    pub fn is_finished(&self) -> bool {
        self.state.lock().is_finished
    }

    /// The reading of a statement; `open` begins it for the first.
    pub(crate) fn rows(
        self: &Arc<Self>,
        open: impl FnOnce() -> Result<Arc<dyn FileRows>, SqlError>,
    ) -> Result<Arc<dyn FileRows>, SqlError> {
        let mut state = self.state.lock();
        if state.reader.is_none() {
            state.reader = Some(open()?.reader());
        }
        drop(state);
        Ok(Arc::new(Portion(Arc::clone(self))))
    }
}

/// What one statement takes.
struct Portion(Arc<FileBatches>);

impl FileRows for Portion {
    fn reader(self: Arc<Self>) -> Box<dyn BatchReader> {
        Box::new(PortionReader(Arc::clone(&self.0)))
    }
}

struct PortionReader(Arc<FileBatches>);

impl BatchReader for PortionReader {
    fn next(&mut self, most: usize) -> Result<Option<RecordBatch>, SqlError> {
        let mut state = self.0.state.lock();
        // What the next statement takes is not read for this one: it may be in error.
        if state.is_finished || state.left == 0 {
            return Ok(None);
        }
        if state.rest.is_none() {
            let wanted = state.left.min(most);
            let next = state.reader.as_mut().map_or(Ok(None), |reader| reader.next(wanted))?;
            state.is_finished = next.is_none();
            state.rest = next;
        }
        let left = state.left;
        match state.rest.take() {
            None => Ok(None),
            Some(rest) => {
                let taken = rest.num_rows().min(left);
                state.left -= taken;
                if taken < rest.num_rows() {
                    state.rest = Some(rest.slice(taken, rest.num_rows() - taken));
                }
                Ok(Some(rest.slice(0, taken)))
            }
        }
    }
}
