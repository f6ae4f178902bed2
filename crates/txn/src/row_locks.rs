//! The tables whose rows a statement locks one by one, and how.
//!
//! Storage names a row by its position or its key ([`RowId`]) and asks the statement's context to lock it. The
//! interpreter has said before which table that is, which transaction locks, how long it waits, and what row locks
//! escalate to. Rows of a table that is not listed here are not locked: the table is locked as a whole, or belongs to
//! the catalog.

use hobt_instruments::planted::{self, Bug};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hobt_base::{DatabaseId, HobtId, ObjectId, PageId, SlotId};

use crate::Transaction;
use crate::locks::{
    Escalation, GrantKind, KeyHash, LockError, LockManager, LockMode, LockOwner, LockResource, Patience, RangeLockers,
};

/// A row, as locks name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RowId {
    /// A row of a heap, by its RID.
    Heap(PageId, SlotId),
    /// A row of a B+tree, by its key.
    Key(KeyHash),
}

/// The larger lock for which many row locks are exchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EscalatesTo {
    /// One lock of the table.
    Table,
    /// One lock of the partition.
    Hobt,
    /// Nothing: the row locks stay.
    Nothing,
}

/// How the rows of a table are locked.
#[derive(Clone, Debug)]
pub struct RowLockSettings {
    /// The table's database.
    pub database: DatabaseId,
    /// The database's tag in page headers.
    pub database_tag: u32,
    /// The table.
    pub object: ObjectId,
    /// Its partitions.
    pub hobts: Vec<HobtId>,
    /// What many row locks are exchanged for.
    pub escalates_to: EscalatesTo,
    /// Whether pages are locked in place of rows: `PAGLOCK`.
    pub locks_pages: bool,
    /// How long a statement waits for a lock.
    pub patience: Patience,
}

/// A table whose rows a statement locks, on behalf of its transaction.
#[derive(Debug)]
pub struct RowLocks {
    settings: RowLockSettings,
    manager: Arc<LockManager>,
    owner: Arc<LockOwner>,
    /// The partition of which the statement has so many locks that escalation is due; 0 for none.
    escalation_due: AtomicU64,
    /// The page that was locked last with an intent lock, and the mode: the next row mostly lies there too.
    last_page: AtomicU64,
}

impl RowLocks {
    /// For statements that lock for `transaction`, whose end releases all locks.
    pub fn new(settings: RowLockSettings, manager: &Arc<LockManager>, transaction: &Transaction) -> Arc<RowLocks> {
        transaction.lets_go_of_locks(manager);
        let (manager, owner) = (Arc::clone(manager), Arc::clone(transaction.lock_owner()));
        Arc::new(RowLocks { settings, manager, owner, escalation_due: AtomicU64::new(0), last_page: AtomicU64::new(0) })
    }

    /// Whether `hobt`, in the database of this tag, is a partition of the table.
    pub fn is_of(&self, database_tag: u32, hobt: HobtId) -> bool {
        self.settings.database_tag == database_tag && self.settings.hobts.contains(&hobt)
    }

    /// The table's database and id.
    pub fn table(&self) -> (DatabaseId, ObjectId) {
        (self.settings.database, self.settings.object)
    }

    /// Whether pages are locked in place of rows.
    pub fn locks_pages(&self) -> bool {
        self.settings.locks_pages
    }

    /// Locks a row of `hobt` until the transaction has ended, waiting for conflicting locks. Adds to `taken` the locks
    /// that [`RowLocks::release`] may release earlier.
    ///
    /// # Errors
    /// As [`LockManager::lock`].
    pub fn lock(
        &self,
        hobt: HobtId,
        row: RowId,
        mode: LockMode,
        is_cancelled: &dyn Fn() -> bool,
        taken: &mut Vec<LockResource>,
    ) -> Result<(), LockError> {
        self.each(hobt, row, mode, &mut |resource, mode| {
            let grant = self.manager.lock(&self.owner, resource, mode, self.settings.patience, is_cancelled)?;
            self.note(resource, grant.kind, grant.escalation_due, taken);
            Ok(())
        })
    }

