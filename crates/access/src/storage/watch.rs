//! Loads that write their pages past the log, as a backup sees them.
//!
//! A backup copies pages while they change, and the log that it copies as well makes them whole. What a load writes
//! past the log is not in that log. So a load says which run it is about to write ([`Storage::load_begins`]) and when
//! all its writes to the run are done, before it commits. A backup copies each run again whose load has ended since the
//! backup began. Where the log ends for the backup is decided ([`CopyWatch::close`]) at a moment when no such run is
//! left: a load that ends later commits behind that.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_base::{Lsn, PageId};
use hobt_instruments::schedule::Mutex;

use super::Storage;

/// A run: its first page and its extents.
pub type WrittenRun = (PageId, u32);

/// The loads of one database, and the backups that watch them.
#[derive(Debug, Default)]
pub(super) struct LoadWatch {
    state: Mutex<State>,
    /// A backup cannot keep up: loads log their pages.
    logs_loads: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Runs that loads are writing.
    open: HashMap<u64, WrittenRun>,
    /// For each backup the runs whose loads have ended since it has looked last.
    ended: HashMap<u64, Vec<WrittenRun>>,
}

/// A run that a load is writing.
#[derive(Debug)]
pub(crate) struct OpenRun {
    storage: Arc<Storage>,
    number: u64,
    /// Whether a page of it was written past the log.
    is_unlogged: bool,
}

impl OpenRun {
    /// Notes that a page is written past the log.
    pub(crate) fn note_unlogged(&mut self) {
        self.is_unlogged = true;
    }
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        let mut state = self.storage.loads.state.lock();
        let Some(run) = state.open.remove(&self.number) else { return };
        if self.is_unlogged {
            state.ended.values_mut().for_each(|ended| ended.push(run));
        }
    }
}

impl Storage {
    /// Says that a load is about to write a run. The result is dropped when all its writes are done, before the load
    /// commits.
    pub(crate) fn load_begins(self: &Arc<Storage>, run: WrittenRun) -> OpenRun {
        let mut state = self.loads.state.lock();
        let number = state.next;
        state.next += 1;
        state.open.insert(number, run);
        OpenRun { storage: Arc::clone(self), number, is_unlogged: false }
    }

    /// Begins to watch loads, for a backup that is about to copy pages.
    pub fn watch_loads(self: &Arc<Storage>) -> CopyWatch {
        let mut state = self.loads.state.lock();
        let number = state.next;
        state.next += 1;
        state.ended.insert(number, Vec::new());
        CopyWatch { storage: Arc::clone(self), number }
    }

    /// The runs that loads are writing now.
    pub fn runs_being_loaded(&self) -> Vec<WrittenRun> {
        self.loads.state.lock().open.values().copied().collect()
    }
}

impl LoadWatch {
    /// Whether a backup wants loads to log their pages.
    pub(super) fn logs_loads(&self) -> bool {
        self.logs_loads.load(Ordering::Acquire)
    }
}

/// Watches the loads of a database until it is dropped.
#[derive(Debug)]
pub struct CopyWatch {
    storage: Arc<Storage>,
    number: u64,
}

impl CopyWatch {
    /// The runs whose loads have ended since the last call, or since the watch began.
    pub fn take_ended(&self) -> Vec<WrittenRun> {
        let mut state = self.storage.loads.state.lock();
        state.ended.get_mut(&self.number).map(std::mem::take).unwrap_or_default()
    }

    /// The end of the log, if the load of no run has ended since the last call; `None` otherwise.
    pub fn close(&self) -> Option<Lsn> {
        let state = self.storage.loads.state.lock();
        let is_done = state.ended.get(&self.number).is_none_or(Vec::is_empty);
        // Under the lock: a load that ends later has its commit record behind this position.
        is_done.then(|| self.storage.log().map_or(Lsn(0), |log| log.log().end()))
    }

    /// Makes loads log their pages until the watch ends, so that those that begin later need no copy.
    pub fn log_loads(&self) {
        self.storage.loads.logs_loads.store(true, Ordering::Release);
    }
}

impl Drop for CopyWatch {
    fn drop(&mut self) {
        let mut state = self.storage.loads.state.lock();
        state.ended.remove(&self.number);
        if state.ended.is_empty() {
            self.storage.loads.logs_loads.store(false, Ordering::Release);
        }
    }
}
