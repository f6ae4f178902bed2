//! Errors of a log.

use std::fmt;
use std::path::PathBuf;

use hobt_base::Lsn;
use hobt_disk::{DiskError, DiskFile};

use crate::TruncationWait;

/// Why the log does not do what was requested.
#[derive(Debug)]
pub enum LogError {
    /// The device failed, and so did the log: it accepts nothing more until it is opened again.
    Disk(DiskError),
    /// A log file does not contain what was written there.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The position in it, in bytes.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// No segment is free and no file may grow: error 9002.
    Full {
        /// What the oldest segment waits for.
        wait: TruncationWait,
        /// Why the log does not grow.
        reason: &'static str,
    },
    /// The file is needed: it holds records, or the log would be too small without it.
    FileInUse {
        /// What it is needed for.
        why: &'static str,
    },
    /// There is no record at a position that should be made durable.
    NotThere {
        /// The position.
        lsn: Lsn,
        /// Where the log ends.
        end: Lsn,
    },
    /// The log failed before.
    Failed {
        /// The reason.
        reason: String,
    },
}

impl LogError {
    pub(crate) fn damaged(disk: &dyn DiskFile, offset: u64, what: &'static str) -> LogError {
        LogError::Damaged { path: disk.path().to_path_buf(), offset, what }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Disk(error) => error.fmt(f),
            LogError::Damaged { path, offset, what } => {
                write!(f, "log file '{}' is damaged at byte {offset}: {what}", path.display())
            }
            LogError::Full { wait, reason } => write!(f, "the log is full due to '{}': {reason}", wait.name()),
            LogError::FileInUse { why } => write!(f, "the file is in use: {why}"),
            LogError::NotThere { lsn, end } => write!(f, "the log ends at {end}, before position {lsn}"),
            LogError::Failed { reason } => write!(f, "the log failed before: {reason}"),
        }
    }
}

impl std::error::Error for LogError {}

impl From<DiskError> for LogError {
    fn from(error: DiskError) -> LogError {
        LogError::Disk(error)
    }
}
