//! Converts values to the bytes that pages store, and back.
//!
//! The physical form of each type is documented at [`hobt_types::PhysicalType`]. Bytes from a page are not trusted:
//! bytes that cannot be a value of their type are a [`MalformedValue`].

use std::cmp::Ordering;
use std::fmt;

use hobt_page::RowImage;
use hobt_types::{Collation, MaxLength, PhysicalType, SqlType, Value, one_zero};

/// Bytes that are not a value of the type they are read as, or a value that does not belong to the type it is written
/// as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MalformedValue {
    /// The type.
    pub sql_type: SqlType,
}

impl fmt::Display for MalformedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a value of type {}", self.sql_type)
    }
}

impl std::error::Error for MalformedValue {}

/// The stored bytes of a value; `None` for NULL.
///
/// # Errors
/// The value is of another type family, or out of the type's range.
pub fn value_to_bytes(sql_type: SqlType, value: &Value) -> Result<Option<Vec<u8>>, MalformedValue> {
    let malformed = MalformedValue { sql_type };
    let bytes = match (sql_type, value) {
        (_, Value::Null) => return Ok(None),
        (SqlType::Decimal { .. }, Value::Decimal(unscaled)) => match sql_type.physical() {
            PhysicalType::Fixed4 => i32::try_from(*unscaled).map_err(|_| malformed)?.to_le_bytes().to_vec(),
            PhysicalType::Fixed8 => i64::try_from(*unscaled).map_err(|_| malformed)?.to_le_bytes().to_vec(),
            _ => unscaled.to_le_bytes().to_vec(),
        },
        // The cast rounds to the declared precision of `real`.
        (SqlType::Real, Value::Float(float)) => (one_zero((*float as f32).into()) as f32).to_le_bytes().to_vec(),
        (SqlType::Float, Value::Float(float)) => one_zero(*float).to_le_bytes().to_vec(),
        (SqlType::UniqueIdentifier, Value::Guid(guid)) => guid.to_vec(),
        (_, Value::Text(text)) if sql_type.is_text() => text.as_bytes().to_vec(),
        (_, Value::Binary(bytes)) if sql_type.is_binary() => bytes.clone(),
        (SqlType::Decimal { .. } | SqlType::Real | SqlType::Float, _) => return Err(malformed),
        (_, Value::Int(int)) => match sql_type.physical() {
            PhysicalType::Fixed1 => u8::try_from(*int).map_err(|_| malformed)?.to_le_bytes().to_vec(),
            PhysicalType::Fixed2 => i16::try_from(*int).map_err(|_| malformed)?.to_le_bytes().to_vec(),
            PhysicalType::Fixed4 => i32::try_from(*int).map_err(|_| malformed)?.to_le_bytes().to_vec(),
            PhysicalType::Fixed8 => int.to_le_bytes().to_vec(),
            PhysicalType::Fixed16 | PhysicalType::Variable => return Err(malformed),
        },
        _ => return Err(malformed),
    };
    Ok(Some(bytes))
}

fn array<const N: usize>(sql_type: SqlType, bytes: &[u8]) -> Result<[u8; N], MalformedValue> {
    bytes.try_into().map_err(|_| MalformedValue { sql_type })
}

/// The value in the stored bytes; `None` is NULL.
///
/// # Errors
/// The bytes have the wrong length, or text is not UTF-8.
pub fn value_from_bytes(sql_type: SqlType, bytes: Option<&[u8]>) -> Result<Value, MalformedValue> {
    let Some(bytes) = bytes else { return Ok(Value::Null) };
    let value = match sql_type {
        SqlType::Decimal { .. } => Value::Decimal(match sql_type.physical() {
            PhysicalType::Fixed4 => i128::from(i32::from_le_bytes(array(sql_type, bytes)?)),
            PhysicalType::Fixed8 => i128::from(i64::from_le_bytes(array(sql_type, bytes)?)),
            _ => i128::from_le_bytes(array(sql_type, bytes)?),
        }),
        SqlType::Real => Value::Float(one_zero(f32::from_le_bytes(array(sql_type, bytes)?).into())),
        SqlType::Float => Value::Float(one_zero(f64::from_le_bytes(array(sql_type, bytes)?))),
        SqlType::UniqueIdentifier => Value::Guid(array(sql_type, bytes)?),
        _ if sql_type.is_text() => {
            Value::Text(std::str::from_utf8(bytes).map_err(|_| MalformedValue { sql_type })?.to_owned())
        }
        _ if sql_type.is_binary() => Value::Binary(bytes.to_vec()),
        _ => Value::Int(match sql_type.physical() {
            PhysicalType::Fixed1 => i64::from(u8::from_le_bytes(array(sql_type, bytes)?)),
            PhysicalType::Fixed2 => i64::from(i16::from_le_bytes(array(sql_type, bytes)?)),
            PhysicalType::Fixed4 => i64::from(i32::from_le_bytes(array(sql_type, bytes)?)),
            _ => i64::from_le_bytes(array(sql_type, bytes)?),
        }),
    };
    Ok(value)
}

