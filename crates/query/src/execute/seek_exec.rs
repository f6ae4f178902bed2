//! A seek: ranges of an index in the order of its key, rows of the table followed by their references where the index does
//! not have all that is read.
//!
//! One output partition for each tree, each in the order of the key; or, where no order is asked for, as many as there are
//! workers, each with a share of the ranges. A seek runs on the worker that polls it and may block there on single pages; the
//! leaves that come next are read meanwhile.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use arrow::array::{ArrayRef, Decimal128Array, RecordBatch, RecordBatchOptions};
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, RecordBatchStream,
    SendableRecordBatchStream,
};
use futures::Stream;
use hobt_access::scan::{ColumnVector, KeyPlaces, RowPlace};
use hobt_access::{AccessError, BTree, Direction, Hobt, LargeValues, RowStore, TreeSeek, ValueReader};
use hobt_base::{PageId, SqlError};
use hobt_catalog::{IndexKind, IndexUse};
use hobt_page::{PageDamage, RowPage, ValuePointer};
use hobt_txn::IoCounts;
use hobt_types::SqlType;

use super::inputs::without_inputs;
use super::profile::OperatorProfile;
use super::scan_exec::{array_of, column_vector};
use super::statement::StatementRun;
use crate::access_path::{ColumnPredicate, SeekPath};
use crate::binder::has_sort_key;
use crate::source::{HeapTable, place_type};
use crate::wrap::external;

/// Pages from which on more than one worker reads a seek's ranges.
const SPREAD_PAGES: f64 = 64.0;
/// Pieces of the ranges for each worker: they are not all as long as each other.
const PIECES_OF_WORKER: usize = 4;

/// Reads ranges of an index of a table.
pub struct SeekExec {
    table: Arc<HeapTable>,
    path: Arc<SeekPath>,
    direction: Direction,
    projection: Vec<usize>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    /// What each output partition reads, one after the other.
    parts: Arc<[Vec<Share>]>,
    /// What conditions say of the table's columns.
    predicates: Arc<[ColumnPredicate]>,
    /// How many rows of each output partition are wanted.
    limit: Option<usize>,
    profile: OnceLock<Arc<OperatorProfile>>,
}

/// Some of the ranges of a path, in one of its trees.
#[derive(Clone, Debug)]
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
    /// The columns `projection` of the rows that `path` leads to.
    pub(crate) fn new(
        table: Arc<HeapTable>,
        path: Arc<SeekPath>,
        projection: Vec<usize>,
        schema: SchemaRef,
    ) -> SeekExec {
        SeekExec::in_direction(table, path, Direction::Forward, projection, schema)
    }

    /// The same, in the order of the key or against it.
    pub(crate) fn in_direction(
        table: Arc<HeapTable>,
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

    /// The same ranges shared out among `count` output partitions, in no order.
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
        SeekExec::of_parts(made, Vec::new(), parts, self.predicates)
    }

    /// The same for `count` workers, in no order: wide ranges are divided between leaves, so that each worker has some of them.
    /// `None` where there is too little to read for more than one.
    ///
    /// # Errors
    /// A page of the index is damaged or cannot be read.
    pub(crate) fn spread(&self, count: usize) -> Result<Option<SeekExec>, SqlError> {
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
        Ok(Some(seek.knowing(Arc::clone(&self.predicates)).in_parts(count)))
    }

    /// The same, with what conditions say of the table's columns.
    #[must_use]
    pub(crate) fn knowing(self, predicates: Arc<[ColumnPredicate]>) -> SeekExec {
        SeekExec { predicates, ..self }
    }

    /// The same, of which so many rows of each output partition are wanted.
    #[must_use]
    pub(crate) fn with_fetch(self, limit: Option<usize>) -> SeekExec {
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
        SeekExec { table, path, direction, projection, schema, properties, parts, predicates, limit: None, profile }
    }

    /// The table.
    pub(crate) fn table(&self) -> &Arc<HeapTable> {
        &self.table
    }

    /// What is read of the index.
    pub(crate) fn path(&self) -> &Arc<SeekPath> {
        &self.path
    }

    /// The columns read, as places in the table.
    pub(crate) fn projection(&self) -> &[usize] {
        &self.projection
    }

    /// What conditions say of the table's columns.
    pub(crate) fn predicates(&self) -> &Arc<[ColumnPredicate]> {
        &self.predicates
    }

    /// Which way the index is read.
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Counts that the statement uses the index, and the table's own where rows are followed there.
    fn note_uses(&self, run: &StatementRun) {
        let table = self.table.table();
        let used = if self.path.is_whole() { IndexUse::Scan } else { IndexUse::Seek };
        run.note_use(&table.indexes[self.path.index], used);
        if !self.path.covers {
            run.note_use(table.base_index(), IndexUse::Lookup);
        }
    }

    /// SQL Server's name of the operator.
    fn operator(&self) -> &'static str {
        let is_clustered = self.table.table().indexes[self.path.index].kind == IndexKind::Clustered;
        match (is_clustered, self.path.is_whole()) {
            (true, false) => "Clustered Index Seek",
            (true, true) => "Clustered Index Scan",
            (false, false) => "Index Seek",
            (false, true) => "Index Scan",
        }
    }
}

