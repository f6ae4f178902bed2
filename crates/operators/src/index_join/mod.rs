//! Index joins: nested loops that read the inner table only where the outer side's values are.
//!
//! ```text
//!   IndexJoinExec ─┬─ the outer side         read first, up to a limit of rows
//!                  └─ HashJoinExec           the join itself, with all its conditions
//!                       ├─ OuterExec         stands for the outer side: gives the rows read of it, and the rest
//!                       └─ …                 projections, conditions, row locks, groups by the joined columns
//!                            └─ InnerExec    a scan of the inner table, or a seek of the ranges that were found
//! ```
//! The outer side's rows are counted as they are read. If they are so few that a lookup of each costs less than the
//! scan, their keys become ranges of the index, in order and without duplicates. The scan is then replaced by a seek
//! that all workers share. Otherwise the rows already read are put before the rest, and the join runs as planned.
//! Either way the join above decides which rows join. So every kind of join, its further conditions, NULL and locks
//! mean what they mean without an index.
//!
//! A join that a hint forces into loops reads the outer side in portions, and makes a new plan for each. If the order
//! of the inner rows is used, there is only one portion.
//!
//! If statistics are not maintained between updates, an estimate of few rows is believed, and the seeks run row by row
//! (`row_loops.rs`).
//!
//! Leaves to others: which joins are made so (`rule.rs`), which rows of the inner table may be left out
//! (`trace.rs`), the ranges (`access_path::Lookup`).

mod outer;
mod partners;
mod row_loops;

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, RecordBatchStream,
};
use futures::future::{BoxFuture, FutureExt, Shared};
use futures::{Stream, StreamExt};
use hobt_instruments::{nanoseconds, processor};
use parking_lot::Mutex;

use super::inputs::{shows_its_name, with_inputs, without_expressions};
use super::keeping::{Keeping, Making, Recipe, only};
use super::lock_rows::LockRowsExec;
use super::seek_exec::SeekExec;
use super::unseen_rows::UnseenRowsExec;
use hobt_showplan::NodeMark;
use hobt_table::{AccessPath, Closed, Lookup, OperatorProfile, SeekPath, TableRead, covers};
use hobt_udf::external;
pub use outer::OuterExec;
pub(crate) use outer::ReplayExec;
use outer::{OuterRows, read_outer};
pub use partners::Shows;
pub use row_loops::ShownLoops;
pub use row_loops::{Replaced, RowLoopsExec};

/// Rows of the outer side that a forced join looks up together.
const PORTION_ROWS: usize = 1 << 16;

/// How a join's inner table is looked up.
#[derive(Clone, Debug)]
pub struct Inner {
    /// The inner table.
    pub table: Arc<TableRead>,
    /// How it is looked up.
    pub lookup: Lookup,
    /// The looked-up expressions over the outer side's rows, in the order in which the lookup uses them: equations,
    /// then bounds.
    pub keys: Vec<Arc<dyn PhysicalExpr>>,
    /// How the index's next column is compared with the last of `keys`.
    pub bounds: Vec<Operator>,
    /// Whether the equations also hold if both sides are NULL.
    pub nulls_are_equal: bool,
    /// The most rows of the outer side that are looked up.
    pub rows_max: usize,
    /// The cost of reading the inner table without lookups, in pages.
    pub pages: f64,
    /// Whether a lookup is done whatever it costs.
    pub is_forced: bool,
    /// Whether the outer side can be read in portions: each of its rows joins independently, and the order of the inner
    /// rows is not used.
    pub in_portions: bool,
    /// The most rows that each output partition gives.
    pub fetch: Option<usize>,
    /// Where the plan shows it.
    pub marks: Marks,
}

/// Where the plan shows a join and the seek in its inner table.
#[derive(Clone, Default, Debug)]
pub struct Marks {
    join: NodeMark,
    seek: NodeMark,
}

/// Joins by lookups, or by the plan below it; see the module.
#[derive(Debug)]
pub struct IndexJoinExec {
    outer: Arc<dyn ExecutionPlan>,
    join: Arc<dyn ExecutionPlan>,
    inner: Arc<Inner>,
    /// The first portion, and how many output partitions have still to take it, so that it is dropped after the last of
    /// them. Made when the first partition starts.
    first: Mutex<Option<(Portion, usize)>>,
    made: Arc<FirstMade>,
}

