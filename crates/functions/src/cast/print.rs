//! Conversions to text from everything except binary.
//!
//! Without a style: numbers in full, `float` with up to six digits, money with two decimals, `datetime` as
//! `Nov 21 2026  2:00AM`, the newer temporal types as ISO 8601.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewBuilder};
use hobt_base::{SqlError, errors};
use hobt_types::{MaxLength, SqlType, Value};

use super::width::fit;
use super::{Mode, digits, guid_text};
use crate::carrier::array_value;
use crate::date;
use crate::decimal;
use crate::error::{message_name, overflow, overflow_float, overflow_from};
use crate::format::float_text;
use crate::type_rules::declared_length;

pub(super) fn to_text(array: &ArrayRef, from: SqlType, to: SqlType, mode: Mode) -> Result<ArrayRef, SqlError> {
    // Neither whole numbers nor decimals have styles.
    if let Some(printed) = digits::print(array, from, to) {
        return printed;
    }
    let mut builder = StringViewBuilder::with_capacity(array.len());
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
            continue;
        }
        let value = array_value(array, row, from)?;
        match squeeze(print_value(&value, from, mode.style)?, &value, from, to) {
            Ok(text) => builder.append_value(fit(&text, to)),
            Err(_) if mode.try_cast => builder.append_null(),
            Err(error) => return Err(error),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// The result for a printed value that is longer than the target ("Truncating and rounding results"): integers become
/// `*` in `char` and `varchar`, other numbers and guids are an error, dates are truncated.
fn squeeze(text: String, value: &Value, from: SqlType, to: SqlType) -> Result<String, SqlError> {
    let Some(MaxLength::Limited(limit)) = declared_length(to) else {
        return Ok(text);
    };
    if text.len() <= usize::from(limit) || from.is_temporal() {
        return Ok(text);
    }
    match from {
        SqlType::TinyInt | SqlType::SmallInt | SqlType::Int if !to.is_national() => Ok("*".to_string()),
        SqlType::Money | SqlType::SmallMoney => Err(errors::INSUFFICIENT_SPACE.with([&from.name(), &to.name()])),
        SqlType::UniqueIdentifier => Err(errors::GUID_SPACE.error()),
        SqlType::Decimal { .. } => Err(overflow_from(message_name(from), to)),
        _ => Err(match value {
            Value::Float(value) if !to.is_national() => overflow_float(to, *value),
            _ => overflow(to),
        }),
    }
}

/// Prints a value that is not NULL, text or binary, as `CONVERT` does.
///
/// # Errors
/// 281 for an unknown style of a temporal type.
pub(crate) fn print_value(value: &Value, from: SqlType, style: Option<i32>) -> Result<String, SqlError> {
    let style_number = style.unwrap_or(0);
    let mut text = String::new();
    match (value, from) {
        (Value::Int(unscaled), SqlType::Money | SqlType::SmallMoney) => {
            let unscaled = i128::from(*unscaled);
            if style_number == 2 || style_number == 126 {
                decimal::to_text(unscaled, 4, &mut text);
            } else {
                decimal::to_text(decimal::divide_round(unscaled, 100), 2, &mut text);
                if style_number == 1 {
                    text = with_commas(&text);
                }
            }
        }
        (Value::Int(value), _) if from.is_temporal() => {
            return date::to_text(*value, from, style)
                .ok_or_else(|| errors::INVALID_STYLE.with([&style_number, &from.name()]));
        }
        (Value::Int(value), _) => text = value.to_string(),
        (Value::Decimal(unscaled), _) => decimal::to_text(*unscaled, from.scale(), &mut text),
        (Value::Float(value), _) => {
            text = match style_number {
                1 => float_text::scientific(*value, 8),
                2 => float_text::scientific(*value, 16),
                3 => float_text::general(*value, if from == SqlType::Real { 9 } else { 17 }, "e"),
                _ => float_text::general(*value, 6, "e"),
            }
        }
        (Value::Guid(sorted), _) => text = guid_text(*sorted),
        (Value::Text(inner), _) => text.push_str(inner),
        (Value::Null | Value::Binary(_), _) => {
            return Err(SqlError::internal(format!("{value:?} has no printed form")));
        }
    }
    Ok(text)
}

/// `-1234567.89` as `-1,234,567.89`.
fn with_commas(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = String::from(sign);
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}
