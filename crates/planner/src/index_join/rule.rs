//! Which joins look up their inner table.
//!
//! A hash join does so if three conditions hold. Rows of one side that have no partner are not in the output. That
//! side's rows come from a table with an index that begins with the joined columns. A lookup of at least one row of the
//! other side costs less than reading the table. Whether it does for the rows that really come is known when they have
//! been read (see the module's page). Hints decide it beforehand: `LOOP` and `FORCESEEK` for it, `HASH` and `FORCESCAN`
//! against it.
//!
//! If the outer side's statistics are not maintained (`HOBT_STATISTICS_MAINTENANCE = OFF`), the estimate decides it
//! beforehand, too. If no more rows are expected than lookups pay for, the join becomes nested loops that believe the
//! estimate ([`RowLoopsExec`]).
//!
//! Leaves to others: joins without equations (`range_loops.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, ReplaceChildrenOptions};
use hobt_access::Direction;

use crate::expected::{Expectations, of_join};
use hobt_operators::{
    IndexJoinExec, Inner, InnerExec, Leaf, Marks, OuterExec, Passing, Replaced, Role, RowLoopsExec, ScanExec, SeekExec,
    Shows, is_exchange, replaced, role, trace,
};
use hobt_table::{JoinWay, JoinedBy, JoinedColumn, Lookup, Relation, TableRead, no_seek};
use hobt_udf::external;

/// The most rows of an outer side that are held for lookups, unless a hint forces them.
const ROWS_MAX: usize = 1 << 16;

/// Makes joins look up their inner table.
#[derive(Debug, Default)]
pub struct IndexJoinRule {
    /// The hint of `OPTION`, for all joins.
    pub way: JoinWay,
    /// Whether the plan had sorts: some may have been removed because rows come in their order.
    pub(super) had_sorts: Arc<AtomicBool>,
}

impl PhysicalOptimizerRule for IndexJoinRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let made = self.rewritten(plan, self.had_sorts.load(Ordering::Relaxed), &Expectations::default())?;
        check_forced_seeks(&made)?;
        Ok(made)
    }

    crate::named_rule!("hobt_index_join");
}

/// A seek of wide ranges that all workers read, instead of one that a single worker reads and spreads among the others.
fn spread_seek(plan: &Arc<dyn ExecutionPlan>, is_order_used: bool) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(exchange) = plan.downcast_ref::<RepartitionExec>().filter(|_| !is_order_used) else { return Ok(None) };
    let Partitioning::RoundRobinBatch(workers) = exchange.partitioning() else { return Ok(None) };
    let input = match (role(exchange.input().as_ref()), exchange.input().children().first()) {
        (Role::Passes(Passing::Hides(_)), Some(below)) => below,
        _ => exchange.input(),
    };
    let Some(seek) = input.downcast_ref::<SeekExec>() else { return Ok(None) };
    let spread = seek.spread(*workers).map_err(external)?;
    Ok(spread.map(|seek| Arc::new(seek) as Arc<dyn ExecutionPlan>))
}

/// 8622 if `FORCESEEK` could not be followed.
fn check_forced_seeks(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    plan.apply(|node| {
        if let Some(slot) = node.downcast_ref::<InnerExec>()
            && slot.inner.is_forced
        {
            return Ok(TreeNodeRecursion::Jump);
        }
        match node.downcast_ref::<ScanExec>() {
            Some(scan) if scan.table().hint().forces_seek() => Err(external(no_seek(scan.table()))),
            _ => Ok(TreeNodeRecursion::Continue),
        }
    })?;
    Ok(())
}

/// A side of a join whose rows can be looked up.
struct Candidate {
    side: JoinSide,
    leaf: Leaf,
    /// The equations that are traced to the table: their positions in the join's list, and the columns.
    joined: Vec<(usize, JoinedColumn)>,
    lookup: Lookup,
    pages: f64,
    is_forced: bool,
    in_portions: bool,
    rows_max: usize,
    /// The estimate of the other side.
    expected: Arc<Relation>,
}

impl Candidate {
    /// The estimated rows of the other side.
    fn outer_rows(&self) -> usize {
        self.expected.rows.ceil() as usize
    }

