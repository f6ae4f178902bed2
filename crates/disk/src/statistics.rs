//! Statistics of one file's transfers: counts, bytes, stalls, and histograms of sizes and latencies.
//!
//! The counters are atomics of each file. An I/O of 8 KiB or more costs thousands of times as much as adding to them.

use crate::device_statistics::DeviceStatistics;
use crate::queue::Direction;
use hobt_instruments::nanoseconds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const BUCKETS: usize = 40;

fn zeroes() -> [AtomicU64; BUCKETS] {
    [const { AtomicU64::new(0) }; BUCKETS]
}

/// Bucket 0 holds 0, bucket `i` holds `2^(i-1) .. 2^i`, the last one everything above.
fn bucket_of(value: u64) -> usize {
    ((u64::BITS - value.leading_zeros()) as usize).min(BUCKETS - 1)
}

#[derive(Debug)]
struct Transfers {
    count: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    stall_ns: AtomicU64,
    stall_max_ns: AtomicU64,
    queued_ns: AtomicU64,
    size_counts: [AtomicU64; BUCKETS],
    size_bytes: [AtomicU64; BUCKETS],
    latency_us: [AtomicU64; BUCKETS],
}

impl Transfers {
    fn new() -> Transfers {
        Transfers {
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            stall_ns: AtomicU64::new(0),
            stall_max_ns: AtomicU64::new(0),
            queued_ns: AtomicU64::new(0),
            size_counts: zeroes(),
            size_bytes: zeroes(),
            latency_us: zeroes(),
        }
    }

    fn snapshot(&self) -> TransferSnapshot {
        let sizes = self.size_counts.iter().zip(&self.size_bytes).enumerate();
        TransferSnapshot {
            count: self.count.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            errors: self.errors.load(Relaxed),
            stall_ns: self.stall_ns.load(Relaxed),
            stall_max_ns: self.stall_max_ns.load(Relaxed),
            queued_ns: self.queued_ns.load(Relaxed),
            sizes: sizes
                .map(|(i, (count, bytes))| SizeCount {
                    bytes_min: if i == 0 { 0 } else { 1 << (i - 1) },
                    count: count.load(Relaxed),
                    bytes: bytes.load(Relaxed),
                })
                .filter(|size| size.count > 0)
                .collect(),
            latency_us: std::array::from_fn(|i| self.latency_us[i].load(Relaxed)),
        }
    }
}

/// Counters of one open file.
#[derive(Debug)]
pub struct FileStatistics {
    device: Arc<DeviceStatistics>,
    reads: Transfers,
    writes: Transfers,
    syncs: AtomicU64,
    sync_ns: AtomicU64,
    in_flight: AtomicU64,
}

impl FileStatistics {
    pub(crate) fn new(device: Arc<DeviceStatistics>) -> FileStatistics {
        FileStatistics {
            device,
            reads: Transfers::new(),
            writes: Transfers::new(),
            syncs: AtomicU64::new(0),
            sync_ns: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
        }
    }

    /// The counts since the file was opened. Counters are read one by one, so during I/O they may not match each other
    /// exactly.
    pub fn snapshot(&self) -> FileSnapshot {
        FileSnapshot {
            reads: self.reads.snapshot(),
            writes: self.writes.snapshot(),
            syncs: self.syncs.load(Relaxed),
            sync_ns: self.sync_ns.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
        }
    }

    /// The device that the file lies on.
    pub fn device(&self) -> &Arc<DeviceStatistics> {
        &self.device
    }

    /// A transfer begins.
    pub(crate) fn begin(&self, direction: Direction, bytes: usize, now: Instant) {
        self.in_flight.fetch_add(1, Relaxed);
        self.device.begin(direction, bytes as u64, now);
    }

    /// The transfer that began at `begun`, of so many bytes, ends at `begun` and its latency.
    pub(crate) fn end(&self, direction: Direction, bytes: usize, begun: Instant, times: TransferTimes, ok: bool) {
        let TransferTimes { latency, queued } = times;
        self.in_flight.fetch_sub(1, Relaxed);
        self.device.end(direction, bytes as u64, ok, begun + latency);
        let side = match direction {
            Direction::Read => &self.reads,
            Direction::Write => &self.writes,
        };
        if !ok {
            side.errors.fetch_add(1, Relaxed);
            return;
        }
        let (bytes, ns) = (bytes as u64, nanoseconds(latency));
        side.count.fetch_add(1, Relaxed);
        side.bytes.fetch_add(bytes, Relaxed);
        side.stall_ns.fetch_add(ns, Relaxed);
        side.stall_max_ns.fetch_max(ns, Relaxed);
        side.queued_ns.fetch_add(nanoseconds(queued), Relaxed);
        let bucket = bucket_of(bytes);
        side.size_counts[bucket].fetch_add(1, Relaxed);
        side.size_bytes[bucket].fetch_add(bytes, Relaxed);
        side.latency_us[bucket_of(ns / 1_000)].fetch_add(1, Relaxed);
    }

