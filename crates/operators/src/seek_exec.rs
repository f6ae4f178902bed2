//! A seek: reads ranges of an index in key order, and follows references to the table's rows if the index lacks
//! columns.
//!
//! There is one output partition for each tree, each in key order. If no order is needed, there are as many partitions
//! as workers, each with a share of the ranges. A seek runs on the worker that polls it and may block there on single
//! pages; the next leaves are read ahead meanwhile.
//!
//! Leaves to others: the batches (`rows`), one seek for each row of another operator (`row_seeks`), the choice of
//! ranges (`access_path`).

mod row_seeks;
mod rows;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, RecordBatchStream,
    SendableRecordBatchStream,
};
use futures::Stream;
use hobt_access::{Direction, KeyRange, TreeSeek};
use hobt_base::SqlError;
use hobt_catalog::{IndexKind, IndexUse};
use hobt_txn::IoCounts;

use super::inputs::without_inputs;
use super::join_filter::{JoinFilter, LeafFilter, without};
use super::keeping::{Keeping, Recipe};
use super::leaf_parameters::LeafParameters;
use super::scan_exec::{ScanExec, batch_bytes};
use super::turn::{self, Turn};
use hobt_showplan::NodeMark;
use hobt_table::{
    Closed, ColumnPredicate, KeptEstimate, LeafEstimate, OperatorProfile, SeekPath, StatementRun, TableRead,
    WorkerClock,
};
use hobt_udf::{external, has_sort_key};
pub(super) use row_seeks::RowSeeks;
use rows::RowBuilder;

/// The least pages for which more than one worker reads a seek's ranges.
const SPREAD_PAGES: f64 = 64.0;
/// Pieces of the ranges for each worker: several, because their lengths differ.
const PIECES_OF_WORKER: usize = 4;

/// Reads ranges of an index of a table.
pub struct SeekExec {
    table: Arc<TableRead>,
    path: Arc<SeekPath>,
    direction: Direction,
    projection: Vec<usize>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    /// The shares that each output partition reads, one after the other.
    parts: Arc<[Vec<Share>]>,
    /// The conditions on the table's columns.
    predicates: Arc<[ColumnPredicate]>,
    /// The estimate of the rows that are left after the conditions above, if statistics were read.
    estimated: Option<Arc<LeafEstimate>>,
    /// How many rows of each output partition are wanted.
    limit: Option<usize>,
    /// The filters of joins above.
    filters: Vec<LeafFilter>,
    /// Its conditions, if they have parameters.
    parameters: Option<Arc<LeafParameters>>,
    /// Where the plan shows it.
    mark: NodeMark,
    profile: OnceLock<Arc<OperatorProfile>>,
}

/// Some of the ranges of a path, in one of its trees.
#[derive(Clone, PartialEq, Debug)]
struct Share {
    tree: usize,
    ranges: Range<usize>,
}

impl fmt::Debug for SeekExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeekExec").field("table", &self.table.table().name).finish_non_exhaustive()
    }
}

impl SeekExec {
    /// Reads the columns `projection` of the rows that `path` leads to.
    pub fn new(table: Arc<TableRead>, path: Arc<SeekPath>, projection: Vec<usize>, schema: SchemaRef) -> SeekExec {
        SeekExec::in_direction(table, path, Direction::Forward, projection, schema)
    }

    /// Like [`SeekExec::new`], in key order or against it.
    pub fn in_direction(
        table: Arc<TableRead>,
        path: Arc<SeekPath>,
        direction: Direction,
        projection: Vec<usize>,
        schema: SchemaRef,
    ) -> SeekExec {
        let order = order_of(&table, &path, direction, &projection, &schema);
        let share = |tree: usize| vec![Share { tree, ranges: 0..path.ranges.len() }];
        let parts: Vec<Vec<Share>> = (0..path.trees.len()).map(share).collect();
        let made = (table, path, direction, projection, schema);
        SeekExec::of_parts(made, order, if parts.is_empty() { vec![Vec::new()] } else { parts }, Arc::default())
    }