/// What a seek is made of.
type Made = (Arc<HeapTable>, Arc<SeekPath>, Direction, Vec<usize>, SchemaRef);

/// The order of the rows of one tree, as far as columns are compared by their values and are among those read.
fn order_of(
    table: &HeapTable,
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
    fn name(&self) -> &'static str {
        "SeekExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    without_inputs!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(SeekExec {
            table: Arc::clone(&self.table),
            path: Arc::clone(&self.path),
            direction: self.direction,
            projection: self.projection.clone(),
            schema: Arc::clone(&self.schema),
            properties: Arc::clone(&self.properties),
            parts: Arc::clone(&self.parts),
            predicates: Arc::clone(&self.predicates),
            limit: self.limit,
            profile: OnceLock::new(),
        }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let run = Arc::clone(self.table.run());
        if partition == 0 {
            self.note_uses(&run);
        }
        let counts = run.io_counts(&self.table.table().name);
        let profile = self.profile.get_or_init(|| {
            let name = self.table.table().name.clone();
            let profile = Arc::new(OperatorProfile::new(self.operator(), name, self.parts.len()));
            run.add_profile(&profile);
            profile
        });
        let rows = RowBuilder::new(self, &run, Arc::clone(&counts)).map_err(external)?;
        Ok(Box::pin(SeekStream {
            table: Arc::clone(&self.table),
            schema: Arc::clone(&self.schema),
            path: Arc::clone(&self.path),
            direction: self.direction,
            counts,
            shares: self.parts[partition].iter().cloned().collect(),
            seek: None,
            rows,
            profile: Arc::clone(profile),
            partition,
            produced: 0,
            left: self.limit.unwrap_or(usize::MAX),
            rows_max: context.session_config().batch_size(),
        }))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let rows = self.path.rows.ceil();
        let parts = if args.partition().is_some() { self.parts.len() } else { 1 };
        // The estimate is of rows, a number of them at most.
        let rows = rows as usize / parts;
        let mut statistics = Statistics::new_unknown(&self.schema);
        statistics.num_rows = Precision::Inexact(rows);
        statistics.total_byte_size = Precision::Inexact(rows.saturating_mul(self.table.row_width(&self.projection)));
        Ok(Arc::new(statistics))
    }
}

/// Where the rows of a table lie, in a batch.
enum PlaceBuilder {
    Numbers(Vec<i128>),
    Keys(KeyPlaces),
}

/// The rows of a batch that is being made.
struct RowBuilder {
    run: Arc<StatementRun>,
    counts: Arc<IoCounts>,
    reads_uncommitted: bool,
    path: Arc<SeekPath>,
    /// The table's heaps or trees, where rows are followed to them.
    base: Vec<RowStore>,
    /// A vector for each column, and which column of the table it is.
    columns: Vec<(usize, ColumnVector)>,
    /// Where in a batch the rows' places stand, and they.
    places: Option<(usize, PlaceBuilder)>,
    rows: usize,
    slots: Vec<usize>,
    key: Vec<u8>,
    place_type: SqlType,
}

impl RowBuilder {
    fn new(exec: &SeekExec, run: &Arc<StatementRun>, counts: Arc<IoCounts>) -> Result<RowBuilder, SqlError> {
        let table = exec.table.table();
        let path = Arc::clone(&exec.path);
        let is_clustered = table.indexes[path.index].kind == IndexKind::Clustered;
        let base = if path.covers && !is_clustered { Vec::new() } else { exec.table.stores()? };
        let stored = exec.projection.iter().filter(|&&column| column < table.columns.len());
        let vector = |&column: &usize| {
            let at = if path.covers { path.leaf_column(column).unwrap_or(column) } else { column };
            (column, column_vector(at, table.columns[column].sql_type))
        };
        let places = exec.projection.iter().position(|&column| column >= table.columns.len()).map(|at| {
            let builder = match table.is_clustered() {
                true => PlaceBuilder::Keys(KeyPlaces::new(0)),
                false => PlaceBuilder::Numbers(Vec::new()),
            };
            (at, builder)
        });
        Ok(RowBuilder {
            run: Arc::clone(run),
            counts,
            reads_uncommitted: exec.table.scan_settings().reads_uncommitted,
            columns: stored.map(vector).collect(),
            base,
            path,
            places,
            rows: 0,
            slots: Vec::new(),
            key: Vec::new(),
            place_type: place_type(table),
        })
    }

