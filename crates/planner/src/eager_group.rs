//! Groups before a join, where the rows of one key do the same in it.
//!
//! ```text
//!   partial aggregation by columns of D             projection: columns of D, states
//!     join D.key = S.key                     ►        join D.key = S.key
//!       D                                               D
//!       S                                               partial aggregation of S by S.key
//! ```
//! All rows of S with one key have the same partners, and so come into the same groups. If they are many, they are
//! aggregated to one row first, which the join hands on; the final aggregation merges states anyway. Yan and Larson
//! ("Eager aggregation and lazy aggregation", VLDB 1995) call it eager group-by.
//!
//! A row that has no partner must not make the statement fail. So only aggregates of columns are taken, since an
//! expression could fail, and only those whose states do not: counts, extremes, and sums that no number of rows makes
//! overflow. Their states have a fixed size too, or that of one value.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};
use hobt_functions::aggregate::AggregateKind;
use hobt_operators::substituted;
use hobt_types::SqlType;
use hobt_udf::SqlAggregate;

use crate::expected::rows_of;
use crate::rewrite::rewritten;

type Plan = Arc<dyn ExecutionPlan>;

/// The least rows of S for a key, as expected: below, to group them costs as much as to join them.
const ROWS_OF_KEY_MIN: f64 = 20.0;
/// The most keys of S: the table of groups should stay in the processor's cache.
const KEYS_MAX: f64 = 100_000.0;
/// The least part of the rows of S that find partners: rows without partners would be grouped for nothing.
const JOINED_SHARE_MIN: f64 = 0.5;
/// The least rows of S.
const ROWS_MIN: f64 = 100_000.0;

/// Groups the probe side of hash joins. It runs after the rules that choose a join's method, and before the one that
/// gives scans filters.
#[derive(Debug, Default)]
pub(crate) struct EagerGroupRule;

impl PhysicalOptimizerRule for EagerGroupRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        rewritten(plan, grouped_first)
    }

    crate::named_rule!("hobt_eager_group");
}

/// The aggregation `node` over a join of groups; `None` if it is no aggregation over a join, or not worth it.
fn grouped_first(node: &Plan) -> Result<Option<Plan>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>().filter(|aggregate| is_plain(aggregate)) else {
        return Ok(None);
    };
    let Some((below, columns)) = join_below(aggregate.input()) else { return Ok(None) };
    let Some(join) = below.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    let (left, right) = (join.left().schema().fields().len(), join.right());
    let over_join = |expr: &Arc<dyn PhysicalExpr>| substituted(expr, &|at| columns.get(at).cloned());
    let groups =
        aggregate.group_expr().expr().iter().map(|(expr, _)| over_join(expr).filter(|expr| is_of_left(expr, left)));
    let Some(groups) = groups.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let Some(calls) = aggregate
        .aggr_expr()
        .iter()
        .map(|call| {
            let all = call.all_expressions();
            let arguments = all.args.iter().map(|argument| of_right(&over_join(argument)?, left));
            (is_safe(call) && all.order_by_exprs.is_empty())
                .then(|| call.with_new_expressions(arguments.collect::<Option<Vec<_>>>()?, Vec::new()).map(Arc::new))?
        })
        .collect::<Option<Vec<_>>>()
    else {
        return Ok(None);
    };
    let rows = rows_of(right);
    if rows < ROWS_MIN || rows_of(below) < rows * JOINED_SHARE_MIN {
        return Ok(None);
    }
    let keys = join.on().iter().enumerate().map(|(at, (_, key))| (Arc::clone(key), format!("key{at}")));
    let keys = PhysicalGroupBy::new_single(keys.collect());
    let key_count = keys.expr().len();
    let none = vec![None; calls.len()];
    let first = AggregateExec::try_new(AggregateMode::Partial, keys, calls, none, Arc::clone(right), right.schema())?;
    let first: Plan = Arc::new(first);
    let expected = rows_of(&first);
    if expected > KEYS_MAX || expected * ROWS_OF_KEY_MIN > rows {
        return Ok(None);
    }
    let schema = first.schema();
    let key = |at: usize| Arc::new(Column::new(schema.field(at).name(), at)) as Arc<dyn PhysicalExpr>;
    let on = join.on().iter().enumerate().map(|(at, (of_left, _))| (Arc::clone(of_left), key(at))).collect();
    let (build, equality) = (Arc::clone(join.left()), join.null_equality());
    let mode = PartitionMode::CollectLeft;
    let joined = HashJoinExec::try_new(build, first, on, None, &JoinType::Inner, None, mode, equality, false)?;
    let (given, joined_schema) = (states_of(aggregate)?.schema(), joined.schema());
    let states = (left + key_count..joined_schema.fields().len())
        .map(|at| Arc::new(Column::new(joined_schema.field(at).name(), at)) as Arc<dyn PhysicalExpr>);
    let exprs = groups.into_iter().chain(states).zip(given.fields().iter());
    let exprs: Vec<ProjectionExpr> =
        exprs.map(|(expr, field)| ProjectionExpr { expr, alias: field.name().clone() }).collect();
    if exprs.len() != given.fields().len() {
        return Ok(None);
    }
    let states: Plan = Arc::new(ProjectionExec::try_new(exprs, Arc::new(joined))?);
    let is_same = states.schema().fields().iter().zip(given.fields()).all(|(a, b)| a.data_type() == b.data_type());
    if !is_same {
        return Ok(None);
    }
    if *aggregate.mode() == AggregateMode::Partial {
        return Ok(Some(states));
    }
    let (groups, calls) = (aggregate.group_expr().as_final(), aggregate.aggr_expr().to_vec());
    let none = vec![None; calls.len()];
    let last = AggregateExec::try_new(AggregateMode::Final, groups, calls, none, states, aggregate.input_schema())?;
    Ok(Some(Arc::new(last)))
}

