//! Grouping sets forget what is known of their keys.
//!
//! ```text
//!   GROUPING SETS ((a), (b))             Aggregate  (a), (b)        a and b are columns like others
//!     over rows with a = b         ►       Unordered
//!                                            rows with a = b
//! ```
//! Below the grouping two keys may be equal, a key constant, or the rows sorted or spread by it. Above none of that is
//! so, because a set that is without a key has NULL in its column. DataFusion's aggregation hands it on all the same,
//! and drops sorts by such a column. So an operator below hides it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use hobt_operators::{UnorderedExec, replaced};

use crate::rewrite::rewritten;

type Plan = Arc<dyn ExecutionPlan>;

/// Hides what is known of the rows below grouping sets. It runs before the rule that places sorts and exchanges, and
/// what it adds stays: sorts ask again at run time whether their rows have the order.
#[derive(Debug, Default)]
pub(crate) struct GroupingSetsRule;

impl PhysicalOptimizerRule for GroupingSetsRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        rewritten(plan, |node| {
            let groups = node.downcast_ref::<AggregateExec>().filter(|groups| groups.group_expr().has_grouping_set());
            let Some(groups) = groups else { return Ok(None) };
            let hidden: Plan = Arc::new(UnorderedExec::new(Arc::clone(groups.input())));
            replaced(node, groups.input(), &hidden).map(Some)
        })
    }

    crate::named_rule!("hobt_grouping_sets");
}
