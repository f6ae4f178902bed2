//! The per-thread slots that hold all statistics, and the registry over which readers add up.
//!
//! ```text
//!   thread ── thread-local SlotHandle ──► Slot (own cache lines) ◄── registry ── snapshot(), clear()
//! ```
//!
//! Invariant: a slot has one handle at most, and only the handle's thread writes its counters (except `max`, which a
//! reader may reset). So a relaxed load and a relaxed store add to a counter, without a locked instruction.
//!
//! Invariant: counters never decrease. A baseline taken under the registry's mutex is therefore never above a sum taken
//! under it later: coherence orders the two reads of each counter.

use crate::names::{LatchClass, SpinlockName, WaitType};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Number of buckets of a wait histogram.
pub(crate) const HISTOGRAM_BUCKETS: usize = 32;

/// Adds to a counter of which this thread is the only writer.
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
}

/// Counters of one wait type in one slot.
pub(crate) struct WaitCell {
    count: AtomicU64,
    time_ns: AtomicU64,
    signal_ns: AtomicU64,
    max_ns: AtomicU64,
    histogram: [AtomicU64; HISTOGRAM_BUCKETS],
}

impl WaitCell {
    const fn new() -> WaitCell {
        WaitCell {
            count: AtomicU64::new(0),
            time_ns: AtomicU64::new(0),
            signal_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
            histogram: [const { AtomicU64::new(0) }; HISTOGRAM_BUCKETS],
        }
    }

    pub(crate) fn add(&self, wait_ns: u64, signal_ns: u64, bucket: usize) {
        add(&self.count, 1);
        add(&self.time_ns, wait_ns);
        add(&self.signal_ns, signal_ns);
        add(&self.histogram[bucket], 1);
        self.max_ns.fetch_max(wait_ns, Relaxed);
    }
}

/// Counters of one latch class in one slot.
pub(crate) struct LatchCell {
    count: AtomicU64,
    time_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl LatchCell {
    const fn new() -> LatchCell {
        LatchCell { count: AtomicU64::new(0), time_ns: AtomicU64::new(0), max_ns: AtomicU64::new(0) }
    }

    pub(crate) fn add(&self, wait_ns: u64) {
        add(&self.count, 1);
        add(&self.time_ns, wait_ns);
        self.max_ns.fetch_max(wait_ns, Relaxed);
    }
}

/// Counters of one spinlock name in one slot.
pub(crate) struct SpinlockCell {
    collisions: AtomicU64,
    spins: AtomicU64,
    sleep_ns: AtomicU64,
    backoffs: AtomicU64,
}

impl SpinlockCell {
    const fn new() -> SpinlockCell {
        SpinlockCell {
            collisions: AtomicU64::new(0),
            spins: AtomicU64::new(0),
            sleep_ns: AtomicU64::new(0),
            backoffs: AtomicU64::new(0),
        }
    }

    pub(crate) fn add(&self, spins: u64, sleep_ns: u64, backoffs: u64) {
        add(&self.collisions, 1);
        add(&self.spins, spins);
        add(&self.sleep_ns, sleep_ns);
        add(&self.backoffs, backoffs);
    }
}

/// Counters of exclusive holds in one slot.
pub(crate) struct HoldCell {
    count: AtomicU64,
    time_ns: AtomicU64,
}

impl HoldCell {
    pub(crate) fn add(&self, held_ns: u64) {
        add(&self.count, 1);
        add(&self.time_ns, held_ns);
    }
}

/// All statistics of one thread. Aligned to two cache lines, which adjacent-line prefetch loads together.
#[repr(align(128))]
pub(crate) struct Slot {
    pub(crate) waits: [WaitCell; WaitType::COUNT],
    pub(crate) latches: [LatchCell; LatchClass::COUNT],
    pub(crate) spinlocks: [SpinlockCell; SpinlockName::COUNT],
    pub(crate) row_page_holds: HoldCell,
}

impl Slot {
    fn new() -> Slot {
        Slot {
            waits: [const { WaitCell::new() }; WaitType::COUNT],
            latches: [const { LatchCell::new() }; LatchClass::COUNT],
            spinlocks: [const { SpinlockCell::new() }; SpinlockName::COUNT],
            row_page_holds: HoldCell { count: AtomicU64::new(0), time_ns: AtomicU64::new(0) },
        }
    }
}

/// The sum over a wait type's counters.
#[derive(Clone, Copy, Default)]
pub(crate) struct WaitSum {
    pub(crate) count: u64,
    pub(crate) time_ns: u64,
    pub(crate) signal_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) histogram: [u64; HISTOGRAM_BUCKETS],
}

