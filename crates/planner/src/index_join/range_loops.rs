//! Joins without equations that look up their inner table: `ON b.x BETWEEN a.lo AND a.hi`, with an index of `b` that
//! begins with `x`.
//!
//! [`RowLoopsExec`] seeks the range of each outer row. It is used if a hint wants it, or if it is estimated to cost
//! less than reading the whole inner table and sorting one side of the join
//! ([`RangeJoinExec`](hobt_operators::RangeJoinExec)): that is so if the outer side has few rows, and both
//! ends of its ranges are known. If an estimate of few rows was wrong, each further row costs a seek, and no row is
//! compared with all others.

use std::sync::Arc;

use datafusion::common::{JoinSide, Result};
use datafusion::physical_expr::utils::{conjunction, split_conjunction};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, ReplaceChildrenOptions};

use super::rule::{IndexJoinRule, is_order_of_use, outer_of, pages_of};
use crate::expected::{Expectations, of_join};
use hobt_operators::{
    Bound, Inner, Leaf, Marks, Replaced, Role, RowLoopsExec, Shows, Way, bounds_of, is_exchange, role, trace,
};
use hobt_table::{JoinWay, JoinedBound, JoinedBy, Lookup};
use hobt_udf::external;

/// The cost of searching a row's position among sorted ones, in pages of a sequential scan.
const SEARCH_PAGES: f64 = 0.03;
/// The part of a table above or below an unknown value, as SQL Server assumes it.
const OPEN_PART: f64 = 0.3;

/// A side of a join whose ranges can be looked up.
struct Ranged {
    side: JoinSide,
    leaf: Leaf,
    lookup: Lookup,
    /// The bounds that the lookup uses, in its order.
    bounds: Vec<Bound>,
    is_forced: bool,
    /// How much less it costs than the other methods, in pages.
    saved: f64,
    pages: f64,
}

impl IndexJoinRule {
    /// `join` by a seek for each row of one side, if that is possible and wanted.
    pub(super) fn ranged(
        &self,
        join: &NestedLoopJoinExec,
        is_order_used: bool,
        estimates: &Expectations,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if matches!(self.way, JoinWay::Hash | JoinWay::Merge) {
            return Ok(None);
        }
        let mut best: Option<Ranged> = None;
        for side in [JoinSide::Right, JoinSide::Left] {
            let Some(found) = self.ranged_side(join, side, is_order_used, estimates)? else { continue };
            let rank = |ranged: &Ranged| (ranged.is_forced, ranged.saved);
            if best.as_ref().is_none_or(|known| rank(&found) > rank(known)) {
                best = Some(found);
            }
        }
        match best.filter(|ranged| ranged.is_forced || ranged.saved > 0.0) {
            Some(ranged) => ranged.loops(join, estimates),
            None => Ok(None),
        }
    }

    fn ranged_side(
        &self,
        join: &NestedLoopJoinExec,
        side: JoinSide,
        is_order_used: bool,
        estimates: &Expectations,
    ) -> Result<Option<Ranged>> {
        let Some(filter) = join.filter().filter(|_| Shows::of(*join.join_type(), side).is_some()) else {
            return Ok(None);
        };
        let schemas = (join.left().schema(), join.right().schema());
        let (bounds, _) = bounds_of(filter, filter.expression(), side, (&schemas.0, &schemas.1))?;
        let keys = bounds.iter().map(|bound| Some(Arc::clone(&bound.key))).collect();
        let (inner, outer) = match side {
            JoinSide::Left => (join.left(), join.right()),
            _ => (join.right(), join.left()),
        };
        let Some((leaf, columns)) = trace(inner, keys) else { return Ok(None) };
        let traced = bounds.into_iter().zip(columns).filter_map(|(bound, column)| Some((bound, column?)));
        let (bounds, columns): (Vec<Bound>, Vec<_>) = traced.unzip();
        let joined = |(bound, column): (&Bound, _)| JoinedBound {
            column,
            is_low: bound.way == Way::Above,
            includes: bound.includes,
        };
        let bounded: Vec<JoinedBound> = bounds.iter().zip(columns).map(joined).collect();
        let by = JoinedBy { equal: &[], bounded: &bounded };
        let lookup = Lookup::choose(&leaf.table, &leaf.projection, &leaf.predicates, by).map_err(external)?;
        let is_wanted = leaf.table.join_way() != JoinWay::Hash && !is_order_of_use(&leaf, is_order_used);
        let Some(lookup) = lookup.filter(|_| is_wanted) else { return Ok(None) };
        let used: Vec<usize> = lookup.used_bounds().collect();
        let bounds: Vec<Bound> = used.iter().map(|at| bounds[*at].clone()).collect();
        let pages = pages_of(&leaf)?;
        let (outer_rows, rows) = (estimates.of(&outer_of(outer)).rows, estimates.of(&leaf.plan).rows);
        let saved = saved(&lookup, bounds.len() > 1, outer_rows, (pages, rows));
        let is_forced = self.way == JoinWay::Loop
            || leaf.table.join_way() == JoinWay::Loop
            || (leaf.table.hint().forces_seek() && leaf.scan().is_some());
        Ok(Some(Ranged { side, leaf, lookup, bounds, is_forced, saved, pages }))
    }
}

