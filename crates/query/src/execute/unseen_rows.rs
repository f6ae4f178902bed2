//! Rows that others are changing, shown to a statement that is going to change them beside what its snapshot shows.
//!
//! ```text
//!   UnseenRowsExec    behind the last row: those rows of the path that others have changed since, as they stand
//!       ScanExec      rows of a snapshot, with their places
//! ```
//!
//! A change finds its rows in a snapshot ([21](../../../../docs/design/0021-row-locks-and-isolation.md)). Whom it does
//! not see may have inserted a row that it wants, or be making one so. It is shown such rows, committed or not: if one
//! of them is among those that come of the query, or one of the snapshot's that somebody has changed, then the
//! statement locks it, which is to wait, and looks again. So nothing that did not commit is ever changed, nor waited
//! for but where it matters.
//!
//! Where the rows together decide what comes of one (numbers of rows, the first ten of which a condition takes some),
//! what does not commit could keep out another. There the rows are not shown but only noted, and all are waited for.
//!
//! The operator is part of a plan only while there are such rows; see [`HeapTable::scan`](crate::source::HeapTable).

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    RecordBatchStream, SendableRecordBatchStream,
};
use futures::{Stream, StreamExt};
use hobt_access::AccessError;
use hobt_base::SqlError;
use hobt_engine::RowAt;
use hobt_functions::value_to_array;
use parking_lot::Mutex;

use super::inputs::{about_as_many_rows, with_inputs, without_expressions};
use super::path_rows::PathRows;
use super::places::{Places, place_array};
use super::statement::StatementRun;
use crate::access_path::AccessPath;
use crate::source::HeapTable;
use crate::wrap::external;

/// About what a row takes among those that were met.
const MET_BYTES: u64 = 96;
/// Rows of a batch of those that others are changing: each is fetched by itself.
const BATCH_ROWS: usize = 1024;

/// What is done with rows of a statement's target that others are changing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UnseenUse {
    /// Nothing: the table is not the target.
    #[default]
    None,
    /// They are shown as they stand, beside what the snapshot shows.
    Shown,
    /// They are noted: all of them matter.
    Noted,
}

/// Rows of the target of a statement that others are changing, as far as one run of its query has met them.
#[derive(Debug, Default)]
pub struct UnseenRows {
    usage: Mutex<UnseenUse>,
    /// Whether the plan looks for them.
    is_watched: AtomicBool,
    met: Mutex<HashSet<RowAt>>,
}

impl UnseenRows {
    /// Says what is to be done with them, before the query is planned.
    pub fn use_so(&self, usage: UnseenUse) {
        *self.usage.lock() = usage;
    }

    /// What is done with them.
    pub fn usage(&self) -> UnseenUse {
        *self.usage.lock()
    }

