//! A transaction: its position among writers, its locks, and its undo actions.

use hobt_instruments::planted::{self, Bug};
use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hobt_base::{SessionId, Stamp};
use hobt_instruments::schedule::Mutex;
use hobt_instruments::time_of_day;
use hobt_log::LogError;

use crate::decision::CommitError;
use crate::locks::{LockManager, LockOwner, LockOwnerKind};
use crate::notes::Notes;
use crate::progress::Progress;
use crate::row_undo::RowUndo;
use crate::undo::{Action, Positions, Registered, run, undo};
use crate::undo_error::UndoError;
use crate::undo_memory::UndoMemory;
use crate::{LogChains, LogMark, Running, Snapshot};

/// A unit of changes that are kept or undone together: one statement, or all statements from `BEGIN TRANSACTION` on.
///
/// It ends by [`Transaction::commit`] or [`Transaction::roll_back`]. If it ends by neither, it is rolled back when the
/// last reference to it is dropped.
pub struct Transaction {
    pub(crate) session: SessionId,
    pub(crate) stamp: Stamp,
    pub(crate) lock_owner: Arc<LockOwner>,
    /// What it has written into the logs of the databases that it changed.
    pub(crate) chains: LogChains,
    /// Its commit may return before it is durable.
    asks_for_delay: AtomicBool,
    /// The mark that its commit leaves in the logs.
    mark: Mutex<Option<LogMark>>,
    /// Its entry in the list of running transactions, if readers need to know of it.
    pub(crate) running: Mutex<Option<Arc<Running>>>,
    /// What its statements see under `SNAPSHOT`, from the first read on.
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    /// The lock manager that holds the locks that only its end releases.
    locks: OnceLock<Arc<LockManager>>,
    pub(crate) undo: Mutex<Vec<Registered>>,
    /// What undoes its changes of rows in databases without a log.
    pub(crate) row_undo: Mutex<RowUndo>,
    pub(crate) commit: Mutex<Vec<Action>>,
    /// The number of commit actions at the last savepoint that a user has set.
    savepoints_until: AtomicUsize,
    /// What is dropped when the transaction has ended, the last first.
    held: Mutex<Vec<Box<dyn Any + Send>>>,
    /// Memory of its undo actions and versions.
    pub(crate) undo_memory: UndoMemory,
    /// See [`crate::StatementContext::note_in_transaction`].
    pub(crate) notes: Notes,
    /// Where its rollback reports how far it is.
    undo_progress: OnceLock<Arc<Progress>>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("session", &self.session).field("stamp", &self.stamp).finish()
    }
}

/// A point in a transaction to which it can be rolled back.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Savepoint {
    /// The positions of its chains.
    pub(crate) at: Positions,
    pub(crate) undo: usize,
    /// The position in what undoes rows without a log.
    pub(crate) rows: u64,
    pub(crate) commit: usize,
    /// Without what is charged for `rows`.
    pub(crate) undo_bytes: u64,
}

impl Transaction {
    /// A transaction of a session. `stamp` is its position in the order of writers.
    pub fn new(session: SessionId, stamp: Stamp) -> Arc<Transaction> {
        let lock_owner = LockOwner::new(session, LockOwnerKind::Transaction(stamp.0), stamp);
        let (chains, asks_for_delay, mark, running, snapshot, locks, undo, commit, held) = Default::default();
        let undo_memory = UndoMemory::default();
        Arc::new(Transaction {
            session,
            stamp,
            lock_owner,
            chains,
            asks_for_delay,
            mark,
            running,
            snapshot,
            locks,
            undo,
            row_undo: Mutex::default(),
            commit,
            savepoints_until: AtomicUsize::new(0),
            held,
            undo_memory,
            notes: Notes::default(),
            undo_progress: OnceLock::new(),
        })
    }

    /// Makes its rollback report to `progress` how far it is.
    pub fn report_undo_to(&self, progress: &Arc<Progress>) {
        self.undo_progress.get_or_init(|| Arc::clone(progress));
    }

    /// Estimated bytes of its undo actions, and of what is kept for its end.
    pub fn undo_bytes(&self) -> u64 {
        self.undo_memory.used()
    }

