//! An operator and an expression that end when their statement is cancelled.
//!
//! Leaves to others: where they stand in a plan (`cancellable`).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{ExecutionPlan, RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt};
use hobt_base::SqlError;

use super::inputs::{passes_on, shows_its_name, without_expressions};
use hobt_table::StatementRun;
use hobt_udf::external;

fn check(run: &StatementRun) -> Result<()> {
    if run.is_cancelled() { Err(external(SqlError::cancelled())) } else { Ok(()) }
}

/// Passes an operator's batches on until its statement is cancelled.
#[derive(Debug)]
pub(crate) struct CancelExec {
    inner: Arc<dyn ExecutionPlan>,
    run: Arc<StatementRun>,
}

impl CancelExec {
    /// Passes on the batches of `inner` until `run` is cancelled.
    pub(super) fn new(inner: Arc<dyn ExecutionPlan>, run: &Arc<StatementRun>) -> CancelExec {
        CancelExec { inner, run: Arc::clone(run) }
    }

    fn over(&self, inner: Arc<dyn ExecutionPlan>) -> CancelExec {
        CancelExec { inner, run: Arc::clone(&self.run) }
    }
}

shows_its_name!(CancelExec);

impl ExecutionPlan for CancelExec {
    passes_on!(inner);
    without_expressions!();

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let inner = self.inner.execute(partition, task)?;
        Ok(Box::pin(CancelStream { inner, run: Arc::clone(&self.run) }))
    }
}

struct CancelStream {
    inner: SendableRecordBatchStream,
    run: Arc<StatementRun>,
}

impl Stream for CancelStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = check(&self.run) {
            return Poll::Ready(Some(Err(error)));
        }
        self.inner.poll_next_unpin(task)
    }
}

impl RecordBatchStream for CancelStream {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }
}

/// A join's filter that checks at each batch whether its statement was cancelled.
#[derive(Debug)]
pub struct CancelExpr {
    inner: Arc<dyn PhysicalExpr>,
    run: Arc<StatementRun>,
}

impl CancelExpr {
    /// Evaluates `inner` until `run` is cancelled.
    pub(super) fn new(inner: Arc<dyn PhysicalExpr>, run: &Arc<StatementRun>) -> CancelExpr {
        CancelExpr { inner, run: Arc::clone(run) }
    }

    /// The filter itself.
    pub fn inner(&self) -> &Arc<dyn PhysicalExpr> {
        &self.inner
    }
}

impl PartialEq for CancelExpr {
    fn eq(&self, other: &CancelExpr) -> bool {
        self.inner.eq(&other.inner) && Arc::ptr_eq(&self.run, &other.run)
    }
}

impl Eq for CancelExpr {}

impl Hash for CancelExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for CancelExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for CancelExpr {
    fn data_type(&self, input: &Schema) -> Result<DataType> {
        self.inner.data_type(input)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.inner.nullable(input)
    }

    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.inner.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        check(&self.run)?;
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let inner = children.pop().unwrap_or_else(|| Arc::clone(&self.inner));
        Ok(Arc::new(CancelExpr { inner, run: Arc::clone(&self.run) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
