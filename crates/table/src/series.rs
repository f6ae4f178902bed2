//! `GENERATE_SERIES`: integers, made batch by batch when they are requested.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::memory::{LazyBatchGenerator, LazyMemoryExec};
use parking_lot::RwLock;

/// The integers from `start` to `stop` by `step`. The column's type is the carrier of a type that holds them all.
#[derive(Debug)]
pub struct Series {
    start: i64,
    stop: i64,
    step: i64,
    schema: SchemaRef,
}

impl Series {
    /// The series; it is empty if `step` leads away from `stop`.
    ///
    /// # Panics
    /// The step is 0.
    pub fn new(start: i64, stop: i64, step: i64, carrier: DataType) -> Series {
        assert_ne!(step, 0, "a series has an end");
        let schema = Arc::new(Schema::new(vec![Field::new("value", carrier, false)]));
        Series { start, stop, step, schema }
    }

    /// How many numbers there are.
    pub(crate) fn rows(&self) -> u64 {
        self.steps(1).rows()
    }

    fn steps(&self, batch_rows: usize) -> Steps {
        let Series { start, stop, step, .. } = *self;
        Steps { next: Some(start), first: start, stop, step, batch_rows, schema: Arc::clone(&self.schema) }
    }
}

/// How many rows the plan of a series gives; `None` for any other plan.
pub fn series_rows(plan: &dyn ExecutionPlan) -> Option<u64> {
    let made = plan.downcast_ref::<LazyMemoryExec>()?;
    let mut parts = made.generators().iter().map(|made| made.read().as_any().downcast_ref::<Steps>().map(Steps::rows));
    parts.try_fold(0_u64, |sum, rows| Some(sum.saturating_add(rows?)))
}

/// A plan of the batches that `made` gives, with the columns of a projection.
pub(crate) fn generated_rows(
    schema: SchemaRef,
    made: impl LazyBatchGenerator + 'static,
    projection: Option<&Vec<usize>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = LazyMemoryExec::try_new(schema, vec![Arc::new(RwLock::new(made))])?;
    Ok(Arc::new(plan.with_projection(projection.cloned())))
}

#[async_trait]
impl TableProvider for Series {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let steps = self.steps(session.config().batch_size());
        generated_rows(self.schema(), steps, projection)
    }
}

/// The state of a series that is being read.
#[derive(Clone, Debug)]
struct Steps {
    /// `None` after the last 64-bit integer.
    next: Option<i64>,
    first: i64,
    stop: i64,
    step: i64,
    /// Rows of a batch, the size that operators above are made for: a sort counts the texts of a longer batch several
    /// times.
    batch_rows: usize,
    schema: SchemaRef,
}

impl Steps {
    /// How many integers there are in all.
    fn rows(&self) -> u64 {
        let (first, stop, step) = (i128::from(self.first), i128::from(self.stop), i128::from(self.step));
        let leads_away = (stop - first).signum() == -step.signum();
        if leads_away { 0 } else { u64::try_from((stop - first) / step + 1).unwrap_or(u64::MAX) }
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "series from {} to {} by {}", self.first, self.stop, self.step)
    }
}

impl Iterator for Steps {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let stop = self.stop;
        let step = self.step;
        let value = self.next.filter(|value| if step > 0 { *value <= stop } else { *value >= stop })?;
        self.next = value.checked_add(step);
        Some(value)
    }
}

impl LazyBatchGenerator for Steps {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn generate_next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let batch_rows = self.batch_rows;
        let values: Int64Array = self.by_ref().take(batch_rows).collect();
        let values: ArrayRef = Arc::new(values);
        if values.is_empty() {
            return Ok(None);
        }
        let values = arrow::compute::cast(&values, self.schema.field(0).data_type())?;
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), vec![values])?))
    }

    fn reset_state(&self) -> Arc<RwLock<dyn LazyBatchGenerator>> {
        Arc::new(RwLock::new(Steps { next: Some(self.first), ..self.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_ends_at_the_last_number() {
        let series = |start, stop, step| {
            let series = Series::new(start, stop, step, DataType::Int64);
            let numbers: Vec<i64> = series.steps(1).take(9).collect();
            assert_eq!(series.rows(), numbers.len() as u64, "{series:?}");
            numbers
        };
        assert_eq!(series(1, 7, 3), [1, 4, 7]);
        assert_eq!(series(1, 8, 3), [1, 4, 7]);
        assert_eq!(series(5, 2, -2), [5, 3]);
        assert_eq!(series(4, 4, -2), [4]);
        assert!(series(1, 0, 1).is_empty());
        assert!(series(0, 1, -3).is_empty());
        assert_eq!(series(i64::MAX - 1, i64::MAX, 1), [i64::MAX - 1, i64::MAX]);
        assert_eq!(series(i64::MIN + 1, i64::MIN, -1), [i64::MIN + 1, i64::MIN]);
        assert_eq!(series(i64::MAX, i64::MIN, i64::MIN), [i64::MAX, -1]);
        assert_eq!(Series::new(i64::MIN, i64::MAX, 1, DataType::Int64).rows(), u64::MAX, "more than that by one");
    }

    #[test]
    fn batches_are_no_longer_than_the_plan_wants_them() {
        let mut steps = Series::new(1, 70, 1, DataType::Int32).steps(64);
        let mut lengths = || {
            let batches = std::iter::from_fn(|| steps.generate_next_batch().expect("numbers of the type"));
            batches.map(|batch| batch.num_rows()).collect::<Vec<_>>()
        };
        assert_eq!((lengths(), lengths()), (vec![64, 6], vec![]));
        let again = steps.reset_state();
        let first = again.write().generate_next_batch().expect("numbers").expect("it begins anew");
        assert_eq!(first.num_rows(), 64);
    }
}
