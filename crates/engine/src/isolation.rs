//! A database's isolation options, which `ALTER DATABASE … SET` changes.

use std::sync::atomic::{AtomicI32, Ordering};

const ALLOWS_SNAPSHOT: i32 = 1;
const READ_COMMITTED_SNAPSHOT: i32 = 2;
/// Beside the isolation options: the database is being restored.
pub(crate) const RESTORING: i32 = 1 << 16;
/// Beside the isolation options: the database is a standby, which is read and restored further.
pub(crate) const STANDBY: i32 = 1 << 17;
/// Beside the isolation options: the database is a snapshot of the one whose guid it has.
pub(crate) const SNAPSHOT: i32 = 1 << 18;
/// Beside the isolation options: a copy of the snapshot is gone.
pub(crate) const LOST: i32 = 1 << 19;

/// An isolation option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IsolationOption {
    /// `ALLOW_SNAPSHOT_ISOLATION`: whether transactions may run under `SNAPSHOT`.
    AllowSnapshot,
    /// `READ_COMMITTED_SNAPSHOT`: whether `READ COMMITTED` reads row versions instead of taking shared locks.
    ReadCommittedSnapshot,
}

impl IsolationOption {
    /// Its name in `ALTER DATABASE`.
    pub const fn name(self) -> &'static str {
        match self {
            IsolationOption::AllowSnapshot => "ALLOW_SNAPSHOT_ISOLATION",
            IsolationOption::ReadCommittedSnapshot => "READ_COMMITTED_SNAPSHOT",
        }
    }

    const fn bit(self) -> i32 {
        match self {
            IsolationOption::AllowSnapshot => ALLOWS_SNAPSHOT,
            IsolationOption::ReadCommittedSnapshot => READ_COMMITTED_SNAPSHOT,
        }
    }
}

/// The isolation options of one database, as `master` stores them. A statement reads them when it is bound.
#[derive(Debug)]
pub struct IsolationOptions(AtomicI32);

impl IsolationOptions {
    /// The options of a new database.
    pub(crate) fn of_new_database() -> IsolationOptions {
        IsolationOptions::of_bits(READ_COMMITTED_SNAPSHOT)
    }

    /// The options of the instance's own databases, which cannot be changed.
    pub(crate) fn of_system_database() -> IsolationOptions {
        IsolationOptions::of_bits(READ_COMMITTED_SNAPSHOT | ALLOWS_SNAPSHOT)
    }

    /// The options encoded in `bits`; see [`IsolationOptions::bits`].
    pub(crate) fn of_bits(bits: i32) -> IsolationOptions {
        IsolationOptions(AtomicI32::new(bits & !(RESTORING | STANDBY | SNAPSHOT | LOST)))
    }

    /// The options encoded as the row of `master` has them.
    pub(crate) fn bits(&self) -> i32 {
        self.0.load(Ordering::Relaxed)
    }

    /// The bits with one option changed.
    pub(crate) fn bits_with(&self, option: IsolationOption, on: bool) -> i32 {
        if on { self.bits() | option.bit() } else { self.bits() & !option.bit() }
    }

    pub(crate) fn set_bits(&self, bits: i32) {
        self.0.store(bits, Ordering::Relaxed);
    }

    /// Whether an option is on.
    pub fn has(&self, option: IsolationOption) -> bool {
        self.bits() & option.bit() != 0
    }
}
