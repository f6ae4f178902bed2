//! The state of the operators' memory and of the statements waiting for it, as `sys.dm_exec_query_resource_semaphores`
//! shows it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::operator_memory::OperatorMemory;

/// The memory of all operators of an instance, for display.
#[derive(Clone, Debug)]
pub struct ResourceSemaphore(Arc<OperatorMemory>);

/// Its state at one moment. Sizes are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SemaphoreShown {
    /// All memory of the operators.
    pub total: u64,
    /// Memory neither granted nor lent.
    pub available: u64,
    /// The sum of the grants of the admitted statements.
    pub granted: u64,
    /// Memory held by operators, including memory lent beyond their grants.
    pub used: u64,
    /// The number of admitted statements. `waiters` is the number of waiting ones.
    pub grantees: u64,
    /// See `grantees`.
    pub waiters: u64,
    /// How many statements were admitted with their least, although that exceeded the limit.
    pub forced: u64,
}

impl ResourceSemaphore {
    /// The semaphore of an instance's operators.
    pub fn of(memory: &Arc<OperatorMemory>) -> ResourceSemaphore {
        ResourceSemaphore(Arc::clone(memory))
    }

    /// The current state.
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
