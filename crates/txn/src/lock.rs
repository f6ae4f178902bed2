//! Locks on whole tables, held for a statement.
//!
//! Readers take `IS`, `S` or, under `NOLOCK`, only schema stability; writers `X`; DDL `Sch-M`. Waiting is recorded as
//! `LCK_M_*`. Locks are granted in the order in which they were asked for, so a stream of readers cannot starve a
//! writer. Rows and pages are not locked here.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hobt_base::{DatabaseId, ObjectId, SessionId};
use hobt_sync::{Wait, WaitType};
use parking_lot::{Condvar, Mutex};

/// How a table is locked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockError::Timeout => "Lock request time out period exceeded.",
            LockError::Cancelled => "The statement was cancelled while it waited for a lock.",
        })
    }
}

impl std::error::Error for LockError {}

type Resource = (DatabaseId, ObjectId);

#[derive(Debug, Default)]
struct Queue {
    granted: Vec<(u64, SessionId, LockMode)>,
    waiting: VecDeque<(u64, SessionId, LockMode)>,
}

impl Queue {
    fn admits(&self, session: SessionId, mode: LockMode, ticket: u64) -> bool {
        let free = self.granted.iter().all(|(_, holder, held)| *holder == session || mode.is_compatible(*held));
        let holds = self.granted.iter().any(|(_, holder, _)| *holder == session);
        let first = self
            .waiting
            .iter()
            .take_while(|(waiter, ..)| *waiter != ticket)
            .all(|(_, _, waits)| mode.is_compatible(*waits));
        free && (first || holds)
    }
}

/// The table locks of an instance.
#[derive(Debug, Default)]
pub struct ObjectLocks {
    queues: Mutex<(u64, HashMap<Resource, Queue>)>,
    released: Condvar,
}

/// How often a waiting statement looks whether it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(50);

impl ObjectLocks {
    /// Takes a lock, waiting for its holders; a session does not wait for itself.
    ///
    /// # Errors
    /// The timeout ran out or `is_cancelled` became true.
    pub fn lock(
        self: &Arc<ObjectLocks>,
        resource: Resource,
        session: SessionId,
        mode: LockMode,
        timeout: Option<Duration>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<ObjectLock, LockError> {
        let mut state = self.queues.lock();
        state.0 += 1;
        let ticket = state.0;
        let queue = state.1.entry(resource).or_default();
        if queue.admits(session, mode, ticket) {
            queue.granted.push((ticket, session, mode));
            return Ok(ObjectLock { locks: Arc::clone(self), resource, ticket });
        }
        queue.waiting.push_back((ticket, session, mode));
        let _wait = Wait::begin(mode.wait_type());
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let outcome = if is_cancelled() {
                Some(LockError::Cancelled)
            } else if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                Some(LockError::Timeout)
            } else {
                None
            };
            let queue = state.1.get_mut(&resource).expect("a queue with a waiter");
            let granted = outcome.is_none() && queue.admits(session, mode, ticket);
            if outcome.is_some() || granted {
                queue.waiting.retain(|(waiter, ..)| *waiter != ticket);
            }
            if granted {
                queue.granted.push((ticket, session, mode));
                return Ok(ObjectLock { locks: Arc::clone(self), resource, ticket });
            }
            if let Some(error) = outcome {
                if queue.granted.is_empty() && queue.waiting.is_empty() {
                    state.1.remove(&resource);
                }
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
        let state = self.queues.lock();
        let mut rows = Vec::new();
        for ((database, object), queue) in &state.1 {
            rows.extend(queue.granted.iter().map(|(_, session, mode)| (*database, *object, *session, *mode, true)));
            rows.extend(queue.waiting.iter().map(|(_, session, mode)| (*database, *object, *session, *mode, false)));
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
        let mut state = self.locks.queues.lock();
        let queue = state.1.get_mut(&self.resource).expect("a queue with a holder");
        queue.granted.retain(|(ticket, ..)| *ticket != self.ticket);
        if queue.granted.is_empty() && queue.waiting.is_empty() {
            state.1.remove(&self.resource);
        }
        drop(state);
        self.locks.released.notify_all();
    }
}
