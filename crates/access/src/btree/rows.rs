//! Inserts, deletes and replacements of single rows.
//!
//! A change of a row holds its leaf exclusively, from the read of the current state until the version for readers is
//! put. If a leaf is full, its ghosts are removed first, if they are not needed. If that is not enough, it is split.

use hobt_instruments::planted::{self, Bug};
use std::sync::Arc;

use hobt_base::{PageId, SlotId, Stamp};
use hobt_instruments::holds::Hold;
use hobt_page::{PageBytes, PageChange, PageFlags, PageHeader, RowImage};
use hobt_txn::locks::{KeyHash, LockMode};
use hobt_txn::{Before, LogChain, StatementContext};

use super::descent::Step;
use super::ranges::Gap;
use super::split::Wanted;
use super::{BTree, BTreeError};
use crate::change::Logged;
use crate::hobt::{Operation, newest_writer};
use crate::log_record::Undo;
use crate::undo::ChangedStores;
use crate::{AccessError, RowStore};

/// The result of putting a row into a leaf.
enum Put {
    Done,
    Duplicate,
    NoRoom,
    /// The range where the row belongs is locked.
    RangeLocked((KeyHash, LockMode)),
}

impl BTree {
    /// Inserts a row. Undone with the statement. Blocks on latches, and on allocation where a page is split.
    ///
    /// # Errors
    /// [`BTreeError`]. The row is not inserted then.
    ///
    /// # Panics
    /// If the row is not one of this tree.
    pub fn insert(self: &Arc<BTree>, context: &StatementContext, row: &RowImage) -> Result<(), BTreeError> {
        let key = self.key_of(row)?;
        context.reserve_undo_memory().map_err(AccessError::from)?;
        self.hobt.storage().in_one_piece(|| {
            let moved = self.hobt.move_out(context, row)?;
            let row = moved.as_ref().unwrap_or(row);
            self.make_room(context, &key, row, |step| self.put(context, step, &key, row))
        })
    }

