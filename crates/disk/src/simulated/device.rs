//! The time that a transfer takes on a modelled device, and the thread that waits for it.
//!
//! ```text
//!  request ─► one of `queue_depth` channels: latency, and seek unless it follows the last ─► link: overhead + bytes ─►
//! ```
//!
//! Channels work in parallel; the link takes one request at a time. So many parallel requests hide latency, and large
//! ones hide overhead. A cache answers what it holds over a link of its own. It accepts writes until it is full of
//! those not yet on the device, which drain at the device's bandwidth.

use crate::queue::Direction;
use parking_lot::{Condvar, Mutex};
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The parameters of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceModel {
    /// Time of every request, spent in its channel.
    pub latency: Duration,
    /// Additional time for a request that does not begin where the last one of its file ended.
    pub seek: Duration,
    /// Bytes per second of the link.
    pub bytes_per_second: u64,
    /// Time of every request on the link.
    pub overhead: Duration,
    /// Requests whose latency passes in parallel; at least 1.
    pub queue_depth: usize,
    /// A cache in front of the device.
    pub cache: Option<DeviceCache>,
}

/// The parameters of a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceCache {
    /// Its capacity.
    pub bytes: u64,
    /// Time of every request that it answers.
    pub latency: Duration,
    /// Bytes per second of its link.
    pub bytes_per_second: u64,
}

impl DeviceModel {
    /// A flash card: 1.5 GB/s, 100 µs, no seeks, 64 requests at once.
    pub fn fast_card() -> DeviceModel {
        DeviceModel {
            latency: Duration::from_micros(100),
            seek: Duration::ZERO,
            bytes_per_second: 1_500_000_000,
            overhead: Duration::from_micros(4),
            queue_depth: 64,
            cache: None,
        }
    }

    /// One spindle: 100 MB/s, 8 ms a seek.
    pub fn slow_disk() -> DeviceModel {
        DeviceModel {
            latency: Duration::from_micros(200),
            seek: Duration::from_millis(8),
            bytes_per_second: 100_000_000,
            overhead: Duration::from_micros(50),
            queue_depth: 1,
            cache: None,
        }
    }

    /// Sixteen spindles behind one link of 800 MB/s and a cache of 1 GiB.
    pub fn array_with_cache() -> DeviceModel {
        DeviceModel {
            latency: Duration::from_micros(500),
            seek: Duration::from_millis(6),
            bytes_per_second: 800_000_000,
            overhead: Duration::from_micros(20),
            queue_depth: 16,
            cache: Some(DeviceCache {
                bytes: 1 << 30,
                latency: Duration::from_micros(150),
                bytes_per_second: 1_600_000_000,
            }),
        }
    }
}

fn transfer_time(bytes: u64, bytes_per_second: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / bytes_per_second.max(1) as f64)
}

const CACHE_BLOCK: u64 = 64 << 10;

/// The device's state. Times are since its start.
#[derive(Debug)]
struct Schedule {
    model: DeviceModel,
    /// When each channel is free.
    channels: Vec<Duration>,
    link_free: Duration,
    cache_link_free: Duration,
    /// When all writes in the cache are on the device.
    drained: Duration,
    /// File and position where the last request to the device ended.
    head: (usize, u64),
    cached: HashSet<(usize, u64)>,
    cached_order: VecDeque<(usize, u64)>,
}

impl Schedule {
    fn new(model: DeviceModel) -> Schedule {
        Schedule {
            model,
            channels: vec![Duration::ZERO; model.queue_depth.max(1)],
            link_free: Duration::ZERO,
            cache_link_free: Duration::ZERO,
            drained: Duration::ZERO,
            head: (usize::MAX, 0),
            cached: HashSet::new(),
            cached_order: VecDeque::new(),
        }
    }

