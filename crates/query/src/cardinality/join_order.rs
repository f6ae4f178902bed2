//! The order in which sources are joined, by cost: the cheapest of all orders, bushy ones among them, where the sources
//! are few, and a good one where they are many.
//!
//! A tree of inner joins is taken apart into its sources, the equations between them and the other conditions, and put
//! together anew if that is cheaper. The side of a join that has less to keep stands on the left, where the executor
//! builds its hash table. Sources that are no tables (outer joins, groups) keep their places inside and are ordered by
//! themselves.
//!
//! The enumeration of connected subsets is DPsub of Moerkotte and Neumann ("Analysis of two existing and one new
//! dynamic programming algorithm for the generation of optimal bushy join trees", 2006); beyond [`EXHAUSTIVE_MAX`]
//! sources the pair that leaves fewest rows is joined next (greedy operator ordering, Fegaras 1998).

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, Join, JoinConstraint, JoinType, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::relation::{Relation, relation_of};
use crate::execute::JoinWay;
use crate::source::HeapTable;

/// The most sources of which all orders are looked at.
const EXHAUSTIVE_MAX: usize = 10;
/// The most sources that are ordered at all: sets of them are the bits of a number.
const SOURCES_MAX: usize = 63;

/// What a row costs that goes into a hash table, beside one that is looked up in it.
const BUILD_COST: f64 = 2.0;
const PROBE_COST: f64 = 1.0;
/// What a row costs that a join makes.
const OUTPUT_COST: f64 = 1.0;
/// What each row of a pair costs that no equation chooses.
const PAIR_COST: f64 = 0.2;
/// How much cheaper an order must be than the one that was written, for it to be taken.
const GAIN_MIN: f64 = 0.95;

/// Orders joins; see the module.
#[derive(Debug, Default)]
pub(crate) struct JoinOrderRule;

impl OptimizerRule for JoinOrderRule {
    fn name(&self) -> &str {
        "hobt_join_order"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        reordered(plan)
    }
}

/// A plan with all its trees of joins in order.
fn reordered(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::Join(join) = &node else { return Ok(Transformed::no(node)) };
        if !is_free(join) {
            return Ok(Transformed::no(node));
        }
        let Some(graph) = Graph::of(&node) else { return Ok(Transformed::no(node)) };
        let sources = graph.sources.iter().map(|source| reordered(source.clone()).map(|done| done.data));
        let sources = sources.collect::<Result<Vec<LogicalPlan>>>()?;
        let graph = Graph { sources, ..graph };
        match graph.ordered(&node)? {
            Some(plan) => Ok(Transformed::new(plan, true, TreeNodeRecursion::Jump)),
            // What is inside the sources is found on the way down.
            None => Ok(Transformed::no(node)),
        }
    })
}

/// Whether a join may change its place among others.
fn is_free(join: &Join) -> bool {
    join.join_type == JoinType::Inner
        && join.join_constraint == JoinConstraint::On
        && join.null_equality == NullEquality::NullEqualsNothing
}

/// Whether a plan only leaves columns out.
fn is_pruning(projection: &Projection) -> bool {
    projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_)))
}

/// An equation between expressions over two sets of sources.
struct Equation {
    left: Expr,
    right: Expr,
    left_set: u64,
    right_set: u64,
}

/// The sources of a tree of inner joins, and what joins them.
struct Graph {
    sources: Vec<LogicalPlan>,
    equations: Vec<Equation>,
    /// Other conditions, with the sources that each needs.
    conditions: Vec<(Expr, u64)>,
}

/// One way to join a set of sources.
#[derive(Clone)]
struct Way {
    cost: f64,
    relation: Arc<Relation>,
    /// The two sets that it joins, the one that is kept first; `None` for a source by itself.
    parts: Option<(u64, u64)>,
}