    /// Notes that there are some, and the plan looks for them.
    pub(crate) fn watch(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// Whether there may be some.
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Whether a row is one of them.
    pub fn has_met(&self, row: &RowAt) -> bool {
        self.is_watched() && self.met.lock().contains(row)
    }

    /// Those that were met.
    pub fn met(&self) -> Vec<RowAt> {
        self.met.lock().iter().cloned().collect()
    }

    /// Notes rows. The statement pays for them until it ends.
    ///
    /// # Errors
    /// 701.
    fn meet(&self, run: &StatementRun, table: &HeapTable, rows: &[RowAt]) -> Result<(), SqlError> {
        let grown = run.context.memory().grow(rows.len() as u64 * MET_BYTES);
        grown.map_err(|error| table.sql_error(AccessError::OutOfMemory(error)))?;
        self.met.lock().extend(rows.iter().cloned());
        Ok(())
    }
}

/// How many rows of an input are wanted, the first ones; those count that fulfil a condition, if there is one.
#[derive(Clone, Debug)]
struct Limit {
    condition: Option<Arc<dyn PhysicalExpr>>,
    rows: usize,
}

/// Shows its input's rows, and behind them those that others are changing; see the module.
#[derive(Debug)]
pub(crate) struct UnseenRowsExec {
    input: Arc<dyn ExecutionPlan>,
    table: Arc<HeapTable>,
    unseen: Arc<UnseenRows>,
    path: AccessPath,
    /// The columns of the input, as places in the table; that of where a row lies is behind the table's own.
    columns: Vec<usize>,
    /// How many of the input's rows are wanted.
    limit: Option<Limit>,
    properties: Arc<PlanProperties>,
    /// Made when the first partition starts.
    shared: Mutex<Option<Arc<Shared>>>,
}

impl UnseenRowsExec {
    /// Over rows of `table` with these columns that come by `path`.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        table: Arc<HeapTable>,
        unseen: Arc<UnseenRows>,
        path: AccessPath,
        columns: Vec<usize>,
    ) -> UnseenRowsExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (properties, shared) = (Arc::new(properties), Mutex::default());
        UnseenRowsExec { input, table, unseen, path, columns, limit: None, properties, shared }
    }

    fn like(&self, input: Arc<dyn ExecutionPlan>, path: AccessPath) -> UnseenRowsExec {
        let (table, unseen) = (Arc::clone(&self.table), Arc::clone(&self.unseen));
        let limit = self.limit.clone();
        UnseenRowsExec { limit, ..UnseenRowsExec::new(input, table, unseen, path, self.columns.clone()) }
    }

    /// The same over rows that come by another path, in one stream, for who wants the first `rows` of those that fulfil
    /// a condition.
    pub(crate) fn first_of(
        &self,
        input: Arc<dyn ExecutionPlan>,
        path: AccessPath,
        condition: Option<Arc<dyn PhysicalExpr>>,
        rows: usize,
    ) -> Arc<dyn ExecutionPlan> {
        Arc::new(UnseenRowsExec { limit: Some(Limit { condition, rows }), ..self.like(input, path) })
    }

    /// Whether it shows the first rows of its input only.
    pub(crate) fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> UnseenRowsExec {
        self.like(input, self.path.clone())
    }

    /// The same over rows that come by another path.
    pub(crate) fn along(&self, path: AccessPath) -> Arc<dyn ExecutionPlan> {
        Arc::new(self.like(Arc::clone(&self.input), path))
    }

    fn shared(&self) -> Result<Arc<Shared>, SqlError> {
        let mut shared = self.shared.lock();
        if let Some(shared) = &*shared {
            return Ok(Arc::clone(shared));
        }
        let view = self.table.run().context.view();
        let made = Arc::new(Shared {
            table: Arc::clone(&self.table),
            rows: PathRows::new(&self.table, &self.path, view)?,
            unseen: Arc::clone(&self.unseen),
            columns: self.columns.clone(),
            schema: self.schema(),
            behind: Mutex::default(),
            streams_left: AtomicUsize::new(self.input.output_partitioning().partition_count()),
        });
        *shared = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl DisplayAs for UnseenRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnseenRows: {}, {:?}", self.table.table().name, self.unseen.usage())
    }
}

impl ExecutionPlan for UnseenRowsExec {
    fn name(&self) -> &'static str {
        "UnseenRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    with_inputs!(input);
    without_expressions!();

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let shared = self.shared().map_err(external)?;
        let input = Some(self.input.execute(partition, context)?);
        Ok(Box::pin(UnseenRowsStream { input, shared, limit: self.limit.clone(), has_ended: false, shown: Vec::new() }))
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(about_as_many_rows(&self.schema(), inputs))
    }
}

/// What the partitions have in common.
struct Shared {
    table: Arc<HeapTable>,
    rows: PathRows,
    unseen: Arc<UnseenRows>,
    columns: Vec<usize>,
    schema: SchemaRef,
    /// Rows behind entries that are seen which somebody is changing.
    behind: Mutex<HashSet<RowAt>>,
    /// Partitions whose input has not ended.
    streams_left: AtomicUsize,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("table", &self.table).finish_non_exhaustive()
    }
}

impl Shared {
    /// Asks of the rows of a batch that came by entries of an index whether somebody is changing them.
    fn look_behind(&self, batch: &RecordBatch) -> Result<(), SqlError> {
        let at = self.columns.iter().position(|column| *column == self.rows.table().columns.len());
        let (Some(at), Some(_)) = (at, self.rows.by_entries()) else { return Ok(()) };
        let place = batch.project(&[at]).map_err(|error| SqlError::internal(error.to_string()))?;
        let places = Places::of(&place)?;
        for row in 0..batch.num_rows() {
            let row = places.row(row)?;
            if self.rows.is_changed(&row) {
                self.behind.lock().insert(row);
            }
        }
        Ok(())
    }

