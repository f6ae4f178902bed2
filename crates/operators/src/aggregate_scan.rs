//! Ungrouped aggregates inside the scan.
//!
//! The rule finds a partial aggregate without groups whose input is nothing but a scan. It replaces it by
//! [`AggregateScanExec`] if the scan can compute every aggregate on pages: `COUNT`, `MIN`, `MAX`, `SUM` over integer
//! columns, their `+ - *`, `LEN`, and `MIN`, `MAX` of text. When all are counts, only page headers are read.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    RecordBatchStream, SendableRecordBatchStream,
};
use futures::Stream;
use hobt_access::AccessError;
use hobt_access::scan::{
    AggregateError, AggregateValue, Aggregator, Counts, IntegerWidth, PageVisitor, Scan, ScanAggregate, ScanWorker,
    ShownPage,
};
use hobt_base::{SqlError, errors};
use hobt_functions::aggregate::{Aggregate, Emit};
use hobt_functions::value_to_array;
use hobt_types::Value;

use super::inputs::without_inputs;
use super::keeping::{Recipe, only};
use super::row_tests::{PageFilter, RowTest};
use super::scan_exec::{ScanExec, Started};
use super::turn::{self, Turn};
use hobt_table::{OperatorProfile, WorkerClock};
use hobt_udf::external;

/// A scan that gives one row per worker: the aggregates over the pages that it read.
pub struct AggregateScanExec {
    scan: Arc<dyn ExecutionPlan>,
    aggregates: Vec<ScanAggregate>,
    definitions: Vec<Aggregate>,
    finish: bool,
    properties: Arc<PlanProperties>,
    /// The conditions on its rows, and the filter that they stand for, over the scan.
    filter: Option<(Tests, Arc<dyn ExecutionPlan>)>,
}

/// Makes the tests that the rows of a scan pass if they fulfil a condition; `None` if these are no such tests.
pub type MakeTests = fn(&Arc<dyn PhysicalExpr>, &ScanExec) -> Option<Vec<RowTest>>;

/// Tests on rows, and how they are made of a filter.
#[derive(Clone)]
struct Tests {
    all: Vec<RowTest>,
    make: MakeTests,
}

impl Tests {
    /// The tests for a filter over a scan.
    fn of(filter: &Arc<dyn ExecutionPlan>, scan: &Arc<dyn ExecutionPlan>, make: MakeTests) -> Option<Tests> {
        let condition = filter.downcast_ref::<FilterExec>()?.predicate();
        Some(Tests { all: make(condition, scan.downcast_ref::<ScanExec>()?)?, make })
    }
}

impl fmt::Debug for AggregateScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggregateScanExec").field("aggregates", &self.aggregates).finish_non_exhaustive()
    }
}

impl AggregateScanExec {
    /// Computes `aggregates` in `scan`, a [`ScanExec`]. `finish` is true if it gives results rather than states.
    pub fn new(
        scan: Arc<dyn ExecutionPlan>,
        aggregates: Vec<ScanAggregate>,
        definitions: Vec<Aggregate>,
        finish: bool,
        schema: SchemaRef,
    ) -> AggregateScanExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(scan.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        AggregateScanExec { scan, aggregates, definitions, finish, properties: Arc::new(properties), filter: None }
    }

    /// It, but of rows that pass `filter`, a [`FilterExec`] over the scan. All aggregates must take slots
    /// ([`ScanAggregate::takes_slots`]). `None` if `make` makes no tests of it.
    #[must_use]
    pub fn filtered(self, filter: Arc<dyn ExecutionPlan>, make: MakeTests) -> Option<AggregateScanExec> {
        let tests = Tests::of(&filter, &self.scan, make)?;
        Some(AggregateScanExec { filter: Some((tests, filter)), ..self })
    }

