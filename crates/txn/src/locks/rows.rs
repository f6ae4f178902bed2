//! The locks and waits that views show.

use hobt_instruments::schedule;
use std::time::Duration;

use hobt_base::SessionId;

use super::{LockManager, LockMode, LockOwnerKind, LockResource, LockStatus};

/// A row of `sys.dm_tran_locks`: a lock that is held or waited for. An owner that converts has two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockRow {
    /// What is locked.
    pub resource: LockResource,
    /// `resource_description`.
    pub description: String,
    /// The owner's session.
    pub session: SessionId,
    /// The owner.
    pub owner: LockOwnerKind,
    /// The mode held, or the one that will be held.
    pub mode: LockMode,
    /// Whether it is held.
    pub status: LockStatus,
    /// How often the owner asked for it and did not release it.
    pub reference_count: u32,
}

/// A wait for a lock: what `sys.dm_os_waiting_tasks` shows, a row for each blocker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockWait {
    /// The session that waits.
    pub session: SessionId,
    /// The session's owner that asked.
    pub owner: LockOwnerKind,
    /// The resource it waits for.
    pub resource: LockResource,
    /// The mode that it will hold.
    pub mode: LockMode,
    /// For how long it has waited.
    pub waited: Duration,
    /// The sessions that hold the resource or are before it in line, in the order of their ids.
    pub blockers: Vec<SessionId>,
}

impl LockManager {
    /// The locks that are held and waited for, in no order. Each table is read at one moment, but not all at the same
    /// moment.
    pub fn rows(&self) -> Vec<LockRow> {
        let mut rows = Vec::new();
        self.tables.each(|table| {
            let mut seen = Vec::new();
            loop {
                let queues = table.lock();
                let count = queues.values().map(|queue| queue.len()).sum();
                // Memory is allocated while the lock is free.
                if seen.capacity() >= count {
                    for (resource, queue) in queues.iter() {
                        let row = |owner: &super::LockOwner| (*resource, owner.session(), owner.kind());
                        seen.extend(queue.requests().map(|seen| (row(seen.owner), seen.mode, seen.status, seen.count)));
                    }
                    break;
                }
                drop(queues);
                seen.reserve(count * 2);
            }
            rows.extend(seen.into_iter().map(|((resource, session, owner), mode, status, reference_count)| {
                let description = self.description(&resource);
                LockRow { resource, description, session, owner, mode, status, reference_count }
            }));
        });
        rows
    }

    /// The waits for locks, with the sessions that block them.
    pub fn waits(&self) -> Vec<LockWait> {
        let now = schedule::now();
        let waits = self.lock_waits();
        let mut rows = Vec::new();
        for record in waits.values().flatten() {
            let (mode, blockers) = self.blockers(record);
            // Without a mode the wait is over.
            let Some(mode) = mode else { continue };
            let (session, owner, resource) = (record.owner.session(), record.owner.kind(), record.resource);
            let waited = now.saturating_duration_since(record.since);
            rows.push(LockWait { session, owner, resource, mode, waited, blockers });
        }
        rows
    }
}
