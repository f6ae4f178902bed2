//! Puts operators that end on cancellation into a plan.
//!
//! A task can be stopped only where it yields, and a scan checks for cancellation at each range. A join may compute for
//! minutes on one batch of its input without reaching either. An operator that already has its whole input (groups, a
//! sort, a window) gives out its rows without asking for more. So the output of these operators passes through a
//! [`CancelExec`]. The filter of a join, which may reject every pair so that nothing is passed on, is wrapped in a
//! [`CancelExpr`].

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use hobt_base::SqlError;

use super::again::AgainExec;
use super::cancel::{CancelExec, CancelExpr};
use super::role::{Join, Role, role};
use hobt_table::StatementRun;
use hobt_udf::sql_error_of;

/// The plan with operators that stop when `run` is cancelled. The left side of nested loops becomes readable twice.
///
/// # Errors
/// A join cannot be rebuilt from its parts.
pub fn cancellable(plan: Arc<dyn ExecutionPlan>, run: &Arc<StatementRun>) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let made = plan.transform_up(|node| {
        let inner: Arc<dyn ExecutionPlan> = match role(node.as_ref()) {
            Role::Join(Join::Loops(join)) => Arc::new(NestedLoopJoinExec::try_new(
                Arc::new(AgainExec::left_of(join)),
                Arc::clone(join.right()),
                join.filter().map(|filter| checked(filter, run)),
                join.join_type(),
                join.projection().as_ref().map(|projection| projection.to_vec()),
            )?),
            Role::Join(Join::Hash(join)) => match join.filter() {
                None => Arc::clone(&node),
                Some(filter) => Arc::new(join.builder().with_filter(Some(checked(filter, run))).build()?),
            },
            Role::Join(Join::Ranges(join)) => Arc::new(join.stopping_with(run)),
            // It gives out many batches that it holds, without asking its inputs for more.
            known if known.holds_rows() => Arc::clone(&node),
            _ => return Ok(Transformed::no(node)),
        };
        Ok(Transformed::yes(Arc::new(CancelExec::new(inner, run)) as Arc<dyn ExecutionPlan>))
    });
    made.data().map_err(sql_error_of)
}

fn checked(filter: &JoinFilter, run: &Arc<StatementRun>) -> JoinFilter {
    let expression = CancelExpr::new(Arc::clone(filter.expression()), run);
    JoinFilter::new(Arc::new(expression), filter.column_indices().to_vec(), Arc::clone(filter.schema()))
}
