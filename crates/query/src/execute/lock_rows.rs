//! Reading under locks of rows: each row that its input brings is locked, and read again if somebody has changed it.
//!
//! ```text
//!   LockRowsExec   the conditions; lock; was it changed since the snapshot? its values as they stand, and the conditions again
//!       ScanExec   rows of a snapshot, with their places
//! ```
//!
//! The scan below is as parallel as any, and waits for nobody. One worker of the statement's own locks: it alone blocks. What
//! is not kept (`READ COMMITTED`) is let go of behind the row, and a row that nobody has changed of late is not locked at all:
//! the lock would be granted. One that does not fulfil the conditions, but is being changed, is waited for, since it may come to. With
//! `READPAST` a row that is locked is left out.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Decimal128Array, RecordBatch};
use arrow::array::{BooleanBufferBuilder, RecordBatchOptions};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties, RecordBatchStream,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::{Stream, StreamExt};
use hobt_access::RowStore;
use hobt_base::SqlError;
use hobt_engine::{RowAt, current_row};
use hobt_functions::value_to_array;
use hobt_txn::locks::{LockMode, LockResource};
use hobt_txn::{RowLocks, Snapshot};
use hobt_types::Value;

use super::places::Places;
use super::row_lock::{lock_error, snapshot_conflict};
use super::statement::StatementRun;
use crate::source::{HeapTable, RowReading, place_type};
use crate::wrap::external;

/// Locks the rows of its input, whose last column says where they lie.
#[derive(Debug)]
pub struct LockRowsExec {
    input: Arc<dyn ExecutionPlan>,
    table: Arc<HeapTable>,
    run: Arc<StatementRun>,
    reading: RowReading,
    /// The columns of the input, as places in the table.
    columns: Vec<usize>,
    /// Which columns of the input are passed on, in order; the others are there for the conditions, and for the place.
    output: Vec<usize>,
    conditions: Option<Arc<dyn PhysicalExpr>>,
    is_of_key: bool,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
}

/// What is to be known of a [`LockRowsExec`] beside its input.
#[derive(Debug)]
pub(crate) struct LockRowsSettings {
    pub(crate) reading: RowReading,
    /// The columns of the input, as places in the table.
    pub(crate) columns: Vec<usize>,
    /// Which columns of the input are passed on, in order.
    pub(crate) output: Vec<usize>,
    /// What a row has to fulfil whose values were read again, over the input's columns.
    pub(crate) conditions: Option<Arc<dyn PhysicalExpr>>,
    /// Whether the conditions are about the key of a clustered index alone.
    pub(crate) is_of_key: bool,
    /// How many rows are wanted.
    pub(crate) limit: Option<usize>,
    /// The columns that are passed on.
    pub(crate) schema: SchemaRef,
}

impl LockRowsExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        table: Arc<HeapTable>,
        run: Arc<StatementRun>,
        settings: LockRowsSettings,
    ) -> LockRowsExec {
        let LockRowsSettings { reading, columns, output, conditions, is_of_key, limit, schema } = settings;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties);
        LockRowsExec { input, table, run, reading, columns, output, conditions, is_of_key, limit, properties }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let settings = LockRowsSettings {
            reading: self.reading,
            columns: self.columns.clone(),
            output: self.output.clone(),
            conditions: self.conditions.clone(),
            is_of_key: self.is_of_key,
            limit: self.limit,
            schema: self.schema(),
        };
        Arc::new(LockRowsExec::new(input, Arc::clone(&self.table), Arc::clone(&self.run), settings))
    }
}

impl DisplayAs for LockRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockRows: {}, mode={}", self.table.table().name, self.reading.mode)
    }
}

