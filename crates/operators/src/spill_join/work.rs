//! Does the join of one output partition of a hash join that can spill.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::future::{BoxFuture, FutureExt};
use futures::{StreamExt, TryStreamExt};

use super::build::{Build, Held};
use super::counted::Counted;
use super::once_stream::OnceStreamExec;
use super::split::{Part, own_buffers, split};
use crate::join_conditions::of_nullable;
use crate::stop::Stop;

/// How often rows are split before those of one file are sorted. Each split leaves a sixteenth.
const LEVELS_MAX: usize = 4;

/// The inputs of the join of an output partition.
pub(super) struct Work {
    /// The [`HashJoinExec`] over both sides.
    join: Arc<dyn ExecutionPlan>,
    left: Side,
    right: Side,
    context: Arc<TaskContext>,
    /// The output partition.
    partition: usize,
    stop: Stop,
    counted: Counted,
    /// The most bytes of a build side.
    build_bytes_max: usize,
}

struct Side {
    schema: SchemaRef,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    spills: SpillManager,
}

/// The result of reading the one build side of all output partitions.
#[derive(Clone)]
pub(super) enum Made {
    /// It fits: the join over the held rows.
    Join(Arc<dyn ExecutionPlan>),
    /// It does not fit: both sides are in files.
    Split(Arc<Vec<Pair>>),
}

/// The rows of both sides that the hashes of their keys put into one file, and how often they were split, or
/// [`LEVELS_MAX`] if another split would not help.
pub(super) struct Pair {
    build: Part,
    probe: Part,
    level: usize,
}

