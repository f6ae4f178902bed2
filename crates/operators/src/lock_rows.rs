//! Reads under row locks: each row of the input is locked, and read again if another transaction has changed it.
//!
//! ```text
//!   LockRowsExec   the conditions; lock; changed since the snapshot? its current values, and the conditions again
//!       ScanExec   rows of a snapshot, with their positions
//! ```
//!
//! The scan below is as parallel as any, and never waits for locks. One worker of the statement's own takes the locks,
//! and only this worker blocks. A lock that need not be kept (`READ COMMITTED`) is released after its row. A row
//! without recent changes is not locked at all, since the lock would be granted. A row that does not fulfil the
//! conditions but is being changed is waited for, since it may come to fulfil them. So is a row that is being inserted
//! into the path. With `READPAST` a locked row is left out. `SERIALIZABLE` locks the ranges first
//! (`RowLocker::lock_ranges`): from then on no other transaction inserts there. The snapshot below may be older than
//! that; its rows are checked as under any other level.
//!
//! A statement that wants the first rows in the order of an index gets the rows below in that order (`ordered_scan`).
//! Then only as many rows are locked as are wanted, and those that have been changed or inserted since. The sort above
//! stays, because these come after the others.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{
    Array, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions, make_comparator,
};
use arrow::compute::{SortOptions, concat_batches, filter_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties, RecordBatchStream,
    SendableRecordBatchStream,
};
use futures::{Stream, StreamExt};
use hobt_base::Stamp;
use hobt_engine::RowAt;
use hobt_functions::value_to_array;
use hobt_instruments::planted::{self, Bug};
use hobt_types::Value;

use super::inputs::with_inputs;
use super::places::{Places, place_array};
use super::row_locker::{Locked, RowLocker, Unlocked};
use hobt_table::{AccessPath, RowReading, StatementRun, TableRead};
use hobt_udf::external;

/// Locks the rows of its input, whose last column is the rows' positions.
#[derive(Debug)]
pub struct LockRowsExec {
    input: Arc<dyn ExecutionPlan>,
    table: Arc<TableRead>,
    run: Arc<StatementRun>,
    reading: RowReading,
    path: AccessPath,
    /// The columns of the input, as positions in the table.
    columns: Vec<usize>,
    /// The columns of the input that are passed on, in order. The others are for the conditions, and the row's
    /// position.
    output: Vec<usize>,
    conditions: Option<Arc<dyn PhysicalExpr>>,
    is_of_key: bool,
    limit: Option<usize>,
    order: Option<RowOrder>,
    properties: Arc<PlanProperties>,
}

/// The order in which rows are locked: by these columns of the input, as far as they compare by their values.
type RowOrder = Arc<[(usize, SortOptions)]>;

/// The settings of a [`LockRowsExec`] beside its input.
#[derive(Debug)]
pub struct LockRowsSettings {
    /// How rows are locked.
    pub reading: RowReading,
    /// How the input reaches its rows.
    pub path: AccessPath,
    /// The columns of the input, as positions in the table.
    pub columns: Vec<usize>,
    /// The columns of the input that are passed on, in order.
    pub output: Vec<usize>,
    /// The conditions for a row whose values were read again, over the input's columns.
    pub conditions: Option<Arc<dyn PhysicalExpr>>,
    /// Whether the conditions use only the key of a clustered index.
    pub is_of_key: bool,
    /// How many rows are wanted.
    pub limit: Option<usize>,
    /// The order of the input, if only the first rows in this order are wanted. Rows that have been changed or inserted
    /// since are then output as well.
    pub order: Option<RowOrder>,
    /// The columns that are passed on.
    pub schema: SchemaRef,
}

