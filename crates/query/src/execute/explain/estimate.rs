//! What is expected of an operator: the one place where anybody asks.
//!
//! Its rows are those that plans are chosen by (`execute::expected`); how wide they are the operators' own statistics
//! say, or their columns' types tell.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use super::super::expected::Expectations;

/// What is expected of the operators of one plan.
#[derive(Default)]
pub(super) struct Estimates {
    rows: Expectations,
    context: StatisticsContext,
    /// Whether nobody wants to know.
    is_idle: bool,
    /// What was found, by the addresses of operators: the plan is there as long as this is.
    known: RefCell<HashMap<usize, Expected>>,
}

/// What is expected of one of them.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Expected {
    /// Rows that all its workers give.
    pub(super) rows: f64,
    /// Bytes of each.
    pub(super) row_bytes: f64,
}

impl Estimates {
    /// None at all.
    pub(super) fn idle() -> Estimates {
        Estimates { is_idle: true, ..Estimates::default() }
    }

    /// What `plan` is expected to give.
    pub(super) fn of(&self, plan: &Arc<dyn ExecutionPlan>) -> Expected {
        if self.is_idle {
            return Expected::default();
        }
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
        let expected = self.rows.of(plan);
        let row_bytes = match (rows, bytes) {
            (Some(rows), Some(bytes)) if rows >= 1.0 && bytes > 0.0 => bytes / rows,
            _ => expected.width,
        };
        Expected { rows: expected.rows, row_bytes }
    }
}

/// Rows that an operator has before it runs; `None` if nobody knows.
pub(super) fn rows_there(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let known = StatisticsContext::default().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    match known.num_rows {
        Precision::Exact(rows) => Some(rows as u64),
        _ => None,
    }
}