    /// Shares the ranges out to `count` output partitions, in no order.
    #[must_use]
    pub(crate) fn in_parts(self, count: usize) -> SeekExec {
        let count = count.max(1);
        let pieces = count.div_ceil(self.path.trees.len().max(1));
        let length = self.path.ranges.len().div_ceil(pieces).max(1);
        let mut parts = vec![Vec::new(); count];
        let ranges = self.path.ranges.len();
        let of_tree = |tree: usize| {
            (0..ranges).step_by(length).map(move |from| Share { tree, ranges: from..(from + length).min(ranges) })
        };
        for (at, share) in (0..self.path.trees.len()).flat_map(of_tree).enumerate() {
            parts[at % count].push(share);
        }
        let made = (self.table, self.path, self.direction, self.projection, self.schema);
        SeekExec::of_parts(made, Vec::new(), parts, self.predicates).estimating_as(self.estimated)
    }

    /// A copy for `count` workers, in no order: wide ranges are divided between leaves, so that each worker has some of
    /// them. `None` if there is too little to read for more than one.
    ///
    /// # Errors
    /// A page of the index is damaged or cannot be read.
    pub fn spread(&self, count: usize) -> Result<Option<SeekExec>, SqlError> {
        if count < 2 || self.limit.is_some() || self.path.pages < SPREAD_PAGES {
            return Ok(None);
        }
        let wanted = count * PIECES_OF_WORKER;
        let mut path = Arc::clone(&self.path);
        let largest = self.path.trees.iter().max_by_key(|(_, tree)| tree.hobt().data_pages());
        if let Some((_, tree)) = largest.filter(|_| self.path.trees.len() * self.path.ranges.len() < wanted) {
            let pieces = wanted.div_ceil(self.path.trees.len() * self.path.ranges.len().max(1));
            let divided = self.path.ranges.iter().map(|range| tree.divide(range, pieces));
            let divided = divided.collect::<Result<Vec<_>, _>>().map_err(|error| self.table.sql_error(error))?;
            path = Arc::new(SeekPath { ranges: divided.concat(), ..SeekPath::clone(&self.path) });
        }
        let (table, projection) = (Arc::clone(&self.table), self.projection.clone());
        let seek = SeekExec::in_direction(table, path, self.direction, projection, Arc::clone(&self.schema));
        let seek = seek.knowing(Arc::clone(&self.predicates)).estimating_as(self.estimated.clone());
        Ok(Some(seek.in_parts(count)))
    }

    /// Sets the conditions on the table's columns.
    #[must_use]
    pub fn knowing(self, predicates: Arc<[ColumnPredicate]>) -> SeekExec {
        SeekExec { predicates, ..self }
    }

    /// Sets the estimate of the rows that are left after the conditions above.
    #[must_use]
    pub fn estimating(self, estimated: LeafEstimate) -> SeekExec {
        SeekExec { estimated: Some(Arc::new(estimated)), ..self }
    }

    /// Takes over the estimate of another access path to the rows, if there is one.
    #[must_use]
    pub fn estimating_as(self, estimated: Option<Arc<LeafEstimate>>) -> SeekExec {
        SeekExec { estimated, ..self }
    }

    /// The estimate of its rows.
    pub fn estimated(&self) -> Option<&Arc<LeafEstimate>> {
        self.estimated.as_ref()
    }

    /// Sets how many rows of each output partition are wanted.
    #[must_use]
    pub fn with_fetch(self, limit: Option<usize>) -> SeekExec {
        SeekExec { limit, ..self }
    }

