//! Stretches: runs of whole rows that workers take one after the other.
//!
//! What is done under the latch is little: the next bytes are read, the last row end in them is found, and the rows are
//! counted, so that every error names its row. The bytes behind the last row end begin the next stretch. See
//! `docs/design/0047-files.md`.

use std::path::PathBuf;
use std::sync::Arc;

use hobt_base::{SqlError, errors};
use hobt_instruments::{Wait, WaitType};
use hobt_txn::Progress;
use parking_lot::Mutex;

use crate::encoding::CodePage;
use crate::source::SourceFile;

/// Bytes of a stretch, unless a row is longer.
pub(crate) const STRETCH_BYTES: usize = 2 << 20;

/// Where the last whole row of some bytes ends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Cut {
    /// Bytes of the whole rows; 0 if there is none.
    pub(crate) end: usize,
    /// Rows in them.
    pub(crate) rows: u64,
    /// Line feeds in them.
    pub(crate) lines: u64,
}

/// Finds row ends.
pub(crate) trait Cutter: Send + Sync {
    /// The whole rows at the start of `bytes`, which begin with a row. With `is_last` nothing follows, and the last row
    /// needs no row end.
    ///
    /// # Errors
    /// The bytes are no rows. The error says why, and not where.
    fn cut(&self, bytes: &[u8], is_last: bool) -> Result<Cut, SqlError>;

    /// Why the bytes, which begin with the row of this number and have no whole row, will never have one.
    fn fault(&self, _bytes: &[u8], _is_last: bool, _row: u64) -> Option<SqlError> {
        None
    }

    /// Bytes at the start of a file that are no rows.
    fn signature_bytes(&self, _first: &[u8]) -> usize {
        0
    }
}

/// A run of whole rows.
pub(crate) struct Stretch {
    pub(crate) bytes: Vec<u8>,
    /// The file, by its place among the files that are read.
    pub(crate) file: usize,
    /// The number of the first row in its file, from 1.
    pub(crate) first_row: u64,
    /// The line on which it begins, from 1.
    pub(crate) first_line: u64,
}

/// The files that are read, and where the reading is.
pub(crate) struct Stretches {
    files: Vec<PathBuf>,
    code_page: CodePage,
    is_text: bool,
    cutter: Box<dyn Cutter>,
    /// The last row of each file that is wanted.
    last_row: u64,
    row_bytes_max: usize,
    progress: Arc<Progress>,
    state: Mutex<State>,
}

struct State {
    next_file: usize,
    open: Option<SourceFile>,
    /// Bytes of a row whose end has not been read.
    carry: Vec<u8>,
    /// Whether nothing of the file has been cut.
    at_start: bool,
    next_row: u64,
    next_line: u64,
    /// Nothing more is read after an error.
    has_failed: bool,
}

/// What bounds the reading.
pub(crate) struct Bounds {
    /// The last row of each file that is wanted.
    pub(crate) last_row: u64,
    /// Bytes of a row.
    pub(crate) row_bytes_max: usize,
}

impl Stretches {
    pub(crate) fn new(
        files: Vec<PathBuf>,
        (code_page, is_text): (CodePage, bool),
        cutter: Box<dyn Cutter>,
        bounds: Bounds,
        progress: Arc<Progress>,
    ) -> Stretches {
        let Bounds { last_row, row_bytes_max } = bounds;
        let state = State {
            next_file: 0,
            open: None,
            carry: Vec::new(),
            at_start: true,
            next_row: 1,
            next_line: 1,
            has_failed: false,
        };
        Stretches { files, code_page, is_text, cutter, last_row, row_bytes_max, progress, state: Mutex::new(state) }
    }

    pub(crate) fn file(&self, place: usize) -> &PathBuf {
        &self.files[place]
    }

    /// The next stretch; `None` at the end of the last file. Blocks on the file, and on other workers that read.
    ///
    /// # Errors
    /// A file cannot be opened or read, or a row is too long: 4860, 4861, 4862, 4866.
    pub(crate) fn next(&self) -> Result<Option<Stretch>, SqlError> {
        let mut state = self.state.try_lock().unwrap_or_else(|| {
            // Another worker reads.
            let _reads = Wait::begin(WaitType::ImpProvIoWait);
            self.state.lock()
        });
        if state.has_failed {
            return Ok(None);
        }
        let next = self.read(&mut state);
        state.has_failed = next.is_err();
        next
    }

    fn read(&self, state: &mut State) -> Result<Option<Stretch>, SqlError> {
        loop {
            if state.open.is_none() {
                let Some(path) = self.files.get(state.next_file) else { return Ok(None) };
                state.open = Some(SourceFile::open(path, self.code_page, self.is_text, &self.progress)?);
                state.next_file += 1;
                (state.next_row, state.next_line, state.at_start) = (1, 1, true);
            }
            if let Some(stretch) = self.read_file(state)? {
                return Ok(Some(stretch));
            }
            state.open = None;
        }
    }

    /// The next stretch of the file that is open.
    fn read_file(&self, state: &mut State) -> Result<Option<Stretch>, SqlError> {
        if state.next_row > self.last_row {
            state.carry.clear();
            return Ok(None);
        }
        let Some(open) = state.open.as_mut() else { return Ok(None) };
        let mut bytes = Vec::with_capacity(STRETCH_BYTES.max(state.carry.len()) + STRETCH_BYTES / 2);
        bytes.append(&mut state.carry);
        let mut wanted = STRETCH_BYTES.saturating_sub(bytes.len()).max(STRETCH_BYTES / 2);
        let cut = loop {
            let is_last = open.append(&mut bytes, wanted)? < wanted;
            if std::mem::take(&mut state.at_start) {
                bytes.drain(..self.cutter.signature_bytes(&bytes));
            }
            let cut = self
                .cutter
                .cut(&bytes, is_last)
                .map_err(|error| self.cutter.fault(&bytes, is_last, state.next_row).unwrap_or(error))?;
            if cut.end > 0 || is_last {
                break cut;
            }
            if bytes.len() > self.row_bytes_max {
                let (row, line) = (state.next_row, state.next_line);
                return Err(errors::BULK_ROW_TOO_LONG.with([&row, &line, &open.path.display(), &self.row_bytes_max]));
            }
            // Doubled, so that a long row is searched few times, and not beyond what a row may have.
            wanted = bytes.len().min(self.row_bytes_max + 1 - bytes.len().min(self.row_bytes_max));
        };
        if cut.end == 0 {
            return Ok(None);
        }
        state.carry.extend_from_slice(&bytes[cut.end..]);
        bytes.truncate(cut.end);
        let stretch =
            Stretch { bytes, file: state.next_file - 1, first_row: state.next_row, first_line: state.next_line };
        state.next_row += cut.rows;
        state.next_line += cut.lines;
        Ok(Some(stretch))
    }
}
