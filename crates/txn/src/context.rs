//! What a statement carries through every layer.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use hobt_base::{HobtId, PageId, SessionId, SlotId, Stamp};
use hobt_page::RowImage;
use parking_lot::{Mutex, RwLock};

use crate::decision::CommitError;
use crate::locks::{LockManager, LockOwner, LockOwnerKind};
use crate::progress::Progress;
use crate::undo_memory::{ACTION_BYTES, KEY_VERSION_BYTES, UndoMemory, VERSION_BYTES};
use crate::{
    Before, LogChain, LogChains, MemoryAccount, MemoryBudget, NoRoom, RowLocks, Running, Snapshot, TransactionLog,
    VersionStore,
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

/// An undo or commit action that did not work: the page it needed cannot be read or written, or it stopped at a broken
/// invariant. The database is then SUSPECT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UndoError(pub String);

impl fmt::Display for UndoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a statement could not be undone: {}", self.0)
    }
}

impl std::error::Error for UndoError {}

type Action = Box<dyn FnOnce() -> Result<(), UndoError> + Send>;

/// What is changed together and kept or undone together: by one statement, or by all from `BEGIN TRANSACTION` on.
///
/// It ends by [`Transaction::commit`] or [`Transaction::roll_back`]. One that is dropped without either is rolled back by
/// the last who has it.
pub struct Transaction {
    session: SessionId,
    stamp: Stamp,
    lock_owner: Arc<LockOwner>,
    /// What it has written into the logs of the databases that it changed.
    chains: LogChains,
    /// Its commit need not be durable when it returns.
    asks_for_delay: AtomicBool,
    /// Its place among the running, if readers need to know of it.
    running: Mutex<Option<Arc<Running>>>,
    /// What its statements see under `SNAPSHOT`, once one has looked.
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    /// Where it has locked what nobody but its end lets go of.
    locks: OnceLock<Arc<LockManager>>,
    undo: Mutex<Vec<Action>>,
    commit: Mutex<Vec<Action>>,
    /// What is let go of when the transaction has ended, the last first.
    held: Mutex<Vec<Box<dyn Any + Send>>>,
    /// What undo actions and versions take.
    undo_memory: UndoMemory,
    /// Where it says how far its undo is.
    undo_progress: OnceLock<Arc<Progress>>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("session", &self.session).field("stamp", &self.stamp).finish()
    }
}

/// A place in a transaction that it can be rolled back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint {
    undo: usize,
    commit: usize,
    undo_bytes: u64,
    /// Of these, what versions take: they stay until the transaction has ended.
    version_bytes: u64,
}

impl Transaction {
    /// A transaction of a session. `stamp` is its place in the order of writers.
    pub fn new(session: SessionId, stamp: Stamp) -> Arc<Transaction> {
        let lock_owner = LockOwner::new(session, LockOwnerKind::Transaction(stamp.0), stamp);
        let (chains, asks_for_delay, running, snapshot, locks, undo, commit, held) = Default::default();
        let undo_memory = UndoMemory::default();
        Arc::new(Transaction {
            session,
            stamp,
            lock_owner,
            chains,
            asks_for_delay,
            running,
            snapshot,
            locks,
            undo,
            commit,
            held,
            undo_memory,
            undo_progress: OnceLock::new(),
        })
    }

    /// Makes it say there how far it is when it is rolled back.
    pub fn report_undo_to(&self, progress: &Arc<Progress>) {
        self.undo_progress.get_or_init(|| Arc::clone(progress));
    }

    /// Bytes that its undo actions and the versions of what it has changed take, about.
    pub fn undo_bytes(&self) -> u64 {
        self.undo_memory.used()
    }

    fn version_bytes(&self) -> u64 {
        self.running.lock().as_ref().map_or(0, |running| running.version_bytes())
    }

    /// Its place in the order of writers.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whom its statements lock for.
    pub fn lock_owner(&self) -> &Arc<LockOwner> {
        &self.lock_owner
    }

    /// Its commit may return before it is durable, where its database allows that: it may be lost in a crash, with all
    /// behind it.
    pub fn delay_durability(&self) {
        self.asks_for_delay.store(true, Ordering::Relaxed);
    }

    /// All that is locked for it in `locks` goes with its end.
    pub fn lets_go_of_locks(&self, locks: &Arc<LockManager>) {
        let known = self.locks.get_or_init(|| Arc::clone(locks));
        debug_assert!(Arc::ptr_eq(known, locks), "an instance has one lock manager");
    }

    /// Where it is now.
    pub fn savepoint(&self) -> Savepoint {
        let (undo_bytes, version_bytes) = (self.undo_bytes(), self.version_bytes());
        Savepoint { undo: self.undo.lock().len(), commit: self.commit.lock().len(), undo_bytes, version_bytes }
    }