impl Graph {
    /// Of a tree with at least three sources, or two; `None` where nothing is to be ordered.
    fn of(plan: &LogicalPlan) -> Option<Graph> {
        let (mut sources, mut equations, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        collect(plan, &mut sources, &mut equations, &mut conditions);
        if sources.len() < 2 || sources.len() > SOURCES_MAX || sources.iter().any(is_hinted) {
            return None;
        }
        let mut owners: HashMap<Column, u64> = HashMap::new();
        for (source, place) in sources.iter().zip(0..) {
            for column in source.schema().columns() {
                // Two columns of one name cannot be told apart once their sources stand side by side.
                if owners.insert(column, 1_u64 << place).is_some() {
                    return None;
                }
            }
        }
        let set_of = |expr: &Expr| -> Option<u64> {
            expr.column_refs().into_iter().try_fold(0, |set, column| Some(set | owners.get(column)?))
        };
        let mut known = Vec::new();
        for (left, right) in equations {
            if left.is_volatile() || right.is_volatile() {
                return None;
            }
            let (left_set, right_set) = (set_of(&left)?, set_of(&right)?);
            if left_set == 0 || right_set == 0 || left_set & right_set != 0 {
                return None;
            }
            match left_set.is_power_of_two() && right_set.is_power_of_two() {
                true => known.push(Equation { left, right, left_set, right_set }),
                // It joins wherever all that it needs comes together, which need not be where its sides meet.
                false => conditions.push(left.eq(right)),
            }
        }
        let mut placed = Vec::new();
        for condition in conditions {
            if condition.is_volatile() || has_subquery(&condition) {
                return None;
            }
            let set = set_of(&condition)?;
            if set == 0 {
                return None;
            }
            if set.is_power_of_two() {
                let source = &mut sources[set.trailing_zeros() as usize];
                let filter = Filter::try_new(condition, Arc::new(source.clone())).ok()?;
                *source = LogicalPlan::Filter(filter);
                continue;
            }
            placed.push((condition, set));
        }
        Some(Graph { sources, equations: known, conditions: placed })
    }

    /// The tree in the cheapest order; `None` if `written` is about as cheap.
    fn ordered(&self, written: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let relations: Vec<Arc<Relation>> = self.sources.iter().map(|source| Arc::new(relation_of(source))).collect();
        let mut next = 0;
        let current = self.written_way(written, &relations, &mut next);
        let ways = match self.sources.len() {
            few if few <= EXHAUSTIVE_MAX => self.cheapest(&relations),
            _ => self.greedy(&relations),
        };
        let all = self.all();
        let Some(best) = ways.get(&all) else { return Ok(None) };
        if best.cost >= current.cost * GAIN_MIN {
            return Ok(None);
        }
        let plan = self.build(all, &ways)?;
        // The columns come in the order that whoever stands above knows.
        let columns: Vec<Expr> = written.schema().columns().into_iter().map(Expr::Column).collect();
        Projection::try_new(columns, Arc::new(plan)).map(|plan| Some(LogicalPlan::Projection(plan)))
    }

    fn all(&self) -> u64 {
        (1 << self.sources.len()) - 1
    }

    /// The equations between two sets, each with the expression over `left` first.
    fn between(&self, left: u64, right: u64) -> Vec<(Expr, Expr)> {
        let is_in = |part: u64, set: u64| part & !set == 0;
        let found = self.equations.iter().filter_map(|each| {
            if is_in(each.left_set, left) && is_in(each.right_set, right) {
                return Some((each.left.clone(), each.right.clone()));
            }
            let is_turned = is_in(each.left_set, right) && is_in(each.right_set, left);
            is_turned.then(|| (each.right.clone(), each.left.clone()))
        });
        found.collect()
    }

    /// The other conditions that can be looked at as soon as two sets are joined, and not before.
    fn due(&self, left: u64, right: u64) -> impl Iterator<Item = &Expr> {
        let both = left | right;
        let is_due = move |set: u64| set & !both == 0 && set & !left != 0 && set & !right != 0;
        self.conditions.iter().filter(move |(_, set)| is_due(*set)).map(|(condition, _)| condition)
    }

    /// The cheaper way to join two sets by the ways to each.
    fn join(&self, left: (u64, &Way), right: (u64, &Way)) -> Way {
        let ((left_set, left), (right_set, right)) = (left, right);
        let bytes = |way: &Way| way.relation.rows * way.relation.width.max(8.0);
        let ((kept_set, kept), (probing_set, probing)) = match bytes(left) <= bytes(right) {
            true => ((left_set, left), (right_set, right)),
            false => ((right_set, right), (left_set, left)),
        };
        self.joined((kept_set, kept), (probing_set, probing))
    }

    /// Two sets joined, the first of which is kept.
    fn joined(&self, (kept_set, kept): (u64, &Way), (probing_set, probing): (u64, &Way)) -> Way {
        let equations = self.between(kept_set, probing_set);
        let further = self.due(kept_set, probing_set).count();
        let relation = kept.relation.joined(&probing.relation, JoinType::Inner, &equations, further);
        let own = match equations.is_empty() {
            true => PAIR_COST * kept.relation.rows * probing.relation.rows,
            false => BUILD_COST * kept.relation.rows + PROBE_COST * probing.relation.rows,
        };
        let cost = kept.cost + probing.cost + own + OUTPUT_COST * relation.rows;
        Way { cost, relation: Arc::new(relation), parts: Some((kept_set, probing_set)) }
    }

    /// The order that was written, with what it costs.
    fn written_way(&self, plan: &LogicalPlan, relations: &[Arc<Relation>], next: &mut usize) -> Way {
        fn walk(graph: &Graph, plan: &LogicalPlan, relations: &[Arc<Relation>], next: &mut usize) -> (u64, Way) {
            match plan {
                LogicalPlan::Join(join) if is_free(join) => {
                    let (left_set, left) = walk(graph, &join.left, relations, next);
                    let (right_set, right) = walk(graph, &join.right, relations, next);
                    (left_set | right_set, graph.joined((left_set, &left), (right_set, &right)))
                }
                LogicalPlan::Projection(projection) if inner_join(plan).is_some() && is_pruning(projection) => {
                    walk(graph, &projection.input, relations, next)
                }
                LogicalPlan::Filter(filter) if inner_join(plan).is_some() => {
                    walk(graph, &filter.input, relations, next)
                }
                _ => {
                    let place = *next;
                    *next += 1;
                    (1 << place, Way { cost: 0.0, relation: Arc::clone(&relations[place]), parts: None })
                }
            }
        }
        walk(self, plan, relations, next).1
    }

    /// The cheapest way to each set of sources that something joins, all sources among them.
    fn cheapest(&self, relations: &[Arc<Relation>]) -> HashMap<u64, Way> {
        let mut ways: HashMap<u64, Way> = HashMap::new();
        for (relation, place) in relations.iter().zip(0..) {
            ways.insert(1 << place, Way { cost: 0.0, relation: Arc::clone(relation), parts: None });
        }
        let is_connected = self.is_connected();
        for set in 1..=self.all() {
            if set.count_ones() < 2 {
                continue;
            }
            let mut best: Option<Way> = None;
            // Each division once: the part that has the lowest source is the left one.
            let lowest = set & set.wrapping_neg();
            let mut left = (set - 1) & set;
            while left > 0 {
                let right = set & !left;
                if left & lowest != 0
                    && let (Some(one), Some(other)) = (ways.get(&left), ways.get(&right))
                    && (!is_connected || self.has_equation(left, right))
                {
                    let way = self.join((left, one), (right, other));
                    if best.as_ref().is_none_or(|known| way.cost < known.cost) {
                        best = Some(way);
                    }
                }
                left = (left - 1) & set;
            }
            if let Some(best) = best {
                ways.insert(set, best);
            }
        }
        ways
    }

    fn has_equation(&self, left: u64, right: u64) -> bool {
        let is_in = |part: u64, set: u64| part & !set == 0;
        self.equations.iter().any(|each| {
            (is_in(each.left_set, left) && is_in(each.right_set, right))
                || (is_in(each.left_set, right) && is_in(each.right_set, left))
        })
    }

    /// Whether equations join all sources, so that no pairs need be made of all rows.
    fn is_connected(&self) -> bool {
        let mut reached = 1_u64;
        loop {
            let before = reached;
            for each in &self.equations {
                let both = each.left_set | each.right_set;
                if each.left_set & !reached == 0 || each.right_set & !reached == 0 {
                    reached |= both;
                }
            }
            if reached == before {
                return reached == self.all();
            }
        }
    }

    /// The pair that leaves fewest rows is joined next.
    fn greedy(&self, relations: &[Arc<Relation>]) -> HashMap<u64, Way> {
        let mut ways: HashMap<u64, Way> = HashMap::new();
        let mut open: Vec<u64> = Vec::new();
        for (relation, place) in relations.iter().zip(0..) {
            ways.insert(1 << place, Way { cost: 0.0, relation: Arc::clone(relation), parts: None });
            open.push(1 << place);
        }
        while open.len() > 1 {
            let mut best: Option<(bool, f64, u64, u64, Way)> = None;
            for (at, left) in open.iter().enumerate() {
                for right in &open[at + 1..] {
                    let way = self.join((*left, &ways[left]), (*right, &ways[right]));
                    let is_product = !self.has_equation(*left, *right);
                    let rows = way.relation.rows;
                    let is_better = best.as_ref().is_none_or(|known| (is_product, rows) < (known.0, known.1));
                    if is_better {
                        best = Some((is_product, rows, *left, *right, way));
                    }
                }
            }
            let Some((_, _, left, right, way)) = best else { break };
            open.retain(|set| *set != left && *set != right);
            open.push(left | right);
            ways.insert(left | right, way);
        }
        ways
    }

    /// The plan of the way to a set.
    fn build(&self, set: u64, ways: &HashMap<u64, Way>) -> Result<LogicalPlan> {
        let Some((kept, probing)) = ways[&set].parts else {
            return Ok(self.sources[set.trailing_zeros() as usize].clone());
        };
        let (left, right) = (self.build(kept, ways)?, self.build(probing, ways)?);
        let on = self.between(kept, probing);
        let filter = conjunction(self.due(kept, probing).cloned());
        let join = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            filter,
            JoinType::Inner,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        Ok(LogicalPlan::Join(join))
    }
}

fn has_subquery(expr: &Expr) -> bool {
    let is_subquery = |expr: &Expr| {
        matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::OuterReferenceColumn(..))
    };
    expr.exists(|inner| Ok(is_subquery(inner))).unwrap_or(true)
}

