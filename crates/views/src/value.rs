//! Converts Rust values to the values of a row.

use std::time::Duration;

use hobt_types::{SqlType, Value};

/// A type that can be a value of a row.
pub(super) trait IntoValue {
    /// The value.
    fn into_value(self) -> Value;
}

impl IntoValue for Value {
    fn into_value(self) -> Value {
        self
    }
}

impl IntoValue for &str {
    fn into_value(self) -> Value {
        Value::Text(self.to_owned())
    }
}

impl IntoValue for &String {
    fn into_value(self) -> Value {
        Value::Text(self.clone())
    }
}

impl IntoValue for String {
    fn into_value(self) -> Value {
        Value::Text(self)
    }
}

impl IntoValue for f64 {
    fn into_value(self) -> Value {
        Value::Float(self)
    }
}

impl IntoValue for bool {
    fn into_value(self) -> Value {
        Value::Int(i64::from(self))
    }
}

impl IntoValue for u64 {
    fn into_value(self) -> Value {
        Value::Int(i64::try_from(self).unwrap_or(i64::MAX))
    }
}

impl IntoValue for usize {
    fn into_value(self) -> Value {
        (self as u64).into_value()
    }
}

macro_rules! from_small {
    ($($name:ty),*) => {
        $(impl IntoValue for $name {
            fn into_value(self) -> Value {
                Value::Int(i64::from(self))
            }
        })*
    };
}

from_small!(i64, i32, i16, u32, u16, u8);

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Value {
        self.map_or(Value::Null, IntoValue::into_value)
    }
}

/// A row of values, each of a type with [`IntoValue`].
macro_rules! row {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::value::IntoValue::into_value($value)),*]
    };
}

pub(super) use row;

/// NULL.
pub(super) const NULL: Value = Value::Null;

/// Whole milliseconds.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Whole milliseconds of nanoseconds.
pub(super) fn milliseconds_of(nanoseconds: u64) -> u64 {
    nanoseconds / 1_000_000
}

/// A count as an `int` column can show it.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX).min(i64::from(i32::MAX))
}

/// A time (100 ns since 1970 UTC) as a `datetime` shows it: to 1/300 s.
pub(super) fn datetime(time: i64) -> Value {
    Value::Int(hobt_functions::round_to_datetime(time, hobt_types::SqlType::DateTime))
}

/// A text as a `char(n)` or `nchar(n)` value.
pub(super) fn padded(text: &str, length: usize) -> Value {
    Value::Text(format!("{text:<length$}"))
}

/// A value as text.
pub(super) fn text_of(value: &Value, sql_type: SqlType) -> Value {
    match hobt_functions::value_text(value, sql_type) {
        Ok(text) => Value::Text(text),
        Err(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datetime_keeps_three_hundredths() {
        let at = |milliseconds: i64| datetime(milliseconds * 10_000);
        assert_eq!(at(1), Value::Int(0));
        assert_eq!(at(2), Value::Int(30_000));
        assert_eq!(at(5), Value::Int(70_000));
        assert_eq!(at(999), Value::Int(10_000_000));
        assert_eq!(at(-1), Value::Int(0));
    }
}
