//! The lock manager: SQL Server's resources and modes, fair queues, and immediate detection of deadlocks.
//!
//! ```text
//!   LockOwner (a transaction, a session)        64 tables, each behind its spinlock
//!     held: DATABASE, OBJECT, KEY, KEY, …         resource -> granted | conversions | line
//!         │ lock(owner, resource, mode)              ▲
//!         └──────────────────────────────────────────┘
//!               refused: wait in line, on its own slot
//! ```
//!
//! A lock without a conflict costs one spinlock, one entry in a hash table and one in its owner's list. Two sessions
//! that lock different rows share nothing. A release grants the lock to the waiting requests that it unblocks, and
//! wakes only their threads. See `docs/design/0015-locks.md` for the decisions.
//!
//! | file | what |
//! |---|---|
//! | `mode` | which modes are compatible, what two modes of one owner combine to |
//! | `resource` | what can be locked, and its texts |
//! | `counts` | how many small locks an owner has of each HOBT |
//! | `owner` | owners of locks, and what they hold |
//! | `queue` | one resource's holders and waiters: which request blocks which |
//! | `range` | which transactions have locked ranges of keys |
//! | `table` | where the queues are |
//! | `slot` | what a thread waits on, the list of all waits |
//! | `wait` | waiting: timeout, cancellation |
//! | `deadlock` | circles of waiters, their victims, their graphs |
//! | `escalation` | many small locks for one large one |
//! | `rows` | what views show |
//! | `statistics` | lock counts and waits of each heap and tree |
//!
//! Lock order inside: the list of waits, then one table. An owner's list of what it holds is never locked together with
//! either.
//!
//! Left to others: which locks a statement needs, in which order, and when they are released.

mod counts;
mod deadlock;
mod escalation;
mod mode;
mod owner;
mod queue;
mod range;
mod resource;
mod rows;
mod slot;
mod statistics;
mod table;
mod wait;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hobt_base::{DatabaseId, HobtId};
use hobt_instruments::primitives;
use hobt_instruments::rank::{self, Rank, Ranked, RankedGuard};
use hobt_instruments::schedule::Mutex;

pub use counts::{FIRST_ATTEMPT, NEXT_ATTEMPT};
pub use deadlock::{DeadlockGraph, DeadlockProcess, DeadlockRequest, DeadlockResource};
pub use escalation::Escalation;
pub use mode::LockMode;
pub use owner::{LockOwner, LockOwnerKind};
pub use queue::LockStatus;
pub use range::RangeLockers;
pub use resource::{KeyHash, LockResource};
pub use rows::{LockRow, LockWait};
pub use statistics::{HobtLocks, LockTotal};

use queue::{Answer, Released};
use slot::Waits;
use table::Tables;

/// Why a lock was not granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockError {
    /// `LOCK_TIMEOUT` ran out: error 1222.
    Timeout,
    /// The statement was cancelled.
    Cancelled,
    /// Its wait was part of a deadlock, and it was chosen as the victim: error 1205.
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

/// How long a statement waits for a lock, and how it ranks as a deadlock's victim.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Patience {
    /// `LOCK_TIMEOUT`; `None` waits for ever, zero not at all.
    pub timeout: Option<Duration>,
    /// `DEADLOCK_PRIORITY`, -10 to 10: the lowest of a circle is the victim.
    pub deadlock_priority: i8,
}

/// A lock that was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// What the owner held of the resource before.
    pub kind: GrantKind,
    /// Whether it had to wait: what was read before the lock may have changed.
    pub waited: bool,
    /// Whether the owner has so many small locks of one HOBT by now that [`LockManager::escalate`] is worth trying.
    pub escalation_due: bool,
}

/// What an owner held of a resource before a lock of it was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrantKind {
    /// Nothing.
    New,
    /// A lock that excludes no less: one more is counted.
    Again,
    /// A weaker lock, whose mode is now the combination of both.
    Converted,
    /// A lock on a container of the resource, acquired by escalation. Nothing was locked, and nothing has to be
    /// released.
    Covered,
}

