//! Hides what DataFusion takes to be known of the rows of grouping sets and joins, and is not so.
//!
//! ```text
//!   GROUPING SETS ((a), (b))       t FULL JOIN                    hash join
//!     Unordered                      t                              Unordered
//!       rows with a = b              Unordered                        build side in order of b
//!                                      rows with k = 5              probe side in order of p
//!   a and b are as any others      k is 5 or NULL                 rows in order of p, not of p, b
//! ```
//! - Below grouping sets two keys may be equal, a key constant, or the rows sorted or spread by it. Above none of that
//!   is so, because a set that is without a key has NULL in its column.
//! - The columns of an outer join's side whose rows may be missing are NULL then. Columns that are equal stay equal,
//!   but none stays constant, and none stays equal to an expression such as `COALESCE(a, 0)`.
//! - A join gives the rows of one side in their order, each with its partners in theirs. The order of both together
//!   would only be the order of the rows if no two rows of the first side were equal in it.
//!
//! Sorts by such columns would be dropped, and groupings by them end a group wherever the value changes. An operator
//! that hides something stays in the plan: sorts and groupings ask again later, and when they run, whether their rows
//! have the order.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinSide, Result};
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use hobt_operators::{Hides, UnorderedExec, replaced};

use crate::rewrite::rewritten;

type Plan = Arc<dyn ExecutionPlan>;

/// Hides what is untrue before the rule that places sorts and exchanges.
#[derive(Debug, Default)]
pub(crate) struct UntrueRule;

impl PhysicalOptimizerRule for UntrueRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        rewritten(plan, |node| {
            if let Some(groups) = node.downcast_ref::<AggregateExec>() {
                let has_sets = groups.group_expr().has_grouping_set();
                return if has_sets { hidden(node, groups.input(), Hides::All).map(Some) } else { Ok(None) };
            }
            let Some(join_type) = join_type(node) else { return Ok(None) };
            let mut hiding = None;
            for (side, input) in [JoinSide::Left, JoinSide::Right].into_iter().zip(node.children()) {
                let may_be_missing = match side {
                    JoinSide::Left => matches!(join_type, JoinType::Right | JoinType::Full),
                    _ => matches!(join_type, JoinType::Left | JoinType::Full),
                };
                let hides = match may_be_missing && has_fixed_values(input) {
                    true => Hides::Values,
                    false if side == JoinSide::Left && mixes_orders(node) => Hides::Order,
                    false => continue,
                };
                hiding = Some(hidden(hiding.as_ref().unwrap_or(node), input, hides)?);
            }
            Ok(hiding)
        })
    }

    crate::named_rule!("hobt_untrue");
}

/// Hides the orders that build sides have got since, for the groupings and sorts that ask when they run.
#[derive(Debug, Default)]
pub(crate) struct UntrueOrderRule;

impl PhysicalOptimizerRule for UntrueOrderRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        rewritten(plan, |node| match mixes_orders(node) {
            true => hidden(node, node.children()[0], Hides::Order).map(Some),
            false => Ok(None),
        })
    }

    crate::named_rule!("hobt_untrue_order");
}

fn hidden(node: &Plan, input: &Plan, hides: Hides) -> Result<Plan> {
    let hidden: Plan = Arc::new(UnorderedExec::new(Arc::clone(input), hides));
    replaced(node, input, &hidden)
}

fn join_type(node: &Plan) -> Option<JoinType> {
    let hash = node.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    let merge = || node.downcast_ref::<SortMergeJoinExec>().map(|join| join.join_type());
    let loops = || node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type());
    hash.or_else(merge).or_else(loops)
}

/// Whether a column is known to have one value, or to equal something that is not a column.
fn has_fixed_values(side: &Plan) -> bool {
    let known = side.equivalence_properties();
    !known.constants().is_empty() || known.eq_group().iter().any(|class| class.iter().any(|expr| !expr.is::<Column>()))
}

fn has_order(side: &Plan) -> bool {
    !side.equivalence_properties().oeq_class().is_empty()
}

/// Whether a hash join would add the order of its build side to that of its probe side, which may get one later.
fn mixes_orders(node: &Plan) -> bool {
    let join = node.downcast_ref::<HashJoinExec>();
    join.is_some_and(|join| matches!(join.join_type(), JoinType::Inner | JoinType::Right) && has_order(join.left()))
}
