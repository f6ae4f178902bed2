//! Functions of all rows of a partition.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat, concat_batches, partition, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Accumulator, WindowFrameBound};
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, WindowExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use futures::{StreamExt, TryStreamExt};
use hobt_table::StatementRun;
use hobt_udf::external;

use super::light::Light;
use crate::held::{HeldBatches, bytes_of, compact};

/// Batches that are made one by one.
type Made = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The rows of a partition of the input, in their order, with the functions' columns.
pub(super) fn rows(
    windows: &dyn ExecutionPlan,
    partition: usize,
    context: &Arc<TaskContext>,
    run: &Arc<StatementRun>,
) -> Result<SendableRecordBatchStream> {
    let windows = windows.downcast_ref::<WindowAggExec>().ok_or_else(|| internal_datafusion_err!("no window"))?;
    let input = windows.input();
    let reservation = MemoryConsumer::new("Window").register(context.memory_pool());
    let mut partitions = Partitions {
        light: Light::of(windows.window_expr(), &input.schema()),
        functions: windows.window_expr().to_vec(),
        schema: windows.schema(),
        run: Arc::clone(run),
        reservation,
        open: None,
    };
    // The end of the rows is an item of its own.
    let read = input.execute(partition, Arc::clone(context))?.map_ok(Some).chain(futures::stream::iter([Ok(None)]));
    let made = read.map(move |batch| {
        let made = match batch? {
            Some(batch) if batch.num_rows() == 0 => Box::new(std::iter::empty()),
            Some(batch) => partitions.take(&batch)?,
            None => partitions.finish()?,
        };
        Ok::<_, datafusion::common::DataFusionError>(futures::stream::iter(made))
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(windows.schema(), made.try_flatten())))
}

/// Whether a function has one value for all rows of a partition, which an accumulator computes.
fn constant(function: &dyn WindowExpr) -> Option<&PlainAggregateWindowExpr> {
    use WindowFrameBound::{Following, Preceding};
    let frame = function.get_window_frame();
    let is_open = |bound: &WindowFrameBound| matches!(bound, Preceding(at) | Following(at) if at.is_null());
    let aggregate = function.as_any().downcast_ref::<PlainAggregateWindowExpr>()?;
    (is_open(&frame.start_bound) && is_open(&frame.end_bound)).then_some(aggregate)
}

/// Reads rows partition by partition.
struct Partitions {
    functions: Vec<Arc<dyn WindowExpr>>,
    light: Light,
    schema: SchemaRef,
    run: Arc<StatementRun>,
    /// For what an open partition keeps in memory.
    reservation: MemoryReservation,
    /// The partition of the last row.
    open: Option<Open>,
}

/// A partition of which more rows may come.
struct Open {
    rows: HeldBatches,
    /// The first row's light form: it tells whether a row belongs to the partition.
    first: RecordBatch,
    /// For each function that has one value for all rows.
    accumulators: Vec<Option<Box<dyn Accumulator>>>,
    /// The light rows, if there is another function.
    kept: Vec<RecordBatch>,
}

impl Partitions {
    /// Takes rows; gives those of partitions that are complete.
    fn take(&mut self, batch: &RecordBatch) -> Result<Made> {
        let light = self.light.rows(batch)?;
        let mut ranges = self.ranges(&light)?;
        let mut done: Made = Box::new(std::iter::empty());
        let continues = match &self.open {
            Some(open) => self.is_same(&open.first, &light)?,
            None => false,
        };
        if continues {
            let range = ranges.remove(0);
            self.add(batch, &light, &range)?;
        }
        let Some(last) = ranges.pop() else { return Ok(done) };
        if self.open.is_some() {
            done = self.finish()?;
        }
        if let (Some(first), Some(end)) = (ranges.first(), ranges.last()) {
            let whole = batch.slice(first.start, end.end - first.start);
            let columns = self.columns(&light, &ranges)?;
            let columns = whole.columns().iter().cloned().chain(columns).collect();
            let made = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(Into::into);
            done = Box::new(done.chain(std::iter::once(made)));
        }
        self.add(batch, &light, &last)?;
        Ok(done)
    }

