//! Locks on whole tables, held for a statement.
//!
//! Readers take `S` or, under `NOLOCK`, only schema stability; writers `X`; DDL `Sch-M`. Waiting is recorded as
//! `LCK_M_*`. Locks are granted in the order in which they were asked for, so a stream of readers cannot starve a
//! writer. Rows and pages are not locked here.
//!
//! Deadlocks: whoever begins to wait looks whether the sessions in its way wait for it in turn. Only a wait that begins
//! can close such a circle, so no monitor is needed and no deadlock lasts. One waiter of the circle fails: the one of
//! the lowest priority, among equals the one that came last.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hobt_base::{DatabaseId, ObjectId, SessionId};
use hobt_sync::{Wait, WaitType};
use parking_lot::{Condvar, Mutex};

/// How a table is locked.
///
/// Ordered by strength: a mode excludes whatever those before it exclude.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockMode {
    /// The definition stays: compatible with everything but `SchemaModification`.
    SchemaStability,
    /// Read the rows: compatible with itself and `SchemaStability`.
    Shared,
    /// Change the rows: compatible with `SchemaStability` alone.
    Exclusive,
    /// Change the definition: compatible with nothing.
    SchemaModification,
}

impl LockMode {
    /// SQL Server's abbreviation.
    pub const fn name(self) -> &'static str {
        match self {
            LockMode::SchemaStability => "Sch-S",
            LockMode::Shared => "S",
            LockMode::Exclusive => "X",
            LockMode::SchemaModification => "Sch-M",
        }
    }

    const fn wait_type(self) -> WaitType {
        match self {
            LockMode::SchemaStability => WaitType::LockSchS,
            LockMode::Shared => WaitType::LockS,
            LockMode::Exclusive => WaitType::LockX,
            LockMode::SchemaModification => WaitType::LockSchM,
        }
    }

    const fn is_compatible(self, other: LockMode) -> bool {
        match (self, other) {
            (LockMode::SchemaModification, _) | (_, LockMode::SchemaModification) => false,
            (LockMode::SchemaStability, _) | (_, LockMode::SchemaStability) | (LockMode::Shared, LockMode::Shared) => {
                true
            }
            _ => false,
        }
    }
}

/// Why a lock was not granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockError {
    /// `LOCK_TIMEOUT` ran out: error 1222.
    Timeout,
    /// The statement was cancelled.
    Cancelled,
    /// Its wait was part of a circle, and it was chosen to break it: error 1205.
    Deadlock,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockError::Timeout => "Lock request time out period exceeded.",
            LockError::Cancelled => "The statement was cancelled while it waited for a lock.",
            LockError::Deadlock => "The statement was chosen as the victim of a deadlock.",
        })
    }
}

impl std::error::Error for LockError {}

/// How long a statement waits for a lock, and how dear it is where statements wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Patience {
    /// `LOCK_TIMEOUT`; `None` waits for ever.
    pub timeout: Option<Duration>,
    /// `DEADLOCK_PRIORITY`, -10 to 10: the lowest of a circle fails.
    pub deadlock_priority: i8,
}

type Resource = (DatabaseId, ObjectId);

/// A lock that is held or waited for.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// Later requests have greater ones.
    ticket: u64,
    session: SessionId,
    mode: LockMode,
    deadlock_priority: i8,
}

#[derive(Debug, Default)]
struct Queue {
    granted: Vec<Request>,
    waiting: VecDeque<Request>,
}

impl Queue {
    /// The requests of other sessions that must end before `request` is granted: none if it can be now.
    fn in_the_way(&self, request: Request) -> impl Iterator<Item = Request> {
        let holds = self.granted.iter().any(|held| held.session == request.session);
        // Who holds the lock already does not stand in line again, or it would wait for those who wait for it.
        let ahead = self.waiting.iter().take_while(move |waits| !holds && waits.ticket != request.ticket);
        self.granted
            .iter()
            .chain(ahead)
            .filter(move |other| other.session != request.session && !request.mode.is_compatible(other.mode))
            .copied()
    }

    fn admits(&self, request: Request) -> bool {
        self.in_the_way(request).next().is_none()
    }
}

#[derive(Debug, Default)]
struct State {
    last_ticket: u64,
    queues: HashMap<Resource, Queue>,
    /// Waiting requests that were chosen to fail.
    victims: HashSet<u64>,
}

