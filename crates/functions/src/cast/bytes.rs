//! Conversions from and to binary: numbers big-endian, text in SQL Server's bytes, guids in storage order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, StringViewBuilder};
use arrow::datatypes::{Date32Type, Decimal128Type, Int16Type, Int32Type, Int64Type, UInt8Type};
use hobt_base::SqlError;
use hobt_types::{MaxLength, SqlType, Value};

use super::number::{decimal_target, shaped};
use super::parse::guids;
use super::width::fit;
use super::{Mode, convert_each};
use crate::carrier::{array_value, guid_from_sort_order, guid_to_sort_order, not_the_carrier};
use crate::date::{BASE_DAY, BASE_TICKS, TICKS_PER_DAY, TICKS_PER_SECOND, datetime_in_range, round_to_datetime, split};
use crate::error::{conversion_type, datetime_of_binary, overflow_from};
use crate::text::code_page;
use crate::type_rules::declared_length;

pub(super) fn cast(array: &ArrayRef, from: SqlType, to: SqlType, mode: Mode) -> Result<ArrayRef, SqlError> {
    if !from.is_binary() {
        return to_binary(array, from, to, mode);
    }
    let bytes = array.as_binary_view_opt().ok_or_else(|| not_the_carrier(array, from))?;
    match to {
        _ if to.is_binary() => binary_to_binary(array, bytes, from, to),
        _ if to.is_text() => binary_to_text(bytes, to, mode),
        SqlType::UniqueIdentifier => guids(array, mode, |row| {
            let mut stored = [0; 16];
            let value = bytes.value(row);
            let length = value.len().min(16);
            stored[..length].copy_from_slice(&value[..length]);
            Ok(guid_to_sort_order(stored))
        }),
        _ => binary_to_number(array, bytes, from, to, mode),
    }
}

/// Gives `value` the length of the binary type `to`: it is cut on the right, and padded there for `binary`.
fn fit_bytes(value: &mut Vec<u8>, to: SqlType) {
    if let Some(MaxLength::Limited(limit)) = declared_length(to) {
        let limit = usize::from(limit);
        value.truncate(limit);
        if matches!(to, SqlType::Binary(_)) {
            value.resize(limit, 0);
        }
    }
}

/// A number's bytes: the rightmost ones are kept, and `binary` is padded with zeros on the left.
fn fit_number(value: &[u8], to: SqlType) -> Vec<u8> {
    match declared_length(to) {
        Some(MaxLength::Limited(limit)) => {
            let limit = usize::from(limit);
            let kept = &value[value.len().saturating_sub(limit)..];
            let zeros = if matches!(to, SqlType::Binary(_)) { limit - kept.len() } else { 0 };
            [&vec![0; zeros], kept].concat()
        }
        _ => value.to_vec(),
    }
}

fn binary_to_binary(
    array: &ArrayRef,
    bytes: &BinaryViewArray,
    from: SqlType,
    to: SqlType,
) -> Result<ArrayRef, SqlError> {
    let fits = match (declared_length(from), declared_length(to)) {
        (_, Some(MaxLength::Max)) => true,
        (Some(MaxLength::Limited(from)), Some(MaxLength::Limited(to))) => from <= to,
        _ => false,
    };
    if fits && !matches!(to, SqlType::Binary(_)) {
        return Ok(Arc::clone(array));
    }
    let mut builder = BinaryViewBuilder::with_capacity(bytes.len());
    for value in bytes {
        builder.append_option(value.map(|value| {
            let mut value = value.to_vec();
            fit_bytes(&mut value, to);
            value
        }));
    }
    Ok(Arc::new(builder.finish()))
}

fn binary_to_text(bytes: &BinaryViewArray, to: SqlType, mode: Mode) -> Result<ArrayRef, SqlError> {
    let mut builder = StringViewBuilder::with_capacity(bytes.len());
    for value in bytes {
        builder.append_option(value.map(|value| {
            let text = match mode.style {
                Some(1) => hex_text(value),
                Some(2) => hex_text(value)[2..].to_string(),
                _ => code_page::decode(value, to),
            };
            fit(&text, to).into_owned()
        }));
    }
    Ok(Arc::new(builder.finish()))
}

/// The rightmost eight bytes as a big-endian number, sign-extended from `width` bytes.
fn rightmost(value: &[u8], width: usize) -> i64 {
    let kept = &value[value.len().saturating_sub(width)..];
    kept.iter().fold(0i64, |number, byte| number << 8 | i64::from(*byte))
}

