//! What a device transfers per second while it is busy: the basis for dealing data among devices.
//!
//! Only transfers of [`LARGE_BYTES`] or more count; small ones measure latency. The time is that in which at least one
//! of them was under way, so requests at once do not count twice and idle time not at all. Which files share a device
//! is the disk's knowledge; files keep a reference to it.

use crate::queue::Direction;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The least transfer that counts, in bytes.
pub const LARGE_BYTES: u64 = 64 << 10;

/// After so many bytes the totals are halved, so that a device that becomes slower is noticed.
const FORGET_BYTES: u64 = 1 << 30;

/// The transfers of one direction.
#[derive(Debug, Default)]
struct Busy {
    in_flight: u32,
    /// Until when `busy` is added up; `None` before the first transfer.
    until: Option<Instant>,
    rate: DeviceRate,
}

impl Busy {
    /// Adds the time up to `now`, if a transfer was under way.
    fn pass_until(&mut self, now: Instant) {
        let before = self.until.unwrap_or(now);
        if self.in_flight > 0 {
            self.rate.busy += now.saturating_duration_since(before);
        }
        self.until = Some(before.max(now));
    }

    fn add(&mut self, bytes: u64) {
        self.rate.bytes += bytes;
        if self.rate.bytes >= FORGET_BYTES {
            self.rate = DeviceRate { bytes: self.rate.bytes / 2, busy: self.rate.busy / 2 };
        }
    }
}

/// Bytes and the time in which they were transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceRate {
    /// Bytes of large transfers.
    pub bytes: u64,
    /// The time in which at least one of them was under way.
    pub busy: Duration,
}

impl DeviceRate {
    /// Bytes per second; 0 if nothing was transferred. Never infinite: no time counts as a nanosecond.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.busy.max(Duration::from_nanos(1)).as_secs_f64()
    }
}

/// A device and what it transferred lately.
#[derive(Debug)]
pub struct DeviceStatistics {
    number: u64,
    /// Transfers are recorded by the model's times ([`DeviceStatistics::record`]), not as they are seen to end.
    is_modelled: bool,
    /// Of any size.
    in_flight: AtomicU32,
    reads: Mutex<Busy>,
    writes: Mutex<Busy>,
}

impl DeviceStatistics {
    pub(crate) fn new(number: u64) -> DeviceStatistics {
        let (in_flight, reads, writes) = Default::default();
        DeviceStatistics { number, is_modelled: false, in_flight, reads, writes }
    }

    /// Those of a device with a model.
    pub(crate) fn of_model(number: u64) -> DeviceStatistics {
        DeviceStatistics { is_modelled: true, ..DeviceStatistics::new(number) }
    }

    /// The operating system's number of the device; on a simulated disk the index of its device.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The large transfers of a direction, of the last gibibyte or two. Does not block on the device.
    pub fn rate(&self, direction: Direction) -> DeviceRate {
        self.of(direction).lock().rate
    }

    /// Transfers of any size that are under way, of all files of the device; none on a simulated one.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    fn of(&self, direction: Direction) -> &Mutex<Busy> {
        match direction {
            Direction::Read => &self.reads,
            Direction::Write => &self.writes,
        }
    }

    /// A transfer begins.
    pub(crate) fn begin(&self, direction: Direction, bytes: u64, now: Instant) {
        if !self.is_modelled {
            self.in_flight.fetch_add(1, Relaxed);
        }
        if bytes < LARGE_BYTES || self.is_modelled {
            return;
        }
        let mut busy = self.of(direction).lock();
        busy.pass_until(now);
        busy.in_flight += 1;
    }

    /// A transfer that began ends. Its bytes count if it succeeded.
    pub(crate) fn end(&self, direction: Direction, bytes: u64, ok: bool, now: Instant) {
        if !self.is_modelled {
            self.in_flight.fetch_sub(1, Relaxed);
        }
        if bytes < LARGE_BYTES || self.is_modelled {
            return;
        }
        let mut busy = self.of(direction).lock();
        busy.pass_until(now);
        busy.in_flight -= 1;
        if ok {
            busy.add(bytes);
        }
    }

    /// A transfer of a device with a model, whose end is known when it begins. A thread that notices the end late adds
    /// no time.
    pub(crate) fn record(&self, direction: Direction, bytes: u64, begun: Instant, done: Instant) {
        if bytes < LARGE_BYTES {
            return;
        }
        let mut busy = self.of(direction).lock();
        let from = busy.until.map_or(begun, |until| until.max(begun));
        busy.rate.busy += done.saturating_duration_since(from);
        busy.until = Some(from.max(done));
        busy.add(bytes);
    }
}

/// The devices of a disk, by number.
#[derive(Debug, Default)]
pub(crate) struct Devices(Mutex<BTreeMap<u64, Arc<DeviceStatistics>>>);

impl Devices {
    /// The device of this number.
    pub(crate) fn device(&self, number: u64) -> Arc<DeviceStatistics> {
        let mut devices = self.0.lock();
        Arc::clone(devices.entry(number).or_insert_with(|| Arc::new(DeviceStatistics::new(number))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn time_counts_once_however_many_transfers_are_under_way_and_idle_time_never() {
        let device = DeviceStatistics::new(1);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        device.begin(Direction::Read, MIB, at(0));
        device.begin(Direction::Read, MIB, at(5));
        device.end(Direction::Read, MIB, true, at(10));
        device.end(Direction::Read, MIB, false, at(20));
        device.begin(Direction::Read, MIB, at(1_000));
        device.end(Direction::Read, MIB, true, at(1_010));
        let expected = DeviceRate { bytes: 2 * MIB, busy: Duration::from_millis(30) };
        assert_eq!(device.rate(Direction::Read), expected);
        assert_eq!(device.rate(Direction::Write), DeviceRate::default());
    }

    #[test]
    fn small_transfers_do_not_count_and_the_rate_follows_a_device_that_slows_down() {
        let device = DeviceStatistics::new(1);
        let mut now = Instant::now();
        let mut transfer = |bytes: u64, time: Duration| {
            device.begin(Direction::Write, bytes, now);
            now += time;
            device.end(Direction::Write, bytes, true, now);
        };
        transfer(8 << 10, Duration::from_secs(1));
        assert_eq!(device.rate(Direction::Write), DeviceRate::default());
        (0..2_000).for_each(|_| transfer(MIB, Duration::from_millis(1)));
        (0..6_000).for_each(|_| transfer(MIB, Duration::from_millis(10)));
        let rate = device.rate(Direction::Write).bytes_per_second() / MIB as f64;
        assert!((99.0..110.0).contains(&rate), "100 MiB/s at last, and not {rate}");
    }
}
