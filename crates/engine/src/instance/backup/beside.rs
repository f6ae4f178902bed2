//! How a backup leaves a device to others: of its threads only a few go on while someone else transfers something.
//!
//! A queue of requests at a device is shared by their number. A backup with sixteen threads alone reaches the device's
//! limit; beside a load of eight writes it would take two thirds of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hobt_disk::DeviceStatistics;

/// Threads that go on beside others.
const BESIDE_OTHERS: usize = 3;
/// Others are taken to be at work for so long after they were seen last.
const SEEN_FOR: Duration = Duration::from_millis(50);
/// The time between two looks. A device tells nobody when it becomes idle: that would cost each transfer of everyone a
/// wake-up, for a backup now and then.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The devices of a backup, and who uses them.
pub(super) struct SharedDevices {
    all: Vec<Arc<DeviceStatistics>>,
    /// Transfers of the backup's own that may be under way.
    active: AtomicU32,
    begun: Instant,
    /// Nanoseconds from the beginning to when others were seen last, plus one; 0 if they never were.
    seen: AtomicU64,
}

/// A transfer of the backup's own.
pub(super) struct Transfer<'a>(&'a AtomicU32);

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SharedDevices {
    pub(super) fn of<'a>(devices: impl Iterator<Item = &'a Arc<DeviceStatistics>>) -> SharedDevices {
        let mut all: Vec<_> = devices.cloned().collect();
        all.sort_by_key(|device| device.number());
        all.dedup_by_key(|device| device.number());
        SharedDevices { all, active: AtomicU32::new(0), begun: Instant::now(), seen: AtomicU64::new(0) }
    }

    /// Blocks the thread of this number while others are at work and nothing `is_over`, unless it is among those that
    /// go on. It is idle by choice: no wait is recorded.
    pub(super) fn step_back(&self, thread: usize, is_over: &AtomicBool) {
        self.look();
        while thread >= BESIDE_OTHERS && self.are_shared() && !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
            self.look();
        }
    }

    /// The calling thread may have one transfer under way, while the result lives.
    pub(super) fn transfer(&self) -> Transfer<'_> {
        self.active.fetch_add(1, Ordering::Relaxed);
        Transfer(&self.active)
    }

    /// Looks whether more is under way than the backup's own threads can have.
    fn look(&self) {
        let before = self.active.load(Ordering::Relaxed);
        let under_way: u32 = self.all.iter().map(|device| device.in_flight()).sum();
        // A transfer of its own may have begun or ended in between.
        if under_way > before.max(self.active.load(Ordering::Relaxed)) {
            self.seen.fetch_max(self.now() + 1, Ordering::Relaxed);
        }
    }

    fn are_shared(&self) -> bool {
        let seen = self.seen.load(Ordering::Relaxed);
        seen > 0 && self.now() < seen + SEEN_FOR.as_nanos() as u64
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
    }
}
