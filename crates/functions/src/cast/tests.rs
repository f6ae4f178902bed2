//! Tests of conversions, pair by pair, with the results and errors of SQL Server.

use hobt_types::{MaxLength, SqlType, Value};

use super::cast_array;
use crate::carrier::{array_value, value_to_array};

const fn varchar(n: u16) -> SqlType {
    SqlType::VarChar(MaxLength::Limited(n))
}

const fn dec(precision: u8, scale: u8) -> SqlType {
    SqlType::Decimal { precision, scale }
}

fn styled(value: Value, from: SqlType, to: SqlType, style: Option<i32>) -> Result<Value, i32> {
    let array = value_to_array(&value, from).unwrap();
    let cast = cast_array(&array, from, to, style, false).map_err(|error| error.number)?;
    let tried = cast_array(&array, from, to, style, true).unwrap();
    assert_eq!(array_value(&tried, 0, to).unwrap(), array_value(&cast, 0, to).unwrap());
    Ok(array_value(&cast, 0, to).unwrap())
}

fn cast(value: Value, from: SqlType, to: SqlType) -> Result<Value, i32> {
    styled(value, from, to, None)
}

fn text(value: &str) -> Value {
    Value::Text(value.to_string())
}

#[test]
fn ints_become_text() {
    for value in [0, 7, -1, 10, 99, 100, i32::MAX, i32::MIN, -1_000_000_000] {
        assert_eq!(cast(Value::Int(value.into()), SqlType::Int, varchar(11)), Ok(text(&value.to_string())));
    }
    assert_eq!(cast(Value::Int(12345), SqlType::Int, varchar(4)), Ok(text("*")));
    let national = SqlType::NVarChar(MaxLength::Limited(10));
    assert_eq!(cast(Value::Int(1_234_567_890), SqlType::Int, national), Ok(text("1234567890")));
    let array = value_to_array(&Value::Int(i32::MIN.into()), SqlType::Int).unwrap();
    assert_eq!(cast_array(&array, SqlType::Int, national, None, false).map_err(|error| error.number), Err(8115));
    assert_eq!(cast(Value::Int(5), SqlType::Int, SqlType::Char(3)), Ok(text("5  ")));
}

#[test]
fn text_becomes_numbers() {
    let int = |value: &str, to| cast(text(value), varchar(50), to);
    assert_eq!(int(" 42 ", SqlType::Int), Ok(Value::Int(42)));
    assert_eq!(int("   ", SqlType::Int), Ok(Value::Int(0)));
    assert_eq!(int("abc", SqlType::Int), Err(245));
    assert_eq!(int("1.5", SqlType::Int), Err(245));
    assert_eq!(int("99999999999", SqlType::Int), Err(248));
    assert_eq!(int("300", SqlType::TinyInt), Err(244));
    assert_eq!(int("abc", SqlType::BigInt), Err(8114));
    assert_eq!(int("-9223372036854775808", SqlType::BigInt), Ok(Value::Int(i64::MIN)));
    assert_eq!(int("true", SqlType::Bit), Ok(Value::Int(1)));
    assert_eq!(int("1.005", dec(5, 2)), Ok(Value::Decimal(101)));
    assert_eq!(int("", dec(5, 2)), Err(8114));
    assert_eq!(int("12345", dec(5, 2)), Err(8115));
    assert_eq!(int("1e3", SqlType::Float), Ok(Value::Float(1000.0)));
    assert_eq!(int("nan", SqlType::Float), Err(8114));
    assert_eq!(int("-$1,234.5", SqlType::Money), Ok(Value::Int(-12_345_000)));
    assert_eq!(int("x", SqlType::Money), Err(235));
}

#[test]
fn the_message_quotes_the_value() {
    let array = value_to_array(&text("abc"), varchar(3)).unwrap();
    let error = cast_array(&array, varchar(3), SqlType::Int, None, false).unwrap_err();
    assert_eq!(error.message, "Conversion failed when converting the varchar value 'abc' to data type int.");
    let error = cast_array(&array, varchar(3), dec(5, 2), None, false).unwrap_err();
    assert_eq!(error.message, "Error converting data type varchar to numeric.");
    let tried = cast_array(&array, varchar(3), SqlType::Int, None, true).unwrap();
    assert_eq!(array_value(&tried, 0, SqlType::Int).unwrap(), Value::Null);
}