    /// Its position in the order of writers.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The owner of its statements' locks.
    pub fn lock_owner(&self) -> &Arc<LockOwner> {
        &self.lock_owner
    }

    /// Lets its commit return before it is durable, where its database allows that. A crash may then lose it, and
    /// everything after it.
    pub fn delay_durability(&self) {
        self.asks_for_delay.store(true, Ordering::Relaxed);
    }

    /// Its commit appends a mark to the log of each database that it has changed, at which a restore can stop. The
    /// first call counts.
    ///
    /// # Errors
    /// A log has no room for the mark, or has failed.
    pub fn set_mark(&self, name: &str, description: &str) -> Result<(), LogError> {
        let mut mark = self.mark.lock();
        if mark.is_none() {
            let new = LogMark { time: 0, name: name.to_owned(), description: description.to_owned() };
            self.chains.reserve_mark(&new)?;
            *mark = Some(new);
        }
        Ok(())
    }

    /// Makes the transaction's end release all that is locked for it in `locks`.
    pub fn lets_go_of_locks(&self, locks: &Arc<LockManager>) {
        let known = self.locks.get_or_init(|| Arc::clone(locks));
        debug_assert!(Arc::ptr_eq(known, locks), "an instance has one lock manager");
    }

    /// The current point of the transaction.
    pub fn savepoint(&self) -> Savepoint {
        let (at, undo, commit) = (self.chains.positions(), self.undo.lock().len(), self.commit.lock().len());
        let (rows, row_bytes) = {
            let rows = self.row_undo.lock();
            (rows.position(), rows.bytes_in_memory() as u64)
        };
        Savepoint { at, undo, rows, commit, undo_bytes: self.undo_bytes().saturating_sub(row_bytes) }
    }

    /// A savepoint that a user sets. What its statements did before is undone or kept apart from what comes.
    pub fn set_savepoint(&self) -> Savepoint {
        let place = self.savepoint();
        self.savepoints_until.fetch_max(place.commit, Ordering::Relaxed);
        place
    }

    /// The number of its commit actions, which is the place of the next one.
    pub fn commit_actions(&self) -> usize {
        self.commit.lock().len()
    }

    /// Whether a commit action was registered after the last savepoint that a user has set.
    pub fn is_behind_savepoints(&self, place: usize) -> bool {
        place >= self.savepoints_until.load(Ordering::Relaxed)
    }

    /// Hides its changes from readers until it has ended. `running` has its stamp.
    pub fn set_running(&self, running: Running) {
        assert_eq!(running.stamp(), self.stamp, "the place of this transaction");
        *self.running.lock() = Some(Arc::new(running));
    }

    /// A snapshot of what had committed when this was first called, and of the transaction's own changes. `None` if
    /// readers need not know of the transaction. The first call says whether the snapshot keeps pages, for a
    /// transaction of several statements.
    pub fn snapshot(&self, keeps_pages: bool) -> Option<Arc<Snapshot>> {
        let running = self.running.lock().clone()?;
        let mut snapshot = self.snapshot.lock();
        let take = || match (running.transactions(), keeps_pages) {
            (all, true) => all.snapshot_to_keep(self.stamp),
            (all, false) => all.snapshot(self.stamp, self.stamp),
        };
        Some(Arc::clone(snapshot.get_or_insert_with(take)))
    }

    /// The snapshot that [`Transaction::snapshot`] has returned, if it was ever called.
    pub fn snapshot_so_far(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.lock().clone()
    }

    /// Keeps a value until the transaction has ended.
    pub fn hold(&self, value: impl Any + Send) {
        self.held.lock().push(Box::new(value));
    }

