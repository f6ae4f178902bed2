//! What prevents a log from reusing its oldest segments.

use hobt_base::Lsn;

/// What the oldest segment of a log is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TruncationWait {
    /// Nothing: it is the one being filled.
    Nothing,
    /// There has been no checkpoint since.
    Checkpoint,
    /// It has not been backed up.
    LogBackup,
    /// A backup that is running copies it.
    ActiveBackup,
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
            TruncationWait::ActiveBackup => 3,
            TruncationWait::ActiveTransaction => 4,
        }
    }

    /// `log_reuse_wait_desc` of `sys.databases`.
    pub const fn name(self) -> &'static str {
        match self {
            TruncationWait::Nothing => "NOTHING",
            TruncationWait::Checkpoint => "CHECKPOINT",
            TruncationWait::LogBackup => "LOG_BACKUP",
            TruncationWait::ActiveBackup => "ACTIVE_BACKUP_OR_RESTORE",
            TruncationWait::ActiveTransaction => "ACTIVE_TRANSACTION",
        }
    }
}

/// What the oldest of the segments that begin at `firsts` waits for, if running backups need the log from `held` on,
/// later ones from `backup` on, and open transactions from `oldest` on.
pub(crate) fn wait_of(mut firsts: Vec<Lsn>, held: Lsn, backup: Lsn, oldest: Option<Lsn>) -> TruncationWait {
    firsts.sort_unstable();
    match firsts.get(1) {
        None => TruncationWait::Nothing,
        Some(second) if held < *second => TruncationWait::ActiveBackup,
        Some(second) if backup < *second => TruncationWait::LogBackup,
        Some(second) if oldest.is_some_and(|oldest| oldest < *second) => TruncationWait::ActiveTransaction,
        Some(_) => TruncationWait::Checkpoint,
    }
}

/// The position from which backups need a log that is not kept for backups: beyond every record.
pub(crate) const NO_BACKUP: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_segment_says_what_it_waits_for() {
        let none = Lsn(NO_BACKUP);
        let two = || vec![Lsn(9000), Lsn(5000)];
        assert_eq!(wait_of(vec![Lsn(5000)], none, none, Some(Lsn(5000))), TruncationWait::Nothing);
        assert_eq!(wait_of(two(), none, none, None), TruncationWait::Checkpoint);
        assert_eq!(wait_of(two(), none, none, Some(Lsn(9000))), TruncationWait::Checkpoint);
        assert_eq!(wait_of(two(), none, none, Some(Lsn(8999))), TruncationWait::ActiveTransaction);
        assert_eq!(wait_of(two(), none, Lsn(8999), Some(Lsn(8999))), TruncationWait::LogBackup);
        assert_eq!(wait_of(two(), none, Lsn(9000), None), TruncationWait::Checkpoint);
        assert_eq!(wait_of(two(), Lsn(8999), none, None), TruncationWait::ActiveBackup);
    }
}
