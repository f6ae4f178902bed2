//! Joins and other operators that can be cancelled.
//!
//! A task can be stopped only where it yields, and a scan checks for cancellation at each range. A join may compute for
//! minutes on one batch of its input without reaching either. An operator that already has its whole input (groups, a
//! sort, a window) gives out its rows without asking for more. So the output of these operators passes through a
//! [`CancelExec`]. The filter of a join, which may reject every pair so that nothing is passed on, is wrapped in a
//! [`CancelExpr`].

use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, RecordBatchStream, SendableRecordBatchStream,
};
use futures::{Stream, StreamExt};
use hobt_base::SqlError;

use super::again::AgainExec;
use super::inputs::{passes_on, without_expressions};
use super::range_join::RangeJoinExec;
use hobt_table::StatementRun;
use hobt_udf::{external, sql_error_of};

/// The plan with operators that stop when `run` is cancelled. The left side of nested loops becomes readable twice.
///
/// # Errors
/// A join cannot be rebuilt from its parts.
pub fn cancellable(plan: Arc<dyn ExecutionPlan>, run: &Arc<StatementRun>) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let made = plan.transform_up(|node| {
        let inner: Arc<dyn ExecutionPlan> = if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            Arc::new(NestedLoopJoinExec::try_new(
                Arc::new(AgainExec::left_of(join)),
                Arc::clone(join.right()),
                join.filter().map(|filter| checked(filter, run)),
                join.join_type(),
                join.projection().as_ref().map(|projection| projection.to_vec()),
            )?)
        } else if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            match join.filter() {
                None => Arc::clone(&node),
                Some(filter) => Arc::new(join.builder().with_filter(Some(checked(filter, run))).build()?),
            }
        } else if let Some(join) = node.downcast_ref::<RangeJoinExec>() {
            Arc::new(join.stopping_with(run))
        } else if keeps_on(node.as_ref()) {
            Arc::clone(&node)
        } else {
            return Ok(Transformed::no(node));
        };
        Ok(Transformed::yes(Arc::new(CancelExec { inner, run: Arc::clone(run) }) as Arc<dyn ExecutionPlan>))
    });
    made.data().map_err(sql_error_of)
}

/// Whether an operator gives out many batches that it holds, without asking its inputs for more.
fn keeps_on(node: &dyn ExecutionPlan) -> bool {
    node.downcast_ref::<CrossJoinExec>().is_some()
        || node.downcast_ref::<SortMergeJoinExec>().is_some()
        || node.downcast_ref::<AggregateExec>().is_some()
        || node.downcast_ref::<SortExec>().is_some()
        || node.downcast_ref::<WindowAggExec>().is_some()
}

fn checked(filter: &JoinFilter, run: &Arc<StatementRun>) -> JoinFilter {
    let expression = CancelExpr { inner: Arc::clone(filter.expression()), run: Arc::clone(run) };
    JoinFilter::new(Arc::new(expression), filter.column_indices().to_vec(), Arc::clone(filter.schema()))
}

fn check(run: &StatementRun) -> Result<()> {
    if run.is_cancelled() { Err(external(SqlError::cancelled())) } else { Ok(()) }
}

/// Passes an operator's batches on until its statement is cancelled.
#[derive(Debug)]
pub struct CancelExec {
    inner: Arc<dyn ExecutionPlan>,
    run: Arc<StatementRun>,
}

impl CancelExec {
    fn over(&self, inner: Arc<dyn ExecutionPlan>) -> CancelExec {
        CancelExec { inner, run: Arc::clone(&self.run) }
    }
}

impl DisplayAs for CancelExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CancelExec")
    }
}

impl ExecutionPlan for CancelExec {
    fn name(&self) -> &'static str {
        "CancelExec"
    }

    passes_on!(inner);
    without_expressions!();

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let inner = self.inner.execute(partition, task)?;
        Ok(Box::pin(CancelStream { inner, run: Arc::clone(&self.run) }))
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(inputs.first().map_or_else(|| Arc::new(Statistics::new_unknown(&self.schema())), Arc::clone))
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