/// Whether the states of an aggregate cannot fail for rows that have no partner.
fn is_safe(call: &AggregateFunctionExpr) -> bool {
    let function: &dyn Any = call.fun().inner().as_ref();
    let definition = function.downcast_ref::<SqlAggregate>().map(SqlAggregate::aggregate);
    !call.is_distinct()
        && definition.is_some_and(|definition| match definition.kind {
            AggregateKind::Count | AggregateKind::CountBig | AggregateKind::Min | AggregateKind::Max => true,
            // The sum has 38 digits, and there are fewer rows than have ten.
            AggregateKind::Sum | AggregateKind::Avg => match definition.input {
                SqlType::Decimal { precision, .. } => precision <= 28,
                _ => true,
            },
            _ => false,
        })
}

/// The aggregation as one that gives states.
fn states_of(aggregate: &AggregateExec) -> Result<AggregateExec> {
    let (groups, calls) = (aggregate.group_expr().clone(), aggregate.aggr_expr().to_vec());
    let none = vec![None; calls.len()];
    let input = Arc::clone(aggregate.input());
    AggregateExec::try_new(AggregateMode::Partial, groups, calls, none, input, aggregate.input_schema())
}

/// Whether an aggregation is the first, or the only one on one worker, without sets of groups, conditions and limits.
fn is_plain(aggregate: &AggregateExec) -> bool {
    let is_first = match aggregate.mode() {
        AggregateMode::Partial => true,
        AggregateMode::Single => aggregate.input().output_partitioning().partition_count() == 1,
        _ => false,
    };
    is_first
        && *aggregate.input_order_mode() == InputOrderMode::Linear
        && aggregate.limit_options().is_none()
        && !aggregate.group_expr().has_grouping_set()
        && !aggregate.aggr_expr().is_empty()
        && aggregate.filter_expr().iter().all(Option::is_none)
}

/// The inner join without further conditions below projections, and the columns of these as expressions over all
/// columns of both sides.
fn join_below(plan: &Plan) -> Option<(&Plan, Vec<Arc<dyn PhysicalExpr>>)> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let (join, below) = join_below(projection.input())?;
        let over = |item: &ProjectionExpr| substituted(&item.expr, &|at| below.get(at).cloned());
        let columns = projection.expr().iter().map(over).collect::<Option<_>>()?;
        return Some((join, columns));
    }
    let join = plan.downcast_ref::<HashJoinExec>()?;
    let is_taken = *join.join_type() == JoinType::Inner
        && *join.partition_mode() == PartitionMode::CollectLeft
        && join.filter().is_none()
        && join.fetch().is_none();
    let sides = [join.left().schema(), join.right().schema()];
    let all = sides.iter().flat_map(|side| side.fields().iter().cloned()).collect::<Vec<_>>();
    let column = |at: usize| Some(Arc::new(Column::new(all.get(at)?.name(), at)) as Arc<dyn PhysicalExpr>);
    let columns = match &join.projection {
        Some(places) => places.iter().map(|place| column(*place)).collect::<Option<_>>()?,
        None => (0..all.len()).map(column).collect::<Option<_>>()?,
    };
    is_taken.then_some((plan, columns))
}

/// Whether an expression reads columns of the left side alone.
fn is_of_left(expr: &Arc<dyn PhysicalExpr>, left: usize) -> bool {
    collect_columns(expr).iter().all(|column| column.index() < left)
}

/// A constant, or a column of the right side as that side has it.
fn of_right(expr: &Arc<dyn PhysicalExpr>, left: usize) -> Option<Arc<dyn PhysicalExpr>> {
    if expr.is::<Literal>() {
        return Some(Arc::clone(expr));
    }
    let column = expr.downcast_ref::<Column>()?;
    let at = column.index().checked_sub(left)?;
    Some(Arc::new(Column::new(column.name(), at)))
}
