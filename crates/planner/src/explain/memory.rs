//! Estimates how much memory a plan's operators will keep.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use crate::expected::Expectations;
use hobt_operators::{Exchange, Join, MemoryWish, Role, role};
use hobt_table::{RowWidth, TEXT_BYTES};

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
    let (mut wish, estimates) = (MemoryWish::default(), Expectations::default());
    add(plan, &estimates, &mut wish);
    if wish.operators > 0 {
        wish.row_bytes = widest(plan, estimates.of(plan).text_bytes.unwrap_or(TEXT_BYTES as f64) as usize);
    }
    wish
}

/// Bytes of a row's fixed-length columns and of its texts at the widest point, with texts of `text_bytes`.
fn widest(plan: &Arc<dyn ExecutionPlan>, text_bytes: usize) -> (usize, usize) {
    let own = RowWidth::of(plan.schema().fields());
    let inputs = plan.children().into_iter().map(|input| widest(input, text_bytes));
    inputs.fold((own.fixed, own.texts * text_bytes), |(fixed, texts), of_input| {
        (fixed.max(of_input.0), texts.max(of_input.1))
    })
}

fn add(plan: &Arc<dyn ExecutionPlan>, estimates: &Expectations, wish: &mut MemoryWish) {
    if let Some(bytes) = kept(plan, estimates) {
        wish.operators += 1;
        wish.sorts += usize::from(matches!(role(plan.as_ref()), Role::Sort(_)));
        wish.bytes = wish.bytes.saturating_add(bytes as u64);
        let around = plan.children().into_iter().chain([plan]).map(|each| estimates.of(each).rows.ceil() as u64);
        wish.rows = wish.rows.max(around.max().unwrap_or(0));
    }
    wish.has_exchange |= matches!(role(plan.as_ref()), Role::Exchange(Exchange::Spread(_)));
    plan.children().into_iter().for_each(|input| add(input, estimates, wish));
}

/// Bytes that an operator keeps; `None` for one that keeps almost nothing.
fn kept(plan: &Arc<dyn ExecutionPlan>, estimates: &Expectations) -> Option<f64> {
    let bytes = |of: &Arc<dyn ExecutionPlan>, more: f64| {
        let known = estimates.of(of);
        known.rows * (known.width + more)
    };
    Some(match role(plan.as_ref()) {
        Role::Sort(sort) => bytes(plan, 0.0).min(bytes(sort.input(), 0.0)) * SORT_COPIES * OF_ALL,
        Role::Join(Join::Hash(join)) => bytes(join.left(), TABLE_BYTES) * OF_ALL / 2.0,
        Role::Join(Join::Ranges(join)) => bytes(join.loops().left(), TABLE_BYTES) * RANGE_COPIES,
        Role::Join(Join::Loops(join)) => bytes(join.left(), 0.0),
        Role::Join(Join::Cross(join)) => bytes(join.left(), 0.0),
        // Distinct values are kept one by one, as groups are.
        Role::Group(grouping) if grouping.aggr_expr().iter().any(|aggregate| aggregate.is_distinct()) => {
            bytes(grouping.input(), TABLE_BYTES) * OF_ALL
        }
        Role::Group(grouping) => {
            let is_sorted = *grouping.input_order_mode() == InputOrderMode::Sorted;
            let keeps = !grouping.group_expr().is_empty() && !is_sorted;
            return keeps.then(|| bytes(plan, TABLE_BYTES) * OF_ALL);
        }
        Role::Window { keeps_partition: true, .. } => bytes(plan, 0.0),
        // Of a merge join one key's rows are kept, of these one batch or none.
        Role::Join(Join::Merge(_) | Join::Lookup(_) | Join::RowLoops(_)) | Role::Window { .. } => return None,
        Role::Scan(_) | Role::Seek(_) | Role::ScanAggregate(_) | Role::Constant(_) | Role::Made => return None,
        Role::WorkTable | Role::Outer(_) | Role::StandIn | Role::Passes(_) | Role::Exchange(_) | Role::Unseen(_) => {
            return None;
        }
        Role::Locks(_) | Role::Filter(_) | Role::Project(_) | Role::Limit { .. } | Role::Union => return None,
        // Held by the statement, not by an operator.
        Role::Spool | Role::SpoolRead(_) => return None,
        Role::Unnest | Role::Recursion | Role::Subqueries(_) | Role::Unknown => return None,
    })
}
