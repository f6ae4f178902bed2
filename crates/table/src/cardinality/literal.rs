//! Constants: their types and values.

use hobt_base::{Position, SqlError, errors};
use hobt_functions::convert_value;
use hobt_tsql::ast::Literal;
use hobt_types::{MaxLength, SqlType, TypedValue, Value};

/// The value and type of a constant. An integer beyond `int` is a decimal.
///
/// # Errors
/// 1007 for a number beyond 38 digits, 168 for a float beyond its type, 8115 for money beyond its own.
pub fn literal_value(literal: &Literal, position: Position) -> Result<TypedValue, SqlError> {
    let typed = |value, sql_type| TypedValue { value, sql_type };
    Ok(match literal {
        Literal::Null => typed(Value::Null, SqlType::Int),
        Literal::Integer(value) => match i32::try_from(*value) {
            Ok(small) => typed(Value::Int(i64::from(small)), SqlType::Int),
            Err(_) => decimal_literal(&value.to_string(), position)?,
        },
        Literal::Decimal(text) => decimal_literal(text, position)?,
        Literal::Float(text) => {
            let value: f64 = text.parse().map_err(|_| too_large(text))?;
            if !value.is_finite() {
                return Err(errors::FLOAT_LITERAL_RANGE.with([&text]).at(position));
            }
            typed(Value::Float(value), SqlType::Float)
        }
        Literal::Money(text) => {
            let exact = decimal_literal(if text.is_empty() { "0" } else { text }, position)?;
            let value = convert_value(&exact.value, exact.sql_type, SqlType::Money);
            typed(value.map_err(|error| error.at(position))?, SqlType::Money)
        }
        Literal::String { value, national } => typed(Value::Text(value.to_string()), string_type(value, *national)),
        Literal::Binary(bytes) => {
            let length = match u16::try_from(bytes.len().max(1)) {
                Ok(length @ ..=8000) => MaxLength::Limited(length),
                _ => MaxLength::Max,
            };
            typed(Value::Binary(bytes.to_vec()), SqlType::VarBinary(length))
        }
    })
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
    errors::NUMBER_RANGE.with([&text])
}

/// A decimal constant, whose precision and scale are exactly those of its digits.
fn decimal_literal(text: &str, position: Position) -> Result<TypedValue, SqlError> {
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
            return Err(errors::SYNTAX.with([&text]).at(position));
        }
        unscaled = unscaled * 10 + i128::from(byte - b'0');
    }
    let precision = u8::try_from(digits.max(1)).unwrap_or(38);
    let scale = u8::try_from(fraction.len()).unwrap_or(0);
    let value = if negative { -unscaled } else { unscaled };
    Ok(TypedValue { value: Value::Decimal(value), sql_type: SqlType::Decimal { precision, scale } })
}
