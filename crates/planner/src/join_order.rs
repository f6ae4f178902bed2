//! The cost-based order in which sources are joined: the cheapest of all orders, including bushy ones, for few sources,
//! and a good one for many.
//!
//! A tree of inner joins is split into its sources, the equations between them and the other conditions. It is rebuilt
//! if another order is cheaper. The join input with fewer bytes becomes the left side, where the executor builds its
//! hash table. Sources that are not tables (outer joins, groups) stay whole, and the joins inside them are ordered
//! separately.
//!
//! The cost includes the filters that joins push down (`join_filter`). The keys of the build side remove rows
//! of the probe side's sources where these are read. This makes all work on those rows below the join cheaper, and the
//! remaining rows filter the sources that they are joined with in turn.
//!
//! The optimiser runs its rules several times. A tree with the same sources, equations and conditions as before is
//! skipped, since its order would be the same.
//!
//! The enumeration of connected subsets is DPsub of Moerkotte and Neumann ("Analysis of two existing and one new
//! dynamic programming algorithm for the generation of optimal bushy join trees", 2006). Beyond [`EXHAUSTIVE_MAX`]
//! sources, the pair with the fewest result rows is joined next (greedy operator ordering, Fegaras 1998).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, Join, JoinConstraint, JoinType, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use parking_lot::Mutex;

use hobt_table::{
    Equated, JoinWay, Joining, Knowledge, Meeting, Reference, Relation, TableRead, ends_of, references_between,
    relation_of,
};

/// The most sources for which all orders are compared.
const EXHAUSTIVE_MAX: usize = 10;
/// The most sources that are ordered at all. Sets of sources are bit masks in a `u64`.
const SOURCES_MAX: usize = 63;

/// Cost of inserting a row into a hash table, relative to [`PROBE_COST`] for looking one up.
const BUILD_COST: f64 = 2.0;
const PROBE_COST: f64 = 1.0;
/// Cost of a row that a join returns.
const OUTPUT_COST: f64 = 1.0;
/// Cost of each pair of rows of a join without an equation.
const PAIR_COST: f64 = 0.2;
/// The part of the unwanted rows that passes a filter by chance.
const CHANCE: f64 = 0.02;
/// An order is taken only if its cost is below this fraction of the cost of the written order.
const GAIN_MIN: f64 = 0.95;

/// Orders the joins of one statement; see the module documentation.
#[derive(Debug, Default)]
pub struct JoinOrderRule {
    /// [`Graph::fingerprint`] of the trees that have been ordered.
    ordered: Mutex<Vec<u64>>,
}

impl OptimizerRule for JoinOrderRule {
    fn name(&self) -> &str {
        "hobt_join_order"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        self.reordered(plan)
    }
}

impl JoinOrderRule {
    /// The plan with all its trees of joins ordered.
    fn reordered(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        plan.transform_down_with_subqueries(|node| {
            let Some(graph) = Graph::of(&node) else { return Ok(Transformed::no(node)) };
            let mut done = match self.better_ways(&graph) {
                Some(ways) => self.built(graph, &ways, &node).map(Transformed::yes)?,
                None => self.within(node)?,
            };
            // The tree and its sources are done.
            done.tnr = TreeNodeRecursion::Jump;
            Ok(done)
        })
    }

    /// The plans of a cheaper order than the written one. `None` if there is none, or if the tree has been ordered
    /// before.
    fn better_ways(&self, graph: &Graph) -> Option<HashMap<u64, Way>> {
        let relations = graph.relations();
        let fingerprint = graph.fingerprint(&relations);
        let mut ordered = self.ordered.lock();
        if ordered.contains(&fingerprint) {
            return None;
        }
        ordered.push(fingerprint);
        drop(ordered);
        graph.better_ways(&relations)
    }

    /// A tree in a better order than the written one, with its sources ordered too.
    fn built(&self, graph: Graph, ways: &HashMap<u64, Way>, written: &LogicalPlan) -> Result<LogicalPlan> {
        let sources = graph.sources.into_iter().map(|source| self.reordered(source).map(|done| done.data));
        let graph = Graph { sources: sources.collect::<Result<Vec<LogicalPlan>>>()?, ..graph };
        let plan = graph.build(graph.all(), ways)?;
        // The nodes above rely on the written order of the columns.
        let columns: Vec<Expr> = written.schema().columns().into_iter().map(Expr::Column).collect();
        Projection::try_new(columns, Arc::new(plan)).map(LogicalPlan::Projection)
    }