    /// Ends the transaction with success: makes its log records durable, forgets the undo actions, runs the commit
    /// actions in order. Blocks on the flush of the log (`WRITELOG`).
    ///
    /// # Errors
    /// - A log failed while the commit was written: only recovery decides whether the transaction is kept. Nothing else
    ///   is done.
    /// - A log failed before a transaction over several databases was decided: the transaction is undone.
    /// - A commit action failed or panicked: the first such error. The other actions have been run all the same.
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
        if let Some(mark) = self.mark.lock().take()
            && let Err(error) = self.chains.mark(&LogMark { time: time_of_day(), ..mark })
        {
            let _of_the_same = self.roll_back();
            return Err(UndoError(format!("its mark could not be written to the log, and it was undone: {error}")));
        }
        match self.chains.commit(self.asks_for_delay.load(Ordering::Relaxed)) {
            Ok(()) => {}
            Err(CommitError::Undecided(error)) => {
                // A log that failed fails the undo in its database too; the first error matters.
                let _of_the_same = self.roll_back();
                return Err(UndoError(format!("its commit could not be prepared, and it was undone: {error}")));
            }
            Err(CommitError::InDoubt(error)) => {
                // The database's recovery decides; in memory nothing is undone that may have been kept.
                self.undo.lock().clear();
                *self.row_undo.lock() = RowUndo::default();
                self.commit.lock().clear();
                self.chains.forget_undo();
                return Err(UndoError(format!("its commit could not be written to the log: {error}")));
            }
        }
        *self.undo.lock() = Vec::new();
        *self.row_undo.lock() = RowUndo::default();
        self.chains.forget_undo();
        self.undo_memory.shrink_to(0);
        let actions = std::mem::take(&mut *self.commit.lock());
        let done = run_all(actions);
        done.and(self.end_chains())
    }

    /// Ends the transaction without a trace: undoes its changes, the last first.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn roll_back(&self) -> Result<(), UndoError> {
        if let Some(running) = &*self.running.lock() {
            running.undo_whole();
        }
        let done = self.roll_back_to(&Savepoint::default());
        self.chains.forget_undo();
        // A database in which something could not be undone appends no end. The others are done with the transaction.
        done.and(self.end_chains())
    }

    /// Logs that nothing is left to be done or undone. Where an action failed, its database is refused and its log
    /// takes no such record: recovery does what is left.
    fn end_chains(&self) -> Result<(), UndoError> {
        self.chains.end().map_err(|error| UndoError(format!("its end could not be written to the log: {error}")))
    }

    /// Undoes what was done since `place`, last first. The transaction goes on.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn roll_back_to(&self, place: &Savepoint) -> Result<(), UndoError> {
        self.commit.lock().truncate(place.commit);
        let actions = {
            let mut undo = self.undo.lock();
            let from = place.undo.min(undo.len());
            undo.split_off(from)
        };
        let progress = self.undo_progress.get().map(|progress| &**progress);
        // Nothing is noted meanwhile: an undo is not undone.
        let mut rows = std::mem::take(&mut *self.row_undo.lock());
        let row_bytes = rows.bytes_in_memory();
        let done = undo(&self.chains.all(), (&mut rows, self.stamp), actions, (&place.at, place.rows), progress);
        self.undo_memory.give_back(row_bytes);
        self.undo_memory.shrink_to(place.undo_bytes);
        if place.rows > 0 {
            // The undo may have read some back from disk.
            self.undo_memory.take(rows.bytes_in_memory());
            *self.row_undo.lock() = rows;
        }
        done
    }

    /// Registers an undo action.
    pub(crate) fn register_undo(&self, action: Action) {
        // The positions first: what is logged from now on is undone before the action.
        let (at, rows) = (self.chains.positions(), self.row_undo.lock().position());
        self.undo.lock().push(Registered { at, rows, action });
    }

    /// Drops what was held, the last first. For a transaction that was committed or rolled back.
    pub fn let_go(&self) {
        let snapshot = self.snapshot.lock().take();
        drop(snapshot);
        if planted::has(Bug::LocksBeforePublication)
            && let Some(locks) = self.locks.get()
        {
            locks.release_all(&self.lock_owner);
        }
        // Before its locks are released: a transaction that waited for one sees these changes.
        let running = self.running.lock().take();
        drop(running);
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
        // An action that fails refuses for good what it could not undo. There is no caller to return the error to.
        let _of_nobody = self.roll_back();
        self.let_go();
    }
}

/// Runs all actions, also after one that fails.
fn run_all(actions: Vec<Action>) -> Result<(), UndoError> {
    actions.into_iter().map(run).fold(Ok(()), Result::and)
}
