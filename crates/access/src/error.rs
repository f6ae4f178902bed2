//! Errors of a database's storage, by what the caller does next.

use std::fmt;

use hobt_base::{FilegroupId, PageId};
use hobt_buffer::BufferError;
use hobt_disk::DiskError;
use hobt_log::LogError;
use hobt_page::PageDamage;
use hobt_txn::{NoRoom, OutOfMemory, VersionError, VersionsFull};

/// An error of storage.
#[derive(Debug)]
pub enum AccessError {
    /// A page does not have the content that was written: error 824. The statement fails; the page stays as it is.
    Damaged {
        /// The file's logical name.
        file: String,
        /// The page.
        page: PageId,
        /// What is wrong with it.
        damage: PageDamage,
    },
    /// A value that was read uncommitted has gone meanwhile: error 601. The statement fails.
    DataMoved,
    /// No file of the filegroup has room and none can grow: error 1105. The statement is undone.
    FilegroupFull {
        /// The filegroup.
        filegroup: FilegroupId,
        /// Why its files did not grow.
        reason: String,
    },
    /// The log has no room left: error 9002. The statement is undone.
    LogFull {
        /// What its oldest part is needed for, as `log_reuse_wait_desc` names it.
        wait: &'static str,
        /// Why it does not grow.
        reason: &'static str,
    },
    /// The log failed: nothing can be changed until the database is recovered.
    LogFailed(String),
    /// A transaction was prepared, and the database that knows its outcome cannot be asked: the reason. Nothing was
    /// written.
    Undecided(String),
    /// The device failed: error 823.
    Disk(DiskError),
    /// The pool has no frame to give: error 701.
    OutOfFrames,
    /// The memory budget is used up: error 701.
    OutOfMemory(OutOfMemory),
    /// Neither memory nor disk has room for more versions of rows: error 3959.
    VersionsFull(VersionsFull),
    /// Versions that the statement needs were given up (error 3958), or cannot be read (error 823).
    Versions(VersionError),
    /// A row is larger than a page: error 511.
    RowTooLarge {
        /// The row's bytes.
        bytes: usize,
    },
    /// The statement was cancelled.
    Cancelled,
    /// The database is closed, or the file's pages are in use where they must not be.
    Closed(String),
    /// An error of the scan's visitor, passed through.
    Visitor(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessError::Damaged { file, page, damage } => {
                write!(f, "page {page} of file '{file}' at byte {} is damaged: {damage}", page.byte_offset())
            }
            AccessError::DataMoved => f.write_str("an uncommitted value has gone while it was read"),
            AccessError::FilegroupFull { filegroup, reason } => {
                write!(f, "filegroup {filegroup} is full: {reason}")
            }
            AccessError::LogFull { wait, reason } => write!(f, "the log is full due to '{wait}': {reason}"),
            AccessError::LogFailed(reason) => write!(f, "the log failed: {reason}"),
            AccessError::Undecided(reason) => write!(f, "a transaction is in doubt: {reason}"),
            AccessError::Disk(error) => error.fmt(f),
            AccessError::OutOfFrames => f.write_str("every frame of the buffer pool is in use"),
            AccessError::OutOfMemory(error) => error.fmt(f),
            AccessError::VersionsFull(full) => full.fmt(f),
            AccessError::Versions(error) => error.fmt(f),
            AccessError::RowTooLarge { bytes } => {
                write!(f, "a row of {bytes} bytes does not fit a page")
            }
            AccessError::Cancelled => f.write_str("the statement was cancelled"),
            AccessError::Closed(what) => f.write_str(what),
            AccessError::Visitor(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AccessError {}

impl From<DiskError> for AccessError {
    fn from(error: DiskError) -> AccessError {
        AccessError::Disk(error)
    }
}

impl From<OutOfMemory> for AccessError {
    fn from(error: OutOfMemory) -> AccessError {
        AccessError::OutOfMemory(error)
    }
}

impl From<VersionError> for AccessError {
    fn from(error: VersionError) -> AccessError {
        AccessError::Versions(error)
    }
}

impl From<NoRoom> for AccessError {
    fn from(error: NoRoom) -> AccessError {
        match error {
            NoRoom::Memory(error) => AccessError::OutOfMemory(error),
            NoRoom::Versions(full) => AccessError::VersionsFull(full),
        }
    }
}

impl From<LogError> for AccessError {
    fn from(error: LogError) -> AccessError {
        match error {
            LogError::Full { wait, reason } => AccessError::LogFull { wait: wait.name(), reason },
            LogError::Failed { reason } => AccessError::LogFailed(reason),
            other => AccessError::LogFailed(other.to_string()),
        }
    }
}

impl AccessError {
    /// An error of the pool, with the file's name.
    pub(crate) fn of_pool(error: BufferError, file: &str) -> AccessError {
        match error {
            BufferError::Damaged { page, what, .. } => {
                AccessError::Damaged { file: file.to_owned(), page, damage: what }
            }
            BufferError::OutOfRange { page, .. } => {
                let damage = PageDamage::Structure { rule: "a page that is not behind the end of its file" };
                AccessError::Damaged { file: file.to_owned(), page, damage }
            }
            BufferError::Disk(error) => AccessError::Disk(error),
            BufferError::NoFrames => AccessError::OutOfFrames,
            BufferError::Log(error) => error.into(),
            other => AccessError::Closed(format!("file '{file}': {other}")),
        }
    }
}
