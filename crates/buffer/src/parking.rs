//! Where threads sleep that wait for a state word: the process's parking lot, keyed by the word's address. Words stay 8
//! bytes.
//!
//! No wake is lost. A waiter marks the word while the lot's queue is locked, and the lock is given up only by going to
//! sleep. Who lets go of the word takes the mark away and wakes the one who has waited longest, or if that one reads all who
//! read; while the queue is still locked he puts the mark back if others are left, for the next who lets go. Who was woken
//! either gets the latch, and lets go of it some time, or waits anew, or passes the wake on.
//!
//! Waking everybody instead costs a switch of threads for each of them, of which all but one go back to sleep: on the last
//! page of a table that 64 sessions insert into that was most of the time.

use std::time::Instant;

use parking_lot_core::{DEFAULT_UNPARK_TOKEN, FilterOp, ParkToken};

const SHARED: ParkToken = ParkToken(0);
const EXCLUSIVE: ParkToken = ParkToken(1);

/// Sleeps once, if `mark` says that there still is something to wait for. May wake for no reason: the caller looks again.
pub(crate) fn park(key: usize, exclusive: bool, deadline: Option<Instant>, mark: impl FnOnce() -> bool) {
    let token = if exclusive { EXCLUSIVE } else { SHARED };
    // SAFETY: the key is the address of a word of this pool, which nobody else parks on; `mark` changes that word and does
    // not call the lot, and nothing here panics.
    unsafe { parking_lot_core::park(key, mark, || {}, |_, _| {}, token, deadline) };
}

/// Wakes the one who has slept longest on `key`, and with a reader all readers. `leave_mark` is called if others sleep on; if
/// it gives `false`, they are woken, too.
#[cold]
pub(crate) fn wake_next(key: usize, leave_mark: impl Fn() -> bool) {
    let mut first = None;
    let mut is_marked = true;
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
        if result.have_more_threads {
            is_marked = leave_mark();
        }
        DEFAULT_UNPARK_TOKEN
    };
    // SAFETY: as in `park`; `leave_mark` changes the word and does not call the lot.
    unsafe { parking_lot_core::unpark_filter(key, filter, callback) };
    if !is_marked {
        wake_all(key);
    }
}

/// Wakes everyone who sleeps on `key`.
#[cold]
pub(crate) fn wake_all(key: usize) {
    // SAFETY: as in `park`.
    unsafe { parking_lot_core::unpark_all(key, DEFAULT_UNPARK_TOKEN) };
}
