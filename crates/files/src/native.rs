//! Values in bcp's native format: the bytes of one field as a value, and a value as such bytes.
//!
//! | host type | bytes |
//! |---|---|
//! | `SQLBIT`, `SQLTINYINT` | one, unsigned |
//! | `SQLSMALLINT`, `SQLINT`, `SQLBIGINT` | signed |
//! | `SQLFLT4`, `SQLFLT8` | IEEE 754 |
//! | `SQLMONEY4` | ten-thousandths, signed |
//! | `SQLMONEY` | ten-thousandths, signed: its upper 4 bytes, then its lower 4 |
//! | `SQLDECIMAL`, `SQLNUMERIC` | precision, scale, 1 (0 if negative), the absolute unscaled value (16) |
//! | `SQLDATETIM4` | days since 1900-01-01 (2), minutes since midnight (2) |
//! | `SQLDATETIME` | days since 1900-01-01 (4, signed), 1/300 s since midnight (4) |
//! | `SQLDATE` | days since 0001-01-01 (3) |
//! | `SQLTIME` | 100 ns since midnight (5) |
//! | `SQLDATETIME2` | as `SQLTIME`, then as `SQLDATE` |
//! | `SQLUNIQUEID` | 16, in SQL Server's storage order |
//! | `SQLCHAR`, `SQLNCHAR` | text in a code page, in UTF-16 |
//! | `SQLBINARY` | the bytes |
//!
//! All numbers are little-endian. Times have seven digits behind the second whatever their column has.
//!
//! Source: Microsoft's pages on native format and on bulk copy of dates and times, its protocol's types (MS-TDS), and
//! the structures of its `sqlncli.h`.
//!
//! Not here: prefixes and terminators ([`crate::record`]).

mod moment;
#[cfg(test)]
pub(crate) mod tests;

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};
use hobt_base::errors::number;
use hobt_functions::carrier::{guid_from_sort_order, guid_to_sort_order};
use hobt_functions::convert_value;
use hobt_functions::date::holds_moment;
use hobt_types::{MaxLength, SqlType, TypedValue, Value, one_zero};

use crate::encoding::CodePage;
use crate::format_file::HostType;

/// What is wrong with the bytes of a field, or with a value that is to become such bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueError {
    /// The bytes are no value of their type or encoding, or the value does not become the other type. 4864
    Mismatch,
    /// Text or bytes are longer than the column, or than the field can say. 4863
    Truncation,
    /// A number or a moment is beyond the range of the type that it is to have. 4867
    Overflow,
    /// NULL, which the field has no way to say. 4869
    Null,
}

/// The bytes of the absolute value of a decimal.
const MAGNITUDE_BYTES: usize = 16;

/// 10 to the power of each precision: the first number with more digits.
const POWERS: [u128; 39] = {
    let mut powers = [1; 39];
    let mut digits = 1;
    while digits < powers.len() {
        powers[digits] = powers[digits - 1] * 10;
        digits += 1;
    }
    powers
};

/// A value of the type that the bytes have by themselves: text and binary of `max` length, decimals with the precision
/// and scale in front of them, times with seven digits.
///
/// # Errors
/// [`ValueError::Mismatch`].
pub fn decode(bytes: &[u8], host: HostType, code_page: CodePage) -> Result<TypedValue, ValueError> {
    if host.is_text() {
        let text = text_of(bytes, host, code_page).ok_or(ValueError::Mismatch)?;
        return Ok(TypedValue {
            sql_type: own_type(host, SqlType::VarChar(MaxLength::Max)),
            value: Value::Text(text.into_owned()),
        });
    }
    decode_binary(bytes, host)
}

/// The text of a field of a text host, whose bytes are in the code page or in UTF-16; `None` if they are no text.
pub(crate) fn text_of(bytes: &[u8], host: HostType, code_page: CodePage) -> Option<Cow<'_, str>> {
    match host {
        HostType::NChar => wide_text_of(bytes).map(Cow::Owned),
        _ => code_page.field_text(bytes),
    }
}

