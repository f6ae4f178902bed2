//! Joins that a hint forces into nested loops without an index to seek in: each row is compared with each. Also notes
//! properties of the plan that are lost once its sides are repartitioned and its sorts are placed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

use super::rule::IndexJoinRule;
use crate::expected::Expectations;
use hobt_operators::all_conditions;
use hobt_table::JoinWay;

/// Replaces hash joins by nested loops if a hint forces loops and no index serves the join. It runs before the rows of
/// a join's sides are repartitioned, because loops need another partitioning.
#[derive(Debug)]
pub struct ForcedLoopRule {
    way: JoinWay,
    had_sorts: Arc<AtomicBool>,
}

impl ForcedLoopRule {
    /// The rule that runs before `indexes` for the same plan.
    pub fn before(indexes: &IndexJoinRule) -> ForcedLoopRule {
        ForcedLoopRule { way: indexes.way, had_sorts: Arc::clone(&indexes.had_sorts) }
    }
}

impl PhysicalOptimizerRule for ForcedLoopRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let has_sorts = plan.exists(|node| Ok(node.is::<SortExec>() || node.is::<SortPreservingMergeExec>()))?;
        self.had_sorts.store(has_sorts, Ordering::Relaxed);
        let (indexes, estimates) = (IndexJoinRule::new(self.way), Expectations::default());
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            // `NOT IN` with NULLs and a further condition is left to DataFusion.
            let is_known = !join.null_aware || join.filter().is_none();
            let is_looked_up =
                || Ok::<_, DataFusionError>(!join.null_aware && indexes.has_candidate(join, &estimates)?);
            if !is_known || !indexes.forces_loops(join) || is_looked_up()? {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(Arc::new(loops(join)?) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    crate::named_rule!("hobt_forced_loop");
}

/// The join as nested loops.
fn loops(join: &HashJoinExec) -> Result<NestedLoopJoinExec> {
    let projection = join.projection.as_ref().map(|projection| projection.to_vec());
    let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    NestedLoopJoinExec::try_new(left, right, all_conditions(join)?, join.join_type(), projection)
}
