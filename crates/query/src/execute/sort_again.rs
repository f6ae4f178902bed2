//! Sorts again what was sorted by what a plan no longer knows.
//!
//! DataFusion chooses sorts where conditions and constants say what is equal: `ORDER BY c0, c1` beside `c1 = 5` sorts
//! by `c0`. Then it lets operators take projections in, and filters and joins forget of what they leave out that it was
//! equal: whatever wants the order finds it missing, and the plan is refused. Here the missing sort is put in.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions};

/// The rule: the last before plans are checked.
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

    fn name(&self) -> &'static str {
        "hobt_sort_again"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// An operator over inputs in the orders that it asks for.
fn sorted(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut inputs: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().map(Arc::clone).collect();
    let mut is_changed = false;
    for (input, wanted) in inputs.iter_mut().zip(plan.required_input_ordering()) {
        let Some(wanted) = wanted else { continue };
        let wanted = wanted.into_single();
        if !input.equivalence_properties().ordering_satisfy_requirement(wanted.clone())? {
            let sort = SortExec::new(LexOrdering::from(wanted), Arc::clone(input));
            let keeps_parts = input.output_partitioning().partition_count() > 1;
            *input = Arc::new(sort.with_preserve_partitioning(keeps_parts));
            is_changed = true;
        }
    }
    if !is_changed {
        return Ok(Transformed::no(plan));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok(Transformed::yes(plan.replace_children(inputs, options)?))
}
