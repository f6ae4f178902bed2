//! Functions of the rows up to the current one, over whole columns of sorted batches: `ROW_NUMBER`, `RANK`,
//! `DENSE_RANK`, `LAG`, and `COUNT`, `SUM`, `AVG`, `MIN`, `MAX` from the start of the partition to the current row.
//! Also `LEAD`, by few rows.
//!
//! ```text
//!   batch ─► borders: where partitions and groups of peers begin
//!        └─► functions: one state each, a column at a time
//!               ROWS: a value for each row at once ───────────────────────────► the batch goes on with them
//!               RANGE: a row's value is that of its last peer
//!                 rows up to the end of a group ──────────────────────────────► go on
//!                 rows of a group that has not ended: held, on disk if many ──► go on when it has
//! ```
//! Whether a group ends with its batch only the next row tells. So with a RANGE, a batch waits until the next has
//! come, and comes out whole if it can; with `LEAD`, until as many rows have come as it looks at. The values of held
//! rows that are known are held with them; what the end of the group brings is one value for all of them.
//!
//! Not here: the arithmetic (crate `functions`); other functions and frames (`streamed`, `whole`).

mod borders;
mod function;
mod shift;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use futures::{StreamExt, TryStreamExt};
use hobt_base::SqlError;
use hobt_table::StatementRun;
use hobt_udf::external;

use super::light::alone;
use crate::held::HeldBatches;
use borders::{BorderFinder, Borders};
use function::{Function, Rows, can_be_key};

/// Batches that are made one by one.
type Made = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The functions of an operator, if each is one of those that are computed here, over rows that come in their order.
fn functions(windows: &BoundedWindowAggExec) -> Result<Option<Vec<Function>>> {
    let Some(first) = windows.window_expr().first() else { return Ok(None) };
    let has_keys_of = |window: &Arc<dyn WindowExpr>| {
        window.partition_by() == first.partition_by() && window.order_by() == first.order_by()
    };
    let schema = windows.input().schema();
    let keys = first.partition_by().iter().chain(first.order_by().iter().map(|sort| &sort.expr));
    let can_be_keys = keys.map(|key| Ok(can_be_key(&key.data_type(&schema)?))).collect::<Result<Vec<bool>>>()?;
    let can_be_computed = windows.input_order_mode == InputOrderMode::Sorted
        && windows.state_observer().is_none()
        && windows.window_expr().iter().all(has_keys_of)
        && !can_be_keys.contains(&false);
    if !can_be_computed {
        return Ok(None);
    }
    windows.window_expr().iter().map(Function::of).collect()
}

/// Whether the rows can be computed here.
pub(super) fn can_run(windows: &BoundedWindowAggExec) -> Result<bool> {
    Ok(functions(windows)?.is_some())
}

/// The rows of a partition of the input, in their order, with the functions' columns; `None` if there are functions
/// that are not computed here.
pub(super) fn rows(
    windows: &BoundedWindowAggExec,
    partition: usize,
    context: &Arc<TaskContext>,
    run: &Arc<StatementRun>,
    elapsed: &Time,
) -> Result<Option<SendableRecordBatchStream>> {
    let (Some(functions), Some(first)) = (functions(windows)?, windows.window_expr().first()) else {
        return Ok(None);
    };
    let reservation = MemoryConsumer::new("Window").register(context.memory_pool());
    let mut running = Running::new(functions, first.as_ref(), &windows.schema(), run, reservation);
    // The end of the rows is an item of its own.
    let read = windows.input().execute(partition, Arc::clone(context))?;
    let read = read.map_ok(Some).chain(futures::stream::iter([Ok(None)]));
    let elapsed = elapsed.clone();
    let made = read.map(move |batch| {
        let batch = batch?;
        let _timed = elapsed.timer();
        let made = match batch {
            Some(batch) if batch.num_rows() == 0 => Box::new(std::iter::empty()),
            Some(batch) => running.take(batch)?,
            None => running.finish()?,
        };
        Ok::<_, DataFusionError>(futures::stream::iter(made))
    });
    Ok(Some(Box::pin(RecordBatchStreamAdapter::new(windows.schema(), made.try_flatten()))))
}

/// Computes the functions' columns.
struct Running {
    functions: Vec<Function>,
    borders: BorderFinder,
    /// Whether a row may have to wait for its peers.
    takes_peers: bool,
    /// The rows with all columns, and with those that are known when the row has come.
    schema: SchemaRef,
    held_schema: SchemaRef,
    run: Arc<StatementRun>,
    /// For the values that functions keep.
    reservation: MemoryReservation,
    /// How many rows behind the last one of a batch must be known.
    rows_behind: usize,
    /// The last batches, until enough rows behind the first of them have come.
    waiting: VecDeque<(RecordBatch, Borders)>,
    /// Rows of the last group of peers from the batches before.
    held: Option<HeldBatches>,
}