/// Kept to show the plan after its run.
#[derive(Debug, Default)]
struct FirstMade {
    /// The first plan that was made, and whether it does lookups.
    plan: OnceLock<(Arc<dyn ExecutionPlan>, bool)>,
    /// The profile of the loops, once there are any.
    loops: OnceLock<Arc<OperatorProfile>>,
    /// Processor time of making plans, which includes the lookup of the ranges.
    making_ns: AtomicU64,
    /// Processor time of all plans in the output partitions' streams, including their seeks.
    running_ns: AtomicU64,
}

/// Processor time of all plans that were made for portions of the outer side's rows.
#[derive(Clone, Copy)]
pub struct PortionsCpu {
    /// Of making them, which includes the lookup of the ranges.
    pub making: Duration,
    /// Includes the operators below the join.
    pub running: Duration,
}

impl FirstMade {
    /// Adds the processor time of `run`.
    fn running<T>(&self, run: impl FnOnce() -> T) -> T {
        let before = processor::thread_cpu_time();
        let result = run();
        let cpu = processor::thread_cpu_time().saturating_sub(before);
        self.running_ns.fetch_add(nanoseconds(cpu), Ordering::Relaxed);
        result
    }
}

/// What is shown of an index join.
pub struct ShownIndexJoin<'j> {
    /// The outer side.
    pub outer: &'j Arc<dyn ExecutionPlan>,
    /// The join that lookups may replace.
    pub join: &'j Arc<dyn ExecutionPlan>,
    /// The plan that ran in place of the join, and whether it did lookups.
    pub made: Option<(Arc<dyn ExecutionPlan>, bool)>,
    /// The rows that the loops of all portions gave.
    pub loops: Option<&'j Arc<OperatorProfile>>,
    /// Processor time of the plans of all portions.
    pub cpu: PortionsCpu,
    /// The lookup.
    pub sought: Sought<'j>,
    /// The most rows of the outer side that are looked up.
    pub rows_max: usize,
    /// Whether a lookup is done whatever it costs.
    pub is_forced: bool,
    /// Where the plan shows the join.
    pub mark: &'j NodeMark,
}

/// What is shown of a lookup in an inner table.
pub struct Sought<'j> {
    /// The inner table.
    pub table: &'j TableRead,
    /// The index's position in the table.
    pub index: usize,
    /// Whether the index has all columns that are read.
    pub covers: bool,
    /// The columns of the table that are read.
    pub projection: Vec<usize>,
    /// The table's columns that are looked up, with the operator and the expression over the outer side.
    pub keys: Vec<(usize, Operator, &'j Arc<dyn PhysicalExpr>)>,
    /// Where the plan shows the seek.
    pub mark: &'j NodeMark,
}

/// An [`Inner`] between executions.
pub(crate) struct KeptInner {
    number: usize,
    table: usize,
    lookup: Closed<Lookup>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    bounds: Vec<Operator>,
    nulls_are_equal: bool,
    rows_max: usize,
    pages: f64,
    is_forced: bool,
    in_portions: bool,
    fetch: Option<usize>,
}

impl KeptInner {
    fn of(inner: &Arc<Inner>, keeping: &mut Keeping) -> KeptInner {
        KeptInner {
            number: keeping.share(inner),
            table: keeping.table(&inner.table),
            lookup: Closed::of(&inner.lookup),
            keys: inner.keys.clone(),
            bounds: inner.bounds.clone(),
            nulls_are_equal: inner.nulls_are_equal,
            rows_max: inner.rows_max,
            pages: inner.pages,
            is_forced: inner.is_forced,
            in_portions: inner.in_portions,
            fetch: inner.fetch,
        }
    }