impl LockRowsExec {
    /// Locks the rows of `input`, which reads `table`.
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        table: Arc<TableRead>,
        run: Arc<StatementRun>,
        settings: LockRowsSettings,
    ) -> LockRowsExec {
        let LockRowsSettings { reading, path, columns, output, conditions, is_of_key, limit, order, schema } = settings;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties);
        LockRowsExec {
            input,
            table,
            run,
            reading,
            path,
            columns,
            output,
            conditions,
            is_of_key,
            limit,
            order,
            properties,
        }
    }

    /// Replaces the input by one that reads by another path in `order`, for the first `limit` rows in it.
    pub fn first_of(
        &self,
        input: Arc<dyn ExecutionPlan>,
        path: AccessPath,
        order: RowOrder,
        limit: usize,
    ) -> Arc<dyn ExecutionPlan> {
        let settings = LockRowsSettings { path, order: Some(order), limit: Some(limit), ..self.settings() };
        Arc::new(LockRowsExec::new(input, Arc::clone(&self.table), Arc::clone(&self.run), settings))
    }

    /// Whether it locks ranges before it reads.
    pub fn locks_ranges(&self) -> bool {
        self.reading.range.is_some()
    }

    /// Replaces the path by which rows are read.
    pub(crate) fn along(&self, path: AccessPath) -> Arc<dyn ExecutionPlan> {
        let settings = LockRowsSettings { path, ..self.settings() };
        let (input, table, run) = (Arc::clone(&self.input), Arc::clone(&self.table), Arc::clone(&self.run));
        Arc::new(LockRowsExec::new(input, table, run, settings))
    }

    /// The conditions on the rows that it passes on, over its input's columns.
    pub fn conditions(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        self.conditions.as_ref()
    }

    /// Whether it outputs a limited number of rows, however many fulfil the conditions.
    pub fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// The columns of the input that are passed on, in order.
    pub fn output(&self) -> &[usize] {
        &self.output
    }

    fn settings(&self) -> LockRowsSettings {
        LockRowsSettings {
            reading: self.reading,
            path: self.path.clone(),
            columns: self.columns.clone(),
            output: self.output.clone(),
            conditions: self.conditions.clone(),
            is_of_key: self.is_of_key,
            limit: self.limit,
            order: self.order.clone(),
            schema: self.schema(),
        }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> LockRowsExec {
        LockRowsExec::new(input, Arc::clone(&self.table), Arc::clone(&self.run), self.settings())
    }
}

impl DisplayAs for LockRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockRows: {}, mode={}", self.table.table().name, self.reading.mode)
    }
}

impl ExecutionPlan for LockRowsExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    with_inputs!(input);

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.conditions.iter().try_fold(TreeNodeRecursion::Continue, |_, conditions| visit(conditions))
    }

    /// One worker takes the locks, so it gets all partitions of the input.
    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = RowLocker::new(&self.table, &self.run, self.reading, &self.path).map_err(external)?;
        Ok(Box::pin(LockRowsStream {
            input: Some(self.input.execute(0, context)?),
            input_schema: self.input.schema(),
            has_begun: false,
            rows,
            is_of_key: self.is_of_key,
            columns: self.columns.clone(),
            output: self.output.clone(),
            conditions: self.conditions.clone(),
            left: self.limit.unwrap_or(usize::MAX),
            order: self.order.clone(),
            last: None,
            found_gone: HashSet::new(),
            schema: self.schema(),
        }))
    }
}

/// How often the rows that have come are looked for again only because some were gone at the first look. Where rows
/// come and go all the time, there are always such rows, and a reader has to end.
const UNNOTICED_MOVES: usize = 16;

/// Whether all rows that have come were met.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Came {
    All,
    /// One was gone at the first look. It may have moved elsewhere after its position was collected.
    Unnoticed,
    /// One went, or came back elsewhere, while it was waited for. It must be looked for again.
    LostOne,
}

struct LockRowsStream {
    /// `None` after its end.
    input: Option<SendableRecordBatchStream>,
    input_schema: SchemaRef,
    /// Whether the ranges are locked.
    has_begun: bool,
    rows: RowLocker,
    /// Whether the conditions use only the key: no change makes a row fulfil them.
    is_of_key: bool,
    columns: Vec<usize>,
    output: Vec<usize>,
    conditions: Option<Arc<dyn PhysicalExpr>>,
    /// How many rows are still wanted; with an order, how many unchanged ones.
    left: usize,
    order: Option<RowOrder>,
    /// The last row that is wanted in the order, once it is known.
    last: Option<RecordBatch>,
    /// Positions of rows that came and were gone at the first look, and who had removed them.
    found_gone: HashSet<(RowAt, Stamp)>,
    schema: SchemaRef,
}