/// The number of `APPLICATION` names from which on the names of resources that are not locked are dropped.
const NAMES: usize = 256;
/// How much of a name views show, in characters.
const NAME_LENGTH: usize = 32;

/// The locks of an instance.
pub struct LockManager {
    tables: Tables,
    waits: primitives::Mutex<Waits>,
    /// The most recent deadlocks, the latest last.
    graphs: Mutex<VecDeque<Arc<DeadlockGraph>>>,
    deadlock_count: AtomicU64,
    /// The first characters of the names of `APPLICATION` resources.
    names: Ranked<Mutex<HashMap<LockResource, Box<str>>>>,
    statistics: statistics::Statistics,
}

impl Default for LockManager {
    fn default() -> LockManager {
        LockManager {
            tables: Tables::new(),
            waits: primitives::Mutex::default(),
            graphs: Mutex::default(),
            deadlock_count: AtomicU64::new(0),
            names: Ranked::new(Rank::LockNames, Mutex::default()),
            statistics: statistics::Statistics::default(),
        }
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").finish_non_exhaustive()
    }
}

impl LockManager {
    /// Locks a resource for an owner, waiting for conflicting locks. The owner holds it until as many calls of
    /// [`LockManager::release`], or one of [`LockManager::release_all`].
    ///
    /// # Errors
    /// The timeout ran out, `is_cancelled` became true, or the wait was part of a deadlock. What the owner held before
    /// it still holds.
    pub fn lock(
        &self,
        owner: &Arc<LockOwner>,
        resource: LockResource,
        mode: LockMode,
        patience: Patience,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Grant, LockError> {
        match self.try_lock(owner, resource, mode) {
            Some(grant) => Ok(grant),
            None if patience.timeout == Some(Duration::ZERO) => Err(LockError::Timeout),
            None => self.wait_for(owner, resource, mode, patience, is_cancelled),
        }
    }

    /// Locks a resource if no lock or waiting request conflicts. Does not wait.
    pub fn try_lock(&self, owner: &Arc<LockOwner>, resource: LockResource, mode: LockMode) -> Option<Grant> {
        debug_assert!(
            if let LockResource::Key(..) = resource { mode.is_for_keys() } else { !mode.is_range() },
            "{mode} on {resource}"
        );
        if owner.covers(&resource, mode) {
            return Some(Grant { kind: GrantKind::Covered, waited: false, escalation_due: false });
        }
        let answer = self.request(owner, resource, mode, None);
        self.note(owner, resource, mode, answer)
    }

    /// Locks a resource until the guard is dropped; otherwise as [`LockManager::lock`].
    ///
    /// # Errors
    /// As [`LockManager::lock`].
    pub fn hold(
        self: &Arc<LockManager>,
        owner: &Arc<LockOwner>,
        resource: LockResource,
        mode: LockMode,
        patience: Patience,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<HeldLock, LockError> {
        self.lock(owner, resource, mode, patience, is_cancelled)?;
        Ok(HeldLock { manager: Arc::clone(self), owner: Arc::clone(owner), resource })
    }

    /// Undoes one call of [`LockManager::lock`]. The owner holds the resource until all calls are undone, in the
    /// strongest mode that any of them asked for. Returns `false` if the owner does not hold it.
    pub fn release(&self, owner: &Arc<LockOwner>, resource: &LockResource) -> bool {
        let released = self.release_from_table(owner, resource, false);
        if released == Released::Gone {
            owner.note_released(resource);
        }
        released != Released::NotHeld
    }

    /// Releases everything that the owner holds, the last first. No other thread may lock for it any more.
    pub fn release_all(&self, owner: &Arc<LockOwner>) {
        let (held, granted) = owner.take_held();
        for resource in held.iter().rev() {
            let released = self.release_from_table(owner, resource, true);
            debug_assert_eq!(released, Released::Gone, "what the owner's list has is held");
        }
        self.statistics.add_granted(&granted);
        owner.locks_ranges_no_more();
    }

    /// The mode in which the owner holds a resource.
    pub fn mode_held(&self, owner: &Arc<LockOwner>, resource: &LockResource) -> Option<LockMode> {
        self.tables.lock(resource).get(resource).and_then(|queue| queue.mode_of(owner))
    }

    /// Whether no other session holds a lock of the resource that excludes `mode`. Locks nothing, and ignores waiting
    /// requests.
    pub fn is_free_for(&self, owner: &LockOwner, resource: &LockResource, mode: LockMode) -> bool {
        self.tables.lock(resource).get(resource).is_none_or(|queue| queue.is_free_for(owner.session(), mode))
    }

    /// The lock statistics of a heap or tree.
    pub fn hobt_locks(&self, database: DatabaseId, hobt: HobtId) -> HobtLocks {
        self.statistics.0.of(database, hobt)
    }

    /// Counts an attempt to exchange the locks in a heap or tree for a larger one.
    pub(crate) fn note_promotion(&self, database: DatabaseId, hobt: HobtId, is_done: bool) {
        self.statistics.0.change(database, hobt, |locks| {
            locks.promotion_attempts += 1;
            locks.promotions += u64::from(is_done);
        });
    }

    /// Drops the statistics of heaps and trees that are gone.
    pub fn forget_hobts(&self, is_gone: impl Fn(DatabaseId, HobtId) -> bool) {
        self.statistics.0.forget(is_gone);
    }

    /// The resource of a name that applications agree on. Names are compared byte for byte.
    pub fn application(&self, database: DatabaseId, principal: i32, name: &str) -> LockResource {
        let resource = LockResource::Application(database, principal, resource::hash_of(name.as_bytes()));
        let mut names = self.names.lock();
        // Cleaned up whenever it is as full as its capacity, which doubles if all names are in use.
        if names.len() == names.capacity().max(NAMES) && !names.contains_key(&resource) {
            names.retain(|known, _| self.tables.lock(known).contains_key(known));
        }
        names.entry(resource).or_insert_with(|| name.chars().take(NAME_LENGTH).collect::<String>().into());
        resource
    }

    fn lock_waits(&self) -> RankedGuard<primitives::MutexGuard<'_, Waits>> {
        rank::wait_for(Rank::LockWaits, || self.waits.lock())
    }

    fn description(&self, resource: &LockResource) -> String {
        match resource {
            LockResource::Application(..) => {
                resource.description_named(self.names.lock().get(resource).map_or("", |name| name))
            }
            _ => resource.description(),
        }
    }

    /// Notes a granted lock with its owner; `None` if nothing was granted.
    fn note(&self, owner: &Arc<LockOwner>, resource: LockResource, mode: LockMode, answer: Answer) -> Option<Grant> {
        let (kind, escalation_due, passed) = match answer {
            Answer::New { passed } => (GrantKind::New, owner.note_granted(resource, mode), passed),
            Answer::Again => (GrantKind::Again, false, false),
            Answer::Converted { mode, passed } => {
                owner.note_converted(&resource, mode);
                (GrantKind::Converted, false, passed)
            }
            Answer::Refused | Answer::NeedsCrowd => return None,
        };
        if passed {
            let waits = self.lock_waits();
            self.break_circles(&waits, owner.session());
        }
        Some(Grant { kind, waited: false, escalation_due })
    }

    /// Releases one of the owner's requests, or with `all` all of them, and grants the resource to requests that waited
    /// for that.
    fn release_from_table(&self, owner: &Arc<LockOwner>, resource: &LockResource, all: bool) -> Released {
        let mut wake = Vec::new();
        let mut queues = self.tables.lock(resource);
        let Some(queue) = queues.get_mut(resource) else { return Released::NotHeld };
        let released = queue.release(owner, all);
        if released == Released::Gone {
            queue.grant_waiting(&mut wake);
        }
        let empty = queue.is_empty().then(|| queues.remove(resource));
        drop(queues);
        drop(empty);
        wake.iter().for_each(|slot| slot.wake());
        released
    }
}

/// A lock that is held until it is dropped, or until its owner releases everything.
#[derive(Debug)]
pub struct HeldLock {
    manager: Arc<LockManager>,
    owner: Arc<LockOwner>,
    resource: LockResource,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.manager.release(&self.owner, &self.resource);
    }
}
