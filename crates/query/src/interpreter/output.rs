//! Rows on their way out: as an embedding program sees them, and as text.

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use hobt_base::SqlError;
use hobt_functions::{format_value, output_array, output_field};

use super::event::ResultColumn;

/// A batch of carriers in the types that an embedding program sees: `bit` as `Boolean`, the `datetime` family as
/// `Timestamp(µs)`, `time` as `Time64(ns)`. Each field has the SQL type as metadata `hobt.sql_type`.
///
/// # Errors
/// An internal error for a batch that is not of these columns.
pub fn output_batch(columns: &[ResultColumn], batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
    let fields: Vec<_> =
        columns.iter().map(|column| output_field(&column.name, column.sql_type, column.nullable)).collect();
    let arrays = batch.columns().iter().zip(columns).map(|(array, column)| output_array(array, column.sql_type));
    let arrays = arrays.collect::<Result<Vec<_>, SqlError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| SqlError::internal(error.to_string()))
}

/// The text of one value of a batch of carriers, as `sqlcmd` prints it; `None` for NULL.
///
/// # Errors
/// An internal error for a column that is not in its type's carrier.
///
/// # Panics
/// For a row or column outside the batch.
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