impl LockRowsStream {
    /// The rows of a batch that are output, now locked. Changed rows come after the others.
    fn locked(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let place = batch.num_columns() - 1;
        let alone = batch.project(&[place])?;
        let places = Places::of(&alone).map_err(external)?;
        let fulfils = match &self.conditions {
            Some(conditions) => Some(conditions.evaluate(batch)?.into_array(batch.num_rows())?),
            None => None,
        };
        let fulfils = fulfils.as_ref().map(|fulfils| fulfils.as_boolean());
        let mut kept = BooleanBufferBuilder::new(batch.num_rows());
        let mut changed = Vec::new();
        for row in 0..batch.num_rows() {
            let mut is_kept = false;
            if self.left > 0 {
                let at = places.row(row).map_err(external)?;
                let was_wanted = fulfils.is_none_or(|fulfils| fulfils.is_valid(row) && fulfils.value(row));
                if was_wanted || (!self.is_of_key && self.rows.may_come_to_be_wanted(&at).map_err(external)?) {
                    let mut taken = Vec::new();
                    let mut is_shown = false;
                    match self.rows.row(at, &mut taken).map_err(external)? {
                        Locked::AsSeen => {
                            (is_kept, is_shown) = (was_wanted, was_wanted);
                            if self.order.is_some() && is_kept {
                                self.left -= 1;
                                self.last = (self.left == 0).then(|| batch.slice(row, 1));
                            }
                        }
                        Locked::LeftOut | Locked::Gone { .. } => {}
                        Locked::Changed(values, at) => {
                            let again = self.row_again(&values, &at)?;
                            is_shown = again.num_rows() > 0;
                            changed.extend(is_shown.then_some(again));
                        }
                    }
                    self.rows.done(is_shown, &taken);
                    self.count(is_shown);
                }
            }
            kept.append(is_kept);
        }
        let kept = filter_record_batch(batch, &BooleanArray::new(kept.finish(), None))?;
        match changed.is_empty() {
            true => self.passed_on(&kept),
            false => self.passed_on(&concat_batches(&batch.schema(), std::iter::once(&kept).chain(&changed))?),
        }
    }

    /// The rows that were inserted since the snapshot, or are being inserted, if they fulfil the conditions once they
    /// are locked. Called last, because a row that has moved away from its position since is found here.
    fn come_since(&mut self) -> Result<RecordBatch> {
        let mut shown = Vec::new();
        let mut unnoticed_left = UNNOTICED_MOVES;
        while self.rows.goes_on().map_err(external)? {
            match self.look_who_came(&mut shown)? {
                Came::All => break,
                Came::Unnoticed if unnoticed_left == 0 => break,
                Came::Unnoticed => unnoticed_left -= 1,
                Came::LostOne => {}
            }
        }
        self.passed_on(&concat_batches(&self.input_schema, &shown)?)
    }

    /// Adds the rows that have been inserted by now.
    fn look_who_came(&mut self, shown: &mut Vec<RecordBatch>) -> Result<Came> {
        let mut came = Came::All;
        let leads_elsewhere = if self.rows.leads_by_unique_key() { Came::LostOne } else { Came::All };
        for at in self.rows.inserted_since().map_err(external)? {
            if self.left == 0 && self.order.is_none() {
                return Ok(Came::All);
            }
            if self.rows.has_met(&at) {
                continue;
            }
            let seen = self.rows.unlocked(&at).map_err(external)?;
            if let Unlocked::Row(values) = &seen
                && self.is_unwanted(values, &at)?
            {
                continue;
            }
            let mut taken = Vec::new();
            let mut is_shown = false;
            let found = match self.rows.row(at.clone(), &mut taken).map_err(external)? {
                Locked::Changed(values, at) => {
                    let row = self.row_again(&values, &at)?;
                    is_shown = row.num_rows() > 0;
                    shown.extend(is_shown.then_some(row));
                    // The key that led to the row may lead to another row by now.
                    if is_shown { Came::All } else { leads_elsewhere }
                }
                Locked::Gone { waited } if waited || !matches!(seen, Unlocked::Gone) => Came::LostOne,
                Locked::Gone { .. } => {
                    let remover = self.rows.changed_by(&at).map_err(external)?.unwrap_or_default();
                    if self.found_gone.insert((at, remover)) { Came::Unnoticed } else { Came::All }
                }
                // Its insert was rolled back: a unique key leads to an earlier row again.
                Locked::AsSeen if !planted::has(Bug::RowNotLookedAtAgain) => leads_elsewhere,
                Locked::AsSeen | Locked::LeftOut => Came::All,
            };
            came = came.max(found);
            self.rows.done(is_shown, &taken);
            self.count(is_shown);
        }
        Ok(came)
    }

