//! The operator that scans a heap or a clustered index: one output partition for each worker.

mod builder;

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{
    ArrayRef, BinaryViewArray, Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, PrimitiveArray, RecordBatch, RecordBatchOptions, UInt8Array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowPrimitiveType, Date32Type, SchemaRef};
use datafusion::common::Result;
use datafusion::common::utils::normalize_float_zero;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, RecordBatchStream,
    SendableRecordBatchStream,
};
use futures::Stream;
use hobt_access::scan::{ColumnKind, ColumnVector, PageVisitor, Scan, ScanWorker, VectorData};
use hobt_access::{AccessError, RowStore};
use hobt_base::SqlError;
use hobt_catalog::{IndexUse, Table};
use hobt_functions::ascii_views;
use hobt_instruments::{Wait, WaitType};
use hobt_types::SqlType;
use parking_lot::Mutex;

use super::inputs::without_inputs;
use super::join_filter::{JoinFilter, KeptTop, LeafFilter, Sieve, TopFilter, without};
use super::keeping::{Keeping, Recipe};
use super::leaf_parameters::LeafParameters;
use super::places::PlaceBuilder;
use super::turn::{self, Turn};
use builder::BatchBuilder;
pub(super) use builder::{fitting, reads_pointers};
use hobt_showplan::NodeMark;
use hobt_table::{
    ColumnPredicate, KeptEstimate, LeafEstimate, Missing, OperatorProfile, StatementRun, TableRead, TextCondition,
    WorkerClock,
};
use hobt_udf::external;

/// Bytes of texts and binaries after which a batch ends, however few rows it has, if memory is not limited.
const BATCH_VALUE_BYTES: usize = 16 << 20;
/// How many batches fit into one worker's part of the operators' memory.
const BATCHES_IN_PART: usize = 16;

/// Reads some columns of a table's rows.
pub struct ScanExec {
    table: Arc<TableRead>,
    run: Arc<StatementRun>,
    projection: Vec<usize>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    started: Mutex<Option<Started>>,
    /// The partitions that are read, by their positions in the table.
    partitions: Arc<[usize]>,
    /// A missing index in which this could be a seek.
    missing: Option<Missing>,
    /// The conditions on the table's columns.
    predicates: Arc<[ColumnPredicate]>,
    /// Further conditions on the table's columns of texts.
    texts: Arc<[TextCondition]>,
    /// The estimate of the rows that are left after the conditions above, if statistics were read.
    estimated: Option<Arc<LeafEstimate>>,
    /// Whether rows that the conditions reject may be left out: the operator above tests the conditions, and uses such
    /// rows for nothing else.
    sifts: bool,
    /// The filters of joins above.
    filters: Vec<LeafFilter>,
    /// The filters of sorts above of which few rows are wanted.
    tops: Vec<TopFilter>,
    /// Its conditions, if they have parameters.
    parameters: Option<Arc<LeafParameters>>,
    /// Where the plan shows it.
    mark: NodeMark,
}

/// The scan that all partitions share, made when the first of them starts.
#[derive(Clone)]
pub(crate) struct Started {
    pub(crate) scan: Arc<Scan>,
    pub(crate) profile: Arc<OperatorProfile>,
}

impl fmt::Debug for ScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanExec").field("table", &self.table.table().name).finish_non_exhaustive()
    }
}

impl ScanExec {
    /// A scan of the columns `projection` of `table` by as many workers as the statement has.
    pub fn new(table: Arc<TableRead>, run: Arc<StatementRun>, projection: Vec<usize>, schema: SchemaRef) -> ScanExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(run.degree()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let partitions = (0..table.table().base_index().partitions.len()).collect();
        let started = Mutex::new(None);
        let (properties, predicates, filters) = (Arc::new(properties), Arc::default(), Vec::new());
        let (missing, sifts) = (None, false);
        ScanExec {
            table,
            run,
            projection,
            schema,
            properties,
            started,
            partitions,
            missing,
            predicates,
            texts: Arc::default(),
            sifts,
            filters,
            tops: Vec::new(),
            estimated: None,
            parameters: None,
            mark: NodeMark::default(),
        }
    }

