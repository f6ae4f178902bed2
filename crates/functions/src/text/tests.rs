//! Tests of scalar functions by name, as the executor calls them: text, numbers, hashes, dates, choices.

use hobt_types::{Collation, MaxLength, SqlType, Value};

use crate::carrier::{array_value, value_to_array};
use crate::{ArgType, Argument, Call, Column, DatePart, FunctionContext, format::format_single, lookup};

const MONEY: SqlType = SqlType::Money;

fn text_arg(value: &str) -> (Value, SqlType) {
    (Value::Text(value.to_string()), SqlType::VarChar(MaxLength::Limited(50)))
}

fn int(value: i64) -> (Value, SqlType) {
    (Value::Int(value), SqlType::Int)
}

/// The printed result of a call, or its error's number.
fn call_part(name: &str, part: Option<DatePart>, values: &[(Value, SqlType)]) -> Result<String, i32> {
    let function = lookup(name).unwrap_or_else(|| panic!("no function {name}"));
    function.check_arity(values.len()).map_err(|error| error.number)?;
    let types: Vec<ArgType> = values
        .iter()
        .map(|(value, sql_type)| ArgType { literal: Some(value.clone()), ..ArgType::new(*sql_type) })
        .collect();
    let result_type = (function.result_type)(&types).map_err(|error| error.number)?;
    let args: Vec<Argument> = values
        .iter()
        .map(|(value, sql_type)| Argument {
            column: Column::Scalar(value_to_array(value, *sql_type).unwrap()),
            sql_type: *sql_type,
        })
        .collect();
    let context = FunctionContext { now_local: 0, now_utc: 0, random_seed: 1 };
    let call =
        Call { args: &args, rows: 2, result_type, collation: Collation::default(), date_part: part, context: &context };
    let array = (function.evaluate)(&call).map_err(|error| error.number)?;
    assert_eq!((array.len(), array.data_type()), (2, &crate::carrier(result_type)), "{name}");
    Ok(format_single(&array_value(&array, 1, result_type).unwrap(), result_type).unwrap())
}

fn call(name: &str, values: &[(Value, SqlType)]) -> Result<String, i32> {
    call_part(name, None, values)
}

fn check(name: &str, values: &[(Value, SqlType)], expected: &str) {
    assert_eq!(call(name, values).as_deref(), Ok(expected), "{name} {values:?}");
}

#[test]
fn text_functions() {
    check("len", &[text_arg("abc  ")], "3");
    check("DATALENGTH", &[text_arg("abc  ")], "5");
    check("DATALENGTH", &[(Value::Text("é".into()), SqlType::NChar(1))], "2");
    check("SUBSTRING", &[text_arg("abcdef"), int(2), int(3)], "bcd");
    check("SUBSTRING", &[text_arg("abcdef"), int(0), int(3)], "ab");
    assert_eq!(call("SUBSTRING", &[text_arg("a"), int(1), int(-1)]), Err(537));
    assert_eq!(call("RIGHT", &[text_arg("a"), int(-1)]), Err(536));
    check("LEFT", &[text_arg("abc"), int(2)], "ab");
    check("RIGHT", &[text_arg("abc"), int(2)], "bc");
    check("RIGHT", &[int(12345), int(2)], "45");
    check("UPPER", &[text_arg("aé")], "AÉ");
    check("LTRIM", &[text_arg("  a ")], "a ");
    check("REPLACE", &[text_arg("aXbx"), text_arg("x"), text_arg("--")], "a--b--");
    check("REPLICATE", &[text_arg("ab"), int(3)], "ababab");
    check("REPLICATE", &[text_arg("ab"), int(-1)], "NULL");
    check("STUFF", &[text_arg("abcdef"), int(2), int(3), text_arg("ijklmn")], "aijklmnef");
    check("CHARINDEX", &[text_arg("C"), text_arg("abcabc"), int(4)], "6");
    check("PATINDEX", &[text_arg("%[0-9]%"), text_arg("ab1")], "3");
    check("CONCAT", &[text_arg("a"), (Value::Null, SqlType::Int), int(5)], "a5");
    check("CONCAT_WS", &[text_arg("-"), text_arg("a"), (Value::Null, SqlType::Int), int(5)], "a-5");
    check("QUOTENAME", &[text_arg("a]b")], "[a]]b]");
    check("TRANSLATE", &[text_arg("2*[3+4]"), text_arg("[]"), text_arg("()")], "2*(3+4)");
    check("STR", &[(Value::Float(123.45), SqlType::Float), int(6), int(1)], " 123.5");
    check("STR", &[(Value::Float(123.45), SqlType::Float), int(2), int(2)], "**");
    check("ASCII", &[text_arg("A")], "65");
    check("NCHAR", &[int(8364)], "€");
    check("CHAR", &[int(128)], "€");
    check("REVERSE", &[text_arg("abc")], "cba");
    check("STR", &[(Value::Float(99.99), SqlType::Float), int(2)], "**");
    assert_eq!(call("LEN", &[]), Err(174));
}

