//! Where threads sleep that wait for a state word: the process's parking lot, keyed by the word's address. Words stay 8
//! bytes.
//!
//! No wake is lost. A waiter marks the word while the lot's queue is locked, and the lock is given up only by going to
//! sleep. Who lets go of the word takes the mark away and wakes the one who has waited longest, or if that one reads
//! all who read. If others sleep on, who was woken owes them the mark: he puts it back when he has got the latch, marks
//! the word by himself when he goes to sleep again, or else passes the wake on. Until then nobody else is woken: who
//! lets go of the word again and again meanwhile would have one thread after the other run, and find it held.
//!
//! Waking everybody instead costs a switch of threads for each of them, of which all but one go back to sleep: on the
//! last page of a table that 64 sessions insert into that was most of the time.

use std::time::Instant;

use hobt_sync::schedule::{self, Place};
use parking_lot_core::{DEFAULT_UNPARK_TOKEN, FilterOp, ParkResult, ParkToken, UnparkToken};

const SHARED: ParkToken = ParkToken(0);
const EXCLUSIVE: ParkToken = ParkToken(1);
/// What a sleeper is woken with while others sleep on.
const OTHERS_SLEEP: UnparkToken = UnparkToken(1);

/// Sleeps once, if `mark` says that there still is something to wait for. May wake for no reason: the caller looks
/// again. Whether the caller owes others the mark.
pub(crate) fn park(key: usize, exclusive: bool, deadline: Option<Instant>, mark: impl FnOnce() -> bool) -> bool {
    if schedule::is_actor() {
        // It finds out by itself when it can go on, and no wake is owed.
        if mark() {
            schedule::wait(Place::PageLatch);
        }
        return false;
    }
    let token = if exclusive { EXCLUSIVE } else { SHARED };
    // SAFETY: the key is the address of a word of this pool, which nobody else parks on; `mark` changes that word and
    // does not call the lot, and nothing here panics.
    let parked = unsafe { parking_lot_core::park(key, mark, || {}, |_, _| {}, token, deadline) };
    parked == ParkResult::Unparked(OTHERS_SLEEP)
}

/// Wakes the one who has slept longest on `key`, and with a reader all readers.
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

/// Wakes all readers who sleep on `key`.
#[cold]
pub(crate) fn wake_readers(key: usize) {
    let filter = |token| if token == SHARED { FilterOp::Unpark } else { FilterOp::Skip };
    // SAFETY: as in `wake_next`.
    unsafe { parking_lot_core::unpark_filter(key, filter, |_| DEFAULT_UNPARK_TOKEN) };
}

/// Wakes everyone who sleeps on `key`.
#[cold]
pub(crate) fn wake_all(key: usize) {
    // SAFETY: as in `park`.
    unsafe { parking_lot_core::unpark_all(key, DEFAULT_UNPARK_TOKEN) };
}
