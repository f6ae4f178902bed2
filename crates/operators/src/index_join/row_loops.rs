//! Nested loops as in SQL Server: one seek in the inner table's index for each row of the outer side, in the order of
//! the outer rows.
//!
//! ```text
//!   RowLoopsExec ── the outer side        each row:  key → ranges of the index → rows of the table
//!                                                    → the inner side's operators, batch by batch
//!                                                    → the join's conditions, over both sides
//! ```
//! Only a batch of either side is held, and nothing is decided while it runs. The plan assumes few rows: it is good if
//! the estimate is right and slow if there are many. So for joins with equations only an estimate from statistics that
//! are not maintained leads to it (`rule.rs`). If statistics are maintained, the join counts the rows
//! ([`IndexJoinExec`](super::IndexJoinExec)). Joins without equations, whose conditions bound the first column of an
//! index, have no hash table as an alternative (`range_loops.rs`).
//!
//! Leaves to others: the ranges (`access_path::Lookup`), the seeks (`seek_exec::RowSeeks`), which outer rows are in the
//! output by whether they have partners (`partners.rs`).

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{filter, filter_record_batch, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, JoinType, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType, reset_plan_states};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    RecordBatchStream, ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt};
use hobt_access::KeyRange;

use super::partners::{Partners, Shows};
use super::{Inner, Sought};
use crate::inputs::with_inputs;
use crate::join_conditions::all_conditions;
use crate::role::is_exchange;
use crate::scan_exec::batch_bytes;
use crate::seek_exec::{RowSeeks, SeekExec};
use hobt_showplan::NodeMark;
use hobt_table::{OperatorProfile, Relation, WorkerClock};
use hobt_udf::external;

/// What an inner side does with the rows of its table.
#[derive(Debug)]
enum Step {
    /// Keeps the rows that fulfil a condition, with only these of their columns if given.
    Filter(Arc<dyn PhysicalExpr>, Option<Vec<usize>>),
    /// Computes other columns.
    Project(Vec<Arc<dyn PhysicalExpr>>, SchemaRef),
}

impl Step {
    /// The steps of an inner side from its table up; `None` if it does anything else.
    fn all(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<Step>> {
        if plan.is::<SeekExec>() {
            return Some(Vec::new());
        }
        let step = if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let projection = filter.projection().as_ref().map(|places| places.to_vec());
            Step::Filter(Arc::clone(filter.predicate()), projection)
        } else {
            let projection = plan.downcast_ref::<ProjectionExec>()?;
            let exprs = projection.expr().iter().map(|item| Arc::clone(&item.expr)).collect();
            Step::Project(exprs, plan.schema())
        };
        let mut steps = Step::all(plan.children().first()?)?;
        steps.push(step);
        Some(steps)
    }

    fn expressions(&self) -> &[Arc<dyn PhysicalExpr>] {
        match self {
            Step::Filter(predicate, _) => std::slice::from_ref(predicate),
            Step::Project(exprs, _) => exprs,
        }
    }

    /// Applies the step to rows, and to the positions of the outer rows that they belong to.
    fn apply(&self, rows: RecordBatch, of: UInt32Array) -> Result<(RecordBatch, UInt32Array)> {
        match self {
            Step::Filter(predicate, projection) => {
                let kept = mask(predicate, &rows)?;
                let (rows, of) = kept_of(&rows, &of, &kept)?;
                match projection {
                    Some(places) => Ok((rows.project(places)?, of)),
                    None => Ok((rows, of)),
                }
            }
            Step::Project(exprs, schema) => {
                let count = rows.num_rows();
                let columns = exprs.iter().map(|expr| expr.evaluate(&rows)?.into_array(count));
                let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
                let options = RecordBatchOptions::new().with_row_count(Some(count));
                Ok((RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?, of))
            }
        }
    }
}

