//! Groups in one phase, where each row is nearly a group of its own.
//!
//! ```text
//!   final aggregation                     the only aggregation
//!     spread by the keys          ►         spread by the keys
//!       partial aggregation                   rows
//!         rows
//! ```
//! A partial aggregation that gives nearly as many groups as it gets rows is work for nothing. DataFusion's notices it
//! only after many rows, and hands states on from then, which large inputs are left to. `DISTINCT` inside an aggregate
//! makes such groups.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use crate::expected::rows_of;
use crate::rewrite::rewritten;
use hobt_operators::ROWS_OF_GROUP_MIN;

type Plan = Arc<dyn ExecutionPlan>;

/// The most rows, as expected: were the groups few after all, more would be spread for nothing.
const ROWS_MAX: f64 = 1e6;

/// Drops partial aggregations that leave nearly all rows apart. It runs after all rules that change aggregations.
#[derive(Debug, Default)]
pub(crate) struct OnePhaseRule;

impl PhysicalOptimizerRule for OnePhaseRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        rewritten(plan, at_once)
    }

    crate::named_rule!("hobt_one_phase");
}

/// The final aggregation `node` as the only one; `None` if it is none, or its partial one is worth its work.
fn at_once(node: &Plan) -> Result<Option<Plan>> {
    let last = node.downcast_ref::<AggregateExec>();
    let Some(last) = last.filter(|last| *last.mode() == AggregateMode::FinalPartitioned) else { return Ok(None) };
    let Some(spread) = last.input().downcast_ref::<RepartitionExec>() else { return Ok(None) };
    let Partitioning::Hash(_, parts) = spread.partitioning() else { return Ok(None) };
    let Some(first) = spread.input().downcast_ref::<AggregateExec>() else { return Ok(None) };
    let is_plain = *first.mode() == AggregateMode::Partial
        && [first, last].iter().all(|each| *each.input_order_mode() == InputOrderMode::Linear)
        && [first, last].iter().all(|each| each.limit_options().is_none())
        && !first.group_expr().has_grouping_set()
        && !spread.preserve_order();
    let (rows, groups) = (rows_of(first.input()), rows_of(spread.input()));
    if !is_plain || rows > ROWS_MAX || groups * ROWS_OF_GROUP_MIN < rows {
        return Ok(None);
    }
    let keys = first.group_expr().expr().iter().map(|(expr, _)| Arc::clone(expr)).collect();
    let rows = RepartitionExec::try_new(Arc::clone(first.input()), Partitioning::Hash(keys, *parts))?;
    let (groups, calls) = (first.group_expr().clone(), first.aggr_expr().to_vec());
    let (conditions, schema) = (first.filter_expr().to_vec(), first.input_schema());
    let mode = AggregateMode::SinglePartitioned;
    let made = AggregateExec::try_new(mode, groups, calls, conditions, Arc::new(rows), schema)?;
    Ok((made.schema() == node.schema()).then(|| Arc::new(made) as Plan))
}
