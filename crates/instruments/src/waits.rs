//! Wait statistics: of the whole instance (`sys.dm_os_wait_stats`) and of one statement or session.
//!
//! A wait is recorded when it is over, by the thread that waited. Time is in nanoseconds; views round to milliseconds.

use crate::names::WaitType;
use crate::processor::thread_cpu_time;
use crate::slots::{self, HISTOGRAM_BUCKETS};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A wait in progress. Dropping it records the time since [`Wait::begin`].
#[must_use = "the wait ends when this is dropped"]
#[derive(Debug)]
pub struct Wait {
    wait_type: WaitType,
    since: Option<Instant>,
    /// The thread's processor time when the wait began, if its processor time during the wait is not part of the wait.
    cpu: Option<Duration>,
}

impl Wait {
    /// Starts a wait now. Call it on the slow path only, once it is certain that the thread has to wait.
    pub fn begin(wait_type: WaitType) -> Wait {
        Wait { wait_type, since: slots::accounting().then(Instant::now), cpu: None }
    }

    /// Like [`Wait::begin`], for a thread that itself does the work that it waits for, such as a system call that
    /// reads. Its processor time is not part of the wait, because it is counted as processor time already.
    pub fn begin_working(wait_type: WaitType) -> Wait {
        let mut wait = Wait::begin(wait_type);
        wait.cpu = wait.since.is_some().then(thread_cpu_time);
        wait
    }

    /// Drops the wait without recording anything.
    pub fn cancel(mut self) {
        self.since = None;
    }

    /// How long the wait has lasted; zero while accounting is off.
    pub fn elapsed(&self) -> Duration {
        let Some(since) = self.since else { return Duration::ZERO };
        let worked = self.cpu.map_or(Duration::ZERO, |before| thread_cpu_time().saturating_sub(before));
        since.elapsed().saturating_sub(worked)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.since.is_some() {
            book(self.wait_type, self.elapsed(), Duration::ZERO);
        }
    }
}

/// Records a wait that is over. `wait` is the whole time, `signal` the part of it spent runnable but not running.
pub fn record(wait_type: WaitType, wait: Duration, signal: Duration) {
    if slots::accounting() {
        book(wait_type, wait, signal);
    }
}

/// Like [`record`], for a wait of another thread on whose behalf this thread records it. [`of_this_thread`] does not
/// include it.
pub fn record_of_other(wait_type: WaitType, wait: Duration, signal: Duration) {
    if slots::accounting() {
        add(wait_type, nanoseconds(wait), nanoseconds(signal));
    }
}

fn book(wait_type: WaitType, wait: Duration, signal: Duration) {
    let wait_ns = nanoseconds(wait);
    WAITED_NS.set(WAITED_NS.get().saturating_add(wait_ns));
    add(wait_type, wait_ns, nanoseconds(signal));
}

fn add(wait_type: WaitType, wait_ns: u64, signal_ns: u64) {
    let bucket = bucket_of(wait_ns / 1_000);
    slots::with_slot(|slot| slot.waits[wait_type.index()].add(wait_ns, signal_ns, bucket));
    // Not reachable while the thread's locals are destroyed; by then no statement runs on it.
    let _ = STATEMENT.try_with(|statement| {
        if let Some(counters) = &*statement.borrow() {
            counters.add(wait_type, wait_ns, signal_ns);
        }
    });
}

/// The total time of all waits that this thread has recorded since it began; clearing the statistics does not reset it.
/// The difference of two calls is what was recorded in between.
pub fn of_this_thread() -> Duration {
    Duration::from_nanos(WAITED_NS.get())
}

/// Nanoseconds of a duration, at most `u64::MAX` (584 years).
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Bucket of a log2 histogram: bucket 0 holds 0, bucket `i` holds `2^(i-1) .. 2^i`, the last one everything above.
fn bucket_of(microseconds: u64) -> usize {
    let bits = (u64::BITS - microseconds.leading_zeros()) as usize;
    bits.min(HISTOGRAM_BUCKETS - 1)
}

/// One line of the wait statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRow {
    /// What was waited for.
    pub wait_type: WaitType,
    /// Number of waits.
    pub waiting_tasks_count: u64,
    /// Total time of the waits, signal waits included.
    pub wait_time_ns: u64,
    /// Longest wait.
    pub max_wait_time_ns: u64,
    /// The part of `wait_time_ns` spent runnable but not running.
    pub signal_wait_time_ns: u64,
    /// Waits by length: bucket 0 is below 1 µs, bucket `i` is `2^(i-1) .. 2^i` µs, the last one everything above.
    /// All zero in rows of a [`WaitCounters`].
    pub histogram: [u64; HISTOGRAM_BUCKETS],
}

/// The instance's waits since start or the last [`clear`], one row for each wait type in the enum's order, those with
/// no waits included.
pub fn snapshot() -> Vec<WaitRow> {
    let sums = slots::waits();
    let row = |(&wait_type, sum): (&WaitType, &slots::WaitSum)| WaitRow {
        wait_type,
        waiting_tasks_count: sum.count,
        wait_time_ns: sum.time_ns,
        max_wait_time_ns: sum.max_ns,
        signal_wait_time_ns: sum.signal_ns,
        histogram: sum.histogram,
    };
    WaitType::ALL.iter().zip(&sums).map(row).collect()
}

/// Resets the instance's wait statistics to zero. Counters of statements are not touched.
pub fn clear() {
    slots::clear_waits();
}

