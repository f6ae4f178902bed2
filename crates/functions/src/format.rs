//! The text of values as `sqlcmd` prints them.
use arrow::array::Array;
use hobt_base::SqlError;
use hobt_types::SqlType;

/// The text of the value at `row`; `NULL` for NULL.
///
/// # Errors
/// An internal error when `array` does not have the type's carrier.
pub fn format_value(_array: &dyn Array, _row: usize, sql_type: SqlType) -> Result<String, SqlError> {
    Err(SqlError::not_supported(sql_type))
}
