//! Which joins have a filter: hash joins that output no row of their probe side without a partner, where a scan below
//! has the compared column.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::joins::HashJoinExec;

use super::push::{Pushed, Pusher, over};
use hobt_operators::{Join, JoinFilter, KeyTapExec, Role, Tapped, is_exchange, role};
use hobt_table::has_number;

type Plan = Arc<dyn ExecutionPlan>;

/// Adds filters to joins. It runs after all rules that change joins or scans.
#[derive(Debug, Default)]
pub struct JoinFilterRule;

impl PhysicalOptimizerRule for JoinFilterRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        filtered(&mut Pusher::default(), &plan)
    }

    crate::named_rule!("hobt_join_filter");
}

/// The plan with the filters of its joins.
fn filtered(pusher: &mut Pusher, plan: &Plan) -> Result<Plan> {
    let mut plan = Arc::clone(plan);
    let mut children = Vec::new();
    let is_looked_up = matches!(role(plan.as_ref()), Role::Join(Join::Lookup(_)));
    for (at, child) in plan.children().into_iter().enumerate() {
        // The join of an index join is done after its outer side.
        children.push(if is_looked_up && at == 1 { Arc::clone(child) } else { filtered(pusher, child)? });
    }
    let is_new = plan.children().into_iter().zip(&children).any(|(old, new)| !Arc::ptr_eq(old, new));
    if is_new {
        plan = over(&plan, children)?;
    }
    if is_looked_up {
        let made = pusher.beside_outer(&plan, |pusher, join| filtered(pusher, join).map(Some))?;
        return Ok(made.unwrap_or(plan));
    }
    match role(plan.as_ref()) {
        Role::Join(Join::Hash(join)) if leaves_alone_out(join) && !is_grouped_first(join) => {
            with_filters(pusher, &plan, join)
        }
        _ => Ok(plan),
    }
}

/// Whether rows of the probe side, the right one, make no difference if they have no partner.
fn leaves_alone_out(join: &HashJoinExec) -> bool {
    let is_so = matches!(
        join.join_type(),
        JoinType::Inner
            | JoinType::Left
            | JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::LeftMark
            | JoinType::RightSemi
    );
    is_so && !join.null_aware
}

/// Whether the probe side was grouped before the join because few of its rows have no partner. Its scan makes the
/// groups on its pages, unless it has a filter.
fn is_grouped_first(join: &HashJoinExec) -> bool {
    let grouping = join.right().downcast_ref::<AggregateExec>();
    grouping.is_some_and(|grouping| *grouping.mode() == AggregateMode::Partial)
}

fn with_filters(pusher: &mut Pusher, plan: &Plan, join: &HashJoinExec) -> Result<Plan> {
    let (mut left, mut right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    let mut tapped = Vec::new();
    let rows = Some(pusher.rows_of(&left));
    for (build, probe) in join.on() {
        let key_type = build.data_type(&left.schema())?;
        if !has_number(&key_type) || probe.data_type(&right.schema())? != key_type {
            continue;
        }
        let nulls_are_equal = join.null_equality() == NullEquality::NullEqualsNull;
        let filter = Arc::new(JoinFilter::new(name_of(probe), key_type, nulls_are_equal));
        let pushed = Pushed { filter: Arc::clone(&filter), key: Arc::clone(probe), rows };
        if let Some(taken) = pusher.push(&right, &pushed)? {
            right = taken;
            tapped.push(Tapped { key: Arc::clone(build), filter });
        }
    }
    if tapped.is_empty() {
        return Ok(Arc::clone(plan));
    }
    left = tap(&left, tapped)?;
    over(plan, vec![left, right])
}

/// Puts a tap below the exchanges of a plan: there all partitions have ended before any partition above has.
fn tap(plan: &Plan, tapped: Vec<Tapped>) -> Result<Plan> {
    match plan.children()[..] {
        [child] if is_exchange(plan) => {
            let child = tap(child, tapped)?;
            over(plan, vec![child])
        }
        _ => Ok(Arc::new(KeyTapExec::new(Arc::clone(plan), tapped))),
    }
}

fn name_of(key: &Arc<dyn PhysicalExpr>) -> String {
    key.downcast_ref::<Column>().map_or_else(|| key.to_string(), |column| column.name().to_owned())
}
