//! What a statement carries through every layer.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hobt_base::{SessionId, Stamp};
use parking_lot::Mutex;

use crate::locks::{LockOwner, LockOwnerKind};
use crate::{MemoryAccount, MemoryBudget};

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

/// A running statement, shared by its workers.
///
/// It ends by [`StatementContext::commit`] or [`StatementContext::roll_back`]. One that is dropped without either, because
/// its thread panicked, is rolled back by the last who has it, so that no worker still writes what is undone.
pub struct StatementContext {
    session: SessionId,
    stamp: Stamp,
    degree_of_parallelism: usize,
    cancelled: Arc<AtomicBool>,
    memory: MemoryAccount,
    lock_owner: Arc<LockOwner>,
    undo: Mutex<Vec<Action>>,
    commit: Mutex<Vec<Action>>,
    /// What is let go of when the statement has ended, the last first.
    held: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl fmt::Debug for StatementContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementContext").field("session", &self.session).field("stamp", &self.stamp).finish()
    }
}

impl StatementContext {
    /// A statement that may be cancelled through `cancelled`.
    pub fn new(settings: &StatementContextSettings, cancelled: Arc<AtomicBool>) -> Arc<StatementContext> {
        let transaction = LockOwnerKind::Transaction(settings.stamp.0);
        Arc::new(StatementContext {
            session: settings.session,
            stamp: settings.stamp,
            degree_of_parallelism: settings.degree_of_parallelism.max(1),
            cancelled,
            memory: MemoryAccount::new(&settings.memory, "statement"),
            lock_owner: LockOwner::new(settings.session, transaction, settings.stamp),
            undo: Mutex::default(),
            commit: Mutex::default(),
            held: Mutex::default(),
        })
    }

    /// The session that runs the statement.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The statement's place in the order of writers.
    pub fn stamp(&self) -> Stamp {
        self.stamp
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
        &self.lock_owner
    }

    /// Registers how a change that was just made is undone.
    ///
    /// Nobody may be left to hear that an action failed: before it returns an error, and if it panics, it must have
    /// refused for good what it could not bring in order.
    pub fn on_undo(&self, action: impl FnOnce() -> Result<(), UndoError> + Send + 'static) {
        self.undo.lock().push(Box::new(action));
    }

    /// Puts an action off until the statement has succeeded. The same is asked of it as of an undo action.
    pub fn on_commit(&self, action: impl FnOnce() -> Result<(), UndoError> + Send + 'static) {
        self.commit.lock().push(Box::new(action));
    }

    /// Keeps a value for as long as the statement may still change something or be undone: its locks, its place among the
    /// running. [`StatementContext::let_go`] drops it, at the latest the end of the context does.
    pub fn hold(&self, value: impl Any + Send) {
        self.held.lock().push(Box::new(value));
    }

    /// Ends the statement with success: forgets the undo actions, runs the others in order.
    ///
    /// # Errors
    /// The first action that failed or panicked; the rest have been run all the same.
    pub fn commit(&self) -> Result<(), UndoError> {
        self.undo.lock().clear();
        let actions = std::mem::take(&mut *self.commit.lock());
        run(actions.into_iter())
    }

    /// Ends the statement without a trace: runs the undo actions, last first.
    ///
    /// # Errors
    /// The first action that failed or panicked; the rest have been run all the same.
    pub fn roll_back(&self) -> Result<(), UndoError> {
        self.commit.lock().clear();
        let actions = std::mem::take(&mut *self.undo.lock());
        run(actions.into_iter().rev())
    }

    /// Drops what was held for the statement, the last first. For a statement that was committed or rolled back.
    pub fn let_go(&self) {
        let held = std::mem::take(&mut *self.held.lock());
        held.into_iter().rev().for_each(drop);
    }
}

impl Drop for StatementContext {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> Arc<StatementContext> {
        let settings = StatementContextSettings {
            session: SessionId(51),
            stamp: Stamp(1),
            degree_of_parallelism: 1,
            memory: MemoryBudget::new(1),
        };
        StatementContext::new(&settings, Arc::default())
    }

    #[test]
    fn undo_runs_backwards_and_commit_forwards() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        for undo in [true, false] {
            let context = context();
            for step in 0..3 {
                let (one, other) = (Arc::clone(&seen), Arc::clone(&seen));
                context.on_undo(move || {
                    one.lock().push(format!("undo {step}"));
                    Ok(())
                });
                context.on_commit(move || {
                    other.lock().push(format!("commit {step}"));
                    Ok(())
                });
            }
            if undo { context.roll_back() } else { context.commit() }.expect("no action fails");
        }
        assert_eq!(*seen.lock(), ["undo 2", "undo 1", "undo 0", "commit 0", "commit 1", "commit 2"]);
    }

    #[test]
    fn a_failed_action_does_not_stop_the_others() {
        let context = context();
        let done = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&done);
        context.on_undo(move || {
            seen.store(true, Ordering::Relaxed);
            Ok(())
        });
        context.on_undo(|| Err(UndoError("page".to_owned())));
        assert!(context.roll_back().is_err());
        assert!(done.load(Ordering::Relaxed));
    }

    #[test]
    fn a_panic_in_an_action_is_its_error_and_does_not_stop_the_others() {
        for undo in [true, false] {
            let context = context();
            let count = Arc::new(AtomicU64::new(0));
            for step in 0..3 {
                let count = Arc::clone(&count);
                let action = move || {
                    assert!(step != 1, "step {step} breaks");
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                };
                if undo { context.on_undo(action) } else { context.on_commit(action) }
            }
            let ended = if undo { context.roll_back() } else { context.commit() };
            assert!(ended.expect_err("one panicked").0.contains("step 1 breaks"));
            assert_eq!(count.load(Ordering::Relaxed), 2);
        }
    }

    #[test]
    fn a_statement_that_nobody_ended_is_undone_by_the_last_who_has_it() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = context();
        let note = |what: &'static str| {
            let seen = Arc::clone(&seen);
            move || {
                seen.lock().push(what);
                Ok(())
            }
        };
        kept.on_undo(note("first"));
        kept.on_undo(note("second"));
        kept.on_commit(note("committed"));
        kept.hold(OnDrop(Arc::clone(&seen), "running"));
        kept.hold(OnDrop(Arc::clone(&seen), "lock"));
        let worker = Arc::clone(&kept);
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let _kept = kept;
            panic!("half-way");
        }));
        assert!(panicked.is_err());
        assert!(seen.lock().is_empty(), "a worker still has it");
        drop(worker);
        assert_eq!(*seen.lock(), ["second", "first", "lock", "running"]);
    }

    struct OnDrop(Arc<Mutex<Vec<&'static str>>>, &'static str);

    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.lock().push(self.1);
        }
    }

    #[test]
    fn what_was_held_goes_when_the_statement_has_ended_and_not_before() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let context = context();
        context.hold(OnDrop(Arc::clone(&seen), "lock"));
        let at_commit = Arc::clone(&seen);
        context.on_commit(move || {
            at_commit.lock().push("committed");
            Ok(())
        });
        context.commit().expect("no action fails");
        context.let_go();
        assert_eq!(*seen.lock(), ["committed", "lock"]);
    }
}
