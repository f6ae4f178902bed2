//! Why a statement's parked workers wait.

use std::sync::atomic::{AtomicUsize, Ordering};

use hobt_instruments::WaitType;

/// The reasons for which a statement's parked workers wait, counted by the operators that make them wait.
#[derive(Debug, Default)]
pub struct PendingReasons {
    reads: AtomicUsize,
    client: AtomicUsize,
    memory: AtomicUsize,
}

impl PendingReasons {
    /// The current reason, as far as the operators know.
    pub fn wait_type(&self) -> Option<WaitType> {
        if self.reads.load(Ordering::Relaxed) > 0 {
            Some(WaitType::PageIoLatchSh)
        } else if self.client.load(Ordering::Relaxed) > 0 {
            Some(WaitType::AsyncNetworkIo)
        } else if self.memory.load(Ordering::Relaxed) > 0 {
            Some(WaitType::ResourceSemaphore)
        } else {
            None
        }
    }

    /// Counts scans that have no rows until a read arrives: one begins to wait (`true`), or ends.
    pub fn reads(&self, begins: bool) {
        step(&self.reads, begins);
    }

    /// Counts waits for memory that other statements hold: one begins (`true`), or ends with a grant.
    pub fn memory(&self, begins: bool) {
        step(&self.memory, begins);
    }

    /// Counts waits for the client to take rows: one begins (`true`), or ends.
    pub fn client(&self, begins: bool) {
        step(&self.client, begins);
    }
}

fn step(counter: &AtomicUsize, up: bool) {
    if up {
        counter.fetch_add(1, Ordering::Relaxed);
    } else {
        counter.fetch_sub(1, Ordering::Relaxed);
    }
}