    /// A tree in its written order, with its sources ordered.
    fn within(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        if !is_of_tree(&plan) {
            return self.reordered(plan);
        }
        plan.map_children(|child| self.within(child))
    }
}

/// Whether a join may be reordered among others.
fn is_free(join: &Join) -> bool {
    join.join_type == JoinType::Inner
        && join.join_constraint == JoinConstraint::On
        && join.null_equality == NullEquality::NullEqualsNothing
}

/// Whether a projection only drops columns.
fn is_pruning(projection: &Projection) -> bool {
    projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_)))
}

/// An equation between expressions over two sets of sources.
struct Equation {
    left: Expr,
    right: Expr,
    left_set: u64,
    right_set: u64,
    /// The foreign key that it belongs to.
    reference: Option<Reference>,
    /// How the values of the two columns meet.
    meeting: Option<Meeting>,
}

impl Equation {
    /// The equation with the expression over `left` first, if it connects the two sets.
    fn between(&self, left: u64, right: u64) -> Option<Equated<'_>> {
        let is_in = |part: u64, set: u64| part & !set == 0;
        let sources = self.left_set | self.right_set;
        if is_in(self.left_set, left) && is_in(self.right_set, right) {
            let (reference, meeting) = (self.reference, self.meeting);
            return Some(Equated { left: &self.left, right: &self.right, reference, meeting, sources });
        }
        let is_turned = is_in(self.left_set, right) && is_in(self.right_set, left);
        let (reference, meeting) = (self.reference.map(Reference::turned), self.meeting.map(Meeting::turned));
        is_turned.then_some(Equated { left: &self.right, right: &self.left, reference, meeting, sources })
    }
}

/// The sources of a tree of inner joins, and the equations and conditions between them.
struct Graph {
    sources: Vec<LogicalPlan>,
    equations: Vec<Equation>,
    /// Other conditions, each with the set of sources that it needs.
    conditions: Vec<(Expr, u64)>,
    written: Written,
}

/// The order in which a tree was written: the index of a source, or a join of two parts.
enum Written {
    Source(usize),
    Join(Box<Written>, Box<Written>),
}

/// A part of the cost of a [`Way`].
#[derive(Clone, Copy)]
struct Portion {
    cost: f64,
    /// The sources to whose row counts this cost is proportional: if one of them has fewer rows, the cost falls.
    sources: u64,
}

impl Written {
    fn sources(&self) -> u64 {
        match self {
            Written::Source(place) => 1 << place,
            Written::Join(left, right) => left.sources() | right.sources(),
        }
    }
}

/// A plan that joins a set of sources.
#[derive(Clone)]
struct Way {
    cost: f64,
    /// The parts of `cost`.
    portions: Vec<Portion>,
    /// The result, with all source rows that the source's own conditions leave.
    relation: Arc<Relation>,
    /// The two sets that it joins, the build side first; `None` for a single source.
    parts: Option<(u64, u64)>,
}

impl Way {
    fn to_source(relation: &Arc<Relation>) -> Way {
        Way { cost: 0.0, portions: Vec::new(), relation: Arc::clone(relation), parts: None }
    }
}

