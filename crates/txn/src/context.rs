//! What a statement carries through every layer.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hobt_base::{HobtId, SessionId, SlotId, Stamp};
use hobt_page::RowImage;
use hobt_sync::schedule::{Mutex, RwLock};

use crate::locks::LockOwner;
use crate::notes::Notes;
use crate::undo_memory::ACTION_BYTES;
use crate::{
    Before, HeapPage, LogChain, MemoryAccount, MemoryBudget, NoRoom, RowLocks, Running, Savepoint, Snapshot,
    Transaction, TransactionLog, UndoError, VersionStore,
};

/// The reads of one table by one statement, in pages: what `SET STATISTICS IO` prints.
#[derive(Debug, Default)]
pub struct IoCounts {
    /// Scans and seeks begun.
    pub scans: AtomicU64,
    /// Pages looked at.
    pub logical_reads: AtomicU64,
    /// Pages read from disk because somebody waited for them.
    pub physical_reads: AtomicU64,
    /// Pages read from disk ahead of their use.
    pub read_ahead_reads: AtomicU64,
    /// Pages of large values looked at.
    pub lob_logical_reads: AtomicU64,
    /// Pages of large values read from disk.
    pub lob_physical_reads: AtomicU64,
}

impl IoCounts {
    /// Counts a page that was looked at, and whether it had to be read.
    pub fn count(&self, physical: bool) {
        self.logical_reads.fetch_add(1, Ordering::Relaxed);
        if physical {
            self.physical_reads.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What a statement starts with.
#[derive(Debug)]
pub struct StatementContextSettings {
    /// The session that runs the statement.
    pub session: SessionId,
    /// The statement's place in the order of writers.
    pub stamp: Stamp,
    /// Workers that it may keep busy; at least 1.
    pub degree_of_parallelism: usize,
    /// Where its memory comes from.
    pub memory: Arc<MemoryBudget>,
}

/// What a statement has seen before it was asked to see what is there by now: [`StatementContext::look_at_present`].
#[must_use = "the statement goes on with what it has seen"]
pub struct EarlierView(View);

/// What a statement sees of others.
enum View {
    /// What stands in the pages.
    Present,
    /// What was committed when it first looked, and what its transaction and the one beside which it runs have changed.
    OfStatement { beside: Stamp, seen: Option<Arc<Snapshot>> },
    /// What was committed when a transaction first looked.
    OfTransaction(Arc<Transaction>),
}

/// A running statement, shared by its workers.
///
/// It ends by [`StatementContext::commit`] or [`StatementContext::roll_back`]. One that is dropped without either,
/// because its thread panicked, is rolled back by the last who has it, so that no worker still writes what is undone.
pub struct StatementContext {
    transaction: Arc<Transaction>,
    /// Where the transaction was when the statement began; `None` if the transaction is the statement's own.
    begun_at: Option<Savepoint>,
    ended: AtomicBool,
    view: Mutex<View>,
    /// See [`StatementContext::write_by_snapshot`].
    writes_by_snapshot: AtomicBool,
    /// The tables whose rows it locks.
    row_locks: RwLock<Vec<Arc<RowLocks>>>,
    degree_of_parallelism: usize,
    cancelled: Arc<AtomicBool>,
    memory: MemoryAccount,
    /// What is let go of when the statement has ended, the last first.
    held: Mutex<Vec<Box<dyn Any + Send>>>,
    /// See [`StatementContext::note`].
    notes: Notes,
}

impl fmt::Debug for StatementContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementContext")
            .field("transaction", &self.transaction)
            .field("begun_at", &self.begun_at)
            .finish_non_exhaustive()
    }
}

impl StatementContext {
    /// A statement that is a transaction of its own, and may be cancelled through `cancelled`.
    pub fn new(settings: &StatementContextSettings, cancelled: Arc<AtomicBool>) -> Arc<StatementContext> {
        let transaction = Transaction::new(settings.session, settings.stamp);
        StatementContext::with(transaction, None, settings, cancelled)
    }

    /// A statement of a transaction that goes on behind it; the settings' stamp does not count, the transaction's does.
    pub fn in_transaction(
        transaction: &Arc<Transaction>,
        settings: &StatementContextSettings,
        cancelled: Arc<AtomicBool>,
    ) -> Arc<StatementContext> {
        let begun_at = transaction.savepoint();
        StatementContext::with(Arc::clone(transaction), Some(begun_at), settings, cancelled)
    }

