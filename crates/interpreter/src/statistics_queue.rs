//! Queue of statistics to be updated in the background, for `AUTO_UPDATE_STATISTICS_ASYNC`.
//!
//! ```text
//!   a query ── push ──► waiting ── next ──► a thread of the server: UPDATE STATISTICS, in a session of its own
//!                                   ▲
//!   DROP DATABASE, the instance's end ── stop: drops waiting updates, cancels the running one and waits for it
//! ```
//! No session waits for an update, except one that needs exclusive use of the database. The thread and its session are
//! in the crate `session`. `automatic_statistics` decides when statistics are stale.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_base::{DatabaseId, ObjectId};
use hobt_instruments::schedule::{Condvar, Mutex};

/// The maximum number of waiting updates. If a query finds more stale statistics, its next run queues them again.
const WAITING_MAX: usize = 1024;

/// A statistics object to be updated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatisticsUpdate {
    /// Its database.
    pub database: DatabaseId,
    /// Its table.
    pub table: ObjectId,
    /// Its number.
    pub statistics: i32,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<StatisticsUpdate>,
    running: Option<(StatisticsUpdate, Arc<AtomicBool>)>,
    is_closed: bool,
}

/// The waiting updates of an instance, and the running one.
#[derive(Debug, Default)]
pub struct StatisticsQueue {
    state: Mutex<State>,
    changed: Condvar,
}

impl StatisticsQueue {
    /// Queues an update unless it is already waiting or running. Does not block.
    pub fn push(&self, update: StatisticsUpdate) {
        let mut state = self.state.lock();
        let is_known = state.waiting.contains(&update) || state.running.as_ref().is_some_and(|(own, _)| *own == update);
        if !is_known && !state.is_closed && state.waiting.len() < WAITING_MAX {
            state.waiting.push_back(update);
            self.changed.notify_all();
        }
    }

    /// Takes the next update, which counts as running until [`StatisticsQueue::done`], and its cancel flag. `None` if
    /// the queue is closed. Blocks.
    pub fn next(&self) -> Option<(StatisticsUpdate, Arc<AtomicBool>)> {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(update) = state.waiting.pop_front() {
                let running = (update, Arc::new(AtomicBool::new(false)));
                state.running = Some(running.clone());
                return Some(running);
            }
            self.changed.wait(&mut state);
        }
    }

    /// Called when the running update has ended.
    pub fn done(&self) {
        self.state.lock().running = None;
        self.changed.notify_all();
    }

    /// Drops the waiting updates of one database, or of all, and cancels the running one. Blocks until that has ended.
    pub fn stop(&self, database: Option<DatabaseId>) {
        let is_of = |update: &StatisticsUpdate| database.is_none_or(|database| database == update.database);
        let mut state = self.state.lock();
        state.waiting.retain(|update| !is_of(update));
        while let Some((_, cancelled)) = state.running.as_ref().filter(|(update, _)| is_of(update)) {
            cancelled.store(true, Ordering::SeqCst);
            self.changed.wait(&mut state);
        }
    }

    /// Closes the queue, so that the thread ends. Does not block.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.waiting.clear();
        if let Some((_, cancelled)) = &state.running {
            cancelled.store(true, Ordering::SeqCst);
        }
        self.changed.notify_all();
    }
}

impl hobt_engine::BackgroundWork for StatisticsQueue {
    fn stop(&self, database: Option<DatabaseId>) {
        StatisticsQueue::stop(self, database);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(database: u16, statistics: i32) -> StatisticsUpdate {
        StatisticsUpdate { database: DatabaseId(database), table: ObjectId(7), statistics }
    }

    #[test]
    fn an_update_waits_once_and_goes_with_its_database() {
        let queue = StatisticsQueue::default();
        for next in [update(5, 1), update(5, 1), update(6, 1), update(5, 2)] {
            queue.push(next);
        }
        queue.stop(Some(DatabaseId(5)));
        let (only, cancelled) = queue.next().expect("one is left");
        assert_eq!(only, update(6, 1));
        queue.push(update(6, 1));
        queue.stop(Some(DatabaseId(5)));
        assert!(!cancelled.load(Ordering::SeqCst), "another database's end is of no consequence");
        queue.close();
        assert!(cancelled.load(Ordering::SeqCst));
        queue.push(update(6, 3));
        assert_eq!(queue.next().map(|(update, _)| update), None);
    }
}
