//! The state of a database's log, as views and `DBCC` show it.

use std::path::PathBuf;

use hobt_access::Storage;
use hobt_base::{FileId, Lsn};
use hobt_disk::FileSnapshot;
use hobt_log::{LogFileRow, LogStatistics, SegmentRow, TruncationWait};

/// A file of a log.
#[derive(Clone, Debug)]
pub struct LogFileDescription {
    /// Its id among the database's files.
    pub id: FileId,
    /// Its logical name.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// Its reads and writes since the file was opened.
    pub transfers: FileSnapshot,
    /// Its size in bytes.
    pub bytes: u64,
    /// By how much it grows, in bytes.
    pub growth_bytes: u64,
    /// How large it may become, in bytes.
    pub bytes_max: u64,
}

/// The state of a log. The figures are read one after the other, while other threads may write to the log.
#[derive(Clone, Debug)]
pub struct LogDescription {
    /// Its files.
    pub files: Vec<LogFileDescription>,
    /// Its segments, in the order of files and positions.
    pub segments: Vec<SegmentRow>,
    /// Bytes of its files.
    pub file_bytes: u64,
    /// Bytes of its files that are still needed.
    pub used_bytes: u64,
    /// Bytes that open transactions have reserved.
    pub reserved_bytes: u64,
    /// Where recovery would begin redo.
    pub redo_start: Lsn,
    /// The first position that is kept.
    pub keep: Lsn,
    /// The position after the last record.
    pub end: Lsn,
    /// Its counters since it was opened.
    pub statistics: LogStatistics,
    /// Transactions that have written to it and not ended.
    pub open_transactions: u64,
    /// Transactions of users that have begun to write to it since it was opened.
    pub begun_transactions: u64,
    /// What prevents the reuse of its oldest segments.
    pub reuse_wait: TruncationWait,
}

impl LogDescription {
    /// The state of the log of a database; `None` if it has no log (`tempdb`) or is closed.
    pub fn of(storage: &Storage) -> Option<LogDescription> {
        let transactions = storage.log()?;
        let log = transactions.log();
        let start = log.recovery_start()?;
        let describe = |file: LogFileRow| LogFileDescription {
            id: FileId(file.id),
            name: file.name,
            path: file.disk.path().to_path_buf(),
            transfers: file.disk.statistics().snapshot(),
            bytes: file.bytes,
            growth_bytes: file.growth_bytes,
            bytes_max: file.bytes_max,
        };
        let files: Vec<LogFileDescription> = log.files().into_iter().map(describe).collect();
        let segments = log.segments();
        let file_bytes = files.iter().map(|file| file.bytes).sum::<u64>();
        Some(LogDescription {
            reuse_wait: log.truncation_wait(transactions.oldest()),
            used_bytes: file_bytes.saturating_sub(log.free_bytes()),
            files,
            segments,
            file_bytes,
            reserved_bytes: log.reserved_bytes(),
            redo_start: start.redo,
            keep: start.keep,
            end: log.end(),
            statistics: log.statistics(),
            open_transactions: transactions.open_count() as u64,
            begun_transactions: transactions.begun_count(),
        })
    }

    /// The used part in percent.
    pub fn used_percent(&self) -> f64 {
        if self.file_bytes == 0 { 0.0 } else { self.used_bytes as f64 * 100.0 / self.file_bytes as f64 }
    }

    /// The id of the file that a segment is in.
    pub fn file_of(&self, segment: &SegmentRow) -> FileId {
        FileId(segment.file)
    }

    /// The segment that is being filled: the one begun last.
    pub fn current(&self) -> Option<&SegmentRow> {
        self.segments.iter().max_by_key(|segment| segment.sequence)
    }
}
