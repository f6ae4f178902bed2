//! Rows that several places of a plan read: they are computed once, and held until the plan is dropped.
//!
//! ```text
//!   Join ─┬─ … ─ Spool ─── Aggregate ─ …      computes them
//!         └─ … ─ SpoolRead                    reads them again
//! ```
//! Whichever place is asked first begins all partitions of the input, each in a task of its own, so that no place waits
//! for another to take its rows. Each partition's rows come in their order, so that what is known of the input's rows
//! holds in every place. They are held like those of a statement (`held`): in memory, or in a file if they are many.
//!
//! Leaves to others: which parts of a plan are computed once (`hobt-planner`).

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::future::FutureExt;
use futures::{StreamExt, TryStreamExt};
use hobt_base::SqlError;
use hobt_table::{KeptRelation, Relation, StatementRun};
use hobt_udf::{external, sql_error_of};
use parking_lot::Mutex;

use crate::held::{HeldBatches, SharedBatches};
use crate::inputs::{shows_its_name, with_inputs, without_expressions, without_inputs};
use crate::keeping::{Keeping, Recipe};
use crate::once::Once;

type Plan = Arc<dyn ExecutionPlan>;

/// Computes rows that other places of the plan read too.
#[derive(Debug)]
pub struct SpoolExec {
    input: Plan,
    number: usize,
    /// Set before the plan runs.
    rows: OnceLock<Arc<SpoolRows>>,
    metrics: ExecutionPlanMetricsSet,
}

impl SpoolExec {
    /// The rows of `input`. `number` tells it from the other spools of the plan.
    pub fn new(input: Plan, number: usize) -> SpoolExec {
        SpoolExec { input, number, rows: OnceLock::new(), metrics: ExecutionPlanMetricsSet::new() }
    }

    fn over(&self, input: Plan) -> SpoolExec {
        SpoolExec { input, number: self.number, rows: self.rows.clone(), metrics: ExecutionPlanMetricsSet::new() }
    }
}

shows_its_name!(SpoolExec);

impl ExecutionPlan for SpoolExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    with_inputs!(input);
    without_expressions!();

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        read(&self.rows, self.schema(), (partition, task), &self.metrics)
    }
}

/// Reads the rows that a [`SpoolExec`] elsewhere in the plan computes.
#[derive(Debug)]
pub struct SpoolReadExec {
    number: usize,
    properties: Arc<PlanProperties>,
    expected: Arc<Relation>,
    rows: OnceLock<Arc<SpoolRows>>,
    metrics: ExecutionPlanMetricsSet,
}

impl SpoolReadExec {
    /// Reads the rows of the spool with this number instead of those of a plan with these properties, which is
    /// estimated to give `expected`.
    pub fn new(number: usize, properties: &Arc<PlanProperties>, expected: Arc<Relation>) -> SpoolReadExec {
        let (properties, metrics) = (Arc::clone(properties), ExecutionPlanMetricsSet::new());
        SpoolReadExec { number, properties, expected, rows: OnceLock::new(), metrics }
    }

    /// The estimate of the rows.
    pub fn expected(&self) -> &Relation {
        &self.expected
    }

    /// The plan that computes the rows, once it is known.
    pub fn computed_by(&self) -> Option<&Plan> {
        self.rows.get().map(|rows| &rows.input)
    }

    /// How it is made again for another execution.
    pub(crate) fn kept(&self, keeping: &mut Keeping) -> Recipe {
        let (number, properties) = (self.number, Arc::clone(&self.properties));
        let expected = KeptRelation::of(&self.expected, &mut |table| keeping.table(table));
        Box::new(move |making, _| {
            let expected = Arc::new(expected.of_tables(making.tables()));
            Ok(Arc::new(SpoolReadExec::new(number, &properties, expected)))
        })
    }
}

shows_its_name!(SpoolReadExec);

impl ExecutionPlan for SpoolReadExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    without_inputs!();

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        read(&self.rows, self.schema(), (partition, task), &self.metrics)
    }
}

