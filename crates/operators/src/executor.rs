//! What the statements of an instance share to run their plans: workers, memory, and the place to spill.

use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use hobt_base::SqlError;
use hobt_engine::Instance;

use crate::memory::{OperatorMemory, operators_runtime};
use crate::workers::WorkerPool;

/// The workers and the memory of an instance's statements.
pub struct Executor {
    workers: WorkerPool,
    runtime: Arc<RuntimeEnv>,
    memory: Arc<OperatorMemory>,
}

impl Executor {
    /// The executor of an instance. Operators use the part of the memory budget that the buffer pool leaves, and spill
    /// into a folder inside the instance's folder.
    ///
    /// # Errors
    /// 5123 if the folder for spilling cannot be used.
    pub fn new(instance: &Instance) -> Result<Executor, SqlError> {
        let memory = OperatorMemory::new(instance.memory());
        let runtime = operators_runtime(instance, &memory)?;
        Ok(Executor { workers: WorkerPool::default(), runtime, memory })
    }

    /// The threads that run plans.
    pub fn workers(&self) -> &WorkerPool {
        &self.workers
    }

    /// The memory of the operators, and the admission of statements to it.
    pub fn memory(&self) -> &Arc<OperatorMemory> {
        &self.memory
    }

    /// The runtime of plans.
    pub fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.runtime
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}