    /// Like [`RowLocks::lock`], without waiting. Returns `false`, with nothing locked, if a lock or a waiting request
    /// of another session conflicts.
    pub fn try_lock(&self, hobt: HobtId, row: RowId, mode: LockMode, taken: &mut Vec<LockResource>) -> bool {
        let before = taken.len();
        let locked = self.each::<()>(hobt, row, mode, &mut |resource, mode| {
            let grant = self.manager.try_lock(&self.owner, resource, mode).ok_or(())?;
            self.note(resource, grant.kind, grant.escalation_due, taken);
            Ok(())
        });
        if locked.is_err() {
            self.release(&taken.split_off(before));
        }
        locked.is_ok()
    }

    /// Calls `lock` for the containers of a row, from the outside in, and then for the row.
    fn each<E>(
        &self,
        hobt: HobtId,
        row: RowId,
        mode: LockMode,
        lock: &mut dyn FnMut(LockResource, LockMode) -> Result<(), E>,
    ) -> Result<(), E> {
        let (database, intent) = (self.settings.database, mode.intent());
        let lock_hobt = |lock: &mut dyn FnMut(LockResource, LockMode) -> Result<(), E>| {
            let is_large = self.settings.escalates_to == EscalatesTo::Hobt;
            if is_large { lock(LockResource::Hobt(database, hobt), intent) } else { Ok(()) }
        };
        let (page, slot) = match row {
            RowId::Key(hash) => {
                lock_hobt(lock)?;
                return lock(LockResource::Key(database, hobt, hash), mode);
            }
            RowId::Heap(page, slot) => (page, slot),
        };
        if self.settings.locks_pages {
            lock_hobt(lock)?;
            return lock(LockResource::Page(database, hobt, page), mode);
        }
        let noted = u64::from(page.file.0) << 48 | u64::from(page.number) << 16 | intent as u64;
        if self.last_page.load(Ordering::Relaxed) != noted {
            lock_hobt(lock)?;
            lock(LockResource::Page(database, hobt, page), intent)?;
            self.last_page.store(noted, Ordering::Relaxed);
        }
        lock(LockResource::Rid(database, hobt, page, slot), mode)
    }