/// Gives all places of a plan that read the rows of a spool what they share, for the statement `run`.
///
/// # Errors
/// A place without its spool.
pub fn connecting_spools(plan: Plan, run: &Arc<StatementRun>) -> Result<Plan, SqlError> {
    let mut spools: Vec<(usize, Arc<SpoolRows>)> = Vec::new();
    let found = plan.apply(|node| {
        if let Some(spool) = node.downcast_ref::<SpoolExec>() {
            let rows = Arc::new(SpoolRows::new(Arc::clone(&spool.input), run));
            spools.push((spool.number, Arc::clone(spool.rows.get_or_init(|| rows))));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found.map_err(sql_error_of)?;
    if spools.is_empty() {
        return Ok(plan);
    }
    let connected = plan.apply(|node| {
        if let Some(read) = node.downcast_ref::<SpoolReadExec>() {
            let spool = spools.iter().find(|(number, _)| *number == read.number);
            let (_, rows) = spool.ok_or_else(|| internal_datafusion_err!("there is no spool {}", read.number))?;
            read.rows.get_or_init(|| Arc::clone(rows));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    connected.map_err(sql_error_of)?;
    Ok(plan)
}

/// The rows of a partition, in one of the places that read them, where their columns are called as in `schema`.
fn read(
    rows: &OnceLock<Arc<SpoolRows>>,
    schema: SchemaRef,
    (partition, task): (usize, Arc<TaskContext>),
    metrics: &ExecutionPlanMetricsSet,
) -> Result<SendableRecordBatchStream> {
    let rows = rows.get().ok_or_else(|| internal_datafusion_err!("a spool ran before it was connected"))?;
    let (rows, of_plan) = (Arc::clone(rows), Arc::clone(&schema));
    let metrics = BaselineMetrics::new(metrics, partition);
    let batches = async move {
        let held = rows.partition(partition, &task)?.await.map_err(DataFusionError::Shared)?;
        let (batches, run) = (held.read().map_err(external)?, Arc::clone(&rows.run));
        let given = batches.map(move |batch| {
            let _timer = metrics.elapsed_compute().timer();
            if run.is_cancelled() {
                return Err(external(SqlError::cancelled()));
            }
            let batch = with_schema(batch.map_err(external)?, &of_plan)?;
            Ok(batch.record_output(&metrics))
        });
        Ok::<_, DataFusionError>(futures::stream::iter(given))
    };
    let stream = futures::stream::once(batches).try_flatten();
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
}

/// A batch under a schema with other names. In a file every column may be NULL.
fn with_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?)
}

/// The rows of each partition, which tasks compute; or why they could not begin.
type Begun = std::result::Result<Vec<Once<Arc<SharedBatches>>>, Arc<DataFusionError>>;

/// The rows, once a place has asked for them.
struct SpoolRows {
    input: Plan,
    run: Arc<StatementRun>,
    /// `None` until a place has asked for them.
    partitions: Mutex<Option<Begun>>,
}

impl fmt::Debug for SpoolRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpoolRows").field("input", &self.input.name()).finish_non_exhaustive()
    }
}

impl SpoolRows {
    fn new(input: Plan, run: &Arc<StatementRun>) -> SpoolRows {
        SpoolRows { input, run: Arc::clone(run), partitions: Mutex::default() }
    }

    fn begun(&self, task: &Arc<TaskContext>) -> Result<Vec<Once<Arc<SharedBatches>>>> {
        let count = self.input.output_partitioning().partition_count();
        let streams = (0..count).map(|partition| self.input.execute(partition, Arc::clone(task)));
        let (streams, failure): (Vec<_>, _) = (streams.collect::<Result<_>>()?, Arc::default());
        Ok(streams.into_iter().map(|stream| hold(stream, &self.run, &failure)).collect())
    }

    /// The rows of a partition. The first caller begins to compute those of all.
    fn partition(&self, partition: usize, task: &Arc<TaskContext>) -> Result<Once<Arc<SharedBatches>>> {
        let mut partitions = self.partitions.lock();
        // The operators can be executed once, so an error is one for all places.
        let begun = partitions.get_or_insert_with(|| self.begun(task).map_err(Arc::new));
        let begun = begun.as_ref().map_err(|error| DataFusionError::Shared(Arc::clone(error)))?;
        let known = begun.get(partition).cloned();
        known.ok_or_else(|| internal_datafusion_err!("a spool has no partition {partition}"))
    }
}

/// Holds all rows of a stream, in a task, until one of the partitions fails. All others then fail with its error.
fn hold(
    mut stream: SendableRecordBatchStream,
    run: &Arc<StatementRun>,
    failure: &Arc<OnceLock<Arc<DataFusionError>>>,
) -> Once<Arc<SharedBatches>> {
    let (mut held, failure) = (HeldBatches::new(run), Arc::clone(failure));
    let task = SpawnedTask::spawn(async move {
        let kept = async {
            while let Some(batch) = stream.next().await {
                if let Some(first) = failure.get() {
                    return Err(Arc::clone(first));
                }
                held.keep(batch.map_err(Arc::new)?).map_err(|error| Arc::new(external(error)))?;
            }
            held.shared().map(Arc::new).map_err(|error| Arc::new(external(error)))
        };
        let kept: std::result::Result<_, Arc<DataFusionError>> = kept.await;
        kept.map_err(|error| Arc::clone(failure.get_or_init(|| error)))
    });
    let held = async move {
        let held = task.await.map_err(|error| Arc::new(DataFusionError::ExecutionJoin(Box::new(error))));
        held.and_then(|held| held)
    };
    held.boxed().shared()
}
