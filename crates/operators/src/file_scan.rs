//! The operator that reads rows of files: one output partition for each worker.

mod conditions;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, RecordBatchStream,
    SendableRecordBatchStream,
};
use futures::Stream;
use hobt_base::SqlError;
use hobt_files::{BatchReader, FileRows};
use hobt_instruments::processor;
use parking_lot::Mutex;

use super::inputs::without_inputs;
use super::turn::Turn;
use conditions::file_conditions;
use hobt_table::{FileRead, StatementRun};
use hobt_udf::external;

/// Batches that a worker reads in one turn.
const BATCHES: usize = 4;

/// Reads some columns of files' rows.
pub struct FileScanExec {
    files: Arc<FileRead>,
    projection: Vec<usize>,
    conditions: Vec<Expr>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The reading that all partitions share, begun by the first.
    started: Mutex<Option<Arc<dyn FileRows>>>,
}

impl fmt::Debug for FileScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileScanExec").field("files", &self.files).finish_non_exhaustive()
    }
}

impl FileScanExec {
    /// Reads the columns `projection`, all if it is `None`, by as many workers as the statement has. Parts of files in
    /// which no row fulfils the conditions may be left out.
    ///
    /// # Errors
    /// There is no such column.
    pub fn new(files: Arc<FileRead>, projection: Option<&Vec<usize>>, conditions: Vec<Expr>) -> Result<FileScanExec> {
        let projection = projection.cloned().unwrap_or_else(|| (0..files.schema().fields().len()).collect());
        let schema = Arc::new(files.schema().project(&projection)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(files.run().degree()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let (properties, metrics, started) = (Arc::new(properties), ExecutionPlanMetricsSet::new(), Mutex::new(None));
        Ok(FileScanExec { files, projection, conditions, schema, properties, metrics, started })
    }

    /// About how many rows there are.
    pub fn expected_rows(&self) -> f64 {
        self.files.expected_rows()
    }

    fn start(&self, batch_rows: usize) -> Result<Arc<dyn FileRows>, SqlError> {
        let mut started = self.started.lock();
        if let Some(rows) = &*started {
            return Ok(Arc::clone(rows));
        }
        let mut request = self.files.request().clone();
        request.batch_rows = request.batch_rows.min(batch_rows);
        request.conditions = file_conditions(&self.conditions, &request.columns);
        let rows = request.open(&self.projection)?;
        *started = Some(Arc::clone(&rows));
        Ok(rows)
    }
}

impl DisplayAs for FileScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.schema.fields().iter().map(|field| field.name().as_str());
        write!(f, "FileScan: {:?}, columns=[{}]", self.files.request().files, fields.collect::<Vec<_>>().join(", "))
    }
}

impl ExecutionPlan for FileScanExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    without_inputs!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let (files, conditions) = (Arc::clone(&self.files), self.conditions.clone());
        Ok(Arc::new(FileScanExec::new(files, Some(&self.projection), conditions)?))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.start(context.session_config().batch_size()).map_err(external)?;
        Ok(Box::pin(FileStream {
            reader: Some(rows.reader()),
            run: Arc::clone(self.files.run()),
            schema: Arc::clone(&self.schema),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            turn: Turn::new(self.properties.output_partitioning().partition_count(), BATCHES),
        }))
    }
}

/// One worker's rows.
struct FileStream {
    /// `None` after the last row, or an error.
    reader: Option<Box<dyn BatchReader>>,
    run: Arc<StatementRun>,
    schema: SchemaRef,
    metrics: BaselineMetrics,
    turn: Turn,
}

impl FileStream {
    fn read(&mut self) -> Option<Result<RecordBatch, SqlError>> {
        let reader = self.reader.as_mut()?;
        if self.run.is_cancelled() {
            self.reader = None;
            return Some(Err(SqlError::cancelled()));
        }
        let next = reader.next(usize::MAX);
        if !matches!(next, Ok(Some(_))) {
            self.reader = None;
        }
        next.transpose()
    }
}

impl Stream for FileStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.turn.is_over(task) {
            return Poll::Pending;
        }
        // What the disk and other workers take is no computing.
        let before = processor::thread_cpu_time();
        let next = this.read();
        this.metrics.elapsed_compute().add_duration(processor::thread_cpu_time().saturating_sub(before));
        let next = next.map(|next| match next {
            Ok(batch) => Ok(RecordBatch::try_new_with_options(
                Arc::clone(&this.schema),
                batch.columns().to_vec(),
                &arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
            )?),
            Err(error) => Err(external(error)),
        });
        this.metrics.record_poll(Poll::Ready(next))
    }
}

impl RecordBatchStream for FileStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
