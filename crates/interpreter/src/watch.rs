//! The state of a batch for its kernels: whether it was cancelled, and the memory left for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_base::SqlError;
use hobt_functions::watch::{Watch, out_of_memory};
use hobt_txn::{MemoryAccount, MemoryBudget};

/// The state shared with all threads that work for a batch.
#[derive(Debug)]
pub(super) struct BatchWatch {
    cancelled: Arc<AtomicBool>,
    account: MemoryAccount,
}

impl BatchWatch {
    /// A batch that takes its memory from `budget`.
    pub(super) fn new(cancelled: &Arc<AtomicBool>, budget: &Arc<MemoryBudget>) -> Arc<BatchWatch> {
        let account = MemoryAccount::new(budget, "Values");
        Arc::new(BatchWatch { cancelled: Arc::clone(cancelled), account })
    }
}

impl Watch for BatchWatch {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn grow(&self, bytes: u64) -> Result<(), SqlError> {
        self.account.grow(bytes).map_err(|_| out_of_memory(bytes))
    }

    fn shrink(&self, bytes: u64) {
        self.account.shrink(bytes);
    }
}
