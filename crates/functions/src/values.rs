//! Conversions of single values, and of rows of them, to and from carriers.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use hobt_base::SqlError;
use hobt_types::{SqlType, Value};

use crate::carrier::values_to_array;
use crate::{array_value, cast_array, format_value, value_to_array};

/// Converts a single value to another type.
///
/// # Errors
/// Those of the conversion.
pub fn convert_value(value: &Value, from: SqlType, to: SqlType) -> Result<Value, SqlError> {
    if from == to {
        return Ok(value.clone());
    }
    let array = value_to_array(value, from)?;
    let array = cast_array(&array, from, to, None, false)?;
    array_value(array.as_ref(), 0, to)
}

/// Rows of values as a batch of carriers.
///
/// # Errors
/// Internal error for a row of the wrong length, or for a value that is not of its column's type.
pub fn batch_of_values(schema: SchemaRef, types: &[SqlType], rows: &[Vec<Value>]) -> Result<RecordBatch, SqlError> {
    let internal = |error: arrow::error::ArrowError| SqlError::internal(error.to_string());
    if rows.iter().any(|row| row.len() != types.len()) {
        return Err(SqlError::internal("a row has another number of values than its table has columns"));
    }
    let columns = (types.iter().enumerate())
        .map(|(index, &sql_type)| values_to_array(rows.iter().map(|row| &row[index]), sql_type))
        .collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(internal)
}

/// A value's text, as clients print it.
///
/// # Errors
/// Internal error for a value that is not of its type.
pub fn value_text(value: &Value, sql_type: SqlType) -> Result<String, SqlError> {
    let array = value_to_array(value, sql_type)?;
    format_value(array.as_ref(), 0, sql_type)
}
