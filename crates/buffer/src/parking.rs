//! Where threads sleep that wait for a state word: the process's parking lot, keyed by the word's address. So a word
//! stays at 8 bytes.
//!
//! No wake is lost. A waiter sets WAITERS while the lot's queue is locked, and releases that lock only by going to
//! sleep. On release, the holder of the latch clears WAITERS and wakes the oldest waiter (all readers if it is a
//! reader). If others still sleep, the woken thread owes them the bit: it sets it again once it holds the latch or goes
//! back to sleep, or else passes the wake on. Until then no other thread is woken. Otherwise a holder that takes and
//! releases the latch repeatedly would wake one thread after the other, and each would find the page held.
//!
//! Waking all waiters instead costs a switch of threads for each of them, and all but one go back to sleep. On the last
//! page of a table that 64 sessions insert into, that was most of the time.

use std::time::Instant;

use hobt_instruments::schedule::{self, Place};
use parking_lot_core::{DEFAULT_UNPARK_TOKEN, FilterOp, ParkResult, ParkToken, UnparkToken};

const SHARED: ParkToken = ParkToken(0);
const EXCLUSIVE: ParkToken = ParkToken(1);
/// The token of a woken thread while others still sleep.
const OTHERS_SLEEP: UnparkToken = UnparkToken(1);

/// Sleeps once, if `mark` returns that there still is something to wait for. May wake for no reason: the caller checks
/// again. Returns whether the caller owes the other waiters WAITERS.
pub(crate) fn park(key: usize, exclusive: bool, deadline: Option<Instant>, mark: impl FnOnce() -> bool) -> bool {
    if schedule::is_actor() {
        // An actor is scheduled again when it can go on, so no wake is owed.
        if mark() {
            schedule::wait(Place::PageLatch);
        }
        return false;
    }
    let token = if exclusive { EXCLUSIVE } else { SHARED };
    // SAFETY: the key is the address of a word of this pool, and no other code parks on it; `mark` changes that word
    // and does not call the lot, and nothing here panics.
    let parked = unsafe { parking_lot_core::park(key, mark, || {}, |_, _| {}, token, deadline) };
    parked == ParkResult::Unparked(OTHERS_SLEEP)
}

/// Wakes the thread that has slept longest on `key`. If it is a reader, wakes all readers.
#[cold]
pub(crate) fn wake_next(key: usize) {
    let mut first = None;
    let filter = |token| match first {
        None => {
            first = Some(token);
            FilterOp::Unpark
        }
        Some(EXCLUSIVE) => FilterOp::Stop,
        Some(_) if token == SHARED => FilterOp::Unpark,
        Some(_) => FilterOp::Skip,
    };
    let callback = |result: parking_lot_core::UnparkResult| {
        if result.have_more_threads { OTHERS_SLEEP } else { DEFAULT_UNPARK_TOKEN }
    };
    // SAFETY: as in `park`; neither closure calls the lot or panics.
    unsafe { parking_lot_core::unpark_filter(key, filter, callback) };
}

/// Wakes all readers that sleep on `key`.
#[cold]
pub(crate) fn wake_readers(key: usize) {
    let filter = |token| if token == SHARED { FilterOp::Unpark } else { FilterOp::Skip };
    // SAFETY: as in `wake_next`.
    unsafe { parking_lot_core::unpark_filter(key, filter, |_| DEFAULT_UNPARK_TOKEN) };
}

/// Wakes all threads that sleep on `key`.
#[cold]
pub(crate) fn wake_all(key: usize) {
    // SAFETY: as in `park`.
    unsafe { parking_lot_core::unpark_all(key, DEFAULT_UNPARK_TOKEN) };
}
