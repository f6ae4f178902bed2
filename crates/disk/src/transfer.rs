//! When a transfer continues, is done, or has failed: one rule for all backends.

use crate::buffer::SECTOR_SIZE;
use crate::error::DiskError;
use crate::queue::Direction;
use std::io;
use std::path::Path;

/// The outcome of one system call of a transfer.
pub(crate) enum Step {
    /// Every byte was transferred.
    Done,
    /// The rest must be issued.
    Continue,
    /// The transfer has failed.
    Failed(DiskError),
}

/// A transfer under way.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) direction: Direction,
    pub(crate) offset: u64,
    pub(crate) length: usize,
    pub(crate) done: usize,
    direct: bool,
}

impl Progress {
    pub(crate) fn new(direction: Direction, offset: u64, length: usize, direct: bool) -> Progress {
        Progress { direction, offset, length, done: 0, direct }
    }

    /// The position in the file where the rest begins.
    pub(crate) fn position(&self) -> u64 {
        self.offset + self.done as u64
    }

    /// Takes the result of a system call for the rest.
    pub(crate) fn advance(&mut self, path: &Path, result: io::Result<usize>) -> Step {
        match result {
            Ok(bytes) => {
                self.done += bytes;
                if self.done >= self.length {
                    return Step::Done;
                }
                // A direct read that stops within a sector has met the end of the file. Its rest cannot be issued.
                if bytes == 0 || (self.direct && !self.done.is_multiple_of(SECTOR_SIZE)) {
                    return Step::Failed(self.stopped(path));
                }
                Step::Continue
            }
            Err(error) if is_transient(&error) => Step::Continue,
            Err(error) => Step::Failed(DiskError::new(self.direction.operation(), path, Some(self.position()), error)),
        }
    }

    fn stopped(&self, path: &Path) -> DiskError {
        match self.direction {
            Direction::Read => DiskError::OutOfRange {
                path: path.to_path_buf(),
                offset: self.offset,
                length: self.length as u64,
                transferred: self.done as u64,
            },
            Direction::Write => {
                let source = io::Error::from(io::ErrorKind::WriteZero);
                DiskError::new(self.direction.operation(), path, Some(self.position()), source)
            }
        }
    }
}

/// Whether the call did nothing and may be repeated. The kernel's ring reports `ECANCELED` when the thread that
/// submitted a request has ended before the request was begun.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::ECANCELED))
}

/// Checks that offset, length and memory suit a direct transfer. Returns an error that names the rule if they do not.
pub(crate) fn check_alignment(direction: Direction, path: &Path, offset: u64, aligned: bool) -> Option<DiskError> {
    if aligned && offset.is_multiple_of(SECTOR_SIZE as u64) {
        return None;
    }
    let text = format!("memory, offset and length of direct I/O must be multiples of {SECTOR_SIZE}");
    let source = io::Error::new(io::ErrorKind::InvalidInput, text);
    Some(DiskError::new(direction.operation(), path, Some(offset), source))
}
