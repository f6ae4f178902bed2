//! Batches as a sort can take them.
//!
//! A sort must have a batch in memory, and room for its sorted copy, before it can write any of its rows to disk. It
//! counts all buffers of the batch. But a merge, a window or a join gives batches that hold buffers of many others, and
//! batches that are as long as its own input happened to be. So such a batch is copied to buffers of its own, in pieces
//! if it is long.
//!
//! A sort orders each batch by itself and merges them all. To merge costs a comparison for each doubling of their
//! number, far from each other in memory, where to order a batch that the processor's cache holds costs less. So where
//! memory allows it, short batches are put together. Not those with texts or binary values: a sort counts the buffers
//! of a batch once for each batch of usual length that it makes of it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, RecordBatchStream, ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::{Stream, StreamExt};
use hobt_base::SqlError;
use hobt_udf::{external, sql_error_of};

use crate::held::bytes_of;
use crate::inputs::{passes_on, shows_its_name, without_expressions};
use crate::scan_exec::batch_bytes;
use crate::spill_join::own_buffers;

/// Bytes of other rows that a batch may hold, beside as many as its own.
const SPARE_BYTES: u64 = 4096;
/// Rows up to which batches are put together, and their bytes: about half of a core's second-level cache.
const TOGETHER_ROWS: usize = 1 << 16;
const TOGETHER_BYTES: u64 = 1 << 20;

/// The plan with an operator below each sort that cuts long batches and puts short ones together. A sort that wants
/// only the first rows has none: it copies the rows that it keeps.
///
/// # Errors
/// A sort rejects its new input.
pub fn sorting_short_batches(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let made = plan.transform_up(|node| {
        let Some(sort) = node.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) else {
            return Ok(Transformed::no(node));
        };
        let input = Arc::new(ShortBatchesExec { input: Arc::clone(sort.input()) });
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        Ok(Transformed::yes(node.replace_children(vec![input], options)?))
    });
    made.data().map_err(sql_error_of)
}

/// Cuts long batches, puts short ones together, and copies those that hold many bytes of other rows.
#[derive(Debug)]
pub(crate) struct ShortBatchesExec {
    input: Arc<dyn ExecutionPlan>,
}

impl ShortBatchesExec {
    fn over(&self, input: Arc<dyn ExecutionPlan>) -> ShortBatchesExec {
        ShortBatchesExec { input }
    }
}

shows_its_name!(ShortBatchesExec);

impl ExecutionPlan for ShortBatchesExec {
    passes_on!(input);
    without_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let bytes_max = batch_bytes(&context, self.input.output_partitioning().partition_count()) as u64;
        let input = self.input.execute(partition, context)?;
        let is_view = |kind: &DataType| matches!(kind, DataType::Utf8View | DataType::BinaryView);
        let has_views = input.schema().fields().iter().any(|field| is_view(field.data_type()));
        let together = if has_views || bytes_max < TOGETHER_BYTES { 0 } else { TOGETHER_BYTES };
        Ok(Box::pin(ShortBatches::new(input, bytes_max, together)))
    }
}

struct ShortBatches {
    input: SendableRecordBatchStream,
    bytes_max: u64,
    /// Batches are put together up to so many bytes.
    together_bytes: u64,
    /// What is left of the last batch.
    pieces: VecDeque<RecordBatch>,
    /// Short batches that are put together, and their bytes.
    short: Vec<RecordBatch>,
    short_bytes: u64,
    is_over: bool,
}

impl ShortBatches {
    fn new(input: SendableRecordBatchStream, bytes_max: u64, together_bytes: u64) -> ShortBatches {
        let (pieces, short) = (VecDeque::new(), Vec::new());
        ShortBatches { input, bytes_max, together_bytes, pieces, short, short_bytes: 0, is_over: false }
    }

    /// Takes a piece that is short enough; gives what is complete by it.
    fn put(&mut self, piece: RecordBatch) -> Result<Option<RecordBatch>> {
        let bytes = get_record_batch_memory_size(&piece) as u64;
        let rows = self.short.iter().map(RecordBatch::num_rows).sum::<usize>() + piece.num_rows();
        let together = if self.short_bytes + bytes > self.together_bytes || rows > TOGETHER_ROWS {
            self.together()?
        } else {
            None
        };
        self.short_bytes += bytes;
        self.short.push(piece);
        Ok(together)
    }

    /// The short batches as one; `None` if there are none.
    fn together(&mut self) -> Result<Option<RecordBatch>> {
        self.short_bytes = 0;
        let short = std::mem::take(&mut self.short);
        Ok(match short.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            [first, ..] => Some(concat_batches(first.schema_ref(), &short)?),
        })
    }

    /// The first piece that is short enough; `None` if nothing is left.
    fn next_piece(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(batch) = self.pieces.pop_front() {
            let (rows, bytes) = (batch.num_rows(), bytes_of(&batch).map_err(external)?);
            if bytes <= self.bytes_max || rows == 1 {
                let is_loose = get_record_batch_memory_size(&batch) as u64 > 2 * bytes + SPARE_BYTES;
                return if is_loose { own_buffers(&batch).map(Some) } else { Ok(Some(batch)) };
            }
            self.pieces.push_front(batch.slice(rows / 2, rows - rows / 2));
            self.pieces.push_front(batch.slice(0, rows / 2));
        }
        Ok(None)
    }
}

impl Stream for ShortBatches {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match self.next_piece() {
                Ok(None) => {}
                Ok(Some(piece)) => match self.put(piece).transpose() {
                    None => continue,
                    complete => return Poll::Ready(complete),
                },
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
            if self.is_over {
                return Poll::Ready(self.together().transpose());
            }
            match ready!(self.input.poll_next_unpin(task)) {
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => self.pieces.push_back(batch),
                None => self.is_over = true,
                failed => return Poll::Ready(failed),
            }
        }
    }
}

impl RecordBatchStream for ShortBatches {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int32Array, StringViewArray};
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

    use super::*;

    #[test]
    fn all_rows_come_in_order_and_no_batch_counts_much_more_than_is_asked() {
        let texts = (0..1000).map(|row| format!("{row:0width$}", width = 20 + row % 500));
        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(Int32Array::from_iter_values(0..1000))),
            ("s", Arc::new(texts.map(Some).collect::<StringViewArray>())),
        ];
        let rows = RecordBatch::try_from_iter(columns).expect("a batch");
        let short = (0..5).map(|at| rows.slice(993 + at, 1));
        let batches = [rows.slice(0, 3), rows.slice(3, 990), rows.slice(993, 0)].into_iter().chain(short);
        let batches: Vec<_> = batches.chain([rows.slice(998, 2)]).collect();
        for bytes_max in [1, 5_000, 40_000, 10 << 20] {
            let input = futures::stream::iter(batches.clone().into_iter().map(Ok));
            let input = Box::pin(RecordBatchStreamAdapter::new(rows.schema(), input));
            let given = ShortBatches::new(input, bytes_max, bytes_max.min(TOGETHER_BYTES));
            let given: Vec<_> = futures::executor::block_on(given.map(|batch| batch.expect("rows")).collect());
            assert_eq!(concat_batches(&rows.schema(), &given).expect("one batch"), rows);
            for batch in &given {
                let counted = get_record_batch_memory_size(batch) as u64;
                assert!(
                    batch.num_rows() == 1 || counted <= 2 * bytes_max + 2 * SPARE_BYTES,
                    "{counted} of {bytes_max}"
                );
            }
        }
    }
}
