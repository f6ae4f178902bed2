//! Bytes over time: a ring of periods of 100 ms.

use crate::queue::Direction;
use parking_lot::Mutex;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(100);
/// Ten minutes.
const PERIODS: usize = 6_000;

#[derive(Debug)]
struct Period {
    /// Number of the period plus one; 0 was never used.
    number: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
}

/// The bytes that a disk transferred over the last ten minutes.
#[derive(Debug)]
pub struct Throughput {
    since: Instant,
    periods: Box<[Period]>,
    /// Held while a period's counters are handed to a new number.
    turn: Mutex<()>,
}

/// Bytes of one period of 100 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThroughputSample {
    /// Start of the period, since the disk's start.
    pub start: Duration,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl Throughput {
    pub(crate) fn new() -> Throughput {
        let period = || Period { number: AtomicU64::new(0), read: AtomicU64::new(0), written: AtomicU64::new(0) };
        Throughput {
            since: Instant::now(),
            periods: std::iter::repeat_with(period).take(PERIODS).collect(),
            turn: Mutex::new(()),
        }
    }

    /// Number of the current period plus one.
    fn number(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis() / PERIOD.as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    pub(crate) fn add(&self, direction: Direction, bytes: u64) {
        self.add_at(self.number(), direction, bytes);
    }

    fn add_at(&self, number: u64, direction: Direction, bytes: u64) {
        let period = &self.periods[usize::try_from(number % PERIODS as u64).expect("below PERIODS")];
        if period.number.load(Acquire) != number {
            let _turn = self.turn.lock();
            // A later number is possible only if this thread slept for ten minutes after it had taken its own.
            if period.number.load(Relaxed) < number {
                period.read.store(0, Relaxed);
                period.written.store(0, Relaxed);
                period.number.store(number, Release);
            }
        }
        match direction {
            Direction::Read => &period.read,
            Direction::Write => &period.written,
        }
        .fetch_add(bytes, Relaxed);
    }

    /// The periods with transfers among the last ten minutes, oldest first. Periods without transfers are left out.
    pub fn samples(&self) -> Vec<ThroughputSample> {
        let oldest = self.number().saturating_sub(PERIODS as u64);
        let mut samples: Vec<ThroughputSample> = self
            .periods
            .iter()
            .filter_map(|period| {
                let number = period.number.load(Acquire);
                let milliseconds = number.checked_sub(1)? * 100;
                (number > oldest).then(|| ThroughputSample {
                    start: Duration::from_millis(milliseconds),
                    bytes_read: period.read.load(Relaxed),
                    bytes_written: period.written.load(Relaxed),
                })
            })
            .collect();
        samples.sort_unstable_by_key(|sample| sample.start);
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::{PERIODS, Throughput};
    use crate::queue::Direction;

    #[test]
    fn a_period_is_reused_from_zero() {
        let throughput = Throughput::new();
        throughput.add_at(3, Direction::Read, 10);
        throughput.add_at(3, Direction::Write, 5);
        throughput.add_at(3 + PERIODS as u64, Direction::Read, 7);
        let samples = throughput.samples();
        assert_eq!(samples.len(), 1);
        assert_eq!((samples[0].bytes_read, samples[0].bytes_written), (7, 0));
    }

    #[test]
    fn bytes_of_many_threads_add_up() {
        let throughput = Throughput::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|n| throughput.add_at(1 + n / 100, Direction::Read, 1)));
            }
        });
        assert_eq!(throughput.samples().iter().map(|sample| sample.bytes_read).sum::<u64>(), 40_000);
    }
}
