//! Values become bytes and the same values again, and bytes are those that bcp writes.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use hobt_types::{MaxLength, SqlType, Value};

use super::{ValueError, decode, decode_as, encode};
use crate::encoding::CodePage;
use crate::format_file::HostType;

fn encoded(value: &Value, sql_type: SqlType, host: HostType, encoding: &'static Encoding) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(value, sql_type, host, encoding, &mut bytes).expect("a value of the type");
    bytes
}

/// Values at the limits of every type.
pub(crate) fn limits() -> Vec<(SqlType, Vec<Value>)> {
    const TICKS_PER_DAY: i64 = 864_000_000_000;
    let numbers = |numbers: &[i64]| numbers.iter().copied().map(Value::Int).collect::<Vec<_>>();
    let decimals = |numbers: &[i128]| numbers.iter().copied().map(Value::Decimal).collect::<Vec<_>>();
    let texts = |texts: &[&str]| texts.iter().map(|text| Value::Text((*text).to_owned())).collect::<Vec<_>>();
    let all_digits = 10_i128.pow(38) - 1;
    let days = |day: i64| day * TICKS_PER_DAY;
    vec![
        (SqlType::Bit, numbers(&[0, 1])),
        (SqlType::TinyInt, numbers(&[0, 255])),
        (SqlType::SmallInt, numbers(&[i16::MIN.into(), -1, 0, i16::MAX.into()])),
        (SqlType::Int, numbers(&[i32::MIN.into(), -1, 0, i32::MAX.into()])),
        (SqlType::BigInt, numbers(&[i64::MIN, -1, 0, i64::MAX])),
        (SqlType::SmallMoney, numbers(&[i32::MIN.into(), -1, 0, i32::MAX.into()])),
        (SqlType::Money, numbers(&[i64::MIN, -1, 0, 1, 1 << 32, i64::MAX])),
        (SqlType::Decimal { precision: 38, scale: 38 }, decimals(&[-all_digits, -1, 0, all_digits])),
        (SqlType::Decimal { precision: 1, scale: 0 }, decimals(&[-9, 0, 9])),
        (SqlType::Real, [f32::MIN, -0.5, 0.0, f32::MIN_POSITIVE, f32::MAX].map(|v| Value::Float(v.into())).to_vec()),
        (SqlType::Float, [f64::MIN, -0.1, 0.0, f64::MIN_POSITIVE, f64::MAX].map(Value::Float).to_vec()),
        (SqlType::Date, numbers(&[-719_162, -1, 0, 2_932_896])),
        (SqlType::Time { scale: 7 }, numbers(&[0, TICKS_PER_DAY - 1])),
        (SqlType::Time { scale: 0 }, numbers(&[0, TICKS_PER_DAY - 10_000_000])),
        (SqlType::SmallDateTime, numbers(&[days(-25_567), 0, days(39_968) + 863_400_000_000])),
        (SqlType::DateTime, numbers(&[days(-79_257), -30_000, 0, 30_000, 70_000, days(2_932_897) - 30_000])),
        (SqlType::DateTime2 { scale: 7 }, numbers(&[days(-719_162), -1, 0, days(2_932_897) - 1])),
        (SqlType::DateTime2 { scale: 3 }, numbers(&[days(-719_162), -10_000, days(2_932_897) - 10_000])),
        (SqlType::Char(4), texts(&["", "ab  ", "é"])),
        (SqlType::VarChar(MaxLength::Limited(4)), texts(&["", "abcd", "é€üß"])),
        (SqlType::NVarChar(MaxLength::Max), texts(&["", "😀\u{0}ü", "\u{FFFF}"])),
        (SqlType::VarBinary(MaxLength::Limited(3)), [vec![], vec![0, 255, 26]].map(Value::Binary).to_vec()),
        (SqlType::UniqueIdentifier, [[0; 16], std::array::from_fn(|n| n as u8)].map(Value::Guid).to_vec()),
    ]
}