    fn with(
        transaction: Arc<Transaction>,
        begun_at: Option<Savepoint>,
        settings: &StatementContextSettings,
        cancelled: Arc<AtomicBool>,
    ) -> Arc<StatementContext> {
        transaction.undo_memory.is_of(&settings.memory);
        Arc::new(StatementContext {
            transaction,
            begun_at,
            ended: AtomicBool::new(false),
            view: Mutex::new(View::Present),
            writes_by_snapshot: AtomicBool::new(false),
            row_locks: RwLock::default(),
            degree_of_parallelism: settings.degree_of_parallelism.max(1),
            cancelled,
            memory: MemoryAccount::new(&settings.memory, "Statements"),
            held: Mutex::default(),
            notes: Notes::default(),
        })
    }

    /// The session that runs the statement.
    pub fn session(&self) -> SessionId {
        self.transaction.session
    }

    /// Its transaction's place in the order of writers.
    pub fn stamp(&self) -> Stamp {
        self.transaction.stamp
    }

    /// Whether its transaction goes on behind it.
    pub fn is_in_transaction(&self) -> bool {
        self.begun_at.is_some()
    }

    /// Workers that the statement may keep busy.
    pub fn degree_of_parallelism(&self) -> usize {
        self.degree_of_parallelism
    }

    /// Whether somebody cancelled the statement. Long loops ask once a page or a batch.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// The statement's memory.
    pub fn memory(&self) -> &MemoryAccount {
        &self.memory
    }

    /// Whom the statement locks for. It lets go of nothing by itself: who locks keeps a
    /// [`HeldLock`](crate::locks::HeldLock) with [`StatementContext::hold`].
    pub fn lock_owner(&self) -> &Arc<LockOwner> {
        &self.transaction.lock_owner
    }

    /// What its transaction writes into a database's log.
    pub fn log_chain(&self, log: &Arc<TransactionLog>) -> Arc<LogChain> {
        self.transaction.chains.of(log, self.transaction.stamp.0, &self.transaction.lock_owner)
    }

    /// The transaction that the statement belongs to.
    pub fn transaction(&self) -> &Arc<Transaction> {
        &self.transaction
    }

    /// From now on the statement reads rows as they were committed when it first looked, and waits for no writer. It
    /// sees the changes of its own transaction, and of the one beside which it runs.
    pub fn read_versions(&self, beside: Option<Stamp>) {
        let mut view = self.view.lock();
        if let View::Present = *view {
            *view = View::OfStatement { beside: beside.unwrap_or_default(), seen: None };
        }
    }

    /// From now on the statement reads rows as they were committed when `transaction` first looked: its own, or the one
    /// beside which it runs.
    pub fn read_snapshot(&self, transaction: &Arc<Transaction>) {
        *self.view.lock() = View::OfTransaction(Arc::clone(transaction));
    }

    /// Lets the statement look anew: it runs its query once more. What a transaction has seen it sees as before.
    pub fn look_again(&self) {
        if let View::OfStatement { seen, .. } = &mut *self.view.lock() {
            *seen = None;
        }
    }

    /// Until the view that this gives is put back ([`StatementContext::look_back`]), the statement sees what has
    /// committed by the time that it next looks, whatever it or its transaction has seen before: what is to be so when
    /// it has ended cannot be held against the past. Nothing of the statement may be reading meanwhile but what looks
    /// so.
    pub fn look_at_present(&self, beside: Option<Stamp>) -> EarlierView {
        let present = View::OfStatement { beside: beside.unwrap_or_default(), seen: None };
        EarlierView(std::mem::replace(&mut *self.view.lock(), present))
    }

    /// Sees what it has seen before [`StatementContext::look_at_present`].
    pub fn look_back(&self, EarlierView(view): EarlierView) {
        *self.view.lock() = view;
    }

    /// What the statement sees of others' changes; `None` if it reads what stands in the pages, under locks or without.
    /// The first call decides: it comes after the statement's locks.
    pub fn view(&self) -> Option<Arc<Snapshot>> {
        match &mut *self.view.lock() {
            View::Present => None,
            View::OfTransaction(transaction) => transaction.snapshot(),
            View::OfStatement { beside, seen } => {
                if seen.is_none() {
                    *seen = self.snapshot_now(*beside);
                }
                seen.clone()
            }
        }
    }

