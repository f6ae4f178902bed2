//! Waiting for a lock.
//!
//! A waiting thread sleeps on a slot of its own. A wait is decided under the spinlock of the resource's table, by the
//! thread that removes the request from the queue. That thread grants the request, chooses it as a deadlock's victim,
//! or is the waiter itself, which gives up. So a wait ends once and no wake-up is lost: the outcome is set before the
//! spinlock is released.
//!
//! All waits are also in one list under one mutex, where deadlocks are looked for. A request that does not wait never
//! takes that mutex.

use std::sync::Arc;
use std::time::Duration;

use hobt_instruments::Wait;
use hobt_instruments::primitives::park_timeout;
use hobt_instruments::rank::{self, Rank};
use hobt_instruments::schedule::{self, Place};

use super::queue::{Answer, Crowd, Queue, Waiting};
use super::slot::{Outcome, WaitRecord, WaitSlot};
use super::{Grant, LockError, LockManager, LockMode, LockOwner, LockResource, Patience};

/// How often a waiting thread checks whether it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(50);

/// A wait that is in the list until this is dropped: a panic of the caller's `is_cancelled` leaves nothing behind.
struct Registered<'a> {
    manager: &'a LockManager,
    record: WaitRecord,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.manager.give_up(&self.record);
        let session = self.record.owner.session();
        let mut waits = self.manager.lock_waits();
        let Some(of_session) = waits.get_mut(&session) else { return };
        of_session.retain(|record| !Arc::ptr_eq(&record.slot, &self.record.slot));
        if of_session.is_empty() {
            waits.remove(&session);
        } else {
            // Another worker of the session still waits, and other sessions may wait for what this one got.
            self.manager.break_circles(&waits, session);
        }
    }
}

impl LockManager {
    /// Tries once. If the request is refused and has a slot to wait on, it is put into the queue.
    pub(super) fn request(
        &self,
        owner: &Arc<LockOwner>,
        resource: LockResource,
        mode: LockMode,
        slot: Option<&Arc<WaitSlot>>,
    ) -> Answer {
        let mut spare = slot.map(|_| Crowd::with_room());
        loop {
            let mut queues = self.tables.lock_with_room(&resource);
            let Some(queue) = queues.get_mut(&resource) else {
                queues.insert(resource, Queue::held_by(owner, mode));
                return Answer::New { passed: false };
            };
            let answer = queue.ask(owner, mode, &mut spare);
            if answer == Answer::Refused
                && let Some(slot) = slot
            {
                let (owner, slot) = (Arc::clone(owner), Arc::clone(slot));
                queue.wait(Waiting { owner, mode, slot }, &mut spare);
            }
            drop(queues);
            if answer != Answer::NeedsCrowd {
                return answer;
            }
            spare = Some(Crowd::with_room());
        }
    }

    /// Locks a resource, waiting for conflicting locks.
    pub(super) fn wait_for(
        &self,
        owner: &Arc<LockOwner>,
        resource: LockResource,
        mode: LockMode,
        patience: Patience,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Grant, LockError> {
        rank::check(Rank::TransactionLock);
        let slot = WaitSlot::new();
        let answer = self.request(owner, resource, mode, Some(&slot));
        if let Some(grant) = self.note(owner, resource, mode, answer) {
            return Ok(grant);
        }
        let since = schedule::now();
        let deadlock_priority = patience.deadlock_priority;
        let (own, waits_on) = (Arc::clone(owner), Arc::clone(&slot));
        let record = WaitRecord { owner: own, resource, mode, deadlock_priority, slot: waits_on, since };
        let registered = self.register(record);
        let wanted = self.mode_held(owner, &resource).map_or(mode, |held| held.combined(mode));
        let wait = Wait::begin(wanted.wait_type());
        let deadline = patience.timeout.and_then(|timeout| since.checked_add(timeout));
        let ended = loop {
            if let Some(outcome) = slot.outcome() {
                break Ok(outcome);
            }
            let now = schedule::now();
            let error = if is_cancelled() {
                Some(LockError::Cancelled)
            } else {
                deadline.is_some_and(|deadline| now >= deadline).then_some(LockError::Timeout)
            };
            if let Some(error) = error
                && self.give_up(&registered.record)
            {
                break Err(error);
            }
            let left = deadline.map_or(CANCEL_CHECK, |deadline| deadline.saturating_duration_since(now));
            if !schedule::wait(Place::TransactionLock) {
                park_timeout(left.min(CANCEL_CHECK));
            }
        };
        self.statistics.add_wait(&resource, wait.elapsed());
        drop(wait);
        drop(registered);
        let answer = match ended? {
            Outcome::New => Answer::New { passed: false },
            Outcome::Converted => Answer::Converted { mode, passed: false },
            Outcome::Victim => return Err(LockError::Deadlock),
        };
        let grant = self.note(owner, resource, mode, answer).expect("it was granted");
        Ok(Grant { waited: true, ..grant })
    }

    /// Puts a wait into the list, and breaks every circle that it closes.
    fn register(&self, record: WaitRecord) -> Registered<'_> {
        let session = record.owner.session();
        let registered = Registered { manager: self, record };
        let mut waits = self.lock_waits();
        waits.entry(session).or_default().push(registered.record.clone());
        self.break_circles(&waits, session);
        drop(waits);
        registered
    }

    /// Removes a request from its queue, which may grant those behind it. Returns `false` if its wait was decided
    /// before.
    fn give_up(&self, record: &WaitRecord) -> bool {
        self.take_out(record, None)
    }

    /// Removes a request from its queue with an outcome, if it still waits, and grants requests that waited only for
    /// it.
    pub(super) fn take_out(&self, record: &WaitRecord, outcome: Option<Outcome>) -> bool {
        let mut wake = Vec::new();
        let mut queues = self.tables.lock(&record.resource);
        let Some(queue) = queues.get_mut(&record.resource) else { return false };
        let removed = queue.remove_waiting(&record.slot);
        if removed.is_some() {
            if let Some(outcome) = outcome {
                record.slot.decide(outcome);
                wake.push(Arc::clone(&record.slot));
            }
            queue.grant_waiting(&mut wake);
        }
        let empty = queue.is_empty().then(|| queues.remove(&record.resource));
        drop(queues);
        drop(empty);
        wake.iter().for_each(|slot| slot.wake());
        removed.is_some()
    }
}
