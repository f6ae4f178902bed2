//! Keeps projections above merge joins.
//!
//! DataFusion's merge join lets a projection through to its sides but keeps the column positions of its filter, which
//! then refer to other columns. It also takes a column behind those of the left side for one of the right side; a semi
//! join may not have such a column.
//!
//! So each merge join is wrapped in a fence while projections are pushed down. Columns that are not read have been
//! removed long before, in the logical plan.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::SortMergeJoinExec;

use hobt_operators::FenceExec;

/// A rule that pushes projections down, made safe for plans with merge joins.
#[derive(Debug)]
pub struct FencedProjectionRule {
    pushes: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl FencedProjectionRule {
    /// Wraps the rule `pushes`.
    pub fn around(pushes: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> FencedProjectionRule {
        FencedProjectionRule { pushes }
    }
}

impl PhysicalOptimizerRule for FencedProjectionRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let fenced = plan.transform_up(|node| match node.is::<SortMergeJoinExec>() {
            true => Ok(Transformed::yes(Arc::new(FenceExec::new(node)) as Arc<dyn ExecutionPlan>)),
            false => Ok(Transformed::no(node)),
        })?;
        let pushed = self.pushes.optimize(fenced.data, config)?;
        if !fenced.transformed {
            return Ok(pushed);
        }
        let bare = pushed.transform_up(|node| match node.downcast_ref::<FenceExec>() {
            Some(fence) => Ok(Transformed::yes(Arc::clone(fence.fenced()))),
            None => Ok(Transformed::no(node)),
        });
        bare.data()
    }

    fn name(&self) -> &str {
        self.pushes.name()
    }

    fn schema_check(&self) -> bool {
        self.pushes.schema_check()
    }
}