    /// The one of this execution, which the operators of a join share.
    fn made(&self, making: &Making<'_>) -> Result<Arc<Inner>> {
        making.shared(self.number, || {
            let table = Arc::clone(making.table(self.table)?);
            Ok(Inner {
                lookup: self.lookup.open(table.database(), table.table()).map_err(external)?,
                table,
                keys: self.keys.clone(),
                bounds: self.bounds.clone(),
                nulls_are_equal: self.nulls_are_equal,
                rows_max: self.rows_max,
                pages: self.pages,
                is_forced: self.is_forced,
                in_portions: self.in_portions,
                fetch: self.fetch,
                marks: Marks::default(),
            })
        })
    }
}

impl Inner {
    /// What is shown of the lookup if these columns of the table are read.
    fn sought(&self, projection: Vec<usize>) -> Sought<'_> {
        let table = self.table.table();
        let index = self.lookup.index();
        let equal = self.lookup.joined_columns(table).into_iter().map(|column| (column, Operator::Eq));
        let bounded = self.lookup.bounded_column(table);
        let bounded = bounded.into_iter().flat_map(|column| self.bounds.iter().map(move |bound| (column, *bound)));
        Sought {
            table: &self.table,
            index,
            covers: covers(table, &table.indexes[index], self.lookup.leaf(), &projection),
            projection,
            keys: equal.chain(bounded).zip(&self.keys).map(|((column, op), key)| (column, op, key)).collect(),
            mark: &self.marks.seek,
        }
    }
}

/// A plan for some rows of the outer side, and the next portion.
type Portion = Shared<BoxFuture<'static, std::result::Result<Made, Arc<DataFusionError>>>>;

#[derive(Clone)]
struct Made {
    plan: Arc<dyn ExecutionPlan>,
    next: Option<Portion>,
    /// The profile of the loops, if this plan does lookups.
    profile: Option<Arc<OperatorProfile>>,
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made").finish_non_exhaustive()
    }
}

impl IndexJoinExec {
    /// Joins by lookups in `inner` for rows of `outer`, or by `join`.
    pub fn new(outer: Arc<dyn ExecutionPlan>, join: Arc<dyn ExecutionPlan>, inner: Arc<Inner>) -> IndexJoinExec {
        IndexJoinExec { outer, join, inner, first: Mutex::default(), made: Arc::default() }
    }

    fn over(&self, outer: Arc<dyn ExecutionPlan>, join: Arc<dyn ExecutionPlan>) -> IndexJoinExec {
        IndexJoinExec::new(outer, join, Arc::clone(&self.inner))
    }

    /// How it is made again for another execution.
    pub(crate) fn kept(&self, keeping: &mut Keeping) -> Recipe {
        let inner = KeptInner::of(&self.inner, keeping);
        Box::new(move |making, mut inputs| {
            let (join, outer) = (only(&mut inputs)?, only(&mut inputs)?);
            Ok(Arc::new(IndexJoinExec::new(outer, join, inner.made(making)?)))
        })
    }

    /// What is shown of the join.
    pub fn shown(&self) -> ShownIndexJoin<'_> {
        let inner = &self.inner;
        let mut projection = Vec::new();
        let found = self.join.apply(|node| {
            projection.extend(slot_of(node, inner).into_iter().flat_map(|slot| slot.projection.iter().copied()));
            Ok(TreeNodeRecursion::Continue)
        });
        debug_assert!(found.is_ok(), "looking at a plan does not fail");
        ShownIndexJoin {
            outer: &self.outer,
            join: &self.join,
            made: self.made.plan.get().cloned(),
            loops: self.made.loops.get(),
            cpu: PortionsCpu {
                making: Duration::from_nanos(self.made.making_ns.load(Ordering::Relaxed)),
                running: Duration::from_nanos(self.made.running_ns.load(Ordering::Relaxed)),
            },
            sought: inner.sought(projection),
            rows_max: inner.rows_max,
            is_forced: inner.is_forced,
            mark: &inner.marks.join,
        }
    }

    /// Whether a node is the stand-in for this join's outer side.
    pub fn is_outer(&self, node: &Arc<dyn ExecutionPlan>) -> bool {
        node.downcast_ref::<OuterExec>().is_some_and(|outer| outer.is_of(&self.inner))
    }

    /// The first portion. The outer side starts here, on the worker that asks first.
    fn first(&self, context: &Arc<TaskContext>) -> Portion {
        let partitions = self.properties().output_partitioning().partition_count();
        let mut first = self.first.lock();
        let (portion, left) = first.take().unwrap_or_else(|| {
            let maker = Maker {
                join: Arc::clone(&self.join),
                inner: Arc::clone(&self.inner),
                profile: Mutex::default(),
                partitions,
                context: Arc::clone(context),
                made: Arc::clone(&self.made),
            };
            (portion(Arc::new(maker), OuterStreams::Unstarted(Arc::clone(&self.outer))), partitions)
        });
        if left > 1 {
            *first = Some((portion.clone(), left - 1));
        }
        portion
    }
}

