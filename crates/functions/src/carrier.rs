//! Carriers: the Arrow type that values of a SQL type have inside a plan, and conversions to and from it.
//!
//! | SQL type | carrier | unit |
//! |---|---|---|
//! | `bit`, `tinyint` | `UInt8` | |
//! | `smallint`, `int`, `bigint` | `Int16`, `Int32`, `Int64` | |
//! | `decimal(p,s)` | `Decimal128(p,s)` | |
//! | `money`, `smallmoney` | `Decimal128(19,4)`, `Decimal128(10,4)` | |
//! | `real`, `float` | `Float32`, `Float64` | |
//! | `date` | `Date32` | days since 1970-01-01 |
//! | `time` | `Int64` | 100 ns since midnight |
//! | `smalldatetime`, `datetime`, `datetime2` | `Int64` | 100 ns since 1970-01-01 |
//! | text | `Utf8View` | `char` and `nchar` with their padding |
//! | binary | `BinaryView` | `binary` with its padding |
//! | `uniqueidentifier` | `FixedSizeBinary(16)` | bytes in SQL Server's sort order |
//!
//! Not here: conversion between SQL types ([`crate::cast`]) and text forms ([`crate::format`]).

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewBuilder, BooleanArray, Decimal128Builder,
    FixedSizeBinaryBuilder, PrimitiveBuilder, StringViewBuilder, Time64NanosecondArray, TimestampMicrosecondArray,
};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    UInt8Type,
};
use hobt_base::SqlError;
use hobt_types::{SqlType, Value, one_zero};

/// The Arrow type of `sql_type`'s values inside plans; see the table of the module.
pub const fn carrier(sql_type: SqlType) -> DataType {
    match sql_type {
        SqlType::Bit | SqlType::TinyInt => DataType::UInt8,
        SqlType::SmallInt => DataType::Int16,
        SqlType::Int => DataType::Int32,
        SqlType::BigInt => DataType::Int64,
        SqlType::Decimal { precision, scale } => DataType::Decimal128(precision, scale as i8),
        SqlType::Money => DataType::Decimal128(19, 4),
        SqlType::SmallMoney => DataType::Decimal128(10, 4),
        SqlType::Real => DataType::Float32,
        SqlType::Float => DataType::Float64,
        SqlType::Date => DataType::Date32,
        SqlType::Time { .. } | SqlType::SmallDateTime | SqlType::DateTime | SqlType::DateTime2 { .. } => {
            DataType::Int64
        }
        SqlType::Char(_) | SqlType::VarChar(_) | SqlType::NChar(_) | SqlType::NVarChar(_) => DataType::Utf8View,
        SqlType::Binary(_) | SqlType::VarBinary(_) => DataType::BinaryView,
        SqlType::UniqueIdentifier => DataType::FixedSizeBinary(16),
    }
}

/// The Arrow type that an embedding program sees: `bit` as `Boolean`, `time` as `Time64(ns)`, the `datetime` family as
/// `Timestamp(µs)`, the rest as its carrier.
pub fn output_type(sql_type: SqlType) -> DataType {
    match sql_type {
        SqlType::Bit => DataType::Boolean,
        SqlType::Time { .. } => DataType::Time64(TimeUnit::Nanosecond),
        SqlType::SmallDateTime | SqlType::DateTime | SqlType::DateTime2 { .. } => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        other => carrier(other),
    }
}

/// The field of a result column, with the SQL type's declaration as metadata `hobt.sql_type`.
pub fn output_field(name: &str, sql_type: SqlType, nullable: bool) -> Field {
    let metadata = [("hobt.sql_type".to_string(), sql_type.to_string())].into();
    Field::new(name, output_type(sql_type), nullable).with_metadata(metadata)
}

/// The error for an array that does not have its type's carrier: a broken invariant of the plan.
pub(crate) fn not_the_carrier(array: &dyn Array, sql_type: SqlType) -> SqlError {
    SqlError::internal(format!("an array of {} stands where {sql_type} is expected", array.data_type()))
}

