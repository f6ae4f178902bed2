//! What the header of a log says of its backups.

use hobt_base::Lsn;

/// What the first header of a log says of its backups. Zeros for a log that was never backed up or restored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ChainState {
    /// Where the next backup of the log begins: the end of the last one. 0 where there was none.
    pub from: Lsn,
    /// Pages may have changes up to here: the log was restored, and the database is not whole before the log reaches
    /// this position. 0 where it was not restored, or has been recovered since.
    pub floor: Lsn,
    /// Tells apart what was written to this log from what other databases wrote that were restored from the same
    /// backups.
    pub fork: [u8; 16],
    /// Of a log that is being restored: when the last transaction in it has committed.
    pub time: i64,
    /// Of a log that is being restored: names the backup of the whole database that it began with.
    pub base: u64,
}