    /// The time at which a request that arrives now is complete.
    fn serve(&mut self, now: Duration, file: usize, direction: Direction, offset: u64, bytes: u64) -> Duration {
        let Some(cache) = self.model.cache else { return self.serve_by_device(now, file, offset, bytes) };
        let blocks = offset / CACHE_BLOCK..(offset + bytes).div_ceil(CACHE_BLOCK);
        let hit = blocks.clone().all(|block| self.cached.contains(&(file, block)));
        blocks.for_each(|block| self.keep((file, block), cache.bytes / CACHE_BLOCK));
        if direction == Direction::Read && !hit {
            return self.serve_by_device(now, file, offset, bytes);
        }
        let mut start = now;
        if direction == Direction::Write {
            self.drained = self.drained.max(now) + transfer_time(bytes, self.model.bytes_per_second);
            // The write waits until there is room besides the writes that are not drained.
            start = start.max(self.drained.saturating_sub(transfer_time(cache.bytes, self.model.bytes_per_second)));
        }
        let ready = (start + cache.latency).max(self.cache_link_free);
        self.cache_link_free = ready + transfer_time(bytes, cache.bytes_per_second);
        self.cache_link_free
    }

    fn serve_by_device(&mut self, now: Duration, file: usize, offset: u64, bytes: u64) -> Duration {
        let seek = if self.head == (file, offset) { Duration::ZERO } else { self.model.seek };
        self.head = (file, offset + bytes);
        let channel = self.channels.iter_mut().min().expect("there is a channel");
        let ready = now.max(*channel) + self.model.latency + seek;
        let done = ready.max(self.link_free) + self.model.overhead + transfer_time(bytes, self.model.bytes_per_second);
        *channel = done;
        self.link_free = done;
        done
    }

    /// Adds a block to the cache, and evicts the oldest if it is full.
    fn keep(&mut self, block: (usize, u64), blocks_max: u64) {
        if self.cached.insert(block) {
            self.cached_order.push_back(block);
        }
        while self.cached.len() as u64 > blocks_max {
            let Some(oldest) = self.cached_order.pop_front() else { break };
            self.cached.remove(&oldest);
        }
    }
}

/// Gets the moment at which the device was done.
type Action = Box<dyn FnOnce(Instant) + Send>;

/// A transfer as the device sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// Identifies the file.
    pub(crate) file: usize,
    pub(crate) direction: Direction,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// When it was submitted.
    pub(crate) submitted: Instant,
}

/// An action due at a time. The heap has the earliest on top.
struct Due {
    at: Duration,
    number: u64,
    action: Action,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

struct State {
    schedule: Schedule,
    due: BinaryHeap<Due>,
    requests: u64,
    closing: bool,
}

struct Shared {
    since: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

/// A device with its timer thread. When the device is dropped, the thread executes everything due and ends.
pub(crate) struct Device {
    shared: Arc<Shared>,
}

impl Device {
    pub(crate) fn start(model: DeviceModel) -> io::Result<Device> {
        let state = State { schedule: Schedule::new(model), due: BinaryHeap::new(), requests: 0, closing: false };
        let shared = Arc::new(Shared { since: Instant::now(), state: Mutex::new(state), changed: Condvar::new() });
        let timer = shared.clone();
        std::thread::Builder::new().name("hobt-device".into()).spawn(move || timer.work())?;
        Ok(Device { shared })
    }

    /// Runs `action` on the timer thread when the device is done with the request.
    ///
    /// Returns when that will be.
    pub(crate) fn schedule(&self, transfer: Transfer, action: Action) -> Instant {
        let mut state = self.shared.state.lock();
        let at = self.shared.serve(&mut state, transfer);
        state.requests += 1;
        let number = state.requests;
        state.due.push(Due { at, number, action });
        drop(state);
        self.shared.changed.notify_one();
        self.shared.since + at
    }

