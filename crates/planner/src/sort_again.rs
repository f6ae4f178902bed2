//! Restores orders that a plan lost after its sorts were chosen.
//!
//! DataFusion drops columns from a sort that conditions and constants make equal: `ORDER BY c0, c1` with `c1 = 5` sorts
//! by `c0`, and `ORDER BY id` with `e + 1 = id` by `e + 1`. Later its filters and joins absorb projections, and keep no
//! equation of an expression or column that they do not pass on. The order that an operator requires is then no longer
//! proven, and the plan is rejected. This rule sorts by the whole order instead of the insufficient sort, or where
//! there is none.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};

/// The rule; it runs last before plans are checked.
#[derive(Debug)]
pub struct SortAgainRule;

impl SortAgainRule {
    /// The name of DataFusion's rule that checks plans.
    pub const BEFORE: &'static str = "SanityCheckPlan";
}

impl PhysicalOptimizerRule for SortAgainRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(sorted).data()
    }

    crate::named_rule!("hobt_sort_again");
}

/// The operator over inputs that have the orders it requires.
fn sorted(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut inputs: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().map(Arc::clone).collect();
    let mut is_changed = false;
    for (input, wanted) in inputs.iter_mut().zip(plan.required_input_ordering()) {
        let Some(wanted) = wanted else { continue };
        let wanted = wanted.into_single();
        if !input.equivalence_properties().ordering_satisfy_requirement(wanted.clone())? {
            // Both orders have the same first rows, so the limit is kept.
            let (rows, fetch) = match input.downcast_ref::<SortExec>() {
                Some(sort) => (Arc::clone(sort.input()), sort.fetch()),
                None => (Arc::clone(input), None),
            };
            let fetch = fetch.or_else(|| plan.downcast_ref::<SortPreservingMergeExec>()?.fetch());
            let keeps_parts = rows.output_partitioning().partition_count() > 1;
            let sort = SortExec::new(LexOrdering::from(wanted), rows).with_preserve_partitioning(keeps_parts);
            *input = Arc::new(sort.with_fetch(fetch));
            is_changed = true;
        }
    }
    if !is_changed {
        return Ok(Transformed::no(plan));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok(Transformed::yes(plan.replace_children(inputs, options)?))
}