impl Graph {
    /// The graph of a tree with at least two sources; `None` if the tree must not be reordered.
    fn of(plan: &LogicalPlan) -> Option<Graph> {
        if !matches!(plan, LogicalPlan::Join(_)) || !is_of_tree(plan) {
            return None;
        }
        let (mut sources, mut equations, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        let written = collect(plan, &mut sources, &mut equations, &mut conditions);
        if sources.len() < 2 || sources.len() > SOURCES_MAX || sources.iter().any(is_hinted) {
            return None;
        }
        let mut owners: HashMap<Column, u64> = HashMap::new();
        for (source, place) in sources.iter().zip(0..) {
            for column in source.schema().columns() {
                // Columns with the same name cannot be told apart once their sources are joined.
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
                true => known.push(Equation { left, right, left_set, right_set, reference: None, meeting: None }),
                // It applies as soon as all sources that it needs are joined, which need not be where its two sides
                // meet.
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
        let mut graph = Graph { sources, equations: known, conditions: placed, written };
        graph.find_references();
        Some(graph)
    }

    /// Finds the foreign key of each equation, and how the values of its columns meet.
    fn find_references(&mut self) {
        let source = |set: u64| &self.sources[set.trailing_zeros() as usize];
        let sets = |each: &Equation| (each.left_set.min(each.right_set), each.left_set.max(each.right_set));
        let sets: BTreeSet<(u64, u64)> = self.equations.iter().map(sets).collect();
        let mut found = Vec::new();
        for (left, right) in sets {
            let places: Vec<usize> = (0..self.equations.len())
                .filter(|place| self.equations[*place].between(left, right).is_some())
                .collect();
            let pairs: Vec<(&Expr, &Expr)> = places
                .iter()
                .filter_map(|place| self.equations[*place].between(left, right))
                .map(|equated| (equated.left, equated.right))
                .collect();
            let ends = ends_of(&pairs, source(left), source(right));
            let known = references_between(&ends).into_iter().zip(Meeting::of_all(&ends));
            for (place, (reference, meeting)) in places.into_iter().zip(known) {
                let is_turned = self.equations[place].left_set != left;
                found.push(match is_turned {
                    true => (place, reference.map(Reference::turned), meeting.map(Meeting::turned)),
                    false => (place, reference, meeting),
                });
            }
        }
        for (place, reference, meeting) in found {
            (self.equations[place].reference, self.equations[place].meeting) = (reference, meeting);
        }
    }

    /// What is known of the sources, limited to the columns that equations and conditions name.
    fn relations(&self) -> Vec<Arc<Relation>> {
        let sides = self.equations.iter().flat_map(|each| [&each.left, &each.right]);
        let exprs = sides.chain(self.conditions.iter().map(|(condition, _)| condition));
        let named: HashSet<&Column> = exprs.flat_map(Expr::column_refs).collect();
        self.sources.iter().map(|source| Arc::new(relation_of(source).of_columns(&named))).collect()
    }

    /// A number that is equal for trees with the same best order, however they are written.
    fn fingerprint(&self, relations: &[Arc<Relation>]) -> u64 {
        fn hash_of(value: impl Hash) -> u64 {
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            hasher.finish()
        }
        let source = |(plan, relation): (&LogicalPlan, &Arc<Relation>)| {
            hash_of((plan.schema().columns(), relation.rows.to_bits()))
        };
        let equation = |each: &Equation| {
            let (left, right) = (hash_of(&each.left), hash_of(&each.right));
            hash_of((left.min(right), left.max(right)))
        };
        let sources = self.sources.iter().zip(relations).map(source);
        let rest = self.equations.iter().map(equation).chain(self.conditions.iter().map(|(each, _)| hash_of(each)));
        // A sum, because reordering a tree moves its parts.
        sources.chain(rest).fold(0, |sum: u64, part| sum.wrapping_add(part))
    }

    /// The cheapest plans, unless the written order is about as cheap.
    fn better_ways(&self, relations: &[Arc<Relation>]) -> Option<HashMap<u64, Way>> {
        let ways = match relations.len() {
            few if few <= EXHAUSTIVE_MAX => self.cheapest(relations),
            _ => self.greedy(relations),
        };
        let best = ways.get(&self.all())?;
        let (_, written) = self.way_of(&self.written, relations);
        // A cross product that is cheap for few expected rows is expensive if there are more, so it is never kept.
        let is_worse = best.cost < written.cost * GAIN_MIN || (self.is_connected() && self.has_product(&self.written));
        is_worse.then_some(ways)
    }

    /// Whether a part of the tree is a cross product.
    fn has_product(&self, written: &Written) -> bool {
        match written {
            Written::Source(_) => false,
            Written::Join(left, right) => {
                let is_product = !self.has_equation(left.sources(), right.sources());
                is_product || self.has_product(left) || self.has_product(right)
            }
        }
    }

    fn all(&self) -> u64 {
        (1 << self.sources.len()) - 1
    }

    /// The equations between two sets, each with the expression over `left` first.
    fn between(&self, left: u64, right: u64) -> impl Iterator<Item = Equated<'_>> {
        self.equations.iter().filter_map(move |each| each.between(left, right))
    }

    fn has_equation(&self, left: u64, right: u64) -> bool {
        self.between(left, right).next().is_some()
    }

    /// The other conditions that can be evaluated once the two sets are joined, and not before.
    fn due(&self, left: u64, right: u64) -> impl Iterator<Item = &Expr> {
        let both = left | right;
        let is_due = move |set: u64| set & !both == 0 && set & !left != 0 && set & !right != 0;
        self.conditions.iter().filter(move |(_, set)| is_due(*set)).map(|(condition, _)| condition)
    }

    /// Joins two sets, with the one of fewer bytes as the build side.
    fn join(&self, left: (u64, &Way), right: (u64, &Way)) -> Way {
        let ((left_set, left), (right_set, right)) = (left, right);
        let bytes = |way: &Way| way.relation.rows * way.relation.width.max(8.0);
        let ((kept_set, kept), (probing_set, probing)) = match bytes(left) <= bytes(right) {
            true => ((left_set, left), (right_set, right)),
            false => ((right_set, right), (left_set, left)),
        };
        self.joined((kept_set, kept), (probing_set, probing))
    }

    /// Joins two sets, the first of which is the build side.
    fn joined(&self, (kept_set, kept): (u64, &Way), (probing_set, probing): (u64, &Way)) -> Way {
        let equations: Vec<Equated<'_>> = self.between(kept_set, probing_set).collect();
        let further: Vec<&Expr> = self.due(kept_set, probing_set).collect();
        let joining = Joining { equations: &equations, further: &further, nulls_are_equal: false };
        let relation = kept.relation.joined(&probing.relation, JoinType::Inner, joining);
        let (kept_rows, probing_rows) = (kept.relation.rows, probing.relation.rows);
        let mut portions = probing.portions.clone();
        if equations.is_empty() {
            portions.push(Portion { cost: PAIR_COST * kept_rows * probing_rows, sources: kept_set | probing_set });
        } else {
            portions.push(Portion { cost: PROBE_COST * probing_rows, sources: probing_set });
        }
        for each in &equations {
            let (ours, theirs) = (kept.relation.expression(each.left), probing.relation.expression(each.right));
            let wanted = (ours.distinct / theirs.distinct.max(1.0)).min(1.0);
            let left = wanted + CHANCE * (1.0 - wanted);
            let sieved = each.sources & probing_set;
            for portion in portions.iter_mut().filter(|portion| portion.sources & sieved != 0) {
                portion.cost *= left;
                // What filters the build side filters these rows too.
                portion.sources |= kept_set;
            }
        }
        portions.extend(&kept.portions);
        if !equations.is_empty() {
            portions.push(Portion { cost: BUILD_COST * kept_rows, sources: kept_set });
        }
        portions.push(Portion { cost: OUTPUT_COST * relation.rows, sources: kept_set | probing_set });
        let cost = portions.iter().map(|portion| portion.cost).sum();
        Way { cost, portions, relation: Arc::new(relation), parts: Some((kept_set, probing_set)) }
    }

    /// The plan of a part of the tree as written, and the set of its sources.
    fn way_of(&self, written: &Written, relations: &[Arc<Relation>]) -> (u64, Way) {
        match written {
            Written::Source(place) => (1 << place, Way::to_source(&relations[*place])),
            Written::Join(left, right) => {
                let (left_set, left) = self.way_of(left, relations);
                let (right_set, right) = self.way_of(right, relations);
                (left_set | right_set, self.joined((left_set, &left), (right_set, &right)))
            }
        }
    }

    /// The cheapest plan for each set of sources that equations connect, including the set of all sources. If equations
    /// do not connect all sources, for every set.
    fn cheapest(&self, relations: &[Arc<Relation>]) -> HashMap<u64, Way> {
        let mut ways: HashMap<u64, Way> = HashMap::new();
        for (relation, place) in relations.iter().zip(0..) {
            ways.insert(1 << place, Way::to_source(relation));
        }
        let is_connected = self.is_connected();
        for set in 1..=self.all() {
            if set.count_ones() < 2 {
                continue;
            }
            let mut best: Option<Way> = None;
            // Each split once: the left part is the one with the lowest source.
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

    /// Whether equations connect all sources, so that no cross product is needed.
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

    /// Joins the pair with the fewest result rows next, until one set is left.
    fn greedy(&self, relations: &[Arc<Relation>]) -> HashMap<u64, Way> {
        let mut ways: HashMap<u64, Way> = HashMap::new();
        let mut open: Vec<u64> = Vec::new();
        for (relation, place) in relations.iter().zip(0..) {
            ways.insert(1 << place, Way::to_source(relation));
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

    /// The logical plan for a set.
    fn build(&self, set: u64, ways: &HashMap<u64, Way>) -> Result<LogicalPlan> {
        let Some((kept, probing)) = ways[&set].parts else {
            return Ok(self.sources[set.trailing_zeros() as usize].clone());
        };
        let (left, right) = (self.build(kept, ways)?, self.build(probing, ways)?);
        let on = self.between(kept, probing).map(|each| (each.left.clone(), each.right.clone())).collect();
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

/// Whether a plan is part of a tree of joins: a reorderable join, or a projection or filter above one.
fn is_of_tree(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => is_free(join),
        LogicalPlan::Projection(projection) => is_pruning(projection) && is_of_tree(&projection.input),
        LogicalPlan::Filter(filter) => !has_subquery(&filter.predicate) && is_of_tree(&filter.input),
        _ => false,
    }
}

/// Splits a tree of joins into its parts, and returns the order in which it was written.
fn collect(
    plan: &LogicalPlan,
    sources: &mut Vec<LogicalPlan>,
    equations: &mut Vec<(Expr, Expr)>,
    conditions: &mut Vec<Expr>,
) -> Written {
    match plan {
        LogicalPlan::Join(join) if is_of_tree(plan) => {
            let left = collect(&join.left, sources, equations, conditions);
            let right = collect(&join.right, sources, equations, conditions);
            equations.extend(join.on.iter().cloned());
            conditions.extend(join.filter.iter().flat_map(split_conjunction).cloned());
            Written::Join(Box::new(left), Box::new(right))
        }
        LogicalPlan::Projection(projection) if is_of_tree(plan) => {
            collect(&projection.input, sources, equations, conditions)
        }
        LogicalPlan::Filter(filter) if is_of_tree(plan) => {
            let written = collect(&filter.input, sources, equations, conditions);
            conditions.extend(split_conjunction(&filter.predicate).into_iter().cloned());
            written
        }
        source => {
            sources.push(source.clone());
            Written::Source(sources.len() - 1)
        }
    }
}

/// Whether a hint fixes how a source is joined, and so its position.
fn is_hinted(plan: &LogicalPlan) -> bool {
    let hinted = plan.exists(|node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(false) };
        let table = scan.source.downcast_ref::<TableRead>();
        Ok(table.is_some_and(|table| table.join_way() != JoinWay::Free))
    });
    hinted.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{LogicalPlanBuilder, lit};
    use datafusion::optimizer::OptimizerContext;
    use hobt_table::ColumnRows;

    /// A relation with this many rows, and with columns of these names and numbers of distinct values.
    fn known(rows: f64, columns: &[(&str, f64)]) -> Relation {
        let column = |(name, distinct): &(&str, f64)| (Column::from_name(*name), ColumnRows::of(*distinct, 0.0));
        Relation::new(rows, columns.iter().map(column).collect())
    }

    fn source(name: &str, rows: usize) -> LogicalPlan {
        let values = LogicalPlanBuilder::values(vec![vec![lit(1_i64)]; rows]).expect("rows of one type");
        values.alias(name).and_then(LogicalPlanBuilder::build).expect("a name for it")
    }

    /// A chain of joins of the sources by their only columns.
    fn chain(sources: Vec<(&str, LogicalPlan)>) -> LogicalPlan {
        let column = |name: &str| Column::new(Some(name), "column1");
        let join = |(before, left): (String, LogicalPlan), (name, right): (&str, LogicalPlan)| {
            let on = (vec![column(&before)], vec![column(name)]);
            let joined = LogicalPlanBuilder::from(left).join(right, JoinType::Inner, on, None);
            (name.to_owned(), joined.and_then(LogicalPlanBuilder::build).expect("both have the column"))
        };
        let mut sources = sources.into_iter();
        let (first, plan) = sources.next().expect("a first source");
        sources.fold((first.to_owned(), plan), join).1
    }

    fn pass(rule: &JoinOrderRule, plan: LogicalPlan) -> (LogicalPlan, bool) {
        let done = rule.rewrite(plan, &OptimizerContext::new()).expect("an order");
        (done.data, done.transformed)
    }

    /// A fact table and two dimensions, one of which matches a hundredth of the facts.
    fn star() -> (Graph, Vec<Arc<Relation>>) {
        let column = |name: &str| Expr::Column(Column::from_name(name));
        let equation = |(left, left_set), (right, right_set)| Equation {
            left: column(left),
            right: column(right),
            left_set,
            right_set,
            reference: None,
            meeting: None,
        };
        let graph = Graph {
            sources: ["facts", "all", "few"].map(|name| source(name, 1)).into(),
            equations: vec![equation(("fa", 0b001), ("a", 0b010)), equation(("f", 0b100), ("ff", 0b001))],
            conditions: Vec::new(),
            written: Written::Source(0),
        };
        let facts = known(1e6, &[("fa", 1000.0), ("ff", 1000.0)]);
        let all = known(1000.0, &[("a", 1000.0)]);
        let few = known(10.0, &[("f", 10.0)]);
        (graph, [facts, all, few].map(Arc::new).into())
    }

    #[test]
    fn what_a_join_wants_makes_all_below_it_cheaper_that_reads_the_source() {
        let (graph, relations) = star();
        let [facts, all, few] = [0, 1, 2].map(|place| Way::to_source(&relations[place]));
        let below = graph.joined((0b010, &all), (0b001, &facts));
        assert_eq!(below.cost, (PROBE_COST + OUTPUT_COST) * 1e6 + BUILD_COST * 1e3);
        let above = graph.joined((0b100, &few), (0b011, &below));
        // The filter of `few` removes facts where they are read, but no rows of `all`, which is read by itself.
        let left = 0.01 + CHANCE * 0.99;
        let expected = (2.0 * PROBE_COST + OUTPUT_COST) * 1e6 * left + BUILD_COST * 1010.0 + OUTPUT_COST * 1e4;
        assert!((above.cost - expected).abs() < 1.0, "{} and {expected}", above.cost);
        // So the other order is not much cheaper, but it is cheaper reliably.
        let first = graph.joined((0b100, &few), (0b001, &facts));
        let other = graph.joined((0b010, &all), (0b101, &first));
        assert!(other.cost < above.cost && above.cost < 3.0 * other.cost, "{} and {}", other.cost, above.cost);
    }

    #[test]
    fn what_is_kept_is_not_left_out_by_what_is_read_after_it() {
        let (graph, relations) = star();
        let [facts, all, few] = [0, 1, 2].map(|place| Way::to_source(&relations[place]));
        let kept = graph.joined((0b100, &few), (0b001, &facts));
        let above = graph.joined((0b101, &kept), (0b010, &all));
        assert!(above.cost > kept.cost + BUILD_COST * kept.relation.rows, "{} of {}", above.cost, kept.cost);
    }

    #[test]
    fn a_tree_in_its_best_order_is_looked_at_once() {
        let rule = JoinOrderRule::default();
        let plan = chain(["a", "b", "c", "d", "e", "f"].map(|name| (name, source(name, 1))).into());
        let (first, is_new) = pass(&rule, plan.clone());
        assert!(!is_new && first == plan);
        assert_eq!(rule.ordered.lock().len(), 1);
        pass(&rule, first);
        assert_eq!(rule.ordered.lock().len(), 1);
    }

    #[test]
    fn a_tree_that_was_put_in_order_is_not_looked_at_again() {
        let rule = JoinOrderRule::default();
        let plan = chain(vec![("a", source("a", 1000)), ("b", source("b", 1000)), ("c", source("c", 1))]);
        let (ordered, is_new) = pass(&rule, plan.clone());
        assert!(is_new && ordered != plan && ordered.schema() == plan.schema());
        assert_eq!(pass(&rule, ordered.clone()), (ordered, false));
        assert_eq!(rule.ordered.lock().len(), 1);
    }

    #[test]
    fn a_tree_inside_a_source_is_ordered_by_itself_in_either_case() {
        let inside = || chain(vec![("a", source("a", 900)), ("b", source("b", 900)), ("c", source("c", 1))]);
        let grouped = LogicalPlanBuilder::from(inside())
            .aggregate(vec![Expr::Column(Column::new(Some("c"), "column1"))], Vec::<Expr>::new())
            .and_then(|groups| groups.alias("g"))
            .and_then(LogicalPlanBuilder::build)
            .expect("groups");
        for rows in [1, 5000] {
            let rule = JoinOrderRule::default();
            let around = vec![("x", source("x", rows)), ("y", source("y", rows)), ("g", grouped.clone())];
            let (ordered, is_new) = pass(&rule, chain(around));
            assert!(is_new && !ordered.exists(|node| Ok(*node == inside())).expect("a walk"));
            assert_eq!(rule.ordered.lock().len(), 2);
        }
    }
}
