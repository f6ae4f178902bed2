//! Whether each row of a change's target comes of its query for itself, whatever the other rows are.
//!
//! Where it does, a row that others are changing can be shown to the query without harm to the rest: it comes, or it
//! does not. Where it does not, it could keep others out that would be there if it were not, or bring them in.

use std::sync::Arc;

use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{JoinType, LogicalPlan};

use crate::execute::UnseenRows;
use crate::source::HeapTable;

/// Whether it does in a plan, of which the target is the source with this list of rows. What is not known to be so is
/// taken not to be.
pub(super) fn is_row_by_row(plan: &LogicalPlan, target: &Arc<UnseenRows>) -> bool {
    passes(plan, target, false)
}

/// `takes_some`: what stands above takes some of the plan's rows, and not all.
fn passes(plan: &LogicalPlan, target: &Arc<UnseenRows>, takes_some: bool) -> bool {
    let below = |input: &LogicalPlan, takes_some| passes(input, target, takes_some);
    match plan {
        LogicalPlan::TableScan(_) => is_target(plan, target),
        LogicalPlan::Projection(projection) => below(&projection.input, takes_some),
        LogicalPlan::SubqueryAlias(alias) => below(&alias.input, takes_some),
        LogicalPlan::Filter(filter) => below(&filter.input, true),
        LogicalPlan::Sort(sort) => (sort.fetch.is_none() || !takes_some) && below(&sort.input, takes_some),
        // One that is not among the first keeps none out of them; one that is comes of the query, if nothing behind
        // takes it away.
        LogicalPlan::Limit(limit) => !takes_some && below(&limit.input, takes_some),
        LogicalPlan::Join(join) => match (reads(&join.left, target), reads(&join.right, target)) {
            (true, false) => !decides_right(join.join_type) && below(&join.left, true),
            (false, true) => !decides_left(join.join_type) && below(&join.right, true),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a join's left rows come or do not come as there are right ones. With outer joins a row comes without the
/// other side, and that is none of the target's.
fn decides_left(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark)
}

fn decides_right(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark)
}

fn reads(plan: &LogicalPlan, target: &Arc<UnseenRows>) -> bool {
    is_target(plan, target) || plan.inputs().into_iter().any(|input| reads(input, target))
}

fn is_target(plan: &LogicalPlan, target: &Arc<UnseenRows>) -> bool {
    let LogicalPlan::TableScan(scan) = plan else { return false };
    let Ok(provider) = source_as_provider(&scan.source) else { return false };
    let unseen = provider.downcast_ref::<HeapTable>().and_then(HeapTable::unseen);
    unseen.is_some_and(|unseen| Arc::ptr_eq(unseen, target))
}