    /// Sets its conditions, if they have parameters.
    #[must_use]
    pub fn parameterized(self, parameters: Option<Arc<LeafParameters>>) -> ScanExec {
        ScanExec { parameters, ..self }
    }

    /// Its conditions, if they have parameters.
    pub fn parameters(&self) -> Option<&Arc<LeafParameters>> {
        self.parameters.as_ref()
    }

    /// Notes a missing index in which this could be a seek.
    #[must_use]
    pub fn missing(self, missing: Option<Missing>) -> ScanExec {
        ScanExec { missing, ..self }
    }

    /// Sets the conditions on the table's columns.
    #[must_use]
    pub fn knowing(self, predicates: Arc<[ColumnPredicate]>) -> ScanExec {
        ScanExec { predicates, ..self }
    }

    /// Sets further conditions, on the table's columns of texts.
    #[must_use]
    pub fn matching(self, texts: Arc<[TextCondition]>) -> ScanExec {
        ScanExec { texts, ..self }
    }

    /// Sets the estimate of the rows that are left after the conditions above.
    #[must_use]
    pub fn estimating(self, estimated: LeafEstimate) -> ScanExec {
        ScanExec { estimated: Some(Arc::new(estimated)), ..self }
    }

    /// A copy that may leave out rows that the conditions reject.
    pub fn sifting(&self) -> ScanExec {
        ScanExec { sifts: true, ..self.unstarted() }
    }

    /// A copy with one more filter of a join.
    pub fn filtered(&self, filter: LeafFilter) -> ScanExec {
        let filters = self.filters.iter().cloned().chain([filter]).collect();
        ScanExec { filters, tops: self.tops.clone(), ..self.unstarted() }
    }

    /// A copy with one more filter of a sort.
    pub fn topped(&self, top: TopFilter) -> ScanExec {
        let tops = self.tops.iter().cloned().chain([top]).collect();
        ScanExec { tops, filters: self.filters.clone(), ..self.unstarted() }
    }

    /// A copy that has not begun, without filters of joins and sorts.
    fn unstarted(&self) -> ScanExec {
        let (table, run, schema) = (Arc::clone(&self.table), Arc::clone(&self.run), Arc::clone(&self.schema));
        let fresh = ScanExec::new(table, run, self.projection.clone(), schema);
        let fresh = fresh.of_partitions(self.partitions.to_vec()).missing(self.missing.clone());
        let fresh = fresh.matching(Arc::clone(&self.texts));
        let (estimated, parameters, mark) = (self.estimated.clone(), self.parameters.clone(), self.mark.clone());
        ScanExec { sifts: self.sifts, estimated, parameters, mark, ..fresh.knowing(Arc::clone(&self.predicates)) }
    }