/// The sum over a latch class's counters.
#[derive(Clone, Copy, Default)]
pub(crate) struct LatchSum {
    pub(crate) count: u64,
    pub(crate) time_ns: u64,
    pub(crate) max_ns: u64,
}

/// The sum over a spinlock name's counters.
#[derive(Clone, Copy, Default)]
pub(crate) struct SpinlockSum {
    pub(crate) collisions: u64,
    pub(crate) spins: u64,
    pub(crate) sleep_ns: u64,
    pub(crate) backoffs: u64,
}

struct Registry {
    all: Vec<&'static Slot>,
    free: Vec<&'static Slot>,
    wait_baseline: [WaitSum; WaitType::COUNT],
    latch_baseline: [LatchSum; LatchClass::COUNT],
    spinlock_baseline: [SpinlockSum; SpinlockName::COUNT],
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    all: Vec::new(),
    free: Vec::new(),
    wait_baseline: [WaitSum { count: 0, time_ns: 0, signal_ns: 0, max_ns: 0, histogram: [0; HISTOGRAM_BUCKETS] };
        WaitType::COUNT],
    latch_baseline: [LatchSum { count: 0, time_ns: 0, max_ns: 0 }; LatchClass::COUNT],
    spinlock_baseline: [SpinlockSum { collisions: 0, spins: 0, sleep_ns: 0, backoffs: 0 }; SpinlockName::COUNT],
});

static ACCOUNTING: AtomicBool = AtomicBool::new(true);

/// Switches all accounting of waits, latches and spinlocks on (as at start) or off, to measure what it costs.
pub fn set_accounting(on: bool) {
    ACCOUNTING.store(on, Relaxed);
}

/// Whether waits are accounted.
#[inline]
pub fn accounting() -> bool {
    ACCOUNTING.load(Relaxed)
}

/// Owns a slot for as long as it lives. Afterwards the slot, with its counts, is free for the next thread.
struct SlotHandle(&'static Slot);

impl SlotHandle {
    fn acquire() -> SlotHandle {
        let mut registry = REGISTRY.lock();
        if let Some(slot) = registry.free.pop() {
            return SlotHandle(slot);
        }
        let slot: &'static Slot = Box::leak(Box::new(Slot::new()));
        registry.all.push(slot);
        SlotHandle(slot)
    }
}

impl Drop for SlotHandle {
    fn drop(&mut self) {
        REGISTRY.lock().free.push(self.0);
    }
}

thread_local! {
    static HANDLE: SlotHandle = SlotHandle::acquire();
    static SHARD: usize = crate::schedule::actor().unwrap_or_else(|| NEXT_SHARD.fetch_add(1, Relaxed));
}

static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);

/// A number for this thread that spreads threads over shards; small, and consecutive for threads started in a row.
#[inline]
pub(crate) fn shard() -> usize {
    SHARD.try_with(|shard| *shard).unwrap_or(0)
}

/// Runs `write` on this thread's slot. Also works while the thread's locals are being destroyed.
pub(crate) fn with_slot(write: impl Fn(&Slot)) {
    if HANDLE.try_with(|handle| write(handle.0)).is_err() {
        write(SlotHandle::acquire().0);
    }
}

