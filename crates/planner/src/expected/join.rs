//! Estimates of joins.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use super::{Expectations, Plan, column, expression, other, projected};
use hobt_operators::{Join, Role, role};
use hobt_table::{Equated, Joining, Meeting, Relation, references_between, same_value, sources_of};

type Pair = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// A join, independent of its operator.
struct Sides<'p> {
    left: &'p Plan,
    right: &'p Plan,
    on: &'p [Pair],
    filter: Option<&'p JoinFilter>,
    join_type: JoinType,
    nulls_are_equal: bool,
    projection: Option<&'p [usize]>,
}

/// The rows of a join whose inputs are known.
pub(super) fn joined(plan: &dyn ExecutionPlan, join: Join<'_>, inputs: &[Arc<Relation>]) -> Relation {
    match (join, inputs) {
        (Join::Lookup(_), [_, joined]) => Relation::clone(joined),
        (Join::RowLoops(loops), _) => loops.expected().clone(),
        (_, [left, right]) => sides_of(join).map_or_else(|| other(plan, inputs), |sides| of_sides(&sides, left, right)),
        _ => other(plan, inputs),
    }
}

fn of_sides(join: &Sides<'_>, left: &Relation, right: &Relation) -> Relation {
    let left_count = join.left.schema().fields().len();
    let right = moved(right, |place| Some(place + left_count));
    let of_right = |expr: &Arc<dyn PhysicalExpr>| shifted(expression::logical(expr), left_count);
    let on: Vec<(Expr, Expr)> =
        join.on.iter().map(|(left, right)| (expression::logical(left), of_right(right))).collect();
    let origin = |side: &Relation, expr: &Expr| {
        same_value(expr).and_then(|column| side.columns().get(column)).and_then(|known| known.origin.clone())
    };
    let ends: Vec<_> = on.iter().map(|(one, other)| origin(left, one).zip(origin(&right, other))).collect();
    let known = references_between(&ends).into_iter().zip(Meeting::of_all(&ends)).zip(sources_of(&ends));
    let equated =
        |((left, right), ((reference, meeting), sources))| Equated { left, right, reference, meeting, sources };
    let equations: Vec<Equated<'_>> = on.iter().map(|(left, right)| (left, right)).zip(known).map(equated).collect();
    let filter = join.filter.map(|filter| filter_of(filter, left_count));
    let further: Vec<&Expr> = filter.as_ref().map(split_conjunction).unwrap_or_default();
    let joining = Joining { equations: &equations, further: &further, nulls_are_equal: join.nulls_are_equal };
    let rows = left.joined(&right, join.join_type, joining);
    let rows = match join.join_type {
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            moved(&rows, |place| place.checked_sub(left_count))
        }
        _ => rows,
    };
    match join.projection {
        Some(places) => projected(&rows, places),
        None => rows,
    }
}

/// The estimate of a join that is not yet in a plan; `None` for an operator that does not join.
pub(crate) fn of_join(plan: &dyn ExecutionPlan, known: &Expectations) -> Option<Relation> {
    let Role::Join(join) = role(plan) else { return None };
    sides_of(join).map(|sides| of_sides(&sides, &known.of(sides.left), &known.of(sides.right)))
}

fn nulls_are_equal(equality: NullEquality) -> bool {
    equality == NullEquality::NullEqualsNull
}

/// The sides and conditions of a join; `None` for one whose inner side depends on the outer one.
fn sides_of(join: Join<'_>) -> Option<Sides<'_>> {
    Some(match join {
        Join::Hash(join) => Sides {
            left: join.left(),
            right: join.right(),
            on: join.on(),
            filter: join.filter(),
            join_type: *join.join_type(),
            nulls_are_equal: nulls_are_equal(join.null_equality()),
            projection: join.projection.as_deref(),
        },
        Join::Merge(join) => Sides {
            left: join.left(),
            right: join.right(),
            on: join.on(),
            filter: join.filter().as_ref(),
            join_type: join.join_type(),
            nulls_are_equal: nulls_are_equal(join.null_equality()),
            projection: None,
        },
        Join::Loops(join) => of_loops(join),
        // A range join replaces nested loops, whose sides and filter it keeps.
        Join::Ranges(join) => of_loops(join.loops()),
        Join::Cross(join) => Sides {
            left: join.left(),
            right: join.right(),
            on: &[],
            filter: None,
            join_type: JoinType::Inner,
            nulls_are_equal: false,
            projection: None,
        },
        Join::Lookup(_) | Join::RowLoops(_) => return None,
    })
}

fn of_loops(join: &NestedLoopJoinExec) -> Sides<'_> {
    Sides {
        left: join.left(),
        right: join.right(),
        on: &[],
        filter: join.filter(),
        join_type: *join.join_type(),
        nulls_are_equal: false,
        projection: join.projection().as_deref(),
    }
}

/// The relation with its columns moved to other positions. Columns for which `to` gives `None` are left out.
fn moved(relation: &Relation, to: impl Fn(usize) -> Option<usize>) -> Relation {
    let place = |name: &str| name.parse().ok().and_then(&to);
    let known = relation.columns().iter();
    let columns: HashMap<_, _> =
        known.filter_map(|(name, known)| Some((column(place(&name.name)?), known.clone()))).collect();
    Relation::new(relation.rows, columns)
}

/// An expression whose columns stand `by` positions further on.
fn shifted(expr: Expr, by: usize) -> Expr {
    with_places(expr, |place| place + by)
}

fn with_places(expr: Expr, to: impl Fn(usize) -> usize) -> Expr {
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let moved = expr.clone().transform(|part| {
        Ok(match part {
            Expr::Column(at) => match at.name.parse() {
                Ok(place) => Transformed::yes(Expr::Column(column(to(place)))),
                Err(_) => Transformed::no(Expr::Column(at)),
            },
            other => Transformed::no(other),
        })
    });
    moved.map_or(expr, |moved| moved.data)
}

/// A join's further condition over the columns of both sides.
fn filter_of(filter: &JoinFilter, left_count: usize) -> Expr {
    let places: Vec<usize> = filter
        .column_indices()
        .iter()
        .map(|at| if at.side == JoinSide::Right { at.index + left_count } else { at.index })
        .collect();
    with_places(expression::logical(filter.expression()), |place| places.get(place).copied().unwrap_or(place))
}
