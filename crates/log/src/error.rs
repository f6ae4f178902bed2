//! What goes wrong with a log.

use std::fmt;
use std::path::PathBuf;

use hobt_base::Lsn;
use hobt_disk::{DiskError, DiskFile};

use crate::TruncationWait;

/// Why the log does not do what was asked.
#[derive(Debug)]
pub enum LogError {
    /// The device failed, and with it the log: it takes nothing more until it is opened again.
    Disk(DiskError),
    /// What lies in a log file is not what was written there.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// No segment is free and no file may grow: error 9002.
    Full {
        /// What the oldest segment is still needed for.
        wait: TruncationWait,
        /// Why the log does not grow.
        reason: &'static str,
    },
    /// The file is needed: it holds records, or the log would be too small without it.
    FileInUse {
        /// What it is needed for.
        why: &'static str,
    },
    /// A position was to be made durable at which there is no record.
    NotThere {
        /// The position.
        lsn: Lsn,
        /// Where the log ends.
        end: Lsn,
    },
    /// It failed before.
    Failed {
        /// How.
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
