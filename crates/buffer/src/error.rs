//! Errors of the pool, by what the caller does next.

use std::fmt;

use hobt_base::{DatabaseId, PageId};
use hobt_disk::DiskError;
use hobt_log::LogError;
use hobt_page::PageDamage;

/// An error of the buffer pool.
#[derive(Debug)]
pub enum BufferError {
    /// The page came from disk damaged: error 824. The statement ends, and the page is refused.
    Damaged {
        /// The database that the page belongs to.
        database: DatabaseId,
        /// The page.
        page: PageId,
        /// What is wrong with it.
        what: PageDamage,
    },
    /// The disk failed: error 823. A page that could not be written stays dirty.
    Disk(DiskError),
    /// The log failed or is full. It must have a page's changes before the page is written.
    Log(LogError),
    /// Every frame is held or, for a scan's load, in use by others. A scan reads into buffers of its own; anything else
    /// reports error 701.
    NoFrames,
    /// The page is beyond the end of its file: a broken pointer, or a file cut short.
    OutOfRange {
        /// The page.
        page: PageId,
        /// How many pages the file has.
        pages: u64,
    },
    /// Pages are held by guards that were not released in time.
    InUse,
    /// The file has changed pages. Flush it, or say that they may be lost.
    Dirty,
    /// The file is no longer registered.
    Closed,
    /// The file's pages are no longer written, because its database is damaged.
    Frozen,
    /// The operating system refused the memory.
    Memory {
        /// How much was asked for, in bytes.
        bytes: usize,
        /// The system's error code.
        code: i32,
    },
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferError::Damaged { database, page, what } => {
                write!(f, "page {page} of database {database} is damaged: {what}")
            }
            BufferError::Disk(error) => error.fmt(f),
            BufferError::Log(error) => write!(f, "the log does not take the changes of pages: {error}"),
            BufferError::NoFrames => f.write_str("every frame of the buffer pool is in use; give it more memory"),
            BufferError::OutOfRange { page, pages } => {
                write!(f, "page {page} lies outside its file, which has {pages} pages")
            }
            BufferError::InUse => f.write_str("pages of the file are in use"),
            BufferError::Dirty => f.write_str("the file has pages that are not written yet"),
            BufferError::Closed => f.write_str("the file is closed"),
            BufferError::Frozen => {
                f.write_str("the pages of the file are not what they should be, and are not written")
            }
            BufferError::Memory { bytes, code } => write!(
                f,
                "the operating system refused {bytes} bytes for the buffer pool: {}; ask for less",
                std::io::Error::from_raw_os_error(*code)
            ),
        }
    }
}

impl std::error::Error for BufferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BufferError::Damaged { what, .. } => Some(what),
            BufferError::Disk(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DiskError> for BufferError {
    fn from(error: DiskError) -> BufferError {
        BufferError::Disk(error)
    }
}
