//! What the operators of all statements have together, and who waits for it, as
//! `sys.dm_exec_query_resource_semaphores` shows it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::operator_memory::OperatorMemory;

/// The memory of all operators of an instance, for who wants to see how it stands.
#[derive(Clone, Debug)]
pub struct ResourceSemaphore(Arc<OperatorMemory>);

/// How it stands at one moment. In bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SemaphoreShown {
    /// All that there is for operators.
    pub total: u64,
    /// What nobody was promised or lent.
    pub available: u64,
    /// What was promised to the statements that are in.
    pub granted: u64,
    /// What operators hold, what they were lent beyond their grants among it.
    pub used: u64,
    /// How many statements are in, and how many wait.
    pub grantees: u64,
    /// See `grantees`.
    pub waiters: u64,
    /// How many have got the least they asked for, although there was not that much.
    pub forced: u64,
}

impl ResourceSemaphore {
    pub(in crate::interpreter) fn of(memory: &Arc<OperatorMemory>) -> ResourceSemaphore {
        ResourceSemaphore(Arc::clone(memory))
    }

    /// How it stands now.
    pub fn shown(&self) -> SemaphoreShown {
        let memory = &self.0;
        let (grantees, waiters, granted, forced) = memory.counts();
        let held = memory.budget.clerks().into_iter().filter(|(name, _)| *name == super::CLERK);
        SemaphoreShown {
            total: memory.total(),
            available: memory.total().saturating_sub(memory.claimed.load(Ordering::Relaxed)),
            granted,
            used: held.map(|(_, bytes)| bytes).sum(),
            grantees,
            waiters,
            forced,
        }
    }
}