    fn of_parts(
        (table, path, direction, projection, schema): Made,
        order: Vec<PhysicalSortExpr>,
        parts: Vec<Vec<Share>>,
        predicates: Arc<[ColumnPredicate]>,
    ) -> SeekExec {
        let mut equivalence = EquivalenceProperties::new(Arc::clone(&schema));
        if !order.is_empty() {
            equivalence.add_ordering(order);
        }
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(parts.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let (properties, parts, profile) = (Arc::new(properties), parts.into(), OnceLock::new());
        let (estimated, limit, filters, mark) = (None, None, Vec::new(), NodeMark::default());
        SeekExec {
            table,
            path,
            direction,
            projection,
            schema,
            properties,
            parts,
            predicates,
            estimated,
            limit,
            filters,
            parameters: None,
            mark,
            profile,
        }
    }

    /// Sets its conditions, if they have parameters.
    #[must_use]
    pub fn parameterized(self, parameters: Option<Arc<LeafParameters>>) -> SeekExec {
        SeekExec { parameters, ..self }
    }

    /// Its conditions, if they have parameters.
    pub fn parameters(&self) -> Option<&Arc<LeafParameters>> {
        self.parameters.as_ref()
    }

    /// Whether it reads all of an index that has one tree, for its order.
    fn is_for_order(&self) -> bool {
        self.table.table().base_index().partitions.len() == 1 && self.path.ranges == [KeyRange::all()]
    }

    /// Whether each output partition reads all ranges of one tree.
    fn is_whole(&self) -> bool {
        let ranges = 0..self.path.ranges.len();
        let is_of = |(tree, shares): (usize, &Vec<Share>)| matches!(shares.as_slice(), [share] if share.tree == tree && share.ranges == ranges);
        self.parts.len() == self.path.trees.len() && self.parts.iter().enumerate().all(is_of)
    }

    /// A copy with one more filter of a join.
    pub fn filtered(&self, filter: LeafFilter) -> SeekExec {
        let filters = self.filters.iter().cloned().chain([filter]).collect();
        SeekExec { filters, ..self.unstarted() }
    }

    /// A copy without these filters of joins.
    #[must_use]
    pub fn without(&self, filters: &[Arc<JoinFilter>]) -> SeekExec {
        SeekExec { filters: without(&self.filters, filters), ..self.unstarted() }
    }

    /// Whether it gives the same rows as `other`, which reads the same table, but for filters of joins.
    pub(crate) fn is_alike(&self, other: &SeekExec) -> bool {
        let trees = |seek: &SeekExec| seek.path.trees.iter().map(|(partition, _)| *partition).collect::<Vec<_>>();
        self.path.shape() == other.path.shape()
            && self.path.ranges == other.path.ranges
            && trees(self) == trees(other)
            && self.direction == other.direction
            && self.projection == other.projection
            && self.parts == other.parts
            && self.predicates == other.predicates
            && self.limit == other.limit
    }

    /// How it is made again for another execution.
    pub(crate) fn kept(&self, keeping: &mut Keeping) -> Recipe {
        let (table, path) = (keeping.table(&self.table), Closed::of(self.path.as_ref()));
        let filters: Vec<_> = self.filters.iter().map(|filter| filter.kept(keeping)).collect();
        let estimated = self.estimated.as_ref().map(|known| KeptEstimate::of(known, &mut |of| keeping.table(of)));
        let (projection, schema, properties) =
            (self.projection.clone(), Arc::clone(&self.schema), Arc::clone(&self.properties));
        let (direction, limit) = (self.direction, self.limit);
        let (parts, predicates) = (Arc::clone(&self.parts), Arc::clone(&self.predicates));
        let rows = self.estimated.as_ref().map_or(0.0, |known| known.rows);
        let (shape, is_for_order) = (self.path.shape(), self.is_for_order());
        // Ranges that are divided among workers are divided by what is in them.
        let parameters = self.parameters.clone().filter(|_| self.is_whole());
        parameters.iter().for_each(|parameters| keeping.note_leaf(parameters.names()));
        Box::new(move |making, _| {
            let table = Arc::clone(making.table(table)?);
            let opened = || path.open(table.database(), table.table()).map(Arc::new).map_err(external);
            let (path, predicates, estimated) = match parameters.as_ref().zip(making.values()) {
                None => {
                    let estimated = estimated.as_ref().map(|known| Arc::new(known.of_tables(making.tables())));
                    (opened()?, Arc::clone(&predicates), estimated)
                }
                Some((parameters, values)) => {
                    let fresh = parameters.planned(&table, &projection, values)?;
                    let (path, predicates, estimated) = if is_for_order {
                        // Whatever the conditions are, all of the index is read.
                        let scan = making.fitting::<ScanExec>(&fresh)?;
                        (opened()?, scan.predicates(), scan.estimated())
                    } else {
                        let seek = making.fitting::<SeekExec>(&fresh)?;
                        if seek.path.shape() != shape {
                            return Err(making.refusal());
                        }
                        (Arc::clone(&seek.path), &seek.predicates, seek.estimated())
                    };
                    making.check_rows(rows, estimated.map_or(0.0, |known| known.rows))?;
                    (path, Arc::clone(predicates), estimated.cloned())
                }
            };
            Ok(Arc::new(SeekExec {
                path,
                direction,
                projection: projection.clone(),
                schema: Arc::clone(&schema),
                properties: Arc::clone(&properties),
                parts: Arc::clone(&parts),
                predicates,
                estimated,
                limit,
                filters: filters.iter().map(|filter| filter.made(making)).collect::<Result<_>>()?,
                parameters: None,
                mark: NodeMark::default(),
                profile: OnceLock::new(),
                table,
            }))
        })
    }

    /// Whether the rows of each output partition are limited.
    pub fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// A copy that has not begun.
    pub(super) fn again(&self) -> SeekExec {
        SeekExec { filters: self.filters.clone(), ..self.unstarted() }
    }

    /// A copy that has not begun, without filters of joins.
    fn unstarted(&self) -> SeekExec {
        SeekExec {
            table: Arc::clone(&self.table),
            path: Arc::clone(&self.path),
            direction: self.direction,
            projection: self.projection.clone(),
            schema: Arc::clone(&self.schema),
            properties: Arc::clone(&self.properties),
            parts: Arc::clone(&self.parts),
            predicates: Arc::clone(&self.predicates),
            estimated: self.estimated.clone(),
            limit: self.limit,
            filters: Vec::new(),
            parameters: self.parameters.clone(),
            mark: self.mark.clone(),
            profile: OnceLock::new(),
        }
    }

    /// The table.
    pub fn table(&self) -> &Arc<TableRead> {
        &self.table
    }

    /// The ranges that are read of the index.
    pub fn path(&self) -> &Arc<SeekPath> {
        &self.path
    }

    /// The columns read, by their positions in the table.
    pub fn projection(&self) -> &[usize] {
        &self.projection
    }

    /// The filters of joins above.
    pub fn filters(&self) -> &[LeafFilter] {
        &self.filters
    }

    /// The conditions on the table's columns.
    pub fn predicates(&self) -> &Arc<[ColumnPredicate]> {
        &self.predicates
    }

    /// The direction in which the index is read.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Where the plan shows it.
    pub fn mark(&self) -> &NodeMark {
        &self.mark
    }

    /// Sets where the plan shows it.
    #[must_use]
    pub(super) fn marked(self, mark: &NodeMark) -> SeekExec {
        SeekExec { mark: mark.clone(), ..self }
    }

    /// The counters of its workers; `None` before it has begun.
    pub fn profile(&self) -> Option<&Arc<OperatorProfile>> {
        self.profile.get()
    }

    /// Counts the statement's use of the index, and of the base index if rows are looked up there.
    fn note_uses(&self, run: &StatementRun) {
        let table = self.table.table();
        let used = if self.path.is_whole() { IndexUse::Scan } else { IndexUse::Seek };
        run.note_use(&table.indexes[self.path.index], used);
        if !self.path.covers {
            run.note_use(table.base_index(), IndexUse::Lookup);
        }
    }

    /// SQL Server's name for the operator.
    pub(super) fn operator(&self) -> &'static str {
        let is_clustered = self.table.table().indexes[self.path.index].kind == IndexKind::Clustered;
        match (is_clustered, self.path.is_whole()) {
            (true, false) => "Clustered Index Seek",
            (true, true) => "Clustered Index Scan",
            (false, false) => "Index Seek",
            (false, true) => "Index Scan",
        }
    }
}