/// For which rows a condition is true.
fn mask(condition: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<BooleanArray> {
    Ok(condition.evaluate(rows)?.into_array(rows.num_rows())?.as_boolean().clone())
}

fn kept_of(rows: &RecordBatch, of: &UInt32Array, kept: &BooleanArray) -> Result<(RecordBatch, UInt32Array)> {
    let of = filter(of, kept)?;
    Ok((filter_record_batch(rows, kept)?, of.as_primitive().clone()))
}

/// The join that loops replace.
pub struct Replaced<'j> {
    plan: &'j dyn ExecutionPlan,
    left: &'j Arc<dyn ExecutionPlan>,
    right: &'j Arc<dyn ExecutionPlan>,
    join_type: JoinType,
    projection: Option<&'j [usize]>,
    conditions: Option<JoinFilter>,
    /// The conditions on pairs that the lookup does not cover, for display.
    residual: Option<JoinFilter>,
}

impl<'j> Replaced<'j> {
    /// A join with equations.
    ///
    /// # Errors
    /// An expression cannot be made over both sides.
    pub fn hash(join: &'j HashJoinExec) -> Result<Replaced<'j>> {
        Ok(Replaced {
            plan: join,
            left: join.left(),
            right: join.right(),
            join_type: *join.join_type(),
            projection: join.projection.as_deref(),
            conditions: all_conditions(join)?,
            residual: join.filter().cloned(),
        })
    }

    /// A join without equations. `residual` is the part of its condition that is not looked up.
    pub fn loops(join: &'j NestedLoopJoinExec, residual: Option<JoinFilter>) -> Replaced<'j> {
        Replaced {
            plan: join,
            left: join.left(),
            right: join.right(),
            join_type: *join.join_type(),
            projection: join.projection().as_deref(),
            conditions: join.filter().cloned(),
            residual,
        }
    }
}

/// The operator's parts that do not depend on its outer side.
#[derive(Debug)]
struct Loops {
    inner: Arc<Inner>,
    shows: Shows,
    /// The side of the join that is the inner one.
    inner_side: JoinSide,
    /// The inner side without exchanges, over `seek`.
    inner_plan: Arc<dyn ExecutionPlan>,
    /// The template for the seek of each row; it has no ranges of its own.
    seek: Arc<SeekExec>,
    steps: Vec<Step>,
    conditions: Option<JoinFilter>,
    residual: Option<JoinFilter>,
    /// Where the output's columns come from.
    columns: Vec<ColumnIndex>,
    schema: SchemaRef,
    expected: Relation,
}

/// Counters of an operator and of its seeks.
#[derive(Debug)]
struct Profiles {
    join: Arc<OperatorProfile>,
    seek: Arc<OperatorProfile>,
}

/// Joins by a seek for each row; see the module.
#[derive(Debug)]
pub struct RowLoopsExec {
    outer: Arc<dyn ExecutionPlan>,
    loops: Arc<Loops>,
    properties: Arc<PlanProperties>,
    profiles: OnceLock<Arc<Profiles>>,
}

/// What is shown of loops.
pub struct ShownLoops<'j> {
    /// The outer side.
    pub outer: &'j Arc<dyn ExecutionPlan>,
    /// The operators over the rows of a seek.
    pub inner: &'j Arc<dyn ExecutionPlan>,
    /// The side of the join that is the inner one.
    pub inner_side: JoinSide,
    /// The kind of join, with its outer side as the left one.
    pub join_type: JoinType,
    /// Where the output's columns come from.
    pub columns: &'j [ColumnIndex],
    /// The lookup.
    pub sought: Sought<'j>,
    /// The conditions on pairs that the lookup does not cover.
    pub residual: Option<&'j JoinFilter>,
    /// Counters of the join, and of its seeks.
    pub profiles: Option<(&'j Arc<OperatorProfile>, &'j Arc<OperatorProfile>)>,
    /// Where the plan shows it.
    pub mark: &'j NodeMark,
}

impl RowLoopsExec {
    /// `join` by loops over `outer`, whose inner side reads its table by `leaf`. `None` if that side does more with its
    /// rows than filter and compute, or if the join outputs inner rows without a partner. `expected` is the estimate of
    /// the join's output.
    ///
    /// # Errors
    /// A plan cannot be made over another input.
    pub fn of(
        join: Replaced<'_>,
        inner_side: JoinSide,
        (leaf, outer): (&Arc<dyn ExecutionPlan>, &Arc<dyn ExecutionPlan>),
        (inner, projection): (Inner, Vec<usize>),
        expected: Relation,
    ) -> Result<Option<RowLoopsExec>> {
        let whole = if inner_side == JoinSide::Left { join.left } else { join.right };
        let Some(shows) = Shows::of(join.join_type, inner_side) else { return Ok(None) };
        let Some(properties) = properties_of(&join, outer, inner_side) else { return Ok(None) };
        let path = Arc::new(inner.lookup.path_without_ranges());
        let seek = Arc::new(SeekExec::new(Arc::clone(&inner.table), path, projection, leaf.schema()));
        let Some(inner_plan) = over_seek(whole, leaf, &seek)? else { return Ok(None) };
        let Some(steps) = Step::all(&inner_plan) else { return Ok(None) };
        let (_, mut columns) = build_join_schema(&join.left.schema(), &join.right.schema(), &join.join_type);
        if let Some(projection) = join.projection {
            columns = projection.iter().map(|&place| columns[place].clone()).collect();
        }
        let loops = Loops {
            inner: Arc::new(inner),
            shows,
            inner_side,
            inner_plan,
            seek,
            steps,
            conditions: join.conditions,
            residual: join.residual,
            columns,
            schema: join.plan.schema(),
            expected,
        };
        let (outer, loops, profiles) = (Arc::clone(outer), Arc::new(loops), OnceLock::new());
        Ok(Some(RowLoopsExec { outer, loops, properties, profiles }))
    }

