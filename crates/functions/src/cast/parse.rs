//! Conversions of text to numbers, dates and guids, with SQL Server's errors for invalid text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder};
use arrow::datatypes::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt8Type,
};
use hobt_base::{SqlError, errors, is_currency_sign};
use hobt_types::SqlType;

use super::number::{Target, decimal_target, shaped};
use super::{Mode, convert_each, digits};
use crate::carrier::{guid_to_sort_order, not_the_carrier};
use crate::date::{DateError, TICKS_PER_DAY, datetime_in_range, parse, round_to_datetime};
use crate::decimal::{self, DecimalError};
use crate::error::{
    conversion, conversion_type, date_conversion, date_out_of_range, from_arrow, overflow, overflow_from,
};

pub(super) fn from_text(array: &ArrayRef, from: SqlType, to: SqlType, mode: Mode) -> Result<ArrayRef, SqlError> {
    let texts = array.as_string_view_opt().ok_or_else(|| not_the_carrier(array, from))?;
    let text = |row: usize| texts.value(row);
    if let Some(target) = decimal_target(to) {
        let read = |row| match to {
            SqlType::Decimal { .. } => read_decimal(text(row), from, to, target),
            _ => read_money(text(row), target, to),
        };
        return shaped(convert_each::<Decimal128Type>(array, mode, read)?, target);
    }
    Ok(match to {
        SqlType::Bit => Arc::new(convert_each::<UInt8Type>(array, mode, |row| read_bit(text(row), from))?),
        SqlType::TinyInt => {
            Arc::new(digits::parse::<UInt8Type>(array, texts, mode, |row| read_integer::<u8>(text(row), from, to))?)
        }
        SqlType::SmallInt => {
            Arc::new(digits::parse::<Int16Type>(array, texts, mode, |row| read_integer::<i16>(text(row), from, to))?)
        }
        SqlType::Int => {
            Arc::new(digits::parse::<Int32Type>(array, texts, mode, |row| read_integer::<i32>(text(row), from, to))?)
        }
        SqlType::BigInt => {
            Arc::new(digits::parse::<Int64Type>(array, texts, mode, |row| read_integer::<i64>(text(row), from, to))?)
        }
        SqlType::Real => Arc::new(convert_each::<Float32Type>(array, mode, |row| {
            let value = read_float(text(row), from, to)? as f32;
            if value.is_finite() { Ok(value) } else { Err(overflow(to)) }
        })?),
        SqlType::Float => Arc::new(convert_each::<Float64Type>(array, mode, |row| read_float(text(row), from, to))?),
        SqlType::Date => Arc::new(convert_each::<Date32Type>(array, mode, |row| {
            i32::try_from(read_date(text(row), from, to, mode)? / TICKS_PER_DAY).map_err(|_| date_conversion())
        })?),
        SqlType::UniqueIdentifier => guids(array, mode, |row| parse_guid(text(row)))?,
        _ => Arc::new(convert_each::<Int64Type>(array, mode, |row| read_date(text(row), from, to, mode))?),
    })
}

/// Ignores spaces around a number, and control characters like tabs at its start.
fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

fn read_integer<N: TryFrom<i64>>(text: &str, from: SqlType, to: SqlType) -> Result<N, SqlError> {
    let digits = trimmed(text);
    if digits.is_empty() {
        // Blank text is 0 ("CAST and CONVERT": an empty string converts to 0).
        return N::try_from(0).map_err(|_| overflow(to));
    }
    // bigint has the general message, the older types have the one that quotes the value.
    let invalid = || if to == SqlType::BigInt { conversion_type(from, to) } else { conversion(from, text, to) };
    let (sign, magnitude) = match digits.as_bytes()[0] {
        b'-' => (-1, digits[1..].trim_start_matches(' ')),
        b'+' => (1, digits[1..].trim_start_matches(' ')),
        _ => (1, digits),
    };
    if magnitude.is_empty() || !magnitude.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid());
    }
    let value = magnitude
        .bytes()
        .try_fold(0i64, |value, byte| value.checked_mul(10)?.checked_add(sign * i64::from(byte - b'0')));
    value.and_then(|value| N::try_from(value).ok()).ok_or_else(|| overflowed(text, from, to))
}

/// 244, 248 and, for `bigint`, 8115.
fn overflowed(text: &str, from: SqlType, to: SqlType) -> SqlError {
    let from = from.name();
    match to {
        SqlType::BigInt => overflow(to),
        SqlType::Int => errors::INT_OVERFLOW_TEXT.with([&from, &text]),
        _ => {
            let kind = if to == SqlType::TinyInt { "INT1" } else { "INT2" };
            errors::SMALL_OVERFLOW_TEXT.with([&from, &text, &kind])
        }
    }
}

fn read_bit(text: &str, from: SqlType) -> Result<u8, SqlError> {
    let word = trimmed(text);
    if word.eq_ignore_ascii_case("true") {
        return Ok(1);
    }
    if word.is_empty() || word.eq_ignore_ascii_case("false") {
        return Ok(0);
    }
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(conversion(from, text, SqlType::Bit));
    }
    Ok(u8::from(digits.bytes().any(|byte| byte != b'0')))
}