/// The parts of a seek.
type Made = (Arc<TableRead>, Arc<SeekPath>, Direction, Vec<usize>, SchemaRef);

/// The order of the rows of one tree, as far as columns compare by their values and are among those read.
fn order_of(
    table: &TableRead,
    path: &SeekPath,
    direction: Direction,
    projection: &[usize],
    schema: &SchemaRef,
) -> Vec<PhysicalSortExpr> {
    let mut order = Vec::new();
    for part in &table.table().indexes[path.index].key {
        let definition = &table.table().columns[part.column];
        let Some(place) = projection.iter().position(|column| *column == part.column) else { break };
        if has_sort_key(definition.sql_type) {
            break;
        }
        let descending = part.is_descending != (direction == Direction::Backward);
        let options = SortOptions { descending, nulls_first: !descending };
        let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(place).name(), place));
        order.push(PhysicalSortExpr { expr, options });
    }
    order
}

impl DisplayAs for SeekExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = &self.table.table().indexes[self.path.index];
        let lookup = if self.path.covers { "" } else { ", with look-ups" };
        write!(
            f,
            "{}: {}.{}, {} ranges, about {:.0} rows{lookup}",
            self.operator(),
            self.table.table().name,
            index.name.as_deref().unwrap_or(""),
            self.path.ranges.len(),
            self.path.rows
        )
    }
}