fn binary_to_number(
    array: &ArrayRef,
    bytes: &BinaryViewArray,
    from: SqlType,
    to: SqlType,
    mode: Mode,
) -> Result<ArrayRef, SqlError> {
    if let Some(target) = decimal_target(to) {
        let read = |row: usize| match to {
            SqlType::Money => Ok(i128::from(rightmost(bytes.value(row), 8))),
            SqlType::SmallMoney => Ok(i128::from(rightmost(bytes.value(row), 4) as i32)),
            _ => decimal_of_bytes(bytes.value(row), from, to, target.shape, target.limit),
        };
        return shaped(convert_each::<Decimal128Type>(array, mode, read)?, target);
    }
    // The casts below keep the low bytes, as the conversion requires.
    Ok(match to {
        SqlType::Bit => Arc::new(convert_each::<UInt8Type>(array, mode, |row| {
            Ok(u8::from(bytes.value(row).iter().any(|byte| *byte != 0)))
        })?),
        SqlType::TinyInt => {
            Arc::new(convert_each::<UInt8Type>(array, mode, |row| Ok(rightmost(bytes.value(row), 1) as u8))?)
        }
        SqlType::SmallInt => {
            Arc::new(convert_each::<Int16Type>(array, mode, |row| Ok(rightmost(bytes.value(row), 2) as i16))?)
        }
        SqlType::Int => {
            Arc::new(convert_each::<Int32Type>(array, mode, |row| Ok(rightmost(bytes.value(row), 4) as i32))?)
        }
        SqlType::BigInt => Arc::new(convert_each::<Int64Type>(array, mode, |row| Ok(rightmost(bytes.value(row), 8)))?),
        SqlType::DateTime | SqlType::SmallDateTime => Arc::new(convert_each::<Int64Type>(array, mode, |row| {
            let ticks = datetime_of_bytes(bytes.value(row), to);
            ticks.filter(|ticks| datetime_in_range(*ticks, to)).ok_or_else(|| datetime_of_binary(to))
        })?),
        SqlType::Date => Arc::new(convert_each::<Date32Type>(array, mode, |_| Err(conversion_type(from, to)))?),
        _ => Arc::new(convert_each::<Int64Type>(array, mode, |_| Err(conversion_type(from, to)))?),
    })
}

/// `datetime` is four bytes of days since 1900 and four of 1/300 s; `smalldatetime` two of days and two of minutes.
/// `None` if the time is longer than a day, or the day is out of range of all types.
fn datetime_of_bytes(value: &[u8], to: SqlType) -> Option<i64> {
    let (days, time) = if to == SqlType::DateTime {
        let number = rightmost(value, 8);
        (number >> 32, (number & 0xFFFF_FFFF) * TICKS_PER_SECOND / 300)
    } else {
        let number = rightmost(value, 4);
        (number >> 16 & 0xFFFF, (number & 0xFFFF) * 60 * TICKS_PER_SECOND)
    };
    let midnight = (days + BASE_DAY).checked_mul(TICKS_PER_DAY).filter(|_| time < TICKS_PER_DAY)?;
    Some(round_to_datetime(midnight.checked_add(time)?, to))
}

/// A decimal's bytes: precision, scale, a reserved byte, the sign (1 for positive), the magnitude little-endian.
fn decimal_of_bytes(
    value: &[u8],
    from: SqlType,
    to: SqlType,
    (_, to_scale): (u8, u8),
    limit: i128,
) -> Result<i128, SqlError> {
    let (Some([precision @ 1..=38, scale, _, sign]), Some(digits)) = (value.get(..4), value.get(4..)) else {
        return Err(conversion_type(from, to));
    };
    if scale > precision || digits.len() > 16 {
        return Err(conversion_type(from, to));
    }
    let magnitude = digits.iter().rev().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    let magnitude = i128::try_from(magnitude).map_err(|_| conversion_type(from, to))?;
    let value = if *sign == 0 { -magnitude } else { magnitude };
    crate::decimal::rescale(value, *scale, to_scale)
        .filter(|value| value.abs() <= limit)
        .ok_or_else(|| overflow_from(from.name(), to))
}