    /// The scan, or the filter over it.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        self.filter.as_ref().map_or(&self.scan, |(_, filter)| filter)
    }

    /// Whether it computes what `other` does over its input.
    pub(crate) fn is_alike(&self, other: &AggregateScanExec) -> bool {
        self.aggregates == other.aggregates && self.definitions == other.definitions && self.finish == other.finish
    }

    /// How it is made again for another execution, over its input as that has it.
    pub(crate) fn kept(&self) -> Recipe {
        let tests = self.filter.as_ref().map(|(tests, _)| tests.clone());
        let (aggregates, definitions) = (self.aggregates.clone(), self.definitions.clone());
        let (finish, properties) = (self.finish, Arc::clone(&self.properties));
        Box::new(move |making, mut inputs| {
            let input = only(&mut inputs)?;
            // The filter is over the scan.
            let mut scan = Arc::clone(&input);
            while let Some(below) = scan.children().first().map(|below| Arc::clone(below)) {
                scan = below;
            }
            let tests = match (&tests, making.values()) {
                // The filter has other constants.
                (Some(tests), Some(_)) => Some(Tests::of(&input, &scan, tests.make).ok_or_else(|| making.refusal())?),
                (tests, _) => tests.clone(),
            };
            Ok(Arc::new(AggregateScanExec {
                scan,
                aggregates: aggregates.clone(),
                definitions: definitions.clone(),
                finish,
                properties: Arc::clone(&properties),
                filter: tests.map(|tests| (tests, input)),
            }))
        })
    }

    /// The aggregates that it computes.
    pub fn aggregates(&self) -> impl Iterator<Item = (&ScanAggregate, &Aggregate)> {
        self.aggregates.iter().zip(&self.definitions)
    }

    /// The scan.
    pub fn source(&self) -> &ScanExec {
        self.scan.downcast_ref::<ScanExec>().expect("made from a scan")
    }
}

impl DisplayAs for AggregateScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if counts_only(&self.aggregates) { "page headers" } else { "pages" };
        write!(
            f,
            "AggregateScan: {}, {} aggregates from {how}",
            self.source().table().table().name,
            self.aggregates.len()
        )
    }
}

impl ExecutionPlan for AggregateScanExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    without_inputs!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = Arc::clone(&self.scan).reset_state()?;
        let (aggregates, definitions) = (self.aggregates.clone(), self.definitions.clone());
        let fresh = AggregateScanExec::new(scan, aggregates, definitions, self.finish, self.schema());
        Ok(Arc::new(AggregateScanExec { filter: self.filter.clone(), ..fresh }))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Started { scan, profile } = self.source().start()?;
        let work = if let Some((tests, _)) = &self.filter {
            let read = self.aggregates.iter().filter_map(ScanAggregate::column);
            let filter = PageFilter::new(&tests.all, read, (&scan, self.source()), &profile);
            let inner = Aggregator::new(self.aggregates.clone());
            Work::Pages(Box::new(PageAggregator { inner, scan: Arc::clone(&scan), filter: Some(filter) }))
        } else if counts_only(&self.aggregates) {
            let columns = self.aggregates.iter().filter_map(|aggregate| match aggregate {
                ScanAggregate::CountColumn(column) => Some(*column),
                _ => None,
            });
            Work::Counts(Counts::new(columns.collect()))
        } else {
            let inner = Aggregator::new(self.aggregates.clone());
            Work::Pages(Box::new(PageAggregator { inner, scan: Arc::clone(&scan), filter: None }))
        };
        Ok(Box::pin(AggregateStream {
            worker: ScanWorker::new(scan),
            clock: WorkerClock::new(&profile, partition),
            source: Arc::clone(&self.scan),
            profile,
            partition,
            aggregates: self.aggregates.clone(),
            definitions: self.definitions.clone(),
            finish: self.finish,
            schema: self.schema(),
            work,
            read: 0,
            waiting: false,
            turn: Turn::new(self.properties.output_partitioning().partition_count(), turn::RANGES),
            done: false,
        }))
    }
}

fn counts_only(aggregates: &[ScanAggregate]) -> bool {
    aggregates.iter().all(|one| matches!(one, ScanAggregate::CountRows | ScanAggregate::CountColumn(_)))
}

enum Work {
    Counts(Counts),
    Pages(Box<PageAggregator>),
}

struct PageAggregator {
    inner: Aggregator,
    scan: Arc<Scan>,
    filter: Option<PageFilter>,
}

impl PageVisitor for PageAggregator {
    fn visit(&mut self, shown: ShownPage<'_, '_>) -> std::result::Result<(), AccessError> {
        let values = self.scan.large_values(shown.partition);
        let added = match &mut self.filter {
            None => self.inner.add_page(shown.page, shown.next, &values),
            Some(filter) => {
                let slots = filter.select(shown, &values)?;
                self.inner.add_slots(shown.page, slots, &values)
            }
        };
        added.map_err(|error| match error {
            AggregateError::Fetch(error) => error,
            AggregateError::Damaged(damage) => self.scan.damaged_page(shown.id, damage),
            AggregateError::Overflow(width) => AccessError::Visitor(Box::new(overflow(width))),
        })
    }
}

fn overflow(width: IntegerWidth) -> SqlError {
    let name = match width {
        IntegerWidth::Unsigned8 => "tinyint",
        IntegerWidth::Signed16 => "smallint",
        IntegerWidth::Signed32 => "int",
        IntegerWidth::Signed64 => "bigint",
    };
    errors::AGGREGATE_OVERFLOW.with([&name])
}

