//! Sessions that wait until the log is durable up to a position.
//!
//! The thread that flushes wakes the waiters whose position it reached, and one more, which flushes next. A flush
//! begins when the one before it has ended, so no dedicated thread is needed.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use hobt_instruments::schedule::{self, Mutex, Place};

#[derive(Debug)]
struct Slot {
    thread: Thread,
    woken: AtomicBool,
}

thread_local! {
    static SLOT: RefCell<Option<Arc<Slot>>> = const { RefCell::new(None) };
}

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: Mutex<Vec<(u64, Arc<Slot>)>>,
}

impl Waiters {
    /// Sleeps until woken. `must_wait` is called under the lock that wakers take. If it returns false, does not sleep.
    pub(crate) fn wait(&self, position: u64, must_wait: impl FnOnce() -> bool) {
        let slot = SLOT.with_borrow_mut(|slot| {
            let new = || Arc::new(Slot { thread: std::thread::current(), woken: AtomicBool::new(false) });
            Arc::clone(slot.get_or_insert_with(new))
        });
        let mut waiting = self.waiting.lock();
        if !must_wait() {
            return;
        }
        slot.woken.store(false, Ordering::Relaxed);
        waiting.push((position, Arc::clone(&slot)));
        drop(waiting);
        while !slot.woken.load(Ordering::Acquire) {
            if !schedule::wait(Place::LogFlush) {
                std::thread::park();
            }
        }
    }

    /// Wakes all waiters whose position is below `durable`, and the oldest of the others.
    pub(crate) fn wake(&self, durable: u64) {
        let mut woken = Vec::new();
        let mut waiting = self.waiting.lock();
        waiting.retain(|(position, slot)| {
            let reached = *position < durable;
            if reached {
                woken.push(Arc::clone(slot));
            }
            !reached
        });
        if !waiting.is_empty() {
            woken.push(waiting.remove(0).1);
        }
        drop(waiting);
        for slot in woken {
            slot.woken.store(true, Ordering::Release);
            slot.thread.unpark();
        }
    }

    /// Wakes all waiters.
    pub(crate) fn wake_all(&self) {
        self.wake(u64::MAX);
    }
}