    /// Blocks until the device is done with the request, and returns when that was.
    pub(crate) fn pass(&self, transfer: Transfer) -> Instant {
        let at = self.shared.serve(&mut self.shared.state.lock(), transfer);
        // The model's time is real time: the request takes as long as it says, and no event ends it earlier.
        std::thread::sleep(at.saturating_sub(self.shared.since.elapsed()));
        self.shared.since + at
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.changed.notify_one();
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({:?})", self.shared.state.lock().schedule.model)
    }
}

impl Shared {
    /// When the transfer is complete, since the device's start.
    fn serve(&self, state: &mut State, transfer: Transfer) -> Duration {
        let Transfer { file, direction, offset, bytes, submitted } = transfer;
        state.schedule.serve(submitted.saturating_duration_since(self.since), file, direction, offset, bytes)
    }

    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            let now = self.since.elapsed();
            match state.due.peek() {
                Some(due) if due.at <= now => {
                    let due = state.due.pop().expect("it was seen");
                    drop(state);
                    (due.action)(self.since + due.at);
                    state = self.state.lock();
                }
                Some(due) => {
                    let rest = due.at - now;
                    self.changed.wait_for(&mut state, rest);
                }
                None if state.closing => return,
                None => self.changed.wait(&mut state),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceModel, Schedule};
    use crate::queue::Direction::{Read, Write};
    use std::time::Duration;

    /// Bytes per second of sequential reads of one size, with `depth` at once. Does not wait in real time.
    fn sequential(model: DeviceModel, size: u64, depth: usize) -> f64 {
        let mut schedule = Schedule::new(model);
        let mut window = std::collections::VecDeque::from(vec![Duration::ZERO; depth]);
        let count = 400;
        for n in 0..count {
            let now = window.pop_front().expect("a place in the window");
            window.push_back(schedule.serve(now, 1, Read, n * size, size));
        }
        (count * size) as f64 / window.back().expect("the last").as_secs_f64()
    }

    #[test]
    fn large_and_many_reads_reach_the_link_and_small_single_ones_do_not() {
        let model = DeviceModel::fast_card();
        let limit = model.bytes_per_second as f64;
        assert!(sequential(model, 512 << 10, 32) > 0.95 * limit);
        assert!(sequential(model, 8 << 10, 1) < 0.1 * limit);
        assert!(sequential(model, 8 << 10, 1) < sequential(model, 8 << 10, 16));
        assert!(sequential(model, 8 << 10, 16) < sequential(model, 64 << 10, 16));
    }

    #[test]
    fn a_spindle_pays_for_jumps_alone() {
        let mut schedule = Schedule::new(DeviceModel::slow_disk());
        let first = schedule.serve(Duration::ZERO, 1, Read, 0, 65_536);
        let next = schedule.serve(first, 1, Read, 65_536, 65_536) - first;
        let jump = schedule.serve(first + next, 1, Read, 1 << 30, 65_536) - first - next;
        assert!(jump >= next + Duration::from_millis(8));
    }

    #[test]
    fn a_cache_answers_again_and_takes_writes_until_it_is_full() {
        let model = DeviceModel::array_with_cache();
        let cache = model.cache.expect("it has one");
        let mut schedule = Schedule::new(model);
        let miss = schedule.serve(Duration::ZERO, 1, Read, 0, 65_536);
        let hit = schedule.serve(miss, 1, Read, 0, 65_536) - miss;
        assert!(hit < miss / 10, "{hit:?} after {miss:?}");
        let mut schedule = Schedule::new(model);
        let (mut now, mut first_gap) = (Duration::ZERO, Duration::ZERO);
        let (size, count) = (1 << 20, 4 * (cache.bytes >> 20));
        let mut gap = Duration::ZERO;
        for n in 0..count {
            let done = schedule.serve(now, 1, Write, n * size, size);
            gap = done - now;
            now = done;
            first_gap = if n == 0 { gap } else { first_gap };
        }
        let device_time = Duration::from_secs_f64(size as f64 / model.bytes_per_second as f64);
        assert!(first_gap < device_time, "{first_gap:?}");
        assert!(gap > device_time * 9 / 10, "a full cache takes writes at the device's pace, not in {gap:?}");
    }
}
