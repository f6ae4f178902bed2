//! SQL Server's errors that kernels raise, each created in one place with its text.

use arrow::error::ArrowError;
use hobt_base::{SqlError, number};
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
    SqlError::new(number::OVERFLOW, format!("Arithmetic overflow error converting {source} to data type {target}."))
}

/// 220: an integer out of range of `tinyint` or `smallint`.
pub(crate) fn overflow_small(target: SqlType, value: impl std::fmt::Display) -> SqlError {
    SqlError::new(
        number::OVERFLOW_SMALL,
        format!("Arithmetic overflow error for data type {}, value = {value}.", target.name()),
    )
}

/// 232: a float out of range of a smaller type.
pub(crate) fn overflow_float(target: SqlType, value: f64) -> SqlError {
    SqlError::new(
        number::OVERFLOW_FLOAT,
        format!("Arithmetic overflow error for type {}, value = {value:.6}.", target.name()),
    )
}

/// 8134.
pub(crate) fn divide_by_zero() -> SqlError {
    SqlError::new(number::DIVIDE_BY_ZERO, "Divide by zero error encountered.")
}

/// 245.
pub(crate) fn conversion(from: SqlType, text: &str, to: SqlType) -> SqlError {
    SqlError::new(
        number::CONVERSION,
        format!("Conversion failed when converting the {} value '{text}' to data type {}.", from.name(), to.name()),
    )
}

/// 8114.
pub(crate) fn conversion_type(from: SqlType, to: SqlType) -> SqlError {
    let (from, to) = (message_name(from), message_name(to));
    SqlError::new(number::CONVERSION_TYPE, format!("Error converting data type {from} to {to}."))
}

/// 241.
pub(crate) fn date_conversion() -> SqlError {
    SqlError::new(number::DATE_CONVERSION, "Conversion failed when converting date and/or time from character string.")
}

/// 242.
pub(crate) fn date_out_of_range(from: SqlType, to: SqlType) -> SqlError {
    let (from, to) = (from.name(), to.name());
    SqlError::new(
        number::DATE_OUT_OF_RANGE,
        format!("The conversion of a {from} data type to a {to} data type resulted in an out-of-range value."),
    )
}

/// 517.
pub(crate) fn date_add_overflow(target: SqlType) -> SqlError {
    SqlError::new(
        number::DATE_ADD_OVERFLOW,
        format!("Adding a value to a '{}' column caused an overflow.", target.name()),
    )
}

/// 9837: the first day of a week that begins before the type's first date.
pub(crate) fn before_first_date() -> SqlError {
    SqlError::new(
        9837,
        "An invalid date value was encountered: The date value is less than the minimum date value allowed for the data \
         type.",
    )
}

/// 210: bytes that are not a valid `datetime` (eight) or `smalldatetime` (four).
pub(crate) fn datetime_of_binary(target: SqlType) -> SqlError {
    let target = target.name();
    SqlError::new(210, format!("Conversion failed when converting {target} from binary/varbinary string."))
}

/// 8116: the type of an argument that a function does not accept.
pub fn invalid_argument(sql_type: SqlType, position: usize, function: &str) -> SqlError {
    invalid_argument_name(message_name(sql_type), position, function)
}

/// 8116 for an argument whose type is given by name, or is that of a bare `NULL`.
pub(crate) fn invalid_argument_name(name: &str, position: usize, function: &str) -> SqlError {
    SqlError::new(
        number::INVALID_ARGUMENT_TYPE,
        format!(
            "Argument data type {name} is invalid for argument {position} of {} function.",
            function.to_lowercase()
        ),
    )
}

/// 3623: a logarithm of 0, a square root of a negative number and the like.
pub(crate) fn invalid_float_operation() -> SqlError {
    SqlError::new(number::INVALID_FLOAT_OPERATION, "An invalid floating point operation occurred.")
}

/// 537: a negative length.
pub(crate) fn invalid_length() -> SqlError {
    let text = "Invalid length parameter passed to the LEFT or SUBSTRING function.";
    SqlError::new(number::INVALID_LENGTH_PARAMETER, text)
}

/// 536: a negative length of `RIGHT`.
pub(crate) fn invalid_length_of_right() -> SqlError {
    SqlError::new(number::INVALID_LENGTH_OF, "Invalid length parameter passed to the RIGHT function.")
}

/// A type's name in messages about numbers: SQL Server has `numeric` where users write `decimal`.
pub(crate) fn message_name(sql_type: SqlType) -> &'static str {
    match sql_type {
        SqlType::Decimal { .. } => "numeric",
        other => other.name(),
    }
}