impl Running {
    fn new(
        functions: Vec<Function>,
        keys: &dyn WindowExpr,
        schema: &SchemaRef,
        run: &Arc<StatementRun>,
        reservation: MemoryReservation,
    ) -> Running {
        let (of_input, of_functions) = schema.fields().split_at(schema.fields().len() - functions.len());
        let known = of_functions.iter().zip(&functions).filter(|(_, function)| !function.takes_peers());
        let held = of_input.iter().chain(known.map(|(field, _)| field)).cloned();
        let takes_peers = functions.iter().any(Function::takes_peers);
        let rows_behind = functions.iter().map(Function::rows_behind).max().unwrap_or(0);
        Running {
            borders: BorderFinder::of(keys, functions.iter().any(Function::asks_for_peers)),
            takes_peers,
            rows_behind: rows_behind.max(usize::from(takes_peers)),
            held_schema: Arc::new(Schema::new(held.collect::<Vec<_>>())),
            schema: Arc::clone(schema),
            functions,
            run: Arc::clone(run),
            reservation,
            waiting: VecDeque::new(),
            held: None,
        }
    }

    /// Takes a batch that is not empty; gives the rows whose values are known now.
    fn take(&mut self, batch: RecordBatch) -> Result<Made> {
        let borders = self.borders.next(&batch)?;
        self.waiting.push_back((batch, borders));
        self.compute_all(self.rows_behind)
    }

    /// The rows that are left.
    fn finish(&mut self) -> Result<Made> {
        self.compute_all(0)
    }

    /// Computes the columns for the batches behind which `rows_behind` rows have come.
    fn compute_all(&mut self, rows_behind: usize) -> Result<Made> {
        let mut made: Made = Box::new(std::iter::empty());
        let mut behind = self.waiting.iter().skip(1).map(|(batch, _)| batch.num_rows()).sum::<usize>();
        while behind >= rows_behind
            && let Some((batch, borders)) = self.waiting.pop_front()
        {
            made = Box::new(made.chain(self.compute(&batch, &borders)?));
            behind -= self.waiting.front().map_or(0, |(batch, _)| batch.num_rows());
        }
        Ok(made)
    }

    /// Computes the columns for a batch.
    fn compute(&mut self, batch: &RecordBatch, borders: &Borders) -> Result<Made> {
        let rows = batch.num_rows();
        let mut ends = borders.peers[1..].to_vec();
        ends.push(self.waiting.front().is_none_or(|(_, next)| next.peers[0]));
        let mut columns = Vec::with_capacity(self.functions.len());
        for function in &mut self.functions {
            columns.push(function.run(Rows { batch, borders, ends_of_peers: &ends, behind: &self.waiting })?);
        }
        self.reservation.try_resize(self.functions.iter().map(Function::size).sum())?;
        let done = match self.takes_peers {
            true => ends.iter().rposition(|is_end| *is_end).map_or(0, |last| last + 1),
            false => rows,
        };
        let mut made: Made = Box::new(std::iter::empty());
        if done > 0 {
            if let Some(held) = self.held.take() {
                made = self.of_ended_group(held, &columns)?;
            }
            let all = batch.columns().iter().chain(&columns).map(|column| column.slice(0, done));
            let done = RecordBatch::try_new(Arc::clone(&self.schema), all.collect()).map_err(Into::into);
            made = Box::new(made.chain([done]));
        }
        if done < rows {
            self.hold(batch, &columns, done)?;
        }
        Ok(made)
    }

    /// Holds the rows from `begin` on.
    fn hold(&mut self, batch: &RecordBatch, columns: &[ArrayRef], begin: usize) -> Result<()> {
        let rows = batch.num_rows() - begin;
        let known = columns.iter().zip(&self.functions).filter(|(_, function)| !function.takes_peers());
        let held = batch.columns().iter().chain(known.map(|(column, _)| column));
        let held = held.map(|column| column.slice(begin, rows)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let held = RecordBatch::try_new_with_options(Arc::clone(&self.held_schema), held, &options)?;
        self.held.get_or_insert_with(|| HeldBatches::new(&self.run)).keep(held).map_err(external)
    }

    /// The held rows of a group that ends in a batch for which `columns` have been computed.
    fn of_ended_group(&self, held: HeldBatches, columns: &[ArrayRef]) -> Result<Made> {
        // The values of the group, which the batch's first row has too.
        let first = |column: &ArrayRef| Ok(alone(take(column, &UInt32Array::from(vec![0]), None)?));
        let values = columns.iter().zip(&self.functions);
        let values = values.map(|(column, function)| function.takes_peers().then(|| first(column)).transpose());
        let values = values.collect::<Result<Vec<_>>>()?;
        let (schema, run) = (Arc::clone(&self.schema), Arc::clone(&self.run));
        Ok(Box::new(held.into_batches().map_err(external)?.map(move |batch| {
            if run.is_cancelled() {
                return Err(external(SqlError::cancelled()));
            }
            let batch = batch.map_err(external)?;
            let (of_input, known) = batch.columns().split_at(schema.fields().len() - values.len());
            let mut known = known.iter();
            let mut columns = of_input.to_vec();
            for value in &values {
                columns.extend(match value {
                    Some(value) => Some(take(value, &UInt32Array::from(vec![0; batch.num_rows()]), None)?),
                    None => known.next().cloned(),
                });
            }
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
        })))
    }
}
