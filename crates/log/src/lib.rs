//! The write-ahead log of one database.
//!
//! [`Log::append`] gives a record its place by one atomic addition and copies it into a ring; [`Log::flush_past`]
//! returns when it is durable, having written whatever else was published by then. [`Log::open`] finds the end that a
//! crash left and gives back what recovery needs to read. Why it is made like this stands in `docs/design/0014-log.md`.
//!
//! The log knows positions, bytes and which record of a transaction follows which. What a record means is the matter of
//! those who append it; pages are not known here.

mod block;
mod error;
mod file_header;
mod files;
mod log;
mod open;
mod record;
mod ring;
mod room;
mod segments;
mod truncation;
mod waiters;

use std::sync::Arc;

use hobt_base::Lsn;
use hobt_disk::DiskFile;

pub use error::LogError;
pub use file_header::SEGMENTS_START;
pub use files::{LogFileLabel, LogFileRow, NewLogFile};
pub use log::{AppendError, Appended, Epoch, Log, LogStatistics, SegmentRow};
pub use open::Recovered;
pub use record::{NewRecord, PAYLOAD_BYTES_MAX, RECORD_HEADER_BYTES, Record, record_bytes};
pub use room::{Reservation, RoomFor};
pub use truncation::TruncationWait;

/// The position of the first record of a new log. Positions below it are before any log.
pub const LSN_FIRST: Lsn = Lsn(4096);
/// The smallest segment.
pub const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// The largest segment.
pub const SEGMENT_BYTES_MAX: u64 = 256 << 20;

/// A file of a log that is to be made.
#[derive(Clone)]
pub struct LogFile {
    /// The open file; empty or anything, it is made anew.
    pub disk: Arc<dyn DiskFile>,
    /// What it is called by whoever has the log; no other file of the log has the same, and none has 0.
    pub id: u16,
    /// Its name, at most 384 bytes.
    pub name: String,
    /// How large it is made, in bytes; rounded down to whole segments, at least four of [`SEGMENT_BYTES_MIN`].
    pub bytes: u64,
    /// By how much it grows when the log is full, in bytes; 0 for not at all.
    pub growth_bytes: u64,
    /// How large it may become, in bytes.
    pub bytes_max: u64,
}

impl std::fmt::Debug for LogFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogFile").field("path", &self.disk.path()).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
