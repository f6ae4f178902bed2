//! Estimates of joins.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use super::{Expectations, Plan, column, expression, projected};
use hobt_operators::{IndexJoinExec, RangeJoinExec, RowLoopsExec};
use hobt_table::{Equated, Joining, Meeting, Relation, references_between, same_value, sources_of};

type Pair = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// A join, independent of its operator.
struct Join<'p> {
    left: &'p Plan,
    right: &'p Plan,
    on: &'p [Pair],
    filter: Option<&'p JoinFilter>,
    join_type: JoinType,
    nulls_are_equal: bool,
    projection: Option<&'p [usize]>,
}

impl Expectations {
    pub(super) fn join(&self, plan: &Plan) -> Option<Relation> {
        if plan.is::<IndexJoinExec>() {
            let [outer, below] = plan.children()[..] else { return None };
            self.know_outer(plan, outer);
            return Some(Relation::clone(&self.of(below)));
        }
        if let Some(loops) = plan.downcast_ref::<RowLoopsExec>() {
            return Some(loops.expected().clone());
        }
        join_of(plan.as_ref()).map(|join| self.joined(&join))
    }

    /// Remembers the estimate of the outer side of an index join.
    fn know_outer(&self, join: &Plan, outer: &Plan) {
        let expected = self.of(outer);
        self.outers.borrow_mut().push((Arc::clone(join), expected));
    }

    fn joined(&self, join: &Join<'_>) -> Relation {
        let (left, right) = (self.of(join.left), self.of(join.right));
        let left_count = join.left.schema().fields().len();
        let right = moved(&right, |place| Some(place + left_count));
        let of_right = |expr: &Arc<dyn PhysicalExpr>| shifted(expression::logical(expr), left_count);
        let on: Vec<(Expr, Expr)> =
            join.on.iter().map(|(left, right)| (expression::logical(left), of_right(right))).collect();
        let origin = |side: &Relation, expr: &Expr| {
            same_value(expr).and_then(|column| side.columns().get(column)).and_then(|known| known.origin.clone())
        };
        let ends: Vec<_> = on.iter().map(|(one, other)| origin(&left, one).zip(origin(&right, other))).collect();
        let known = references_between(&ends).into_iter().zip(Meeting::of_all(&ends)).zip(sources_of(&ends));
        let equated =
            |((left, right), ((reference, meeting), sources))| Equated { left, right, reference, meeting, sources };
        let equations: Vec<Equated<'_>> =
            on.iter().map(|(left, right)| (left, right)).zip(known).map(equated).collect();
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
}

/// The estimate of a join that is not yet in a plan; `None` for an operator that does not join.
pub(crate) fn of_join(plan: &dyn ExecutionPlan) -> Option<Relation> {
    join_of(plan).map(|join| Expectations::default().joined(&join))
}

fn nulls_are_equal(equality: NullEquality) -> bool {
    equality == NullEquality::NullEqualsNull
}

fn hash_join(join: &HashJoinExec) -> Join<'_> {
    Join {
        left: join.left(),
        right: join.right(),
        on: join.on(),
        filter: join.filter(),
        join_type: *join.join_type(),
        nulls_are_equal: nulls_are_equal(join.null_equality()),
        projection: join.projection.as_deref(),
    }
}

/// The join that an operator does; `None` for an operator that does not join.
fn join_of(plan: &dyn ExecutionPlan) -> Option<Join<'_>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return Some(hash_join(join));
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        return Some(Join {
            left: join.left(),
            right: join.right(),
            on: join.on(),
            filter: join.filter().as_ref(),
            join_type: join.join_type(),
            nulls_are_equal: nulls_are_equal(join.null_equality()),
            projection: None,
        });
    }
    // A range join replaces nested loops, whose sides and filter it keeps.
    let ranges = plan.downcast_ref::<RangeJoinExec>().and_then(RangeJoinExec::loops);
    if let Some(join) = ranges.or_else(|| plan.downcast_ref::<NestedLoopJoinExec>()) {
        return Some(Join {
            left: join.left(),
            right: join.right(),
            on: &[],
            filter: join.filter(),
            join_type: *join.join_type(),
            nulls_are_equal: false,
            projection: join.projection().as_deref(),
        });
    }
    let join = plan.downcast_ref::<CrossJoinExec>()?;
    Some(Join {
        left: join.left(),
        right: join.right(),
        on: &[],
        filter: None,
        join_type: JoinType::Inner,
        nulls_are_equal: false,
        projection: None,
    })
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