    /// Whether rows of the other side are looked up one by one, because few are expected and the statistics do not tell
    /// how many were added since their last update.
    fn believes_estimate(&self, join: &HashJoinExec) -> bool {
        Shows::of(*join.join_type(), self.side).is_some()
            && !self.is_forced
            && self.in_portions
            && self.outer_rows() <= self.rows_max
            && has_old_statistics(side_of(join, other(self.side)))
    }
}

/// Whether a plan reads a table whose statistics are not maintained between updates.
fn has_old_statistics(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_old = |table: &Arc<TableRead>| !table.database().database().options().statistics.is_maintained;
    Leaf::of(plan).is_some_and(|leaf| is_old(&leaf.table)) || plan.children().into_iter().any(has_old_statistics)
}

impl IndexJoinRule {
    /// The rule for a plan to which [`ForcedLoopRule`](crate::ForcedLoopRule) was applied before.
    pub fn new(way: JoinWay) -> IndexJoinRule {
        IndexJoinRule { way, had_sorts: Arc::default() }
    }

    /// The plan with index joins. `is_order_used`: operators above may rely on the order of its rows.
    fn rewritten(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        is_order_used: bool,
        estimates: &Expectations,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (keeps, wants) = (plan.maintains_input_order(), plan.required_input_ordering());
        let mut children = Vec::with_capacity(keeps.len());
        for ((child, keeps), wants) in plan.children().into_iter().zip(keeps).zip(wants) {
            let is_used = wants.is_some() || (keeps && is_order_used && !plan.is::<SortExec>());
            children.push(self.rewritten(Arc::clone(child), is_used, estimates)?);
        }
        let is_new = plan.children().into_iter().zip(&children).any(|(old, new)| !Arc::ptr_eq(old, new));
        let plan = match is_new {
            true => plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?,
            false => plan,
        };
        if let Some(spread) = spread_seek(&plan, is_order_used)? {
            return Ok(spread);
        }
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            return Ok(self.ranged(join, is_order_used, estimates)?.unwrap_or(plan));
        }
        let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(plan) };
        Ok(self.indexed(join, is_order_used, estimates)?.unwrap_or(plan))
    }

    fn indexed(
        &self,
        join: &HashJoinExec,
        is_order_used: bool,
        estimates: &Expectations,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        // With NULLs, `NOT IN` depends on whether the other side has rows at all.
        if join.null_aware || matches!(self.way, JoinWay::Hash | JoinWay::Merge) {
            return Ok(None);
        }
        let mut best: Option<Candidate> = None;
        for side in [JoinSide::Right, JoinSide::Left] {
            let table = table_of(side_of(join, side));
            if table.is_some_and(|leaf| leaf.table.join_way() == JoinWay::Hash) {
                return Ok(None);
            }
            let Some(found) = self.candidate(join, side, is_order_used, estimates)? else { continue };
            let rank = |candidate: &Candidate| (!candidate.is_forced, candidate.outer_rows());
            if best.as_ref().is_none_or(|known| rank(&found) < rank(known)) {
                best = Some(found);
            }
        }
        best.map(|candidate| looked_up(join, candidate, estimates)).transpose()
    }

    /// Whether a hint wants loops for a join.
    pub(super) fn forces_loops(&self, join: &HashJoinExec) -> bool {
        let is_marked = |side| table_of(side_of(join, side)).is_some_and(|leaf| leaf.table.join_way() == JoinWay::Loop);
        self.way == JoinWay::Loop || is_marked(JoinSide::Left) || is_marked(JoinSide::Right)
    }

    /// Whether a hint wants the sides of a join merged.
    pub(super) fn forces_merge(&self, join: &HashJoinExec) -> bool {
        let is_marked =
            |side| table_of(side_of(join, side)).is_some_and(|leaf| leaf.table.join_way() == JoinWay::Merge);
        self.way == JoinWay::Merge || is_marked(JoinSide::Left) || is_marked(JoinSide::Right)
    }

    /// Whether a side of a join can be looked up.
    pub(super) fn has_candidate(&self, join: &HashJoinExec, estimates: &Expectations) -> Result<bool> {
        let is_there = |side| self.candidate(join, side, false, estimates).map(|found| found.is_some());
        Ok(is_there(JoinSide::Left)? || is_there(JoinSide::Right)?)
    }

    fn candidate(
        &self,
        join: &HashJoinExec,
        side: JoinSide,
        is_order_used: bool,
        estimates: &Expectations,
    ) -> Result<Option<Candidate>> {
        if !is_matched_alone(*join.join_type(), side) {
            return Ok(None);
        }
        let of_side = |on: &(Expr, Expr)| Some(Arc::clone(if side == JoinSide::Left { &on.0 } else { &on.1 }));
        let exprs = join.on().iter().map(of_side).collect();
        let Some((leaf, columns)) = trace(side_of(join, side), exprs) else { return Ok(None) };
        let joined = columns.into_iter().enumerate().filter_map(|(at, column)| Some((at, column?)));
        let joined: Vec<(usize, JoinedColumn)> = joined.collect();
        let columns: Vec<JoinedColumn> = joined.iter().map(|(_, column)| *column).collect();
        let by = JoinedBy { equal: &columns, bounded: &[] };
        let lookup = Lookup::choose(&leaf.table, &leaf.projection, &leaf.predicates, by).map_err(external)?;
        let goes_by_order = is_order_of_use(&leaf, is_order_used);
        let Some(lookup) = lookup.filter(|lookup| !goes_by_order || is_order_of(&leaf, lookup)) else {
            return Ok(None);
        };
        // Each portion would start again at the front of the order.
        let in_portions = is_row_by_row(*join.join_type(), side) && !goes_by_order;
        let pages = pages_of(&leaf)?;
        let is_scan = leaf.scan().is_some();
        let is_forced = self.way == JoinWay::Loop
            || leaf.table.join_way() == JoinWay::Loop
            || (leaf.table.hint().forces_seek() && is_scan);
        let rows_max = lookup.rows_within(pages).min(ROWS_MAX);
        let outer = outer_of(side_of(join, other(side)));
        if !is_forced && (rows_max == 0 || known_rows(&outer).is_some_and(|rows| rows > rows_max as u64)) {
            return Ok(None);
        }
        let expected = estimates.of(&outer);
        Ok(Some(Candidate { side, leaf, joined, lookup, pages, is_forced, in_portions, rows_max, expected }))
    }
}

