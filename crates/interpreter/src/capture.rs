//! The result sets of a call, collected for a table.

use arrow::record_batch::RecordBatch;
use hobt_base::SqlError;
use hobt_functions::array_value;
use hobt_types::TypedValue;

use super::event::ResultColumn;
use super::failure::Failure;
use crate::insert_target::column_count;

/// Collects result sets for a table instead of sending them to the client: `INSERT … EXEC`.
#[derive(Debug)]
pub(crate) struct Capture {
    /// The required number of columns of each result set.
    width: usize,
    /// `@@TRANCOUNT` when the call began.
    pub(crate) transaction_count: usize,
    pub(crate) rows: Vec<Vec<TypedValue>>,
    batches: Vec<RecordBatch>,
}

impl Capture {
    /// Collects result sets of `width` columns.
    pub(crate) fn new(width: usize, transaction_count: usize) -> Capture {
        Capture { width, transaction_count, rows: Vec::new(), batches: Vec::new() }
    }

    /// Adds a batch of the current result set.
    pub(crate) fn push(&mut self, batch: RecordBatch) {
        self.batches.push(batch);
    }

    /// Ends the result set.
    ///
    /// # Errors
    /// 213 for a wrong number of columns; this ends the batch, not only the call.
    pub(crate) fn end(&mut self, columns: Vec<ResultColumn>) -> Result<(), Failure> {
        if columns.len() != self.width {
            return Err(Failure { dooms: true, ..Failure::of_batch(column_count()) });
        }
        for batch in std::mem::take(&mut self.batches) {
            for row in 0..batch.num_rows() {
                let values = batch.columns().iter().zip(&columns).map(|(array, column)| {
                    let value = array_value(array.as_ref(), row, column.sql_type)?;
                    Ok(TypedValue { sql_type: column.sql_type, value })
                });
                self.rows.push(values.collect::<Result<_, SqlError>>()?);
            }
        }
        Ok(())
    }
}
