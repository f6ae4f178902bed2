//! How a database's log stands: what views and `DBCC` show of it.

use std::path::PathBuf;

use hobt_access::Storage;
use hobt_base::{FileId, Lsn};
use hobt_disk::FileSnapshot;
use hobt_log::{LogStatistics, SegmentRow};

/// The id of a log's first file; further ones count down from it. SQL Server's log is file 2, which is a data file here.
pub const LOG_FILE_ID: FileId = FileId(i16::MAX as u16);

/// What keeps the log from using its oldest segments again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogReuseWait {
    /// Nothing.
    Nothing,
    /// No checkpoint has been made since.
    Checkpoint,
    /// A transaction is open that began there.
    ActiveTransaction,
}

impl LogReuseWait {
    /// `log_reuse_wait` of `sys.databases`.
    pub const fn number(self) -> u8 {
        match self {
            LogReuseWait::Nothing => 0,
            LogReuseWait::Checkpoint => 1,
            LogReuseWait::ActiveTransaction => 4,
        }
    }

    /// `log_reuse_wait_desc` of `sys.databases`.
    pub const fn name(self) -> &'static str {
        match self {
            LogReuseWait::Nothing => "NOTHING",
            LogReuseWait::Checkpoint => "CHECKPOINT",
            LogReuseWait::ActiveTransaction => "ACTIVE_TRANSACTION",
        }
    }
}

/// A file of a log.
#[derive(Clone, Debug)]
pub struct LogFileDescription {
    /// Its id among the database's files.
    pub id: FileId,
    /// Its logical name: that of the file without the suffix.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Its reads and writes since it was opened.
    pub transfers: FileSnapshot,
    /// Its size in bytes.
    pub bytes: u64,
    /// By how much it grows, in bytes.
    pub growth_bytes: u64,
    /// How large it may become, in bytes.
    pub bytes_max: u64,
}

/// How a log stands. Its figures are read one after the other, while others may write into it.
#[derive(Clone, Debug)]
pub struct LogDescription {
    /// Its files.
    pub files: Vec<LogFileDescription>,
    /// Its segments, in the order of files and places.
    pub segments: Vec<SegmentRow>,
    /// Bytes of its files.
    pub file_bytes: u64,
    /// Bytes of them that hold something needed.
    pub used_bytes: u64,
    /// Bytes that open transactions have reserved.
    pub reserved_bytes: u64,
    /// Where recovery would begin to redo.
    pub redo_start: Lsn,
    /// The first position that is kept.
    pub keep: Lsn,
    /// The position behind the last record.
    pub end: Lsn,
    /// What it has done since it was opened.
    pub statistics: LogStatistics,
    /// Transactions that have written into it and not ended.
    pub open_transactions: u64,
    /// Transactions of users that have begun to write into it since it was opened.
    pub begun_transactions: u64,
    /// What keeps its oldest segments.
    pub reuse_wait: LogReuseWait,
}

impl LogDescription {
    /// How the log of a database stands; `None` for one without a log (`tempdb`), and for one that is closed.
    pub fn of(storage: &Storage) -> Option<LogDescription> {
        let transactions = storage.log()?;
        let log = transactions.log();
        let (redo_start, keep) = log.recovery_start()?;
        let files = (0..).zip(log.files()).zip(log.growth());
        let files: Vec<LogFileDescription> = files
            .map(|((index, (disk, bytes)), (growth_bytes, bytes_max))| {
                let path = disk.path().to_path_buf();
                let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
                let transfers = disk.statistics().snapshot();
                LogFileDescription { id: file_id(index), name, path, transfers, bytes, growth_bytes, bytes_max }
            })
            .collect();
        let segments = log.segments();
        let file_bytes = files.iter().map(|file| file.bytes).sum::<u64>();
        Some(LogDescription {
            reuse_wait: reuse_wait(&segments, transactions.oldest()),
            used_bytes: file_bytes.saturating_sub(log.free_bytes()),
            files,
            segments,
            file_bytes,
            reserved_bytes: log.reserved_bytes(),
            redo_start,
            keep,
            end: log.end(),
            statistics: log.statistics(),
            open_transactions: transactions.open_count() as u64,
            begun_transactions: transactions.begun_count(),
        })
    }

    /// How much of it is used, in percent.
    pub fn used_percent(&self) -> f64 {
        if self.file_bytes == 0 { 0.0 } else { self.used_bytes as f64 * 100.0 / self.file_bytes as f64 }
    }

    /// The id of the file that a segment is in.
    pub fn file_of(&self, segment: &SegmentRow) -> FileId {
        file_id(u16::try_from(segment.file).unwrap_or(u16::MAX))
    }

    /// The segment that is being filled: the one that was begun last.
    pub fn current(&self) -> Option<&SegmentRow> {
        self.segments.iter().max_by_key(|segment| segment.sequence)
    }
}

fn file_id(index: u16) -> FileId {
    FileId(LOG_FILE_ID.0.saturating_sub(index))
}

/// What keeps the oldest segment in use, if it is not the one that is being filled.
fn reuse_wait(segments: &[SegmentRow], oldest: Option<Lsn>) -> LogReuseWait {
    let mut firsts: Vec<Lsn> = segments.iter().filter_map(|segment| segment.first).collect();
    firsts.sort_unstable();
    match (firsts.get(1), oldest) {
        (None, _) => LogReuseWait::Nothing,
        (Some(second), Some(oldest)) if oldest < *second => LogReuseWait::ActiveTransaction,
        _ => LogReuseWait::Checkpoint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(sequence: Option<u64>, first: Option<u64>) -> SegmentRow {
        SegmentRow { file: 0, offset: 0, bytes: 1 << 20, sequence, first: first.map(Lsn) }
    }

    #[test]
    fn the_oldest_segment_says_what_it_waits_for() {
        let one = [segment(Some(7), Some(5000)), segment(None, None)];
        assert_eq!(reuse_wait(&one, Some(Lsn(5000))), LogReuseWait::Nothing);
        let two = [segment(Some(8), Some(9000)), segment(Some(7), Some(5000)), segment(None, None)];
        assert_eq!(reuse_wait(&two, None), LogReuseWait::Checkpoint);
        assert_eq!(reuse_wait(&two, Some(Lsn(9000))), LogReuseWait::Checkpoint);
        assert_eq!(reuse_wait(&two, Some(Lsn(8999))), LogReuseWait::ActiveTransaction);
    }
}
