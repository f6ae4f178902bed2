//! The memory of operators: where it comes from, where they spill, and what a statement is let in with.
//!
//! ```text
//!   plan ── what its operators will keep, by the estimates ──► OperatorMemory: waits under RESOURCE_SEMAPHORE
//!                                                                   └─ a grant ─► StatementPool ─► operators
//! ```
//! Sorts, hash tables and windows reserve what they keep from their statement's [`StatementPool`], which draws on the
//! instance's budget; what is refused there is spilled, or ends the statement with error 701. The grant is certain.
//! More than the grant is lent as long as nobody else was promised it, so that an estimate that was too low costs a
//! spill only where others want the memory (docs/design/0033).
//!
//! Leaves to others: what a plan wants (`execute/explain/memory.rs`), the files (`spill`).

mod operator_memory;
mod pool;
mod semaphore;
mod sizes;

use std::sync::Arc;

use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use hobt_base::{SqlError, number};
use hobt_engine::Instance;

use super::spill::SpillFactory;
use crate::wrap::sql_error_of;
pub(super) use operator_memory::{MemoryGrant, MemoryRequest, OperatorMemory};
#[cfg(test)]
pub(crate) use pool::pool_of;
pub use semaphore::{ResourceSemaphore, SemaphoreShown};
pub(super) use sizes::Sizes;

/// Under which name of the instance's memory operators hold theirs.
const CLERK: &str = "Operators";

/// What all operators of an instance run with: its memory, and a clean folder to spill into, on the instance's disk.
///
/// # Errors
/// 5123: the folder cannot be made, or nothing can be made in it.
pub(super) fn operators_runtime(
    instance: &Instance,
    memory: &Arc<OperatorMemory>,
) -> Result<Arc<RuntimeEnv>, SqlError> {
    let spills = instance.spills();
    spills.prepare().map_err(|error| {
        let text = format!(
            "The folder '{}', which sorts and joins spill into, cannot be used: {error}. Let the account of this process \
             write there, and move away what is in its place and no folder.",
            spills.folder().display()
        );
        SqlError::new(number::CANNOT_CREATE_FILE, text)
    })?;
    let disk = DiskManagerBuilder::default().with_temp_file_factory(Arc::new(SpillFactory::new(spills)));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(memory.pool_of_all()).with_disk_manager_builder(disk);
    runtime.build_arc().map_err(sql_error_of)
}
