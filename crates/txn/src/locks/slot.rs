//! The slots on which threads wait for locks, and the list of all waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use hobt_base::SessionId;
use hobt_instruments::primitives::{AtomicU8, Thread, current};

use super::{LockMode, LockOwner, LockResource};

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Outcome {
    /// Granted: the owner's first lock of the resource.
    New = 1,
    /// Granted: the owner held the resource before, and now holds a stronger mode or one more lock.
    Converted,
    /// It must fail, because its wait is part of a deadlock.
    Victim,
}

/// The slot on which one thread waits.
pub(super) struct WaitSlot {
    thread: Thread,
    /// 0 or an [`Outcome`].
    outcome: AtomicU8,
}

impl WaitSlot {
    /// A slot of the calling thread.
    pub(super) fn new() -> Arc<WaitSlot> {
        Arc::new(WaitSlot { thread: current(), outcome: AtomicU8::new(0) })
    }

    /// Sets the outcome, once, under the spinlock of the table that the request was removed from.
    pub(super) fn decide(&self, outcome: Outcome) {
        self.outcome.store(outcome as u8, Ordering::Release);
    }

    /// Ends the thread's sleep. Called after the spinlock was released.
    pub(super) fn wake(&self) {
        self.thread.unpark();
    }

    pub(super) fn outcome(&self) -> Option<Outcome> {
        let outcome = self.outcome.load(Ordering::Acquire);
        [Outcome::New, Outcome::Converted, Outcome::Victim].into_iter().find(|known| *known as u8 == outcome)
    }
}

/// A wait in the list of all waits.
#[derive(Clone)]
pub(super) struct WaitRecord {
    pub(super) owner: Arc<LockOwner>,
    pub(super) resource: LockResource,
    pub(super) mode: LockMode,
    pub(super) deadlock_priority: i8,
    pub(super) slot: Arc<WaitSlot>,
    pub(super) since: Instant,
}

/// All waits, by session. A session has more than one if several of its workers wait.
pub(super) type Waits = HashMap<SessionId, Vec<WaitRecord>>;
