//! The walk that several rules share.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;

type Plan = Arc<dyn ExecutionPlan>;

/// The plan with each operator, from the leaves up, replaced by what `other` gives for it, if anything.
///
/// # Errors
/// Those of `other`.
pub(crate) fn rewritten(plan: Plan, other: impl Fn(&Plan) -> Result<Option<Plan>>) -> Result<Plan> {
    plan.transform_up(|node| {
        Ok(match other(&node)? {
            Some(other) => Transformed::yes(other),
            None => Transformed::no(node),
        })
    })
    .data()
}
