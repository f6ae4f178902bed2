//! SQL Server's errors that kernels raise, each created in one place with its text.

use arrow::error::ArrowError;
use hobt_base::{SqlError, errors};
use hobt_types::SqlType;

/// Arrow refused what the kernel considered valid: a broken invariant.
pub(crate) fn from_arrow(error: ArrowError) -> SqlError {
    SqlError::internal(error.to_string())
}

/// 8115 for an expression whose result is out of range of its type.
pub(crate) fn overflow(target: SqlType) -> SqlError {
    overflow_from("expression", target)
}

/// 8115: `source` is `expression` or a type's name.
pub(crate) fn overflow_from(source: &str, target: SqlType) -> SqlError {
    let target = message_name(target);
    errors::OVERFLOW.with([&source, &target])
}

/// 220: an integer out of range of `tinyint` or `smallint`.
pub(crate) fn overflow_small(target: SqlType, value: impl std::fmt::Display) -> SqlError {
    errors::OVERFLOW_SMALL.with([&target.name(), &value])
}

/// 232: a float out of range of a smaller type.
pub(crate) fn overflow_float(target: SqlType, value: f64) -> SqlError {
    errors::OVERFLOW_FLOAT.with([&target.name(), &format_args!("{value:.6}")])
}

/// 8134.
pub(crate) fn divide_by_zero() -> SqlError {
    errors::DIVIDE_BY_ZERO.error()
}

/// 245.
pub(crate) fn conversion(from: SqlType, text: &str, to: SqlType) -> SqlError {
    errors::CONVERSION.with([&from.name(), &text, &to.name()])
}

/// 8114.
pub(crate) fn conversion_type(from: SqlType, to: SqlType) -> SqlError {
    let (from, to) = (message_name(from), message_name(to));
    errors::CONVERSION_TYPE.with([&from, &to])
}

/// 241.
pub(crate) fn date_conversion() -> SqlError {
    errors::DATE_CONVERSION.error()
}

/// 242.
pub(crate) fn date_out_of_range(from: SqlType, to: SqlType) -> SqlError {
    let (from, to) = (from.name(), to.name());
    errors::DATE_OUT_OF_RANGE.with([&from, &to])
}

/// 517.
pub(crate) fn date_add_overflow(target: SqlType) -> SqlError {
    errors::DATE_ADD_OVERFLOW.with([&target.name()])
}

/// 9837: the first day of a week that begins before the type's first date.
pub(crate) fn before_first_date() -> SqlError {
    errors::DATE_TOO_EARLY.error()
}

/// 210: bytes that are not a valid `datetime` (eight) or `smalldatetime` (four).
pub(crate) fn datetime_of_binary(target: SqlType) -> SqlError {
    let target = target.name();
    errors::BINARY_CONVERSION.with([&target])
}

/// 8116: the type of an argument that a function does not accept.
pub fn invalid_argument(sql_type: SqlType, position: usize, function: &str) -> SqlError {
    invalid_argument_name(message_name(sql_type), position, function)
}

/// 8116 for an argument whose type is given by name, or is that of a bare `NULL`.
pub(crate) fn invalid_argument_name(name: &str, position: usize, function: &str) -> SqlError {
    errors::INVALID_ARGUMENT_TYPE.with([&name, &position, &function.to_lowercase()])
}

/// 3623: a logarithm of 0, a square root of a negative number and the like.
pub(crate) fn invalid_float_operation() -> SqlError {
    errors::INVALID_FLOAT_OPERATION.error()
}

/// 537: a negative length.
pub(crate) fn invalid_length() -> SqlError {
    errors::INVALID_LENGTH_PARAMETER.error()
}

/// 536: a negative length of `RIGHT`.
pub(crate) fn invalid_length_of_right() -> SqlError {
    errors::INVALID_LENGTH_OF.error()
}

/// A type's name in messages about numbers: SQL Server has `numeric` where users write `decimal`.
pub(crate) fn message_name(sql_type: SqlType) -> &'static str {
    match sql_type {
        SqlType::Decimal { .. } => "numeric",
        other => other.name(),
    }
}
