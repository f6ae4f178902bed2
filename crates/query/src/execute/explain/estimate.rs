//! What is expected of an operator: the one place where anybody asks.
//!
//! The operators' own statistics answer, from those of the tables up. Where an operator says nothing, its input's rows
//! are taken, as far as it cannot have more.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::stats::Precision;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;

use super::super::aggregate_scan::AggregateScanExec;

/// The part of rows that fulfil a condition of which nothing is known, as the executor takes it too.
const UNKNOWN_PART: f64 = 0.2;
/// Rows of what says nothing of itself: a function that makes them.
const UNKNOWN_ROWS: f64 = 100.0;
/// Bytes that a text of unknown length is taken for.
const TEXT_BYTES: usize = 24;

/// What is expected of the operators of one plan.
#[derive(Default)]
pub(super) struct Estimates {
    context: StatisticsContext,
    /// What was found, by the addresses of operators: the plan is there as long as this is.
    known: RefCell<HashMap<usize, Expected>>,
}

/// What is expected of one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// Rows that all its workers give.
    pub(super) rows: f64,
    /// Bytes of each.
    pub(super) row_bytes: f64,
}

impl Estimates {
    /// What `plan` is expected to give.
    pub(super) fn of(&self, plan: &Arc<dyn ExecutionPlan>) -> Expected {
        let address = Arc::as_ptr(plan).cast::<()>().addr();
        let known = self.known.borrow().get(&address).copied();
        known.unwrap_or_else(|| {
            let found = self.find(plan);
            self.known.borrow_mut().insert(address, found);
            found
        })
    }

    fn find(&self, plan: &Arc<dyn ExecutionPlan>) -> Expected {
        let known = self.context.compute(plan.as_ref(), &StatisticsArgs::new()).ok();
        let number = |value: &Precision<usize>| value.get_value().map(|value| *value as f64);
        let rows = known.as_ref().and_then(|known| number(&known.num_rows));
        let bytes = known.as_ref().and_then(|known| number(&known.total_byte_size));
        let row_bytes = match (rows, bytes) {
            (Some(rows), Some(bytes)) if rows >= 1.0 && bytes > 0.0 => bytes / rows,
            _ => width_of(&plan.schema()) as f64,
        };
        Expected { rows: rows.unwrap_or_else(|| self.guessed(plan)), row_bytes }
    }

    /// Rows of an operator that does not say.
    fn guessed(&self, plan: &Arc<dyn ExecutionPlan>) -> f64 {
        let aggregates_all = plan.downcast_ref::<AggregateExec>().is_some_and(|node| node.group_expr().is_empty());
        if aggregates_all || plan.is::<AggregateScanExec>() {
            return plan.properties().partitioning.partition_count() as f64;
        }
        let inputs: Vec<f64> = plan.children().into_iter().map(|input| self.of(input).rows).collect();
        let most = inputs.iter().copied().fold(0.0, f64::max);
        let rows = match plan {
            _ if inputs.is_empty() => UNKNOWN_ROWS,
            _ if plan.is::<UnionExec>() => inputs.iter().sum(),
            _ if plan.is::<FilterExec>() => most * UNKNOWN_PART,
            _ => most,
        };
        plan.fetch().map_or(rows, |fetch| rows.min(fetch as f64))
    }
}

/// Bytes of a row by its columns' types.
fn width_of(schema: &Schema) -> usize {
    let width = |data_type: &DataType| data_type.primitive_width().unwrap_or(TEXT_BYTES);
    schema.fields().iter().map(|field| width(field.data_type())).sum()
}
