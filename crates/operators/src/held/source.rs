//! Held batches as a table of a query.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use hobt_base::SqlError;
use hobt_table::{BatchReading, OpenBatches, RowSource, rows_in_memory, streamed_rows};
use hobt_udf::sql_error_of;

use super::{HeldBatches, RowsOfFile, arrow_error};
use crate::spill_join::own_buffers;

impl HeldBatches {
    /// The rows as a table with the columns of `schema`, in the order of the batches' columns. They must be held as
    /// long as the table is read.
    ///
    /// # Errors
    /// 1105 and 823 of a spill file; an internal error if a batch has other columns.
    pub fn source(&mut self, schema: SchemaRef) -> Result<RowSource, SqlError> {
        if let Some(file) = &mut self.file {
            let (open_file, left) = (file.reopen()?, self.rows);
            let open: OpenBatches = Arc::new(move || {
                let batches = RowsOfFile { batches: open_file()?, left };
                // Operators count each column with the one buffer that all columns of a batch share.
                let batches = batches.map(|batch| own_buffers(&batch?).map_err(sql_error_of));
                Ok(Box::new(batches) as BatchReading)
            });
            return Ok(streamed_rows(schema, open));
        }
        let of_schema = |batch: &RecordBatch| RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec());
        let batches = self.batches.iter().map(of_schema).collect::<Result<Vec<_>, _>>().map_err(arrow_error)?;
        rows_in_memory(schema, batches)
    }
}