/// A carrier array as an embedding program sees it, see [`output_type`]. Digits below a microsecond of a `datetime2`
/// are truncated.
///
/// # Errors
/// An internal error if `array` does not have the type's carrier.
pub fn output_array(array: &ArrayRef, sql_type: SqlType) -> Result<ArrayRef, SqlError> {
    let broken = || not_the_carrier(array, sql_type);
    let nulls = array.nulls().cloned();
    Ok(match sql_type {
        SqlType::Bit => {
            let values = array.as_primitive_opt::<UInt8Type>().ok_or_else(broken)?.values();
            let bits = BooleanBuffer::collect_bool(values.len(), |row| values[row] != 0);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        SqlType::Time { .. } => {
            let values = array.as_primitive_opt::<Int64Type>().ok_or_else(broken)?.values();
            let nanoseconds: ScalarBuffer<i64> = values.iter().map(|ticks| ticks.wrapping_mul(100)).collect();
            Arc::new(Time64NanosecondArray::new(nanoseconds, nulls))
        }
        SqlType::SmallDateTime | SqlType::DateTime | SqlType::DateTime2 { .. } => {
            let values = array.as_primitive_opt::<Int64Type>().ok_or_else(broken)?.values();
            let microseconds: ScalarBuffer<i64> = values.iter().map(|ticks| ticks.div_euclid(10)).collect();
            Arc::new(TimestampMicrosecondArray::new(microseconds, nulls))
        }
        _ => Arc::clone(array),
    })
}

fn mismatch(value: &Value, sql_type: SqlType) -> SqlError {
    SqlError::internal(format!("the value {value:?} stands where {sql_type} is expected"))
}

/// One value as an array of one element in its type's carrier.
///
/// # Errors
/// An internal error if the value's variant is not that of the type, or it does not fit the carrier.
pub fn value_to_array(value: &Value, sql_type: SqlType) -> Result<ArrayRef, SqlError> {
    values_to_array(std::iter::once(value), sql_type)
}

/// Values as an array of their type's carrier.
///
/// # Errors
/// An internal error if a value's variant is not that of the type, or it does not fit the carrier.
pub fn values_to_array<'v>(
    values: impl ExactSizeIterator<Item = &'v Value>,
    sql_type: SqlType,
) -> Result<ArrayRef, SqlError> {
    let column = Column { values, sql_type };
    match carrier(sql_type) {
        DataType::UInt8 => column.primitive(PrimitiveBuilder::<UInt8Type>::with_capacity, integer),
        DataType::Int16 => column.primitive(PrimitiveBuilder::<Int16Type>::with_capacity, integer),
        DataType::Int32 => column.primitive(PrimitiveBuilder::<Int32Type>::with_capacity, integer),
        DataType::Date32 => column.primitive(PrimitiveBuilder::<Date32Type>::with_capacity, integer),
        DataType::Int64 => column.primitive(PrimitiveBuilder::<Int64Type>::with_capacity, integer),
        data_type @ DataType::Decimal128(..) => {
            let empty = |count| Decimal128Builder::with_capacity(count).with_data_type(data_type.clone());
            column.primitive(empty, |value| match value {
                Value::Int(v) => Some(i128::from(*v)),
                Value::Decimal(v) => Some(*v),
                _ => None,
            })
        }
        DataType::Float32 => column.primitive(PrimitiveBuilder::<Float32Type>::with_capacity, |value| match value {
            Value::Float(v) => Some(one_zero((*v as f32).into()) as f32),
            _ => None,
        }),
        DataType::Float64 => column.primitive(PrimitiveBuilder::<Float64Type>::with_capacity, |value| match value {
            Value::Float(v) => Some(one_zero(*v)),
            _ => None,
        }),
        DataType::Utf8View => {
            let mut array = StringViewBuilder::with_capacity(column.values.len());
            let text = |value: &'v Value| if let Value::Text(v) = value { Some(v) } else { None };
            column.each(text, |value| array.append_option(value))?;
            Ok(Arc::new(array.finish()))
        }
        DataType::BinaryView => {
            let mut array = BinaryViewBuilder::with_capacity(column.values.len());
            let bytes = |value: &'v Value| if let Value::Binary(v) = value { Some(v) } else { None };
            column.each(bytes, |value| array.append_option(value))?;
            Ok(Arc::new(array.finish()))
        }
        DataType::FixedSizeBinary(width) => {
            let mut array = FixedSizeBinaryBuilder::with_capacity(column.values.len(), width);
            let guid = |value: &'v Value| if let Value::Guid(v) = value { Some(v) } else { None };
            column.each(guid, |value| match value {
                Some(value) => array.append_value(value).expect("16 bytes, the carrier's width"),
                None => array.append_null(),
            })?;
            Ok(Arc::new(array.finish()))
        }
        other => Err(SqlError::internal(format!("{other} is no carrier"))),
    }
}