impl Work {
    pub(super) fn new(
        plan: &Arc<dyn ExecutionPlan>,
        join: &HashJoinExec,
        context: &Arc<TaskContext>,
        partition: usize,
        stop: Stop,
        counted: Counted,
    ) -> Work {
        let side = |input: &Arc<dyn ExecutionPlan>, keys: Vec<Arc<dyn PhysicalExpr>>| {
            let metrics = SpillMetrics::new(counted.own(), partition);
            let spills = SpillManager::new(context.runtime_env(), metrics, input.schema());
            Side { schema: input.schema(), keys, spills }
        };
        let left = side(join.left(), join.on().iter().map(|(left, _)| Arc::clone(left)).collect());
        let right = side(join.right(), join.on().iter().map(|(_, right)| Arc::clone(right)).collect());
        // The limit is a third of what the statement may hold, shared by all operators that can spill. Builds get twice
        // that, shared by the builds of one join.
        let builds = match join.partition_mode() {
            PartitionMode::CollectLeft => 1,
            _ => plan.output_partitioning().partition_count().max(1),
        };
        let build_bytes_max = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(third) => third.saturating_mul(2) / builds,
            _ => usize::MAX,
        };
        let (join, context) = (Arc::clone(plan), Arc::clone(context));
        Work { join, left, right, context, partition, stop, counted, build_bytes_max }
    }

    fn hash_join(&self) -> Result<&HashJoinExec> {
        self.join.downcast_ref::<HashJoinExec>().ok_or_else(|| internal_datafusion_err!("a join that is none"))
    }

    /// The join of a build side with the probe rows that belong to it.
    pub(super) async fn whole(
        self: Arc<Work>,
        build: SendableRecordBatchStream,
        probe: SendableRecordBatchStream,
    ) -> Result<SendableRecordBatchStream> {
        match self.read(build).await? {
            Build::All(held) => self.hash(held, probe, true),
            Build::More(held, rest) => {
                let pairs = self.pairs(self.chained(held, rest), probe, 0).await?;
                self.in_order(Arc::clone(&self).all(pairs))
            }
        }
    }

    /// Reads the one build side of all output partitions.
    pub(super) async fn made(self: Arc<Work>, build: SendableRecordBatchStream) -> Result<Made> {
        let probe = Arc::clone(self.hash_join()?.right());
        match self.read(build).await? {
            Build::All(held) => {
                let build = OnceStreamExec::once(&self.left.schema, held.into_stream(Arc::clone(&self.left.schema)));
                let builder = self.hash_join()?.builder().reset_state().recompute_properties();
                Ok(Made::Join(builder.with_new_children(vec![build, probe])?.build_exec()?))
            }
            Build::More(held, rest) => {
                let probe = match probe.output_partitioning().partition_count() {
                    1 => probe.execute(0, Arc::clone(&self.context))?,
                    _ => CoalescePartitionsExec::new(probe).execute(0, Arc::clone(&self.context))?,
                };
                let pairs = self.pairs(self.chained(held, rest), probe, 0).await?;
                Ok(Made::Split(Arc::new(pairs)))
            }
        }
    }

    /// An output partition's part of the join.
    pub(super) fn part(self: Arc<Work>, made: Made, partition: usize) -> Result<SendableRecordBatchStream> {
        let pairs = match made {
            Made::Join(join) => return self.begun(join.as_ref(), partition),
            Made::Split(pairs) => pairs,
        };
        let partitions = self.join.output_partitioning().partition_count();
        let own = pairs.iter().enumerate().filter(|(at, _)| at % partitions == partition);
        let own = own.map(|(_, pair)| pair.again()).collect();
        self.in_order(Arc::clone(&self).all(own))
    }

    async fn read(&self, build: SendableRecordBatchStream) -> Result<Build> {
        let reservation = MemoryConsumer::new("HashJoinBuild").register(self.context.memory_pool());
        Held::read(build, reservation, self.build_bytes_max).await
    }

    /// Rows for which there is no memory, from the first on.
    fn chained(&self, mut held: Held, rest: SendableRecordBatchStream) -> SendableRecordBatchStream {
        held.let_go();
        let schema = Arc::clone(&self.left.schema);
        let all = held.into_stream(Arc::clone(&schema)).chain(rest);
        Box::pin(RecordBatchStreamAdapter::new(schema, all))
    }

    /// Writes both sides to files, as pairs.
    async fn pairs(
        &self,
        build: SendableRecordBatchStream,
        probe: SendableRecordBatchStream,
        level: usize,
    ) -> Result<Vec<Pair>> {
        self.stop.count_split();
        self.counted.note_level(level + 1, self.partition);
        let batch = self.context.session_config().batch_size();
        let builds = split(build, &self.left.keys, level, batch, &self.left.spills, &self.stop).await?;
        let probes = split(probe, &self.right.keys, level, batch, &self.right.spills, &self.stop).await?;
        let rows: usize = builds.iter().map(|part| part.rows).sum();
        let pair = |(build, probe): (Part, Part)| {
            // One key may have all of these rows, and then another hash does not help.
            let level = if build.rows > rows / 4 * 3 { LEVELS_MAX } else { level + 1 };
            Pair { build, probe, level }
        };
        let pairs = builds.into_iter().zip(probes).map(pair);
        Ok(pairs.filter(|pair| pair.build.rows + pair.probe.rows > 0).collect())
    }

    /// The output of the pairs, one after the other.
    fn all(self: Arc<Work>, pairs: Vec<Pair>) -> SendableRecordBatchStream {
        let schema = self.join.schema();
        let joined = futures::stream::iter(pairs).then(move |pair| Arc::clone(&self).pair(pair)).try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(schema, joined))
    }

    /// The output of a pair.
    fn pair(self: Arc<Work>, pair: Pair) -> BoxFuture<'static, Result<SendableRecordBatchStream>> {
        async move {
            self.stop.check()?;
            let build = self.left.open(&pair.build)?;
            let probe = self.right.open(&pair.probe)?;
            match self.read(build).await? {
                Build::All(held) => self.hash(held, probe, false),
                Build::More(held, rest) if pair.level >= LEVELS_MAX => self.merge(self.chained(held, rest), probe),
                Build::More(held, rest) => {
                    let pairs = self.pairs(self.chained(held, rest), probe, pair.level).await?;
                    Ok(self.all(pairs))
                }
            }
        }
        .boxed()
    }

    /// The join with a build side that is held. `is_all`: no other rows belong to the output partition.
    fn hash(&self, held: Held, probe: SendableRecordBatchStream, is_all: bool) -> Result<SendableRecordBatchStream> {
        let build = OnceStreamExec::once(&self.left.schema, held.into_stream(Arc::clone(&self.left.schema)));
        let probe = OnceStreamExec::once(&self.right.schema, probe);
        let join = self.hash_join()?;
        let fetch = join.fetch().filter(|_| is_all);
        let builder =
            join.builder().reset_state().recompute_properties().with_partition_mode(PartitionMode::Partitioned);
        let join = builder.with_fetch(fetch).with_new_children(vec![build, probe])?.build_exec()?;
        self.begun(join.as_ref(), 0)
    }

    /// The join by sorting and merging both sides, on disk if need be.
    fn merge(
        &self,
        build: SendableRecordBatchStream,
        probe: SendableRecordBatchStream,
    ) -> Result<SendableRecordBatchStream> {
        let join = self.hash_join()?;
        let (build, probe) = (self.left.sorted(build)?, self.right.sorted(probe)?);
        let options = vec![SortOptions::default(); join.on().len()];
        let (on, filter) = (join.on().to_vec(), join.filter().map(of_nullable));
        let merge =
            SortMergeJoinExec::try_new(build, probe, on, filter, *join.join_type(), options, join.null_equality())?;
        let merge: Arc<dyn ExecutionPlan> = Arc::new(merge);
        let Some(projection) = &join.projection else { return self.begun(merge.as_ref(), 0) };
        let schema = merge.schema();
        let column = |&at: &usize| {
            let name = schema.field(at).name().clone();
            ProjectionExpr { expr: Arc::new(Column::new(&name, at)), alias: name }
        };
        let columns: Vec<ProjectionExpr> = projection.iter().map(column).collect();
        self.begun(&ProjectionExec::try_new(columns, merge)?, 0)
    }

    /// Begins a partition of an operator whose rows are the output's, and adopts the counters of that partition, which
    /// are the operator's own: nothing else counts in them.
    fn begun(&self, operator: &dyn ExecutionPlan, partition: usize) -> Result<SendableRecordBatchStream> {
        let rows = operator.execute(partition, Arc::clone(&self.context))?;
        self.counted.take_up(operator, partition, self.partition);
        Ok(rows)
    }

    /// The rows of pairs in the order that the join promises, and no more than are wanted.
    fn in_order(&self, rows: SendableRecordBatchStream) -> Result<SendableRecordBatchStream> {
        let (order, fetch) = (self.join.output_ordering(), self.join.fetch());
        if order.is_none() && fetch.is_none() {
            return Ok(rows);
        }
        let mut plan = OnceStreamExec::once(&self.join.schema(), rows);
        if let Some(order) = order {
            plan = Arc::new(SortExec::new(order.clone(), plan));
        }
        if let Some(fetch) = fetch {
            plan = Arc::new(GlobalLimitExec::new(plan, 0, Some(fetch)));
        }
        plan.execute(0, Arc::clone(&self.context))
    }
}

impl Pair {
    /// A copy that reads the pair's files again.
    fn again(&self) -> Pair {
        let part = |part: &Part| Part { file: part.file.clone(), rows: part.rows };
        Pair { build: part(&self.build), probe: part(&self.probe), level: self.level }
    }
}

impl Side {
    fn open(&self, part: &Part) -> Result<SendableRecordBatchStream> {
        match &part.file {
            Some(file) => {
                let read = self.spills.read_spill_as_stream_unbuffered(Arc::clone(file), None)?;
                let rows = read.map(|batch| own_buffers(&batch?));
                Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
            }
            None => EmptyExec::new(Arc::clone(&self.schema)).execute(0, Arc::new(TaskContext::default())),
        }
    }

    fn sorted(&self, rows: SendableRecordBatchStream) -> Result<Arc<dyn ExecutionPlan>> {
        let by =
            |key: &Arc<dyn PhysicalExpr>| PhysicalSortExpr { expr: Arc::clone(key), options: SortOptions::default() };
        let order = LexOrdering::new(self.keys.iter().map(by));
        let order = order.ok_or_else(|| internal_datafusion_err!("a hash join without keys"))?;
        Ok(Arc::new(SortExec::new(order, OnceStreamExec::once(&self.schema, rows))))
    }
}
