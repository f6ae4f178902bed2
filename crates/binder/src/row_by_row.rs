//! Whether the query of a change returns each row of its target independently of the target's other rows.
//!
//! If so, the query can be shown a row that another transaction is changing without affecting other rows: the query
//! returns that row or it does not. Otherwise that row could keep out other rows that the query would return without
//! it, or bring rows in.

use std::sync::Arc;

use datafusion::logical_expr::{JoinType, LogicalPlan};

use hobt_table::{TableRead, UnseenRows};

/// Whether a plan returns each row of the target independently; the target is the source with this list of rows.
/// `false` if this is not certain.
pub(super) fn is_row_by_row(plan: &LogicalPlan, target: &Arc<UnseenRows>) -> bool {
    passes(plan, target, false)
}

/// `takes_some`: whether a node above may drop some of the plan's rows.
fn passes(plan: &LogicalPlan, target: &Arc<UnseenRows>, takes_some: bool) -> bool {
    let below = |input: &LogicalPlan, takes_some| passes(input, target, takes_some);
    match plan {
        LogicalPlan::TableScan(_) => is_target(plan, target),
        LogicalPlan::Projection(projection) => below(&projection.input, takes_some),
        LogicalPlan::SubqueryAlias(alias) => below(&alias.input, takes_some),
        LogicalPlan::Filter(filter) => below(&filter.input, true),
        LogicalPlan::Sort(sort) => (sort.fetch.is_none() || !takes_some) && below(&sort.input, takes_some),
        // A row that is not among the first ones does not displace any. A row among them is returned, unless a node
        // above drops it.
        LogicalPlan::Limit(limit) => !takes_some && below(&limit.input, takes_some),
        LogicalPlan::Join(join) => match (reads(&join.left, target), reads(&join.right, target)) {
            (true, false) => !decides_right(join.join_type) && below(&join.left, true),
            (false, true) => !decides_left(join.join_type) && below(&join.right, true),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a join returns a left row depending on which right rows exist. An outer join also returns rows without the
/// other side, but these are not rows of the target.
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
    let unseen = scan.source.downcast_ref::<TableRead>().and_then(TableRead::unseen);
    unseen.is_some_and(|unseen| Arc::ptr_eq(unseen, target))
}
