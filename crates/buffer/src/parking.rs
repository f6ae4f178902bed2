//! Where threads sleep that wait for a state word: a fixed table of mutexes and condition variables, keyed by the word's
//! address. Words stay 8 bytes, and two words that share a bucket cost a spurious wake, nothing else.
//!
//! No wake is lost: a waiter marks the word while it holds the bucket's mutex and gives the mutex up only by going to
//! sleep; whoever lets go of the word takes the mark away first and then needs the mutex to wake.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};

const BUCKETS: usize = 256;

struct Bucket {
    mutex: Mutex<()>,
    wake: Condvar,
}

static TABLE: [Bucket; BUCKETS] = [const { Bucket { mutex: Mutex::new(()), wake: Condvar::new() } }; BUCKETS];

fn bucket(key: usize) -> &'static Bucket {
    // Fibonacci hashing: the high bits of the product are the well-mixed ones. Words are 8 bytes apart.
    let hash = (key as u64 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
    &TABLE[hash as usize % BUCKETS]
}

/// Sleeps once, if `mark` says that there still is something to wait for. May wake for no reason: the caller looks again.
pub(crate) fn park(key: usize, deadline: Option<Instant>, mark: impl FnOnce() -> bool) {
    let bucket = bucket(key);
    let mut lock = bucket.mutex.lock();
    if !mark() {
        return;
    }
    match deadline {
        None => bucket.wake.wait(&mut lock),
        Some(deadline) => {
            bucket.wake.wait_until(&mut lock, deadline);
        }
    }
}

/// Wakes everyone who sleeps on `key`.
#[cold]
pub(crate) fn wake(key: usize) {
    let bucket = bucket(key);
    let _lock = bucket.mutex.lock();
    bucket.wake.notify_all();
}