    /// Locks a key of `hobt` until the transaction has ended, waiting for conflicting locks. The mode may be a range
    /// mode, which includes the gap before the key. Returns whether the transaction had not locked the key so before.
    ///
    /// # Errors
    /// As [`LockManager::lock`].
    pub fn lock_key(
        &self,
        hobt: HobtId,
        key: KeyHash,
        mode: LockMode,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<bool, LockError> {
        let mut is_new = false;
        self.each(hobt, RowId::Key(key), mode, &mut |resource, mode| {
            let grant = self.manager.lock(&self.owner, resource, mode, self.settings.patience, is_cancelled)?;
            self.note(resource, grant.kind, grant.escalation_due, &mut Vec::new());
            is_new = matches!(grant.kind, GrantKind::New | GrantKind::Converted);
            Ok(())
        })?;
        Ok(is_new)
    }

    /// Counts the transaction among those that lock ranges of a tree. To be called before it reads which keys there
    /// are.
    pub fn locks_ranges_of(&self, lockers: &Arc<RangeLockers>) {
        self.owner.locks_ranges_of(lockers);
    }

    /// Whether a key may be inserted into the gap before the key `next` of `hobt`. If the gap is locked by another
    /// session, the error is what [`RowLocks::wait_for_gap`] has to wait for. If the transaction itself has locked the
    /// gap, the new key splits it: the key is locked too, so that both parts stay locked. Does not wait. The caller
    /// holds the leaf where the key is inserted exclusively.
    pub fn gap_before(&self, hobt: HobtId, next: KeyHash, new: KeyHash) -> Result<(), (KeyHash, LockMode)> {
        if planted::has(Bug::GapsNotLocked) {
            return Ok(());
        }
        let database = self.settings.database;
        let resource = LockResource::Key(database, hobt, next);
        let is_part_free = self.settings.escalates_to != EscalatesTo::Hobt
            || self.manager.is_free_for(&self.owner, &LockResource::Hobt(database, hobt), LockMode::IntentExclusive);
        if !is_part_free || !self.manager.is_free_for(&self.owner, &resource, LockMode::RangeInsertNull) {
            return Err((next, LockMode::RangeInsertNull));
        }
        let held = self.manager.mode_held(&self.owner, &resource);
        if held.is_none_or(|held| !held.is_range()) {
            return Ok(());
        }
        let mode = LockMode::RangeExclusiveExclusive;
        let both = self.manager.try_lock(&self.owner, LockResource::Key(database, hobt, new), mode);
        both.map(drop).ok_or((new, mode))
    }

    /// Waits until nothing conflicts with what [`RowLocks::gap_before`] has returned.
    ///
    /// # Errors
    /// As [`LockManager::lock`].
    pub fn wait_for_gap(
        &self,
        hobt: HobtId,
        (key, mode): (KeyHash, LockMode),
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), LockError> {
        let mut taken = Vec::new();
        self.lock(hobt, RowId::Key(key), mode, is_cancelled, &mut taken)?;
        if mode == LockMode::RangeInsertNull {
            // Only the key: its containers are part of what is about to be changed.
            taken.retain(|resource| matches!(resource, LockResource::Key(..)));
            self.release(&taken);
        }
        Ok(())
    }

    fn note(&self, resource: LockResource, kind: GrantKind, escalation_due: bool, taken: &mut Vec<LockResource>) {
        if kind != GrantKind::Covered {
            taken.push(resource);
        }
        if escalation_due
            && let LockResource::Page(_, hobt, _) | LockResource::Rid(_, hobt, ..) | LockResource::Key(_, hobt, _) =
                resource
        {
            self.escalation_due.store(hobt.0, Ordering::Relaxed);
        }
    }

    /// Releases the locks that [`RowLocks::lock`] has added to `taken`, each once. Other locks of the transaction stay.
    pub fn release(&self, taken: &[LockResource]) {
        self.last_page.store(0, Ordering::Relaxed);
        for resource in taken.iter().rev() {
            // Gone if it was escalated meanwhile.
            self.manager.release(&self.owner, resource);
        }
    }

    /// Begins a round of a statement, whose locks can be released on their own: the next row's page is locked even if
    /// it is the page of the last row.
    pub fn begin_round(&self) {
        self.last_page.store(0, Ordering::Relaxed);
    }

    /// Exchanges the locks of rows for a larger lock, if there are enough of them and no other session's lock
    /// conflicts. Does not wait. No other thread may lock rows of the table for the statement meanwhile.
    pub fn escalate_if_due(&self) {
        let due = self.escalation_due.load(Ordering::Relaxed);
        if due == 0 {
            return;
        }
        self.escalation_due.store(0, Ordering::Relaxed);
        let RowLockSettings { database, object, hobts, escalates_to, .. } = &self.settings;
        let one = [HobtId(due)];
        let (hobts, larger) = match escalates_to {
            EscalatesTo::Nothing => return,
            EscalatesTo::Table => (hobts.as_slice(), LockResource::Object(*database, *object)),
            EscalatesTo::Hobt => (one.as_slice(), LockResource::Hobt(*database, one[0])),
        };
        // If refused, it is tried again when there are more locks.
        let done = self.manager.escalate(&self.owner, *database, hobts, larger);
        self.manager.note_promotion(*database, one[0], matches!(done, Escalation::Done(..)));
        self.last_page.store(0, Ordering::Relaxed);
    }

    /// Locks partitions exclusively before a load makes rows part of them, if the table is locked for loads beside
    /// others (`BU`): their publications, and what undoes them, must not meet. Waits.
    ///
    /// # Errors
    /// As [`LockManager::lock`].
    pub fn lock_to_publish(&self, hobts: &[HobtId], is_cancelled: &dyn Fn() -> bool) -> Result<(), LockError> {
        let (database, object) = self.table();
        if self.manager.mode_held(&self.owner, &LockResource::Object(database, object)) != Some(LockMode::BulkUpdate) {
            return Ok(());
        }
        // All loads lock partitions in one order.
        let mut hobts = hobts.to_vec();
        hobts.sort_unstable();
        hobts.into_iter().try_for_each(|hobt| {
            let resource = LockResource::Hobt(database, hobt);
            self.manager.lock(&self.owner, resource, LockMode::Exclusive, self.settings.patience, is_cancelled)?;
            Ok(())
        })
    }

    /// Locks the table exclusively in place of its rows, for a load. Does not wait: returns `false` if a lock
    /// conflicts.
    pub fn lock_table_to_load(&self) -> bool {
        let (database, object) = self.table();
        self.manager.try_lock(&self.owner, LockResource::Object(database, object), LockMode::Exclusive).is_some()
    }
}
