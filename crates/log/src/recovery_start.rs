//! The positions at which recovery begins.

use hobt_base::Lsn;

/// Where recovery begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveryStart {
    /// Redo: where the last checkpoint began.
    pub redo: Lsn,
    /// The search for the end of the log, and analysis; at or before `redo`.
    pub read_from: Lsn,
    /// Undo needs no record before this one, at or before `read_from`.
    pub keep: Lsn,
}

impl RecoveryStart {
    /// Recovery needs nothing before this position.
    pub const fn at(lsn: Lsn) -> RecoveryStart {
        RecoveryStart { redo: lsn, read_from: lsn, keep: lsn }
    }
}