/// 100 ns in a day.
const TICKS_PER_DAY: i64 = 86_400 * 10_000_000;
/// Limits in days since 1970-01-01: 0001-01-01 and 9999-12-31 (`date` and `datetime2`), 1753-01-01 (`datetime`),
/// 1900-01-01 and 2079-06-06 (`smalldatetime`).
const FIRST_DAY: i64 = -719_162;
const LAST_DAY: i64 = 2_932_896;
const DATETIME_FIRST_DAY: i64 = -79_257;
const SMALLDATETIME_FIRST_DAY: i64 = -25_567;
const SMALLDATETIME_LAST_DAY: i64 = 39_968;

/// Checks that the stored bytes of a value that is not NULL are a value that a statement could have written: within the
/// range and the maximum length of the type. Does not check the points in time that a type rounds to.
///
/// # Errors
/// They are not such a value.
pub fn check_value_bytes(sql_type: SqlType, bytes: &[u8]) -> Result<(), MalformedValue> {
    let value = value_from_bytes(sql_type, Some(bytes))?;
    let days = |first: i64, last: i64| first * TICKS_PER_DAY..(last + 1) * TICKS_PER_DAY;
    let is_within = |length: usize, max: MaxLength| match max {
        MaxLength::Limited(max) => length <= usize::from(max),
        MaxLength::Max => length <= i32::MAX as usize,
    };
    let is_legal = match (sql_type, &value) {
        (SqlType::Bit, Value::Int(bit)) => (0..=1).contains(bit),
        (SqlType::Decimal { precision, .. }, Value::Decimal(unscaled)) => {
            10u128.checked_pow(precision.into()).is_some_and(|end| unscaled.unsigned_abs() < end)
        }
        (_, Value::Float(float)) => float.is_finite(),
        (SqlType::Date, Value::Int(day)) => (FIRST_DAY..=LAST_DAY).contains(day),
        (SqlType::Time { .. }, Value::Int(ticks)) => (0..TICKS_PER_DAY).contains(ticks),
        (SqlType::SmallDateTime, Value::Int(ticks)) => {
            days(SMALLDATETIME_FIRST_DAY, SMALLDATETIME_LAST_DAY).contains(ticks)
        }
        (SqlType::DateTime, Value::Int(ticks)) => days(DATETIME_FIRST_DAY, LAST_DAY).contains(ticks),
        (SqlType::DateTime2 { .. }, Value::Int(ticks)) => days(FIRST_DAY, LAST_DAY).contains(ticks),
        (SqlType::Char(length), Value::Text(text)) => is_within(text.chars().count(), MaxLength::Limited(length)),
        (SqlType::VarChar(length), Value::Text(text)) => is_within(text.chars().count(), length),
        (SqlType::NChar(length), Value::Text(text)) => {
            is_within(text.encode_utf16().count(), MaxLength::Limited(length))
        }
        (SqlType::NVarChar(length), Value::Text(text)) => is_within(text.encode_utf16().count(), length),
        (SqlType::Binary(length), Value::Binary(bytes)) => bytes.len() == usize::from(length),
        (SqlType::VarBinary(length), Value::Binary(bytes)) => is_within(bytes.len(), length),
        _ => true,
    };
    if is_legal { Ok(()) } else { Err(MalformedValue { sql_type }) }
}

/// The image of a row of values of these types, for an insert of one row.
///
/// # Errors
/// A value does not belong to its column's type.
///
/// # Panics
/// If the number of values is not the number of types.
pub fn row_image(types: impl ExactSizeIterator<Item = SqlType>, values: &[Value]) -> Result<RowImage, MalformedValue> {
    assert_eq!(types.len(), values.len(), "a value for each column");
    let bytes: Vec<Option<Vec<u8>>> =
        types.zip(values).map(|(sql_type, value)| value_to_bytes(sql_type, value)).collect::<Result<_, _>>()?;
    Ok(RowImage::new(bytes.iter().map(Option::as_deref)))
}

