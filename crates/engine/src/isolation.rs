//! What a database says of the isolation of its transactions: the options that `ALTER DATABASE … SET` changes.

use std::sync::atomic::{AtomicI32, Ordering};

const ALLOWS_SNAPSHOT: i32 = 1;
const READ_COMMITTED_SNAPSHOT: i32 = 2;

/// One of the options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IsolationOption {
    /// `ALLOW_SNAPSHOT_ISOLATION`: whether transactions may run under `SNAPSHOT`.
    AllowSnapshot,
    /// `READ_COMMITTED_SNAPSHOT`: whether `READ COMMITTED` reads versions of rows, and not under locks.
    ReadCommittedSnapshot,
}

impl IsolationOption {
    /// As `ALTER DATABASE` has it.
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

/// The options of one database, as `master` has them. A statement looks at them when it is bound.
#[derive(Debug)]
pub struct IsolationOptions(AtomicI32);

impl IsolationOptions {
    /// Those of a new database.
    pub(crate) fn of_new_database() -> IsolationOptions {
        IsolationOptions::of_bits(READ_COMMITTED_SNAPSHOT)
    }

    /// Those of the instance's own databases, which cannot be changed.
    pub(crate) fn of_system_database() -> IsolationOptions {
        IsolationOptions::of_bits(READ_COMMITTED_SNAPSHOT | ALLOWS_SNAPSHOT)
    }

    /// As [`IsolationOptions::bits`] has them.
    pub(crate) fn of_bits(bits: i32) -> IsolationOptions {
        IsolationOptions(AtomicI32::new(bits))
    }

    /// As the row of `master` has them.
    pub(crate) fn bits(&self) -> i32 {
        self.0.load(Ordering::Relaxed)
    }

    /// The bits with an option changed.
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
