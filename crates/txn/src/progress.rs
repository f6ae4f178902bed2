//! How far a statement is: `percent_complete` of `sys.dm_exec_requests`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Steps done and steps in all. A statement whose number of steps is unknown has 0 in all.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    all: AtomicU64,
}

impl Progress {
    /// Sets how far it is.
    pub fn set(&self, done: u64, all: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
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
