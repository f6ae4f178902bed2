//! Rows that are read from somewhere batch by batch, as a table of a query.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::{TableType, provider_as_source};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::memory::LazyBatchGenerator;
use hobt_base::SqlError;
use hobt_udf::external;
use parking_lot::RwLock;

use crate::RowSource;
use crate::series::generated_rows;

/// Batches that are being read.
pub type BatchReading = Box<dyn Iterator<Item = Result<RecordBatch, SqlError>> + Send + Sync>;

/// Begins to read all batches.
pub type OpenBatches = Arc<dyn Fn() -> Result<BatchReading, SqlError> + Send + Sync>;

/// Rows that `open` reads each time that a query needs them, in batches with the columns of `schema`.
pub fn streamed_rows(schema: SchemaRef, open: OpenBatches) -> RowSource {
    provider_as_source(Arc::new(StreamedRows { schema, open }))
}

struct StreamedRows {
    schema: SchemaRef,
    open: OpenBatches,
}

impl fmt::Debug for StreamedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamedRows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for StreamedRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (schema, open) = (Arc::clone(&self.schema), Arc::clone(&self.open));
        let stream = Stream { schema, open, batches: None, rest: None, rows_max: session.config().batch_size() };
        generated_rows(self.schema(), stream, projection)
    }
}

/// The state of rows that are being read.
struct Stream {
    schema: SchemaRef,
    open: OpenBatches,
    /// `None` before the first batch.
    batches: Option<BatchReading>,
    /// The part of a batch that is still to be given.
    rest: Option<RecordBatch>,
    /// Rows of a batch, the size that operators above are made for.
    rows_max: usize,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows that are read batch by batch")
    }
}

impl Stream {
    fn next(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        let batches = match &mut self.batches {
            Some(batches) => batches,
            None => self.batches.insert((self.open)()?),
        };
        batches.next().transpose()
    }
}

impl LazyBatchGenerator for Stream {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn generate_next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.next().map_err(external)? else { return Ok(None) };
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec())?;
        if batch.num_rows() <= self.rows_max {
            return Ok(Some(batch));
        }
        self.rest = Some(batch.slice(self.rows_max, batch.num_rows() - self.rows_max));
        Ok(Some(batch.slice(0, self.rows_max)))
    }

    fn reset_state(&self) -> Arc<RwLock<dyn LazyBatchGenerator>> {
        let (schema, open) = (Arc::clone(&self.schema), Arc::clone(&self.open));
        Arc::new(RwLock::new(Stream { schema, open, batches: None, rest: None, rows_max: self.rows_max }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int32Array;
    use arrow::datatypes::{DataType, Field, Schema};

    #[test]
    fn long_batches_come_in_pieces_and_all_rows_come_again() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
        let batches: Vec<RecordBatch> = [0..70, 70..71]
            .into_iter()
            .map(|values| {
                let values = Int32Array::from_iter_values(values);
                RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]).expect("a batch")
            })
            .collect();
        let open: OpenBatches = Arc::new(move || Ok(Box::new(batches.clone().into_iter().map(Ok))));
        let mut stream = Stream { schema, open, batches: None, rest: None, rows_max: 32 };
        for _ in 0..2 {
            let again = stream.reset_state();
            let lengths = std::iter::from_fn(|| again.write().generate_next_batch().expect("a batch"));
            assert_eq!(lengths.map(|batch| batch.num_rows()).collect::<Vec<_>>(), [32, 32, 6, 1]);
        }
        assert_eq!(stream.generate_next_batch().expect("a batch").map(|batch| batch.num_rows()), Some(32));
    }
}
