//! The text of values as `sqlcmd` prints them.
//!
//! Differences from `CONVERT`: money has four decimals, `datetime` is ISO 8601, floating point shows all its digits,
//! binary is hexadecimal.

pub(crate) mod float_text;

use arrow::array::Array;
use hobt_base::SqlError;
use hobt_types::{SqlType, Value};

use crate::carrier::array_value;
use crate::cast::{hex_text, print_value};

/// The text of the value at `row`; `NULL` for NULL.
///
/// # Errors
/// An internal error if `array` does not have the type's carrier.
pub fn format_value(array: &dyn Array, row: usize, sql_type: SqlType) -> Result<String, SqlError> {
    format_single(&array_value(array, row, sql_type)?, sql_type)
}

/// The text of one value; `NULL` for NULL.
///
/// # Errors
/// An internal error if the value does not belong to the type.
pub fn format_single(value: &Value, sql_type: SqlType) -> Result<String, SqlError> {
    match (value, sql_type) {
        (Value::Null, _) => Ok("NULL".to_string()),
        (Value::Text(text), _) => Ok(text.clone()),
        (Value::Binary(bytes), _) => Ok(hex_text(bytes)),
        (Value::Float(value), SqlType::Real) => Ok(float_text::shortest(*value as f32)),
        (Value::Float(value), _) => Ok(float_text::general(*value, 17, "E")),
        (_, SqlType::Money | SqlType::SmallMoney) => print_value(value, sql_type, Some(2)),
        (_, SqlType::SmallDateTime) => print_value(value, sql_type, Some(120)),
        _ if sql_type.is_temporal() => print_value(value, sql_type, Some(121)),
        _ => print_value(value, sql_type, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Value, sql_type: SqlType) -> String {
        format_single(&value, sql_type).unwrap()
    }

    #[test]
    fn values_print_as_sqlcmd_prints_them() {
        assert_eq!(text(Value::Int(17_952_768_000_000_000), SqlType::DateTime), "2026-11-21 16:00:00.000");
        assert_eq!(text(Value::Int(12_345), SqlType::Money), "1.2345");
        assert_eq!(text(Value::Float(0.1), SqlType::Float), "0.10000000000000001");
        assert_eq!(text(Value::Float(2.5), SqlType::Float), "2.5");
        assert_eq!(text(Value::Float(5.0), SqlType::Float), "5");
        assert_eq!(text(Value::Float(0.0), SqlType::Float), "0");
        assert_eq!(text(Value::Float(f64::from(0.1f32)), SqlType::Real), "0.1");
        assert_eq!(text(Value::Float(1e20), SqlType::Float), "1E+20");
        assert_eq!(text(Value::Int(1), SqlType::Bit), "1");
        assert_eq!(text(Value::Binary(vec![1, 0xAB]), SqlType::Binary(2)), "0x01AB");
        assert_eq!(text(Value::Null, SqlType::Int), "NULL");
        assert_eq!(text(Value::Decimal(-5), SqlType::Decimal { precision: 5, scale: 2 }), "-0.05");
    }
}