    /// Readers do not see what it changes until it has ended; `running` has its stamp.
    pub fn set_running(&self, running: Running) {
        assert_eq!(running.stamp(), self.stamp, "the place of this transaction");
        *self.running.lock() = Some(Arc::new(running));
    }

    /// What had committed when this was first called, and what the transaction itself changes. `None` if readers need not
    /// know of it.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let running = self.running.lock().clone()?;
        let mut snapshot = self.snapshot.lock();
        Some(Arc::clone(snapshot.get_or_insert_with(|| running.transactions().snapshot(self.stamp, self.stamp))))
    }

    /// Keeps a value until the transaction has ended.
    pub fn hold(&self, value: impl Any + Send) {
        self.held.lock().push(Box::new(value));
    }

    /// Ends the transaction with success: makes what it wrote durable, forgets the undo actions, runs the others in order.
    /// Blocks on the flush of the log (`WRITELOG`).
    ///
    /// # Errors
    /// A log failed, so that nobody knows whether the transaction outlives a crash: nothing else is done then. A log failed
    /// before a transaction over several was decided: it is undone. Or the first action that failed or panicked; the rest have been run all the same.
    pub fn commit(&self) -> Result<(), UndoError> {
        match self.chains.commit(self.asks_for_delay.load(Ordering::Relaxed)) {
            Ok(()) => {}
            Err(CommitError::Undecided(error)) => {
                // A log that failed fails the undo in its database too; what matters is why.
                let _of_the_same = self.roll_back();
                return Err(UndoError(format!("its commit could not be prepared, and it was undone: {error}")));
            }
            Err(CommitError::InDoubt(error)) => {
                // The database's recovery decides; in memory nothing is taken back that may have been kept.
                self.undo.lock().clear();
                self.commit.lock().clear();
                return Err(UndoError(format!("its commit could not be written to the log: {error}")));
            }
        }
        *self.undo.lock() = Vec::new();
        self.undo_memory.shrink_to(self.version_bytes());
        let actions = std::mem::take(&mut *self.commit.lock());
        let done = run(actions.into_iter());
        done.and(self.end_chains())
    }

    /// Ends the transaction without a trace: runs the undo actions, last first.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn roll_back(&self) -> Result<(), UndoError> {
        self.roll_back_to(Savepoint { undo: 0, commit: 0, undo_bytes: 0, version_bytes: 0 })?;
        self.end_chains()
    }

    /// Nothing is left to be done or undone. After an action that failed this is not said: recovery does what is left.
    fn end_chains(&self) -> Result<(), UndoError> {
        self.chains.end().map_err(|error| UndoError(format!("its end could not be written to the log: {error}")))
    }

    /// Undoes what was done since `place`, last first; the transaction goes on.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn roll_back_to(&self, place: Savepoint) -> Result<(), UndoError> {
        self.commit.lock().truncate(place.commit);
        let actions = {
            let mut undo = self.undo.lock();
            let from = place.undo.min(undo.len());
            undo.split_off(from)
        };
        let progress = self.undo_progress.get();
        progress.iter().for_each(|progress| progress.set(0, actions.len() as u64));
        let is_done = || progress.iter().for_each(|progress| progress.add(1));
        // Counted as it is taken to be run.
        let done = run(actions.into_iter().rev().inspect(|_| is_done()));
        let versions_since = self.version_bytes().saturating_sub(place.version_bytes);
        self.undo_memory.shrink_to(place.undo_bytes + versions_since);
        done
    }

    /// Drops what was held, the last first. For a transaction that was committed or rolled back.
    pub fn let_go(&self) {
        drop(self.snapshot.lock().take());
        // Before its locks go: who has waited for one sees what was done.
        let running = self.running.lock().take();
        drop(running);
        // Versions that others need from now on are in an account of their own.
        self.undo_memory.shrink_to(0);
        if let Some(locks) = self.locks.get() {
            locks.release_all(&self.lock_owner);
        }
        let held = std::mem::take(&mut *self.held.lock());
        held.into_iter().rev().for_each(drop);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // What could not be undone has been refused by its action, and there is nobody to tell.
        let _of_nobody = self.roll_back();
        self.let_go();
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
/// It ends by [`StatementContext::commit`] or [`StatementContext::roll_back`]. One that is dropped without either, because
/// its thread panicked, is rolled back by the last who has it, so that no worker still writes what is undone.
pub struct StatementContext {
    transaction: Arc<Transaction>,
    /// Where the transaction was when the statement began; `None` if the transaction is the statement's own.
    begun_at: Option<Savepoint>,
    ended: AtomicBool,
    view: Mutex<View>,
    /// The tables whose rows it locks.
    row_locks: RwLock<Vec<Arc<RowLocks>>>,
    degree_of_parallelism: usize,
    cancelled: Arc<AtomicBool>,
    memory: MemoryAccount,
    /// What is let go of when the statement has ended, the last first.
    held: Mutex<Vec<Box<dyn Any + Send>>>,
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
            row_locks: RwLock::default(),
            degree_of_parallelism: settings.degree_of_parallelism.max(1),
            cancelled,
            memory: MemoryAccount::new(&settings.memory, "statement"),
            held: Mutex::default(),
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

    /// From now on the statement reads rows as they were committed when it first looked, and waits for no writer. It sees
    /// the changes of its own transaction, and of the one beside which it runs.
    pub fn read_versions(&self, beside: Option<Stamp>) {
        let mut view = self.view.lock();
        if let View::Present = *view {
            *view = View::OfStatement { beside: beside.unwrap_or_default(), seen: None };
        }
    }

    /// From now on the statement reads rows as they were committed when `transaction` first looked: its own, or the one beside
    /// which it runs.
    pub fn read_snapshot(&self, transaction: &Arc<Transaction>) {
        *self.view.lock() = View::OfTransaction(Arc::clone(transaction));
    }

    /// Lets the statement look anew: it runs its query once more. What a transaction has seen it sees as before.
    pub fn look_again(&self) {
        if let View::OfStatement { seen, .. } = &mut *self.view.lock() {
            *seen = None;
        }
    }

    /// Until the view that this gives is put back ([`StatementContext::look_back`]), the statement sees what has committed by the
    /// time that it next looks, whatever it or its transaction has seen before: what is to be so when it has ended cannot be
    /// held against the past. Nothing of the statement may be reading meanwhile but what looks so.
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
    pub fn put_version(&self, store: &Arc<VersionStore>, page: PageId, slot: SlotId, before: Before) {
        if let Some(running) = &*self.transaction.running.lock() {
            self.transaction.undo_memory.take(VERSION_BYTES + before.row_bytes());
            store.put(running, page, slot, before);
        }
    }

    /// The same for all rows of a page that `loader` had built whole and that is about to be changed for the first time.
    pub fn put_loaded_versions(&self, store: &Arc<VersionStore>, loader: Stamp, page: PageId, rows: u16) {
        if let Some(running) = &*self.transaction.running.lock() {
            self.transaction.undo_memory.take(VERSION_BYTES * usize::from(rows));
            store.put_loaded(running, loader, page, rows);
        }
    }

    /// Keeps what stood at a key of a tree for readers that do not see the change; its leaf is held exclusively.
    pub fn put_key_version(&self, store: &Arc<VersionStore>, hobt: HobtId, key: &[u8], before: Before) {
        if let Some(running) = &*self.transaction.running.lock() {
            self.transaction.undo_memory.take(KEY_VERSION_BYTES + key.len() + before.row_bytes());
            store.put_key(running, hobt, key, before);
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

    /// The same for all keys of a leaf that `loader` had built whole and that is about to be changed for the first time.
    /// They are asked for only if somebody may not see the load.
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
            self.transaction.undo_memory.take(keys.iter().map(|key| KEY_VERSION_BYTES + key.len()).sum());
            store.put_loaded_keys(&running, loader, hobt, keys.iter().map(Vec::as_slice));
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

    /// To be called before a row is changed: there is memory for what takes that back, and for its version.
    ///
    /// # Errors
    /// There is none, or readers keep as many versions as there may be; the statement fails.
    pub fn reserve_undo_memory(&self) -> Result<(), NoRoom> {
        if self.transaction.undo_memory.is_due()
            && let Some(running) = &*self.transaction.running.lock()
        {
            running.transactions().check_version_room()?;
        }
        Ok(self.transaction.undo_memory.reserve()?)
    }

    /// Puts an action off until the transaction has succeeded. The same is asked of it as of an undo action.
    pub fn on_commit(&self, action: impl FnOnce() -> Result<(), UndoError> + Send + 'static) {
        self.transaction.commit.lock().push(Box::new(action));
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

    /// Drops what was held for the statement, the last first, and what was for its transaction if that is its own. For a
    /// statement that was committed or rolled back.
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

/// Runs all actions, also behind one that fails; a panic ends one action and not the statement's end.
fn run(actions: impl Iterator<Item = Action>) -> Result<(), UndoError> {
    let mut result = Ok(());
    for action in actions {
        let done = catch_unwind(AssertUnwindSafe(action))
            .unwrap_or_else(|panic| Err(UndoError(format!("it stopped at a broken invariant: {}", text_of(&*panic)))));
        if result.is_ok() {
            result = done;
        }
    }
    result
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}

#[cfg(test)]
mod tests;
