//! Functions of few rows around theirs: the rows wait until the functions' columns for them have come.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use futures::{StreamExt, TryStreamExt};
use hobt_table::StatementRun;
use parking_lot::Mutex;

use super::light::Light;
use super::waiting::Waiting;
use crate::spill_join::OnceStreamExec;

/// The rows of a partition of the input, in their order, with the functions' columns.
pub(super) fn rows(
    windows: &BoundedWindowAggExec,
    partition: usize,
    context: &Arc<TaskContext>,
    run: &Arc<StatementRun>,
) -> Result<SendableRecordBatchStream> {
    let input = windows.input();
    let mut light = Light::of(windows.window_expr(), &input.schema());
    // The order that the operator relies on. The input's own may leave out what is constant.
    let order = windows.window_expr().first().and_then(|first| {
        let keys = first.partition_by().iter().map(|key| PhysicalSortExpr::new_default(Arc::clone(key)));
        LexOrdering::new(keys.chain(first.order_by().iter().cloned()))
    });
    let properties = EquivalenceProperties::new_with_orderings(Arc::clone(light.schema()), order);
    let reservation = MemoryConsumer::new("Window").register(context.memory_pool());
    let waiting = Arc::new(Mutex::new(Waiting::new(run, reservation)));
    let read = {
        let waiting = Arc::clone(&waiting);
        input.execute(partition, Arc::clone(context))?.map(move |batch| {
            let batch = batch?;
            let made = light.rows(&batch)?;
            if batch.num_rows() > 0 {
                waiting.lock().push(batch, &made)?;
            }
            Ok(made)
        })
    };
    let read = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(properties.schema()), read));
    let source = OnceStreamExec::once_in_order(properties, read);
    let computed =
        BoundedWindowAggExec::try_new(windows.window_expr().to_vec(), source, InputOrderMode::Sorted, false)?;
    let computed = computed.execute(0, Arc::clone(context))?;
    let (schema, before) = (windows.schema(), input.schema().fields().len());
    let made = {
        let schema = Arc::clone(&schema);
        computed.map_ok(move |columns| {
            let rows = joined(&waiting, &columns, before, &schema);
            futures::stream::iter(rows)
        })
    };
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, made.try_flatten())))
}

/// The next rows that wait, with the columns that were computed for them, which begin at `before`.
fn joined(
    waiting: &Mutex<Waiting>,
    computed: &RecordBatch,
    before: usize,
    schema: &SchemaRef,
) -> Vec<Result<RecordBatch>> {
    let (mut made, mut at) = (Vec::new(), 0);
    let mut waiting = waiting.lock();
    while at < computed.num_rows() {
        let rows = match waiting.pop(computed.num_rows() - at) {
            Ok(rows) => rows,
            Err(error) => {
                made.push(Err(error));
                break;
            }
        };
        let of_rows = computed.columns()[before..].iter().map(|column| column.slice(at, rows.num_rows()));
        let columns = rows.columns().iter().cloned().chain(of_rows).collect();
        at += rows.num_rows();
        made.push(RecordBatch::try_new(Arc::clone(schema), columns).map_err(Into::into));
    }
    made
}