#[derive(Default)]
struct StatementCell {
    count: AtomicU64,
    time_ns: AtomicU64,
    max_ns: AtomicU64,
    signal_ns: AtomicU64,
}

/// Waits of one statement or one session, and pages that its threads have dirtied. Many threads may add at once.
pub struct WaitCounters {
    cells: [StatementCell; WaitType::COUNT],
    /// Index of the last wait type plus one; 0 before the first wait.
    last: AtomicU64,
    pages_dirtied: AtomicU64,
}

impl WaitCounters {
    /// All zero.
    pub fn new() -> WaitCounters {
        let cells = std::array::from_fn(|_| StatementCell::default());
        WaitCounters { cells, last: AtomicU64::new(0), pages_dirtied: AtomicU64::new(0) }
    }

    fn add(&self, wait_type: WaitType, wait_ns: u64, signal_ns: u64) {
        let cell = &self.cells[wait_type.index()];
        cell.count.fetch_add(1, Relaxed);
        cell.time_ns.fetch_add(wait_ns, Relaxed);
        cell.signal_ns.fetch_add(signal_ns, Relaxed);
        cell.max_ns.fetch_max(wait_ns, Relaxed);
        self.last.store(wait_type.index() as u64 + 1, Relaxed);
    }

    /// Records a wait in these counters alone, not in the instance's statistics.
    pub fn record(&self, wait_type: WaitType, wait: Duration, signal: Duration) {
        self.add(wait_type, nanoseconds(wait), nanoseconds(signal));
    }

    /// Adds the counts of `other`, as a session does when its statement ends.
    pub fn absorb(&self, other: &WaitCounters) {
        for (cell, from) in self.cells.iter().zip(&other.cells) {
            cell.count.fetch_add(from.count.load(Relaxed), Relaxed);
            cell.time_ns.fetch_add(from.time_ns.load(Relaxed), Relaxed);
            cell.signal_ns.fetch_add(from.signal_ns.load(Relaxed), Relaxed);
            cell.max_ns.fetch_max(from.max_ns.load(Relaxed), Relaxed);
        }
        self.pages_dirtied.fetch_add(other.pages_dirtied(), Relaxed);
        match other.last.load(Relaxed) {
            0 => {}
            last => self.last.store(last, Relaxed),
        }
    }

    /// The wait types with at least one wait, in the enum's order.
    pub fn rows(&self) -> Vec<WaitRow> {
        let row = |(&wait_type, cell): (&WaitType, &StatementCell)| WaitRow {
            wait_type,
            waiting_tasks_count: cell.count.load(Relaxed),
            wait_time_ns: cell.time_ns.load(Relaxed),
            max_wait_time_ns: cell.max_ns.load(Relaxed),
            signal_wait_time_ns: cell.signal_ns.load(Relaxed),
            histogram: [0; HISTOGRAM_BUCKETS],
        };
        WaitType::ALL.iter().zip(&self.cells).map(row).filter(|row| row.waiting_tasks_count > 0).collect()
    }

    /// Total time of all waits.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.cells.iter().map(|cell| cell.time_ns.load(Relaxed)).sum())
    }

    /// Pages that were clean before they were changed, or were written for the first time.
    pub fn pages_dirtied(&self) -> u64 {
        self.pages_dirtied.load(Relaxed)
    }

    /// The type of the last wait, or `None` before the first one.
    pub fn last_wait_type(&self) -> Option<WaitType> {
        let last = usize::try_from(self.last.load(Relaxed)).ok()?;
        WaitType::ALL.get(last.checked_sub(1)?).copied()
    }
}

impl Default for WaitCounters {
    fn default() -> WaitCounters {
        WaitCounters::new()
    }
}

impl std::fmt::Debug for WaitCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.rows()).finish()
    }
}

thread_local! {
    static WAITED_NS: Cell<u64> = const { Cell::new(0) };
    static STATEMENT: RefCell<Option<Arc<WaitCounters>>> = const { RefCell::new(None) };
}

/// Until the guard is dropped, waits of this thread are also added to these counters (which replace those set before).
#[must_use = "the counters are set until this is dropped"]
pub fn set_statement_counters(counters: Option<Arc<WaitCounters>>) -> StatementCountersGuard {
    let previous = STATEMENT.with(|statement| statement.replace(counters));
    StatementCountersGuard { previous, same_thread: PhantomData }
}

/// Counts pages that this thread has changed and that were clean before, for the statement that the thread works for.
pub fn note_pages_dirtied(pages: u64) {
    let note = |statement: &RefCell<Option<Arc<WaitCounters>>>| {
        statement.borrow().iter().for_each(|counters| {
            counters.pages_dirtied.fetch_add(pages, Relaxed);
        });
    };
    // A thread that is ending no longer has a statement.
    let _at_its_end = STATEMENT.try_with(note);
}

/// Restores the previous counters when dropped. Stays on its thread.
#[derive(Debug)]
pub struct StatementCountersGuard {
    previous: Option<Arc<WaitCounters>>,
    same_thread: PhantomData<*const ()>,
}

impl Drop for StatementCountersGuard {
    fn drop(&mut self) {
        let previous = self.previous.take();
        let replaced = STATEMENT.try_with(|statement| statement.replace(previous));
        drop(replaced);
    }
}

#[cfg(test)]
pub(crate) mod tests;
