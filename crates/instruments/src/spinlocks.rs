//! Spinlock statistics by name (`sys.dm_os_spinlock_stats`).

use crate::names::SpinlockName;
use crate::slots;

/// One line of the spinlock statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinlockRow {
    /// What the spinlocks protect.
    pub name: SpinlockName,
    /// Number of requests that found the lock held.
    pub collisions: u64,
    /// Number of pauses that these requests made.
    pub spins: u64,
    /// Time slept in back-offs.
    pub sleep_time_ns: u64,
    /// Number of times that a request yielded the processor or slept.
    pub backoffs: u64,
}

/// Collisions since start or the last [`clear`], one row for each name in the enum's order.
pub fn snapshot() -> Vec<SpinlockRow> {
    let sums = slots::spinlocks();
    let row = |(&name, sum): (&SpinlockName, &slots::SpinlockSum)| SpinlockRow {
        name,
        collisions: sum.collisions,
        spins: sum.spins,
        sleep_time_ns: sum.sleep_ns,
        backoffs: sum.backoffs,
    };
    SpinlockName::ALL.iter().zip(&sums).map(row).collect()
}

/// Resets the spinlock statistics to zero, and drops the recorded back-off stacks.
pub fn clear() {
    slots::clear_spinlocks();
    crate::backoff_stacks::clear();
}

pub(crate) fn record(name: SpinlockName, spins: u64, sleep_ns: u64, backoffs: u64) {
    if slots::accounting() {
        slots::with_slot(|slot| slot.spinlocks[name.index()].add(spins, sleep_ns, backoffs));
    }
}
