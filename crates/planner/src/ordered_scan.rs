//! Scans in the order of an index in place of a sort.
//!
//! The rule finds a sort over nothing but a scan or a seek, conditions and projections. If an index of the table has
//! the sort's order, forward or backward, and all columns that are read, the scan goes over that index and the sort is
//! removed. A sort that keeps few rows (`TOP`) also takes an index whose entries have to be followed to the table. A
//! seek keeps its index. If the rows are locked as they are read, or rows that other transactions are changing are
//! output after them, the sort stays, and the rows below come in its order: as many as are wanted.
//!
//! Text comes in order if it is sorted by the key of its column's collation, because the index has that key. A column
//! that conditions fix to one value is in any order.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, ReplaceChildrenOptions};
use hobt_access::Direction;
use hobt_catalog::{Index, Table};

use hobt_operators::{Exchange, Leaf, LockRowsExec, Passing, Role, ScanExec, SeekExec, replaced, role, trace};
use hobt_table::{AccessPath, JoinedColumn, KeyForm, SeekPath, is_one_value};
use hobt_udf::{external, has_sort_key};

/// The most rows of a `TOP` that are looked up one by one in a table.
const FOLLOWED_ROWS_MAX: usize = 1000;

/// Replaces sorts by scans in the order of an index.
#[derive(Debug, Default)]
pub struct OrderedScanRule;