    /// How it is made again for another execution. `None` if it has the condition of a sort that is not above it.
    pub(crate) fn kept(&self, keeping: &mut Keeping) -> Option<Recipe> {
        let table = keeping.table(&self.table);
        let filters: Vec<_> = self.filters.iter().map(|filter| filter.kept(keeping)).collect();
        let top = |top: &TopFilter| Some((keeping.sort(&top.condition)?, top.kept()));
        let tops: Vec<_> = self.tops.iter().map(top).collect::<Option<_>>()?;
        let estimated = self.estimated.as_ref().map(|known| KeptEstimate::of(known, &mut |of| keeping.table(of)));
        let rows = self.estimated.as_ref().map_or(0.0, |known| known.rows);
        let (projection, schema, properties) =
            (self.projection.clone(), Arc::clone(&self.schema), Arc::clone(&self.properties));
        let (partitions, missing, sifts) = (Arc::clone(&self.partitions), self.missing.clone(), self.sifts);
        let (predicates, texts) = (Arc::clone(&self.predicates), Arc::clone(&self.texts));
        let parameters = self.parameters.clone();
        parameters.iter().for_each(|parameters| keeping.note_leaf(parameters.names()));
        Some(Box::new(move |making, _| {
            let table = Arc::clone(making.table(table)?);
            let top = |(sort, top): &(usize, KeptTop)| Ok(top.with(making.sort(*sort)?));
            let filters = filters.iter().map(|filter| filter.made(making)).collect::<Result<_>>()?;
            let tops = tops.iter().map(top).collect::<Result<_>>()?;
            let properties = Arc::clone(&properties);
            if let Some((parameters, values)) = parameters.as_ref().zip(making.values()) {
                let fresh = parameters.planned(&table, &projection, values)?;
                let fresh = making.fitting::<ScanExec>(&fresh)?;
                making.check_rows(rows, fresh.estimated.as_ref().map_or(0.0, |known| known.rows))?;
                return Ok(Arc::new(ScanExec { properties, sifts, filters, tops, ..fresh.unstarted() }) as Arc<_>);
            }
            Ok(Arc::new(ScanExec {
                run: Arc::clone(table.run()),
                table,
                projection: projection.clone(),
                schema: Arc::clone(&schema),
                properties,
                started: Mutex::new(None),
                partitions: Arc::clone(&partitions),
                missing: missing.clone(),
                predicates: Arc::clone(&predicates),
                texts: Arc::clone(&texts),
                estimated: estimated.as_ref().map(|known| Arc::new(known.of_tables(making.tables()))),
                sifts,
                filters,
                tops,
                parameters: None,
                mark: NodeMark::default(),
            }))
        }))
    }

    /// Whether it gives the same rows as `other`, which reads the same table, but for filters of joins.
    pub(crate) fn is_alike(&self, other: &ScanExec) -> bool {
        let texts = |scan: &ScanExec| format!("{:?}", scan.texts);
        self.projection == other.projection
            && self.partitions == other.partitions
            && self.predicates == other.predicates
            && self.sifts == other.sifts
            && (self.texts.is_empty() && other.texts.is_empty() || texts(self) == texts(other))
            && self.tops.is_empty()
            && other.tops.is_empty()
    }

    /// A copy without these filters of joins.
    #[must_use]
    pub fn without(&self, filters: &[Arc<JoinFilter>]) -> ScanExec {
        ScanExec { filters: without(&self.filters, filters), tops: self.tops.clone(), ..self.unstarted() }
    }

    /// The filters of joins above.
    pub fn filters(&self) -> &[LeafFilter] {
        &self.filters
    }

    /// The conditions on the table's columns.
    pub(crate) fn predicates(&self) -> &Arc<[ColumnPredicate]> {
        &self.predicates
    }

    /// The estimate of its rows.
    pub fn estimated(&self) -> Option<&Arc<LeafEstimate>> {
        self.estimated.as_ref()
    }

    /// Restricts the scan to some of the table's partitions.
    #[must_use]
    pub fn of_partitions(self, partitions: Vec<usize>) -> ScanExec {
        ScanExec { partitions: partitions.into(), ..self }
    }

    /// The table.
    pub fn table(&self) -> &Arc<TableRead> {
        &self.table
    }

    /// The statement.
    pub fn run(&self) -> &Arc<StatementRun> {
        &self.run
    }

    /// The partitions read, by their positions in the table.
    pub fn partitions(&self) -> &[usize] {
        &self.partitions
    }

    /// The columns read, by their positions in the table.
    pub fn projection(&self) -> &[usize] {
        &self.projection
    }

    /// Where the plan shows it.
    pub fn mark(&self) -> &NodeMark {
        &self.mark
    }

    /// The counters of its workers; `None` before it has begun.
    pub fn profile(&self) -> Option<Arc<OperatorProfile>> {
        self.started.lock().as_ref().map(|started| Arc::clone(&started.profile))
    }

