//! Joins by a range and without an equation: `ON e.at BETWEEN i.start AND i.end`.
//!
//! ```text
//!   RangeJoinExec ─┬─ build side    held, sorted by the compared value
//!                  └─ probe side    each row: two searches among the sorted rows, and the rows between
//! ```
//! Replaces `NestedLoopJoinExec`: same output, same lack of ordering. The build side is the left input, in one
//! partition. `n` and `m` rows take `(n + m) log n` steps and one for each pair, instead of `n · m`.
//!
//! Two bounds of one value of the build side select a stretch of its order. A bound of another value (intervals that
//! contain a point, or overlap) is tested on stretches by a tree of their maxima (`reach`), so that rows outside it are
//! skipped together. The rest of the condition is tested on the remaining pairs.
//!
//! If the build side does not fit into memory, both sides are written to files and joined part by part (`parts.rs`).
//! Leaves to others: loops into an index (`index_join`). Reasons: `docs/design/0032-range-joins.md`.

mod build;
mod conditions;
mod keys;
mod parts;
mod probe;
mod reach;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt};

use super::join_types::shows_left_by_partners;
use super::once::{Common, Once};
use super::stop::Stop;
use build::{BuildSide, Builder, Built};
use conditions::Ranges;
pub use conditions::{Bound, Way, bounds_of};
use hobt_table::StatementRun;
use keys::KeyForm;
use parts::{Filed, Parts};
use probe::Probe;

/// The state of the build side.
#[derive(Clone)]
enum Made {
    /// It is in memory.
    Whole(Arc<BuildSide>),
    /// It does not fit: both sides are in files.
    Parts(Arc<Parts>),
}

/// Joins by ranges; see the module.
#[derive(Debug)]
pub struct RangeJoinExec {
    /// The nested loops that it replaces.
    join: Arc<dyn ExecutionPlan>,
    ranges: Arc<Ranges>,
    stop: Stop,
    build: Common<Made>,
    metrics: ExecutionPlanMetricsSet,
}

/// What is shown of a range join.
pub struct ShownRanges<'j> {
    /// The nested loops that it replaces.
    pub join: &'j NestedLoopJoinExec,
    /// The bounds that each row of the right side sets in the order of the left side's rows.
    pub bounds: Vec<&'j Bound>,
    /// The conditions that no range covers.
    pub residual: Option<&'j JoinFilter>,
}

impl RangeJoinExec {
    /// `join` as a range join, if its condition sets bounds.
    ///
    /// # Errors
    /// An expression without a type.
    pub fn of(join: &Arc<dyn ExecutionPlan>) -> Result<Option<RangeJoinExec>> {
        let Some(loops) = join.downcast_ref::<NestedLoopJoinExec>() else { return Ok(None) };
        let Some(ranges) = Ranges::of(loops)? else { return Ok(None) };
        Ok(Some(RangeJoinExec::new(Arc::clone(join), Arc::new(ranges), Stop::never())))
    }

