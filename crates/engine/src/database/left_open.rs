//! The list of the transactions that are undone behind the opening of a database, and the state of the thread that
//! undoes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_instruments::schedule::{Condvar, Mutex};
use hobt_txn::RecoveredTransaction;

/// The transactions of a database that are undone behind its opening.
#[derive(Default)]
pub(super) struct UndoBehind {
    pub(super) state: Mutex<State>,
    pub(super) ended: Condvar,
    /// It ends before the next record.
    is_stopped: AtomicBool,
}

#[derive(Default)]
pub(super) struct State {
    /// The next one first.
    pub(super) open: Vec<Arc<RecoveredTransaction>>,
    /// A thread undoes them.
    pub(super) is_running: bool,
    /// When they were taken over: 100 ns since 1970-01-01 UTC.
    pub(super) since: i64,
}

impl UndoBehind {
    /// Whether nothing is left to undo.
    pub(super) fn is_done(&self) -> bool {
        self.state.lock().open.is_empty()
    }

    /// Ends the undo before its next record. Blocks until it has ended.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.wait();
    }

    /// Releases the locks of what is not undone: the database is closed.
    pub(super) fn let_go(&self) {
        let open = std::mem::take(&mut self.state.lock().open);
        drop(open);
    }

    pub(super) fn goes_on(&self) -> bool {
        !self.is_stopped.load(Ordering::Acquire)
    }

    pub(super) fn wait(&self) {
        let mut state = self.state.lock();
        while state.is_running {
            self.ended.wait(&mut state);
        }
    }

    pub(super) fn next(&self) -> Option<Arc<RecoveredTransaction>> {
        self.state.lock().open.first().cloned()
    }

    pub(super) fn remove_first(&self) {
        let first = self.state.lock().open.remove(0);
        // Its locks are released here, and not under the lock of the list.
        drop(first);
    }
}
