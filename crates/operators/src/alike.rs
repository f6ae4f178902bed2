//! Whether two parts of a plan give the same rows, in the same partitions and in the same order.
//!
//! Operators are compared one by one, with all that decides which rows they give; what columns are called does not, and
//! binding gives each copy names of its own. An operator that is not named here,
//! an expression that gives another value at each call, and one that reads the value of a subquery are like no other.
//!
//! A scan may leave rows out by the keys of a join ([`LeafFilter`]). Where the join is inside the part, that is part of
//! what it computes. Filters of joins outside it are reported ([`Alike::outer_filters`]): two parts that differ in
//! these alone give rows of which the joins outside use the same.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::utils::JoinFilter as Condition;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use hobt_table::TableRead;

use crate::join_filter::{JoinFilter, KeyTapExec, LeafFilter};
use crate::role::{Exchange, Join, Passing, Role, role};

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// Two parts of a plan that give the same rows, but for filters of joins outside them.
#[derive(Debug)]
pub struct Alike {
    outer: Vec<Arc<JoinFilter>>,
}

impl Alike {
    /// Compares two parts of a plan.
    pub fn of(a: &Plan, b: &Plan) -> Option<Alike> {
        let (of_a, of_b) = (tapped(a), tapped(b));
        if of_a.len() != of_b.len() {
            return None;
        }
        let inner = of_a.iter().zip(&of_b).map(|(a, b)| (Arc::as_ptr(a), Arc::as_ptr(b))).collect();
        let mut comparison = Comparison { inner, outer: Vec::new() };
        comparison.are_alike(a, b).then_some(Alike { outer: comparison.outer })
    }

    /// The filters in leaves of either part that belong to joins outside it.
    pub fn outer_filters(&self) -> &[Arc<JoinFilter>] {
        &self.outer
    }
}

