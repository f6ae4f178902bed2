//! Has rows left out before a sort whose ranks a condition rejects: `WHERE place <= 3` over a `ROW_NUMBER()`.
//!
//! The window, its sort and the condition stay. Below the sort a [`RankLimitExec`] leaves out rows that come late in
//! their partition. That is right if nothing between asks for such rows: all functions of the window are ranks in the
//! same order, of which late rows do not change those of earlier ones.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowUDFExpr};
use hobt_operators::{Exchange, Passing, RankLimit, RankLimitExec, Role, replaced, role};
use hobt_udf::{Kernel, Operation};

use crate::rewrite::rewritten;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// Leaves out rows of late ranks before they are sorted.
#[derive(Debug, Default)]
pub(crate) struct RankLimitRule;

impl PhysicalOptimizerRule for RankLimitRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        rewritten(plan, |node| Ok(node.downcast_ref::<FilterExec>().and_then(|filter| limited(node, filter))))
    }

    crate::named_rule!("hobt_rank_limit");
}

/// The filter over rows of which those of late ranks are left out; `None` if it tests no rank.
fn limited(node: &Plan, filter: &FilterExec) -> Option<Plan> {
    let tests = split_conjunction(filter.predicate()).into_iter().filter_map(at_most);
    let limits: Vec<(Expr, usize)> = tests.collect();
    limits.into_iter().find_map(|(rank, limit)| {
        let (windows, place) = window_below(filter.input(), &rank)?;
        let rank = rank_limit(windows, place, limit)?;
        let (rows, rank) = below_sort(windows.input(), rank)?;
        let fewer: Plan = Arc::new(RankLimitExec::new(Arc::clone(rows), rank)?);
        replaced(node, rows, &fewer).ok()
    })
}

/// An expression, and the greatest number that a condition lets it have.
fn at_most(condition: &Expr) -> Option<(Expr, usize)> {
    let comparison = condition.downcast_ref::<BinaryExpr>()?;
    let (expr, op, number) = match (comparison.left(), comparison.right()) {
        (expr, number) if number.is::<Literal>() => (expr, *comparison.op(), number),
        (number, expr) => (expr, comparison.op().swap()?, number),
    };
    let number = number.downcast_ref::<Literal>()?.value().cast_to(&arrow::datatypes::DataType::Int64).ok()?;
    let ScalarValue::Int64(Some(number)) = number else { return None };
    let most = match op {
        Operator::LtEq | Operator::Eq => number,
        Operator::Lt => number.checked_sub(1)?,
        _ => return None,
    };
    // With no rank there are no rows to leave out that the filter would not.
    Some((Arc::clone(expr), usize::try_from(most).ok().filter(|most| *most > 0)?))
}

/// The windows below projections, and which of their columns an expression is, in whatever integer type.
fn window_below<'p>(plan: &'p Plan, expr: &Expr) -> Option<(&'p BoundedWindowAggExec, usize)> {
    if plan.fetch().is_some() {
        return None;
    }
    if let Some(windows) = plan.downcast_ref::<BoundedWindowAggExec>() {
        return Some((windows, plain(expr).downcast_ref::<Column>()?.index()));
    }
    let role = role(plan.as_ref());
    match role {
        Role::Project(_) | Role::Passes(Passing::Yields) => {
            let below = role.over_input(expr)?;
            window_below(plan.children().into_iter().next()?, &below)
        }
        _ => None,
    }
}

/// An expression without conversions around it.
fn plain(expr: &Expr) -> &Expr {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return plain(cast.expr());
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>();
    let operation = call.and_then(|call| Some(call.fun().inner().downcast_ref::<Kernel>()?.operation()));
    match (call, operation) {
        (Some(call), Some(Operation::Nullable(_))) => call.args().first().map_or(expr, plain),
        (Some(call), Some(Operation::Cast { from, to, attempt: false, .. }))
            if from.is_integer() && to.is_integer() =>
        {
            call.args().first().map_or(expr, plain)
        }
        _ => expr,
    }
}

/// What need not be sorted if ranks of the window's column at `place` are at most `limit`.
fn rank_limit(windows: &BoundedWindowAggExec, place: usize, limit: usize) -> Option<RankLimit> {
    let all = windows.window_expr();
    let tested = all.get(place.checked_sub(windows.input().schema().fields().len())?)?;
    let of_order = |window: &Arc<dyn WindowExpr>| {
        let is_alike = window.partition_by().len() == tested.partition_by().len()
            && window.partition_by().iter().zip(tested.partition_by()).all(|(one, other)| one.eq(other))
            && window.order_by() == tested.order_by();
        is_alike && function_name(window.as_ref()).is_some_and(is_rank)
    };
    if !all.iter().all(of_order) {
        return None;
    }
    // Of several ranks the limit is that of the tested one. Rows of equal values all go on, so that it holds for all.
    let order: &PhysicalSortExpr = tested.order_by().first()?;
    let is_dense = function_name(tested.as_ref())? == "dense_rank";
    Some(RankLimit { partition_by: tested.partition_by().to_vec(), order: order.clone(), limit, is_dense })
}

fn is_rank(name: &str) -> bool {
    matches!(name, "row_number" | "rank" | "dense_rank")
}

fn function_name(window: &dyn WindowExpr) -> Option<&str> {
    let function = window.as_any().downcast_ref::<StandardWindowExpr>()?.get_standard_func_expr();
    Some(function.as_any().downcast_ref::<WindowUDFExpr>()?.fun().name())
}

/// The rows that a window's sort gets, before they are spread, and the limit in terms of their columns.
fn below_sort(plan: &Plan, rank: RankLimit) -> Option<(&Plan, RankLimit)> {
    let (mut below, mut rank, mut is_sorted) = (plan, rank, false);
    loop {
        let role = role(below.as_ref());
        match &role {
            Role::Project(_) => rank = over_input(&role, rank)?,
            Role::Sort(sort) if sort.fetch().is_none() => is_sorted = true,
            Role::Exchange(Exchange::Spread(_) | Exchange::Gather) | Role::Passes(Passing::Yields)
                if below.fetch().is_none() => {}
            _ => break,
        }
        below = below.children().into_iter().next()?;
    }
    is_sorted.then_some((below, rank))
}

fn over_input(projection: &Role<'_>, rank: RankLimit) -> Option<RankLimit> {
    let partition_by = rank.partition_by.iter().map(|key| projection.over_input(key)).collect::<Option<_>>()?;
    let order = PhysicalSortExpr { expr: projection.over_input(&rank.order.expr)?, ..rank.order };
    Some(RankLimit { partition_by, order, ..rank })
}
