//! How far a statement is: `percent_complete` of `sys.dm_exec_requests`.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What times are counted from.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Steps done and steps in all. A statement whose number of steps is unknown has 0 in all.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    all: AtomicU64,
    /// When the steps began, in nanoseconds.
    since_ns: AtomicU64,
    is_undo: AtomicBool,
}

/// How long the rest takes at the rate of the `percent` that took `elapsed`; 0 before anything is done.
pub fn time_left(percent: f64, elapsed: Duration) -> Duration {
    if percent > 0.0 { elapsed.mul_f64((100.0 - percent) / percent) } else { Duration::ZERO }
}

fn now_ns() -> u64 {
    u64::try_from(ORIGIN.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl Progress {
    /// Sets how far it is. Without steps done it begins now.
    pub fn set(&self, done: u64, all: u64) {
        if done == 0 {
            self.since_ns.store(now_ns(), Ordering::Relaxed);
        }
        self.done.store(done, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
    }

    /// Begins to undo in `all` steps.
    pub(crate) fn begin_undo(&self, all: u64) {
        self.set(0, all);
        self.is_undo.store(true, Ordering::Relaxed);
    }

    /// Nothing is undone any more.
    pub(crate) fn end_undo(&self) {
        self.is_undo.store(false, Ordering::Relaxed);
    }

    /// Whether changes are being undone.
    pub fn is_undo(&self) -> bool {
        self.is_undo.load(Ordering::Relaxed)
    }

    /// How long the steps that are left take at the rate so far.
    pub fn left(&self) -> Duration {
        let elapsed = Duration::from_nanos(now_ns().saturating_sub(self.since_ns.load(Ordering::Relaxed)));
        time_left(self.percent(), elapsed)
    }

    /// Adds steps to be done.
    pub fn expect(&self, more: u64) {
        self.all.fetch_add(more, Ordering::Relaxed);
    }

    /// Adds steps that were done.
    pub fn add(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }

    /// Per cent of the steps; 0 where there are none.
    pub fn percent(&self) -> f64 {
        let (done, all) = (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        // Steps are far below 2^52.
        if all == 0 { 0.0 } else { 100.0 * done.min(all) as f64 / all as f64 }
    }
}
