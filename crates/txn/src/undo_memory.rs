//! The memory that a transaction's changes take until it has ended: actions that take them back, and versions for
//! readers.
//!
//! It comes from the instance's budget in steps, before a row is changed, so that a transaction of many rows fails with
//! error 701 in place of the process. What a change has then taken is known behind it: more than a step holds is taken
//! all the same, and nobody gets more before it is back. Sizes are estimates: what the allocator adds is in them as a
//! constant.
//!
//! Versions that are needed behind the end, by readers that are open for long, are in an account of all
//! ([`crate::Transactions`]).

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::{MemoryAccount, MemoryBudget, NoRoom, VersionsFull};

/// Taken at once for what is to come.
const BYTES_AT_ONCE: u64 = 64 << 10;
/// What has to be left of that before a row is changed: more than one takes, but for long ones.
const BYTES_LEFT: u64 = 16 << 10;
/// What an action takes beside what it has captured: its box, and its place in a list that grows by doubling.
pub(crate) const ACTION_BYTES: usize = 48;
/// What a version of a heap's row takes beside the row's values: its place in a list that grows by doubling.
pub(crate) const VERSION_BYTES: usize = 72;
/// What a version of a key takes beside the key and the row's values: a place in the map, and one in the writer's list.
pub(crate) const KEY_VERSION_BYTES: usize = 160;

/// The account of one transaction.
#[derive(Debug, Default)]
pub(crate) struct UndoMemory {
    /// From its first statement on.
    account: OnceLock<MemoryAccount>,
    /// How much of what the account holds is in use.
    used: AtomicU64,
}

impl UndoMemory {
    /// Says where memory comes from, unless that is known.
    pub(crate) fn is_of(&self, budget: &Arc<MemoryBudget>) {
        self.account.get_or_init(|| MemoryAccount::new(budget, "Transactions"));
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Makes sure that there is memory for the next change. `may_take` is asked if some has to be taken for that.
    ///
    /// # Errors
    /// The budget has too little left, or what `may_take` returns.
    pub(crate) fn reserve(&self, may_take: impl FnOnce() -> Result<(), VersionsFull>) -> Result<(), NoRoom> {
        let due = self.account.get().filter(|account| account.held() < self.used() + BYTES_LEFT);
        let Some(account) = due else { return Ok(()) };
        may_take()?;
        Ok(account.grow(BYTES_AT_ONCE)?)
    }

    /// Notes what is in use from now on.
    pub(crate) fn take(&self, bytes: usize) {
        let used = self.used.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        if let Some(account) = self.account.get() {
            account.overdraw(used.saturating_sub(account.held()));
        }
    }

    /// Gives back all but `bytes`: what was in use at a place to which the transaction was rolled back.
    pub(crate) fn shrink_to(&self, bytes: u64) {
        self.used.fetch_min(bytes, Ordering::Relaxed);
        if let Some(account) = self.account.get() {
            account.shrink(account.held().saturating_sub(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OutOfMemory;

    #[test]
    fn what_the_budget_does_not_have_is_refused_before_and_taken_behind() {
        let budget = MemoryBudget::new(100 << 10);
        let memory = UndoMemory::default();
        memory.take(1 << 30);
        memory.shrink_to(0);
        assert_eq!(budget.used(), 0, "nobody has said where it comes from");
        memory.is_of(&budget);
        memory.reserve(|| Ok(())).expect("a step fits");
        memory.reserve(|| unreachable!("nothing has to be taken")).expect("it is there");
        memory.take(10);
        assert_eq!((memory.used(), budget.used()), (10, BYTES_AT_ONCE));
        memory.take(90 << 10);
        assert_eq!(budget.used(), (90 << 10) + 10);
        let full = VersionsFull { bytes: 2, bytes_max: 1 };
        assert_eq!(memory.reserve(|| Err(full)), Err(NoRoom::Versions(full)));
        let refused = memory.reserve(|| Ok(())).expect_err("no further step fits");
        assert!(matches!(refused, NoRoom::Memory(OutOfMemory { requested: BYTES_AT_ONCE, .. })), "{refused:?}");
        memory.shrink_to(10);
        assert_eq!((memory.used(), budget.used()), (10, 10));
        memory.reserve(|| Ok(())).expect("it is back");
        drop(memory);
        assert_eq!(budget.used(), 0);
    }
}
