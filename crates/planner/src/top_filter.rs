//! Has rows left out below a `TOP … ORDER BY` that come behind those that it already has: by the scan
//! ([`TopFilter`](hobt_operators::TopFilter)), and then those of a batch that the same batch has enough of before
//! ([`RankLimitExec`]). The sort compares whole rows, one by one; that costs much if each is better than all before.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use hobt_operators::{RankLimit, RankLimitExec, TopFilter, replaced, trace};

type Plan = Arc<dyn ExecutionPlan>;

/// Gives the conditions of sorts to the scans below them. It runs after all rules that change sorts or scans.
#[derive(Debug, Default)]
pub(crate) struct TopFilterRule;

impl PhysicalOptimizerRule for TopFilterRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|node| {
            let Some(top) = node.downcast_ref::<SortExec>().and_then(SortExec::fetch) else {
                return Ok(Transformed::no(node));
            };
            let node = node.downcast_ref::<SortExec>().and_then(|sort| topped(&node, sort)).unwrap_or(node);
            let limited = node.downcast_ref::<SortExec>().and_then(|sort| limited(&node, sort, top));
            Ok(Transformed::yes(limited.unwrap_or(node)))
        })
        .data()
    }

    crate::named_rule!("hobt_top_filter");
}

/// The sort over few rows of each batch; `None` if its first column or the number of rows is not for that.
fn limited(node: &Plan, sort: &SortExec, limit: usize) -> Option<Plan> {
    let rank = RankLimit { partition_by: Vec::new(), order: sort.expr().first().clone(), limit, is_dense: false };
    let fewer: Plan = Arc::new(RankLimitExec::new(Arc::clone(sort.input()), rank)?);
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(node).replace_children(vec![fewer], options).ok()
}

/// The sort over a scan that knows its condition; `None` if it has none, or no scan has the column.
fn topped(node: &Plan, sort: &SortExec) -> Option<Plan> {
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
