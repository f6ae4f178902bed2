//! Lock escalation: many small locks of one HOBT in exchange for one large one.
//!
//! An owner counts its locks on pages, rows and keys by HOBT. When a statement has been granted [`FIRST_ATTEMPT`] of
//! one HOBT, [`Grant::escalation_due`](super::Grant) says so, and again after each [`NEXT_ATTEMPT`] more. The caller
//! knows to which table the HOBT belongs and what its `LOCK_ESCALATION` is, and decides whether to call
//! [`LockManager::escalate`].
//!
//! Escalation never waits, so it cannot be part of a deadlock. If another lock conflicts, it is refused, and the small
//! locks stay. After it the caller may go on asking for small locks. Those that the large one covers are granted at
//! once.

use std::sync::Arc;

use hobt_base::{DatabaseId, HobtId};

use super::counts::HobtKey;
use super::queue::Released;
use super::{LockManager, LockMode, LockOwner, LockResource};

/// The result of an attempt to escalate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Escalation {
    /// The larger lock was granted, in this mode, and this many small ones were released.
    Done(LockMode, usize),
    /// Another lock conflicts. Nothing has changed.
    Refused,
}

impl LockManager {
    /// Exchanges an owner's locks on pages, rows and keys of `hobts` for one on `larger`, the table or the one HOBT
    /// that contains them: `S` if all of them only read, `X` otherwise. Does not wait. No other thread may lock for the
    /// owner in these HOBTs meanwhile: a lock that it got would stay beside the larger lock until the owner's end.
    pub fn escalate(
        &self,
        owner: &Arc<LockOwner>,
        database: DatabaseId,
        hobts: &[HobtId],
        larger: LockResource,
    ) -> Escalation {
        let is_one = |(of, hobt): HobtKey| of == database && hobts.contains(&hobt);
        let changes = owner.with_held(|held| held.hobts.0.iter().any(|count| is_one(count.hobt) && count.changes));
        let mode = if changes { LockMode::Exclusive } else { LockMode::Shared };
        if self.try_lock(owner, larger, mode).is_none() {
            return Escalation::Refused;
        }
        let small = owner.with_held(|held| {
            for hobt in hobts {
                let count = held.hobts.of((database, *hobt));
                (count.held, count.in_statement, count.changes) = (0, 0, false);
                count.escalated = Some((larger, mode));
            }
            let (small, large) = held.locks.iter().partition(|lock| lock.escalates_in().is_some_and(is_one));
            held.locks = large;
            let small: Vec<LockResource> = small;
            small
        });
        owner.set_escalated();
        for resource in small.iter().rev() {
            let released = self.release_from_table(owner, resource, true);
            debug_assert_eq!(released, Released::Gone, "what the owner's list has is held");
        }
        Escalation::Done(mode, small.len())
    }
}
