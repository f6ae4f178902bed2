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
use hobt_log::{NewRecord, Reservation};
use hobt_txn::TransactionLog;

use super::Storage;
use crate::AccessError;
use crate::log_record::{encode_loading, kind};

/// The most runs of one record.
const RUNS_MAX: usize = 1024;

/// A run: its first page and its extents.
pub type WrittenRun = (PageId, u32);

/// The loads of one database, and the backups that watch them.
#[derive(Debug, Default)]
pub(super) struct LoadWatch {
    /// No other lock is taken under it.
    state: Mutex<State>,
    /// Set while a backup needs loads to log their pages, since it cannot keep up.
    logs_loads: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Runs that loads are writing.
    open: HashMap<u64, Open>,
    /// For each backup the runs whose loads have ended, and that it has not taken yet.
    ended: HashMap<u64, Vec<WrittenRun>>,
}

#[derive(Debug)]
struct Open {
    run: WrittenRun,
    is_unlogged: bool,
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
    /// Notes that a page is about to be written past the log. With the first one of the run the log says so, if it is
    /// kept for backups. Returns the position of that record, or 0.
    pub(crate) fn note_unlogged(&mut self) -> Result<Lsn, AccessError> {
        if self.is_unlogged {
            return Ok(Lsn(0));
        }
        self.is_unlogged = true;
        let mut state = self.storage.loads.state.lock();
        let run = state.open.get_mut(&self.number).map(|open| {
            open.is_unlogged = true;
            open.run
        });
        let is_watched = !state.ended.is_empty();
        drop(state);
        self.storage.log_loading(run.as_slice(), is_watched)
    }
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        let mut state = self.storage.loads.state.lock();
        let Some(Open { run, is_unlogged }) = state.open.remove(&self.number) else { return };
        if is_unlogged {
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
        state.open.insert(number, Open { run, is_unlogged: false });
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
        self.loads.state.lock().open.values().map(|open| open.run).collect()
    }

    /// Says in the log that loads fill runs past it, if it is kept for backups or a backup is running, with which that
    /// may begin. Returns the position of the record, or 0.
    fn log_loading(&self, runs: &[WrittenRun], is_watched: bool) -> Result<Lsn, AccessError> {
        let is_wanted = |log: &&Arc<TransactionLog>| is_watched || log.log().is_kept_for_backup();
        let Some(log) = self.log.as_ref().filter(is_wanted).filter(|_| !runs.is_empty()) else {
            return Ok(Lsn(0));
        };
        let mut last = Lsn(0);
        for some in runs.chunks(RUNS_MAX) {
            let payload = encode_loading(some);
            let record = NewRecord { kind: kind::LOADING, transaction: 0, previous: Lsn(0), payload: &payload };
            let own = Reservation::default();
            log.reserve(&own, payload.len())?;
            last = log.log().append_always(&record, &own)?.lsn;
        }
        Ok(last)
    }
}

impl LoadWatch {
    /// Whether loads have to log their pages, for a backup.
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

    /// The end of the log, if the load of no run has ended since the last call; `None` otherwise. What loads are
    /// filling at this moment is named again behind it, for the next backup of the log.
    ///
    /// # Errors
    /// The log has failed, or is full.
    pub fn close(&self) -> Result<Option<Lsn>, AccessError> {
        let state = self.storage.loads.state.lock();
        if state.ended.get(&self.number).is_some_and(|ended| !ended.is_empty()) {
            return Ok(None);
        }
        // Under the lock: a load that ends later has its commit record behind this position.
        let end = self.storage.log().map_or(Lsn(0), |log| log.log().end());
        let open = state.open.values().filter(|open| open.is_unlogged).map(|open| open.run).collect::<Vec<_>>();
        drop(state);
        self.storage.log_loading(&open, true)?;
        Ok(Some(end))
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