    /// Replaces the plan of its inner side by one that differs only in what its seek leaves out.
    ///
    /// # Errors
    /// It differs in more.
    pub fn with_inner(&self, inner_plan: Arc<dyn ExecutionPlan>) -> Result<RowLoopsExec> {
        let loops = &self.loops;
        let (Some(steps), Some(seek)) = (Step::all(&inner_plan), seek_below(&inner_plan)) else {
            return internal_err!("loops over another inner side");
        };
        let loops = Arc::new(Loops {
            inner: Arc::clone(&loops.inner),
            shows: loops.shows,
            inner_side: loops.inner_side,
            seek: Arc::new(seek),
            inner_plan,
            steps,
            conditions: loops.conditions.clone(),
            residual: loops.residual.clone(),
            columns: loops.columns.clone(),
            schema: Arc::clone(&loops.schema),
            expected: loops.expected.clone(),
        });
        let (outer, properties) = (Arc::clone(&self.outer), Arc::clone(&self.properties));
        Ok(RowLoopsExec { outer, loops, properties, profiles: OnceLock::new() })
    }

    fn over(&self, outer: Arc<dyn ExecutionPlan>) -> RowLoopsExec {
        let (loops, properties) = (Arc::clone(&self.loops), Arc::clone(&self.properties));
        RowLoopsExec { outer, loops, properties, profiles: OnceLock::new() }
    }

    /// The estimate of its output.
    pub fn expected(&self) -> &Relation {
        &self.loops.expected
    }

    /// What is shown of it.
    pub fn shown(&self) -> ShownLoops<'_> {
        ShownLoops {
            outer: &self.outer,
            inner: &self.loops.inner_plan,
            inner_side: self.loops.inner_side,
            join_type: self.loops.shows.join_type(),
            columns: &self.loops.columns,
            sought: self.loops.inner.sought(self.loops.seek.projection().to_vec()),
            residual: self.loops.residual.as_ref(),
            profiles: self.profiles.get().map(|profiles| (&profiles.join, &profiles.seek)),
            mark: &self.loops.inner.marks.join,
        }
    }
}

