//! Constants: their types and values.

use hobt_base::{Position, SqlError, number};
use hobt_functions::cast_array;
use hobt_functions::{array_value, value_to_array};
use hobt_tsql::ast::Literal;
use hobt_types::{MaxLength, SqlType, Value};

use super::bound::{BoundExpr, Constant};

/// The expression of a constant.
///
/// # Errors
/// 1007 for a number beyond 38 digits, 168 for a float beyond its type, 8115 for money beyond its own.
pub(crate) fn bind_literal(literal: &Literal, position: Position) -> Result<BoundExpr, SqlError> {
    match literal {
        Literal::Null => BoundExpr::null(position),
        Literal::Integer(value) => {
            let mut bound = match i32::try_from(*value) {
                Ok(small) => BoundExpr::literal(Value::Int(i64::from(small)), SqlType::Int, position)?,
                Err(_) => decimal_literal(&value.to_string(), position)?,
            };
            bound.constant = Constant::Integer;
            Ok(bound)
        }
        Literal::Decimal(text) => decimal_literal(text, position),
        Literal::Float(text) => {
            let value: f64 = text.parse().map_err(|_| too_large(text))?;
            if !value.is_finite() {
                let message = format!(
                    "The floating point value '{text}' is out of the range of computer representation (8 bytes)."
                );
                return Err(SqlError::new(number::FLOAT_LITERAL_RANGE, message).at(position));
            }
            BoundExpr::literal(Value::Float(value), SqlType::Float, position)
        }
        Literal::Money(text) => {
            let text = if text.is_empty() { "0" } else { text };
            let exact = decimal_literal(text, position)?;
            let value = convert_value(exact.literal.as_ref().unwrap_or(&Value::Null), exact.sql_type, SqlType::Money)
                .map_err(|error| error.at(position))?;
            BoundExpr::literal(value, SqlType::Money, position)
        }
        Literal::String { value, national } => {
            let sql_type = string_type(value, *national);
            BoundExpr::literal(Value::Text(value.to_string()), sql_type, position)
        }
        Literal::Binary(bytes) => {
            let length = match u16::try_from(bytes.len().max(1)) {
                Ok(length @ ..=8000) => MaxLength::Limited(length),
                _ => MaxLength::Max,
            };
            BoundExpr::literal(Value::Binary(bytes.to_vec()), SqlType::VarBinary(length), position)
        }
    }
}

/// The type of a string constant; its length is that of the text.
fn string_type(value: &str, national: bool) -> SqlType {
    let units = value.encode_utf16().count().max(1);
    let limit = if national { 4000 } else { 8000 };
    let length = match u16::try_from(units) {
        Ok(length) if length <= limit => MaxLength::Limited(length),
        _ => MaxLength::Max,
    };
    if national { SqlType::NVarChar(length) } else { SqlType::VarChar(length) }
}

fn too_large(text: &str) -> SqlError {
    SqlError::new(
        1007,
        format!("The number '{text}' is out of the range for numeric representation (maximum precision 38)."),
    )
}

/// A decimal constant, whose precision and scale are exactly those of its digits.
fn decimal_literal(text: &str, position: Position) -> Result<BoundExpr, SqlError> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let negative = whole.starts_with('-');
    let whole = whole.trim_start_matches(['-', '+']).trim_start_matches('0');
    let digits = whole.len() + fraction.len();
    if digits > 38 {
        return Err(too_large(text).at(position));
    }
    let mut unscaled: i128 = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        if !byte.is_ascii_digit() {
            return Err(SqlError::new(number::SYNTAX, format!("Incorrect syntax near '{text}'.")).at(position));
        }
        unscaled = unscaled * 10 + i128::from(byte - b'0');
    }
    let precision = u8::try_from(digits.max(1)).unwrap_or(38);
    let scale = u8::try_from(fraction.len()).unwrap_or(0);
    let value = if negative { -unscaled } else { unscaled };
    BoundExpr::literal(Value::Decimal(value), SqlType::Decimal { precision, scale }, position)
}

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
