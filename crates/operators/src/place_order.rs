//! Rows to change in the order of their positions.
//!
//! Where a join finds the rows, each may lie on another page than the one before. If there are many, a page is read
//! and written again for each of its rows. So rows that went to disk are sorted before they change.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::SortOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use hobt_base::SqlError;

use super::places::Places;
use super::runner::gathered;

/// How many batches of rows have come, and how many of them are not in the order of their positions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlaceOrder {
    batches: u64,
    scattered: u64,
}

impl PlaceOrder {
    /// Counts a batch. Its first column is the rows' position.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn note(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let is_sorted = match Places::of(batch)? {
            Places::Numbers(numbers) => numbers.values().is_sorted(),
            Places::Keys(keys) => (1..keys.len()).all(|row| keys.value(row - 1) <= keys.value(row)),
        };
        self.batches += 1;
        self.scattered += u64::from(!is_sorted);
        Ok(())
    }

    /// Whether the rows come from all over the table. Workers that scan it alternate, but each of their batches is
    /// sorted.
    pub(crate) fn is_scattered(self) -> bool {
        self.scattered * 4 > self.batches
    }
}

/// The rows of a plan by its first column.
///
/// # Errors
/// An internal error if it has no columns.
pub fn sorted_by_first(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let schema = plan.schema();
    let first = schema.fields().first().map(|field| Column::new(field.name(), 0));
    let first = first.ok_or_else(|| SqlError::internal("rows to change without their places"))?;
    let order = LexOrdering::from([PhysicalSortExpr::new(Arc::new(first), SortOptions::default())]);
    Ok(Arc::new(SortExec::new(order, gathered(plan))))
}
