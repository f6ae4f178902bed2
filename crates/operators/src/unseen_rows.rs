//! Gives a statement that changes rows the uncommitted and newer rows of its target, beside the rows of its snapshot.
//!
//! ```text
//!   UnseenRowsExec    after the last row: current values of the path's rows that other transactions have changed since
//!       ScanExec      rows of a snapshot, with their positions
//! ```
//!
//! A change finds its rows in a snapshot ([21](../../../../docs/design/0021-row-locks-and-isolation.md)). A transaction
//! that the snapshot does not see may have inserted a row that the statement wants, or may be changing a row so that it
//! is wanted. This operator outputs such rows, committed or not. If one of them is in the query's result, or if the
//! result has a row of the snapshot that another transaction has changed, the statement locks it, which waits, and
//! reads again. So an uncommitted row is never changed, and is waited for only if it matters.
//!
//! If the result for one row depends on other rows (counts, or a condition on the first ten rows), an uncommitted row
//! could displace another. Then such rows are not output but only noted, and all of them are waited for.
//!
//! The operator is part of a plan only while there are such rows; see `table_scan`.

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    RecordBatchStream, SendableRecordBatchStream,
};
use futures::{Stream, StreamExt};
use hobt_base::SqlError;
use hobt_engine::RowAt;
use hobt_functions::value_to_array;
use parking_lot::Mutex;

use super::inputs::{with_inputs, without_expressions};
use super::path_rows::PathRows;
use super::places::{Places, place_array};
use hobt_table::{AccessPath, TableRead, UnseenRows, UnseenUse};
use hobt_udf::external;

/// Rows of a batch of changed rows: each is fetched individually.
const BATCH_ROWS: usize = 1024;

/// How many of an input's first rows are wanted; with a condition, only rows that fulfil it count.
#[derive(Clone, Debug)]
struct Limit {
    condition: Option<Arc<dyn PhysicalExpr>>,
    rows: usize,
}

/// Outputs its input's rows, then those that other transactions are changing; see the module.
#[derive(Debug)]
pub struct UnseenRowsExec {
    input: Arc<dyn ExecutionPlan>,
    table: Arc<TableRead>,
    unseen: Arc<UnseenRows>,
    path: AccessPath,
    /// The columns of the input, by their positions in the table; that of the rows' positions comes after the table's
    /// own.
    columns: Vec<usize>,
    /// How many of the input's rows are wanted.
    limit: Option<Limit>,
    properties: Arc<PlanProperties>,
    /// Made when the first partition starts.
    shared: Mutex<Option<Arc<Shared>>>,
}

impl UnseenRowsExec {
    /// Over rows of `table` with these columns that are read by `path`.
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        table: Arc<TableRead>,
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

    /// Replaces the input by one that reads by another path in one stream, for the first `rows` rows that fulfil a
    /// condition.
    pub fn first_of(
        &self,
        input: Arc<dyn ExecutionPlan>,
        path: AccessPath,
        condition: Option<Arc<dyn PhysicalExpr>>,
        rows: usize,
    ) -> Arc<dyn ExecutionPlan> {
        Arc::new(UnseenRowsExec { limit: Some(Limit { condition, rows }), ..self.like(input, path) })
    }

    /// Whether it outputs only the first rows of its input.
    pub fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> UnseenRowsExec {
        self.like(input, self.path.clone())
    }

    /// Replaces the path by which rows are read.
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
}

/// The state that the partitions share.
struct Shared {
    table: Arc<TableRead>,
    rows: PathRows,
    unseen: Arc<UnseenRows>,
    columns: Vec<usize>,
    schema: SchemaRef,
    /// Rows of visible index entries that another transaction is changing.
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
    /// Checks whether the rows of a batch that were read by index entries are being changed by other transactions.
    fn look_behind(&self, batch: &RecordBatch) -> Result<(), SqlError> {
        let at = self.columns.iter().position(|column| *column == self.rows.table().columns.len());
        let (Some(at), Some(_)) = (at, self.rows.by_entries()) else { return Ok(()) };
        let place = batch.project(&[at]).map_err(|error| SqlError::internal(error.to_string()))?;
        let places = Places::of(&place)?;
        for row in 0..batch.num_rows() {
            let row = places.row(row)?;
            if self.rows.is_changed(&row)? {
                self.behind.lock().insert(row);
            }
        }
        Ok(())
    }

    /// The rows to be output after the snapshot's last one, in reverse order.
    fn unseen(&self) -> Result<Vec<RowAt>, SqlError> {
        let mut rows = self.rows.changed()?;
        rows.extend(self.behind.lock().drain());
        rows.sort_unstable_by(|one, other| other.cmp(one));
        rows.dedup();
        self.unseen.meet(self.table.run(), &self.table, &rows)?;
        Ok(if self.unseen.usage() == UnseenUse::Shown { rows } else { Vec::new() })
    }

    /// Current values of rows; `None` if all are gone.
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
    /// `None` after its end.
    input: Option<SendableRecordBatchStream>,
    shared: Arc<Shared>,
    /// How many rows of the input are still wanted.
    limit: Option<Limit>,
    /// Whether no more is read from the input.
    has_ended: bool,
    /// Rows still to be output, in reverse order.
    shown: Vec<RowAt>,
}

impl UnseenRowsStream {
    /// The wanted part of a batch of the input.
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

    /// The next rows after the last one of the input.
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
        // After the rows of all partitions: a statement that wants only a few rows gets the snapshot's first.
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