/// The join below what only leaves columns or rows out.
fn inner_join(plan: &LogicalPlan) -> Option<&Join> {
    match plan {
        LogicalPlan::Join(join) => is_free(join).then_some(join),
        LogicalPlan::Projection(projection) if is_pruning(projection) => inner_join(&projection.input),
        LogicalPlan::Filter(filter) if !has_subquery(&filter.predicate) => inner_join(&filter.input),
        _ => None,
    }
}

/// Takes a tree of joins apart.
fn collect(
    plan: &LogicalPlan,
    sources: &mut Vec<LogicalPlan>,
    equations: &mut Vec<(Expr, Expr)>,
    conditions: &mut Vec<Expr>,
) {
    match plan {
        LogicalPlan::Join(join) if is_free(join) => {
            collect(&join.left, sources, equations, conditions);
            collect(&join.right, sources, equations, conditions);
            equations.extend(join.on.iter().cloned());
            conditions.extend(join.filter.iter().flat_map(split_conjunction).cloned());
        }
        LogicalPlan::Projection(projection) if inner_join(plan).is_some() => {
            collect(&projection.input, sources, equations, conditions);
        }
        LogicalPlan::Filter(filter) if inner_join(plan).is_some() => {
            collect(&filter.input, sources, equations, conditions);
            conditions.extend(split_conjunction(&filter.predicate).into_iter().cloned());
        }
        source => sources.push(source.clone()),
    }
}

/// Whether a hint says how a source is joined, and so that its place is meant.
fn is_hinted(plan: &LogicalPlan) -> bool {
    let hinted = plan.exists(|node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(false) };
        let provider = source_as_provider(&scan.source).ok();
        let heap = provider.as_ref().and_then(|provider| provider.downcast_ref::<HeapTable>());
        Ok(heap.is_some_and(|heap| heap.join_way() != JoinWay::Free))
    });
    hinted.unwrap_or(true)
}