    /// The statement is of the level SNAPSHOT: what it changes has not changed since its transaction first looked, or
    /// it fails. A transaction may go on under another level, and keeps its snapshot.
    pub fn write_by_snapshot(&self) {
        self.writes_by_snapshot.store(true, Ordering::Relaxed);
    }

    /// The moment that the statement's transaction sees from its beginning to its end, if it has looked at one and the
    /// statement is of its level.
    pub fn snapshot_to_write_by(&self) -> Option<Arc<Snapshot>> {
        self.writes_by_snapshot.load(Ordering::Relaxed).then(|| self.transaction.snapshot_so_far()).flatten()
    }

    /// What [`StatementContext::view`] gives or, before its first call, would give: this decides nothing.
    pub fn view_so_far(&self) -> Option<Arc<Snapshot>> {
        match &*self.view.lock() {
            View::Present => None,
            View::OfTransaction(transaction) => transaction.snapshot(),
            View::OfStatement { seen: Some(seen), .. } => Some(Arc::clone(seen)),
            View::OfStatement { beside, seen: None } => self.snapshot_now(*beside),
        }
    }

    /// What has committed by now, and what the statement's transaction changes and the one of stamp `also`.
    pub fn snapshot_now(&self, also: Stamp) -> Option<Arc<Snapshot>> {
        let running = self.transaction.running.lock().clone()?;
        Some(running.transactions().snapshot(self.transaction.stamp, also))
    }

    /// From now on the statement locks rows of a table one by one.
    pub fn lock_rows(&self, table: Arc<RowLocks>) {
        self.row_locks.write().push(table);
    }

    /// How the statement locks the rows of a HOBT; `None` if it does not.
    pub fn row_locks(&self, database_tag: u32, hobt: HobtId) -> Option<Arc<RowLocks>> {
        self.row_locks.read().iter().find(|table| table.is_of(database_tag, hobt)).cloned()
    }

    /// Keeps what stood in a row's place for readers that do not see the change; its page is held exclusively.
    pub fn put_version(&self, store: &Arc<VersionStore>, page: HeapPage, slot: SlotId, before: Before) {
        if let Some(running) = &*self.transaction.running.lock() {
            self.transaction.undo_memory.take(store.put(running, page, slot, before));
        }
    }

    /// The same for all rows of a page that `loader` had built whole and that is about to be changed for the first
    /// time.
    pub fn put_loaded_versions(&self, store: &Arc<VersionStore>, loader: Stamp, page: HeapPage, rows: u16) {
        if let Some(running) = &*self.transaction.running.lock() {
            self.transaction.undo_memory.take(store.put_loaded(running, loader, page, rows));
        }
    }

    /// Keeps what stood at a key of a tree for readers that do not see the change; its leaf is held exclusively.
    pub fn put_key_version(&self, store: &Arc<VersionStore>, hobt: HobtId, key: &[u8], before: Before) {
        if let Some(running) = &*self.transaction.running.lock() {
            self.transaction.undo_memory.take(store.put_key(running, hobt, key, before));
        }
    }

    /// Keeps the values of a row of a tree for the versions that need them, before others take their place. The leaf is
    /// held exclusively.
    pub fn keep_row(&self, store: &Arc<VersionStore>, hobt: HobtId, key: &[u8], row: &RowImage) {
        let bytes = store.keep_row(hobt, key, row);
        if let Some(running) = self.transaction.running.lock().as_ref().filter(|_| bytes > 0) {
            self.transaction.undo_memory.take(bytes);
            running.add_version_bytes(bytes);
        }
    }

    /// The same for all keys of a leaf that `loader` had built whole and that is about to be changed for the first
    /// time. They are asked for only if somebody may not see the load.
    ///
    /// # Errors
    /// What `keys` returns.
    pub fn put_loaded_key_versions<E>(
        &self,
        store: &Arc<VersionStore>,
        loader: Stamp,
        hobt: HobtId,
        keys: impl FnOnce() -> Result<Vec<Vec<u8>>, E>,
    ) -> Result<(), E> {
        let Some(running) = self.running() else { return Ok(()) };
        if !running.transactions().is_seen_by_all(loader) {
            let keys = keys()?;
            let bytes = store.put_loaded_keys(&running, loader, hobt, keys.iter().map(Vec::as_slice));
            self.transaction.undo_memory.take(bytes);
        }
        Ok(())
    }