#[test]
fn binary_becomes_text_but_where_its_bytes_are_wanted() {
    let binary = |bytes: &[u8]| (Value::Binary(bytes.to_vec()), SqlType::VarBinary(MaxLength::Limited(10)));
    check("UPPER", &[binary(b"abc")], "ABC");
    check("LEFT", &[binary(b"abc"), int(2)], "ab");
    check("RTRIM", &[binary(b"ab ")], "ab");
    check("REVERSE", &[(Value::Binary(b"ab".to_vec()), SqlType::Binary(2))], "ba");
    check("STUFF", &[binary(&[1, 2, 3]), int(2), int(1), binary(&[8, 9])], "0x01080903");
    check("STUFF", &[binary(b"abc"), int(2), int(1), text_arg("x")], "axc");
    check("UNICODE", &[binary(&[0xAC, 0x20])], "8364");
    assert_eq!(call("TRIM", &[binary(b"ab ")]), Err(8116));
    assert_eq!(call("TRANSLATE", &[binary(b"ab"), text_arg("a"), text_arg("b")]), Err(8116));
    assert_eq!(call("SUBSTRING", &[int(12), int(1), int(1)]), Err(8116));
    assert_eq!(call("SUBSTRING", &[(Value::Null, SqlType::Int), int(1), int(1)]), Err(8116));
}

#[test]
fn numeric_functions() {
    let decimal = |value, precision, scale| (Value::Decimal(value), SqlType::Decimal { precision, scale });
    check("ABS", &[int(-5)], "5");
    assert_eq!(call("ABS", &[int(i64::from(i32::MIN))]), Err(8115));
    check("SIGN", &[(Value::Int(-5), MONEY)], "-1.0000");
    check("CEILING", &[decimal(-125, 5, 2)], "-1");
    check("FLOOR", &[decimal(-125, 5, 2)], "-2");
    check("ROUND", &[decimal(1_234_500, 8, 4), int(2)], "123.4500");
    check("ROUND", &[int(748), int(-2)], "700");
    check("ROUND", &[decimal(15_075, 5, 2), int(0), int(1)], "150.00");
    check("POWER", &[int(2), int(15)], "32768");
    assert_eq!(call("POWER", &[int(2), int(31)]), Err(232));
    assert_eq!(call("SQRT", &[int(-1)]), Err(3623));
    assert_eq!(call("LOG", &[int(0)]), Err(3623));
    check("LOG", &[int(8), int(2)], "3");
    check("BIT_COUNT", &[int(-1)], "32");
    check("BIT_COUNT", &[(Value::Int(-1), SqlType::SmallInt)], "16");
    check("BIT_COUNT", &[(Value::Binary(vec![0xF0, 1]), SqlType::Binary(2))], "5");
    check("ISNUMERIC", &[text_arg("$1,000")], "1");
    check("ISNUMERIC", &[text_arg("abc")], "0");
}

#[test]
fn hashes_and_checksums() {
    check("BINARY_CHECKSUM", &[text_arg("abc")], "26435");
    check("CHECKSUM", &[int(1), int(2)], "18");
    check("CHECKSUM", &[int(-7)], "-7");
    assert_eq!(call("CHECKSUM", &[text_arg("a")]), call("CHECKSUM", &[text_arg("A ")]));
    check("HASHBYTES", &[text_arg("md5"), text_arg("abc")], "0x900150983CD24FB0D6963F7D28E17F72");
    check("HASHBYTES", &[text_arg("SHA1"), text_arg("abc")], "0xA9993E364706816ABA3E25717850C26C9CD0D89D");
    check("HASHBYTES", &[text_arg("crc"), text_arg("abc")], "NULL");
    assert_eq!(call("HASHBYTES", &[text_arg("MD5"), int(1)]), Err(8116));
    assert_eq!(call("NEWID", &[]).map(|guid| guid.len()), Ok(36));
}

