//! The statement context, which every layer gets.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hobt_base::{HobtId, SessionId, SlotId, Stamp};
use hobt_instruments::schedule::{Mutex, RwLock};
use hobt_page::RowImage;

use crate::locks::LockOwner;
use crate::notes::Notes;
use crate::row_undo::UndoRow;
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
    /// Pages accessed.
    pub logical_reads: AtomicU64,
    /// Pages read from disk while a thread waited for them.
    pub physical_reads: AtomicU64,
    /// Pages read from disk ahead of their use.
    pub read_ahead_reads: AtomicU64,
    /// Pages of large values accessed.
    pub lob_logical_reads: AtomicU64,
    /// Pages of large values read from disk.
    pub lob_physical_reads: AtomicU64,
}

impl IoCounts {
    /// Counts a page access, and whether the page was read from disk.
    pub fn count(&self, physical: bool) {
        self.logical_reads.fetch_add(1, Ordering::Relaxed);
        if physical {
            self.physical_reads.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The settings of a new statement.
#[derive(Debug)]
pub struct StatementContextSettings {
    /// The session that runs the statement.
    pub session: SessionId,
    /// The statement's position in the order of writers.
    pub stamp: Stamp,
    /// Workers that it may keep busy; at least 1.
    pub degree_of_parallelism: usize,
    /// Where its memory comes from.
    pub memory: Arc<MemoryBudget>,
}

/// The view that a statement had before [`StatementContext::look_at_present`].
#[must_use = "the statement goes on with what it has seen"]
pub struct EarlierView(View);

/// What a statement sees of other transactions' changes.
enum View {
    /// The current rows of the pages.
    Present,
    /// What was committed at its first read, with the changes of its own transaction and of the one beside which it
    /// runs.
    OfStatement { beside: Stamp, seen: Option<Arc<Snapshot>> },
    /// What was committed at a transaction's first read.
    OfTransaction(Arc<Transaction>),
}

/// A running statement, shared by its workers.
///
/// It ends by [`StatementContext::commit`] or [`StatementContext::roll_back`]. If it ends by neither, because its
/// thread panicked, it is rolled back when the last reference is dropped, so that no worker still writes what is
/// undone.
pub struct StatementContext {
    transaction: Arc<Transaction>,
    /// The point of the transaction at which the statement began; `None` if the transaction is the statement's own.
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
    /// What is dropped when the statement has ended, the last first.
    held: Mutex<Vec<Box<dyn Any + Send>>>,
    /// See [`StatementContext::note`].
    notes: Notes,
    /// See [`StatementContext::on_success`].
    success: Mutex<Vec<SuccessAction>>,
}

/// An action at the end of a statement that succeeded and whose transaction goes on.
type SuccessAction = Box<dyn FnOnce(&StatementContext) + Send>;

impl fmt::Debug for StatementContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementContext")
            .field("transaction", &self.transaction)
            .field("begun_at", &self.begun_at)
            .finish_non_exhaustive()
    }
}

impl StatementContext {
    /// A statement that is its own transaction. Setting `cancelled` cancels it.
    pub fn new(settings: &StatementContextSettings, cancelled: Arc<AtomicBool>) -> Arc<StatementContext> {
        let transaction = Transaction::new(settings.session, settings.stamp);
        StatementContext::with(transaction, None, settings, cancelled)
    }