/// The filters whose keys are collected in a part of a plan, in its order.
fn tapped(plan: &Plan) -> Vec<Arc<JoinFilter>> {
    let mut filters = Vec::new();
    let _never_fails = plan.apply(|node| {
        if let Some(tap) = node.downcast_ref::<KeyTapExec>() {
            filters.extend(tap.filters().cloned());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    filters
}

struct Comparison {
    /// The filters of joins inside: that of the other part for each.
    inner: HashMap<*const JoinFilter, *const JoinFilter>,
    outer: Vec<Arc<JoinFilter>>,
}

impl Comparison {
    fn are_alike(&mut self, a: &Plan, b: &Plan) -> bool {
        let (below_a, below_b) = (a.children(), b.children());
        below_a.len() == below_b.len()
            && a.output_partitioning().partition_count() == b.output_partitioning().partition_count()
            && have_same_types(a, b)
            && a.fetch() == b.fetch()
            && all_fixed(a)
            && all_fixed(b)
            && self.are_operators_alike(a, b)
            && below_a.into_iter().zip(below_b).all(|(a, b)| self.are_alike(a, b))
    }

    fn are_operators_alike(&mut self, a: &Plan, b: &Plan) -> bool {
        match (role(a.as_ref()), role(b.as_ref())) {
            (Role::Scan(a), Role::Scan(b)) => {
                is_same_table(a.table(), b.table()) && a.is_alike(b) && self.filters(a.filters(), b.filters())
            }
            (Role::Seek(a), Role::Seek(b)) => {
                is_same_table(a.table(), b.table()) && a.is_alike(b) && self.filters(a.filters(), b.filters())
            }
            (Role::ScanAggregate(a), Role::ScanAggregate(b)) => {
                let known = self.outer.len();
                a.is_alike(b) && self.are_alike(a.input(), b.input()) && self.outer.len() == known
            }
            (Role::Constant(a), Role::Constant(b)) => a == b,
            (Role::Passes(a), Role::Passes(b)) => match (a, b) {
                (Passing::Taps(a), Passing::Taps(b)) => a.is_alike(b),
                (Passing::Yields, Passing::Yields) => true,
                (Passing::Hides(a), Passing::Hides(b)) => a == b,
                _ => false,
            },
            (Role::Exchange(a), Role::Exchange(b)) => are_exchanges_alike(a, b),
            (Role::Filter(a), Role::Filter(b)) => {
                is_same(a.predicate(), b.predicate()) && a.projection() == b.projection()
            }
            (Role::Project(a), Role::Project(b)) => {
                let exprs = |each: &ProjectionExpr| Arc::clone(&each.expr);
                are_same(a.expr().iter().map(exprs), b.expr().iter().map(exprs))
            }
            (Role::Sort(a), Role::Sort(b)) => are_same_orders(a.expr(), b.expr()),
            (Role::Limit { skip: a, fetch: first }, Role::Limit { skip: b, fetch: second }) => {
                a == b && first == second
            }
            (Role::Group(a), Role::Group(b)) => are_groups_alike(a, b),
            (Role::Join(Join::Hash(a)), Role::Join(Join::Hash(b))) => are_hash_joins_alike(a, b),
            (Role::Join(Join::Loops(a)), Role::Join(Join::Loops(b))) => are_loops_alike(a, b),
            (Role::Join(Join::Cross(_)), Role::Join(Join::Cross(_))) | (Role::Union, Role::Union) => true,
            _ => false,
        }
    }

    /// Whether two leaves have the same filters of the joins inside. Notes the others.
    fn filters(&mut self, a: &[LeafFilter], b: &[LeafFilter]) -> bool {
        let is_inner_a = |filter: &&LeafFilter| self.inner.contains_key(&Arc::as_ptr(&filter.filter));
        let is_inner_b = |filter: &&LeafFilter| self.inner.values().any(|inner| *inner == Arc::as_ptr(&filter.filter));
        let (inner_a, outer_a): (Vec<&LeafFilter>, Vec<_>) = a.iter().partition(is_inner_a);
        let (inner_b, outer_b): (Vec<&LeafFilter>, Vec<_>) = b.iter().partition(is_inner_b);
        let are_alike = inner_a.len() == inner_b.len()
            && inner_a.iter().zip(&inner_b).all(|(a, b)| {
                self.inner[&Arc::as_ptr(&a.filter)] == Arc::as_ptr(&b.filter)
                    && a.column == b.column
                    && is_same(&a.key, &b.key)
            });
        self.outer.extend(outer_a.into_iter().chain(outer_b).map(|filter| Arc::clone(&filter.filter)));
        are_alike
    }
}

/// Whether all expressions of an operator have the same values whenever and wherever they are computed.
fn all_fixed(plan: &Plan) -> bool {
    let mut are_fixed = true;
    let visited = plan.apply_expressions(&mut |expr| {
        are_fixed &= is_fixed(expr);
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_ok() && are_fixed
}

fn is_fixed(expr: &Expr) -> bool {
    let is_open = |part: &Expr| Ok(part.is::<ScalarSubqueryExpr>() || part.is_volatile_node());
    !expr.exists(is_open).unwrap_or(true)
}

fn have_same_types(a: &Plan, b: &Plan) -> bool {
    let (a, b) = (a.schema(), b.schema());
    let is_same = |(a, b): (&FieldRef, &FieldRef)| a.data_type() == b.data_type() && a.is_nullable() == b.is_nullable();
    a.fields().len() == b.fields().len() && a.fields().iter().zip(b.fields()).all(is_same)
}

/// Whether two expressions over equal rows have equal values. Literals for different variables differ by their
/// metadata, also where the variables are equal, so a plan with them is not made for other values.
fn is_same(a: &Expr, b: &Expr) -> bool {
    nameless(a).eq(&nameless(b))
}

pub(crate) fn are_same(a: impl ExactSizeIterator<Item = Expr>, b: impl ExactSizeIterator<Item = Expr>) -> bool {
    a.len() == b.len() && a.zip(b).all(|(a, b)| is_same(&a, &b))
}

fn are_same_orders(a: &[PhysicalSortExpr], b: &[PhysicalSortExpr]) -> bool {
    let is_same = |(a, b): (&PhysicalSortExpr, &PhysicalSortExpr)| a.options == b.options && is_same(&a.expr, &b.expr);
    a.len() == b.len() && a.iter().zip(b).all(is_same)
}

/// An expression whose columns are known by their places alone.
fn nameless(expr: &Expr) -> Expr {
    let bare = Arc::clone(expr).transform_up(|part| {
        Ok(match part.downcast_ref::<Column>() {
            Some(column) => Transformed::yes(Arc::new(Column::new("", column.index())) as Expr),
            None => Transformed::no(part),
        })
    });
    bare.data().unwrap_or_else(|_| Arc::clone(expr))
}

/// Whether two reads of a table give the same rows: of one snapshot, and without locks that one of them might wait for.
fn is_same_table(a: &TableRead, b: &TableRead) -> bool {
    let locks_nothing = |read: &TableRead| read.row_reading().is_none() && read.unseen().is_none();
    a.reads_as(b) && locks_nothing(a) && locks_nothing(b)
}

fn are_exchanges_alike(a: Exchange<'_>, b: Exchange<'_>) -> bool {
    match (a, b) {
        (Exchange::Spread(a), Exchange::Spread(b)) => {
            let is_same = match (a.partitioning(), b.partitioning()) {
                (Partitioning::Hash(a, parts), Partitioning::Hash(b, others)) => {
                    parts == others && are_same(a.iter().cloned(), b.iter().cloned())
                }
                (Partitioning::RoundRobinBatch(parts), Partitioning::RoundRobinBatch(others)) => parts == others,
                _ => false,
            };
            is_same && a.preserve_order() == b.preserve_order()
        }
        (Exchange::Gather, Exchange::Gather) => true,
        (Exchange::Merge(a), Exchange::Merge(b)) => are_same_orders(a.expr(), b.expr()),
        _ => false,
    }
}

fn are_groups_alike(a: &AggregateExec, b: &AggregateExec) -> bool {
    let (keys, others) = (a.group_expr(), b.group_expr());
    let exprs = |(expr, _): &(Expr, String)| Arc::clone(expr);
    let filters = |group: &AggregateExec| group.filter_expr().iter().flatten().cloned().collect::<Vec<_>>();
    let has_filter = |group: &AggregateExec| group.filter_expr().iter().map(Option::is_some).collect::<Vec<_>>();
    a.mode() == b.mode()
        && are_same(keys.expr().iter().map(exprs), others.expr().iter().map(exprs))
        && are_same(keys.null_expr().iter().map(exprs), others.null_expr().iter().map(exprs))
        && keys.groups() == others.groups()
        && keys.has_grouping_set() == others.has_grouping_set()
        && a.limit_options() == b.limit_options()
        && a.input_order_mode() == b.input_order_mode()
        && a.aggr_expr().len() == b.aggr_expr().len()
        && a.aggr_expr().iter().zip(b.aggr_expr()).all(|(a, b)| are_functions_alike(a, b))
        && has_filter(a) == has_filter(b)
        && are_same(filters(a).into_iter(), filters(b).into_iter())
}

fn are_functions_alike(a: &AggregateFunctionExpr, b: &AggregateFunctionExpr) -> bool {
    a.fun() == b.fun()
        && a.field().data_type() == b.field().data_type()
        && a.is_distinct() == b.is_distinct()
        && a.ignore_nulls() == b.ignore_nulls()
        && are_same(a.expressions().into_iter(), b.expressions().into_iter())
        && are_same_orders(a.order_bys(), b.order_bys())
}

fn are_hash_joins_alike(a: &HashJoinExec, b: &HashJoinExec) -> bool {
    let keys =
        |join: &HashJoinExec| join.on().iter().flat_map(|(a, b)| [Arc::clone(a), Arc::clone(b)]).collect::<Vec<_>>();
    are_same(keys(a).into_iter(), keys(b).into_iter())
        && are_conditions_alike(a.filter(), b.filter())
        && a.join_type() == b.join_type()
        && a.partition_mode() == b.partition_mode()
        && a.null_equality() == b.null_equality()
        && a.null_aware == b.null_aware
        && a.projection == b.projection
}

fn are_loops_alike(a: &NestedLoopJoinExec, b: &NestedLoopJoinExec) -> bool {
    are_conditions_alike(a.filter(), b.filter()) && a.join_type() == b.join_type() && a.projection() == b.projection()
}

fn are_conditions_alike(a: Option<&Condition>, b: Option<&Condition>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            is_same(a.expression(), b.expression())
                && a.column_indices() == b.column_indices()
                && is_fixed(a.expression())
        }
        (None, None) => true,
        _ => false,
    }
}