fn decode_binary(bytes: &[u8], host: HostType) -> Result<TypedValue, ValueError> {
    let typed = |sql_type, value| Ok(TypedValue { sql_type, value });
    let integer = |sql_type, value: i64| typed(sql_type, Value::Int(value));
    match host {
        HostType::Char | HostType::NChar => Err(ValueError::Mismatch),
        HostType::Binary => typed(SqlType::VarBinary(MaxLength::Max), Value::Binary(bytes.to_vec())),
        HostType::Bit => integer(SqlType::Bit, i64::from(array::<1>(bytes)? != [0])),
        HostType::TinyInt => integer(SqlType::TinyInt, u8::from_le_bytes(array(bytes)?).into()),
        HostType::SmallInt => integer(SqlType::SmallInt, i16::from_le_bytes(array(bytes)?).into()),
        HostType::Int => integer(SqlType::Int, i32::from_le_bytes(array(bytes)?).into()),
        HostType::BigInt => integer(SqlType::BigInt, i64::from_le_bytes(array(bytes)?)),
        HostType::Real => typed(SqlType::Real, float(f32::from_le_bytes(array(bytes)?).into())?),
        HostType::Float => typed(SqlType::Float, float(f64::from_le_bytes(array(bytes)?))?),
        HostType::SmallMoney => integer(SqlType::SmallMoney, i32::from_le_bytes(array(bytes)?).into()),
        // The halves are exchanged.
        HostType::Money => integer(SqlType::Money, i64::from_le_bytes(array(bytes)?).rotate_left(32)),
        HostType::Decimal | HostType::Numeric => {
            let (unscaled, sql_type) = decimal(bytes)?;
            typed(sql_type, Value::Decimal(unscaled))
        }
        HostType::SmallDateTime => moment(SqlType::SmallDateTime, moment::smalldatetime(array(bytes)?)),
        HostType::DateTime => moment(SqlType::DateTime, moment::datetime(array(bytes)?)),
        HostType::Date => moment(SqlType::Date, moment::date(array(bytes)?)),
        HostType::Time => moment(SqlType::Time { scale: 7 }, moment::time(array(bytes)?)),
        HostType::DateTime2 => moment(SqlType::DateTime2 { scale: 7 }, moment::datetime2(array(bytes)?)),
        HostType::UniqueIdentifier => typed(SqlType::UniqueIdentifier, Value::Guid(guid_to_sort_order(array(bytes)?))),
    }
}

/// A value of a column's type, from the bytes of a host that is not text.
///
/// # Errors
/// Those of [`decode`]; [`ValueError::Truncation`] for bytes that are longer than the column, [`ValueError::Overflow`]
/// for what is beyond its range, [`ValueError::Mismatch`] for what does not become its type, and for text.
pub fn decode_as(bytes: &[u8], host: HostType, column: SqlType) -> Result<Value, ValueError> {
    let TypedValue { sql_type, value } = decode_binary(bytes, host)?;
    match value {
        Value::Binary(mut bytes) if column.is_binary() => match column {
            SqlType::Binary(length) | SqlType::VarBinary(MaxLength::Limited(length))
                if bytes.len() > usize::from(length) =>
            {
                Err(ValueError::Truncation)
            }
            SqlType::Binary(length) => {
                bytes.resize(length.into(), 0);
                Ok(Value::Binary(bytes))
            }
            _ => Ok(Value::Binary(bytes)),
        },
        Value::Int(ticks) if is_scaled_time(sql_type, column) && ticks % tick_unit(column.scale()) == 0 => Ok(value),
        Value::Decimal(unscaled) if fits_decimal(unscaled, sql_type, column) => Ok(value),
        _ if sql_type == column => Ok(value),
        _ => convert(&value, sql_type, column),
    }
}

/// Appends a value of `sql_type` as bytes of a host type. NULL appends nothing.
///
/// # Errors
/// [`ValueError::Mismatch`] for a value that does not become the host type, and for text that the encoding does not
/// have; [`ValueError::Overflow`] for one beyond its range.
pub fn encode(
    value: &Value,
    sql_type: SqlType,
    host: HostType,
    encoding: &'static Encoding,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    if value.is_null() {
        return Ok(());
    }
    let own = own_type(host, sql_type);
    let is_same = own == sql_type
        || (own.is_text() && sql_type.is_text())
        || (own.is_binary() && sql_type.is_binary())
        || is_scaled_time(sql_type, own);
    let converted;
    let value = if is_same {
        value
    } else {
        converted = convert(value, sql_type, own)?;
        &converted
    };
    match (value, host) {
        (Value::Text(text), HostType::NChar) => out.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
        (Value::Text(text), HostType::Char) if encoding == UTF_8 || text.is_ascii() => {
            out.extend_from_slice(text.as_bytes());
        }
        (Value::Text(text), HostType::Char) => {
            let (bytes, _, has_others) = encoding.encode(text);
            if has_others {
                return Err(ValueError::Mismatch);
            }
            out.extend_from_slice(&bytes);
        }
        (Value::Binary(bytes), HostType::Binary) => out.extend_from_slice(bytes),
        (Value::Guid(sorted), HostType::UniqueIdentifier) => out.extend_from_slice(&guid_from_sort_order(*sorted)),
        (Value::Float(float), HostType::Real) => out.extend_from_slice(&(one_zero(*float) as f32).to_le_bytes()),
        (Value::Float(float), HostType::Float) => out.extend_from_slice(&one_zero(*float).to_le_bytes()),
        (Value::Decimal(unscaled), HostType::Decimal | HostType::Numeric) => {
            out.extend_from_slice(&[own.precision(), own.scale(), u8::from(*unscaled >= 0)]);
            out.extend_from_slice(&unscaled.unsigned_abs().to_le_bytes());
        }
        (Value::Int(number), _) => encode_integer(*number, host, own, out)?,
        _ => return Err(ValueError::Mismatch),
    }
    Ok(())
}

