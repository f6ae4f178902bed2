//! Undo behind the opening: transactions that a crash has left open are rolled back while the database is in use.
//! `docs/design/0044-undo-behind-the-opening.md`.
//!
//! Recovery leaves those open that have changed only rows of users' tables (`hobt_access::recover_to_open`). Before the
//! database opens each of them locks its tables (`Sch-M`). A thread undoes one after the other, the smallest first. A
//! close stops it between two records; the files are then not marked as clean, and the next recovery goes on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hobt_access::{OpenTransaction, RecoveryPhase};
use hobt_base::{DatabaseId, HobtId, ObjectId, SessionId};
use hobt_txn::{RECOVERED_SESSION, RecoveredTransaction, time_left};

use super::Database;
use crate::error::Result;
use crate::recovery_progress::RecoveryReports;
use hobt_instruments::time_of_day;

/// Estimated bytes of log from which on an undo goes on behind the opening: less is done in a fraction of a second.
pub(crate) const BEHIND_FROM_BYTES: u64 = 16 << 20;

/// A transaction that is undone behind the opening of its database.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UndoneTransaction {
    /// The database.
    pub database: DatabaseId,
    /// The session that it has in views, as no real session has.
    pub session: SessionId,
    /// Its number.
    pub transaction: u64,
    /// When recovery has found it: 100 ns since 1970-01-01 UTC.
    pub since: i64,
    /// How far its undo is, in per cent.
    pub percent: f64,
}

impl UndoneTransaction {
    /// The time since recovery has found it.
    pub fn elapsed(&self) -> Duration {
        const NANOSECONDS: u64 = 100;
        Duration::from_nanos(u64::try_from(time_of_day() - self.since).unwrap_or(0).saturating_mul(NANOSECONDS))
    }

    /// How long the rest takes at the rate so far.
    pub fn left(&self) -> Duration {
        time_left(self.percent, self.elapsed())
    }
}

/// The right to undo, which one thread has.
struct Turn(Arc<Database>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.undo.state.lock().is_running = false;
        self.0.undo.ended.notify_all();
    }
}

impl Turn {
    fn undo(&self, goes_on: &dyn Fn() -> bool) {
        let undo = &self.0.undo;
        while let Some(next) = undo.next() {
            let rolled_back = next.roll_back(&|| undo.goes_on() && goes_on());
            // The locks are released with the last reference.
            drop(next);
            match rolled_back {
                Ok(true) => undo.remove_first(),
                Ok(false) => return,
                Err(error) => {
                    // Before the locks are released: a statement that gets one of them then ends with error 926.
                    self.0.mark_suspect(&error.to_string());
                    undo.let_go();
                }
            }
        }
    }
}

impl Database {
    /// Takes over what recovery has left open. If its undo takes fewer than `behind_from` bytes of log, or the log has
    /// no room to undo it beside other work, it is undone here. Otherwise its tables are locked until it is undone.
    ///
    /// # Errors
    /// A heap or tree cannot be opened. A row cannot be undone: the database is suspect.
    pub(super) fn take_over(
        &self,
        mut left: Vec<OpenTransaction>,
        behind_from: u64,
        reports: &RecoveryReports<'_>,
    ) -> Result<()> {
        left.sort_by_key(OpenTransaction::undo_bytes);
        self.undo.state.lock().since = time_of_day();
        let bytes: u64 = left.iter().map(OpenTransaction::undo_bytes).sum();
        let is_behind = bytes >= behind_from && OpenTransaction::reserve(&left);
        if !is_behind {
            left.iter().for_each(OpenTransaction::reserve_alone);
        }
        for open in left {
            let snapshot = self.snapshot();
            // What a rollback to a savepoint has undone may have been dropped since.
            let exists = |hobt: &HobtId| snapshot.partition_of_hobt(*hobt).map(|(table, ..)| (*hobt, table.id));
            let (hobts, tables): (Vec<HobtId>, BTreeSet<ObjectId>) =
                open.hobts().filter_map(|hobt| exists(&hobt)).unzip();
            let stores = hobts.into_iter().map(|hobt| self.find_store(hobt)).collect::<Result<_>>()?;
            let transaction = RecoveredTransaction::new(open.undone_in(stores), &self.shared.locks);
            if is_behind && tables.into_iter().all(|table| transaction.lock(self.id, table)) {
                self.undo.state.lock().open.push(Arc::new(transaction));
            } else if let Err(error) = transaction.roll_back(&|| {
                reports.note(RecoveryPhase::Undo, transaction.percent_undone() as u64, 100);
                true
            }) {
                self.mark_suspect(&error.to_string());
                return self.check_whole();
            }
        }
        Ok(())
    }

    /// Starts the thread that undoes what was taken over.
    pub(super) fn undo_behind_opening(self: &Arc<Database>) {
        let Some(turn) = self.take_turn() else { return };
        let started = std::thread::Builder::new().name("undo".to_owned()).spawn(move || turn.undo(&|| true));
        if started.is_err() {
            self.undo_by_hand(&|| true);
        }
    }

    /// Undoes what a crash has left open, as long as `goes_on` says so before each record and the database is not
    /// closed. Does nothing if a thread does it already. For simulations and tests, in which no thread starts by
    /// itself.
    pub fn undo_by_hand(self: &Arc<Database>, goes_on: &dyn Fn() -> bool) {
        if let Some(turn) = self.take_turn() {
            turn.undo(goes_on);
        }
    }

    /// `None` if another thread has it, or nothing is left to undo.
    fn take_turn(self: &Arc<Database>) -> Option<Turn> {
        let mut state = self.undo.state.lock();
        let is_free = !state.is_running && !state.open.is_empty();
        state.is_running |= is_free;
        drop(state);
        is_free.then(|| Turn(Arc::clone(self)))
    }

    /// Returns when nothing is left to undo of what a crash has left open, or the database is closed. Blocks.
    ///
    /// # Errors
    /// The database is suspect.
    pub fn wait_for_undo(self: &Arc<Database>) -> Result<()> {
        self.undo_by_hand(&|| true);
        self.undo.wait();
        self.check_whole()
    }

    /// The transactions that a crash has left open and that are not undone yet.
    pub fn transactions_undone(&self) -> Vec<UndoneTransaction> {
        let state = self.undo.state.lock();
        let (open, since) = (state.open.clone(), state.since);
        drop(state);
        let shown = |open: &Arc<RecoveredTransaction>| UndoneTransaction {
            database: self.id,
            session: RECOVERED_SESSION,
            transaction: open.id(),
            since,
            percent: open.percent_undone(),
        };
        open.iter().map(shown).collect()
    }
}