    fn new(join: Arc<dyn ExecutionPlan>, ranges: Arc<Ranges>, stop: Stop) -> RangeJoinExec {
        RangeJoinExec { join, ranges, stop, build: Common::default(), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// A copy that stops when `run` is cancelled.
    pub(super) fn stopping_with(&self, run: &Arc<StatementRun>) -> RangeJoinExec {
        RangeJoinExec::new(Arc::clone(&self.join), Arc::clone(&self.ranges), Stop::of(run))
    }

    /// The nested loops that it replaces.
    pub fn loops(&self) -> &NestedLoopJoinExec {
        self.join.downcast_ref().expect("made from nested loops")
    }

    /// What is shown of it.
    pub fn shown(&self) -> ShownRanges<'_> {
        let ranges = &self.ranges;
        let bounds = ranges.low.iter().chain(&ranges.high).chain(&ranges.other).collect();
        ShownRanges { join: self.loops(), bounds, residual: ranges.residual.as_ref() }
    }

    /// The build side, shared by all partitions.
    fn build(&self, context: &Arc<TaskContext>) -> Result<Once<Made>> {
        let join = self.loops();
        let workers = join.right().output_partitioning().partition_count();
        self.build.get(workers, || {
            let input = join.left().execute(0, Arc::clone(context))?;
            let held = MemoryConsumer::new("RangeJoinBuild").register(context.memory_pool());
            let (ranges, stop) = (Arc::clone(&self.ranges), self.stop.clone());
            let marks = shows_left_by_partners(*join.join_type());
            let (right, context) = (Arc::clone(join.right()), Arc::clone(context));
            let spills = |side: &Arc<dyn ExecutionPlan>| {
                let metrics = SpillMetrics::new(&self.metrics, 0);
                SpillManager::new(context.runtime_env(), metrics, side.schema())
            };
            let (builds, probes) = (spills(join.left()), spills(join.right()));
            Ok(async move {
                let builder = Builder { ranges: &ranges, marks, workers, stop: stop.clone() };
                let (first, rest) = match builder.build(input, held).await? {
                    Built::Whole(build) => return Ok(Made::Whole(build)),
                    Built::TooLarge(first, rest) => (first, rest),
                };
                stop.count_split();
                let build = Filed::put(Some(first), rest, builds, &stop).await?;
                let right = CoalescePartitionsExec::new(right).execute(0, context)?;
                let probe = Filed::put(None, right, probes, &stop).await?;
                Ok(Made::Parts(Arc::new(Parts { build, probe })))
            })
        })
    }
}

/// How the values of an expression are compared.
fn form_of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<KeyForm> {
    KeyForm::of(&expr.data_type(schema)?).ok_or_else(|| internal_datafusion_err!("values without an order"))
}

/// The sources of the output's columns.
fn columns_of(join: &NestedLoopJoinExec) -> Vec<ColumnIndex> {
    let (_, columns) = build_join_schema(&join.left().schema(), &join.right().schema(), join.join_type());
    match join.projection() {
        Some(projection) => projection.iter().map(|&place| columns[place].clone()).collect(),
        None => columns,
    }
}

impl DisplayAs for RangeJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RangeJoin: by {}", self.ranges.key)
    }
}

impl ExecutionPlan for RangeJoinExec {
    fn name(&self) -> &'static str {
        "RangeJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.join.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = Arc::clone(&self.join).replace_children(children, options)?;
        Ok(Arc::new(RangeJoinExec::new(join, Arc::clone(&self.ranges), self.stop.clone())))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let (join, ranges) = (Arc::clone(&self.join), Arc::clone(&self.ranges));
        Ok(Arc::new(RangeJoinExec::new(join, ranges, self.stop.clone())))
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(visit)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let join = self.loops();
        let build = self.build(&context)?;
        let probe = Probe {
            ranges: Arc::clone(&self.ranges),
            join_type: *join.join_type(),
            columns: columns_of(join),
            schema: join.schema(),
            left: join.left().schema(),
            right: join.right().schema(),
            stop: self.stop.clone(),
            rows_max: context.session_config().batch_size().max(1),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let right = Arc::clone(join.right());
        let opened = async move {
            Ok::<_, DataFusionError>(match build.await.map_err(DataFusionError::Shared)? {
                Made::Whole(build) => {
                    let reservation = MemoryConsumer::new("RangeJoinProbe").register(context.memory_pool());
                    let input = right.execute(partition, context)?;
                    probe.joined_with(build, input, reservation, None).boxed()
                }
                // Each part has to meet all rows of the probe side, so one worker joins them.
                Made::Parts(parts) if partition == 0 => probe.rows_of_parts(parts, context)?.boxed(),
                Made::Parts(_) => futures::stream::empty().boxed(),
            })
        };
        let rows = futures::stream::once(opened).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