#[test]
fn numbers_narrow_with_checks() {
    assert_eq!(cast(Value::Int(300), SqlType::Int, SqlType::TinyInt), Err(220));
    assert_eq!(cast(Value::Int(1 << 40), SqlType::BigInt, SqlType::Int), Err(8115));
    assert_eq!(cast(Value::Float(-2.9), SqlType::Float, SqlType::Int), Ok(Value::Int(-2)));
    assert_eq!(cast(Value::Float(3e9), SqlType::Float, SqlType::Int), Err(232));
    assert_eq!(cast(Value::Decimal(-299), dec(5, 2), SqlType::Int), Ok(Value::Int(-2)));
    assert_eq!(cast(Value::Int(25_000), SqlType::Money, SqlType::Int), Ok(Value::Int(3)));
    assert_eq!(cast(Value::Decimal(1_235), dec(5, 3), dec(5, 2)), Ok(Value::Decimal(124)));
    assert_eq!(cast(Value::Decimal(99_999), dec(5, 2), dec(4, 2)), Err(8115));
    assert_eq!(cast(Value::Int(12), SqlType::Int, dec(5, 2)), Ok(Value::Decimal(1200)));
    assert_eq!(cast(Value::Int(1000), SqlType::Int, dec(5, 2)), Err(8115));
    assert_eq!(cast(Value::Float(0.1), SqlType::Float, dec(5, 2)), Ok(Value::Decimal(10)));
    // A float stands for the exact number in its bits, at any scale.
    let exact = [
        (123_456_789.0, 20, 12_345_678_900_000_000_000_000_000_000),
        (0.1, 30, 100_000_000_000_000_005_551_115_123_126),
        (-0.5, 0, -1),
        (2.5, 0, 3),
        (1.005, 2, 100),
        (1e37, 0, 9_999_999_999_999_999_538_762_658_202_121_142_272),
        (1e-30, 38, 100_000_000),
        (5e-324, 38, 0),
    ];
    for (value, scale, unscaled) in exact {
        assert_eq!(cast(Value::Float(value), SqlType::Float, dec(38, scale)), Ok(Value::Decimal(unscaled)), "{value}");
    }
    assert_eq!(cast(Value::Float(1e38), SqlType::Float, dec(38, 0)), Err(8115));
    assert_eq!(cast(Value::Float(1e20), SqlType::Float, dec(38, 19)), Err(8115));
    assert_eq!(cast(Value::Int(7), SqlType::Int, SqlType::Bit), Ok(Value::Int(1)));
}

#[test]
fn numbers_become_text() {
    assert_eq!(cast(Value::Int(1234), SqlType::Int, varchar(3)), Ok(text("*")));
    assert_eq!(cast(Value::Int(1234), SqlType::Int, SqlType::NVarChar(MaxLength::Limited(3))), Err(8115));
    assert_eq!(cast(Value::Decimal(-5), dec(5, 2), varchar(10)), Ok(text("-0.05")));
    assert_eq!(cast(Value::Decimal(-5), dec(5, 2), varchar(3)), Err(8115));
    assert_eq!(cast(Value::Int(12_345_678), SqlType::Money, varchar(20)), Ok(text("1234.57")));
    assert_eq!(styled(Value::Int(12_345_678), SqlType::Money, varchar(20), Some(1)), Ok(text("1,234.57")));
    assert_eq!(styled(Value::Int(12_345_678), SqlType::Money, varchar(20), Some(2)), Ok(text("1234.5678")));
    assert_eq!(cast(Value::Float(0.1), SqlType::Float, varchar(20)), Ok(text("0.1")));
    assert_eq!(cast(Value::Float(1.5e30), SqlType::Float, varchar(5)), Err(232));
    assert_eq!(cast(Value::Float(1_234_567.0), SqlType::Float, varchar(20)), Ok(text("1.23457e+006")));
}