impl DisplayAs for IndexJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.inner.table.table();
        let index = table.indexes[self.inner.lookup.index()].name.as_deref().unwrap_or("");
        write!(f, "IndexJoin: {}.{index}, up to {} rows", table.name, self.inner.rows_max)
    }
}

impl ExecutionPlan for IndexJoinExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn fetch(&self) -> Option<usize> {
        self.inner.fetch
    }

    with_inputs!(outer, join);

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut keys = self.inner.keys.iter();
        keys.try_fold(TreeNodeRecursion::Continue, |recursion, key| recursion.visit_sibling(|| visit(key)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(IndexJoinStream {
            schema: self.schema(),
            state: State::Waits(self.first(&context)),
            partition,
            profile: None,
            made: Arc::clone(&self.made),
            produced: 0,
            left: self.inner.fetch.unwrap_or(usize::MAX),
            context,
        }))
    }
}

/// The source of the outer side's rows.
enum OuterStreams {
    Unstarted(Arc<dyn ExecutionPlan>),
    /// One for each partition; `None` where it has ended.
    Begun(Vec<Option<SendableRecordBatchStream>>),
}

/// What portions are made from.
struct Maker {
    join: Arc<dyn ExecutionPlan>,
    inner: Arc<Inner>,
    /// The profile of the loops, once there are any.
    profile: Mutex<Option<Arc<OperatorProfile>>>,
    partitions: usize,
    context: Arc<TaskContext>,
    made: Arc<FirstMade>,
}

/// Reads rows of the outer side and makes the plan for them.
fn portion(maker: Arc<Maker>, streams: OuterStreams) -> Portion {
    let making = async move { maker.make(streams).await.map_err(Arc::new) };
    // Not a task: the future is polled only by the partitions that wait for it, and is dropped with them.
    making.boxed().shared()
}

impl Maker {
    async fn make(self: Arc<Maker>, streams: OuterStreams) -> Result<Made> {
        let streams = match streams {
            OuterStreams::Begun(streams) => streams,
            OuterStreams::Unstarted(outer) => {
                let partitions = outer.output_partitioning().partition_count();
                let begin = |partition| outer.execute(partition, Arc::clone(&self.context)).map(Some);
                (0..partitions).map(begin).collect::<Result<_>>()?
            }
        };
        let inner = &self.inner;
        let rows_max = match (inner.is_forced, inner.in_portions) {
            (true, true) => PORTION_ROWS,
            (true, false) => usize::MAX,
            (false, _) => inner.rows_max,
        };
        let reservation = MemoryConsumer::new("IndexJoinOuter").register(self.context.memory_pool());
        let read = read_outer(streams, rows_max, reservation).await?;
        let goes_on = inner.is_forced && inner.in_portions;
        let path = if read.is_all() || goes_on {
            let before = processor::thread_cpu_time();
            let path = self.path(&read);
            let cpu = processor::thread_cpu_time().saturating_sub(before);
            self.made.making_ns.fetch_add(nanoseconds(cpu), Ordering::Relaxed);
            path?
        } else {
            None
        };
        let Some(path) = path else {
            let plan = plan_of(&self.join, inner, Arc::new(read), None)?;
            self.keep(&plan, false);
            return Ok(Made { plan, next: None, profile: None });
        };
        let profile = Arc::clone(self.profile.lock().get_or_insert_with(|| {
            let index = inner.table.table().base_index().id;
            let operator = if inner.is_forced { "Nested Loops" } else { "Adaptive Join" };
            let profile = OperatorProfile::new(operator, &inner.table, index, self.partitions);
            let profile = Arc::new(profile.marked(&inner.marks.join));
            inner.table.run().add_profile(&profile);
            self.made.loops.get_or_init(|| Arc::clone(&profile));
            profile
        }));
        let (now, rest) = read.split();
        let plan = plan_of(&self.join, inner, Arc::new(now), Some(Arc::new(path)))?;
        self.keep(&plan, true);
        let next = rest.map(|streams| portion(Arc::clone(&self), OuterStreams::Begun(streams)));
        Ok(Made { plan, next, profile: Some(profile) })
    }