    /// A statement of a transaction that goes on after it. The transaction's stamp is used, not that of the settings.
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
            success: Mutex::default(),
        })
    }

    /// The session that runs the statement.
    pub fn session(&self) -> SessionId {
        self.transaction.session
    }

    /// Its transaction's position in the order of writers.
    pub fn stamp(&self) -> Stamp {
        self.transaction.stamp
    }

    /// Whether its transaction goes on after it.
    pub fn is_in_transaction(&self) -> bool {
        self.begun_at.is_some()
    }

    /// Workers that the statement may keep busy.
    pub fn degree_of_parallelism(&self) -> usize {
        self.degree_of_parallelism
    }

    /// Whether the statement was cancelled. Long loops ask once a page or a batch.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// The statement's memory.
    pub fn memory(&self) -> &MemoryAccount {
        &self.memory
    }

    /// The owner of the statement's locks. The statement releases nothing by itself: the caller that locks keeps a
    /// [`HeldLock`](crate::locks::HeldLock) with [`StatementContext::hold`].
    pub fn lock_owner(&self) -> &Arc<LockOwner> {
        &self.transaction.lock_owner
    }

    /// The chain of its transaction in a database's log.
    pub fn log_chain(&self, log: &Arc<TransactionLog>) -> Arc<LogChain> {
        self.transaction.chains.of(log, self.transaction.stamp.0, &self.transaction.lock_owner)
    }

    /// The transaction that the statement belongs to.
    pub fn transaction(&self) -> &Arc<Transaction> {
        &self.transaction
    }

    /// From now on the statement reads rows as they were committed at its first read, and waits for no writer. It sees
    /// the changes of its own transaction, and of the one beside which it runs.
    pub fn read_versions(&self, beside: Option<Stamp>) {
        let mut view = self.view.lock();
        if let View::Present = *view {
            *view = View::OfStatement { beside: beside.unwrap_or_default(), seen: None };
        }
    }

    /// From now on the statement reads rows as they were committed at the first read of `transaction`: its own, or the
    /// one beside which it runs.
    pub fn read_snapshot(&self, transaction: &Arc<Transaction>) {
        self.replace_view(View::OfTransaction(Arc::clone(transaction)));
    }

    /// Drops the statement's snapshot, so that the next read takes a new one: it runs its query once more. A
    /// transaction's snapshot stays.
    pub fn look_again(&self) {
        let left = match &mut *self.view.lock() {
            View::OfStatement { seen, .. } => seen.take(),
            _ => None,
        };
        drop(left);
    }

    /// The view before. Its snapshot, which the caller drops, is left when the view's lock is released.
    fn replace_view(&self, view: View) -> View {
        std::mem::replace(&mut *self.view.lock(), view)
    }

    /// Makes the statement see what has committed by its next read, whatever it or its transaction has read before: a
    /// constraint that must hold after the statement cannot be checked against the past.
    /// [`StatementContext::look_back`] restores the returned view. Meanwhile no part of the statement may read by the
    /// earlier view.
    pub fn look_at_present(&self, beside: Option<Stamp>) -> EarlierView {
        let present = View::OfStatement { beside: beside.unwrap_or_default(), seen: None };
        EarlierView(self.replace_view(present))
    }

    /// Restores the view from before [`StatementContext::look_at_present`].
    pub fn look_back(&self, EarlierView(view): EarlierView) {
        self.replace_view(view);
    }

    /// The statement's snapshot; `None` if it reads the current rows, with or without locks. The first call takes the
    /// snapshot, after the statement's locks.
    pub fn view(&self) -> Option<Arc<Snapshot>> {
        match &mut *self.view.lock() {
            View::Present => None,
            View::OfTransaction(transaction) => transaction.snapshot(self.is_in_transaction()),
            View::OfStatement { beside, seen } => {
                if seen.is_none() {
                    *seen = self.snapshot_now(*beside);
                }
                seen.clone()
            }
        }
    }

    /// The statement is of the level SNAPSHOT: it fails if a row that it changes has been changed since its
    /// transaction's first read. A transaction may go on under another level, and keeps its snapshot.
    pub fn write_by_snapshot(&self) {
        self.writes_by_snapshot.store(true, Ordering::Relaxed);
    }

    /// The snapshot of the statement's transaction, if the transaction has taken one and the statement is of the level
    /// SNAPSHOT.
    pub fn snapshot_to_write_by(&self) -> Option<Arc<Snapshot>> {
        self.writes_by_snapshot.load(Ordering::Relaxed).then(|| self.transaction.snapshot_so_far()).flatten()
    }

    /// The snapshot that [`StatementContext::view`] has returned or, before its first call, would return. A
    /// statement's own snapshot that is taken here is not kept.
    pub fn view_so_far(&self) -> Option<Arc<Snapshot>> {
        match &*self.view.lock() {
            View::Present => None,
            View::OfTransaction(transaction) => transaction.snapshot(self.is_in_transaction()),
            View::OfStatement { seen: Some(seen), .. } => Some(Arc::clone(seen)),
            View::OfStatement { beside, seen: None } => self.snapshot_now(*beside),
        }
    }

    /// A snapshot of what has committed by now, and of the changes of the statement's transaction and of the one of
    /// stamp `also`.
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

    /// Keeps the state of a row before a change, for readers that do not see the change. Its page is held exclusively.
    pub fn put_version(&self, store: &Arc<VersionStore>, page: HeapPage, slot: SlotId, before: Before) {
        if let Some(running) = &*self.transaction.running.lock() {
            store.put(running, page, slot, before);
        }
    }

    /// Like [`StatementContext::put_version`], for all rows of a page that `loader` has built whole and that is about
    /// to be changed for the first time.
    pub fn put_loaded_versions(&self, store: &Arc<VersionStore>, loader: Stamp, page: HeapPage, rows: u16) {
        if let Some(running) = &*self.transaction.running.lock() {
            store.put_loaded(running, loader, page, rows);
        }
    }

    /// Keeps the state at a key of a tree before a change, for readers that do not see the change. Its leaf is held
    /// exclusively.
    pub fn put_key_version(&self, store: &Arc<VersionStore>, hobt: HobtId, key: &[u8], before: Before) {
        if let Some(running) = &*self.transaction.running.lock() {
            store.put_key(running, hobt, key, before);
        }
    }

    /// Like [`StatementContext::put_key_version`], for a replacement of `row`, the values of a row or of its ghost.
    pub fn put_replaced_version(
        &self,
        store: &Arc<VersionStore>,
        hobt: HobtId,
        key: &[u8],
        row: &RowImage,
        is_ghost: bool,
    ) {
        if let Some(running) = &*self.transaction.running.lock() {
            store.put_replaced_key(running, hobt, key, row.clone(), is_ghost);
        }
    }

    /// Like [`StatementContext::put_key_version`], for all keys of a leaf that `loader` has built whole and that is
    /// about to be changed for the first time. `keys` is called only if some snapshot may not see the load.
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
            store.put_loaded_keys(&running, loader, hobt, keys.iter().map(Vec::as_slice));
        }
        Ok(())
    }

    /// Its transaction's entry in the list of running transactions, if readers need to know of it.
    pub fn running(&self) -> Option<Arc<Running>> {
        self.transaction.running.lock().clone()
    }

    /// Registers an undo action for a change that was made.
    ///
    /// The caller may be gone when an action fails. Before it returns an error, and if it panics, the action must have
    /// refused for good what it could not restore.
    pub fn on_undo(&self, action: impl FnOnce() -> Result<(), UndoError> + Send + 'static) {
        self.on_undo_with(0, action);
    }

    /// Like [`StatementContext::on_undo`], for an action that has `bytes` on the heap.
    pub fn on_undo_with(&self, bytes: usize, action: impl FnOnce() -> Result<(), UndoError> + Send + 'static) {
        self.transaction.undo_memory.take(size_of_val(&action) + ACTION_BYTES + bytes);
        self.transaction.register_undo(Box::new(action));
    }

    /// Notes what undoes a change of a row in a database without a log. `address` is that of the row's heap or tree,
    /// for which `store` is called once; `encode` appends what [`UndoRow::undo_row`] gets.
    pub fn note_row_undo(
        &self,
        address: usize,
        store: impl FnOnce() -> Arc<dyn UndoRow>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) {
        let bytes = self.transaction.row_undo.lock().push(address, store, encode);
        self.transaction.undo_memory.take(bytes);
    }

    /// Notes that the data kept for the transaction's end takes `bytes` more.
    pub fn take_undo_memory(&self, bytes: usize) {
        self.transaction.undo_memory.take(bytes);
    }

    /// To be called before a row is changed, and before its page is latched: makes room for its version, and for its
    /// undo where no log has that. May write versions to disk. Blocks.
    ///
    /// # Errors
    /// There is no memory, or no room for versions. The statement fails.
    pub fn reserve_undo_memory(&self) -> Result<(), NoRoom> {
        let running = self.running();
        if let Some(space) = running.as_ref().and_then(|running| running.transactions().version_space()) {
            let mut undo = self.transaction.row_undo.lock();
            if undo.is_due() {
                self.transaction.undo_memory.give_back(undo.spill(space));
            }
        }
        self.transaction.undo_memory.reserve()?;
        match running {
            Some(running) => Ok(running.transactions().make_version_room()?),
            None => Ok(()),
        }
    }

    /// Defers an action until the transaction has succeeded. The requirements of [`StatementContext::on_undo`] apply.
    pub fn on_commit(&self, action: impl FnOnce() -> Result<(), UndoError> + Send + 'static) {
        self.transaction.undo_memory.take(size_of_val(&action) + ACTION_BYTES);
        self.transaction.commit.lock().push(Box::new(action));
    }

    /// Defers an action until the statement has succeeded. For a statement of a transaction that goes on after it; it
    /// is part of what a rollback to a savepoint undoes.
    pub fn on_success(&self, action: impl FnOnce(&StatementContext) + Send + 'static) {
        self.success.lock().push(Box::new(action));
    }

    /// Notes that data of `bytes` bytes, which counted for the transaction, is gone.
    pub fn return_undo_memory(&self, bytes: usize) {
        self.transaction.undo_memory.give_back(bytes);
    }

    /// A value that the statement keeps under a number. It is made at the first call, shared by all threads of the
    /// statement and dropped with it. Callers choose the numbers. A number has one type.
    ///
    /// # Panics
    /// If the number was used with another type.
    pub fn note<T: Any + Send + Sync>(&self, number: u64, make: impl FnOnce() -> T) -> Arc<T> {
        self.notes.get(number, make)
    }

    /// Like [`StatementContext::note`], for a value that its transaction keeps.
    ///
    /// # Panics
    /// As [`StatementContext::note`].
    pub fn note_in_transaction<T: Any + Send + Sync>(&self, number: u64, make: impl FnOnce() -> T) -> Arc<T> {
        self.transaction.notes.get(number, make)
    }

    /// Keeps a value, such as a lock, for as long as the statement's changes may still be undone.
    pub fn hold(&self, value: impl Any + Send) {
        self.transaction.hold(value);
    }

    /// Keeps a value until the statement has ended, whether its transaction goes on or not: locks that only reading
    /// needs.
    pub fn hold_for_statement(&self, value: impl Any + Send) {
        self.held.lock().push(Box::new(value));
    }

    /// Ends the statement with success, and its transaction too if that is its own.
    ///
    /// # Errors
    /// The first action that failed or panicked; the rest have been run all the same.
    pub fn commit(&self) -> Result<(), UndoError> {
        self.ended.store(true, Ordering::Release);
        if !self.is_in_transaction() {
            return self.transaction.commit();
        }
        let actions = std::mem::take(&mut *self.success.lock());
        actions.into_iter().for_each(|action| action(self));
        Ok(())
    }

    /// Ends the statement without a trace: undoes its changes, the last first.
    ///
    /// # Errors
    /// The first action that failed or panicked; the rest have been run all the same.
    pub fn roll_back(&self) -> Result<(), UndoError> {
        self.ended.store(true, Ordering::Release);
        match &self.begun_at {
            Some(place) => self.transaction.roll_back_to(place),
            None => self.transaction.roll_back(),
        }
    }

    /// Drops what was held for the statement, the last first, and what was held for its transaction if that is its own.
    /// For a statement that was committed or rolled back.
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
            // An action that fails refuses for good what it could not undo. There is no caller to return the error to.
            let _of_nobody = self.roll_back();
        }
        self.let_go();
    }
}

#[cfg(test)]
mod tests;