    /// Which of the columns read is the rows' position.
    fn place_in_batch(&self) -> Option<usize> {
        let column = self.table.place_column()?;
        self.projection.iter().position(|&read| read == column)
    }

    /// The shared scan; the first caller starts it.
    pub(crate) fn start(&self) -> Result<Started> {
        // A second caller waits for the first one, which reads the list of leaves.
        let mut started = self.started.try_lock().unwrap_or_else(|| {
            let _until_it_has_started = Wait::begin(WaitType::CxPacket);
            self.started.lock()
        });
        if let Some(started) = &*started {
            return Ok(started.clone());
        }
        let run = &self.run;
        run.note_use(self.table.table().base_index(), IndexUse::Scan);
        self.missing.iter().for_each(Missing::note_scan);
        let name = &self.table.table().name;
        let counts = run.io_counts(name);
        counts.scans.fetch_add(run.degree() as u64, std::sync::atomic::Ordering::Relaxed);
        let stores = self.table.stores().map_err(external)?;
        let stores: Vec<RowStore> = self.partitions.iter().map(|&partition| stores[partition].clone()).collect();
        let scan = Scan::new(&stores, run.degree(), self.table.scan_settings(), Arc::clone(&run.context), counts)
            .map_err(|error| external(self.table.sql_error(error)))?;
        run.add_scan(&scan);
        let index = self.table.table().base_index().id;
        let profile = OperatorProfile::new(self.table.scan_name(), &self.table, index, run.degree());
        let profile = Arc::new(profile.counting_reads().estimated(self.table.expected_rows()).marked(&self.mark));
        run.add_profile(&profile);
        let made = Started { scan, profile };
        *started = Some(made.clone());
        Ok(made)
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = &self.table.table().columns;
        let name = |&column: &usize| columns.get(column).map_or("row place", |column| column.name.as_str());
        let names: Vec<&str> = self.projection.iter().map(name).collect();
        write!(f, "TableScan: {}, columns=[{}]", self.table.table().name, names.join(", "))?;
        self.filters.iter().try_for_each(|filter| write!(f, ", filter={}", filter.name()))
    }
}

impl ExecutionPlan for ScanExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    without_inputs!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // The filters' keys belong to one run.
        Ok(Arc::new(self.unstarted()))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let started = self.start()?;
        let columns = batch_columns(self.table.table(), &self.projection);
        let sieve = Sieve::new(
            (&self.table, &started.scan),
            &self.partitions,
            (&self.projection, &self.schema),
            (&self.filters, &self.tops),
            if self.sifts { (&self.predicates, &self.texts) } else { (&[], &[]) },
            &started.profile,
        );
        Ok(Box::pin(ScanStream {
            worker: ScanWorker::new(Arc::clone(&started.scan)),
            clock: WorkerClock::new(&started.profile, partition),
            profile: started.profile,
            partition,
            table: Arc::clone(&self.table),
            run: Arc::clone(&self.run),
            schema: Arc::clone(&self.schema),
            batch: BatchBuilder {
                columns,
                places: self.place_in_batch().map(|at| (at, PlaceBuilder::of(self.table.table()))),
                partitions: Arc::clone(&self.partitions),
                rows: 0,
                page_rows: 0,
                rests: VecDeque::new(),
                rows_max: context.session_config().batch_size(),
                bytes_max: batch_bytes(&context, self.run.degree()),
                scan: started.scan,
                sieve,
            },
            given: 0,
            read: 0,
            waiting: false,
            turn: Turn::new(self.properties.output_partitioning().partition_count(), turn::RANGES),
            done: false,
        }))
    }
}

/// Bytes of texts and binaries after which a batch of an operator with `parts` output partitions ends. No more of them
/// are at work than the statement has workers.
pub(super) fn batch_bytes(context: &TaskContext, parts: usize) -> usize {
    const LEAST: usize = 64 << 10;
    let parts = parts.min(context.session_config().target_partitions());
    match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(bytes) => (bytes / parts.max(1) / BATCHES_IN_PART).clamp(LEAST, BATCH_VALUE_BYTES),
        _ => BATCH_VALUE_BYTES,
    }
}

