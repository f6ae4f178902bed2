//! Conversion of result rows for output: to an embedding program's types, and to text.

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use hobt_base::SqlError;
use hobt_functions::{format_value, output_array, output_field};

use super::event::ResultColumn;

/// Converts a batch of carriers to the types that an embedding program sees: `bit` becomes `Boolean`, the `datetime`
/// family `Timestamp(µs)`, `time` `Time64(ns)`. Each field has the SQL type as metadata `hobt.sql_type`.
///
/// # Errors
/// Internal error if the batch does not have these columns.
pub fn output_batch(columns: &[ResultColumn], batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
    let fields: Vec<_> =
        columns.iter().map(|column| output_field(&column.name, column.sql_type, column.nullable)).collect();
    let arrays = batch.columns().iter().zip(columns).map(|(array, column)| output_array(array, column.sql_type));
    let arrays = arrays.collect::<Result<Vec<_>, SqlError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| SqlError::internal(error.to_string()))
}

/// The text of one value of a batch of carriers, as `sqlcmd` prints it. `None` for NULL.
///
/// # Errors
/// Internal error if the column is not in its type's carrier.
///
/// # Panics
/// If the row or column is outside the batch.
pub fn cell_text(
    columns: &[ResultColumn],
    batch: &RecordBatch,
    row: usize,
    column: usize,
) -> Result<Option<String>, SqlError> {
    let array = batch.column(column);
    if array.is_null(row) {
        return Ok(None);
    }
    format_value(array.as_ref(), row, columns[column].sql_type).map(Some)
}
