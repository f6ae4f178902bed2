//! Scans in the order of an index in place of a sort.
//!
//! The rule finds a sort over nothing but a scan, conditions and projections. Where an index of the table has the order that
//! the sort makes, forward or backward, and all columns that are read, the scan goes over that index and the sort is left
//! out. A sort that keeps few rows (`TOP`) takes an index too whose rows have to be followed to the table.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, ReplaceChildrenOptions};
use hobt_access::Direction;

use super::scan_exec::ScanExec;
use super::seek_exec::SeekExec;
use crate::access_path::{AccessHint, SeekPath};
use crate::wrap::external;

/// The most rows of a `TOP` that are followed one by one to a table.
const FOLLOWED_ROWS_MAX: usize = 1000;

/// Puts scans in the order of an index in the place of sorts.
#[derive(Debug, Default)]
pub struct OrderedScanRule;

impl PhysicalOptimizerRule for OrderedScanRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
            Ok(match without_sort(sort)? {
                Some(ordered) => Transformed::yes(ordered),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "hobt_ordered_scan"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What gives the rows of a sort in its order without sorting them.
fn without_sort(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(scan) = scan_below(sort.input()) else { return Ok(None) };
    let source = scan.downcast_ref::<ScanExec>().expect("found as one");
    let table = source.table();
    let indexes = &table.table().indexes;
    for (at, index) in indexes.iter().enumerate().filter(|(_, index)| !index.key.is_empty()) {
        let is_asked_for = match table.hint() {
            AccessHint::Free => true,
            AccessHint::Index(asked) => asked == at,
            // All of an index is no seek.
            AccessHint::Scan | AccessHint::Seek => false,
        };
        if !is_asked_for || index.options.is_disabled {
            continue;
        }
        let path = SeekPath::whole(table, at, source.projection(), source.partitions()).map_err(external)?;
        let Some(path) = path.map(Arc::new) else { continue };
        let keeps_few = sort.fetch().is_some_and(|rows| rows <= FOLLOWED_ROWS_MAX) && !has_filter(sort.input());
        if !path.covers && !keeps_few {
            continue;
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let (table, projection) = (Arc::clone(table), source.projection().to_vec());
            let seek = SeekExec::in_direction(table, Arc::clone(&path), direction, projection, scan.schema());
            let ordered = above(sort.input(), &(Arc::new(seek) as Arc<dyn ExecutionPlan>))?;
            if ordered.equivalence_properties().ordering_satisfy(sort.expr().iter().cloned())? {
                return Ok(Some(in_place_of(sort, ordered)));
            }
        }
    }
    Ok(None)
}

/// The rows in order, as many as the sort keeps, in as many partitions as it has.
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

/// Whether a node leaves the order of rows as it is, or gives it up and can be left out.
fn is_passed(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ProjectionExec>() || plan.is::<FilterExec>() || plan.is::<CooperativeExec>() || is_exchange(plan)
}

/// An exchange that only spreads or gathers rows. One by values (a window's, a group's) has a meaning.
fn is_exchange(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let spreads = plan.downcast_ref::<RepartitionExec>();
    let spreads = spreads.is_some_and(|exchange| matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_)));
    spreads || plan.is::<CoalescePartitionsExec>()
}

fn has_filter(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<FilterExec>() || plan.children().into_iter().any(has_filter)
}

fn scan_below(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if plan.is::<ScanExec>() {
        return Some(Arc::clone(plan));
    }
    if is_passed(plan) { scan_below(plan.children().first()?) } else { None }
}

/// What stands above the scan, above `bottom` in its place; exchanges are left out.
fn above(plan: &Arc<dyn ExecutionPlan>, bottom: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<ScanExec>() {
        return Ok(Arc::clone(bottom));
    }
    let below = above(plan.children()[0], bottom)?;
    if is_exchange(plan) {
        Ok(below)
    } else {
        Arc::clone(plan).replace_children(vec![below], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }
}
