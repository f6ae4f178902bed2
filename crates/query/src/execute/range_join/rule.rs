//! Which nested loops are made joins by ranges: those whose condition gives a bound of one side's value by the other's,
//! unless it is certain that one side has a few rows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use super::RangeJoinExec;

/// Rows of a build side up to which each is compared with all rows of a batch at once.
const LOOPED_ROWS: usize = 16;

/// Makes nested loops joins by ranges. It comes behind what makes joins look up.
#[derive(Debug, Default)]
pub struct RangeJoinRule;

impl PhysicalOptimizerRule for RangeJoinRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else { return Ok(Transformed::no(node)) };
            if has_few_rows(join)? {
                return Ok(Transformed::no(node));
            }
            Ok(match RangeJoinExec::of(&node)? {
                Some(ranges) => Transformed::yes(Arc::new(ranges) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "hobt_range_join"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether it is known, and not only thought, that the build side has a few rows.
fn has_few_rows(join: &NestedLoopJoinExec) -> Result<bool> {
    let known = StatisticsContext::new().compute(join.left().as_ref(), &StatisticsArgs::new())?;
    Ok(matches!(known.num_rows, Precision::Exact(rows) if rows <= LOOPED_ROWS))
}