    /// Adds the rows of the leaf that a seek shows, up to `most`.
    fn take_leaf(&mut self, partition: usize, seek: &TreeSeek, most: usize) -> Result<(), AccessError> {
        let leaf = seek.leaf();
        let damaged = |damage| damaged(seek.tree().hobt(), leaf.id, damage);
        self.slots.clear();
        let mut slots = std::mem::take(&mut self.slots);
        leaf.append_live(&mut slots).map_err(damaged)?;
        let done = match self.path.covers {
            true => self.take_slots(partition, seek, &slots[..slots.len().min(most)]),
            // A row that is followed to the table may not be seen there.
            false => {
                let end = self.rows.saturating_add(most);
                slots
                    .iter()
                    .try_for_each(|&slot| if self.rows < end { self.follow(partition, seek, slot) } else { Ok(()) })
            }
        };
        self.slots = slots;
        done
    }

    fn take_slots(&mut self, partition: usize, seek: &TreeSeek, slots: &[usize]) -> Result<(), AccessError> {
        let leaf = seek.leaf();
        let values = seek.large_values();
        for (_, column) in &mut self.columns {
            column.append_slots(leaf.id, &leaf.page, slots, &values)?;
        }
        if let Some((_, PlaceBuilder::Keys(keys))) = &mut self.places {
            keys.append_slots(partition, seek.tree(), leaf.id, &leaf.page, slots)?;
        }
        self.rows += slots.len();
        Ok(())
    }

    /// Adds the row of the table that an entry refers to, if the statement sees it.
    fn follow(&mut self, partition: usize, seek: &TreeSeek, slot: usize) -> Result<(), AccessError> {
        let leaf = seek.leaf();
        let index = seek.tree().hobt();
        let value = |column: usize| leaf.page.value(column, slot).map_err(|damage| damaged(index, leaf.id, damage));
        let broken = |rule| damaged(index, leaf.id, PageDamage::Structure { rule });
        let partition = match self.path.leaf.base_partition {
            Some(column) => {
                let number = value(column)?.and_then(|bytes| bytes.try_into().ok()).map(i32::from_le_bytes);
                number
                    .and_then(|number| usize::try_from(number).ok())
                    .ok_or_else(|| broken("the partition of a row"))?
            }
            None if self.base.len() == 1 => 0,
            None => partition,
        };
        let store = self.base.get(partition).cloned().ok_or_else(|| broken("the partition of a row"))?;
        match &store {
            RowStore::Heap(heap) => {
                let bytes = value(self.path.leaf.reference[0])?.and_then(|bytes| bytes.try_into().ok());
                let id = bytes.map(i64::from_le_bytes).ok_or_else(|| broken("the reference of a row"))?;
                self.follow_to_heap(partition, heap, id)
            }
            RowStore::Tree(tree) => {
                let mut values = Vec::with_capacity(self.path.leaf.reference.len());
                for &column in &self.path.leaf.reference {
                    values.push(value(column)?);
                }
                let mut key = std::mem::take(&mut self.key);
                key.clear();
                let encoded = tree.key().encode_prefix(&values, &mut key);
                let done = match encoded {
                    Ok(()) => self.follow_to_tree(partition, tree, &key),
                    Err(_) => Err(broken("the reference of a row")),
                };
                self.key = key;
                done
            }
        }
    }

    fn follow_to_heap(&mut self, partition: usize, heap: &Arc<Hobt>, id: i64) -> Result<(), AccessError> {
        let partition = u32::try_from(partition).expect("at most 15,000 partitions");
        let place = RowPlace::of_row_id(partition, id);
        let RowPlace { page, slot, .. } = place;
        let run = Arc::clone(&self.run);
        let counts = Arc::clone(&self.counts);
        let reading = (&*run.context, self.reads_uncommitted);
        let values = BaseValues { hobt: heap, run: &run, counts: &counts };
        let shown = heap.row_visible((page, slot), reading, &counts, |id, page, slot| {
            self.take_row(id, page, usize::from(slot.0), &values)
        })?;
        let Some(taken) = shown else { return Ok(()) };
        taken?;
        if let Some((_, PlaceBuilder::Numbers(numbers))) = &mut self.places {
            numbers.push(place.number());
        }
        Ok(())
    }