fn sum_waits(slots: &[&'static Slot]) -> [WaitSum; WaitType::COUNT] {
    let mut sums = [WaitSum::default(); WaitType::COUNT];
    for slot in slots {
        for (sum, cell) in sums.iter_mut().zip(&slot.waits) {
            sum.count += cell.count.load(Relaxed);
            sum.time_ns += cell.time_ns.load(Relaxed);
            sum.signal_ns += cell.signal_ns.load(Relaxed);
            sum.max_ns = sum.max_ns.max(cell.max_ns.load(Relaxed));
            for (bucket, counter) in sum.histogram.iter_mut().zip(&cell.histogram) {
                *bucket += counter.load(Relaxed);
            }
        }
    }
    sums
}

fn sum_latches(slots: &[&'static Slot]) -> [LatchSum; LatchClass::COUNT] {
    let mut sums = [LatchSum::default(); LatchClass::COUNT];
    for slot in slots {
        for (sum, cell) in sums.iter_mut().zip(&slot.latches) {
            sum.count += cell.count.load(Relaxed);
            sum.time_ns += cell.time_ns.load(Relaxed);
            sum.max_ns = sum.max_ns.max(cell.max_ns.load(Relaxed));
        }
    }
    sums
}

fn sum_spinlocks(slots: &[&'static Slot]) -> [SpinlockSum; SpinlockName::COUNT] {
    let mut sums = [SpinlockSum::default(); SpinlockName::COUNT];
    for slot in slots {
        for (sum, cell) in sums.iter_mut().zip(&slot.spinlocks) {
            sum.collisions += cell.collisions.load(Relaxed);
            sum.spins += cell.spins.load(Relaxed);
            sum.sleep_ns += cell.sleep_ns.load(Relaxed);
            sum.backoffs += cell.backoffs.load(Relaxed);
        }
    }
    sums
}

/// Waits since the last [`clear_waits`].
pub(crate) fn waits() -> [WaitSum; WaitType::COUNT] {
    let registry = REGISTRY.lock();
    let mut sums = sum_waits(&registry.all);
    for (sum, base) in sums.iter_mut().zip(&registry.wait_baseline) {
        sum.count -= base.count;
        sum.time_ns -= base.time_ns;
        sum.signal_ns -= base.signal_ns;
        for (bucket, base) in sum.histogram.iter_mut().zip(&base.histogram) {
            *bucket -= base;
        }
    }
    sums
}

/// Latch waits since the last [`clear_latches`].
pub(crate) fn latches() -> [LatchSum; LatchClass::COUNT] {
    let registry = REGISTRY.lock();
    let mut sums = sum_latches(&registry.all);
    for (sum, base) in sums.iter_mut().zip(&registry.latch_baseline) {
        sum.count -= base.count;
        sum.time_ns -= base.time_ns;
    }
    sums
}

/// Spinlock collisions since the last [`clear_spinlocks`].
pub(crate) fn spinlocks() -> [SpinlockSum; SpinlockName::COUNT] {
    let registry = REGISTRY.lock();
    let mut sums = sum_spinlocks(&registry.all);
    for (sum, base) in sums.iter_mut().zip(&registry.spinlock_baseline) {
        sum.collisions -= base.collisions;
        sum.spins -= base.spins;
        sum.sleep_ns -= base.sleep_ns;
        sum.backoffs -= base.backoffs;
    }
    sums
}

/// Number and time of the exclusive holds since the start.
pub(crate) fn row_page_holds() -> (u64, u64) {
    let registry = REGISTRY.lock();
    let cells = registry.all.iter().map(|slot| &slot.row_page_holds);
    cells.fold((0, 0), |(count, time), cell| (count + cell.count.load(Relaxed), time + cell.time_ns.load(Relaxed)))
}

pub(crate) fn clear_waits() {
    let mut registry = REGISTRY.lock();
    registry.wait_baseline = sum_waits(&registry.all);
    for cell in registry.all.iter().flat_map(|slot| &slot.waits) {
        cell.max_ns.store(0, Relaxed);
    }
}

pub(crate) fn clear_latches() {
    let mut registry = REGISTRY.lock();
    registry.latch_baseline = sum_latches(&registry.all);
    for cell in registry.all.iter().flat_map(|slot| &slot.latches) {
        cell.max_ns.store(0, Relaxed);
    }
}

pub(crate) fn clear_spinlocks() {
    let mut registry = REGISTRY.lock();
    registry.spinlock_baseline = sum_spinlocks(&registry.all);
}

/// How many slots were ever made; tests check that threads started one after the other reuse one.
#[cfg(test)]
pub(crate) fn slot_count() -> usize {
    REGISTRY.lock().all.len()
}
