//! Estimates how much memory a plan's operators will keep.

use std::sync::Arc;

use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use super::estimate::{Estimates, Expected};
use hobt_operators::{MemoryWish, RangeJoinExec};
use hobt_table::RowWidth;

/// About how many bytes a row takes in a hash table beside its own.
const TABLE_BYTES: f64 = 40.0;
/// A sort writes the rows that it keeps to new batches in order, which takes as much again.
const SORT_COPIES: f64 = 2.0;
/// A range join concatenates the rows that it keeps and sorts the compared values.
const RANGE_COPIES: f64 = 3.0;
/// Operators that can spill get a third of their statement's memory: the rest is for merging what was spilled.
const OF_ALL: f64 = 3.0;

/// The memory that the operators of `plan` would use.
pub fn memory_wish(plan: &Arc<dyn ExecutionPlan>) -> MemoryWish {
    let (mut wish, estimates) = (MemoryWish::default(), Estimates::default());
    add(plan, &estimates, &mut wish);
    if wish.operators > 0 {
        wish.row_bytes = widest(plan, text_bytes(plan, &estimates));
    }
    wish
}

/// Bytes of one text value, the largest estimate of the tables below.
fn text_bytes(plan: &Arc<dyn ExecutionPlan>, estimates: &Estimates) -> usize {
    let inputs = plan.children();
    if !inputs.is_empty() {
        return inputs.into_iter().map(|input| text_bytes(input, estimates)).max().unwrap_or(0);
    }
    let RowWidth { fixed, texts } = RowWidth::of(plan.schema().fields());
    (estimates.of(plan).row_bytes as usize).saturating_sub(fixed).checked_div(texts).unwrap_or(0)
}

/// Bytes of a row's fixed-length columns and of its texts at the widest point, with texts of `text_bytes`.
fn widest(plan: &Arc<dyn ExecutionPlan>, text_bytes: usize) -> (usize, usize) {
    let own = RowWidth::of(plan.schema().fields());
    let inputs = plan.children().into_iter().map(|input| widest(input, text_bytes));
    inputs.fold((own.fixed, own.texts * text_bytes), |(fixed, texts), of_input| {
        (fixed.max(of_input.0), texts.max(of_input.1))
    })
}

fn add(plan: &Arc<dyn ExecutionPlan>, estimates: &Estimates, wish: &mut MemoryWish) {
    if let Some(bytes) = kept(plan, estimates) {
        wish.operators += 1;
        wish.sorts += usize::from(plan.is::<SortExec>());
        wish.bytes = wish.bytes.saturating_add(bytes as u64);
        let around = plan.children().into_iter().chain([plan]).map(|each| estimates.of(each).rows.ceil() as u64);
        wish.rows = wish.rows.max(around.max().unwrap_or(0));
    }
    wish.has_exchange |= plan.is::<RepartitionExec>();
    plan.children().into_iter().for_each(|input| add(input, estimates, wish));
}

/// Bytes that an operator keeps; `None` for one that keeps almost nothing.
fn kept(plan: &Arc<dyn ExecutionPlan>, estimates: &Estimates) -> Option<f64> {
    let bytes = |of: &Arc<dyn ExecutionPlan>, more: f64| {
        let Expected { rows, row_bytes } = estimates.of(of);
        rows * (row_bytes + more)
    };
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return Some(bytes(plan, 0.0).min(bytes(sort.input(), 0.0)) * SORT_COPIES * OF_ALL);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return Some(bytes(join.left(), TABLE_BYTES) * OF_ALL / 2.0);
    }
    if let Some(grouping) = plan.downcast_ref::<AggregateExec>() {
        // Distinct values are kept one by one, as groups are.
        if grouping.aggr_expr().iter().any(|aggregate| aggregate.is_distinct()) {
            return Some(bytes(grouping.input(), TABLE_BYTES) * OF_ALL);
        }
        let keeps = !grouping.group_expr().is_empty() && *grouping.input_order_mode() != InputOrderMode::Sorted;
        return keeps.then(|| bytes(plan, TABLE_BYTES) * OF_ALL);
    }
    if plan.is::<WindowAggExec>() {
        return Some(bytes(plan, 0.0));
    }
    if let Some(join) = plan.downcast_ref::<RangeJoinExec>().and_then(RangeJoinExec::loops) {
        return Some(bytes(join.left(), TABLE_BYTES) * RANGE_COPIES);
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return Some(bytes(join.left(), 0.0));
    }
    plan.downcast_ref::<CrossJoinExec>().map(|join| bytes(join.left(), 0.0))
}