impl PhysicalOptimizerRule for OrderedScanRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
            if let Some(ordered) = without_sort(sort)? {
                return Ok(Transformed::yes(ordered));
            }
            let below = first_locked(sort)?.map_or_else(|| first_unseen(sort), |below| Ok(Some(below)))?;
            Ok(match below {
                Some(below) => Transformed::yes(
                    node.replace_children(vec![below], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?,
                ),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    crate::named_rule!("hobt_ordered_scan");
}

/// A plan that gives the rows of a sort in its order without sorting them.
fn without_sort(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if source_below(sort.input()).is_none() {
        return Ok(None);
    }
    let Some((leaf, wanted)) = wanted_order(sort) else { return Ok(None) };
    let fetch = sort.fetch().filter(|_| !has_filter(sort.input()));
    let Some(seek) = seek_in_order(&leaf, &wanted, fetch, |_| true)? else { return Ok(None) };
    let ordered = above(sort.input(), &(Arc::new(seek.with_fetch(fetch)) as Arc<dyn ExecutionPlan>))?;
    Ok(Some(in_place_of(sort, ordered)))
}

/// The input of a sort that keeps the first rows and locks them, changed so that rows are locked in the order of the
/// sort: then no more are locked than are wanted.
fn first_locked(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (Some(rows), Some(node)) = (sort.fetch(), locks_below(sort.input())) else { return Ok(None) };
    let Some(locks) = node.downcast_ref::<LockRowsExec>().filter(|locks| !locks.has_limit() && !locks.locks_ranges())
    else {
        return Ok(None);
    };
    let Some((leaf, wanted)) = wanted_order(sort) else { return Ok(None) };
    let Some(seek) = seek_in_order(&leaf, &wanted, Some(rows), is_one_stream)? else { return Ok(None) };
    let by_value = wanted.iter().take_while(|(column, _)| column.form == KeyForm::Value);
    let place = |column: &JoinedColumn| leaf.projection.iter().position(|known| *known == column.column);
    let order: Option<Vec<_>> = by_value.map(|(column, options)| Some((place(column)?, *options))).collect();
    let Some(order) = order else { return Ok(None) };
    let path = AccessPath::Seek(Arc::clone(seek.path()));
    let locked = locks.first_of(Arc::new(seek), path, order.into(), rows);
    replaced(sort.input(), node, &locked).map(Some)
}

/// Like [`first_locked`], for a sort over rows that come with those that other transactions are changing.
fn first_unseen(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(rows) = sort.fetch() else { return Ok(None) };
    let (mut node, mut filter) = (sort.input(), None);
    let unseen = loop {
        match role(node.as_ref()) {
            Role::Unseen(unseen) if !unseen.has_limit() => break unseen,
            _ if node.fetch().is_some() => return Ok(None),
            Role::Filter(_) | Role::Project(_) if filter.is_some() => return Ok(None),
            Role::Filter(found) => filter = Some(Arc::clone(found.predicate())),
            _ if !is_passed(node) => return Ok(None),
            _ => {}
        }
        let Some(below) = node.children().into_iter().next() else { return Ok(None) };
        node = below;
    };
    let Some((leaf, wanted)) = wanted_order(sort) else { return Ok(None) };
    let Some(seek) = seek_in_order(&leaf, &wanted, Some(rows), is_one_stream)? else { return Ok(None) };
    let path = AccessPath::Seek(Arc::clone(seek.path()));
    let first = unseen.first_of(Arc::new(seek), path, filter, rows);
    replaced(sort.input(), node, &first).map(Some)
}

/// The table below a sort, and its columns that are the sort's keys.
fn wanted_order(sort: &SortExec) -> Option<(Leaf, Vec<(JoinedColumn, SortOptions)>)> {
    let exprs = sort.expr().iter().map(|part| Some(Arc::clone(&part.expr))).collect();
    let (leaf, columns) = trace(sort.input(), exprs)?;
    let wanted = columns.into_iter().zip(sort.expr().iter()).map(|(column, part)| Some((column?, part.options)));
    Some((leaf, wanted.collect::<Option<Vec<_>>>()?))
}

/// A seek that fits and gives the rows of `leaf` in an order, of which the first `rows` are wanted; `None` if no index
/// has this order.
fn seek_in_order(
    leaf: &Leaf,
    wanted: &[(JoinedColumn, SortOptions)],
    rows: Option<usize>,
    fits: impl Fn(&SeekExec) -> bool,
) -> Result<Option<SeekExec>> {
    for (at, index) in leaf.table.table().indexes.iter().enumerate() {
        let Some(direction) = direction_of(leaf, index, wanted) else { continue };
        let path = match leaf.seek() {
            Some(seek) => (seek.path().index == at).then(|| Arc::clone(seek.path())),
            None => whole_path(leaf, at, rows.is_some_and(|rows| rows <= FOLLOWED_ROWS_MAX))?,
        };
        let Some(path) = path else { continue };
        let (table, projection) = (Arc::clone(&leaf.table), leaf.projection.clone());
        let seek = SeekExec::in_direction(table, path, direction, projection, leaf.plan.schema());
        if fits(&seek) {
            let estimated = leaf.scan().map_or_else(|| leaf.seek()?.estimated(), ScanExec::estimated);
            let parameters = leaf.scan().map_or_else(|| leaf.seek()?.parameters(), ScanExec::parameters);
            let seek = seek.knowing(Arc::clone(&leaf.predicates)).estimating_as(estimated.cloned());
            return Ok(Some(seek.parameterized(parameters.cloned())));
        }
    }
    Ok(None)
}

/// Whether a seek gives its rows in one stream: each of several trees has an order of its own.
fn is_one_stream(seek: &SeekExec) -> bool {
    seek.properties().output_partitioning().partition_count() == 1
}

/// The operator that locks rows, below nodes that pass each of its rows on once.
fn locks_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    match role(plan.as_ref()) {
        Role::Locks(_) => Some(plan),
        role if is_passed(plan) && !matches!(role, Role::Filter(_)) && plan.fetch().is_none() => {
            locks_below(plan.children().into_iter().next()?)
        }
        _ => None,
    }
}

/// A seek of a whole index instead of a scan. `None` if a hint forbids it, or if the index lacks columns and more than
/// a few rows are wanted.
fn whole_path(leaf: &Leaf, at: usize, keeps_few: bool) -> Result<Option<Arc<SeekPath>>> {
    let Some(scan) = leaf.scan().filter(|_| leaf.table.hint().lets_read_all(at)) else {
        return Ok(None);
    };
    let path = SeekPath::whole(&leaf.table, at, &leaf.projection, scan.partitions()).map_err(external)?;
    Ok(path.filter(|path| path.covers || keeps_few).map(Arc::new))
}

/// The direction in which an index has the rows in an order; `None` if it has not.
fn direction_of(leaf: &Leaf, index: &Index, wanted: &[(JoinedColumn, SortOptions)]) -> Option<Direction> {
    let table = leaf.table.table();
    let is_fixed = |column: usize| leaf.predicates.iter().any(|predicate| is_one_value(predicate, column, table));
    let mut parts = index.key.iter().peekable();
    let mut direction = None;
    for (column, options) in wanted {
        if is_fixed(column.column) {
            continue;
        }
        while parts.next_if(|part| part.column != column.column && is_fixed(part.column)).is_some() {}
        let Some(part) = parts.next() else {
            // No two rows are equal in the columns so far.
            return direction.filter(|_| index.options.is_unique);
        };
        if part.column != column.column || !has_order_of(*column, table) || options.nulls_first == options.descending {
            return None;
        }
        let way = if part.is_descending == options.descending { Direction::Forward } else { Direction::Backward };
        if direction.is_some_and(|known| known != way) {
            return None;
        }
        direction = Some(way);
    }
    direction
}

/// Whether an expression over a column has the order of the column's key in an index.
fn has_order_of(column: JoinedColumn, table: &Table) -> bool {
    let definition = &table.columns[column.column];
    match column.form {
        KeyForm::Compared => column.collation.is_none_or(|collation| Some(collation) == definition.collation),
        KeyForm::Value | KeyForm::Widened | KeyForm::Scaled(_) => !has_sort_key(definition.sql_type),
    }
}

/// The ordered rows, as many as the sort keeps, in as many partitions as the sort has.
fn in_place_of(sort: &SortExec, ordered: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let limited: Arc<dyn ExecutionPlan> = match sort.fetch() {
        Some(rows) => Arc::new(LocalLimitExec::new(ordered, rows)),
        None => ordered,
    };
    if sort.preserve_partitioning() || limited.output_partitioning().partition_count() == 1 {
        return limited;
    }
    Arc::new(SortPreservingMergeExec::new(sort.expr().clone(), limited).with_fetch(sort.fetch()))
}

/// Whether a node keeps the order of rows, or loses it but can be removed.
fn is_passed(plan: &Arc<dyn ExecutionPlan>) -> bool {
    matches!(role(plan.as_ref()), Role::Project(_) | Role::Filter(_) | Role::Passes(Passing::Yields))
        || spreads_or_gathers(plan)
}

/// Whether an operator spreads rows in turn or gathers them, in no order. An exchange by values (a window's, a
/// group's) has a meaning.
fn spreads_or_gathers(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match role(plan.as_ref()) {
        Role::Exchange(Exchange::Spread(spread)) => matches!(spread.partitioning(), Partitioning::RoundRobinBatch(_)),
        Role::Exchange(Exchange::Gather) => true,
        _ => false,
    }
}

pub(super) fn has_filter(plan: &Arc<dyn ExecutionPlan>) -> bool {
    matches!(role(plan.as_ref()), Role::Filter(_)) || plan.children().into_iter().any(has_filter)
}

/// The scan or seek below nodes that keep the order of rows, or can be removed.
pub(super) fn source_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if is_source(plan) {
        return Some(plan);
    }
    if is_passed(plan) && plan.fetch().is_none() { source_below(plan.children().into_iter().next()?) } else { None }
}

fn is_source(plan: &Arc<dyn ExecutionPlan>) -> bool {
    matches!(role(plan.as_ref()), Role::Scan(_) | Role::Seek(_))
}

/// Rebuilds the operators above the scan or seek over `bottom` instead; exchanges are removed.
pub(super) fn above(plan: &Arc<dyn ExecutionPlan>, bottom: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if is_source(plan) {
        return Ok(Arc::clone(bottom));
    }
    let below = above(plan.children()[0], bottom)?;
    if spreads_or_gathers(plan) {
        Ok(below)
    } else {
        Arc::clone(plan).replace_children(vec![below], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
}
