//! Has a scan leave out rows that come behind those that a `TOP … ORDER BY` above it already has
//! ([`TopFilter`](hobt_operators::TopFilter)).

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use hobt_operators::{TopFilter, replaced, trace};

type Plan = Arc<dyn ExecutionPlan>;

/// Gives the conditions of sorts to the scans below them. It runs after all rules that change sorts or scans.
#[derive(Debug, Default)]
pub(crate) struct TopFilterRule;

impl PhysicalOptimizerRule for TopFilterRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|node| {
            let made = node.downcast_ref::<SortExec>().and_then(|sort| topped(&node, sort));
            Ok(made.map_or_else(|| Transformed::no(Arc::clone(&node)), Transformed::yes))
        })
        .data()
    }

    crate::named_rule!("hobt_top_filter");
}

/// The sort over a scan that knows its condition; `None` if it has none, or no scan has the column.
fn topped(node: &Plan, sort: &SortExec) -> Option<Plan> {
    sort.fetch()?;
    let condition = sort.dynamic_expressions_produced().into_iter().next()?;
    let first = sort.expr().first();
    let (leaf, columns) = trace(sort.input(), vec![Some(Arc::clone(&first.expr))])?;
    let column = columns.into_iter().next()??;
    let scan = leaf.scan()?;
    if leaf.is_order_used || !TopFilter::follows(leaf.table.table(), &column) {
        return None;
    }
    let filter = TopFilter { condition, column, nulls_first: first.options.nulls_first };
    let fewer: Plan = Arc::new(scan.topped(filter));
    replaced(node, &leaf.plan, &fewer).ok()
}