    pub(crate) fn synced(&self, time: Duration) {
        self.syncs.fetch_add(1, Relaxed);
        self.sync_ns.fetch_add(nanoseconds(time), Relaxed);
    }
}

/// How long a transfer took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TransferTimes {
    /// From submission to completion.
    pub(crate) latency: Duration,
    /// The part of it before the transfer was given to the device.
    pub(crate) queued: Duration,
}

/// A copy of the counters of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSnapshot {
    /// What was read.
    pub reads: TransferSnapshot,
    /// What was written.
    pub writes: TransferSnapshot,
    /// Number of syncs, failed ones included.
    pub syncs: u64,
    /// Total time of syncs.
    pub sync_ns: u64,
    /// Transfers that are not complete yet.
    pub in_flight: u64,
}

impl Default for FileSnapshot {
    /// The counters of a file without transfers.
    fn default() -> FileSnapshot {
        FileStatistics::new(Arc::new(DeviceStatistics::new(0))).snapshot()
    }
}

impl FileSnapshot {
    /// Adds the counters of another file.
    pub fn add(&mut self, other: &FileSnapshot) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.syncs += other.syncs;
        self.sync_ns += other.sync_ns;
        self.in_flight += other.in_flight;
    }
}

/// Transfers in one direction. Failed ones count in `errors` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferSnapshot {
    /// Number of transfers.
    pub count: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Number of transfers that failed.
    pub errors: u64,
    /// Total time from submission to completion.
    pub stall_ns: u64,
    /// Longest time from submission to completion.
    pub stall_max_ns: u64,
    /// The part of `stall_ns` before the transfer was given to the device.
    pub queued_ns: u64,
    /// Transfers by size, the smallest first, classes without transfers left out; they add up to the totals.
    pub sizes: Vec<SizeCount>,
    /// Transfers by latency: bucket 0 is below 1 µs, bucket `i` is `2^(i-1) .. 2^i` µs.
    pub latency_us: [u64; BUCKETS],
}

impl TransferSnapshot {
    fn add(&mut self, other: &TransferSnapshot) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.stall_ns += other.stall_ns;
        self.stall_max_ns = self.stall_max_ns.max(other.stall_max_ns);
        self.queued_ns += other.queued_ns;
        for size in &other.sizes {
            match self.sizes.binary_search_by_key(&size.bytes_min, |known| known.bytes_min) {
                Ok(place) => {
                    self.sizes[place].count += size.count;
                    self.sizes[place].bytes += size.bytes;
                }
                Err(place) => self.sizes.insert(place, *size),
            }
        }
        for (sum, count) in self.latency_us.iter_mut().zip(other.latency_us) {
            *sum += count;
        }
    }
}

/// Transfers of a class of sizes: at least `bytes_min`, below twice that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeCount {
    /// Smallest size of the class: a power of two.
    pub bytes_min: u64,
    /// Number of transfers.
    pub count: u64,
    /// Bytes of these transfers. If `bytes == count * bytes_min`, all of them had that size.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_two_files_is_what_one_would_have_counted() {
        let [first, second, both] =
            [1, 2, 3].map(|number| FileStatistics::new(Arc::new(DeviceStatistics::new(number))));
        for (file, bytes) in [(&first, 8192), (&second, 512), (&second, 8192), (&first, 65536), (&second, 9000)] {
            for counted in [file, &both] {
                let begun = Instant::now();
                counted.begin(Direction::Write, bytes, begun);
                let latency = Duration::from_micros(bytes as u64);
                let times = TransferTimes { latency, queued: Duration::from_nanos(7) };
                counted.end(Direction::Write, bytes, begun, times, bytes != 512);
            }
        }
        let mut sum = FileSnapshot::default();
        sum.add(&second.snapshot());
        sum.add(&first.snapshot());
        assert_eq!(sum, both.snapshot());
    }
}