impl ExecutionPlan for LockRowsExec {
    fn name(&self) -> &'static str {
        "LockRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.conditions.iter().try_fold(TreeNodeRecursion::Continue, |_, conditions| visit(conditions))
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(self.over(input))
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(self.over(input))
    }

    /// All partitions of the input come to the one worker that locks.
    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let stores = self.table.stores().map_err(external)?;
        let hobt = stores[0].hobt();
        let locks = self.run.context.row_locks(hobt.storage().database_tag(), hobt.id());
        // Of the same moment as the scan's, or older: then a row is looked at once more for nothing.
        let view = self.run.context.view();
        Ok(Box::pin(LockRowsStream {
            input: self.input.execute(0, context)?,
            rows: RowLocker {
                table: Arc::clone(&self.table),
                run: Arc::clone(&self.run),
                reading: self.reading,
                is_of_key: self.is_of_key,
                stores,
                locks,
                view,
            },
            columns: self.columns.clone(),
            output: self.output.clone(),
            conditions: self.conditions.clone(),
            left: self.limit.unwrap_or(usize::MAX),
            schema: self.schema(),
        }))
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Some(input) = inputs.first() {
            statistics.num_rows = input.num_rows.to_inexact();
            statistics.total_byte_size = input.total_byte_size.to_inexact();
        }
        Ok(Arc::new(statistics))
    }
}

/// What locks a table's rows, and reads them again.
struct RowLocker {
    table: Arc<HeapTable>,
    run: Arc<StatementRun>,
    reading: RowReading,
    /// Whether the conditions are about the key alone: who changes a row does not make it fulfil them.
    is_of_key: bool,
    stores: Vec<RowStore>,
    /// `None` where the table is locked as a whole.
    locks: Option<Arc<RowLocks>>,
    view: Option<Arc<Snapshot>>,
}

/// What becomes of a row.
enum Locked {
    /// It is as it was seen.
    AsSeen,
    /// It is somebody else's, or gone.
    LeftOut,
    /// It has these values now, and lies there.
    Changed(Vec<Value>, RowAt),
}

impl RowLocker {
    fn is_changed(&self, at: &RowAt) -> bool {
        let Some(view) = &self.view else { return false };
        let hobt = self.stores[at.partition()].hobt();
        let versions = hobt.storage().versions();
        match at {
            RowAt::Heap { page, slot, .. } => versions.is_changed(*page, *slot, view),
            RowAt::Tree { key, .. } => versions.is_key_changed(hobt.id(), key, view),
        }
    }

    /// Whether a row that does not fulfil the conditions as it was seen is to be looked at: somebody is changing it.
    fn may_come_to_be_wanted(&self, at: &RowAt) -> bool {
        !self.is_of_key && !self.reading.skips_locked && !self.reading.is_of_snapshot && self.is_changed(at)
    }

    /// Where a row went that has left its place.
    fn moved_to(&self, at: &RowAt) -> Option<RowAt> {
        let RowAt::Heap { partition, page, slot } = at else { return None };
        let versions = self.stores[*partition].hobt().storage().versions();
        let (page, slot) = versions.moved_to(*page, *slot, self.view.as_ref()?)?;
        Some(RowAt::Heap { partition: *partition, page, slot })
    }

    /// Locks a row, waiting for those in the way; `false` if it is to be left out.
    fn lock(&self, at: &RowAt, taken: &mut Vec<LockResource>) -> std::result::Result<bool, SqlError> {
        let Some(locks) = &self.locks else { return Ok(true) };
        let hobt = self.stores[at.partition()].hobt().id();
        if self.reading.skips_locked {
            return Ok(locks.try_lock(hobt, at.id(), self.reading.mode, taken));
        }
        let locked = locks.lock(hobt, at.id(), self.reading.mode, &|| self.run.is_cancelled(), taken);
        locked.map_err(|error| lock_error(self.run.context.session(), error))?;
        Ok(true)
    }

    /// Locks a row, and looks at it again if somebody has changed it. What `taken` has is to be released, unless it is kept.
    fn row(&self, mut at: RowAt, taken: &mut Vec<LockResource>) -> std::result::Result<Locked, SqlError> {
        if !self.reading.is_kept && self.reading.mode == LockMode::Shared && !self.is_changed(&at) {
            return Ok(Locked::AsSeen);
        }
        if !self.lock(&at, taken)? {
            return Ok(Locked::LeftOut);
        }
        if !self.is_changed(&at) {
            return Ok(Locked::AsSeen);
        }
        if self.reading.is_of_snapshot {
            return Err(snapshot_conflict(self.table.database(), &self.table.table().name));
        }
        loop {
            let row = current_row(self.table.table(), &self.stores, &at);
            if let Some(values) = row.map_err(|error| self.table.sql_error(error))? {
                return Ok(Locked::Changed(values, at));
            }
            match self.moved_to(&at) {
                Some(to) => at = to,
                None => return Ok(Locked::LeftOut),
            }
            if !self.lock(&at, taken)? {
                return Ok(Locked::LeftOut);
            }
        }
    }

