//! Which nested loops become range joins: those whose condition bounds a value of one side by a value of the other,
//! unless the build side is known to have only a few rows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use crate::rewrite::rewritten;
use hobt_operators::RangeJoinExec;

/// The most rows of a build side for which nested loops stay: they compare each with all rows of a batch at once.
const LOOPED_ROWS: usize = 16;

/// Replaces nested loops by range joins. It runs after the rule for index joins.
#[derive(Debug, Default)]
pub struct RangeJoinRule;

impl PhysicalOptimizerRule for RangeJoinRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        rewritten(plan, |node| {
            let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() else { return Ok(None) };
            if has_few_rows(join)? {
                return Ok(None);
            }
            Ok(RangeJoinExec::of(node)?.map(|ranges| Arc::new(ranges) as Arc<dyn ExecutionPlan>))
        })
    }

    crate::named_rule!("hobt_range_join");
}

/// Whether the build side is known, not only estimated, to have a few rows.
fn has_few_rows(join: &NestedLoopJoinExec) -> Result<bool> {
    let known = StatisticsContext::new().compute(join.left().as_ref(), &StatisticsArgs::new())?;
    Ok(matches!(known.num_rows, Precision::Exact(rows) if rows <= LOOPED_ROWS))
}