fn encode_integer(number: i64, host: HostType, own: SqlType, out: &mut Vec<u8>) -> Result<(), ValueError> {
    // A value beyond its type comes from a fault elsewhere; it must not become another value.
    if !holds_moment(own, number) {
        return Err(ValueError::Overflow);
    }
    let narrow = |bytes: usize, signed: bool| {
        let unused = 64 - 8 * bytes as u32;
        let again = if signed { number << unused >> unused } else { ((number as u64) << unused >> unused) as i64 };
        if again == number { Ok(number.to_le_bytes()) } else { Err(ValueError::Overflow) }
    };
    match host {
        HostType::Bit => out.push(u8::from(number != 0)),
        HostType::TinyInt => out.extend_from_slice(&narrow(1, false)?[..1]),
        HostType::SmallInt => out.extend_from_slice(&narrow(2, true)?[..2]),
        HostType::Int | HostType::SmallMoney => out.extend_from_slice(&narrow(4, true)?[..4]),
        HostType::BigInt => out.extend_from_slice(&number.to_le_bytes()),
        HostType::Money => out.extend_from_slice(&number.rotate_left(32).to_le_bytes()),
        HostType::SmallDateTime => out.extend_from_slice(&moment::smalldatetime_bytes(number)),
        HostType::DateTime => out.extend_from_slice(&moment::datetime_bytes(number)),
        HostType::Date => out.extend_from_slice(&moment::date_bytes(number)),
        HostType::Time => out.extend_from_slice(&moment::time_bytes(number)),
        HostType::DateTime2 => out.extend_from_slice(&moment::datetime2_bytes(number)),
        _ => return Err(ValueError::Mismatch),
    }
    Ok(())
}

/// Appends what stands for empty text where no bytes are NULL: a zero character. Empty binary has no such form.
pub(crate) fn encode_empty(host: HostType, out: &mut Vec<u8>) {
    match host {
        HostType::Char => out.push(0),
        HostType::NChar => out.extend_from_slice(&[0, 0]),
        _ => {}
    }
}

/// Appends bytes that fill a field of fixed length.
pub(crate) fn encode_padding(host: HostType, bytes: usize, out: &mut Vec<u8>) {
    match host {
        HostType::Char => out.extend(std::iter::repeat_n(b' ', bytes)),
        HostType::NChar => out.extend(b" \0".iter().cycle().take(bytes)),
        _ => out.extend(std::iter::repeat_n(0, bytes)),
    }
}

/// The type of a host type's values when a value of `sql_type` becomes one; text and binary have no bound.
pub fn own_type(host: HostType, sql_type: SqlType) -> SqlType {
    match host {
        HostType::Char => SqlType::VarChar(MaxLength::Max),
        HostType::NChar => SqlType::NVarChar(MaxLength::Max),
        HostType::Binary => SqlType::VarBinary(MaxLength::Max),
        HostType::Bit => SqlType::Bit,
        HostType::TinyInt => SqlType::TinyInt,
        HostType::SmallInt => SqlType::SmallInt,
        HostType::Int => SqlType::Int,
        HostType::BigInt => SqlType::BigInt,
        HostType::Real => SqlType::Real,
        HostType::Float => SqlType::Float,
        HostType::Money => SqlType::Money,
        HostType::SmallMoney => SqlType::SmallMoney,
        HostType::Decimal | HostType::Numeric => match sql_type {
            SqlType::Decimal { .. } => sql_type,
            // Its digits, for what has some; floating point and text get as many before the point as behind it.
            _ if sql_type.is_integer() || matches!(sql_type, SqlType::Money | SqlType::SmallMoney) => {
                SqlType::Decimal { precision: sql_type.precision(), scale: sql_type.scale() }
            }
            _ => SqlType::Decimal { precision: 38, scale: 19 },
        },
        HostType::DateTime => SqlType::DateTime,
        HostType::SmallDateTime => SqlType::SmallDateTime,
        HostType::Date => SqlType::Date,
        // Bytes have seven digits. A value with fewer is not to be rounded.
        HostType::Time => SqlType::Time { scale: 7 },
        HostType::DateTime2 => SqlType::DateTime2 { scale: 7 },
        HostType::UniqueIdentifier => SqlType::UniqueIdentifier,
    }
}

