//! Hash joins whose build side need not fit into memory.
//!
//! ```text
//!   build side ── fits ─────────────────────────────► HashJoinExec, without files
//!        └─ does not fit: both sides into spill files, by a hash of the keys
//!             file 0 of the build side, file 0 of the other ── fits ──► HashJoinExec
//!             file 1 …                                       └─ does not fit: again, by another hash
//!                                                                 └─ one key has nearly all: sorted, and merged
//! ```
//! A grace hash join (Kitsuregawa 1983). Rows that join are in one pair of files. So a join of any kind is the joins of
//! the pairs, one after the other, each done by the join operator itself. DataFusion's join fails if it gets no memory
//! (upstream issue 24768, so in 55.2).
//!
//! Leaves to others: the join (DataFusion), the memory limit (`memory`), the files
//! (`spill.rs`). Not done here: `NOT IN` with NULLs, which needs all rows together.

mod build;
mod counted;
mod once_stream;
mod split;
mod work;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use futures::TryStreamExt;
use futures::future::FutureExt;
use hobt_base::SqlError;

use super::once::{Common, Once};
use super::stop::Stop;
use counted::Counted;
pub use counted::SPILL_LEVEL;
use hobt_table::StatementRun;
use hobt_udf::sql_error_of;
pub(crate) use once_stream::OnceStreamExec;
pub(super) use split::own_buffers;
use work::{Made, Work};

/// Replaces the hash joins of a plan by joins that can spill.
///
/// # Errors
/// A node rejects its new input.
pub fn spilling(plan: Arc<dyn ExecutionPlan>, run: &Arc<StatementRun>) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let stop = Stop::of(run);
    let made = plan.transform_up(|node| {
        let can_spill = node.downcast_ref::<HashJoinExec>().is_some_and(can_spill);
        Ok(match can_spill {
            true => Transformed::yes(Arc::new(SpillJoinExec::new(node, stop.clone())) as Arc<dyn ExecutionPlan>),
            false => Transformed::no(node),
        })
    });
    made.data().map_err(sql_error_of)
}

fn can_spill(join: &HashJoinExec) -> bool {
    // If the rows have several orders at once, a sort can give only one of them.
    let orders = join.properties().equivalence_properties().oeq_class().len();
    // Pairs of files are given to partitions in turn. If operators above may rely on all rows of a key being in one
    // partition, only a join whose two sides are partitioned by the key keeps that.
    let keeps_promise = *join.partition_mode() == PartitionMode::Partitioned
        || join.properties().output_partitioning().partition_count() == 1
        || matches!(
            join.properties().output_partitioning(),
            Partitioning::RoundRobinBatch(_) | Partitioning::UnknownPartitioning(_)
        );
    !join.null_aware && *join.partition_mode() != PartitionMode::Auto && orders <= 1 && keeps_promise
}

/// A hash join that can spill; plans show it as a [`HashJoinExec`].
#[derive(Debug)]
struct SpillJoinExec {
    /// The join over the two sides.
    join: Arc<dyn ExecutionPlan>,
    stop: Stop,
    /// With one build side for all partitions: the result of reading it.
    common: Common<Made>,
    counted: Counted,
}

impl SpillJoinExec {
    fn new(join: Arc<dyn ExecutionPlan>, stop: Stop) -> SpillJoinExec {
        SpillJoinExec { join, stop, common: Common::default(), counted: Counted::default() }
    }

    fn around(&self, join: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(SpillJoinExec::new(join, self.stop.clone()))
    }

    fn hash_join(&self) -> Result<&HashJoinExec> {
        self.join.downcast_ref::<HashJoinExec>().ok_or_else(|| internal_datafusion_err!("a join that is none"))
    }

    /// The result of reading the one build side.
    fn common(&self, work: &Arc<Work>, context: &Arc<TaskContext>) -> Result<Once<Made>> {
        let join = self.hash_join()?;
        let making = || Ok(Arc::clone(work).made(join.left().execute(0, Arc::clone(context))?));
        self.common.get(join.right().output_partitioning().partition_count(), making)
    }
}

crate::inputs::shows_as!(SpillJoinExec, join);

impl ExecutionPlan for SpillJoinExec {
    crate::inputs::stands_for!(join);

    fn fetch(&self) -> Option<usize> {
        self.join.fetch()
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let join = self.hash_join()?;
        let work = Arc::new(Work::new(&self.join, join, &context, partition, self.stop.clone(), self.counted.clone()));
        let opened = match join.partition_mode() {
            PartitionMode::CollectLeft => {
                let common = self.common(&work, &context)?;
                async move { work.part(common.await.map_err(DataFusionError::Shared)?, partition) }.boxed()
            }
            _ => {
                let build = join.left().execute(partition, Arc::clone(&context))?;
                let probe = join.right().execute(partition, context)?;
                work.whole(build, probe).boxed()
            }
        };
        let stream = futures::stream::once(opened).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.counted.all())
    }
}
