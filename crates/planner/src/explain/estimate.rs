//! The estimates that a shown plan carries.
//!
//! Row counts are those by which plans are chosen (`execute::expected`). Row widths come from the operators' own
//! statistics, or else from their columns' types.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use crate::expected::Expectations;

/// The estimates of the operators of one plan.
#[derive(Default)]
pub(super) struct Estimates {
    rows: Expectations,
    context: StatisticsContext,
    /// Whether no estimates are wanted.
    is_idle: bool,
    /// The estimates found, by the addresses of operators: the plan lives longer than this struct.
    known: RefCell<HashMap<usize, Expected>>,
}

/// The estimate of one operator.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Expected {
    /// Rows of all its workers together.
    pub(super) rows: f64,
    /// Bytes per row.
    pub(super) row_bytes: f64,
}

impl Estimates {
    /// Gives no estimates: all are zero.
    pub(super) fn idle() -> Estimates {
        Estimates { is_idle: true, ..Estimates::default() }
    }

    /// The estimate for `plan`.
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

/// The number of rows that an operator holds before it runs; `None` if it is not known exactly.
pub(super) fn rows_there(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let known = StatisticsContext::default().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    match known.num_rows {
        Precision::Exact(rows) => Some(rows as u64),
        _ => None,
    }
}
