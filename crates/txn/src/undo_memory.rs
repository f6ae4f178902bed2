//! The memory of a transaction's undo actions, and of what is kept for its end.
//!
//! It comes from the instance's budget in steps, before a row is changed, so that a transaction of many rows fails with
//! error 701 and the process does not. How much a change takes is known only afterwards. If it is more than a step
//! holds, it is taken all the same, and the budget gives nothing more until it is returned. Sizes are estimates: the
//! allocator's overhead is in them as a constant.
//!
//! Versions are in one account for all transactions ([`crate::Transactions`]).

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::{MemoryAccount, MemoryBudget, OutOfMemory};

/// The bytes of a step.
const BYTES_AT_ONCE: u64 = 64 << 10;
/// The bytes that must be left of a step before a row is changed: more than the change of a row takes, unless it is
/// long.
const BYTES_LEFT: u64 = 16 << 10;
/// Bytes of an action beside what it has captured: its box, and its entry in a list that grows by doubling.
pub(crate) const ACTION_BYTES: usize = 96;
/// The account of one transaction.
#[derive(Debug, Default)]
pub(crate) struct UndoMemory {
    /// Set by its first statement.
    account: OnceLock<MemoryAccount>,
    /// The part of the account that is in use.
    used: AtomicU64,
}

impl UndoMemory {
    /// Sets the budget, unless one is set.
    pub(crate) fn is_of(&self, budget: &Arc<MemoryBudget>) {
        self.account.get_or_init(|| MemoryAccount::new(budget, "Transactions"));
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Makes sure that there is memory for the next change.
    ///
    /// # Errors
    /// The budget has too little left.
    pub(crate) fn reserve(&self) -> Result<(), OutOfMemory> {
        match self.account.get().filter(|account| account.held() < self.used() + BYTES_LEFT) {
            Some(account) => account.grow(BYTES_AT_ONCE),
            None => Ok(()),
        }
    }

    /// Adds `bytes` to what is in use.
    pub(crate) fn take(&self, bytes: usize) {
        let used = self.used.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        if let Some(account) = self.account.get() {
            account.overdraw(used.saturating_sub(account.held()));
        }
    }

    /// Takes `bytes` from what is in use; the account keeps them for what comes.
    pub(crate) fn give_back(&self, bytes: usize) {
        let less = |used: u64| Some(used.saturating_sub(bytes as u64));
        let _always = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Returns all but `bytes`, which were in use at the savepoint to which the transaction was rolled back.
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

    #[test]
    fn what_the_budget_does_not_have_is_refused_before_and_taken_behind() {
        let budget = MemoryBudget::new(100 << 10);
        let memory = UndoMemory::default();
        memory.take(1 << 30);
        memory.shrink_to(0);
        assert_eq!(budget.used(), 0, "nobody has said where it comes from");
        memory.is_of(&budget);
        memory.reserve().expect("a step fits");
        memory.reserve().expect("it is there");
        memory.take(10);
        assert_eq!((memory.used(), budget.used()), (10, BYTES_AT_ONCE));
        memory.take(90 << 10);
        assert_eq!(budget.used(), (90 << 10) + 10);
        let refused = memory.reserve().expect_err("no further step fits");
        assert_eq!(refused.requested, BYTES_AT_ONCE);
        memory.shrink_to(10);
        assert_eq!((memory.used(), budget.used()), (10, 10));
        memory.reserve().expect("it is back");
        drop(memory);
        assert_eq!(budget.used(), 0);
    }
}
