//! Inserts, deletes and replacements of single rows, and their undo.
//!
//! A row's undo addresses it by RID, whatever other transactions have done to its page meanwhile. It is in the row's
//! record; in a database without a log, the statement keeps it.

use hobt_instruments::planted::{self, Bug};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_base::{Lsn, PageId, SlotId, Stamp};
use hobt_instruments::holds::Hold;
use hobt_instruments::rank::RankedGuard;
use hobt_instruments::schedule::RwLockReadGuard;
use hobt_page::{
    PageBytes, PageChange, PageDamage, PageFlags, PageHeader, PageType, RowImage, RowPage, Run, RunContents,
};
use hobt_txn::locks::{LockMode, LockResource};
use hobt_txn::{Before, LogChain, RowId, RowLocks, StatementContext, UndoError};

use super::{FetchAddSigned, Hobt, Operation, State};
use crate::change::Logged;
use crate::log_record::Undo;
use crate::undo::{ChangedStores, note_without_log};
use crate::{AccessError, RowStore};

impl Hobt {
    /// Guards a change of the number of rows: to be held from the row's log record until the row is counted.
    pub(crate) fn begin_counting(&self) -> RankedGuard<RwLockReadGuard<'_, ()>> {
        let counting = self.counting.read();
        self.unsaved_count.begin();
        counting
    }

    /// Inserts a row at the end. Values that do not fit the row are written to pages of their own. Blocks on the tail
    /// page's latch and, when the tail is full, on allocation.
    ///
    /// # Errors
    /// The row is larger than a page even then, the filegroup is full, or the device fails.
    pub fn insert(
        self: &Arc<Hobt>,
        context: &StatementContext,
        row: &RowImage,
    ) -> Result<(PageId, SlotId), AccessError> {
        self.storage.in_one_piece(|| self.insert_row(context, row))
    }

    pub(super) fn insert_row(
        self: &Arc<Hobt>,
        context: &StatementContext,
        row: &RowImage,
    ) -> Result<(PageId, SlotId), AccessError> {
        context.reserve_undo_memory()?;
        let row = self.move_out(context, row)?.unwrap_or_else(|| row.clone());
        let variable_bytes = row.variable_bytes(&self.identity.rows);
        let bytes = row.byte_count();
        let mut change = PageChange::AppendRow { row, writer: context.stamp() };
        let chain = self.chain_of_row(context);
        let mut state = self.state_to_change()?;
        loop {
            let tail = state.runs[state.tail(RunContents::Rows).expect("a heap has its first run")];
            if tail.used > u32::from(tail.skip) {
                let id = PageId::new(tail.first.file, tail.used_end() - 1);
                let file = self.storage.file(id.file)?;
                // Declared before the guard, so that it ends after it.
                let mut hold = Hold::new();
                let mut page =
                    file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
                hold.begin();
                let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
                let slot = SlotId(header.row_count);
                let Some(locked) = self.lock_new_row(context, id, slot) else {
                    // The RID is still locked for a row that was inserted here and undone, by a transaction that has
                    // not ended.
                    drop(page);
                    hold.end();
                    self.add_page(&mut state, context, self.capacity_for(variable_bytes, bytes)?)?;
                    continue;
                };
                self.put_loaded_versions(context, id, &header);
                if let PageChange::AppendRow { writer, .. } = &mut change {
                    *writer = newest_writer(&header, context);
                }
                let undo = Undo::RemoveRow { slot };
                let counting = self.begin_counting();
                let logged = Logged::of(chain.as_ref()).undone_by(&undo).rows(1);
                if self.change(&mut page, id, &change, logged)?.is_some() {
                    context.put_version(self.storage.versions(), self.at(id), slot, Before::Absent);
                    drop(page);
                    hold.end();
                    self.row_count.fetch_add(1, Ordering::Relaxed);
                    self.note_operations(Operation::LeafInsert, 1);
                    drop(counting);
                    self.note_without_log(context, id, &Undo::RemoveRow { slot });
                    return Ok((id, slot));
                }
                drop(counting);
                locked.take_back();
                if header.row_count == 0 {
                    return Err(AccessError::RowTooLarge { bytes });
                }
            }
            self.add_page(&mut state, context, self.capacity_for(variable_bytes, bytes)?)?;
        }
    }

    /// The number of rows for which a new page is made, given the size of one of them.
    fn capacity_for(&self, variable_bytes: usize, bytes: usize) -> Result<u16, AccessError> {
        match self.identity.rows.capacity_for(variable_bytes) {
            0 => Err(AccessError::RowTooLarge { bytes }),
            capacity => Ok(capacity),
        }
    }

    /// Locks a row that is about to be inserted, before any reader can see it; `None` if its RID is locked. Does not
    /// wait, because a latch is held.
    fn lock_new_row(&self, context: &StatementContext, page: PageId, slot: SlotId) -> Option<NewRowLocks> {
        let Some(locks) = context.row_locks(self.storage.database_tag(), self.identity.id) else {
            return Some(NewRowLocks { locks: None, taken: Vec::new() });
        };
        let mut taken = Vec::with_capacity(2);
        let row = RowId::Heap(page, slot);
        let locked = locks.try_lock(self.identity.id, row, LockMode::Exclusive, &mut taken);
        locked.then_some(NewRowLocks { locks: Some(locks), taken })
    }

    /// Puts versions for the rows of a page that a load built. Until its first change the page's stamp alone says which
    /// readers see the rows.
    pub(super) fn put_loaded_versions(&self, context: &StatementContext, id: PageId, header: &PageHeader) {
        if header.flags.contains(PageFlags::BULK) {
            context.put_loaded_versions(self.storage.versions(), header.newest_writer, self.at(id), header.row_count);
        }
    }

    /// Formats the next page of the tail run for `capacity` rows, and allocates a run first if the tail is full. Undone
    /// with the statement, unless later rows or pages follow.
    pub(super) fn add_page(
        self: &Arc<Hobt>,
        state: &mut State,
        context: &StatementContext,
        capacity: u16,
    ) -> Result<(), AccessError> {
        let tail = state.tail(RunContents::Rows).expect("a heap has its first run");
        if state.runs[tail].used == state.runs[tail].page_count {
            let extents = state.next_extents;
            self.add_run(state, context, RunContents::Rows, extents)?;
        }
        let index = state.tail(RunContents::Rows).expect("a heap has its first run");
        let run = state.runs[index];
        let id = PageId::new(run.first.file, run.used_end());
        let mut header = PageHeader::new(PageType::Row, id, self.storage.database_tag(), self.identity.id);
        header.capacity = capacity;
        header.layout_version = self.identity.layout_version;
        header.newest_writer = context.stamp();
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().create(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        self.change(&mut page, id, &PageChange::Format { header }, Logged::structure())?;
        drop(page);
        let grown = Run { used: run.used + 1, ..run };
        self.replace_run(state, index, grown)?;
        self.note_operations(Operation::LeafAllocation, 1);
        let hobt = Arc::clone(self);
        context.on_undo(move || hobt.undo_add_page(index, grown));
        Ok(())
    }

    pub(super) fn undo_add_page(&self, index: usize, grown: Run) -> Result<(), UndoError> {
        self.storage.tidy(|| {
            let mut state = self.state.write();
            if state.tail(RunContents::Rows) != Some(index) || state.runs[index] != grown {
                return Ok(());
            }
            let id = PageId::new(grown.first.file, grown.used_end() - 1);
            let file = self.storage.file(id.file)?;
            let page = file.pool_file().read(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
            let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
            drop(page);
            if header.row_count > 0 {
                return Ok(());
            }
            // The page stays as it is, formatted and without rows, for scans that have it in their copy of the runs.
            self.replace_run(&mut state, index, Run { used: grown.used - 1, ..grown })
        })
    }

    /// The current row, deleted or not.
    ///
    /// # Errors
    /// The page is damaged or cannot be read, or has no such row.
    pub fn row(&self, page: PageId, slot: SlotId) -> Result<RowImage, AccessError> {
        let missing = || self.damaged(page, PageDamage::Structure { rule: "a row that is not where it was found" });
        let row = self.with_row_page(page, None, |view| {
            if usize::from(slot.0) >= view.row_count() {
                return Err(missing());
            }
            view.row_image(usize::from(slot.0)).map_err(|damage| self.damaged(page, damage))
        })?;
        row.ok_or_else(missing)
    }

    /// The slots of a page's rows that are not deleted; none if the page has gone out of use.
    ///
    /// # Errors
    /// The page is damaged or cannot be read.
    pub fn live_slots(&self, page: PageId) -> Result<Vec<SlotId>, AccessError> {
        let slots = self.with_row_page(page, None, |view| {
            let live = (0..view.row_count()).filter(|&slot| !view.is_deleted(slot));
            Ok(live.map(|slot| SlotId(u16::try_from(slot).expect("a slot of the page"))).collect())
        })?;
        Ok(slots.unwrap_or_default())
    }

    /// The current row; `None` if it is deleted, the slot does not exist or the page has gone out of use.
    ///
    /// # Errors
    /// The page is damaged or cannot be read.
    pub fn live_row(&self, page: PageId, slot: SlotId) -> Result<Option<RowImage>, AccessError> {
        let row = self.with_row_page(page, None, |view| {
            let place = usize::from(slot.0);
            if place >= view.row_count() || view.is_deleted(place) {
                return Ok(None);
            }
            view.row_image(place).map(Some).map_err(|damage| self.damaged(page, damage))
        })?;
        Ok(row.flatten())
    }

    /// The header of a page whose rows are about to be changed. Refuses another HOBT's page.
    fn own_header(&self, id: PageId, page: &PageBytes) -> Result<PageHeader, AccessError> {
        let header = PageHeader::read(page).map_err(|damage| self.damaged(id, damage))?;
        if header.hobt != self.identity.id {
            return Err(self.damaged(id, PageDamage::Structure { rule: "a page of another HOBT" }));
        }
        Ok(header)
    }

    /// Deletes a row. Undone with the statement.
    ///
    /// # Errors
    /// The page is damaged or cannot be read.
    pub fn delete(self: &Arc<Hobt>, context: &StatementContext, page: PageId, slot: SlotId) -> Result<(), AccessError> {
        context.reserve_undo_memory()?;
        let chain = self.chain_of_row(context);
        self.storage.in_one_piece(|| {
            let file = self.storage.file(page.file)?;
            let guard = file.pool_file().write(page.number);
            let mut guard = guard.map_err(|error| AccessError::of_pool(error, file.name()))?;
            let header = self.own_header(page, &guard)?;
            self.put_loaded_versions(context, page, &header);
            let undo = Undo::RestoreRow { slot };
            let change = PageChange::SetDeleted { slot, deleted: true, writer: newest_writer(&header, context) };
            let counting = self.begin_counting();
            let logged = Logged::of(chain.as_ref()).undone_by(&undo).rows(-1);
            self.change(&mut guard, page, &change, logged)?.expect("a bit has room");
            if !planted::has(Bug::DeleteWithoutVersion) {
                context.put_version(self.storage.versions(), self.at(page), slot, Before::Present);
            }
            drop(guard);
            self.row_count.fetch_sub(1, Ordering::Relaxed);
            self.note_operations(Operation::LeafDelete, 1);
            drop(counting);
            self.note_without_log(context, page, &Undo::RestoreRow { slot });
            Ok(())
        })
    }

    /// Replaces a row. If the new row does not fit in place, or a replacement in place might not be undoable, the old
    /// row is deleted and the new one inserted. Returns the new row's RID. Undone with the statement.
    ///
    /// # Errors
    /// As [`Hobt::insert`] and [`Hobt::delete`].
    pub fn replace(
        self: &Arc<Hobt>,
        context: &StatementContext,
        page: PageId,
        slot: SlotId,
        row: &RowImage,
    ) -> Result<(PageId, SlotId), AccessError> {
        if self.storage.in_one_piece(|| self.replace_in_place(context, page, slot, row))? {
            return Ok((page, slot));
        }
        self.delete(context, page, slot)?;
        let to = self.insert(context, row)?;
        self.storage.versions().moved(context.stamp(), (self.at(page), slot), to);
        Ok(to)
    }

    /// Returns `false`, with nothing changed, if the row has to move: the page has no room, some of its values belong
    /// on pages of their own, or it is shorter than the old row, whose room other rows could take before an undo needs
    /// it again.
    pub(super) fn replace_in_place(
        self: &Arc<Hobt>,
        context: &StatementContext,
        id: PageId,
        slot: SlotId,
        row: &RowImage,
    ) -> Result<bool, AccessError> {
        context.reserve_undo_memory()?;
        let rows = &self.identity.rows;
        let variable_bytes = row.variable_bytes(rows);
        if !rows.fits_in_row(variable_bytes) {
            return Ok(false);
        }
        let chain = self.chain_of_row(context);
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let header = self.own_header(id, &page)?;
        let view = RowPage::open(&page, rows).map_err(|damage| self.damaged(id, damage))?;
        let old = view.row_image(usize::from(slot.0)).map_err(|damage| self.damaged(id, damage))?;
        if variable_bytes < old.variable_bytes(rows) {
            return Ok(false);
        }
        self.put_loaded_versions(context, id, &header);
        let undo = Undo::PutBack { slot, row: old.clone() };
        let change = PageChange::ReplaceRow { slot, row: row.clone(), writer: newest_writer(&header, context) };
        let logged = Logged::of(chain.as_ref()).undone_by(&undo);
        if self.change(&mut page, id, &change, logged)?.is_none() {
            return Ok(false);
        }
        context.put_version(self.storage.versions(), self.at(id), slot, Before::Row(Arc::new(old)));
        drop(page);
        self.note_operations(Operation::LeafUpdate, 1);
        self.note_without_log(context, id, &undo);
        Ok(true)
    }

    /// The chain of a statement that is about to change a row of a heap; `None` in a database without a log.
    fn chain_of_row(self: &Arc<Hobt>, context: &StatementContext) -> Option<Arc<LogChain>> {
        let chain = self.storage.chain_of(context)?;
        ChangedStores::note(context, &chain, self, || RowStore::Heap(Arc::clone(self)));
        Some(chain)
    }

    fn note_without_log(self: &Arc<Hobt>, context: &StatementContext, page: PageId, undo: &Undo) {
        note_without_log(context, self, || RowStore::Heap(Arc::clone(self)), (page, undo));
    }

    /// Undoes a replacement: restores the old row, which is no longer than the new one.
    pub(crate) fn put_back(
        &self,
        chain: Option<&Arc<LogChain>>,
        done: &Replaced,
        writer: Stamp,
    ) -> Result<(), AccessError> {
        let id = done.page;
        self.storage.versions().make_room_to_undo();
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
        let newest = header.newest_writer;
        let change = PageChange::ReplaceRow { slot: done.slot, row: done.row.clone(), writer: newest };
        let put = self.change(&mut page, id, &change, Logged::of(chain).undoing_row(done.lsn))?;
        self.storage.versions().undone(writer, self.at(id), done.slot);
        let no_room = PageDamage::Structure { rule: "room for a row that stood there before" };
        put.map(drop).ok_or_else(|| self.damaged(id, no_room))
    }

    /// Undoes an insert or a delete. Other statements may have changed other rows of the page since (the catalog's
    /// tables have many writers), so only this row is changed, and not the layout. An inserted row that is no longer
    /// the last one is marked as deleted.
    pub(crate) fn undo_row(
        &self,
        chain: Option<&Arc<LogChain>>,
        done: &RowChange,
        writer: Stamp,
    ) -> Result<(), AccessError> {
        let (id, slot) = (done.page, done.slot);
        self.storage.versions().make_room_to_undo();
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
        let newest = header.newest_writer;
        let change = if done.was_inserted && header.row_count == slot.0 + 1 {
            PageChange::RemoveLastRow { writer: newest }
        } else {
            PageChange::SetDeleted { slot, deleted: done.was_inserted, writer: newest }
        };
        let rows = if done.was_inserted { -1 } else { 1 };
        let _counting = self.begin_counting();
        self.change(&mut page, id, &change, Logged::of(chain).undoing_row(done.lsn).rows(rows))?;
        self.storage.versions().undone(writer, self.at(id), slot);
        self.row_count.fetch_add_signed(rows.into());
        Ok(())
    }
}

/// The stamp of the newest writer for a page that `context` changes. Stamps are in the order of beginnings, changes are
/// not: an older transaction does not hide a newer one, whose changes readers may not see yet. An undo does not either.
pub(crate) fn newest_writer(header: &PageHeader, context: &StatementContext) -> Stamp {
    header.newest_writer.max(context.stamp())
}

/// The locks of a row that is about to be inserted.
struct NewRowLocks {
    locks: Option<Arc<RowLocks>>,
    taken: Vec<LockResource>,
}

impl NewRowLocks {
    /// Releases the locks: the row is not inserted.
    fn take_back(self) {
        if let Some(locks) = self.locks {
            locks.release(&self.taken);
        }
    }
}

/// An insert or delete of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowChange {
    pub(crate) page: PageId,
    pub(crate) slot: SlotId,
    pub(crate) was_inserted: bool,
    /// The position of its record.
    pub(crate) lsn: Lsn,
}

/// A replacement of a row in place.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    pub(crate) page: PageId,
    pub(crate) slot: SlotId,
    /// The old row.
    pub(crate) row: RowImage,
    /// The position of its record.
    pub(crate) lsn: Lsn,
}