    /// The rows to be shown behind the last one of the snapshot, the first last.
    fn unseen(&self) -> Result<Vec<RowAt>, SqlError> {
        let mut rows = self.rows.changed()?;
        rows.extend(self.behind.lock().drain());
        rows.sort_unstable_by(|one, other| other.cmp(one));
        rows.dedup();
        self.unseen.meet(self.table.run(), &self.table, &rows)?;
        Ok(if self.unseen.usage() == UnseenUse::Shown { rows } else { Vec::new() })
    }

    /// Rows as they stand; `None` if they are all gone.
    fn batch(&self, rows: impl Iterator<Item = RowAt>) -> Result<Option<RecordBatch>> {
        let definitions = &self.rows.table().columns;
        let mut found = Vec::new();
        for at in rows {
            let Some(values) = self.rows.values(&at).map_err(external)? else { continue };
            let column = |column: &usize| -> Result<ArrayRef> {
                match definitions.get(*column) {
                    Some(definition) => value_to_array(&values[*column], definition.sql_type).map_err(external),
                    None => place_array(self.rows.table(), &at),
                }
            };
            let columns = self.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
            found.push(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        }
        Ok(if found.is_empty() { None } else { Some(concat_batches(&self.schema, &found)?) })
    }
}

struct UnseenRowsStream {
    /// `None` when it has ended.
    input: Option<SendableRecordBatchStream>,
    shared: Arc<Shared>,
    /// What is still wanted of the input.
    limit: Option<Limit>,
    /// Whether nothing more is taken of the input.
    has_ended: bool,
    /// Rows still to be shown, the first last.
    shown: Vec<RowAt>,
}

impl UnseenRowsStream {
    /// A batch of the input, as far as it is wanted.
    fn taken(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let Some(limit) = &mut self.limit else { return Ok(batch) };
        let fulfils = match &limit.condition {
            Some(condition) => Some(condition.evaluate(&batch)?.into_array(batch.num_rows())?),
            None => None,
        };
        let fulfils = fulfils.as_ref().map(|fulfils| fulfils.as_boolean());
        let counts = |row: &usize| fulfils.is_none_or(|fulfils| fulfils.is_valid(*row) && fulfils.value(*row));
        let last = (0..batch.num_rows()).filter(counts).nth(limit.rows.saturating_sub(1));
        if let Some(last) = last {
            self.input = None;
            return Ok(batch.slice(0, last + 1));
        }
        limit.rows -= (0..batch.num_rows()).filter(counts).count();
        Ok(batch)
    }

    /// The next rows behind the last one of the input.
    fn next_unseen(&mut self) -> Result<Option<RecordBatch>> {
        while !self.shown.is_empty() {
            let rest = self.shown.len().saturating_sub(BATCH_ROWS);
            let rows = self.shown.split_off(rest);
            if let Some(batch) = self.shared.batch(rows.into_iter().rev())? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

impl Stream for UnseenRowsStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(input) = &mut this.input {
            match ready!(input.poll_next_unpin(task)) {
                Some(batch) => {
                    let taken = batch.and_then(|batch| this.taken(batch));
                    let looked =
                        taken.and_then(|batch| this.shared.look_behind(&batch).map(|()| batch).map_err(external));
                    return Poll::Ready(Some(looked));
                }
                None => this.input = None,
            }
        }
        // Behind all others' rows too: whoever wants a few of them gets the snapshot's first.
        if !std::mem::replace(&mut this.has_ended, true) && this.shared.streams_left.fetch_sub(1, Ordering::AcqRel) == 1
        {
            match this.shared.unseen() {
                Ok(rows) => this.shown = rows,
                Err(error) => return Poll::Ready(Some(Err(external(error)))),
            }
        }
        Poll::Ready(this.next_unseen().transpose())
    }
}

impl RecordBatchStream for UnseenRowsStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shared.schema)
    }
}