/// Empty vectors for the stored columns of a batch.
fn batch_columns(table: &Table, projection: &[usize]) -> Vec<ColumnVector> {
    let stored = projection.iter().filter(|&&column| column < table.columns.len());
    stored.map(|&column| column_vector(column, table.columns[column].sql_type)).collect()
}

/// An empty vector for values of a type, which are in the column `at` of their pages.
pub(super) fn column_vector(at: usize, sql_type: SqlType) -> ColumnVector {
    let kind = match sql_type {
        SqlType::Decimal { .. } | SqlType::Money | SqlType::SmallMoney => ColumnKind::WidenedTo128,
        _ => ColumnKind::Native,
    };
    ColumnVector::new(at, sql_type.physical(), kind, sql_type == SqlType::UniqueIdentifier)
}

struct ScanStream {
    worker: ScanWorker,
    clock: WorkerClock,
    profile: Arc<OperatorProfile>,
    partition: usize,
    table: Arc<TableRead>,
    run: Arc<StatementRun>,
    schema: SchemaRef,
    batch: BatchBuilder,
    /// Rows given, and rows read.
    given: u64,
    read: u64,
    waiting: bool,
    turn: Turn,
    done: bool,
}

impl ScanStream {
    fn set_waiting(&mut self, waiting: bool) {
        if self.waiting != waiting {
            self.waiting = waiting;
            self.run.pending.reads(waiting);
        }
    }

    /// Publishes the counters.
    fn note_progress(&mut self) {
        let before = self.read;
        self.read = self.worker.rows();
        self.run.note_scanned(self.read - before);
        self.profile.set_scanned(self.partition, &self.worker);
        if let Some(sieve) = &mut self.batch.sieve {
            sieve.publish();
            self.profile.set_given(self.partition, self.given);
        }
    }

    /// Takes what is left of a page, or else the rows of the next range.
    fn read(&mut self, task: &mut Context<'_>) -> Poll<Option<Result<(), AccessError>>> {
        if self.batch.has_rest() {
            return Poll::Ready(Some(self.batch.take_rest()));
        }
        if let Some(sieve) = &mut self.batch.sieve {
            sieve.refresh(&mut self.worker);
        }
        self.worker.poll_range(task, &mut self.batch)
    }

    /// A batch of the rows gathered so far.
    fn give(&mut self) -> Result<RecordBatch> {
        self.given += self.batch.rows as u64;
        self.note_progress();
        self.take_batch()
    }

    fn take_batch(&mut self) -> Result<RecordBatch> {
        let next = self.batch.columns.iter().map(ColumnVector::next).collect();
        let columns = std::mem::replace(&mut self.batch.columns, next);
        let rows = std::mem::take(&mut self.batch.rows);
        let columns = columns.into_iter().map(|vector| (vector.column, vector));
        batch_of(self.table.table(), &self.schema, columns, self.batch.places.as_mut(), rows)
    }
}