    /// Whether a row need not be locked: it comes after the last row that is wanted in the order, or the conditions use
    /// only its key and do not hold.
    fn is_unwanted(&self, values: &[Value], at: &RowAt) -> Result<bool> {
        Ok(self.is_behind_last(values, at)? || (self.is_of_key && self.row_again(values, at)?.num_rows() == 0))
    }

    /// Counts an output row, if there is no order.
    fn count(&mut self, is_shown: bool) {
        if self.order.is_none() {
            self.left -= usize::from(is_shown);
        }
    }

    /// Whether a row of these values comes after the last row that is wanted in the order.
    fn is_behind_last(&self, values: &[Value], at: &RowAt) -> Result<bool> {
        let (Some(order), Some(last)) = (&self.order, &self.last) else { return Ok(false) };
        let row = self.row_of(values, at)?;
        for (column, options) in order.iter() {
            let compared = make_comparator(row.column(*column), last.column(*column), *options)?(0, 0);
            if compared != Ordering::Equal {
                return Ok(compared == Ordering::Greater);
            }
        }
        Ok(false)
    }

    /// The output columns of rows.
    fn passed_on(&self, all: &RecordBatch) -> Result<RecordBatch> {
        let arrays = self.output.iter().map(|column| Arc::clone(all.column(*column))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(all.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }

    /// A row of these values in the columns of the input.
    fn row_of(&self, values: &[Value], at: &RowAt) -> Result<RecordBatch> {
        let definitions = &self.rows.table().columns;
        let mut arrays = Vec::with_capacity(self.input_schema.fields().len());
        for column in &self.columns {
            arrays.push(value_to_array(&values[*column], definitions[*column].sql_type).map_err(external)?);
        }
        arrays.push(place_array(self.rows.table(), at)?);
        Ok(RecordBatch::try_new(Arc::clone(&self.input_schema), arrays)?)
    }

    /// Like [`LockRowsStream::row_of`], but empty if the row does not fulfil the conditions.
    fn row_again(&self, values: &[Value], at: &RowAt) -> Result<RecordBatch> {
        let batch = self.row_of(values, at)?;
        let Some(conditions) = &self.conditions else { return Ok(batch) };
        let holds = conditions.evaluate(&batch)?.into_array(1)?;
        let holds = holds.as_boolean();
        let holds = holds.is_valid(0) && holds.value(0);
        Ok(if holds { batch } else { batch.slice(0, 0) })
    }
}

impl Stream for LockRowsStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if !std::mem::replace(&mut this.has_begun, true)
            && let Err(error) = this.rows.lock_ranges()
        {
            this.input = None;
            return Poll::Ready(Some(Err(external(error))));
        }
        loop {
            let has_enough = this.left == 0;
            if has_enough && this.order.is_none() {
                return Poll::Ready(None);
            }
            let Some(input) = &mut this.input else { return Poll::Ready(None) };
            let next = if has_enough { None } else { ready!(input.poll_next_unpin(task)) };
            let rows = match next {
                Some(batch) => batch.and_then(|batch| this.locked(&batch)),
                None => {
                    this.input = None;
                    this.come_since()
                }
            };
            if rows.as_ref().map_or(true, |rows| rows.num_rows() > 0) {
                return Poll::Ready(Some(rows));
            }
        }
    }
}

impl RecordBatchStream for LockRowsStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