#[test]
fn choices_have_their_types() {
    check("ISNULL", &[(Value::Null, SqlType::VarChar(MaxLength::Limited(2))), text_arg("abc")], "ab");
    check("COALESCE", &[(Value::Null, SqlType::Int), int(3), (Value::Int(10_000), MONEY)], "3.0000");
    check("NULLIF", &[text_arg("A"), text_arg("a ")], "NULL");
    check("GREATEST", &[int(3), (Value::Null, SqlType::Int), int(9)], "9");
    check("LEAST", &[text_arg("b"), text_arg("A")], "A");
    check("CHOOSE", &[int(2), text_arg("a"), text_arg("b")], "b");
    check("CHOOSE", &[int(5), text_arg("a"), text_arg("b")], "NULL");
}

#[test]
fn date_functions() {
    let add = |part, count, date: &str| {
        let read = (Value::Text(date.into()), SqlType::VarChar(MaxLength::Limited(30)));
        call_part("DATEADD", Some(part), &[int(count), read])
    };
    assert_eq!(add(DatePart::Month, 1, "2024-01-31").as_deref(), Ok("2024-02-29 00:00:00.000"));
    assert_eq!(add(DatePart::Minute, -1, "2024-01-01").as_deref(), Ok("2023-12-31 23:59:00.000"));
    assert_eq!(add(DatePart::Year, 9000, "2024-01-01"), Err(517));
    let diff = |part, a: &str, b: &str| call_part("DATEDIFF", Some(part), &[text_arg(a), text_arg(b)]);
    assert_eq!(diff(DatePart::Year, "2005-12-31 23:59:59.9999999", "2006-01-01").as_deref(), Ok("1"));
    assert_eq!(diff(DatePart::Week, "2024-06-08", "2024-06-09").as_deref(), Ok("1"));
    assert_eq!(diff(DatePart::Millisecond, "1900-01-01", "2026-01-01"), Err(535));
    let part = |part, date: &str| call_part("DATEPART", Some(part), &[text_arg(date)]);
    assert_eq!(part(DatePart::Weekday, "2026-11-21").as_deref(), Ok("7"));
    assert_eq!(part(DatePart::IsoWeek, "2021-01-03").as_deref(), Ok("53"));
    assert_eq!(part(DatePart::Week, "2021-01-03").as_deref(), Ok("2"));
    assert_eq!(call_part("DATENAME", Some(DatePart::Month), &[text_arg("2026-11-21")]).as_deref(), Ok("November"));
    assert_eq!(call_part("DATEPART", Some(DatePart::Hour), &[(Value::Int(0), SqlType::Date)]), Err(9810));
    check("EOMONTH", &[text_arg("2024-01-31"), int(1)], "2024-02-29");
    check("DATEFROMPARTS", &[int(2026), int(11), int(21)], "2026-11-21");
    assert_eq!(call("DATEFROMPARTS", &[int(2026), int(13), int(1)]), Err(289));
    check("TIMEFROMPARTS", &[int(23), int(59), int(58), int(5), int(1)], "23:59:58.5");
    assert_eq!(call("TIMEFROMPARTS", &[int(23), int(59), int(58), int(10), int(1)]), Err(289));
    let bucket = |part, width, date: &str| {
        let read = (Value::Text(date.into()), SqlType::VarChar(MaxLength::Limited(30)));
        call_part("DATE_BUCKET", Some(part), &[int(width), read])
    };
    // The examples of Microsoft's page, and a week that starts with the Monday of 1900-01-01.
    assert_eq!(bucket(DatePart::Week, 1, "2020-04-15 21:22:11").as_deref(), Ok("2020-04-13 00:00:00.0000000"));
    assert_eq!(bucket(DatePart::Month, 5, "2020-06-15 21:22:11").as_deref(), Ok("2020-06-01 00:00:00.0000000"));
    assert_eq!(bucket(DatePart::Minute, 15, "1899-12-31 23:59").as_deref(), Ok("1899-12-31 23:45:00.0000000"));
    assert_eq!(bucket(DatePart::Day, 0, "2020-04-15"), Err(9834));
    check("ISDATE", &[text_arg("2026-02-30")], "0");
    check("YEAR", &[text_arg("2026-02-03")], "2026");
    let truncated = call_part("DATETRUNC", Some(DatePart::Quarter), &[(Value::Int(20_778), SqlType::Date)]);
    assert_eq!(truncated.as_deref(), Ok("2026-10-01"));
}