impl Drop for ScanStream {
    fn drop(&mut self) {
        self.set_waiting(false);
    }
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.done {
            return Poll::Ready(None);
        }
        loop {
            if this.turn.is_over(task) {
                this.note_progress();
                return Poll::Pending;
            }
            this.clock.begin();
            let polled = this.read(task);
            this.clock.end();
            this.set_waiting(polled.is_pending());
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => {
                    this.done = true;
                    return Poll::Ready(Some(Err(external(this.table.sql_error(error)))));
                }
                Poll::Ready(Some(Ok(()))) => {
                    // A small table's ranges are small so that its rows are shared evenly; they are passed on at once.
                    let is_full = this.batch.rows >= this.batch.rows_max / 2 || this.batch.is_full();
                    if is_full || (this.batch.rows > 0 && this.worker.is_small_scan()) {
                        return Poll::Ready(Some(this.give()));
                    }
                }
                Poll::Ready(None) => {
                    this.done = true;
                    if this.batch.rows > 0 {
                        return Poll::Ready(Some(this.give()));
                    }
                    this.note_progress();
                    return Poll::Ready(None);
                }
            }
        }
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A batch of `rows` rows of a table: columns, by their positions in the table, and the rows' positions, with the index
/// of their column in the batch.
pub(super) fn batch_of(
    table: &Table,
    schema: &SchemaRef,
    columns: impl Iterator<Item = (usize, ColumnVector)>,
    places: Option<&mut (usize, PlaceBuilder)>,
    rows: usize,
) -> Result<RecordBatch> {
    let arrays = columns.map(|(column, vector)| array_of(&table.columns[column].sql_type, vector));
    let mut arrays = arrays.collect::<Result<Vec<ArrayRef>, SqlError>>().map_err(external)?;
    if let Some((at, places)) = places {
        arrays.insert(*at, places.take(table)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> PrimitiveArray<T> {
    PrimitiveArray::new(ScalarBuffer::from(values), nulls)
}

/// Numbers with positive zero only, as in T-SQL; imported files may hold `-0`.
fn with_one_zero<T: ArrowPrimitiveType>(values: PrimitiveArray<T>) -> ArrayRef {
    normalize_float_zero(&(Arc::new(values) as ArrayRef))
}

/// The Arrow array of a column, of its carrier type. Takes over the vector's memory without a copy.
pub(super) fn array_of(sql_type: &SqlType, vector: ColumnVector) -> Result<ArrayRef, SqlError> {
    let rows = vector.rows();
    let nulls = (vector.null_count > 0)
        .then(|| NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(vector.validity), 0, rows)));
    let broken = |error: arrow::error::ArrowError| hobt_base::errors::VALUE_DAMAGED.with([&error]);
    Ok(match vector.data {
        VectorData::U8(values) => Arc::new(UInt8Array::new(values.into(), nulls)),
        VectorData::I16(values) => Arc::new(Int16Array::new(values.into(), nulls)),
        VectorData::I32(values) => match sql_type {
            SqlType::Date => Arc::new(primitive::<Date32Type>(values, nulls)),
            SqlType::Real => {
                with_one_zero(Float32Array::new(ScalarBuffer::new(Buffer::from_vec(values), 0, rows), nulls))
            }
            _ => Arc::new(Int32Array::new(values.into(), nulls)),
        },
        VectorData::I64(values) => match sql_type {
            SqlType::Float => {
                with_one_zero(Float64Array::new(ScalarBuffer::new(Buffer::from_vec(values), 0, rows), nulls))
            }
            _ => Arc::new(Int64Array::new(values.into(), nulls)),
        },
        VectorData::I128(values) => {
            let (precision, scale) = match sql_type {
                SqlType::Money => (19, 4),
                SqlType::SmallMoney => (10, 4),
                other => (other.precision(), other.scale()),
            };
            let array = Decimal128Array::new(values.into(), nulls);
            Arc::new(array.with_precision_and_scale(precision, scale.cast_signed()).map_err(broken)?)
        }
        VectorData::Bytes16(values) => {
            Arc::new(FixedSizeBinaryArray::try_new(16, Buffer::from_vec(values), nulls).map_err(broken)?)
        }
        VectorData::Views { views, bytes, large, .. } => {
            let views = ScalarBuffer::from(views);
            let buffers: Vec<Buffer> = std::iter::once(bytes).chain(large).map(Buffer::from_vec).collect();
            if sql_type.is_text() {
                Arc::new(
                    ascii_views(views, buffers, nulls)
                        .map_err(|error| hobt_base::errors::VALUE_DAMAGED.with([&error]))?,
                )
            } else {
                Arc::new(BinaryViewArray::try_new(views, buffers, nulls).map_err(broken)?)
            }
        }
    })
}