    /// Keeps the first plan that is made, if the statement keeps its plan to show it after the run. Its rows are kept
    /// with it.
    fn keep(&self, plan: &Arc<dyn ExecutionPlan>, looks_up: bool) {
        if self.inner.table.run().keeps_plan() {
            self.made.plan.get_or_init(|| (Arc::clone(plan), looks_up));
        }
    }

    /// The ranges for the rows read; `None` if a scan costs less.
    fn path(&self, read: &OuterRows) -> Result<Option<SeekPath>> {
        let inner = &self.inner;
        let mut prefixes = Vec::new();
        for batch in read.batches() {
            let evaluated = |key: &Arc<dyn PhysicalExpr>| key.evaluate(batch)?.into_array(batch.num_rows());
            let values: Vec<ArrayRef> = inner.keys.iter().map(evaluated).collect::<Result<_>>()?;
            let added = inner.lookup.add_prefixes(&values, batch.num_rows(), inner.nulls_are_equal, &mut prefixes);
            added.map_err(external)?;
        }
        let path = inner.lookup.path(&inner.table, prefixes).map_err(external)?;
        Ok((inner.is_forced || path.pages < inner.pages).then_some(path))
    }
}

/// The join over rows of the outer side. If there is a `path`, a seek replaces the inner table's scan.
fn plan_of(
    join: &Arc<dyn ExecutionPlan>,
    inner: &Arc<Inner>,
    rows: Arc<OuterRows>,
    path: Option<Arc<SeekPath>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let filled = Arc::clone(join).transform_down(|node| {
        if let Some(outer) = node.downcast_ref::<OuterExec>().filter(|outer| outer.is_of(inner)) {
            let replay: Arc<dyn ExecutionPlan> = Arc::new(ReplayExec::new(Arc::clone(&rows), outer.properties()));
            return Ok(Transformed::new(replay, true, TreeNodeRecursion::Jump));
        }
        // An operator above that locks rows or waits for some looks for new rows by the same path.
        let is_above = || node.exists(|below| Ok(slot_of(below, inner).is_some()));
        if let (Some(locks), Some(path)) = (node.downcast_ref::<LockRowsExec>(), &path)
            && is_above()?
        {
            return Ok(Transformed::yes(locks.along(AccessPath::Seek(Arc::clone(path)))));
        }
        if let (Some(unseen), Some(path)) = (node.downcast_ref::<UnseenRowsExec>(), &path)
            && is_above()?
        {
            return Ok(Transformed::yes(unseen.along(AccessPath::Seek(Arc::clone(path)))));
        }
        let Some(slot) = slot_of(&node, inner) else { return Ok(Transformed::no(node)) };
        let way: Arc<dyn ExecutionPlan> = match &path {
            None => Arc::clone(&slot.scan),
            Some(path) => slot.seek(path)?,
        };
        Ok(Transformed::new(way, true, TreeNodeRecursion::Jump))
    });
    let filled = filled.data()?;
    // The state that operators share while they run belongs to one run.
    if inner.is_forced { reset_plan_states(filled) } else { Ok(filled) }
}

/// The inner table's reader, if a node is that.
fn slot_of<'n>(node: &'n Arc<dyn ExecutionPlan>, inner: &Arc<Inner>) -> Option<&'n InnerExec> {
    node.downcast_ref::<InnerExec>().filter(|slot| Arc::ptr_eq(&slot.inner, inner))
}

