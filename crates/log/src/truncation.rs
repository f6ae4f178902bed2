//! What prevents a log from reusing its oldest segments.

use hobt_base::Lsn;

use crate::{Log, LogError};

/// What the oldest segment of a log is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TruncationWait {
    /// Nothing: it is the one being filled.
    Nothing,
    /// There has been no checkpoint since.
    Checkpoint,
    /// It has not been backed up.
    LogBackup,
    /// An open transaction began there.
    ActiveTransaction,
}

impl TruncationWait {
    /// `log_reuse_wait` of `sys.databases`.
    pub const fn number(self) -> u8 {
        match self {
            TruncationWait::Nothing => 0,
            TruncationWait::Checkpoint => 1,
            TruncationWait::LogBackup => 2,
            TruncationWait::ActiveTransaction => 4,
        }
    }

    /// `log_reuse_wait_desc` of `sys.databases`.
    pub const fn name(self) -> &'static str {
        match self {
            TruncationWait::Nothing => "NOTHING",
            TruncationWait::Checkpoint => "CHECKPOINT",
            TruncationWait::LogBackup => "LOG_BACKUP",
            TruncationWait::ActiveTransaction => "ACTIVE_TRANSACTION",
        }
    }
}

/// What the oldest of the segments that begin at `firsts` waits for, if backups need the log from `backup` on and open
/// transactions from `oldest` on.
fn wait_of(mut firsts: Vec<Lsn>, backup: Lsn, oldest: Option<Lsn>) -> TruncationWait {
    firsts.sort_unstable();
    match firsts.get(1) {
        None => TruncationWait::Nothing,
        Some(second) if backup < *second => TruncationWait::LogBackup,
        Some(second) if oldest.is_some_and(|oldest| oldest < *second) => TruncationWait::ActiveTransaction,
        Some(_) => TruncationWait::Checkpoint,
    }
}

/// The position from which backups need a log that is not kept for backups: beyond every record.
pub(crate) const NO_BACKUP: u64 = u64::MAX;

impl Log {
    /// What its oldest segment waits for. `oldest` is the first position that an open transaction may need.
    pub fn truncation_wait(&self, oldest: Option<Lsn>) -> TruncationWait {
        let firsts = self.segments().iter().filter_map(|segment| segment.first).collect();
        wait_of(firsts, self.needed_by_backup(), oldest)
    }

    /// Sets whether records are kept until they have been backed up ([`Log::backed_up`]), from the oldest that still
    /// exists. Otherwise they are kept only as long as recovery needs them.
    pub fn keep_for_backup(&self, keeps: bool) {
        let now = self.segments.lock().files.first().map_or(NO_BACKUP, |first| first.header.retain.0);
        // If records are kept already, that stays; records that are gone cannot be kept.
        let _kept = self.backup.fetch_update(
            std::sync::atomic::Ordering::Relaxed,
            std::sync::atomic::Ordering::Relaxed,
            |from| Some(if keeps { from.min(now) } else { NO_BACKUP }),
        );
    }

    /// Everything before `until` is in a backup of the log, or not needed by one. Durable when it returns. After a
    /// crash before it returns, more than that is kept.
    ///
    /// # Errors
    /// The header of the first file cannot be written.
    pub fn backed_up(&self, until: Lsn) -> Result<(), LogError> {
        self.backup.store(until.0, std::sync::atomic::Ordering::Relaxed);
        match self.recovery_start() {
            Some((redo_start, keep)) => self.set_recovery_start(redo_start, keep),
            None => self.check(),
        }
    }

    /// The first position that a backup of the log needs.
    pub(crate) fn needed_by_backup(&self) -> Lsn {
        Lsn(self.backup.load(std::sync::atomic::Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_segment_says_what_it_waits_for() {
        let none = Lsn(NO_BACKUP);
        let two = || vec![Lsn(9000), Lsn(5000)];
        assert_eq!(wait_of(vec![Lsn(5000)], none, Some(Lsn(5000))), TruncationWait::Nothing);
        assert_eq!(wait_of(two(), none, None), TruncationWait::Checkpoint);
        assert_eq!(wait_of(two(), none, Some(Lsn(9000))), TruncationWait::Checkpoint);
        assert_eq!(wait_of(two(), none, Some(Lsn(8999))), TruncationWait::ActiveTransaction);
        assert_eq!(wait_of(two(), Lsn(8999), Some(Lsn(8999))), TruncationWait::LogBackup);
        assert_eq!(wait_of(two(), Lsn(9000), None), TruncationWait::Checkpoint);
    }
}