    /// The rows of the last partition.
    fn finish(&mut self) -> Result<Made> {
        let Some(open) = self.open.take() else { return Ok(Box::new(std::iter::empty())) };
        let Open { rows, accumulators, kept, .. } = open;
        let all = if kept.is_empty() { None } else { Some(concat_batches(self.light.schema(), &kept)?) };
        drop(kept);
        let mut values = Vec::with_capacity(self.functions.len());
        for (function, accumulator) in self.functions.iter().zip(accumulators) {
            values.push(match (accumulator, &all) {
                (Some(mut accumulator), _) => Value::One(accumulator.evaluate()?),
                (None, Some(all)) => Value::Each(function.evaluate(all)?),
                (None, None) => return Err(internal_datafusion_err!("a window without rows")),
            });
        }
        // What the values take is held until the last of the rows is given.
        let held = self.reservation.take();
        let (schema, mut at) = (Arc::clone(&self.schema), 0);
        let batches = rows.into_batches().map_err(external)?;
        Ok(Box::new(batches.map(move |batch| {
            let _held = &held;
            let batch = batch.map_err(external)?;
            let rows = batch.num_rows();
            let columns = values.iter().map(|value| match value {
                Value::One(value) => value.to_array_of_size(rows),
                Value::Each(values) => Ok(values.slice(at, rows)),
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            at += rows;
            let columns = batch.columns().iter().cloned().chain(columns).collect();
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
        })))
    }

    /// Adds rows to the open partition, or opens it.
    fn add(&mut self, batch: &RecordBatch, light: &RecordBatch, range: &Range<usize>) -> Result<()> {
        let (batch, light) = (batch.slice(range.start, range.len()), light.slice(range.start, range.len()));
        if self.open.is_none() {
            let accumulators = self.functions.iter().map(|function| {
                let aggregate = constant(function.as_ref()).map(PlainAggregateWindowExpr::get_aggregate_expr);
                aggregate.map(|aggregate| aggregate.create_accumulator()).transpose()
            });
            self.open = Some(Open {
                rows: HeldBatches::new(&self.run),
                first: take_record_batch(&light, &UInt32Array::from(vec![0]))?,
                accumulators: accumulators.collect::<Result<_>>()?,
                kept: Vec::new(),
            });
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        for (function, accumulator) in self.functions.iter().zip(&mut open.accumulators) {
            if let Some(accumulator) = accumulator {
                accumulator.update_batch(&function.evaluate_args(&light)?)?;
            }
        }
        if open.accumulators.iter().any(Option::is_none) {
            // The values that the functions make of the rows, and the rows once more while they make them.
            let light = compact(light).map_err(external)?;
            let made = self.functions.len() * size_of::<u64>() * light.num_rows();
            let bytes = usize::try_from(bytes_of(&light).map_err(external)?).unwrap_or(usize::MAX);
            self.reservation.try_grow(bytes.saturating_mul(2).saturating_add(made))?;
            open.kept.push(light);
        }
        open.rows.keep(batch).map_err(external)
    }

    /// The functions' columns of partitions that are complete in a batch.
    fn columns(&self, light: &RecordBatch, ranges: &[Range<usize>]) -> Result<Vec<ArrayRef>> {
        let column = |function: &Arc<dyn WindowExpr>| {
            let of_each = ranges.iter().map(|range| function.evaluate(&light.slice(range.start, range.len())));
            let of_each = of_each.collect::<Result<Vec<_>>>()?;
            Ok(concat(&of_each.iter().map(|each| each.as_ref() as &dyn Array).collect::<Vec<_>>())?)
        };
        self.functions.iter().map(column).collect()
    }

    /// The rows of each partition in a batch.
    fn ranges(&self, light: &RecordBatch) -> Result<Vec<Range<usize>>> {
        let keys = self.keys(light)?;
        match keys.is_empty() {
            true => Ok(std::iter::once(0..light.num_rows()).collect()),
            false => Ok(partition(&keys)?.ranges()),
        }
    }

    /// Whether the first row of `next` is in the partition of `first`.
    fn is_same(&self, first: &RecordBatch, next: &RecordBatch) -> Result<bool> {
        for (first, next) in self.keys(first)?.into_iter().zip(self.keys(&next.slice(0, 1))?) {
            if arrow::compute::kernels::cmp::distinct(&first, &next)?.value(0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn keys(&self, light: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let keys = self.functions.first().map_or(&[][..], |function| function.partition_by());
        keys.iter().map(|key| key.evaluate(light)?.into_array(light.num_rows())).collect()
    }
}

/// A function's values in a partition.
enum Value {
    One(ScalarValue),
    Each(ArrayRef),
}