/// The properties of the loops' output: its order is the outer side's. `None` if operators above may rely on more than
/// that.
fn properties_of(
    join: &Replaced<'_>,
    outer: &Arc<dyn ExecutionPlan>,
    inner_side: JoinSide,
) -> Option<Arc<PlanProperties>> {
    let promised = join.plan.properties();
    if inner_side == JoinSide::Left && Arc::ptr_eq(outer, join.right) {
        // Nested loops and hash joins, too, keep the partitions of their right side, and a hash join its order.
        return Some(Arc::clone(promised));
    }
    let (count, own) = (outer.output_partitioning().partition_count(), promised.output_partitioning());
    let partitioning = match own {
        own if own.partition_count() == count => own.clone(),
        Partitioning::Hash(..) => return None,
        _ => Partitioning::UnknownPartitioning(count),
    };
    // Equal columns and constants stay so in any order, and sorts above rely on them.
    let mut no_order = EquivalenceProperties::new(join.plan.schema());
    no_order.add_equivalence_group(promised.equivalence_properties().eq_group().clone()).ok()?;
    let properties = PlanProperties::new(no_order, partitioning, EmissionType::Incremental, Boundedness::Bounded);
    Some(Arc::new(properties))
}

/// The seek of an inner side.
fn seek_below(plan: &Arc<dyn ExecutionPlan>) -> Option<SeekExec> {
    match plan.downcast_ref::<SeekExec>() {
        Some(seek) => Some(seek.again()),
        None => seek_below(plan.children().first()?),
    }
}

/// An inner side over a seek in place of its `leaf`, without exchanges; `None` if there is no leaf.
fn over_seek(
    plan: &Arc<dyn ExecutionPlan>,
    leaf: &Arc<dyn ExecutionPlan>,
    seek: &Arc<SeekExec>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if Arc::ptr_eq(plan, leaf) {
        return Ok(Some(Arc::clone(seek) as Arc<dyn ExecutionPlan>));
    }
    let [input] = plan.children()[..] else { return Ok(None) };
    let Some(below) = over_seek(input, leaf, seek)? else { return Ok(None) };
    if is_exchange(plan) {
        return Ok(Some(below));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(vec![below], options).map(Some)
}

impl DisplayAs for RowLoopsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, index) = (self.loops.inner.table.table(), self.loops.inner.lookup.index());
        write!(f, "RowLoops: {}.{}", table.name, table.indexes[index].name.as_deref().unwrap_or(""))
    }
}

impl ExecutionPlan for RowLoopsExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    with_inputs!(outer);

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    /// The filters that the seeks apply for joins above belong to one run.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let inner = reset_plan_states(Arc::clone(&self.loops.inner_plan))?;
        Ok(Arc::new(self.with_inner(inner)?))
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let loops = &self.loops;
        let conditions = loops.conditions.iter().map(JoinFilter::expression);
        let steps = loops.steps.iter().flat_map(Step::expressions);
        let mut all = loops.inner.keys.iter().chain(steps).chain(conditions);
        all.try_fold(TreeNodeRecursion::Continue, |recursion, expr| recursion.visit_sibling(|| visit(expr)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (loops, table) = (&self.loops, &self.loops.inner.table);
        let profiles = self.profiles.get_or_init(|| {
            let workers = self.properties.output_partitioning().partition_count();
            let index = table.table().indexes[loops.inner.lookup.index()].id;
            let join = OperatorProfile::new("Nested Loops", table, table.table().base_index().id, workers);
            let seek = OperatorProfile::new(loops.seek.operator(), table, index, workers);
            let expected = Some(loops.expected.rows.ceil() as u64);
            let estimated = |profile: OperatorProfile| match expected {
                Some(rows) => Arc::new(profile.estimated(rows)),
                None => Arc::new(profile),
            };
            let marks = &loops.inner.marks;
            let profiles =
                Profiles { join: estimated(join.marked(&marks.join)), seek: estimated(seek.marked(&marks.seek)) };
            table.run().add_profile(&profiles.join);
            table.run().add_profile(&profiles.seek);
            Arc::new(profiles)
        });
        let bytes_max = batch_bytes(&context, self.properties.output_partitioning().partition_count());
        let seeks = RowSeeks::new(&loops.seek, &profiles.seek, partition == 0, bytes_max)?;
        Ok(Box::pin(RowLoopsStream {
            outer: self.outer.execute(partition, Arc::clone(&context))?,
            rows: None,
            seeks,
            ranges: VecDeque::new(),
            of: Vec::new(),
            progress: Progress::new(profiles, partition),
            left: loops.inner.fetch.unwrap_or(usize::MAX),
            rows_max: (context.session_config().batch_size() / 2).max(1),
            loops: Arc::clone(loops),
        }))
    }
}