/// The order of two values of one type, NULL first: the order of partition boundaries.
///
/// Values of different families compare as equal. Callers pass values of one type.
pub fn compare_values(collation: Option<Collation>, left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Decimal(left), Value::Decimal(right)) => left.cmp(right),
        // −0 equals 0, and NaN cannot be stored.
        (Value::Float(left), Value::Float(right)) => left.partial_cmp(right).unwrap_or(Ordering::Equal),
        (Value::Text(left), Value::Text(right)) => collation.unwrap_or_default().compare(left, right),
        (Value::Binary(left), Value::Binary(right)) => left.cmp(right),
        (Value::Guid(left), Value::Guid(right)) => left.cmp(right),
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_comes_back_as_it_was() {
        let cases = [
            (SqlType::Bit, Value::Int(1)),
            (SqlType::TinyInt, Value::Int(255)),
            (SqlType::SmallInt, Value::Int(-7)),
            (SqlType::Int, Value::Int(i64::from(i32::MIN))),
            (SqlType::BigInt, Value::Int(i64::MIN)),
            (SqlType::Decimal { precision: 9, scale: 2 }, Value::Decimal(-999_999_999)),
            (SqlType::Decimal { precision: 18, scale: 2 }, Value::Decimal(1 << 50)),
            (SqlType::Decimal { precision: 38, scale: 0 }, Value::Decimal(-(1 << 100))),
            (SqlType::Real, Value::Float(0.5)),
            (SqlType::Float, Value::Float(-1e300)),
            (SqlType::Date, Value::Int(-3)),
            (SqlType::DateTime2 { scale: 7 }, Value::Int(1 << 60)),
            (SqlType::NVarChar(MaxLength::Max), Value::Text("käse 🧀".to_owned())),
            (SqlType::VarBinary(MaxLength::Limited(9)), Value::Binary(vec![0, 255])),
            (SqlType::UniqueIdentifier, Value::Guid([7; 16])),
            (SqlType::Int, Value::Null),
        ];
        for (sql_type, value) in cases {
            let bytes = value_to_bytes(sql_type, &value).expect("a value of the type");
            assert_eq!(value_from_bytes(sql_type, bytes.as_deref()), Ok(value), "{sql_type}");
        }
    }

    #[test]
    fn a_zero_has_no_sign_whoever_wrote_it() {
        for (sql_type, written) in
            [(SqlType::Float, (-0.0f64).to_le_bytes().to_vec()), (SqlType::Real, (-0.0f32).to_le_bytes().to_vec())]
        {
            let read = value_from_bytes(sql_type, Some(&written)).expect("a value of the type");
            assert!(matches!(read, Value::Float(zero) if zero.to_bits() == 0), "{sql_type}");
            // The `real` is too small to be represented.
            for zero in [-0.0, if sql_type == SqlType::Real { -1e-300 } else { 0.0 }] {
                let bytes = value_to_bytes(sql_type, &Value::Float(zero)).expect("a value of the type");
                assert_eq!(bytes, Some(vec![0; written.len()]), "{sql_type}");
            }
        }
    }

    #[test]
    fn what_is_no_value_of_the_type_is_refused() {
        assert!(value_to_bytes(SqlType::TinyInt, &Value::Int(256)).is_err());
        assert!(value_to_bytes(SqlType::Int, &Value::Text("1".to_owned())).is_err());
        assert!(value_to_bytes(SqlType::Decimal { precision: 5, scale: 0 }, &Value::Int(1)).is_err());
        assert!(value_from_bytes(SqlType::Int, Some(&[1, 2, 3])).is_err());
        assert!(value_from_bytes(SqlType::VarChar(MaxLength::Max), Some(&[0xFF])).is_err());
    }

    #[test]
    fn a_value_out_of_the_range_of_its_type_is_found() {
        let ends = |sql_type: SqlType, ok: &[i64], wrong: &[i64]| {
            let width = sql_type.physical().width().expect("a number");
            let check = |value: i64| check_value_bytes(sql_type, &value.to_le_bytes()[..width]);
            ok.iter().for_each(|value| assert_eq!(check(*value), Ok(()), "{sql_type} {value}"));
            wrong.iter().for_each(|value| assert!(check(*value).is_err(), "{sql_type} {value}"));
        };
        ends(SqlType::Bit, &[0, 1], &[2, 255]);
        ends(SqlType::Decimal { precision: 3, scale: 1 }, &[-999, 999], &[-1000, 1000, i64::from(i32::MIN)]);
        ends(SqlType::Date, &[-719_162, 2_932_896], &[-719_163, 2_932_897]);
        ends(SqlType::Time { scale: 7 }, &[0, TICKS_PER_DAY - 1], &[-1, TICKS_PER_DAY]);
        ends(SqlType::DateTime, &[-79_257 * TICKS_PER_DAY], &[-79_257 * TICKS_PER_DAY - 1, i64::MAX]);
        ends(SqlType::Int, &[i32::MIN.into(), i32::MAX.into()], &[]);
        assert!(check_value_bytes(SqlType::Real, &f32::NAN.to_le_bytes()).is_err());
        assert!(check_value_bytes(SqlType::Float, &f64::INFINITY.to_le_bytes()).is_err());
        let text = SqlType::NVarChar(MaxLength::Limited(2));
        assert_eq!(check_value_bytes(text, "äö".as_bytes()), Ok(()));
        assert!(check_value_bytes(text, "äöü".as_bytes()).is_err());
        assert!(check_value_bytes(SqlType::Binary(2), &[1]).is_err());
    }

    #[test]
    fn boundaries_are_ordered_as_their_collation_has_it() {
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(compare_values(Some(Collation::default()), &text("A"), &text("a ")), Ordering::Equal);
        assert_eq!(compare_values(Some(Collation::Latin1GeneralBin2), &text("A"), &text("a")), Ordering::Less);
        assert_eq!(compare_values(None, &Value::Null, &Value::Int(i64::MIN)), Ordering::Less);
    }
}
