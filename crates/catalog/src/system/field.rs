//! The Rust types of system table columns.

use hobt_types::{MaxLength, SqlType, Value};

/// 100 ns since 1970-01-01 UTC: a `datetime2(7)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamp(pub i64);

/// Text longer than a name: `nvarchar(2000)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text(pub String);

/// A type that a column of a system table can have.
pub(super) trait Field: Sized {
    const SQL_TYPE: SqlType;
    const NULLABLE: bool = false;

    fn to_value(&self) -> Value;
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! integer_field {
    ($rust:ty, $sql:expr) => {
        impl Field for $rust {
            const SQL_TYPE: SqlType = $sql;

            fn to_value(&self) -> Value {
                Value::Int(i64::from(*self))
            }

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::Int(int) => <$rust>::try_from(int).ok(),
                    _ => None,
                }
            }
        }
    };
}

integer_field!(u8, SqlType::TinyInt);
integer_field!(i16, SqlType::SmallInt);
integer_field!(i32, SqlType::Int);
integer_field!(i64, SqlType::BigInt);

impl Field for bool {
    const SQL_TYPE: SqlType = SqlType::Bit;

    fn to_value(&self) -> Value {
        Value::Int(i64::from(*self))
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Int(0) => Some(false),
            Value::Int(1) => Some(true),
            _ => None,
        }
    }
}

impl Field for Timestamp {
    const SQL_TYPE: SqlType = SqlType::DateTime2 { scale: 7 };

    fn to_value(&self) -> Value {
        Value::Int(self.0)
    }

    fn from_value(value: Value) -> Option<Self> {
        i64::from_value(value).map(Timestamp)
    }
}

impl Field for String {
    /// `sysname`.
    const SQL_TYPE: SqlType = SqlType::NVarChar(MaxLength::Limited(128));

    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Field for Text {
    const SQL_TYPE: SqlType = SqlType::NVarChar(MaxLength::Limited(2000));

    fn to_value(&self) -> Value {
        Value::Text(self.0.clone())
    }

    fn from_value(value: Value) -> Option<Self> {
        String::from_value(value).map(Text)
    }
}

/// A value of any integer type or of `decimal(38, 0)`.
impl Field for i128 {
    const SQL_TYPE: SqlType = SqlType::Decimal { precision: 38, scale: 0 };

    fn to_value(&self) -> Value {
        Value::Decimal(*self)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Decimal(number) => Some(number),
            _ => None,
        }
    }
}

impl Field for Vec<u8> {
    const SQL_TYPE: SqlType = SqlType::VarBinary(MaxLength::Limited(8000));

    fn to_value(&self) -> Value {
        Value::Binary(self.clone())
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl Field for [u8; 16] {
    const SQL_TYPE: SqlType = SqlType::UniqueIdentifier;

    fn to_value(&self) -> Value {
        Value::Guid(*self)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Guid(guid) => Some(guid),
            _ => None,
        }
    }
}

impl<T: Field> Field for Option<T> {
    const SQL_TYPE: SqlType = T::SQL_TYPE;
    const NULLABLE: bool = true;

    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, Field::to_value)
    }

    fn from_value(value: Value) -> Option<Self> {
        if value.is_null() { Some(None) } else { T::from_value(value).map(Some) }
    }
}
