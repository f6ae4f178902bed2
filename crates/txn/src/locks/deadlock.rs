//! Deadlocks: circles of sessions that wait for each other.
//!
//! Only a wait that begins can close a circle, so the search starts there, and no monitor thread is needed. (A session
//! with several workers can also close one by a lock that it is granted while another of its workers waits. Then the
//! search starts there.) The searching thread holds the mutex of the list of waits, so searches run one after the
//! other. It locks one table at a time.
//!
//! Why a circle that is put together from several tables is real: the search follows 51 -> 52 only if 51's wait, which
//! was in the list when the search began, is still in its queue and 52 blocks it. Then it reads 52's wait. A session
//! that waited from before the search until its wait was read held all its locks all that time. So if the search comes
//! back to its start, the whole circle existed when the search began. No circle can be missed: the last of its waits
//! that was put into the list saw all the others.

use hobt_instruments::planted::{self, Bug};
use hobt_instruments::schedule;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use hobt_base::SessionId;

use super::slot::{Outcome, WaitRecord, Waits};
use super::{LockManager, LockMode, LockOwnerKind, LockResource, LockStatus};

/// How many graphs are kept.
const GRAPHS: usize = 10;

/// A deadlock that was found and ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockGraph {
    /// When it was found.
    pub at: SystemTime,
    /// The sessions that waited, in the order of the circle: each for the next, the last for the first.
    pub processes: Vec<DeadlockProcess>,
    /// What they waited for, each resource once.
    pub resources: Vec<DeadlockResource>,
}

impl DeadlockGraph {
    /// The process that was chosen to fail.
    pub fn victim(&self) -> Option<&DeadlockProcess> {
        self.processes.iter().find(|process| process.is_victim)
    }
}

/// One session of a deadlock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockProcess {
    /// Its session.
    pub session: SessionId,
    /// Which of the session's owners asked for the lock.
    pub owner: LockOwnerKind,
    /// Whether it was chosen to fail.
    pub is_victim: bool,
    /// `DEADLOCK_PRIORITY`.
    pub deadlock_priority: i8,
    /// Bytes of log that it had written.
    pub log_bytes: u64,
    /// What it waited for.
    pub waits_for: LockResource,
    /// In which mode.
    pub mode: LockMode,
    /// For how long.
    pub waited: Duration,
    /// What it ran.
    pub statement: Option<Arc<str>>,
}

/// One resource of a deadlock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockResource {
    /// What it is.
    pub resource: LockResource,
    /// The requests of its holders and waiters, including sessions that are not part of the deadlock.
    pub requests: Vec<DeadlockRequest>,
}

/// A session's request for a resource of a deadlock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadlockRequest {
    /// The session.
    pub session: SessionId,
    /// The mode held, or waited for.
    pub mode: LockMode,
    /// Which of the two.
    pub status: LockStatus,
}

/// A session on the path of the search, with those of its waits and blockers that were not followed yet.
struct Step<'a> {
    open: Vec<(&'a WaitRecord, SessionId)>,
    /// The wait that is followed at this step.
    taken: Option<&'a WaitRecord>,
}

impl LockManager {
    /// Breaks every circle that `session` is part of, each by one victim. `waits` is the whole list, locked.
    pub(super) fn break_circles(&self, waits: &Waits, session: SessionId) {
        while let Some(circle) = self.circle(waits, session).filter(|_| !planted::has(Bug::DeadlocksNotSeen)) {
            let victim = victim_of(&circle);
            let graph = self.graph(&circle, victim);
            // It may have given up meanwhile: then the next search does not find this circle.
            if self.take_out(victim, Some(Outcome::Victim)) {
                self.deadlock_count.fetch_add(1, Ordering::Relaxed);
                let mut graphs = self.graphs.lock();
                if graphs.len() == GRAPHS {
                    graphs.pop_front();
                }
                graphs.push_back(Arc::new(graph));
            }
        }
    }

