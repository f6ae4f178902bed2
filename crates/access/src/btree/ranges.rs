//! Gaps between keys: which keys are locked for a range, and which key's lock covers the gap where a key is inserted.
//!
//! The gap before a key belongs to that key, the gap after the last key to [`KeyHash::END`]. Ghosts count as keys:
//! while any transaction has locked ranges of a tree, no ghost is removed.

use std::sync::Arc;

use hobt_base::PageId;
use hobt_buffer::SharedGuard;
use hobt_page::{PageHeader, RowPage};
use hobt_txn::StatementContext;
use hobt_txn::locks::{KeyHash, LockMode};

use super::cursor::is_point;
use super::{BTree, Cursor, Direction, KeyRange};
use crate::AccessError;

/// A key that is locked for a part of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyOfRange {
    /// Its hash.
    pub key: KeyHash,
    /// Whether it is the whole range: the row with a key of a unique tree, beside which no other can be inserted.
    pub is_all: bool,
}

/// The keys that are locked for a range: those in it, and the first one behind it. They are as they are now, leaf by
/// leaf. A transaction that has locked them reads again whether there are others by then.
#[derive(Debug)]
pub struct KeysOfRange {
    tree: Arc<BTree>,
    cursor: Cursor,
    high: Option<Vec<u8>>,
    /// The only key that can be in the range.
    point: Option<Vec<u8>>,
    is_done: bool,
}

impl KeysOfRange {
    /// The keys for a range of a tree. `is_unique`: the columns by which ranges are made are the whole key.
    pub fn new(tree: Arc<BTree>, range: &KeyRange, is_unique: bool) -> KeysOfRange {
        let (low, high) = range.bounds();
        let open = KeyRange::new(std::ops::Bound::Included(low), std::ops::Bound::Unbounded);
        let point = (is_unique && is_point(range)).then(|| low.to_vec());
        let (is_done, high) = (range.is_empty(), high.map(<[u8]>::to_vec));
        let cursor = Cursor::new(Arc::clone(&tree), open, Direction::Forward);
        KeysOfRange { tree, cursor, high, point, is_done }
    }

    /// Adds the keys of the next leaf; `false` if there are no more. Blocks on reads and latches.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub fn next(&mut self, keys: &mut Vec<KeyOfRange>) -> Result<bool, AccessError> {
        if self.is_done {
            return Ok(false);
        }
        let (tree, high, point, is_done) = (&self.tree, self.high.as_deref(), self.point.as_deref(), &mut self.is_done);
        let mut bytes = Vec::new();
        let is_there = self.cursor.next_leaf(&mut |id, page, positions| {
            let damaged = |damage| tree.hobt.damaged(id, damage);
            for position in positions {
                let slot = page.slot_at(position).map_err(damaged)?;
                tree.key.of_slot(page, slot, &mut bytes).map_err(damaged)?;
                let is_all = point == Some(bytes.as_slice()) && !page.is_deleted(slot);
                keys.push(KeyOfRange { key: KeyHash::of(&bytes), is_all });
                if is_all || high.is_some_and(|high| bytes.as_slice() >= high) {
                    *is_done = true;
                    break;
                }
            }
            Ok(())
        })?;
        if !is_there {
            self.is_done = true;
            keys.push(KeyOfRange { key: KeyHash::END, is_all: false });
        }
        Ok(true)
    }
}

/// Whether a lock conflicts with a new key, and the latches that keep the answer valid.
pub(super) enum Gap<'t> {
    /// No conflict, for as long as these leaves to the right are held.
    Free(Vec<SharedGuard<'t>>),
    /// A conflict: wait for this, without latches.
    Locked((KeyHash, LockMode)),
}

impl BTree {
    /// Whether a key may be inserted into a leaf, which is held exclusively, before the key at `position` of its order.
    pub(super) fn gap_at(
        &self,
        context: &StatementContext,
        page: &RowPage<'_>,
        position: usize,
        new: &[u8],
    ) -> Result<Gap<'_>, AccessError> {
        if !self.hobt.range_lockers().any() {
            return Ok(Gap::Free(Vec::new()));
        }
        // A statement without row locks has locked the table, so no other transaction has locked ranges of it.
        let Some(locks) = context.row_locks(self.hobt.storage().database_tag(), self.hobt.id()) else {
            return Ok(Gap::Free(Vec::new()));
        };
        let mut held = Vec::new();
        let next = match self.first_key_at(page, position)? {
            Some(key) => key,
            None => self.first_key_behind(page, &mut held)?,
        };
        Ok(match locks.gap_before(self.hobt.id(), next, KeyHash::of(new)) {
            Ok(()) => Gap::Free(held),
            Err(in_the_way) => Gap::Locked(in_the_way),
        })
    }

    fn first_key_at(&self, page: &RowPage<'_>, position: usize) -> Result<Option<KeyHash>, AccessError> {
        if position >= page.row_count() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let slot = page.slot_at(position).and_then(|slot| self.key.of_slot(page, slot, &mut bytes));
        let id = PageHeader::read(page.bytes()).map_or(self.root, |header| header.page);
        slot.map_err(|damage| self.hobt.damaged(id, damage))?;
        Ok(Some(KeyHash::of(&bytes)))
    }

    /// The first key of the leaves to the right, which are held from then on, so that no key is inserted before it. A
    /// thread that holds a latch may wait for one to the right, because no thread waits from there to the left.
    fn first_key_behind<'t>(
        &'t self,
        page: &RowPage<'_>,
        held: &mut Vec<SharedGuard<'t>>,
    ) -> Result<KeyHash, AccessError> {
        let next_of = |bytes: &hobt_page::PageBytes, id| {
            PageHeader::read(bytes).map(|header| header.next).map_err(|damage| self.hobt.damaged(id, damage))
        };
        let mut next = next_of(page.bytes(), self.root)?;
        while next != PageId::default() {
            let guard = self.read(next)?;
            let key = self.first_key_at(&self.leaf(next, &guard)?, 0)?;
            let behind = next_of(&guard, next)?;
            held.push(guard);
            if let Some(key) = key {
                return Ok(key);
            }
            next = behind;
        }
        Ok(KeyHash::END)
    }
}