/// Rows of the outer side, and the loop's position in them.
struct OuterBatch {
    batch: RecordBatch,
    /// The looked-up values of each row.
    keys: Vec<ArrayRef>,
    next: usize,
    partners: Partners,
}

impl OuterBatch {
    /// The row whose ranges are being read: the one before the next.
    fn row(&self) -> usize {
        self.next.saturating_sub(1)
    }
}

/// Counters of one worker.
struct Progress {
    profiles: Arc<Profiles>,
    /// Its time in the join, and in the seeks.
    join_clock: WorkerClock,
    seek_clock: WorkerClock,
    partition: usize,
    /// Rows of the outer side; each took a seek.
    sought: u64,
    /// Rows that the inner side gave, and the join.
    found: u64,
    joined: u64,
}

impl Progress {
    fn new(profiles: &Arc<Profiles>, partition: usize) -> Progress {
        Progress {
            profiles: Arc::clone(profiles),
            join_clock: WorkerClock::new(&profiles.join, partition),
            seek_clock: WorkerClock::new(&profiles.seek, partition),
            partition,
            sought: 0,
            found: 0,
            joined: 0,
        }
    }

    fn show(&self, read: u64) {
        self.profiles.seek.set_read(self.partition, (self.found, read), self.sought);
        self.profiles.join.set(self.partition, self.joined, 1);
    }
}

struct RowLoopsStream {
    loops: Arc<Loops>,
    outer: SendableRecordBatchStream,
    rows: Option<OuterBatch>,
    seeks: RowSeeks,
    /// The row's ranges still to be read, after the current one.
    ranges: VecDeque<KeyRange>,
    /// The outer batch's row for each row that the seeks have read.
    of: Vec<u32>,
    progress: Progress,
    /// How many rows are still wanted.
    left: usize,
    rows_max: usize,
}

impl RowLoopsStream {
    /// Continues the loop until the seeks have read enough rows for a batch, or the outer rows are done. Returns
    /// whether they are done.
    fn seek(&mut self, of: &mut OuterBatch) -> Result<bool> {
        loop {
            let is_over = self.seeks.read(self.rows_max)?;
            let row = u32::try_from(of.row()).expect("a batch is not as long");
            self.of.resize(self.seeks.rows(), row);
            if !is_over {
                return Ok(false);
            }
            if self.loops.shows.needs_one() && of.partners.has(of.row()) {
                self.ranges.clear();
            }
            if let Some(range) = self.ranges.pop_front() {
                self.seeks.begin(&range);
                continue;
            }
            if of.next == of.batch.num_rows() {
                return Ok(true);
            }
            let inner = &self.loops.inner;
            let ranges = inner.lookup.ranges_of_row(&of.keys, of.next, inner.nulls_are_equal).map_err(external)?;
            self.ranges.extend(ranges);
            of.next += 1;
            self.progress.sought += 1;
        }
    }