    fn follow_to_tree(&mut self, partition: usize, tree: &Arc<BTree>, key: &[u8]) -> Result<(), AccessError> {
        let run = Arc::clone(&self.run);
        let counts = Arc::clone(&self.counts);
        let reading = (&*run.context, self.reads_uncommitted);
        let values = BaseValues { hobt: tree.hobt(), run: &run, counts: &counts };
        let shown = tree.find_visible(key, reading, &counts, |id, page, slot| {
            let slot = usize::from(slot.0);
            self.take_row(id, page, slot, &values)?;
            match &mut self.places {
                Some((_, PlaceBuilder::Keys(keys))) => keys.append_slots(partition, tree, id, page, &[slot]),
                _ => Ok(()),
            }
        })?;
        shown.unwrap_or(Ok(()))
    }

    fn take_row(
        &mut self,
        id: PageId,
        page: &RowPage<'_>,
        slot: usize,
        values: &dyn LargeValues,
    ) -> Result<(), AccessError> {
        for (_, column) in &mut self.columns {
            column.append_slots(id, page, &[slot], values)?;
        }
        self.rows += 1;
        Ok(())
    }

    fn take_batch(&mut self, table: &HeapTable, schema: &SchemaRef) -> Result<RecordBatch> {
        let next = self.columns.iter().map(|(column, vector)| (*column, vector.next())).collect();
        let columns = std::mem::replace(&mut self.columns, next);
        let rows = std::mem::take(&mut self.rows);
        let arrays: Result<Vec<ArrayRef>, SqlError> = columns
            .into_iter()
            .map(|(column, vector)| array_of(&table.table().columns[column].sql_type, vector))
            .collect();
        let mut arrays = arrays.map_err(external)?;
        if let Some((at, places)) = &mut self.places {
            let array: ArrayRef = match places {
                PlaceBuilder::Numbers(numbers) => {
                    let numbers = Decimal128Array::new(std::mem::take(numbers).into(), None);
                    Arc::new(numbers.with_precision_and_scale(self.place_type.precision(), 0)?)
                }
                PlaceBuilder::Keys(keys) => {
                    let next = keys.next();
                    array_of(&self.place_type, std::mem::replace(keys, next).into_vector()).map_err(external)?
                }
            };
            arrays.insert(*at, array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
    }
}

/// The way to values of a table's rows that are on pages of their own.
struct BaseValues<'a> {
    hobt: &'a Arc<Hobt>,
    run: &'a StatementRun,
    counts: &'a IoCounts,
}

impl LargeValues for BaseValues<'_> {
    fn fetch(&self, pointer: &ValuePointer) -> Result<Vec<u8>, AccessError> {
        let reader = ValueReader { context: &self.run.context, counts: self.counts };
        self.hobt.large_value(pointer, Some(reader))
    }

    fn damaged(&self, page: PageId, damage: PageDamage) -> AccessError {
        damaged(self.hobt, page, damage)
    }
}

pub(super) fn damaged(hobt: &Hobt, page: PageId, damage: PageDamage) -> AccessError {
    let file = hobt.storage().file(page.file).map_or_else(|_| String::new(), |file| file.name().to_owned());
    AccessError::Damaged { file, page, damage }
}

struct SeekStream {
    table: Arc<HeapTable>,
    schema: SchemaRef,
    path: Arc<SeekPath>,
    direction: Direction,
    counts: Arc<IoCounts>,
    /// What is still to be read.
    shares: VecDeque<Share>,
    /// The seek under way and its tree's partition.
    seek: Option<(usize, TreeSeek)>,
    rows: RowBuilder,
    profile: Arc<OperatorProfile>,
    partition: usize,
    produced: u64,
    /// How many rows are still wanted.
    left: usize,
    rows_max: usize,
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
}

impl Stream for SeekStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while this.left > 0 && (this.seek.is_some() || this.begin()) {
            let Some((partition, seek)) = &mut this.seek else { break };
            let step = seek.advance().and_then(|is_there| {
                if is_there {
                    this.rows.take_leaf(*partition, seek, this.left - this.rows.rows)?;
                }
                Ok(is_there)
            });
            match step {
                Ok(true) if this.rows.rows < (this.rows_max / 2).min(this.left) => {}
                Ok(true) => break,
                Ok(false) => this.seek = None,
                Err(error) => {
                    (this.seek, this.shares) = (None, VecDeque::new());
                    return Poll::Ready(Some(Err(external(this.table.sql_error(error)))));
                }
            }
        }
        if this.rows.rows == 0 {
            return Poll::Ready(None);
        }
        this.produced += this.rows.rows as u64;
        this.left = this.left.saturating_sub(this.rows.rows);
        this.profile.set(this.partition, this.produced, 1);
        Poll::Ready(Some(this.rows.take_batch(&this.table, &this.schema)))
    }
}

impl RecordBatchStream for SeekStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