/// The conversion between types that differ, with its errors as ours.
fn convert(value: &Value, from: SqlType, to: SqlType) -> Result<Value, ValueError> {
    convert_value(value, from, to).map_err(|error| match error.number {
        number::OVERFLOW | number::OVERFLOW_SMALL => ValueError::Overflow,
        _ => ValueError::Mismatch,
    })
}

/// The bytes of a host type of fixed length.
pub(crate) fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], ValueError> {
    bytes.try_into().map_err(|_| ValueError::Mismatch)
}

/// A number; NaN and the infinities are none.
fn float(value: f64) -> Result<Value, ValueError> {
    if value.is_finite() { Ok(Value::Float(one_zero(value))) } else { Err(ValueError::Mismatch) }
}

/// A moment that its type has.
fn moment(sql_type: SqlType, number: Option<i64>) -> Result<TypedValue, ValueError> {
    let number = number.filter(|number| holds_moment(sql_type, *number)).ok_or(ValueError::Mismatch)?;
    Ok(TypedValue { sql_type, value: Value::Int(number) })
}

/// The days since 1970-01-01 of a `SQLDATE`.
pub(crate) fn date(bytes: &[u8]) -> Result<i32, ValueError> {
    let day = moment::date(array(bytes)?).filter(|day| holds_moment(SqlType::Date, *day));
    day.and_then(|day| i32::try_from(day).ok()).ok_or(ValueError::Mismatch)
}

/// The unscaled value of a decimal as one of the type `column`, which is a decimal.
pub(crate) fn decimal_as(bytes: &[u8], column: SqlType) -> Result<i128, ValueError> {
    let (unscaled, own) = decimal(bytes)?;
    if fits_decimal(unscaled, own, column) {
        return Ok(unscaled);
    }
    match convert(&Value::Decimal(unscaled), own, column)? {
        Value::Decimal(unscaled) => Ok(unscaled),
        _ => Err(ValueError::Mismatch),
    }
}

/// The unscaled value of a decimal, and the type that its bytes say.
fn decimal(bytes: &[u8]) -> Result<(i128, SqlType), ValueError> {
    let [precision, scale, sign, magnitude @ ..] = bytes else { return Err(ValueError::Mismatch) };
    let is_valid = (1..=38).contains(precision) && scale <= precision && *sign <= 1;
    if !is_valid || magnitude.len() > MAGNITUDE_BYTES {
        return Err(ValueError::Mismatch);
    }
    let mut number = [0; MAGNITUDE_BYTES];
    number[..magnitude.len()].copy_from_slice(magnitude);
    let number = u128::from_le_bytes(number);
    if number >= POWERS[usize::from(*precision)] {
        return Err(ValueError::Mismatch);
    }
    let unscaled = if *sign == 1 { number as i128 } else { -(number as i128) };
    Ok((unscaled, SqlType::Decimal { precision: *precision, scale: *scale }))
}

fn wide_text_of(bytes: &[u8]) -> Option<String> {
    let (units, []) = bytes.as_chunks::<2>() else { return None };
    let mut text = String::with_capacity(units.len());
    for character in char::decode_utf16(units.iter().map(|unit| u16::from_le_bytes(*unit))) {
        text.push(character.ok()?);
    }
    Some(text)
}

/// Whether both are `time`, or both `datetime2`.
fn is_scaled_time(from: SqlType, to: SqlType) -> bool {
    matches!(
        (from, to),
        (SqlType::Time { .. }, SqlType::Time { .. }) | (SqlType::DateTime2 { .. }, SqlType::DateTime2 { .. })
    )
}

/// 100 ns in the last digit of a scale.
fn tick_unit(scale: u8) -> i64 {
    10_i64.pow(7 - u32::from(scale.min(7)))
}

/// Whether a decimal is one of the column's type as it is.
fn fits_decimal(unscaled: i128, from: SqlType, to: SqlType) -> bool {
    let (SqlType::Decimal { scale: from, .. }, SqlType::Decimal { precision, scale }) = (from, to) else {
        return false;
    };
    from == scale && unscaled.unsigned_abs() < POWERS[usize::from(precision.min(38))]
}