    /// Joins the rows that the seeks have read with their rows of the outer side. If `is_through`, the outer batch is
    /// complete; otherwise the seek of the last of these rows continues.
    fn joined(&mut self, outer: &mut OuterBatch, is_through: bool) -> Result<RecordBatch> {
        let loops = Arc::clone(&self.loops);
        let of = UInt32Array::from(std::mem::take(&mut self.of));
        let taken = (self.seeks.take_batch()?, of);
        let (mut inner, mut of) = loops.steps.iter().try_fold(taken, |(rows, of), step| step.apply(rows, of))?;
        self.progress.found += inner.num_rows() as u64;
        if let Some(conditions) = &loops.conditions {
            let column = |at: &ColumnIndex| match at.side == loops.inner_side {
                true => Ok(Arc::clone(inner.column(at.index))),
                false => take(outer.batch.column(at.index), &of, None),
            };
            let columns = conditions.column_indices().iter().map(column).collect::<Result<Vec<_>, _>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(of.len()));
            let both = RecordBatch::try_new_with_options(Arc::clone(conditions.schema()), columns, &options)?;
            (inner, of) = kept_of(&inner, &of, &mask(conditions.expression(), &both)?)?;
        }
        let complete = if is_through { outer.batch.num_rows() } else { outer.row() };
        let shown = outer.partners.shown(loops.shows, &of, complete);
        let column = |at: &ColumnIndex| match (at.side, &shown.inner) {
            (JoinSide::None, _) => Ok(Arc::new(shown.marks.clone()) as ArrayRef),
            (side, None) if side == loops.inner_side => Ok(Arc::clone(inner.column(at.index))),
            (side, Some(rows)) if side == loops.inner_side => take(inner.column(at.index), rows, None),
            _ => take(outer.batch.column(at.index), &shown.outer, None),
        };
        let columns = loops.columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(shown.outer.len()));
        let joined = RecordBatch::try_new_with_options(Arc::clone(&loops.schema), columns, &options)?;
        let joined = joined.slice(0, joined.num_rows().min(self.left));
        self.left -= joined.num_rows();
        self.progress.joined += joined.num_rows() as u64;
        Ok(joined)
    }

    /// The next output rows of the current outer batch; `None` if none are left, or none are wanted.
    fn next_joined(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(mut of) = self.rows.take() {
            self.progress.seek_clock.begin();
            let sought = self.seek(&mut of);
            self.progress.seek_clock.end();
            let is_through = sought?;
            self.progress.join_clock.begin();
            let joined = self.joined(&mut of, is_through);
            self.progress.join_clock.end();
            let joined = joined?;
            self.progress.show(self.seeks.rows_read());
            if !is_through && self.left > 0 {
                self.rows = Some(of);
            }
            if joined.num_rows() > 0 {
                return Ok(Some(joined));
            }
        }
        Ok(None)
    }

    fn begin(&mut self, batch: RecordBatch) -> Result<()> {
        let evaluated = |key: &Arc<dyn PhysicalExpr>| key.evaluate(&batch)?.into_array(batch.num_rows());
        let keys = self.loops.inner.keys.iter().map(evaluated).collect::<Result<Vec<ArrayRef>>>()?;
        let partners = Partners::new(batch.num_rows());
        self.rows = Some(OuterBatch { batch, keys, next: 0, partners });
        Ok(())
    }
}

impl Stream for RowLoopsStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            match this.next_joined() {
                Ok(Some(joined)) => return Poll::Ready(Some(Ok(joined))),
                Ok(None) if this.left == 0 => return Poll::Ready(None),
                Ok(None) => {}
                Err(error) => {
                    this.left = 0;
                    return Poll::Ready(Some(Err(error)));
                }
            }
            let begun = match ready!(this.outer.poll_next_unpin(task)) {
                Some(batch) => batch.and_then(|batch| this.begin(batch)),
                None => {
                    this.progress.show(this.seeks.rows_read());
                    this.seeks.publish();
                    return Poll::Ready(None);
                }
            };
            if let Err(error) = begun {
                this.left = 0;
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl RecordBatchStream for RowLoopsStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.loops.schema)
    }
}
