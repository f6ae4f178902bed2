//! T-SQL's type rules: precedence, the common type of two expressions, the result types of operators, and the allowed
//! conversions.
//!
//! Sources: Microsoft's "Data type precedence", "Precision, scale, and length", "Data type conversion (Database
//! Engine)". Not here: the work on values ([`crate::arithmetic`], [`crate::cast`]).

mod conversion;
mod operator;

pub use conversion::{check_explicit, check_implicit};
pub(crate) use operator::invalid_operand;
pub use operator::{BinaryOperator, binary_result, bit_not_result, unary_minus_result};

use hobt_base::{SqlError, errors};
use hobt_types::{MaxLength, SqlType};

/// The rank in the list of data type precedence. The operand of lower rank is converted to the other's type.
pub const fn precedence(sql_type: SqlType) -> u8 {
    match sql_type {
        SqlType::DateTime2 { .. } => 27,
        SqlType::DateTime => 26,
        SqlType::SmallDateTime => 25,
        SqlType::Date => 24,
        SqlType::Time { .. } => 23,
        SqlType::Float => 22,
        SqlType::Real => 21,
        SqlType::Decimal { .. } => 20,
        SqlType::Money => 19,
        SqlType::SmallMoney => 18,
        SqlType::BigInt => 17,
        SqlType::Int => 16,
        SqlType::SmallInt => 15,
        SqlType::TinyInt => 14,
        SqlType::Bit => 13,
        SqlType::UniqueIdentifier => 8,
        SqlType::NVarChar(_) => 7,
        SqlType::NChar(_) => 6,
        SqlType::VarChar(_) => 5,
        SqlType::Char(_) => 4,
        SqlType::VarBinary(_) => 3,
        SqlType::Binary(_) => 2,
    }
}

/// The declared length of text or binary, in characters or bytes; `None` for other types.
pub const fn declared_length(sql_type: SqlType) -> Option<MaxLength> {
    match sql_type {
        SqlType::Char(n) | SqlType::NChar(n) | SqlType::Binary(n) => Some(MaxLength::Limited(n)),
        SqlType::VarChar(length) | SqlType::NVarChar(length) | SqlType::VarBinary(length) => Some(length),
        _ => None,
    }
}

/// The longer of two lengths, not above `limit` unless one is `max`.
fn longer(a: MaxLength, b: MaxLength, limit: u16) -> MaxLength {
    match (a, b) {
        (MaxLength::Limited(a), MaxLength::Limited(b)) => MaxLength::Limited(a.max(b).min(limit)),
        _ => MaxLength::Max,
    }
}

/// The decimal type that an exact number has in an operation with a decimal: `int` is `decimal(10,0)`, `money`
/// `decimal(19,4)`.
pub const fn as_decimal(sql_type: SqlType) -> Option<(u8, u8)> {
    Some(match sql_type {
        SqlType::Bit => (1, 0),
        SqlType::TinyInt => (3, 0),
        SqlType::SmallInt => (5, 0),
        SqlType::Int => (10, 0),
        SqlType::BigInt => (19, 0),
        SqlType::SmallMoney => (10, 4),
        SqlType::Money => (19, 4),
        SqlType::Decimal { precision, scale } => (precision, scale),
        _ => return None,
    })
}

/// A precision above 38 is reduced to 38 by dropping digits after the point, for `CASE`, `UNION` and comparison.
fn widest_decimal(left: (u8, u8), right: (u8, u8)) -> SqlType {
    let whole = (left.0 - left.1).max(right.0 - right.1);
    let scale = left.1.max(right.1);
    let precision = whole + scale;
    if precision <= 38 {
        SqlType::Decimal { precision, scale }
    } else {
        SqlType::Decimal { precision: 38, scale: 38 - whole }
    }
}