impl ExecutionPlan for SeekExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    without_inputs!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // The filters' keys belong to one run.
        Ok(Arc::new(self.unstarted()))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let run = Arc::clone(self.table.run());
        if partition == 0 {
            self.note_uses(&run);
        }
        let counts = run.io_counts(&self.table.table().name);
        let profile = self.profile.get_or_init(|| {
            let index = self.table.table().indexes[self.path.index].id;
            let profile = OperatorProfile::new(self.operator(), &self.table, index, self.parts.len());
            let profile = Arc::new(profile.estimated(self.path.rows.ceil() as u64).marked(&self.mark));
            run.add_profile(&profile);
            profile
        });
        let bytes_max = batch_bytes(&context, self.parts.len());
        let rows = RowBuilder::new(self, &run, Arc::clone(&counts), profile, bytes_max).map_err(external)?;
        Ok(Box::pin(SeekStream {
            table: Arc::clone(&self.table),
            schema: Arc::clone(&self.schema),
            path: Arc::clone(&self.path),
            direction: self.direction,
            counts,
            shares: self.parts[partition].iter().cloned().collect(),
            seek: None,
            rows,
            clock: WorkerClock::new(profile, partition),
            profile: Arc::clone(profile),
            partition,
            produced: 0,
            noted: 0,
            left: self.limit.unwrap_or(usize::MAX),
            rows_max: context.session_config().batch_size(),
            turn: Turn::new(self.parts.len(), turn::LEAVES),
        }))
    }
}

struct SeekStream {
    table: Arc<TableRead>,
    schema: SchemaRef,
    path: Arc<SeekPath>,
    direction: Direction,
    counts: Arc<IoCounts>,
    /// The shares still to be read.
    shares: VecDeque<Share>,
    /// The current seek, and its tree's partition.
    seek: Option<(usize, TreeSeek)>,
    rows: RowBuilder,
    profile: Arc<OperatorProfile>,
    clock: WorkerClock,
    partition: usize,
    produced: u64,
    /// Rows read that are counted in the statement's progress already.
    noted: u64,
    /// How many rows are still wanted.
    left: usize,
    rows_max: usize,
    turn: Turn,
}

impl SeekStream {
    /// Begins the next share; `false` if there is none.
    fn begin(&mut self) -> bool {
        let Some(share) = self.shares.pop_front() else { return false };
        let run = self.table.run();
        let (place, tree) = &self.path.trees[share.tree];
        let ranges = &self.path.ranges[share.ranges];
        self.counts.scans.fetch_add(ranges.len() as u64, Ordering::Relaxed);
        let ranges: Vec<_> = match self.direction {
            Direction::Forward => ranges.to_vec(),
            Direction::Backward => ranges.iter().rev().cloned().collect(),
        };
        let (settings, context) = (self.table.scan_settings(), Arc::clone(&run.context));
        let counts = Arc::clone(&self.counts);
        self.seek = Some((*place, TreeSeek::new(Arc::clone(tree), ranges, self.direction, settings, context, counts)));
        true
    }

    /// The next rows; `None` after the last. Blocks on reads and latches.
    fn poll_batch(&mut self, task: &Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        while self.left > 0 && (self.seek.is_some() || self.begin()) {
            if self.turn.is_over(task) {
                return Poll::Pending;
            }
            let Some((partition, seek)) = &mut self.seek else { break };
            let left = self.left - self.rows.rows;
            let step = match self.rows.has_rest() {
                true => self.rows.take_rest(*partition, seek, left).map(|()| true),
                false => seek.advance().and_then(|is_there| {
                    if is_there {
                        self.rows.take_leaf(*partition, seek, left)?;
                    }
                    Ok(is_there)
                }),
            };
            match step {
                Ok(true) if self.rows.rows < (self.rows_max / 2).min(self.left) && !self.rows.is_full() => {}
                Ok(true) => break,
                Ok(false) => self.seek = None,
                Err(error) => {
                    (self.seek, self.shares) = (None, VecDeque::new());
                    return Poll::Ready(Some(Err(external(self.table.sql_error(error)))));
                }
            }
        }
        let rows = self.rows.rows;
        self.produced += rows as u64;
        self.left = self.left.saturating_sub(rows);
        let before = std::mem::replace(&mut self.noted, self.rows.read);
        self.table.run().note_scanned(self.noted - before);
        self.profile.set_read(self.partition, (self.produced, self.rows.read), 1);
        self.rows.publish();
        Poll::Ready((rows > 0).then(|| self.rows.take_batch(&self.table, &self.schema)))
    }
}

impl Stream for SeekStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.clock.begin();
        let next = self.poll_batch(task);
        self.clock.end();
        next
    }
}

impl RecordBatchStream for SeekStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
