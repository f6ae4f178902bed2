//! `TOP n … ORDER BY` with a large n.
//!
//! A sort with a row limit keeps the best rows so far in memory, with the batches that they came in, and cannot spill.
//! If the limit is so large that they may not fit, all rows are sorted instead, on disk if need be, and cut off
//! afterwards. A grouping that keeps only the first groups is treated likewise if the limit is large.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;

/// The most groups for a grouping with a limit. It allocates tables for ten times as many before the first row, which
/// are in no memory account.
const GROUPS_MAX: usize = 10_000;

/// The plan in which no sort keeps more than `rows_max` rows in memory, and no grouping allocates tables of that size.
///
/// # Errors
/// An operator refuses its new input.
pub fn sort_large_tops(plan: Arc<dyn ExecutionPlan>, rows_max: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let sorted = plan.transform_up(|node| {
        if let Some(groups) = node.downcast_ref::<AggregateExec>() {
            // The operator above takes only the first groups anyway.
            let is_large = groups.limit_options().is_some_and(|limit| limit.limit() > GROUPS_MAX.min(rows_max));
            return Ok(match is_large {
                true => Transformed::yes(Arc::new(groups.with_new_limit_options(None)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            });
        }
        let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
        Ok(match sort.fetch() {
            Some(rows) if rows > rows_max => {
                let whole = Arc::new(sort.with_fetch(None));
                Transformed::yes(Arc::new(LocalLimitExec::new(whole, rows)) as Arc<dyn ExecutionPlan>)
            }
            _ => Transformed::no(node),
        })
    })?;
    Ok(sorted.data)
}
