//! Windows whose partitions need not fit into memory.
//!
//! ```text
//!   rows in the order of the partitions ──┬─ the columns that the functions read ──► functions ──► their columns ──┐
//!                                         └─ the rows, in memory or on disk ───────────────────────────────────────┴─►
//! ```
//! DataFusion's operators keep rows without counting them. One reads all of its input before it gives a row. The other,
//! for functions that look at few rows around theirs, keeps few rows, but all buffers of texts that it has seen.
//!
//! - `running`: functions of the rows up to the current one, whose columns are computed here, batch after batch.
//! - `streamed`: other functions of few rows. DataFusion's operator gets only the columns that they read, and numbers
//!   in place of the keys of texts. The rows wait beside it (`waiting`), and meet its columns again. A frame that
//!   reaches far ahead makes many of them wait; the columns that the operator keeps of these are in memory, or error
//!   701.
//! - `whole`: functions of the whole partition. Aggregates read it once; then its rows come back from where they are
//!   held, with the aggregates' values. For other functions (`NTILE`, `PERCENT_RANK`, `LAST_VALUE` of all rows …) the
//!   columns that they read are kept in memory, and error 701 is what remains if there is none.

mod light;
mod running;
mod streamed;
mod waiting;
mod whole;

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use futures::StreamExt;
use hobt_base::SqlError;
use hobt_table::StatementRun;
use hobt_udf::sql_error_of;

/// Replaces the windows of a plan by windows that can spill.
///
/// # Errors
/// A node rejects its new input.
pub fn spilling_windows(
    plan: Arc<dyn ExecutionPlan>,
    run: &Arc<StatementRun>,
) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let made = plan.transform_up(|node| {
        let is_streamed = match node.downcast_ref::<BoundedWindowAggExec>() {
            Some(windows) => can_be_streamed(windows) || running::can_run(windows)?,
            None => false,
        };
        Ok(match is_streamed || node.is::<WindowAggExec>() {
            true => Transformed::yes(Arc::new(SpillWindowExec::new(node, run)) as Arc<dyn ExecutionPlan>),
            false => Transformed::no(node),
        })
    });
    made.data().map_err(sql_error_of)
}

/// Whether rows come out in the order in which they go in, and the keys of the partitions are columns.
fn can_be_streamed(windows: &BoundedWindowAggExec) -> bool {
    let keys = windows.window_expr().iter().flat_map(|window| window.partition_by());
    windows.input_order_mode == InputOrderMode::Sorted && keys.into_iter().all(|key| key.is::<Column>())
}

/// Windows that can spill; plans show them as DataFusion's.
struct SpillWindowExec {
    /// DataFusion's operator over the rows.
    windows: Arc<dyn ExecutionPlan>,
    run: Arc<StatementRun>,
    metrics: ExecutionPlanMetricsSet,
}

impl SpillWindowExec {
    fn new(windows: Arc<dyn ExecutionPlan>, run: &Arc<StatementRun>) -> SpillWindowExec {
        SpillWindowExec { windows, run: Arc::clone(run), metrics: ExecutionPlanMetricsSet::new() }
    }

    fn around(&self, windows: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(SpillWindowExec::new(windows, &self.run))
    }
}

impl fmt::Debug for SpillWindowExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillWindowExec").field("windows", &self.windows).finish_non_exhaustive()
    }
}

crate::inputs::shows_as!(SpillWindowExec, windows);

impl ExecutionPlan for SpillWindowExec {
    crate::inputs::stands_for!(windows);

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = match self.windows.downcast_ref::<BoundedWindowAggExec>() {
            Some(windows) => match running::rows(windows, partition, &context, &self.run, metrics.elapsed_compute())? {
                Some(rows) => rows,
                None => streamed::rows(windows, partition, &context, &self.run)?,
            },
            None => whole::rows(self.windows.as_ref(), partition, &context, &self.run)?,
        };
        let counted = rows.inspect(move |batch| {
            if let Ok(batch) = batch {
                metrics.record_output(batch.num_rows());
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