fn to_binary(array: &ArrayRef, from: SqlType, to: SqlType, mode: Mode) -> Result<ArrayRef, SqlError> {
    let mut builder = BinaryViewBuilder::with_capacity(array.len());
    for row in 0..array.len() {
        match array_value(array, row, from)? {
            Value::Null => builder.append_null(),
            Value::Text(text) => {
                let value = match mode.style {
                    Some(style @ (1 | 2)) => parse_hex(&text, style == 1, from, to),
                    _ => {
                        let mut bytes = Vec::new();
                        code_page::encode(&text, from, &mut bytes);
                        Ok(bytes)
                    }
                };
                match value {
                    Ok(mut value) => {
                        fit_bytes(&mut value, to);
                        builder.append_value(value);
                    }
                    Err(_) if mode.try_cast => builder.append_null(),
                    Err(error) => return Err(error),
                }
            }
            Value::Guid(sorted) => {
                let mut value = guid_from_sort_order(sorted).to_vec();
                fit_bytes(&mut value, to);
                builder.append_value(value);
            }
            value => {
                let stored = stored_bytes(&value, from)?;
                if matches!(from, SqlType::Decimal { .. }) {
                    let mut stored = stored;
                    fit_bytes(&mut stored, to);
                    builder.append_value(stored);
                } else {
                    builder.append_value(fit_number(&stored, to));
                }
            }
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// The bytes of a number or a date, big-endian except a decimal's magnitude.
fn stored_bytes(value: &Value, from: SqlType) -> Result<Vec<u8>, SqlError> {
    Ok(match (value, from) {
        // Truncating casts: the value is in its type's range.
        (Value::Int(v), SqlType::Bit | SqlType::TinyInt) => vec![*v as u8],
        (Value::Int(v), SqlType::SmallInt) => (*v as i16).to_be_bytes().to_vec(),
        (Value::Int(v), SqlType::Int | SqlType::SmallMoney) => (*v as i32).to_be_bytes().to_vec(),
        (Value::Int(v), SqlType::BigInt | SqlType::Money) => v.to_be_bytes().to_vec(),
        (Value::Int(v), SqlType::DateTime) => {
            let (days, time) = split(*v - BASE_TICKS);
            let thirds = (time * 300 + TICKS_PER_SECOND / 2) / TICKS_PER_SECOND;
            (days << 32 | thirds).to_be_bytes().to_vec()
        }
        (Value::Int(v), SqlType::SmallDateTime) => {
            let (days, time) = split(*v - BASE_TICKS);
            (((days << 16) | (time / (60 * TICKS_PER_SECOND))) as i32).to_be_bytes().to_vec()
        }
        (Value::Int(v), SqlType::Date) => (*v + 719_162).to_le_bytes()[..3].to_vec(),
        (Value::Int(v), SqlType::Time { scale }) => time_bytes(*v, scale),
        (Value::Int(v), SqlType::DateTime2 { scale }) => {
            let (day, time) = split(*v);
            let mut bytes = time_bytes(time, scale);
            bytes.extend_from_slice(&(day + 719_162).to_le_bytes()[..3]);
            bytes
        }
        (Value::Float(v), SqlType::Real) => (*v as f32).to_be_bytes().to_vec(),
        (Value::Float(v), _) => v.to_be_bytes().to_vec(),
        (Value::Decimal(v), SqlType::Decimal { precision, scale }) => {
            let width = usize::try_from(from.max_length_bytes() - 1).unwrap_or(16);
            let mut bytes = vec![precision, scale, 0, u8::from(*v >= 0)];
            bytes.extend_from_slice(&v.unsigned_abs().to_le_bytes()[..width]);
            bytes
        }
        _ => return Err(SqlError::internal(format!("{value:?} of {from} has no bytes"))),
    })
}

/// `time(s)`: its scale, then a count of its unit, little-endian.
fn time_bytes(ticks: i64, scale: u8) -> Vec<u8> {
    let width = usize::try_from(SqlType::Time { scale }.max_length_bytes()).unwrap_or(5);
    let count = ticks / 10_i64.pow(7 - u32::from(scale.min(7)));
    let mut bytes = vec![scale];
    bytes.extend_from_slice(&count.to_le_bytes()[..width]);
    bytes
}

/// Parses `0x1aF0` (style 1) or `1AF0` (style 2).
fn parse_hex(text: &str, prefixed: bool, from: SqlType, to: SqlType) -> Result<Vec<u8>, SqlError> {
    let invalid = || conversion_type(from, to);
    let digits = match prefixed {
        true => text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).ok_or_else(invalid)?,
        false => text,
    };
    if digits.len() % 2 != 0 {
        return Err(invalid());
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or_else(invalid);
    digits.as_bytes().chunks_exact(2).map(|pair| Ok(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// `0x1AF0`, as `sqlcmd` and style 1 print binary.
pub(crate) fn hex_text(value: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(2 + 2 * value.len());
    text.push_str("0x");
    for byte in value {
        let _ = write!(text, "{byte:02X}");
    }
    text
}

/// `6F9619FF-8B86-D011-B42D-00C04FC964FF` of a guid in sort order.
pub(crate) fn guid_text(sorted: [u8; 16]) -> String {
    let s = guid_from_sort_order(sorted);
    format!(
        "{:02X}{:02X}{:02X}{:02X}-{:02X}{:02X}-{:02X}{:02X}-{:02X}{:02X}-{:02X}{:02X}{:02X}{:02X}{:02X}{:02X}",
        s[3], s[2], s[1], s[0], s[5], s[4], s[7], s[6], s[8], s[9], s[10], s[11], s[12], s[13], s[14], s[15]
    )
}