struct AggregateStream {
    worker: ScanWorker,
    source: Arc<dyn ExecutionPlan>,
    clock: WorkerClock,
    profile: Arc<OperatorProfile>,
    partition: usize,
    aggregates: Vec<ScanAggregate>,
    definitions: Vec<Aggregate>,
    finish: bool,
    schema: SchemaRef,
    work: Work,
    /// Rows read that are counted in the statement's progress already.
    read: u64,
    waiting: bool,
    turn: Turn,
    done: bool,
}

impl AggregateStream {
    fn scan(&self) -> &ScanExec {
        self.source.downcast_ref::<ScanExec>().expect("made from a scan")
    }

    fn set_waiting(&mut self, waiting: bool) {
        if self.waiting != waiting {
            self.waiting = waiting;
            self.scan().run().pending.reads(waiting);
        }
    }

    fn values(&mut self) -> Vec<AggregateValue> {
        let empty = Work::Counts(Counts::new(Vec::new()));
        match std::mem::replace(&mut self.work, empty) {
            Work::Pages(aggregator) => aggregator.inner.into_values(),
            Work::Counts(counts) => {
                let mut nulls = counts.nulls().iter();
                let one = |aggregate: &ScanAggregate| match aggregate {
                    ScanAggregate::CountColumn(_) => counts.rows() - nulls.next().expect("a count a column"),
                    _ => counts.rows(),
                };
                self.aggregates.iter().map(one).map(AggregateValue::Count).collect()
            }
        }
    }

    fn row(&mut self) -> Result<RecordBatch> {
        let mut arrays = Vec::new();
        for (definition, value) in self.definitions.clone().iter().zip(self.values()) {
            let states = state(definition, value).map_err(external)?;
            if self.finish {
                let mut accumulator = definition.accumulator().map_err(external)?;
                accumulator.merge_batch(&states, &[0], None, 1).map_err(external)?;
                arrays.push(accumulator.evaluate(Emit::All).map_err(external)?);
            } else {
                arrays.extend(states);
            }
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), arrays)?)
    }
}

/// The state arrays of an aggregate, as crate `functions` defines them.
fn state(definition: &Aggregate, value: AggregateValue) -> std::result::Result<Vec<ArrayRef>, SqlError> {
    let count = |rows: u64| Arc::new(Int64Array::from(vec![rows.cast_signed()])) as ArrayRef;
    Ok(match value {
        AggregateValue::Count(rows) => vec![count(rows)],
        AggregateValue::Extreme(best) => {
            vec![value_to_array(&best.map_or(Value::Null, Value::Int), definition.input)?]
        }
        AggregateValue::Text(best) => vec![value_to_array(&best.map_or(Value::Null, Value::Text), definition.input)?],
        AggregateValue::Sum(sum, rows) => {
            let sum = Decimal128Array::from(vec![sum]).with_precision_and_scale(38, 0);
            vec![Arc::new(sum.map_err(|error| SqlError::internal(error.to_string()))?), count(rows)]
        }
    })
}

impl Drop for AggregateStream {
    fn drop(&mut self) {
        self.set_waiting(false);
    }
}

impl AggregateStream {
    fn report(&mut self) {
        let before = std::mem::replace(&mut self.read, self.worker.rows());
        self.scan().run().note_scanned(self.read - before);
        self.profile.set_scanned(self.partition, &self.worker);
        if let Work::Pages(pages) = &mut self.work
            && let Some(filter) = &mut pages.filter
        {
            self.profile.set_given(self.partition, filter.publish());
        }
        self.clock.lap();
    }

    fn poll_row(&mut self, task: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            // There is no row before the end, so progress is reported here.
            if self.turn.is_over(task) {
                self.report();
                return Poll::Pending;
            }
            let polled = match &mut self.work {
                Work::Counts(counts) => self.worker.poll_counts(task, counts),
                Work::Pages(aggregator) => self.worker.poll_range(task, &mut **aggregator),
            };
            self.set_waiting(polled.is_pending());
            if !matches!(polled, Poll::Ready(Some(Ok(())))) {
                self.report();
            }
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(()))) => {}
                Poll::Ready(Some(Err(error))) => {
                    self.done = true;
                    let error = self.scan().table().sql_error(error);
                    return Poll::Ready(Some(Err(external(error))));
                }
                Poll::Ready(None) => {
                    self.done = true;
                    return Poll::Ready(Some(self.row()));
                }
            }
        }
    }
}

impl Stream for AggregateStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.done {
            return Poll::Ready(None);
        }
        this.clock.begin();
        let polled = this.poll_row(task);
        this.clock.end();
        polled
    }
}

impl RecordBatchStream for AggregateStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