    /// The waits of a circle through `session`, found by a depth-first search.
    fn circle<'a>(&self, waits: &'a Waits, session: SessionId) -> Option<Vec<&'a WaitRecord>> {
        let mut seen = HashSet::from([session]);
        let mut path = vec![Step { open: self.edges(waits, session), taken: None }];
        while let Some(step) = path.last_mut() {
            let Some((record, blocker)) = step.open.pop() else {
                path.pop();
                continue;
            };
            step.taken = Some(record);
            if blocker == session {
                return Some(path.iter().filter_map(|step| step.taken).collect());
            }
            if seen.insert(blocker) {
                path.push(Step { open: self.edges(waits, blocker), taken: None });
            }
        }
        None
    }

    /// The sessions that a session waits for now, each with the wait through which it does.
    fn edges<'a>(&self, waits: &'a Waits, session: SessionId) -> Vec<(&'a WaitRecord, SessionId)> {
        let mut edges = Vec::new();
        for record in waits.get(&session).into_iter().flatten() {
            edges.extend(self.blockers(record).1.into_iter().map(|blocker| (record, blocker)));
        }
        edges
    }

    /// The mode that a wait is for, if it is not decided yet, and the sessions that block it, each once.
    pub(super) fn blockers(&self, record: &WaitRecord) -> (Option<LockMode>, Vec<SessionId>) {
        let mut sessions = Vec::with_capacity(8);
        let queues = self.tables.lock(&record.resource);
        let waits = queues.get(&record.resource).and_then(|queue| queue.blockers(&record.slot));
        let mode = waits.map(|(mode, blockers)| {
            sessions.extend(blockers);
            mode
        });
        drop(queues);
        sessions.sort_unstable();
        sessions.dedup();
        (mode, sessions)
    }

    fn graph(&self, circle: &[&WaitRecord], victim: &WaitRecord) -> DeadlockGraph {
        let now = schedule::now();
        let process = |record: &&WaitRecord| DeadlockProcess {
            session: record.owner.session(),
            owner: record.owner.kind(),
            is_victim: Arc::ptr_eq(&record.slot, &victim.slot),
            deadlock_priority: record.deadlock_priority,
            log_bytes: record.owner.log_bytes(),
            waits_for: record.resource,
            mode: self.blockers(record).0.unwrap_or(record.mode),
            waited: now.saturating_duration_since(record.since),
            statement: record.owner.statement(),
        };
        let mut resources: Vec<LockResource> = Vec::new();
        for record in circle {
            if !resources.contains(&record.resource) {
                resources.push(record.resource);
            }
        }
        DeadlockGraph {
            at: SystemTime::now(),
            processes: circle.iter().map(process).collect(),
            resources: resources.into_iter().map(|resource| self.resource_of_graph(resource)).collect(),
        }
    }

    fn resource_of_graph(&self, resource: LockResource) -> DeadlockResource {
        let mut requests = Vec::with_capacity(16);
        if let Some(queue) = self.tables.lock(&resource).get(&resource) {
            let request = |(session, mode, status)| DeadlockRequest { session, mode, status };
            requests.extend(queue.requests().map(|seen| request((seen.owner.session(), seen.mode, seen.status))));
        }
        DeadlockResource { resource, requests }
    }

    /// The number of deadlocks so far. Each has one victim.
    pub fn deadlock_count(&self) -> u64 {
        self.deadlock_count.load(Ordering::Relaxed)
    }

    /// The last ten deadlocks, the latest last.
    pub fn deadlocks(&self) -> Vec<Arc<DeadlockGraph>> {
        self.graphs.lock().iter().cloned().collect()
    }
}

/// The victim of a circle: the one of lowest priority, then the one that has written least, then the youngest.
fn victim_of<'a>(circle: &[&'a WaitRecord]) -> &'a WaitRecord {
    let cost = |record: &&WaitRecord| {
        let owner = &record.owner;
        (record.deadlock_priority, owner.log_bytes(), Reverse(owner.begun()), Reverse(record.since))
    };
    circle.iter().copied().min_by_key(|record| cost(record)).expect("a circle has members")
}