    /// The row is shown, or not: its lock stays, or goes.
    fn done(&self, is_shown: bool, taken: &[LockResource]) {
        let Some(locks) = &self.locks else { return };
        if is_shown && self.reading.is_kept {
            locks.escalate_if_due();
        } else if !taken.is_empty() {
            locks.release(taken);
        }
    }
}

struct LockRowsStream {
    input: SendableRecordBatchStream,
    rows: RowLocker,
    columns: Vec<usize>,
    output: Vec<usize>,
    conditions: Option<Arc<dyn PhysicalExpr>>,
    /// How many rows are still wanted.
    left: usize,
    schema: SchemaRef,
}

impl LockRowsStream {
    /// The rows of a batch that are locked now, those that have changed behind the others.
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
                if was_wanted || self.rows.may_come_to_be_wanted(&at) {
                    let mut taken = Vec::new();
                    let mut is_shown = false;
                    match self.rows.row(at, &mut taken).map_err(external)? {
                        Locked::AsSeen => (is_kept, is_shown) = (was_wanted, was_wanted),
                        Locked::LeftOut => {}
                        Locked::Changed(values, at) => {
                            let again = self.row_again(batch, &values, &at)?;
                            is_shown = again.num_rows() > 0;
                            changed.extend(is_shown.then_some(again));
                        }
                    }
                    self.rows.done(is_shown, &taken);
                    self.left -= usize::from(is_shown);
                }
            }
            kept.append(is_kept);
        }
        let kept = filter_record_batch(batch, &BooleanArray::new(kept.finish(), None))?;
        let all = match changed.is_empty() {
            true => kept,
            false => concat_batches(&batch.schema(), std::iter::once(&kept).chain(&changed))?,
        };
        let arrays = self.output.iter().map(|column| Arc::clone(all.column(*column))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(all.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }

    /// A row of these values like the rows of `like`, if it fulfils the conditions.
    fn row_again(&self, like: &RecordBatch, values: &[Value], at: &RowAt) -> Result<RecordBatch> {
        let definitions = &self.rows.table.table().columns;
        let mut arrays = Vec::with_capacity(like.num_columns());
        for column in &self.columns {
            arrays.push(value_to_array(&values[*column], definitions[*column].sql_type).map_err(external)?);
        }
        arrays.push(self.place_array(at)?);
        let batch = RecordBatch::try_new(like.schema(), arrays)?;
        let Some(conditions) = &self.conditions else { return Ok(batch) };
        let holds = conditions.evaluate(&batch)?.into_array(1)?;
        let holds = holds.as_boolean();
        let holds = holds.is_valid(0) && holds.value(0);
        Ok(if holds { batch } else { batch.slice(0, 0) })
    }

    fn place_array(&self, at: &RowAt) -> Result<ArrayRef> {
        match at {
            RowAt::Heap { partition, page, slot } => {
                let partition = u32::try_from(*partition).expect("at most 15,000 partitions");
                let place = hobt_access::scan::RowPlace { partition, page: *page, slot: *slot };
                let numbers = Decimal128Array::from(vec![place.number()]);
                let precision = place_type(self.rows.table.table()).precision();
                Ok(Arc::new(numbers.with_precision_and_scale(precision, 0)?))
            }
            RowAt::Tree { partition, key } => {
                let partition = u32::try_from(*partition).expect("at most 15,000 partitions");
                let place = [partition.to_be_bytes().as_slice(), key].concat();
                Ok(Arc::new(BinaryViewArray::from_iter_values([place])))
            }
        }
    }
}

impl Stream for LockRowsStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.left == 0 {
                return Poll::Ready(None);
            }
            match ready!(this.input.poll_next_unpin(task)) {
                Some(Ok(batch)) => match this.locked(&batch) {
                    Ok(rows) if rows.num_rows() == 0 => {}
                    done => return Poll::Ready(Some(done)),
                },
                other => return Poll::Ready(other),
            }
        }
    }
}

impl RecordBatchStream for LockRowsStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