/// How much less seeks for `outer_rows` rows cost than reading the inner table, of the given pages and rows, and
/// searching the position of each of its rows. Ranges with both ends are assumed to be adjacent.
fn saved(lookup: &Lookup, has_both_ends: bool, outer_rows: f64, (pages, rows): (f64, f64)) -> f64 {
    let part = if has_both_ends { 1.0 } else { OPEN_PART * outer_rows };
    pages + rows * SEARCH_PAGES - (lookup.pages_of(outer_rows, part * rows) + part * pages)
}

impl Ranged {
    fn loops(self, join: &NestedLoopJoinExec, estimates: &Expectations) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Ranged { side, leaf, lookup, bounds, is_forced, pages, .. } = self;
        let promised = join.properties().output_partitioning();
        let count = promised.partition_count();
        let outer = match (side, promised) {
            (JoinSide::Left, _) => Arc::clone(join.right()),
            (_, Partitioning::RoundRobinBatch(_) | Partitioning::UnknownPartitioning(_)) => spread(join.left(), count)?,
            _ if count == 1 => spread(join.left(), 1)?,
            // Operators above may rely on which rows are in which partition.
            _ => return Ok(None),
        };
        let inner = Inner {
            table: Arc::clone(&leaf.table),
            lookup,
            keys: bounds.iter().map(|bound| Arc::clone(&bound.value)).collect(),
            bounds: bounds.iter().map(Bound::operator).collect(),
            nulls_are_equal: false,
            rows_max: usize::MAX,
            pages,
            is_forced,
            in_portions: true,
            fetch: None,
            marks: Marks::default(),
        };
        let sides = (&leaf.plan, &outer);
        let replaced = Replaced::loops(join, residual(join, &bounds, side)?);
        let Some(expected) = of_join(join, estimates) else { return Ok(None) };
        let loops = RowLoopsExec::of(replaced, side, sides, (inner, leaf.projection.clone()), expected)?;
        Ok(loops.map(|loops| Arc::new(loops) as Arc<dyn ExecutionPlan>))
    }
}

/// A side without the operator that gathers its rows for a join.
fn ungathered(side: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let passes = side.fetch().is_none() && matches!(role(side.as_ref()), Role::Project(_) | Role::Filter(_));
    match side.children()[..] {
        [below] if is_exchange(side) => ungathered(below),
        [below] if passes => {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Arc::clone(side).replace_children(vec![ungathered(below)?], options)
        }
        _ => Ok(Arc::clone(side)),
    }
}

/// A side that was gathered to one stream, repartitioned to `count`.
fn spread(side: &Arc<dyn ExecutionPlan>, count: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let outer = ungathered(side)?;
    if outer.output_partitioning().partition_count() == count {
        return Ok(outer);
    }
    if count == 1 {
        return Ok(Arc::clone(side));
    }
    Ok(Arc::new(RepartitionExec::try_new(outer, Partitioning::RoundRobinBatch(count))?))
}

/// The parts of a join's condition that these bounds of one side do not cover.
fn residual(join: &NestedLoopJoinExec, used: &[Bound], side: JoinSide) -> Result<Option<JoinFilter>> {
    let Some(filter) = join.filter() else { return Ok(None) };
    let schemas = (join.left().schema(), join.right().schema());
    let is_used = |bound: &Bound| {
        used.iter()
            .any(|used| used.key.eq(&bound.key) && used.value.eq(&bound.value) && used.operator() == bound.operator())
    };
    let mut left = Vec::new();
    for part in split_conjunction(filter.expression()) {
        let (bounds, _) = bounds_of(filter, part, side, (&schemas.0, &schemas.1))?;
        if bounds.is_empty() || !bounds.iter().all(is_used) {
            left.push(Arc::clone(part));
        }
    }
    let of = |all| JoinFilter::new(all, filter.column_indices().to_vec(), Arc::clone(filter.schema()));
    Ok((!left.is_empty()).then(|| of(conjunction(left))))
}
