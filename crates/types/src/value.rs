//! One value of any type.

use crate::SqlType;

/// A value whose type is known from elsewhere (its column, its variable).
///
/// The type's family determines the variant, so two values of one type compare by their content: integers, `bit`,
/// `money`, `date` (days), `time` and the `datetime` family (100 ns) are `Int`. See [`crate::PhysicalType`] for the
/// units.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// Integers, `bit`, `money` and `smallmoney` (ten-thousandths), dates (days) and times (100 ns).
    Int(i64),
    /// `decimal`: the unscaled integer.
    Decimal(i128),
    /// `real` and `float`; see [`one_zero`].
    Float(f64),
    /// Text; `char` padding is ignored.
    Text(String),
    /// `binary`, `varbinary`.
    Binary(Vec<u8>),
    /// `uniqueidentifier`, its bytes in sort order.
    Guid([u8; 16]),
}

impl Value {
    /// Whether this is NULL.
    pub const fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
}

/// The value with the only zero that `real` and `float` have in T-SQL: `-0` becomes `0`, so that equal values have
/// equal bits wherever they are hashed, sorted or compared as bytes. All code that makes or reads a value must apply
/// it.
pub const fn one_zero(value: f64) -> f64 {
    // The sum of both zeros is the positive one.
    value + 0.0
}

/// A value with its type.
#[derive(Clone, PartialEq, Debug)]
pub struct TypedValue {
    /// The type.
    pub sql_type: SqlType,
    /// The value, or NULL.
    pub value: Value,
}