#[test]
fn values_at_their_limits_become_bytes_and_themselves_again() {
    for (sql_type, values) in limits() {
        for wide in [false, true] {
            let host = HostType::of(sql_type, wide);
            for value in &values {
                for (encoding, code_page) in [(UTF_8, CodePage::Utf8), (WINDOWS_1252, CodePage::Other(WINDOWS_1252))] {
                    if host == HostType::Char && sql_type.is_national() && encoding == WINDOWS_1252 {
                        continue;
                    }
                    let bytes = encoded(value, sql_type, host, encoding);
                    if let Some(width) = host.bytes() {
                        assert_eq!(bytes.len(), width, "{sql_type}");
                    }
                    let read = match host.is_text() {
                        true => decode(&bytes, host, code_page).map(|read| read.value),
                        false => decode_as(&bytes, host, sql_type),
                    };
                    assert_eq!(read.as_ref(), Ok(value), "{sql_type}");
                }
            }
        }
    }
}

#[test]
fn bytes_are_those_of_bcp() {
    const DAY: i64 = 864_000_000_000;
    let cases: [(Value, SqlType, &[u8]); 12] = [
        // 2004-05-23T14:25:10.123, as bcp wrote it.
        (Value::Int(12_561 * DAY + 519_101_230_000), SqlType::DateTime, &[0xF0, 0x94, 0, 0, 0x2D, 0xA0, 0xED, 0]),
        (Value::Int(-79_257 * DAY), SqlType::DateTime, &[0x46, 0x2E, 0xFF, 0xFF, 0, 0, 0, 0]),
        // 2004-05-23T14:25:10
        (
            Value::Int(12_561 * DAY + 519_100_000_000),
            SqlType::DateTime2 { scale: 7 },
            &[0, 0x67, 0xC5, 0xDC, 0x78, 0x4B, 0x2A, 0x0B],
        ),
        // 1000-01-01
        (Value::Int(364_877 - 719_162), SqlType::Date, &[0x4D, 0x91, 0x05]),
        // 01:00:00
        (Value::Int(36_000_000_000), SqlType::Time { scale: 7 }, &[0, 0x68, 0xC4, 0x61, 0x08]),
        (Value::Int(123_400), SqlType::Money, &[0, 0, 0, 0, 0x08, 0xE2, 0x01, 0]),
        (Value::Int(-1), SqlType::Money, &[0xFF; 8]),
        (Value::Int(1 << 32), SqlType::Money, &[1, 0, 0, 0, 0, 0, 0, 0]),
        (Value::Int(65_535 * DAY + -25_567 * DAY), SqlType::SmallDateTime, &[0xFF, 0xFF, 0, 0]),
        (
            Value::Decimal(-12_345),
            SqlType::Decimal { precision: 9, scale: 2 },
            &[9, 2, 0, 0x39, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        (Value::Text("é".to_owned()), SqlType::VarChar(MaxLength::Max), &[0xE9]),
        (Value::Text("é".to_owned()), SqlType::NVarChar(MaxLength::Max), &[0xE9, 0]),
    ];
    for (value, sql_type, bytes) in cases {
        assert_eq!(
            encoded(&value, sql_type, HostType::of(sql_type, false), WINDOWS_1252),
            bytes,
            "{sql_type} {value:?}"
        );
    }
    // 6F9619FF-8B86-D011-B42D-00C04FC964FF, as .NET and bcp write it.
    let stored = [0xFF, 0x19, 0x96, 0x6F, 0x86, 0x8B, 0x11, 0xD0, 0xB4, 0x2D, 0, 0xC0, 0x4F, 0xC9, 0x64, 0xFF];
    let guid = decode(&stored, HostType::UniqueIdentifier, CodePage::Utf8).expect("a guid");
    let text = hobt_functions::value_text(&guid.value, guid.sql_type).expect("text");
    assert_eq!(text, "6F9619FF-8B86-D011-B42D-00C04FC964FF");
    assert_eq!(encoded(&guid.value, guid.sql_type, HostType::UniqueIdentifier, UTF_8), stored);
}

#[test]
fn values_of_other_types_are_converted() {
    let decimal = SqlType::Decimal { precision: 5, scale: 1 };
    let bytes = encoded(&Value::Decimal(1250), SqlType::Decimal { precision: 9, scale: 2 }, HostType::Numeric, UTF_8);
    assert_eq!(decode_as(&bytes, HostType::Numeric, decimal), Ok(Value::Decimal(125)));
    assert_eq!(decode_as(&[7, 0, 0, 0], HostType::Int, SqlType::BigInt), Ok(Value::Int(7)));
    assert_eq!(decode_as(&[7, 1, 0, 0], HostType::Int, SqlType::TinyInt), Err(ValueError::Overflow));
    assert_eq!(encoded(&Value::Int(5), SqlType::Int, HostType::BigInt, UTF_8), 5_i64.to_le_bytes());
    assert_eq!(encoded(&Value::Int(-5), SqlType::Int, HostType::Decimal, UTF_8)[..4], [10, 0, 0, 5]);
    // A time with seven digits is rounded to the column's.
    let time = encoded(&Value::Int(15_000_000), SqlType::Time { scale: 7 }, HostType::Time, UTF_8);
    assert_eq!(decode_as(&time, HostType::Time, SqlType::Time { scale: 0 }), Ok(Value::Int(20_000_000)));
    let mut out = Vec::new();
    assert_eq!(encode(&Value::Int(300), SqlType::Int, HostType::TinyInt, UTF_8, &mut out), Err(ValueError::Overflow));
    assert_eq!(
        encode(&Value::Text("本".into()), SqlType::NVarChar(MaxLength::Max), HostType::Char, WINDOWS_1252, &mut out),
        Err(ValueError::Mismatch)
    );
    assert_eq!(out, b"");
}

#[test]
fn bytes_that_are_no_value_are_refused() {
    let mut too_large = [0xFF; 19];
    too_large[..3].copy_from_slice(&[38, 0, 1]);
    let cases: [(HostType, &[u8]); 14] = [
        (HostType::Int, &[0; 3]),
        (HostType::Int, &[0; 5]),
        (HostType::Real, &f32::NAN.to_le_bytes()),
        (HostType::Float, &f64::INFINITY.to_le_bytes()),
        (HostType::Decimal, &[5, 2]),
        (HostType::Decimal, &[39, 0, 1, 1]),
        (HostType::Decimal, &[1, 2, 1, 1]),
        (HostType::Decimal, &[1, 0, 1, 10]),
        (HostType::Decimal, &too_large),
        (HostType::DateTime, &[0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF]),
        (HostType::DateTime, &[0, 0, 0, 0x80, 0, 0, 0, 0]),
        (HostType::Date, &[0xFF; 3]),
        (HostType::Time, &[0xFF; 5]),
        (HostType::NChar, &[0, 0xD8]),
    ];
    for (host, bytes) in cases {
        assert_eq!(decode(bytes, host, CodePage::Utf8), Err(ValueError::Mismatch), "{host:?} {bytes:?}");
    }
    assert_eq!(decode(b"\xFF", HostType::Char, CodePage::Utf8), Err(ValueError::Mismatch));
    assert_eq!(decode(b"abc", HostType::NChar, CodePage::Utf8), Err(ValueError::Mismatch));
}

#[test]
fn what_is_longer_than_its_column_is_refused() {
    assert_eq!(decode_as(&[1, 2, 3], HostType::Binary, SqlType::Binary(2)), Err(ValueError::Truncation));
    assert_eq!(decode_as(&[1], HostType::Binary, SqlType::Binary(2)), Ok(Value::Binary(vec![1, 0])));
}
