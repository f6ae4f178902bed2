//! Ranges of keys: what a transaction that inserts has to know of those who have locked them.
//!
//! A lock of a key in a range mode is also one of the gap between that key and the one before. Who reads a range under
//! `SERIALIZABLE` locks every key in it and the first behind it; who inserts a key asks whether anybody has locked the
//! gap where it belongs, which is that of the next key. Nearly always nobody has locked any range of the tree, and that
//! is one load of its [`RangeLockers`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{LockManager, LockMode, LockOwner, LockResource};

/// How many transactions have locked ranges of a tree and not ended.
///
/// Whoever locks a range is counted before it looks which keys there are, under the leaf's latch; whoever inserts a
/// key, or takes a ghost away, looks here while it holds the leaf exclusively. So either the one sees the count or the
/// other sees the tree as it is afterwards: the latch orders them, and the count needs no order of its own.
#[derive(Default, Debug)]
pub struct RangeLockers(AtomicU64);

impl RangeLockers {
    /// Whether there is any.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl LockOwner {
    /// Counts the owner among those who lock ranges of a tree, until it lets go of everything.
    pub fn locks_ranges_of(&self, lockers: &Arc<RangeLockers>) {
        self.with_held(|held| {
            if !held.ranges.iter().any(|known| Arc::ptr_eq(known, lockers)) {
                lockers.0.fetch_add(1, Ordering::Relaxed);
                held.ranges.push(Arc::clone(lockers));
            }
        });
    }

    /// To be called when its locks are gone.
    pub(super) fn locks_ranges_no_more(&self) {
        let ranges = self.with_held(|held| std::mem::take(&mut held.ranges));
        ranges.iter().for_each(|lockers| {
            lockers.0.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

impl LockManager {
    /// Whether no other session holds a lock of the resource that excludes `mode`. Nothing is locked, and who waits
    /// does not count.
    pub fn is_free_for(&self, owner: &LockOwner, resource: &LockResource, mode: LockMode) -> bool {
        self.tables.lock(resource).get(resource).is_none_or(|queue| queue.is_free_for(owner.session(), mode))
    }
}