impl State {
    /// The waiter that must fail so that `request`, which begins to wait, closes no circle of waiters.
    fn victim(&self, request: Request) -> Option<Request> {
        let waiters: Vec<(&Queue, Request)> = self
            .queues
            .values()
            .flat_map(|queue| queue.waiting.iter().map(move |waits| (queue, *waits)))
            .filter(|(_, waits)| !self.victims.contains(&waits.ticket))
            .collect();
        let waits_of = |session: SessionId| waiters.iter().filter(move |(_, waits)| waits.session == session);
        // Depth first from the session that begins to wait; `path` is how the walk came to where it is.
        let mut seen = HashSet::from([request.session]);
        let step = |(queue, waits): &(&Queue, Request)| (*waits, queue.in_the_way(*waits).collect::<Vec<Request>>());
        let mut path: Vec<(Request, Vec<Request>)> = waits_of(request.session).take(1).map(step).collect();
        while let Some((_, blockers)) = path.last_mut() {
            let Some(blocker) = blockers.pop() else {
                path.pop();
                continue;
            };
            if blocker.session == request.session {
                let circle = path.iter().map(|(waits, _)| *waits);
                return circle.min_by_key(|waits| (waits.deadlock_priority, Reverse(waits.ticket)));
            }
            if seen.insert(blocker.session)
                && let Some(waits) = waits_of(blocker.session).next()
            {
                path.push(step(waits));
            }
        }
        None
    }

    fn remove_if_empty(&mut self, resource: Resource) {
        if self.queues.get(&resource).is_some_and(|queue| queue.granted.is_empty() && queue.waiting.is_empty()) {
            self.queues.remove(&resource);
        }
    }
}

/// The table locks of an instance.
#[derive(Debug, Default)]
pub struct ObjectLocks {
    state: Mutex<State>,
    released: Condvar,
}

/// How often a waiting statement looks whether it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(50);

impl ObjectLocks {
    /// Takes a lock, waiting for its holders; a session does not wait for itself.
    ///
    /// # Errors
    /// The timeout ran out, `is_cancelled` became true, or the wait was one of a deadlock.
    pub fn lock(
        self: &Arc<ObjectLocks>,
        resource: Resource,
        session: SessionId,
        mode: LockMode,
        patience: Patience,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<ObjectLock, LockError> {
        let mut state = self.state.lock();
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        let request = Request { ticket, session, mode, deadlock_priority: patience.deadlock_priority };
        let queue = state.queues.entry(resource).or_default();
        if queue.admits(request) {
            queue.granted.push(request);
            return Ok(ObjectLock { locks: Arc::clone(self), resource, ticket });
        }
        queue.waiting.push_back(request);
        // One victim breaks one circle; the request may close several.
        while let Some(victim) = state.victim(request) {
            state.victims.insert(victim.ticket);
            self.released.notify_all();
            if victim.ticket == ticket {
                break;
            }
        }
        let _wait = Wait::begin(mode.wait_type());
        let deadline = patience.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let outcome = if state.victims.contains(&ticket) {
                Some(LockError::Deadlock)
            } else if is_cancelled() {
                Some(LockError::Cancelled)
            } else if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                Some(LockError::Timeout)
            } else {
                None
            };
            let queue = state.queues.get_mut(&resource).expect("a queue with a waiter");
            let granted = outcome.is_none() && queue.admits(request);
            if outcome.is_some() || granted {
                queue.waiting.retain(|waits| waits.ticket != ticket);
            }
            if granted {
                queue.granted.push(request);
                return Ok(ObjectLock { locks: Arc::clone(self), resource, ticket });
            }
            if let Some(error) = outcome {
                state.victims.remove(&ticket);
                state.remove_if_empty(resource);
                self.released.notify_all();
                return Err(error);
            }
            let slice = deadline
                .map_or(CANCEL_CHECK, |deadline| CANCEL_CHECK.min(deadline.saturating_duration_since(Instant::now())));
            self.released.wait_for(&mut state, slice);
        }
    }

    /// The locks that are held (`true`) and waited for (`false`), for `sys.dm_tran_locks`.
    pub fn rows(&self) -> Vec<(DatabaseId, ObjectId, SessionId, LockMode, bool)> {
        let state = self.state.lock();
        let mut rows = Vec::new();
        for ((database, object), queue) in &state.queues {
            let row = |request: &Request, granted| (*database, *object, request.session, request.mode, granted);
            rows.extend(queue.granted.iter().map(|request| row(request, true)));
            rows.extend(queue.waiting.iter().map(|request| row(request, false)));
        }
        rows
    }
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct ObjectLock {
    locks: Arc<ObjectLocks>,
    resource: Resource,
    ticket: u64,
}

impl Drop for ObjectLock {
    fn drop(&mut self) {
        let mut state = self.locks.state.lock();
        let queue = state.queues.get_mut(&self.resource).expect("a queue with a holder");
        queue.granted.retain(|held| held.ticket != self.ticket);
        state.remove_if_empty(self.resource);
        drop(state);
        self.locks.released.notify_all();
    }
}
