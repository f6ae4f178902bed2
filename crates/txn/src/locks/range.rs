//! Ranges of keys: how an inserting transaction finds out whether its gap is locked.
//!
//! A lock of a key in a range mode also locks the gap between that key and the one before. A reader of a range under
//! `SERIALIZABLE` locks every key in it and the first key behind it. An insert of a key checks whether the gap where it
//! belongs is locked, which is the gap of the next key. Nearly always no range of the tree is locked, and the check is
//! one load of its [`RangeLockers`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::LockOwner;

/// How many transactions have locked ranges of a tree and have not ended.
///
/// A transaction that locks a range is counted before it reads which keys there are, under the leaf's latch. A
/// transaction that inserts a key, or removes a ghost, reads the count while it holds the leaf exclusively. So either
/// the second sees the count or the first sees the tree as it is afterwards. The latch orders them, and the count needs
/// no ordering of its own.
#[derive(Default, Debug)]
pub struct RangeLockers(AtomicU64);

impl RangeLockers {
    /// Whether any transaction has locked ranges of the tree.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl LockOwner {
    /// Counts the owner among those that lock ranges of a tree, until all its locks are released.
    pub fn locks_ranges_of(&self, lockers: &Arc<RangeLockers>) {
        self.with_held(|held| {
            if !held.ranges.iter().any(|known| Arc::ptr_eq(known, lockers)) {
                lockers.0.fetch_add(1, Ordering::Relaxed);
                held.ranges.push(Arc::clone(lockers));
            }
        });
    }

    /// To be called when all its locks are released.
    pub(super) fn locks_ranges_no_more(&self) {
        let ranges = self.with_held(|held| std::mem::take(&mut held.ranges));
        ranges.iter().for_each(|lockers| {
            lockers.0.fetch_sub(1, Ordering::Relaxed);
        });
    }
}