    /// Its transaction's place among the running, if readers need to know of it.
    pub fn running(&self) -> Option<Arc<Running>> {
        self.transaction.running.lock().clone()
    }

    /// Registers how a change that was just made is undone.
    ///
    /// Nobody may be left to hear that an action failed: before it returns an error, and if it panics, it must have
    /// refused for good what it could not bring in order.
    pub fn on_undo(&self, action: impl FnOnce() -> Result<(), UndoError> + Send + 'static) {
        self.on_undo_with(0, action);
    }

    /// The same of an action that has `bytes` on the heap.
    pub fn on_undo_with(&self, bytes: usize, action: impl FnOnce() -> Result<(), UndoError> + Send + 'static) {
        self.transaction.undo_memory.take(size_of_val(&action) + ACTION_BYTES + bytes);
        self.transaction.undo.lock().push(Box::new(action));
    }

    /// Notes that what was kept for the transaction's end takes so many bytes more.
    pub fn take_undo_memory(&self, bytes: usize) {
        self.transaction.undo_memory.take(bytes);
    }

    /// To be called before a row is changed: there is memory for what takes that back, and for its version.
    ///
    /// # Errors
    /// There is none, or readers keep as many versions as there may be; the statement fails.
    pub fn reserve_undo_memory(&self) -> Result<(), NoRoom> {
        self.transaction.undo_memory.reserve(|| match &*self.transaction.running.lock() {
            Some(running) => running.transactions().check_version_room(),
            None => Ok(()),
        })
    }

    /// Puts an action off until the transaction has succeeded. The same is asked of it as of an undo action.
    pub fn on_commit(&self, action: impl FnOnce() -> Result<(), UndoError> + Send + 'static) {
        self.transaction.undo_memory.take(size_of_val(&action) + ACTION_BYTES);
        self.transaction.commit.lock().push(Box::new(action));
    }

    /// What the statement keeps under a number: made when it is first asked for, the same for all its threads, gone
    /// with the statement. Numbers are the users' own; one number is of one type.
    ///
    /// # Panics
    /// If the number was used with another type.
    pub fn note<T: Any + Send + Sync>(&self, number: u64, make: impl FnOnce() -> T) -> Arc<T> {
        self.notes.get(number, make)
    }

    /// The same of its transaction: gone with that.
    ///
    /// # Panics
    /// As [`StatementContext::note`].
    pub fn note_in_transaction<T: Any + Send + Sync>(&self, number: u64, make: impl FnOnce() -> T) -> Arc<T> {
        self.transaction.notes.get(number, make)
    }

    /// Keeps a value for as long as what the statement changed may still be undone: its locks.
    pub fn hold(&self, value: impl Any + Send) {
        self.transaction.hold(value);
    }

    /// Keeps a value until the statement has ended, its transaction or not: locks that only reading needs.
    pub fn hold_for_statement(&self, value: impl Any + Send) {
        self.held.lock().push(Box::new(value));
    }

    /// Ends the statement with success, and its transaction with it if that is its own.
    ///
    /// # Errors
    /// The first action that failed or panicked; the rest have been run all the same.
    pub fn commit(&self) -> Result<(), UndoError> {
        self.ended.store(true, Ordering::Release);
        if self.is_in_transaction() { Ok(()) } else { self.transaction.commit() }
    }

    /// Ends the statement without a trace: runs its undo actions, last first.
    ///
    /// # Errors
    /// The first action that failed or panicked; the rest have been run all the same.
    pub fn roll_back(&self) -> Result<(), UndoError> {
        self.ended.store(true, Ordering::Release);
        match self.begun_at {
            Some(place) => self.transaction.roll_back_to(place),
            None => self.transaction.roll_back(),
        }
    }

    /// Drops what was held for the statement, the last first, and what was for its transaction if that is its own. For
    /// a statement that was committed or rolled back.
    pub fn let_go(&self) {
        let held = std::mem::take(&mut *self.held.lock());
        held.into_iter().rev().for_each(drop);
        if !self.is_in_transaction() {
            self.transaction.let_go();
        }
    }
}

impl Drop for StatementContext {
    fn drop(&mut self) {
        if !self.ended.load(Ordering::Acquire) {
            // What could not be undone has been refused by its action, and there is nobody to tell.
            let _of_nobody = self.roll_back();
        }
        self.let_go();
    }
}

#[cfg(test)]
mod tests;