    /// Calls `put` on the leaf of a key, splitting until there is room.
    fn make_room(
        &self,
        context: &StatementContext,
        key: &[u8],
        row: &RowImage,
        mut put: impl FnMut(&mut Step<'_>) -> Result<Put, AccessError>,
    ) -> Result<(), BTreeError> {
        let answer = |put| match put {
            Put::Done => Some(Ok(())),
            Put::Duplicate => Some(Err(BTreeError::Duplicate)),
            Put::RangeLocked((key, mode)) => Some(Err(BTreeError::RangeLocked { key, mode })),
            Put::NoRoom => None,
        };
        let mut needs_whole_path = false;
        loop {
            // Declared before the guards, so that it ends after them.
            let mut hold = Hold::new();
            let mut step = self.write_leaf(key)?;
            hold.begin();
            if let Some(done) = answer(put(&mut step)?) {
                return done;
            }
            drop(step);
            hold.end();
            let lower = if needs_whole_path { None } else { self.write_lower_path(key)? };
            let mut path = match lower {
                Some(path) => path,
                None => self.write_path(key)?,
            };
            hold.begin();
            let leaf = path.last_mut().expect("a path ends in a leaf");
            self.drop_seen_ghosts(context, leaf)?;
            // Another thread may have made room, too.
            if let Some(done) = answer(put(leaf)?) {
                return done;
            }
            needs_whole_path = !self.split(path, Wanted { key, row }, None, Some(context))?;
        }
    }

    fn put(
        self: &Arc<BTree>,
        context: &StatementContext,
        step: &mut Step<'_>,
        key: &[u8],
        row: &RowImage,
    ) -> Result<Put, AccessError> {
        let chain = self.chain_of_row(context);
        let writer = self.begin_change(context, step)?;
        let view = self.leaf(step.id, &step.page)?;
        let found = self.find_in(step.id, &view, key)?;
        if let Ok(position) = found
            && !view.is_deleted(view.slot_at(position).map_err(|damage| self.hobt.damaged(step.id, damage))?)
        {
            return Ok(Put::Duplicate);
        }
        let behind = found.map_or_else(|position| position, |ghost| ghost + 1);
        let _held_to_the_right = match self.gap_at(context, &view, behind, key)? {
            Gap::Free(held) => held,
            Gap::Locked(in_the_way) => return Ok(Put::RangeLocked(in_the_way)),
        };
        let change = match found {
            Err(position) => {
                self.given_up.settle(step.id)?;
                let position = u16::try_from(position).expect("a position of the page");
                PageChange::InsertRow { position, row: row.clone(), writer }
            }
            Ok(position) => {
                let slot = view.slot_at(position).map_err(|damage| self.hobt.damaged(step.id, damage))?;
                let slot = SlotId(u16::try_from(slot).expect("a slot of the page"));
                if !self.replace_slot(context, chain.as_ref(), step, slot, key, row)? {
                    return Ok(Put::NoRoom);
                }
                PageChange::SetDeleted { slot, deleted: false, writer }
            }
        };
        let undo = Undo::RemoveKey { key: key.to_vec() };
        let counting = self.hobt.begin_counting();
        let logged = Logged::of(chain.as_ref()).undone_by(&undo).rows(1);
        if self.hobt.change(&mut step.page, step.id, &change, logged)?.is_none() {
            return Ok(Put::NoRoom);
        }
        if !planted::has(Bug::InsertWithoutVersion) {
            context.put_key_version(self.hobt.storage().versions(), self.hobt.id(), key, Before::Absent);
        }
        self.hobt.count_rows(1);
        self.hobt.note_operations(Operation::LeafInsert, 1);
        drop(counting);
        self.note_without_log(context, &undo);
        Ok(Put::Done)
    }

    /// To be called before a leaf is changed: if a load built it, keeps versions for readers that do not see the load.
    /// Returns the stamp of the leaf's newest writer after the change.
    pub(super) fn begin_change(&self, context: &StatementContext, step: &Step<'_>) -> Result<Stamp, AccessError> {
        let header = PageHeader::read(&step.page).map_err(|damage| self.hobt.damaged(step.id, damage))?;
        if header.flags.contains(PageFlags::BULK) {
            self.put_loaded_versions(context, step.id, &step.page)?;
        }
        Ok(newest_writer(&header, context))
    }

    /// Puts versions for the keys of a leaf that was built whole. Until its first change the page's stamp alone says
    /// which readers see the rows.
    fn put_loaded_versions(&self, context: &StatementContext, id: PageId, page: &PageBytes) -> Result<(), AccessError> {
        let (store, loader) = (self.hobt.storage().versions(), PageHeader::newest_writer_of(page));
        context.put_loaded_key_versions(store, loader, self.hobt.id(), || {
            let view = self.leaf(id, page)?;
            let key_of = |slot| {
                let mut key = Vec::new();
                self.key.of_slot(&view, slot, &mut key).map(|()| key).map_err(|damage| self.hobt.damaged(id, damage))
            };
            (0..view.row_count()).map(key_of).collect()
        })
    }

    /// Replaces the row of a slot, a ghost or not, by one with the same key; returns whether there was room.
    fn replace_slot(
        self: &Arc<BTree>,
        context: &StatementContext,
        chain: Option<&Arc<LogChain>>,
        step: &mut Step<'_>,
        slot: SlotId,
        key: &[u8],
        row: &RowImage,
    ) -> Result<bool, AccessError> {
        let view = self.leaf(step.id, &step.page)?;
        let before = view.row_image(usize::from(slot.0)).map_err(|damage| self.hobt.damaged(step.id, damage))?;
        if before == *row {
            return Ok(true);
        }
        let rows = self.hobt.row_layout();
        let (bytes_before, bytes) = (before.variable_bytes(rows), row.variable_bytes(rows));
        let mut noted_bytes = 0;
        if bytes > bytes_before {
            self.given_up.settle(step.id)?;
        } else if let Some(chain) = chain.filter(|_| bytes < bytes_before) {
            // The room may have been taken by the time of the undo.
            noted_bytes = self.given_up.note(step.id, chain, bytes_before - bytes)?;
        }
        let is_ghost = view.is_deleted(usize::from(slot.0));
        let writer = self.begin_change(context, step)?;
        let change = PageChange::ReplaceRow { slot, row: row.clone(), writer };
        let undo = Undo::ReplaceKey { key: key.to_vec(), row: before };
        let logged = Logged::of(chain).undone_by(&undo);
        if self.hobt.change(&mut step.page, step.id, &change, logged)?.is_none() {
            return Ok(false);
        }
        let Undo::ReplaceKey { key, row } = &undo else { unreachable!("made above") };
        let (store, hobt) = (self.hobt.storage().versions(), self.hobt.id());
        context.put_replaced_version(store, hobt, key, row, is_ghost);
        if !is_ghost {
            self.hobt.note_operations(Operation::LeafUpdate, 1);
        }
        // Kept until the transaction's end.
        context.take_undo_memory(noted_bytes);
        self.note_without_log(context, &undo);
        Ok(true)
    }

    /// The chain of a statement that is about to change a row; `None` in a database without a log.
    fn chain_of_row(self: &Arc<BTree>, context: &StatementContext) -> Option<Arc<LogChain>> {
        let chain = self.hobt.storage().chain_of(context)?;
        ChangedStores::note(context, &chain, &self.hobt, || RowStore::Tree(Arc::clone(self)));
        Some(chain)
    }

    fn note_without_log(self: &Arc<BTree>, context: &StatementContext, undo: &Undo) {
        // Keys are found by themselves.
        let nowhere = self.hobt.run_list();
        crate::undo::note_without_log(context, &self.hobt, || RowStore::Tree(Arc::clone(self)), (nowhere, undo));
    }

    /// Deletes the row with a key; returns whether there was one. Undone with the statement.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or the log is full.
    pub fn delete(self: &Arc<BTree>, context: &StatementContext, key: &[u8]) -> Result<bool, AccessError> {
        context.reserve_undo_memory()?;
        self.hobt.storage().in_one_piece(|| {
            let chain = self.chain_of_row(context);
            let mut step = self.write_leaf(key)?;
            let Some(slot) = self.live_slot(step.id, &step.page, key)? else { return Ok(false) };
            let writer = self.begin_change(context, &step)?;
            let change = PageChange::SetDeleted { slot, deleted: true, writer };
            let undo = Undo::RestoreKey { key: key.to_vec() };
            let counting = self.hobt.begin_counting();
            let logged = Logged::of(chain.as_ref()).undone_by(&undo).rows(-1);
            self.hobt.change(&mut step.page, step.id, &change, logged)?.expect("a bit has room");
            context.put_key_version(self.hobt.storage().versions(), self.hobt.id(), key, Before::Present);
            self.hobt.count_rows(-1);
            self.hobt.note_operations(Operation::LeafGhost, 1);
            drop(counting);
            self.note_without_log(context, &undo);
            Ok(true)
        })
    }

    /// Replaces the row that has the key of `row`; returns whether there was one. Undone with the statement.
    ///
    /// # Errors
    /// [`BTreeError`], except `Duplicate`. The row is unchanged then.
    ///
    /// # Panics
    /// If the row is not one of this tree.
    pub fn replace(self: &Arc<BTree>, context: &StatementContext, row: &RowImage) -> Result<bool, BTreeError> {
        let key = self.key_of(row)?;
        context.reserve_undo_memory().map_err(AccessError::from)?;
        self.hobt.storage().in_one_piece(|| {
            let moved = self.hobt.move_out(context, row)?;
            let row = moved.as_ref().unwrap_or(row);
            let chain = self.chain_of_row(context);
            let mut was_there = true;
            self.make_room(context, &key, row, |step| {
                let Some(slot) = self.live_slot(step.id, &step.page, &key)? else {
                    was_there = false;
                    return Ok(Put::Done);
                };
                let has_room = self.replace_slot(context, chain.as_ref(), step, slot, &key, row)?;
                Ok(if has_room { Put::Done } else { Put::NoRoom })
            })?;
            Ok(was_there)
        })
    }

    /// The slot of the live row with a key in its leaf.
    pub(super) fn live_slot(&self, id: PageId, page: &PageBytes, key: &[u8]) -> Result<Option<SlotId>, AccessError> {
        let view = self.leaf(id, page)?;
        let Ok(position) = self.find_in(id, &view, key)? else { return Ok(None) };
        let slot = view.slot_at(position).map_err(|damage| self.hobt.damaged(id, damage))?;
        Ok((!view.is_deleted(slot)).then(|| SlotId(u16::try_from(slot).expect("a slot of the page"))))
    }
}