/// An expression over the columns of one side.
type Expr = Arc<dyn PhysicalExpr>;

fn side_of(join: &HashJoinExec, side: JoinSide) -> &Arc<dyn ExecutionPlan> {
    if side == JoinSide::Left { join.left() } else { join.right() }
}

fn other(side: JoinSide) -> JoinSide {
    if side == JoinSide::Left { JoinSide::Right } else { JoinSide::Left }
}

/// Whether rows of a side that have no partner make no difference to the output.
fn is_matched_alone(join_type: JoinType, side: JoinSide) -> bool {
    match join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => true,
        JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => side == JoinSide::Right,
        JoinType::Right | JoinType::RightAnti | JoinType::RightMark => side == JoinSide::Left,
        JoinType::Full => false,
    }
}

/// Whether each row of the side opposite to `inner` gives its output rows independently of the other rows.
fn is_row_by_row(join_type: JoinType, inner: JoinSide) -> bool {
    match join_type {
        JoinType::LeftSemi => inner == JoinSide::Right,
        JoinType::RightSemi => inner == JoinSide::Left,
        _ => true,
    }
}

/// Whether operators above rely on an order of the rows of `leaf`.
pub(super) fn is_order_of_use(leaf: &Leaf, is_order_used: bool) -> bool {
    let has_order = |seek: &SeekExec| !seek.properties().equivalence_properties().oeq_class().is_empty();
    leaf.seek().is_some_and(has_order) && (leaf.is_order_used || (is_order_used && !leaf.is_sorted))
}

/// Whether a seek by `lookup` gives rows in the order of `leaf`, which is a seek: in the order of one index, tree by
/// tree.
fn is_order_of(leaf: &Leaf, lookup: &Lookup) -> bool {
    leaf.seek().is_some_and(|seek| {
        let parts = seek.properties().output_partitioning().partition_count();
        seek.path().index == lookup.index() && seek.direction() == Direction::Forward && parts == lookup.tree_count()
    })
}