fn read_decimal(text: &str, from: SqlType, to: SqlType, target: Target) -> Result<i128, SqlError> {
    match decimal::parse(trimmed(text), target.shape.1) {
        Ok(value) if target.holds(value) => Ok(value),
        Ok(_) | Err(DecimalError::Overflow) => Err(overflow_from(from.name(), to)),
        Err(DecimalError::Syntax) => Err(conversion_type(from, to)),
    }
}

/// Money in text: a sign, a currency sign, digits with commas anywhere, a point. `None` if it is something else.
pub(crate) fn parse_money(text: &str) -> Option<Result<i128, DecimalError>> {
    let mut digits = String::with_capacity(text.len());
    let mut rest = trimmed(text);
    if let Some(inner) = rest.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        digits.push('-');
        rest = inner;
    }
    let mut currency = false;
    for character in rest.chars() {
        match character {
            sign if is_currency_sign(sign) && !currency => currency = true,
            ',' => {}
            '-' | '+' if digits.is_empty() => digits.push(character),
            '0'..='9' | '.' => digits.push(character),
            ' ' if digits.is_empty() || digits == "-" => {}
            _ => return None,
        }
    }
    if digits.is_empty() {
        return Some(Ok(0));
    }
    match decimal::parse(&digits, 4) {
        Err(DecimalError::Syntax) => None,
        other => Some(other),
    }
}

fn read_money(text: &str, target: Target, to: SqlType) -> Result<i128, SqlError> {
    match parse_money(text) {
        None => Err(errors::MONEY_SYNTAX.error()),
        Some(Ok(value)) if target.holds(value) => Ok(value),
        Some(_) => Err(overflow(to)),
    }
}

/// A number with an optional exponent; `None` if it is not one. Words like `inf` are not.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let text = trimmed(text);
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E'));
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    if is_number && has_digit { text.parse().ok() } else { None }
}

fn read_float(text: &str, from: SqlType, to: SqlType) -> Result<f64, SqlError> {
    if trimmed(text).is_empty() {
        return Ok(0.0);
    }
    match parse_float(text) {
        Some(value) if value.is_finite() => Ok(value),
        Some(_) => Err(overflow(to)),
        None => Err(conversion_type(from, to)),
    }
}

/// 100 ns since 1970-01-01, or since midnight for `time`.
fn read_date(text: &str, from: SqlType, to: SqlType, mode: Mode) -> Result<i64, SqlError> {
    let is_old = matches!(to, SqlType::DateTime | SqlType::SmallDateTime);
    let parsed = parse(text, mode.style).map_err(|error| match error {
        DateError::Range if is_old => date_out_of_range(from, to),
        _ if to == SqlType::SmallDateTime => errors::SMALLDATETIME_CONVERSION.error(),
        _ => date_conversion(),
    })?;
    if is_old && parsed.fraction_digits > 3 {
        return Err(date_conversion());
    }
    if let SqlType::Time { .. } = to {
        return Ok(round_to_datetime(parsed.time, to) % TICKS_PER_DAY);
    }
    let ticks = match to {
        SqlType::Date => parsed.day * TICKS_PER_DAY,
        _ => round_to_datetime(parsed.day * TICKS_PER_DAY + parsed.time, to),
    };
    if datetime_in_range(ticks, to) { Ok(ticks) } else { Err(date_out_of_range(from, to)) }
}

/// Parses `6F9619FF-8B86-D011-B42D-00C04FC964FF`, with or without braces, to sort order. Text after the 36 characters
/// is ignored ("uniqueidentifier": longer text is truncated).
fn parse_guid(text: &str) -> Result<[u8; 16], SqlError> {
    let invalid = || errors::GUID_CONVERSION.error();
    let text = text.trim_start_matches(' ');
    let body = match text.strip_prefix('{') {
        Some(inner) if inner.as_bytes().get(36) == Some(&b'}') => inner,
        Some(_) => return Err(invalid()),
        None => text,
    };
    let body = body.as_bytes().get(..36).ok_or_else(invalid)?;
    let mut printed = [0u8; 16];
    let mut digits = 0;
    for (place, byte) in body.iter().enumerate() {
        if matches!(place, 8 | 13 | 18 | 23) {
            if *byte != b'-' {
                return Err(invalid());
            }
            continue;
        }
        let digit = char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or_else(invalid)?;
        printed[digits / 2] = printed[digits / 2] << 4 | digit;
        digits += 1;
    }
    // The first three groups are stored as little-endian numbers.
    let p = printed;
    let stored = [p[3], p[2], p[1], p[0], p[5], p[4], p[7], p[6], p[8], p[9], p[10], p[11], p[12], p[13], p[14], p[15]];
    Ok(guid_to_sort_order(stored))
}

/// Builds an array of guids, row by row.
pub(super) fn guids(
    array: &ArrayRef,
    mode: Mode,
    read: impl Fn(usize) -> Result<[u8; 16], SqlError>,
) -> Result<ArrayRef, SqlError> {
    let mut builder = FixedSizeBinaryBuilder::with_capacity(array.len(), 16);
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
            continue;
        }
        match read(row) {
            Ok(guid) => builder.append_value(guid).map_err(from_arrow)?,
            Err(_) if mode.try_cast => builder.append_null(),
            Err(error) => return Err(error),
        }
    }
    Ok(Arc::new(builder.finish()))
}
