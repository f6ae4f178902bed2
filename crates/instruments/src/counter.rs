//! A counter that many workers add to at once.

use crate::Sharded;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter in shards of own cache lines. Adding is an atomic add that hardly ever meets another thread's; reading
/// adds up the shards. A sum taken while other threads add may miss what is being added, but never what was added
/// before.
pub struct Counter {
    shards: Sharded<AtomicU64>,
}

impl Counter {
    /// Zero.
    pub fn new() -> Counter {
        Counter { shards: Sharded::new() }
    }

    /// Adds; wraps at 2⁶⁴.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.shards.own().fetch_add(amount, Relaxed);
    }

    /// The sum of all that was added.
    pub fn sum(&self) -> u64 {
        self.shards.iter().fold(0, |sum, shard| sum.wrapping_add(shard.load(Relaxed)))
    }
}

impl Default for Counter {
    fn default() -> Counter {
        Counter::new()
    }
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Counter({})", self.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::Counter;

    #[test]
    fn nothing_added_by_any_thread_is_lost() {
        let counter = Counter::new();
        std::thread::scope(|scope| {
            for worker in 0..9_u64 {
                let counter = &counter;
                scope.spawn(move || (0..10_000).for_each(|_| counter.add(worker)));
            }
        });
        assert_eq!(counter.sum(), 10_000 * 36);
    }
}
