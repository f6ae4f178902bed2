//! The operators `+ - * / % & | ^ ~` and unary minus.
use arrow::array::ArrayRef;
use hobt_base::SqlError;
use hobt_types::SqlType;

use crate::column::Column;
use crate::type_rules::BinaryOperator;

/// `left operator right`, of the type that [`crate::type_rules::binary_result`] gave; operands in the carriers of
/// their own types (they need not be converted before).
///
/// # Errors
/// 8115 for overflow, 8134 for division by zero, and those of conversions.
pub fn binary(
    operator: BinaryOperator,
    _left: (&Column, SqlType),
    _right: (&Column, SqlType),
    _result: SqlType,
    _rows: usize,
) -> Result<ArrayRef, SqlError> {
    Err(SqlError::not_supported(operator))
}

/// `-operand`, of the type that [`crate::type_rules::unary_minus_result`] gave.
///
/// # Errors
/// 8115 for the smallest integer.
pub fn negate(_operand: &ArrayRef, sql_type: SqlType) -> Result<ArrayRef, SqlError> {
    Err(SqlError::not_supported(sql_type))
}

/// `~operand`.
///
/// # Errors
/// An internal error when the array does not have the type's carrier.
pub fn bit_not(_operand: &ArrayRef, sql_type: SqlType) -> Result<ArrayRef, SqlError> {
    Err(SqlError::not_supported(sql_type))
}