/// Reads the inner table; replaced by a seek if the join does lookups.
#[derive(Debug)]
pub struct InnerExec {
    /// What reads the inner table without lookups.
    pub scan: Arc<dyn ExecutionPlan>,
    /// The lookup.
    pub inner: Arc<Inner>,
    /// The columns that are read, by their positions in the table.
    pub projection: Vec<usize>,
    /// Whether rows come in the index's order: the scan is then itself a seek in this index.
    pub is_ordered: bool,
}

impl InnerExec {
    /// Whether what is looked up follows from the outer side's rows alone.
    pub(crate) fn is_of_joined_rows(&self) -> bool {
        self.inner.lookup.is_of_joined_rows(self.inner.table.table())
    }

    fn over(&self, scan: Arc<dyn ExecutionPlan>) -> InnerExec {
        let (inner, projection) = (Arc::clone(&self.inner), self.projection.clone());
        InnerExec { scan, inner, projection, is_ordered: self.is_ordered }
    }

    /// How it is made again for another execution.
    pub(crate) fn kept(&self, keeping: &mut Keeping) -> Recipe {
        let (inner, projection) = (KeptInner::of(&self.inner, keeping), self.projection.clone());
        let is_ordered = self.is_ordered;
        Box::new(move |making, mut inputs| {
            let (scan, projection) = (only(&mut inputs)?, projection.clone());
            Ok(Arc::new(InnerExec { scan, inner: inner.made(making)?, projection, is_ordered }))
        })
    }

    /// A seek in place of the scan.
    fn seek(&self, path: &Arc<SeekPath>) -> Result<Arc<dyn ExecutionPlan>> {
        let table = Arc::clone(&self.inner.table);
        let mark = &self.inner.marks.seek;
        let seek = SeekExec::new(table, Arc::clone(path), self.projection.clone(), self.scan.schema());
        if self.is_ordered {
            return Ok(Arc::new(seek.marked(mark)));
        }
        let parts = self.scan.output_partitioning().partition_count();
        let spread = seek.spread(parts).map_err(external)?;
        Ok(Arc::new(spread.unwrap_or_else(|| seek.in_parts(parts)).marked(mark)))
    }
}

shows_its_name!(InnerExec);

impl ExecutionPlan for InnerExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        self.scan.properties()
    }

    with_inputs!(scan);
    without_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.scan.execute(partition, context)
    }
}

/// The state of an output partition.
enum State {
    Waits(Portion),
    Reads(SendableRecordBatchStream, Option<Portion>),
    Done,
}

struct IndexJoinStream {
    schema: SchemaRef,
    state: State,
    partition: usize,
    profile: Option<Arc<OperatorProfile>>,
    made: Arc<FirstMade>,
    produced: u64,
    /// How many rows are still wanted.
    left: usize,
    context: Arc<TaskContext>,
}

impl Stream for IndexJoinStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            match &mut this.state {
                State::Waits(portion) => {
                    let made = ready!(portion.poll_unpin(task)).map_err(DataFusionError::Shared);
                    let begun = made.and_then(|made| {
                        let stream = made.plan.execute(this.partition, Arc::clone(&this.context))?;
                        this.profile = made.profile;
                        Ok(State::Reads(stream, made.next))
                    });
                    match begun {
                        Ok(state) => this.state = state,
                        Err(error) => {
                            this.state = State::Done;
                            return Poll::Ready(Some(Err(error)));
                        }
                    }
                }
                State::Reads(stream, next) => match ready!(this.made.running(|| stream.poll_next_unpin(task))) {
                    Some(Ok(batch)) => {
                        let batch = batch.slice(0, batch.num_rows().min(this.left));
                        this.left -= batch.num_rows();
                        this.produced += batch.num_rows() as u64;
                        if let Some(profile) = &this.profile {
                            profile.set(this.partition, this.produced, 1);
                        }
                        if this.left == 0 {
                            this.state = State::Done;
                        }
                        return Poll::Ready(Some(Ok(batch)));
                    }
                    Some(Err(error)) => {
                        this.state = State::Done;
                        return Poll::Ready(Some(Err(error)));
                    }
                    None => this.state = next.take().map_or(State::Done, State::Waits),
                },
                State::Done => return Poll::Ready(None),
            }
        }
    }
}

impl RecordBatchStream for IndexJoinStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