fn integer<N: TryFrom<i64>>(value: &Value) -> Option<N> {
    match value {
        Value::Int(v) => N::try_from(*v).ok(),
        _ => None,
    }
}

/// The values of one type that become an array.
struct Column<I> {
    values: I,
    sql_type: SqlType,
}

impl<'v, I: ExactSizeIterator<Item = &'v Value>> Column<I> {
    /// Appends what `of` makes of each value, `None` for NULL. `of` returns `None` for a value that is not of the type.
    fn each<T>(self, of: impl Fn(&'v Value) -> Option<T>, mut append: impl FnMut(Option<T>)) -> Result<(), SqlError> {
        for value in self.values {
            let is_there = !value.is_null();
            append(is_there.then(|| of(value).ok_or_else(|| mismatch(value, self.sql_type))).transpose()?);
        }
        Ok(())
    }

    fn primitive<T: ArrowPrimitiveType>(
        self,
        empty: impl FnOnce(usize) -> PrimitiveBuilder<T>,
        of: impl Fn(&'v Value) -> Option<T::Native>,
    ) -> Result<ArrayRef, SqlError> {
        let mut array = empty(self.values.len());
        self.each(of, |value| array.append_option(value))?;
        Ok(Arc::new(array.finish()))
    }
}

/// The value at `row` of a carrier array.
///
/// # Errors
/// An internal error if `array` does not have the type's carrier.
///
/// # Panics
/// If `row` is outside the array.
pub fn array_value(array: &dyn Array, row: usize, sql_type: SqlType) -> Result<Value, SqlError> {
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    let broken = || not_the_carrier(array, sql_type);
    Ok(match sql_type {
        SqlType::Bit | SqlType::TinyInt => {
            Value::Int(i64::from(array.as_primitive_opt::<UInt8Type>().ok_or_else(broken)?.value(row)))
        }
        SqlType::SmallInt => {
            Value::Int(i64::from(array.as_primitive_opt::<Int16Type>().ok_or_else(broken)?.value(row)))
        }
        SqlType::Int => Value::Int(i64::from(array.as_primitive_opt::<Int32Type>().ok_or_else(broken)?.value(row))),
        SqlType::Date => Value::Int(i64::from(array.as_primitive_opt::<Date32Type>().ok_or_else(broken)?.value(row))),
        SqlType::BigInt
        | SqlType::Time { .. }
        | SqlType::SmallDateTime
        | SqlType::DateTime
        | SqlType::DateTime2 { .. } => Value::Int(array.as_primitive_opt::<Int64Type>().ok_or_else(broken)?.value(row)),
        SqlType::Decimal { .. } => {
            Value::Decimal(array.as_primitive_opt::<Decimal128Type>().ok_or_else(broken)?.value(row))
        }
        SqlType::Money | SqlType::SmallMoney => {
            let unscaled = array.as_primitive_opt::<Decimal128Type>().ok_or_else(broken)?.value(row);
            Value::Int(i64::try_from(unscaled).map_err(|_| SqlError::internal("a money value beyond 64 bits"))?)
        }
        SqlType::Real => {
            Value::Float(f64::from(array.as_primitive_opt::<Float32Type>().ok_or_else(broken)?.value(row)))
        }
        SqlType::Float => Value::Float(array.as_primitive_opt::<Float64Type>().ok_or_else(broken)?.value(row)),
        SqlType::Char(_) | SqlType::VarChar(_) | SqlType::NChar(_) | SqlType::NVarChar(_) => {
            Value::Text(array.as_string_view_opt().ok_or_else(broken)?.value(row).to_string())
        }
        SqlType::Binary(_) | SqlType::VarBinary(_) => {
            Value::Binary(array.as_binary_view_opt().ok_or_else(broken)?.value(row).to_vec())
        }
        SqlType::UniqueIdentifier => {
            let bytes = array.as_fixed_size_binary_opt().ok_or_else(broken)?.value(row);
            Value::Guid(bytes.try_into().map_err(|_| broken())?)
        }
    })
}

/// The order in which SQL Server compares the stored bytes of a `uniqueidentifier`.
const GUID_ORDER: [usize; 16] = [10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3];

/// Converts a guid from SQL Server's storage order (as in `CAST(NEWID() AS binary(16))`) to the sort order of the
/// carrier.
pub fn guid_to_sort_order(stored: [u8; 16]) -> [u8; 16] {
    GUID_ORDER.map(|place| stored[place])
}

/// The inverse of [`guid_to_sort_order`].
pub fn guid_from_sort_order(sorted: [u8; 16]) -> [u8; 16] {
    let mut stored = [0; 16];
    for (byte, place) in sorted.into_iter().zip(GUID_ORDER) {
        stored[place] = byte;
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_types::MaxLength;

    #[test]
    fn every_value_survives_the_way_through_its_carrier() {
        let cases = [
            (Value::Int(1), SqlType::Bit),
            (Value::Int(-5), SqlType::SmallInt),
            (Value::Int(-5), SqlType::Int),
            (Value::Int(i64::MIN), SqlType::BigInt),
            (Value::Int(12_345), SqlType::Money),
            (Value::Decimal(-7), SqlType::Decimal { precision: 10, scale: 2 }),
            (Value::Float(0.5), SqlType::Real),
            (Value::Float(0.1), SqlType::Float),
            (Value::Int(-1), SqlType::Date),
            (Value::Int(-1), SqlType::DateTime),
            (Value::Text("a longer text than inline".into()), SqlType::VarChar(MaxLength::Max)),
            (Value::Binary(vec![0, 255]), SqlType::Binary(2)),
            (Value::Guid([7; 16]), SqlType::UniqueIdentifier),
        ];
        for (value, sql_type) in cases {
            let array = value_to_array(&value, sql_type).unwrap();
            assert_eq!(array.data_type(), &carrier(sql_type));
            assert_eq!(array_value(&array, 0, sql_type).unwrap(), value);
            let null = value_to_array(&Value::Null, sql_type).unwrap();
            assert_eq!(array_value(&null, 0, sql_type).unwrap(), Value::Null);
            let column = [value.clone(), Value::Null, value];
            let array = values_to_array(column.iter(), sql_type).unwrap();
            assert_eq!(array.data_type(), &carrier(sql_type));
            let back: Vec<Value> = (0..3).map(|row| array_value(&array, row, sql_type).unwrap()).collect();
            assert_eq!(back, column);
            assert_eq!(output_array(&array, sql_type).unwrap().data_type(), &output_type(sql_type));
        }
    }

    #[test]
    fn guid_order_is_its_own_inverse_pair() {
        let stored: [u8; 16] = std::array::from_fn(|place| place as u8);
        assert_eq!(guid_to_sort_order(stored)[0], 10);
        assert_eq!(guid_from_sort_order(guid_to_sort_order(stored)), stored);
    }

    #[test]
    fn a_value_of_another_family_is_refused() {
        assert!(value_to_array(&Value::Int(300), SqlType::TinyInt).is_err());
        assert!(value_to_array(&Value::Text("x".into()), SqlType::Int).is_err());
    }
}
