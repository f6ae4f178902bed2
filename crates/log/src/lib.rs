//! The write-ahead log of one database.
//!
//! [`Log::append`] reserves a record's space by one atomic addition and copies the record into a ring.
//! [`Log::flush_past`] returns when it is durable, and writes all other records published by then as well.
//! [`Log::open`] finds the end that a crash left and returns what recovery needs to read. `docs/design/0014-log.md`
//! explains the design.
//!
//! The log handles positions, bytes, and the order of a transaction's records. The meaning of a record is defined by
//! the code that appends it. Pages are unknown here.

mod backup;
mod block;
mod chain_state;
mod error;
mod file_header;
mod files;
#[cfg(test)]
mod fuzz;
mod log;
mod marks;
mod open;
mod reader;
mod record;
mod recovery_start;
mod ring;
mod room;
mod segments;
mod stretches;
mod truncation;
mod waiters;

use std::sync::Arc;

use hobt_base::Lsn;
use hobt_disk::DiskFile;

pub use backup::{LogHold, for_each_saved};
pub use chain_state::ChainState;
pub use error::LogError;
pub use file_header::SEGMENTS_START;
pub use files::{LogFileLabel, LogFileRow, NewLogFile, Unlisted};
pub use log::{AppendError, Appended, Epoch, Log, LogStatistics, SegmentRow};
pub use open::Recovered;
pub use reader::LogReader;
pub use record::{NewRecord, PAYLOAD_BYTES_MAX, RECORD_HEADER_BYTES, Record, record_bytes};
pub use recovery_start::RecoveryStart;
pub use room::{Reservation, RoomFor};
pub use truncation::TruncationWait;

/// The position of the first record of a new log. Positions below it are before any log.
pub const LSN_FIRST: Lsn = Lsn(4096);
/// No log gets so far: positions behind it, which a file may claim, are refused by their readers.
pub const LSN_MAX: Lsn = Lsn(1 << 54);
/// The smallest segment.
pub const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// The largest segment.
pub const SEGMENT_BYTES_MAX: u64 = 256 << 20;

/// A file of a log to be created.
#[derive(Clone)]
pub struct LogFile {
    /// The open file. Its contents do not matter; it is formatted.
    pub disk: Arc<dyn DiskFile>,
    /// Its id, chosen by the caller: unique among the log's files, and not 0.
    pub id: u16,
    /// Its name, at most 384 bytes.
    pub name: String,
    /// Its initial size in bytes, rounded down to whole segments; at least four of [`SEGMENT_BYTES_MIN`].
    pub bytes: u64,
    /// The step by which it grows when the log is full, in bytes; 0 for no growth.
    pub growth_bytes: u64,
    /// Its maximal size in bytes.
    pub bytes_max: u64,
}

impl std::fmt::Debug for LogFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogFile").field("path", &self.disk.path()).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
