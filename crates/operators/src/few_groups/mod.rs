//! Partial aggregation while the groups are few.
//!
//! ```text
//!   rows ─► codes of each key column ─► groups ─► accumulators ──► one batch of states at the end
//!             a text's sort key is made once for each text, not for each row
//!      └─ groups too many, or memory short: the states so far, and the rest by DataFusion's operator
//! ```
//! Each value of a key column gets a number the first time it comes, so that a row costs a look into a table for each
//! key column, and one for each pair of them. With `ROLLUP` and the like the numbers of a row serve all of its sets.
//!
//! A text is grouped by its sort key, and its group shows the least text of the group (see `hobt-binder`). Here rows
//! are grouped by the text itself: then the group has one text, and its key is made at the end. Texts that are equal
//! under the collation make several rows for one group, which the final aggregation merges like those of other workers.
//!
//! Leaves to others: which plan (`hobt-planner`), what an aggregate computes (`hobt-functions`), the final aggregation
//! and groups that need files (DataFusion).

mod batches;
mod gathering;
mod shape;

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use futures::{StreamExt, TryStreamExt};
use hobt_base::SqlError;
use hobt_udf::sql_error_of;

use crate::group_scan::{GROUPS_EXPECTED_MAX, GroupScanExec, GroupScanShape};
use crate::spill_join::OnceStreamExec;
pub(crate) use batches::{KeyValues, cut};
use gathering::{Added, Gathering};
pub(crate) use shape::{Set, Shape};

/// A group is expected to have at least so many rows where it is worth to be made twice.
pub const ROWS_OF_GROUP_MIN: f64 = 1.5;

/// Replaces the partial aggregations of a plan by those that are quick while the groups are few. `expected` tells how
/// many rows an operator is expected to give.
///
/// # Errors
/// A node rejects its new input.
pub fn grouping_few(
    plan: Arc<dyn ExecutionPlan>,
    expected: &dyn Fn(&Arc<dyn ExecutionPlan>) -> f64,
) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let made = plan.transform_up(|node| {
        let Some(aggregation) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
        // DataFusion's operator soon notices that rows are passed on as cheaply as groups.
        let groups = expected(&node);
        if groups * ROWS_OF_GROUP_MIN > expected(aggregation.input()) {
            return Ok(Transformed::no(node));
        }
        if let Some(shape) = GroupScanShape::of(aggregation).filter(|_| groups <= GROUPS_EXPECTED_MAX) {
            return Ok(Transformed::yes(Arc::new(GroupScanExec::new(node, shape)) as Arc<dyn ExecutionPlan>));
        }
        let shape = Shape::of(aggregation).filter(|shape| !shape.keys.is_empty());
        Ok(match shape {
            Some(shape) => Transformed::yes(Arc::new(FewGroupsExec::new(node, shape)) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    });
    made.data().map_err(sql_error_of)
}

/// A partial aggregation; plans show it as an [`AggregateExec`].
struct FewGroupsExec {
    /// DataFusion's operator.
    aggregation: Arc<dyn ExecutionPlan>,
    shape: Arc<Shape>,
    metrics: ExecutionPlanMetricsSet,
}

impl FewGroupsExec {
    fn new(aggregation: Arc<dyn ExecutionPlan>, shape: Shape) -> FewGroupsExec {
        FewGroupsExec { aggregation, shape: Arc::new(shape), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// As [`FewGroupsExec::new`]; the aggregation itself if it has another shape now.
    fn around(&self, aggregation: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let shape = aggregation.downcast_ref::<AggregateExec>().and_then(Shape::of);
        match shape.filter(|shape| !shape.keys.is_empty()) {
            Some(shape) => Arc::new(FewGroupsExec::new(aggregation, shape)),
            None => aggregation,
        }
    }
}

impl fmt::Debug for FewGroupsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FewGroupsExec").field("aggregation", &self.aggregation).finish_non_exhaustive()
    }
}

crate::inputs::shows_as!(FewGroupsExec, aggregation);

impl ExecutionPlan for FewGroupsExec {
    crate::inputs::stands_for!(aggregation);

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let elapsed = metrics.elapsed_compute().clone();
        let mut rows = self.shape.source().execute(partition, Arc::clone(&context))?;
        let mut gathering = Gathering::new(&self.shape, &context)?;
        let (shape, aggregation) = (Arc::clone(&self.shape), Arc::clone(&self.aggregation));
        let opened = async move {
            let mut is_full = false;
            while !is_full && let Some(batch) = rows.next().await {
                let _timed = elapsed.timer();
                is_full = gathering.add(&batch?)? == Added::Full;
            }
            let timed = elapsed.timer();
            let given = futures::stream::iter(gathering.into_batches()?);
            timed.done();
            let rest = if is_full { shape.rest(&aggregation, rows)?.execute(0, context)? } else { nothing(&shape) };
            Ok::<_, datafusion::common::DataFusionError>(given.chain(rest))
        };
        let made = futures::stream::once(opened).try_flatten().inspect(move |batch| {
            if let Ok(batch) = batch {
                metrics.record_output(batch.num_rows());
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), made)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// No further rows.
fn nothing(shape: &Shape) -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(shape.schema()), futures::stream::empty()))
}

/// An operator over another input.
fn over(plan: &Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    Arc::clone(plan).replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

impl Shape {
    /// DataFusion's operator over the rest of the rows.
    fn rest(
        &self,
        aggregation: &Arc<dyn ExecutionPlan>,
        rows: SendableRecordBatchStream,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut input = OnceStreamExec::once(&rows.schema(), rows);
        if let Some(projection) = self.projection() {
            input = over(projection, input)?;
        }
        over(aggregation, input)
    }
}
