//! What is changed together: its place among writers, its locks, and what undoes it.

use hobt_sync::planted::{self, Bug};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use hobt_base::{SessionId, Stamp};
use hobt_sync::schedule::Mutex;

use crate::decision::CommitError;
use crate::locks::{LockManager, LockOwner, LockOwnerKind};
use crate::notes::Notes;
use crate::progress::Progress;
use crate::undo_memory::UndoMemory;
use crate::{LogChains, Running, Snapshot};

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
/// It ends by [`Transaction::commit`] or [`Transaction::roll_back`]. One that is dropped without either is rolled back
/// by the last who has it.
pub struct Transaction {
    pub(crate) session: SessionId,
    pub(crate) stamp: Stamp,
    pub(crate) lock_owner: Arc<LockOwner>,
    /// What it has written into the logs of the databases that it changed.
    pub(crate) chains: LogChains,
    /// Its commit need not be durable when it returns.
    asks_for_delay: AtomicBool,
    /// Its place among the running, if readers need to know of it.
    pub(crate) running: Mutex<Option<Arc<Running>>>,
    /// What its statements see under `SNAPSHOT`, once one has looked.
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    /// Where it has locked what nobody but its end lets go of.
    locks: OnceLock<Arc<LockManager>>,
    pub(crate) undo: Mutex<Vec<Action>>,
    pub(crate) commit: Mutex<Vec<Action>>,
    /// What is let go of when the transaction has ended, the last first.
    held: Mutex<Vec<Box<dyn Any + Send>>>,
    /// What undo actions and versions take.
    pub(crate) undo_memory: UndoMemory,
    /// See [`crate::StatementContext::note_in_transaction`].
    pub(crate) notes: Notes,
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
    pub(crate) undo: usize,
    pub(crate) commit: usize,
    pub(crate) undo_bytes: u64,
    /// Of these, what versions take: they count until the transaction has ended, even those dropped before that.
    pub(crate) version_bytes: u64,
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
            notes: Notes::default(),
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

    /// What had committed when this was first called, and what the transaction itself changes. `None` if readers need
    /// not know of it.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let running = self.running.lock().clone()?;
        let mut snapshot = self.snapshot.lock();
        Some(Arc::clone(snapshot.get_or_insert_with(|| running.transactions().snapshot(self.stamp, self.stamp))))
    }

    /// What [`Transaction::snapshot`] has given, if it was ever asked.
    pub fn snapshot_so_far(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.lock().clone()
    }

    /// Keeps a value until the transaction has ended.
    pub fn hold(&self, value: impl Any + Send) {
        self.held.lock().push(Box::new(value));
    }

    /// Ends the transaction with success: makes what it wrote durable, forgets the undo actions, runs the others in
    /// order. Blocks on the flush of the log (`WRITELOG`).
    ///
    /// # Errors
    /// A log failed, so that nobody knows whether the transaction outlives a crash: nothing else is done then. A log
    /// failed before a transaction over several was decided: it is undone. Or the first action that failed or panicked;
    /// the rest have been run all the same.
    pub fn commit(&self) -> Result<(), UndoError> {
        if planted::has(Bug::LocksBeforeDurability)
            && let Some(locks) = self.locks.get()
        {
            locks.release_all(&self.lock_owner);
        }
        if planted::has(Bug::PublicationBeforeDurability) {
            let running = self.running.lock().take();
            drop(running);
        }
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
        if planted::has(Bug::LocksBeforePublication)
            && let Some(locks) = self.locks.get()
        {
            locks.release_all(&self.lock_owner);
        }
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
