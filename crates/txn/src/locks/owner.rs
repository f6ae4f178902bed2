//! Owners of locks: a transaction or a session, with what it holds.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hobt_base::{SessionId, Stamp};
use hobt_instruments::schedule::Mutex;

use super::counts::HobtCounts;
use super::statistics::Granted;
use super::{LockMode, LockResource, RangeLockers};

/// The kind of an owner of locks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockOwnerKind {
    /// A transaction, or a statement without one, by its id.
    Transaction(u64),
    /// A session: what it locks may outlast its transactions.
    Session,
}

impl LockOwnerKind {
    /// `request_owner_type` of `sys.dm_tran_locks`.
    pub const fn name(self) -> &'static str {
        match self {
            LockOwnerKind::Transaction(_) => "TRANSACTION",
            LockOwnerKind::Session => "SESSION",
        }
    }

    /// The transaction's id.
    pub const fn transaction(self) -> Option<u64> {
        match self {
            LockOwnerKind::Transaction(id) => Some(id),
            LockOwnerKind::Session => None,
        }
    }
}

/// An owner of locks. It lives in its transaction or session and is shared with every lock that it holds. The code that
/// created it must call [`LockManager::release_all`](super::LockManager::release_all) in the end, or neither the locks
/// nor the owner are ever freed.
///
/// Requests of one session never wait for each other, whichever of its owners makes them. Many threads may lock for one
/// owner at once (a statement's workers).
pub struct LockOwner {
    session: SessionId,
    kind: LockOwnerKind,
    begun: Stamp,
    log_bytes: AtomicU64,
    statement: Mutex<Option<Arc<str>>>,
    held: Mutex<Held>,
    /// Whether a lock of the owner has escalated. If not, `held` need not be checked for covering locks.
    has_escalated: AtomicBool,
}

/// What an owner holds.
#[derive(Default)]
pub(super) struct Held {
    /// In the order in which they were granted, each once. The modes are in the tables.
    pub(super) locks: Vec<LockResource>,
    pub(super) hobts: HobtCounts,
    /// The trees of which it has locked ranges.
    pub(super) ranges: Vec<Arc<RangeLockers>>,
}

impl LockOwner {
    /// An owner that holds nothing. `begun` tells which of two owners is the younger in a deadlock.
    pub fn new(session: SessionId, kind: LockOwnerKind, begun: Stamp) -> Arc<LockOwner> {
        Arc::new(LockOwner {
            session,
            kind,
            begun,
            log_bytes: AtomicU64::new(0),
            statement: Mutex::default(),
            held: Mutex::default(),
            has_escalated: AtomicBool::new(false),
        })
    }

    /// Its session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Its kind.
    pub fn kind(&self) -> LockOwnerKind {
        self.kind
    }

    /// When it began, as a stamp in the order of all owners.
    pub fn begun(&self) -> Stamp {
        self.begun
    }

    /// The bytes of log that it has written so far: what is lost if it is chosen as a deadlock's victim.
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Relaxed)
    }

    /// Counts bytes of log.
    pub fn add_log_bytes(&self, bytes: u64) {
        self.log_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Begins a statement. Its text is for deadlock graphs. Row locks count towards escalation from 0 again.
    pub fn begin_statement(&self, text: Option<Arc<str>>) {
        *self.statement.lock() = text;
        self.held.lock().hobts.begin_statement();
    }

    /// What it holds, in the order in which it was granted: `DATABASE` before `OBJECT` before `KEY`, if they were asked
    /// for in that order.
    pub fn held(&self) -> Vec<LockResource> {
        self.held.lock().locks.clone()
    }

    /// How many resources it holds.
    pub fn held_count(&self) -> usize {
        self.held.lock().locks.len()
    }

    pub(super) fn statement(&self) -> Option<Arc<str>> {
        self.statement.lock().clone()
    }

    /// Whether a lock on a container of `resource`, acquired by escalation, makes a lock on `resource` unnecessary.
    pub(super) fn covers(&self, resource: &LockResource, mode: LockMode) -> bool {
        // Set by this owner, before the call that got the larger lock returned. A thread that does not see it yet does
        // not depend on it.
        if !self.has_escalated.load(Ordering::Relaxed) {
            return false;
        }
        let Some(hobt) = resource.escalates_in() else { return false };
        self.held.lock().hobts.covers(hobt, mode)
    }

    /// Notes a lock that was granted. Returns whether it is time to escalate.
    pub(super) fn note_granted(&self, resource: LockResource, mode: LockMode) -> bool {
        let mut held = self.held.lock();
        held.locks.push(resource);
        let is_page = matches!(resource, LockResource::Page(..));
        resource.escalates_in().is_some_and(|hobt| held.hobts.granted(hobt, mode, is_page))
    }

    /// Notes a stronger mode of a lock.
    pub(super) fn note_converted(&self, resource: &LockResource, mode: LockMode) {
        if let Some(hobt) = resource.escalates_in()
            && !mode.only_reads()
        {
            self.held.lock().hobts.changes(hobt);
        }
    }

    /// Notes that a lock is gone.
    pub(super) fn note_released(&self, resource: &LockResource) {
        let mut held = self.held.lock();
        // What is released before the end is mostly what was locked last.
        if let Some(index) = held.locks.iter().rposition(|lock| lock == resource) {
            held.locks.remove(index);
        }
        match resource.escalates_in() {
            Some(hobt) => held.hobts.released(hobt),
            None => held.hobts.larger_lock_released(resource),
        }
    }

    /// Takes out everything that it holds, and the counts of what it was granted since the last call.
    pub(super) fn take_held(&self) -> (Vec<LockResource>, Vec<Granted>) {
        let mut held = self.held.lock();
        let granted = std::mem::take(&mut held.hobts).into_granted();
        self.has_escalated.store(false, Ordering::Relaxed);
        (std::mem::take(&mut held.locks), granted)
    }

    pub(super) fn with_held<R>(&self, body: impl FnOnce(&mut Held) -> R) -> R {
        body(&mut self.held.lock())
    }

    pub(super) fn set_escalated(&self) {
        self.has_escalated.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("LockOwner");
        text.field("session", &self.session)
            .field("kind", &self.kind)
            .field("begun", &self.begun)
            .finish_non_exhaustive()
    }
}
