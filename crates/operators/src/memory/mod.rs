//! Memory of operators: its source, the admission of statements to it, and the place to spill.
//!
//! ```text
//!   plan ── what its operators will keep, by the estimates ──► OperatorMemory: waits under RESOURCE_SEMAPHORE
//!                                                                   └─ a grant ─► StatementPool ─► operators
//! ```
//! Sorts, hash tables and windows reserve memory from their statement's [`StatementPool`], which draws on the
//! instance's budget. If a reservation is refused, the operator spills, or the statement ends with error 701. The grant
//! is guaranteed. Memory beyond the grant is lent as long as it is not granted to another statement, so a low estimate
//! costs a spill only if other statements need the memory (docs/design/0033).
//!
//! A plan's memory needs are computed in the planner (`explain/memory.rs`), the files are in `spill`.

mod operator_memory;
mod pool;
mod semaphore;
mod sizes;
mod wish;

use std::sync::Arc;

use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use hobt_base::{SqlError, errors};
use hobt_engine::Instance;

use super::spill::SpillFactory;
use hobt_udf::sql_error_of;
pub use operator_memory::Cancelled;
pub use operator_memory::{MemoryGrant, MemoryRequest, OperatorMemory};
#[cfg(test)]
pub(crate) use pool::pool_of;
pub use semaphore::{ResourceSemaphore, SemaphoreShown};
pub use sizes::Sizes;
pub use wish::MemoryWish;

/// The name of the operators' memory in the instance's memory statistics.
const CLERK: &str = "Operators";

/// The runtime of all operators of an instance: its memory, and an empty folder to spill into, on the instance's disk.
///
/// # Errors
/// 5123 if the folder, or a file in it, cannot be created.
pub fn operators_runtime(instance: &Instance, memory: &Arc<OperatorMemory>) -> Result<Arc<RuntimeEnv>, SqlError> {
    let spills = instance.spills();
    spills.prepare().map_err(|error| errors::SPILL_FOLDER.with([&spills.folder().display(), &error]))?;
    let disk = DiskManagerBuilder::default().with_temp_file_factory(Arc::new(SpillFactory::new(spills)));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(memory.pool_of_all()).with_disk_manager_builder(disk);
    runtime.build_arc().map_err(sql_error_of)
}