/// The type to which both sides of a comparison, of `CASE`, `COALESCE` or a set operator are converted.
///
/// # Errors
/// 206 if the lower type does not convert to the higher one implicitly, 257 if only an explicit conversion does.
pub fn common_type(left: SqlType, right: SqlType) -> Result<SqlType, SqlError> {
    if left == right {
        return Ok(left);
    }
    let (high, low) = if precedence(left) >= precedence(right) { (left, right) } else { (right, left) };
    check_implicit(low, high)?;
    Ok(match high {
        SqlType::Decimal { precision, scale } => match as_decimal(low) {
            Some(other) => widest_decimal((precision, scale), other),
            None => high,
        },
        SqlType::NVarChar(length) => text_of(length, low, 4000, SqlType::NVarChar),
        SqlType::VarChar(length) => text_of(length, low, 8000, SqlType::VarChar),
        SqlType::NChar(n) => match low {
            SqlType::NChar(m) | SqlType::Char(m) => SqlType::NChar(n.max(m).min(4000)),
            SqlType::VarChar(length) => SqlType::NVarChar(longer(MaxLength::Limited(n), length, 4000)),
            _ => high,
        },
        SqlType::Char(n) => match low {
            SqlType::Char(m) => SqlType::Char(n.max(m)),
            _ => high,
        },
        SqlType::VarBinary(length) => match declared_length(low) {
            Some(other) => SqlType::VarBinary(longer(length, other, 8000)),
            None => high,
        },
        SqlType::Binary(n) => match low {
            SqlType::Binary(m) => SqlType::Binary(n.max(m)),
            _ => high,
        },
        SqlType::Time { scale } => SqlType::Time { scale: scale.max(low_scale(low)) },
        SqlType::DateTime2 { scale } => SqlType::DateTime2 { scale: scale.max(low_scale(low)) },
        other => other,
    })
}

/// The number of digits of a second of a temporal type; 0 for other types.
fn low_scale(sql_type: SqlType) -> u8 {
    if sql_type.is_temporal() { sql_type.scale() } else { 0 }
}

fn text_of(length: MaxLength, low: SqlType, limit: u16, make: fn(MaxLength) -> SqlType) -> SqlType {
    match declared_length(low) {
        Some(other) => make(longer(length, other, limit)),
        None => make(length),
    }
}

/// The common type of several expressions, from left to right.
///
/// # Errors
/// As [`common_type`]; an internal error if there are no types.
pub fn common_type_of(types: &[SqlType]) -> Result<SqlType, SqlError> {
    let (first, rest) = types.split_first().ok_or_else(|| SqlError::internal("no expression to find a type for"))?;
    rest.iter().try_fold(*first, |common, next| common_type(common, *next))
}

/// 206.
pub(crate) fn type_clash(from: SqlType, to: SqlType) -> SqlError {
    errors::OPERAND_TYPE_CLASH.with([&from.name(), &to.name()])
}

/// The number of characters that a value of a type needs as text, for the length of a concatenation's result.
pub const fn text_width(sql_type: SqlType) -> u16 {
    match sql_type {
        SqlType::Bit => 1,
        SqlType::TinyInt => 3,
        SqlType::SmallInt => 6,
        SqlType::Int => 12,
        SqlType::BigInt => 20,
        SqlType::SmallMoney | SqlType::Money => 30,
        SqlType::Decimal { .. } => 41,
        SqlType::Real | SqlType::Float => 30,
        SqlType::Date => 10,
        SqlType::Time { .. } => 16,
        SqlType::SmallDateTime | SqlType::DateTime => 30,
        SqlType::DateTime2 { .. } => 30,
        SqlType::UniqueIdentifier => 36,
        SqlType::Char(n) | SqlType::NChar(n) | SqlType::Binary(n) => n,
        SqlType::VarChar(length) | SqlType::NVarChar(length) | SqlType::VarBinary(length) => match length {
            MaxLength::Limited(n) => n,
            MaxLength::Max => 8000,
        },
    }
}

#[cfg(test)]
mod tests;
