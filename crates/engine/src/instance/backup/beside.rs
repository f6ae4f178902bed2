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
/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The devices of a backup, and who uses them.
pub(super) struct Devices {
    all: Vec<Arc<DeviceStatistics>>,
    /// Threads of the backup that may have a transfer under way, one each.
    active: AtomicU32,
    begun: Instant,
    /// Nanoseconds from the beginning to when others were seen last, plus one; 0 if they never were.
    seen: AtomicU64,
}

/// A thread's turn to transfer.
pub(super) struct Turn<'a>(&'a AtomicU32);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Devices {
    pub(super) fn of<'a>(devices: impl Iterator<Item = &'a Arc<DeviceStatistics>>) -> Devices {
        let mut all: Vec<_> = devices.cloned().collect();
        all.sort_by_key(|device| device.number());
        all.dedup_by_key(|device| device.number());
        Devices { all, active: AtomicU32::new(0), begun: Instant::now(), seen: AtomicU64::new(0) }
    }

    /// Lets the thread of this number transfer, one thing at a time, while the result lives. A thread that is not among
    /// those that go on waits before, while others are at work and nothing `is_over`.
    pub(super) fn take_turn(&self, thread: usize, is_over: &AtomicBool) -> Turn<'_> {
        self.look();
        while thread >= BESIDE_OTHERS && self.are_shared() && !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
            self.look();
        }
        self.active.fetch_add(1, Ordering::Relaxed);
        Turn(&self.active)
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
