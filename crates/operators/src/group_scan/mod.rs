//! Partial aggregation inside the scan: groups, conditions and arithmetic on the pages, without a batch of rows.
//!
//! ```text
//!   page ─► slots that fulfil the conditions ─► codes of the key columns ─► groups
//!                                           └─► formulas of 64-bit numbers ─► states of the groups
//! ```
//! It takes an aggregation right above a scan (and a filter that the scan can test exactly) if the keys are columns,
//! and all aggregates are counts, or sums, means and extremes of exact numbers. `few_groups` says how groups are
//! numbered. When the groups become too many, or memory is short, the states so far are given and it begins again: they
//! are partial anyway. Where many groups are expected it is not used.
//!
//! Leaves to others: which groups are expected (`hobt-planner`), the final aggregation (DataFusion).

mod pages;
mod shape;
mod states;

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, RecordBatchStream};
use futures::Stream;
use hobt_access::scan::ScanWorker;

use crate::scan_exec::{ScanExec, Started};
use crate::turn::{self, Turn};
use hobt_table::{OperatorProfile, WorkerClock};
use hobt_udf::external;
use pages::GroupPages;
pub(crate) use shape::GroupScanShape;

/// Up to so many groups are expected where it is used.
pub(crate) const GROUPS_EXPECTED_MAX: f64 = 100_000.0;

/// A partial aggregation and its scan; plans show it as an [`AggregateExec`] over a scan.
pub(crate) struct GroupScanExec {
    /// DataFusion's operator over its input.
    aggregation: Arc<dyn ExecutionPlan>,
    shape: Arc<GroupScanShape>,
    metrics: ExecutionPlanMetricsSet,
}

impl GroupScanExec {
    pub(crate) fn new(aggregation: Arc<dyn ExecutionPlan>, shape: GroupScanShape) -> GroupScanExec {
        GroupScanExec { aggregation, shape: Arc::new(shape), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// As [`GroupScanExec::new`]; the aggregation itself if it has another shape now.
    fn around(&self, aggregation: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        match aggregation.downcast_ref::<AggregateExec>().and_then(GroupScanShape::of) {
            Some(shape) => Arc::new(GroupScanExec::new(aggregation, shape)),
            None => aggregation,
        }
    }
}

impl fmt::Debug for GroupScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupScanExec").field("aggregation", &self.aggregation).finish_non_exhaustive()
    }
}

crate::inputs::shows_as!(GroupScanExec, aggregation);

impl ExecutionPlan for GroupScanExec {
    crate::inputs::stands_for!(aggregation);

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Started { scan, profile } = self.shape.scan().start()?;
        let pages = GroupPages::new(&self.shape, &scan, &profile, &context)?;
        Ok(Box::pin(GroupScanStream {
            worker: ScanWorker::new(scan),
            clock: WorkerClock::new(&profile, partition),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            shape: Arc::clone(&self.shape),
            schema: self.schema(),
            profile,
            partition,
            pages,
            given: VecDeque::new(),
            read: 0,
            waiting: false,
            turn: Turn::new(self.aggregation.output_partitioning().partition_count(), turn::RANGES),
            done: false,
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

struct GroupScanStream {
    worker: ScanWorker,
    clock: WorkerClock,
    metrics: BaselineMetrics,
    profile: Arc<OperatorProfile>,
    shape: Arc<GroupScanShape>,
    schema: SchemaRef,
    partition: usize,
    pages: GroupPages,
    /// States that are still to be given.
    given: VecDeque<RecordBatch>,
    /// Rows read that are counted in the statement's progress already.
    read: u64,
    waiting: bool,
    turn: Turn,
    done: bool,
}

impl GroupScanStream {
    fn scan(&self) -> &ScanExec {
        self.shape.scan()
    }

    fn set_waiting(&mut self, waiting: bool) {
        if self.waiting != waiting {
            self.waiting = waiting;
            self.scan().run().pending.reads(waiting);
        }
    }

    /// Publishes the counters.
    fn report(&mut self) {
        let before = std::mem::replace(&mut self.read, self.worker.rows());
        self.scan().run().note_scanned(self.read - before);
        self.profile.set_scanned(self.partition, &self.worker);
        if let Some(passed) = self.pages.publish() {
            self.profile.set_given(self.partition, passed);
        }
        self.clock.lap();
    }

    fn poll_batch(&mut self, task: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            if let Some(batch) = self.given.pop_front() {
                self.metrics.record_output(batch.num_rows());
                return Poll::Ready(Some(Ok(batch)));
            }
            if self.done {
                return Poll::Ready(None);
            }
            // There may be no batch before the end, so progress is reported here.
            if self.turn.is_over(task) {
                self.report();
                return Poll::Pending;
            }
            let polled = self.worker.poll_range(task, &mut self.pages);
            self.set_waiting(polled.is_pending());
            if !matches!(polled, Poll::Ready(Some(Ok(())))) {
                self.report();
            }
            let is_over = match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(()))) => false,
                Poll::Ready(Some(Err(error))) => {
                    self.done = true;
                    let error = self.scan().table().sql_error(error);
                    return Poll::Ready(Some(Err(external(error))));
                }
                Poll::Ready(None) => true,
            };
            self.done = is_over;
            if is_over || self.pages.is_too_much() {
                match self.pages.take(is_over) {
                    Ok(batches) => self.given.extend(batches),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
        }
    }
}

impl Drop for GroupScanStream {
    fn drop(&mut self) {
        self.set_waiting(false);
    }
}

impl Stream for GroupScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        this.clock.begin();
        let polled = this.poll_batch(task);
        this.clock.end();
        polled
    }
}

impl RecordBatchStream for GroupScanStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