#[test]
fn text_is_cut_and_padded() {
    assert_eq!(cast(text("abcdef"), varchar(6), varchar(3)), Ok(text("abc")));
    assert_eq!(cast(text("ab"), varchar(2), SqlType::Char(4)), Ok(text("ab  ")));
    let wide = SqlType::NVarChar(MaxLength::Limited(10));
    assert_eq!(cast(text("漢€"), wide, varchar(10)), Ok(text("?€")));
    assert_eq!(
        cast(text("a longer text than inline"), SqlType::VarChar(MaxLength::Max), varchar(8)),
        Ok(text("a longer"))
    );
}

#[test]
fn dates_convert() {
    let day = 864_000_000_000i64;
    assert_eq!(cast(text("2026-11-21"), varchar(10), SqlType::Date), Ok(Value::Int(20_778)));
    assert_eq!(cast(text("nope"), varchar(10), SqlType::DateTime), Err(241));
    assert_eq!(cast(text("2026-13-01"), varchar(10), SqlType::DateTime), Err(242));
    assert_eq!(cast(text("1700-01-01"), varchar(10), SqlType::DateTime), Err(242));
    assert_eq!(cast(Value::Int(20_778 * day), SqlType::DateTime, varchar(30)), Ok(text("Nov 21 2026 12:00AM")));
    assert_eq!(styled(Value::Int(20_778 * day), SqlType::DateTime, SqlType::Char(8), Some(112)), Ok(text("20261121")));
    assert_eq!(styled(text("21/11/2026"), varchar(10), SqlType::Date, Some(103)), Ok(Value::Int(20_778)));
    assert_eq!(cast(Value::Int(20_778), SqlType::Date, SqlType::DateTime), Ok(Value::Int(20_778 * day)));
    assert_eq!(cast(Value::Int(0), SqlType::Int, SqlType::DateTime), Ok(Value::Int(-25_567 * day)));
    assert_eq!(cast(Value::Int(-25_566 * day), SqlType::DateTime, SqlType::Int), Ok(Value::Int(1)));
    assert_eq!(cast(Value::Int(20_778), SqlType::Date, SqlType::Int), Err(529));
}

#[test]
fn bytes_are_those_of_sql_server() {
    let bytes = |value: &[u8]| Value::Binary(value.to_vec());
    let max = SqlType::VarBinary(MaxLength::Limited(8000));
    assert_eq!(cast(Value::Int(258), SqlType::Int, max), Ok(bytes(&[0, 0, 1, 2])));
    assert_eq!(cast(Value::Int(258), SqlType::Int, SqlType::Binary(6)), Ok(bytes(&[0, 0, 0, 0, 1, 2])));
    assert_eq!(cast(Value::Int(258), SqlType::Int, SqlType::Binary(1)), Ok(bytes(&[2])));
    assert_eq!(cast(bytes(&[9, 0xFF, 0xFF, 0xFF, 0xFE]), max, SqlType::Int), Ok(Value::Int(-2)));
    assert_eq!(cast(bytes(&[1, 0]), max, SqlType::BigInt), Ok(Value::Int(256)));
    assert_eq!(cast(text("é"), varchar(1), max), Ok(bytes(&[0xE9])));
    assert_eq!(cast(text("a"), SqlType::NVarChar(MaxLength::Limited(1)), max), Ok(bytes(&[0x61, 0])));
    assert_eq!(styled(bytes(&[0x1A, 0xF0]), max, varchar(10), Some(1)), Ok(text("0x1AF0")));
    assert_eq!(styled(text("0x1aF0"), varchar(10), max, Some(1)), Ok(bytes(&[0x1A, 0xF0])));
    assert_eq!(cast(bytes(&[1]), max, SqlType::Float), Err(529));
}

#[test]
fn guids_read_and_print() {
    let guid = "6F9619FF-8B86-D011-B42D-00C04FC964FF";
    let value = cast(text(&guid.to_lowercase()), varchar(36), SqlType::UniqueIdentifier).unwrap();
    let Value::Guid(sorted) = value else { panic!("a guid") };
    assert_eq!(sorted[..6], [0x00, 0xC0, 0x4F, 0xC9, 0x64, 0xFF]);
    assert_eq!(cast(value.clone(), SqlType::UniqueIdentifier, varchar(36)), Ok(text(guid)));
    assert_eq!(cast(value, SqlType::UniqueIdentifier, varchar(35)), Err(8170));
    assert_eq!(cast(text("no guid"), varchar(36), SqlType::UniqueIdentifier), Err(8169));
}