/// The table that a side of a join reads alone, row by row.
fn table_of(side: &Arc<dyn ExecutionPlan>) -> Option<Leaf> {
    let schema = side.schema();
    let column = |at| Some(Arc::new(Column::new(schema.field(at).name(), at)) as Expr);
    trace(side, (0..schema.fields().len()).map(column).collect()).map(|(leaf, _)| leaf)
}

/// The cost of reading a table as `leaf` does, in pages.
pub(super) fn pages_of(leaf: &Leaf) -> Result<f64> {
    if let Some(seek) = leaf.seek() {
        return Ok(seek.path().pages);
    }
    let stores = leaf.table.stores().map_err(external)?;
    let partitions = leaf.scan().map_or(&[][..], ScanExec::partitions);
    Ok(partitions.iter().map(|&partition| leaf.table.expected(&stores[partition]).data_pages as f64).sum())
}

/// The outer side without the exchanges that spread its rows for the join.
pub(super) fn outer_of(side: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match side.children().first() {
        Some(below) if is_exchange(side) => outer_of(below),
        _ => Arc::clone(side),
    }
}

/// The rows of a plan that shows all rows of a table, by the table's count ([`TableRead::expected_rows`]) and not by an
/// estimate of conditions; `None` for other plans. Concurrent changes may change it.
fn known_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    match role(plan.as_ref()) {
        Role::Scan(scan) => {
            let is_all = scan.partitions().len() == scan.table().table().base_index().partitions.len();
            is_all.then(|| scan.table().expected_rows())
        }
        role if matches!(role, Role::Project(_) | Role::Passes(Passing::Hides(_))) || is_exchange(plan) => {
            known_rows(plan.children().first()?)
        }
        _ => None,
    }
}

/// The join, by lookups.
fn looked_up(join: &HashJoinExec, candidate: Candidate, estimates: &Expectations) -> Result<Arc<dyn ExecutionPlan>> {
    let is_believed = candidate.believes_estimate(join);
    let Candidate { side, leaf, joined, lookup, pages, is_forced, in_portions, rows_max, expected } = candidate;
    let outer_side = side_of(join, other(side));
    let outer = outer_of(outer_side);
    let key = |at: usize| {
        let (left, right) = &join.on()[joined[at].0];
        Arc::clone(if side == JoinSide::Left { right } else { left })
    };
    let keys = lookup.used().map(key).collect();
    let is_ordered = is_order_of(&leaf, &lookup);
    let inner = Inner {
        table: Arc::clone(&leaf.table),
        lookup,
        keys,
        bounds: Vec::new(),
        nulls_are_equal: join.null_equality() == NullEquality::NullEqualsNull,
        rows_max,
        pages,
        is_forced,
        in_portions,
        fetch: join.fetch(),
        marks: Marks::default(),
    };
    if is_believed
        && let Some(joined) = of_join(join, estimates)
        && let Some(loops) = RowLoopsExec::of(
            Replaced::hash(join)?,
            side,
            (&leaf.plan, outer_side),
            (inner.clone(), leaf.projection.clone()),
            joined,
        )?
    {
        return Ok(Arc::new(loops));
    }
    let inner = Arc::new(inner);
    let slot: Arc<dyn ExecutionPlan> = Arc::new(InnerExec {
        scan: Arc::clone(&leaf.plan),
        inner: Arc::clone(&inner),
        projection: leaf.projection.clone(),
        is_ordered,
    });
    let stand_in: Arc<dyn ExecutionPlan> = Arc::new(OuterExec::new(&inner, &outer, expected));
    let inner_side = replaced(side_of(join, side), &leaf.plan, &slot)?;
    let outer_side = replaced(outer_side, &outer, &stand_in)?;
    let children = match side {
        JoinSide::Left => vec![inner_side, outer_side],
        _ => vec![outer_side, inner_side],
    };
    let join = join.builder().with_new_children(children)?.build_exec()?;
    Ok(Arc::new(IndexJoinExec::new(outer, join, inner)))
}
