//! Which conversions are allowed, and which of them need no `CAST`.
//!
//! The matrix of Microsoft's "CAST and CONVERT" page ("Implicit conversions").

use hobt_base::{SqlError, errors};
use hobt_types::SqlType;

use super::type_clash;

/// An entry of the matrix.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Implicit,
    Explicit,
    Never,
}

/// The rows and columns of the matrix.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Integer,
    Decimal,
    Money,
    Floating,
    /// `date`
    Date,
    Time,
    /// `datetime2`
    DateTime2,
    /// `datetime`, `smalldatetime`, which are also numbers of days
    DateTime,
    Text,
    NationalText,
    Binary,
    Guid,
}

const fn family(sql_type: SqlType) -> Family {
    match sql_type {
        SqlType::Bit | SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt => Family::Integer,
        SqlType::Decimal { .. } => Family::Decimal,
        SqlType::Money | SqlType::SmallMoney => Family::Money,
        SqlType::Real | SqlType::Float => Family::Floating,
        SqlType::Date => Family::Date,
        SqlType::Time { .. } => Family::Time,
        SqlType::DateTime2 { .. } => Family::DateTime2,
        SqlType::DateTime | SqlType::SmallDateTime => Family::DateTime,
        SqlType::Char(_) | SqlType::VarChar(_) => Family::Text,
        SqlType::NChar(_) | SqlType::NVarChar(_) => Family::NationalText,
        SqlType::Binary(_) | SqlType::VarBinary(_) => Family::Binary,
        SqlType::UniqueIdentifier => Family::Guid,
    }
}

fn allowed(from: SqlType, to: SqlType) -> Allowed {
    use Allowed::{Explicit, Implicit, Never};
    use Family as F;
    match (family(from), family(to)) {
        (F::Text | F::NationalText, F::Money) | (F::Money, F::Text | F::NationalText) => match from.is_text() {
            true => Implicit,
            false => Explicit,
        },
        (F::Text | F::NationalText, F::Binary) => Explicit,
        (F::Text | F::NationalText, _) => Implicit,
        (F::Binary, F::Floating) => Never,
        (F::Binary, F::Date | F::Time | F::DateTime2) => Explicit,
        (F::Binary, _) => Implicit,
        (F::Floating, F::Binary) => Explicit,
        (F::Integer | F::Decimal | F::Money, F::Binary) => Implicit,
        (_, F::Text | F::NationalText) => Implicit,
        (F::Integer | F::Decimal | F::Money | F::Floating, F::Integer | F::Decimal | F::Money | F::Floating) => {
            Implicit
        }
        (F::Integer | F::Decimal | F::Money | F::Floating, F::DateTime) => Implicit,
        (F::DateTime, F::Integer | F::Decimal | F::Money | F::Floating) => Explicit,
        (F::Date, F::Time) | (F::Time, F::Date) => Never,
        (F::Date | F::Time | F::DateTime2 | F::DateTime, F::Date | F::Time | F::DateTime2 | F::DateTime) => Implicit,
        (F::Date | F::Time | F::DateTime2 | F::DateTime, F::Binary) => Explicit,
        (F::Guid, F::Guid) => Implicit,
        (F::Guid, F::Binary) => Implicit,
        _ => Never,
    }
}

/// Checks that a value of `from` can become one of `to` without `CAST`: in comparisons, operators, `INSERT`.
///
/// # Errors
/// 206 if the types never convert, 257 if only an explicit conversion is allowed.
pub fn check_implicit(from: SqlType, to: SqlType) -> Result<(), SqlError> {
    match allowed(from, to) {
        Allowed::Implicit => Ok(()),
        Allowed::Never => Err(type_clash(from, to)),
        Allowed::Explicit => Err(errors::IMPLICIT_CONVERSION.with([&from.name(), &to.name()])),
    }
}

/// Checks that `CAST` and `CONVERT` can convert a value of `from` to `to`.
///
/// # Errors
/// 529.
pub fn check_explicit(from: SqlType, to: SqlType) -> Result<(), SqlError> {
    match allowed(from, to) {
        Allowed::Implicit | Allowed::Explicit => Ok(()),
        Allowed::Never => Err(errors::EXPLICIT_CONVERSION.with([&from.name(), &to.name()])),
    }
}
