//! Latch statistics by class (`sys.dm_os_latch_stats`).

use crate::names::LatchClass;
use crate::slots;
use crate::waits::nanoseconds;
use std::time::Duration;

/// One line of the latch statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatchRow {
    /// What the latches protect.
    pub latch_class: LatchClass,
    /// Number of requests that had to wait.
    pub waiting_requests_count: u64,
    /// Total time of the waits.
    pub wait_time_ns: u64,
    /// Longest wait.
    pub max_wait_time_ns: u64,
}

/// Records that a request for a latch of this class waited. [`crate::Latch`] does so itself; this is for latches built
/// elsewhere (page state words). The wait type is recorded separately, by [`crate::waits::record`].
pub fn record(class: LatchClass, wait: Duration) {
    if slots::accounting() {
        let wait_ns = nanoseconds(wait);
        slots::with_slot(|slot| slot.latches[class.index()].add(wait_ns));
    }
}

/// Latch waits since start or the last [`clear`], one row for each class in the enum's order.
pub fn snapshot() -> Vec<LatchRow> {
    let sums = slots::latches();
    let row = |(&latch_class, sum): (&LatchClass, &slots::LatchSum)| LatchRow {
        latch_class,
        waiting_requests_count: sum.count,
        wait_time_ns: sum.time_ns,
        max_wait_time_ns: sum.max_ns,
    };
    LatchClass::ALL.iter().zip(&sums).map(row).collect()
}

/// Resets the latch statistics to zero.
pub fn clear() {
    slots::clear_latches();
}
