//! Removal of ghosts: deleted rows whose slots are no longer needed.
//!
//! Each transaction in the list of running ones leaves a version at every key that it changes. The version is dropped
//! when all readers see the change, after the transaction's end. So a ghost without a version can be removed: no reader
//! sees the row, and no transaction has its deletion to undo. A ghost whose gap may be locked stays (`ranges`). (A
//! writer that is not in that list, such as the start of an instance, is the only user of what it writes.)

use hobt_instruments::planted::{self, Bug};
use hobt_page::{PageChange, PageHeader};
use hobt_txn::StatementContext;

use super::BTree;
use super::descent::{Fences, Step, Target};
use crate::AccessError;
use crate::change::Logged;

impl BTree {
    /// Removes the ghosts of the leaf to which `key` belongs. The caller guarantees that they are not needed: no
    /// transaction that deleted a row of this leaf is open, no reader's snapshot is older, and no ranges are locked.
    /// Returns how many there were, and the key from which on the next leaf has rows; `None` for that if there is no
    /// next leaf. Not undone.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or the log is full.
    pub fn remove_ghosts(&self, key: &[u8]) -> Result<(usize, Option<Vec<u8>>), AccessError> {
        self.hobt.storage().in_one_piece(|| {
            let mut fences = Fences::default();
            let mut step = self.write_leaf_between(key, Some(&mut fences))?;
            let header = PageHeader::read(&step.page).map_err(|damage| self.hobt.damaged(step.id, damage))?;
            let ghosts = usize::from(header.deleted_count);
            if ghosts > 0 {
                self.drop_ghosts(&mut step, &header)?;
            }
            Ok((ghosts, fences.high))
        })
    }

    /// Removes the ghosts of all leaves in which none is needed; returns how many there were. Goes from leaf to leaf,
    /// holding one at a time. Does nothing for a statement that readers do not know of. Not undone.
    ///
    /// # Errors
    /// As [`BTree::remove_ghosts`], or the statement was cancelled.
    pub fn remove_all_ghosts(&self, context: &StatementContext) -> Result<usize, AccessError> {
        let mut removed = 0;
        let mut next = Some(Vec::new());
        while let Some(key) = next {
            if context.is_cancelled() {
                return Err(AccessError::Cancelled);
            }
            let mut fences = Fences::default();
            let (id, page) = self.read_leaf(Target::Key(&key), Some(&mut fences), None)?;
            let has_ghosts = self.leaf(id, &page)?.deleted_count() > 0;
            drop(page);
            if has_ghosts {
                let mut step = self.write_leaf(&key)?;
                removed += self.hobt.storage().in_one_piece(|| self.drop_seen_ghosts(context, &mut step))?;
            }
            next = fences.high;
        }
        Ok(removed)
    }

    /// Removes the ghosts of a leaf if none of them is needed; returns how many.
    pub(super) fn drop_seen_ghosts(
        &self,
        context: &StatementContext,
        step: &mut Step<'_>,
    ) -> Result<usize, AccessError> {
        let damaged = |damage| self.hobt.damaged(step.id, damage);
        let header = PageHeader::read(&step.page).map_err(damaged)?;
        if header.deleted_count == 0 || context.running().is_none() || self.hobt.range_lockers().any() {
            return Ok(0);
        }
        let (view, versions) = (self.leaf(step.id, &step.page)?, self.hobt.storage().versions());
        let mut key = Vec::new();
        for slot in (0..view.row_count()).filter(|&slot| view.is_deleted(slot)) {
            self.key.of_slot(&view, slot, &mut key).map_err(damaged)?;
            // If that cannot be found out, the ghost stays: nothing depends on it.
            if versions.needs_key(self.hobt.id(), &key).unwrap_or(true) && !planted::has(Bug::GhostsRemovedEarly) {
                return Ok(0);
            }
        }
        self.drop_ghosts(step, &header)?;
        Ok(header.deleted_count.into())
    }

    fn drop_ghosts(&self, step: &mut Step<'_>, header: &PageHeader) -> Result<(), AccessError> {
        let (to, writer) = (header.row_count, header.newest_writer);
        let change = PageChange::KeepRows { from: 0, to, drop_deleted: true, writer };
        let kept = self.hobt.change(&mut step.page, step.id, &change, Logged::structure())?;
        assert!(kept.is_some(), "fewer rows than there were have room");
        Ok(())
    }
}
