//! The operators `+ - * / % & | ^ ~` and unary minus, checked: a result that its type cannot hold is error 8115, a
//! division by zero 8134, and a NULL gives NULL without an error.
//!
//! Not here: result types ([`crate::type_rules`]), text concatenation (folder `text`).

mod decimal;
mod integer;
#[cfg(test)]
mod tests;
mod zip;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::datatypes::{Decimal128Type, Float32Type, Float64Type, Int64Type};
use hobt_base::SqlError;
use hobt_types::SqlType;

pub(crate) use decimal::money_limit;
pub(crate) use zip::zip;

use crate::carrier::carrier;
use crate::cast::cast_array;
use crate::column::Column;
use crate::date::{BASE_TICKS, datetime_in_range, round_to_datetime};
use crate::error::{divide_by_zero, from_arrow, overflow};
use crate::type_rules::{BinaryOperator, as_decimal};

/// `left operator right`, of the type returned by [`crate::type_rules::binary_result`]. Operands are in the carriers of
/// their own types and need not be converted before.
///
/// # Errors
/// 8115 for overflow, 8134 for division by zero, and those of conversions.
pub fn binary(
    operator: BinaryOperator,
    left: (&Column, SqlType),
    right: (&Column, SqlType),
    result: SqlType,
    rows: usize,
) -> Result<ArrayRef, SqlError> {
    let is_null = |column: &Column| match column {
        Column::Scalar(array) => array.is_null(0),
        Column::Array(array) => array.null_count() == array.len(),
    };
    if is_null(left.0) || is_null(right.0) {
        return Ok(new_null_array(&carrier(result), rows));
    }
    let to_result = |(column, from): (&Column, SqlType)| convert(column, from, result);
    match result {
        _ if result.is_text() || result.is_binary() => crate::text::concatenate(left, right, result, rows),
        _ if result.is_integer() => integer::binary(operator, &to_result(left)?, &to_result(right)?, result, rows),
        SqlType::Decimal { precision, scale } => {
            let (left, l) = as_decimal_operand(left, right.1)?;
            let (right, r) = as_decimal_operand(right, left_type(l))?;
            decimal::binary(operator, (&left, l), (&right, r), (result, (precision, scale)), rows)
        }
        SqlType::Money | SqlType::SmallMoney => {
            decimal::money(operator, &to_result(left)?, &to_result(right)?, result, rows)
        }
        SqlType::Real => real(operator, &to_result(left)?, &to_result(right)?, rows),
        SqlType::Float => float(operator, &to_result(left)?, &to_result(right)?, rows),
        SqlType::DateTime | SqlType::SmallDateTime => {
            temporal(operator, &to_result(left)?, &to_result(right)?, result, rows)
        }
        _ => Err(SqlError::internal(format!("the operator {operator} does not give {result}"))),
    }
}

/// `left operator right` of two integers that are not NULL. `result` is the integer type returned by
/// [`crate::type_rules::binary_result`], and both are values of it.
///
/// # Errors
/// As [`binary`].
pub fn integer_values(operator: BinaryOperator, left: i64, right: i64, result: SqlType) -> Result<i64, SqlError> {
    integer::of_values(operator, left, right, result)
}

/// A column in another type.
fn convert(column: &Column, from: SqlType, to: SqlType) -> Result<Column, SqlError> {
    Ok(column.with_array(cast_array(column.array(), from, to, None, false)?))
}

fn left_type((precision, scale): (u8, u8)) -> SqlType {
    SqlType::Decimal { precision, scale }
}

/// The operand as a decimal of its own precision and scale; text and binary take those of the `other` operand.
fn as_decimal_operand((column, from): (&Column, SqlType), other: SqlType) -> Result<(Column, (u8, u8)), SqlError> {
    let shape = as_decimal(from)
        .or_else(|| as_decimal(other))
        .ok_or_else(|| SqlError::internal(format!("{from} and {other} give no decimal")))?;
    if matches!(from, SqlType::Decimal { .. } | SqlType::Money | SqlType::SmallMoney) {
        return Ok((column.clone(), shape));
    }
    Ok((convert(column, from, left_type(shape))?, shape))
}

macro_rules! floating {
    ($name:ident, $arrow:ty, $sql_type:expr) => {
        fn $name(operator: BinaryOperator, left: &Column, right: &Column, rows: usize) -> Result<ArrayRef, SqlError> {
            type T = $arrow;
            let too_large = || overflow($sql_type);
            let array = match operator {
                BinaryOperator::Add => {
                    zip::zip::<T, _>(left, right, rows, |a, b| (a + b, !(a + b).is_finite()), too_large)?
                }
                BinaryOperator::Subtract => {
                    zip::zip::<T, _>(left, right, rows, |a, b| (a - b, !(a - b).is_finite()), too_large)?
                }
                BinaryOperator::Multiply => {
                    zip::zip::<T, _>(left, right, rows, |a, b| (a * b, !(a * b).is_finite()), too_large)?
                }
                BinaryOperator::Divide => {
                    zip::zip::<T, _>(left, right, rows, |a, b| (a, b == 0.0), divide_by_zero)?;
                    zip::zip::<T, _>(left, right, rows, |a, b| (a / b, !(a / b).is_finite()), too_large)?
                }
                _ => return Err(SqlError::internal(format!("the operator {operator} over floating point"))),
            };
            Ok(Arc::new(array))
        }
    };
}

floating!(real, Float32Type, SqlType::Real);
floating!(float, Float64Type, SqlType::Float);

/// `datetime ± number of days`: both sides are times since 1900-01-01.
fn temporal(
    operator: BinaryOperator,
    left: &Column,
    right: &Column,
    result: SqlType,
    rows: usize,
) -> Result<ArrayRef, SqlError> {
    let sign = if operator == BinaryOperator::Subtract { -1 } else { 1 };
    let kernel = |a: i64, b: i64| {
        let ticks = round_to_datetime(a.wrapping_add((b.wrapping_sub(BASE_TICKS)).wrapping_mul(sign)), result);
        (ticks, !datetime_in_range(ticks, result))
    };
    Ok(Arc::new(zip::zip::<Int64Type, _>(left, right, rows, kernel, || overflow(result))?))
}

/// `-operand`, of the type returned by [`crate::type_rules::unary_minus_result`]; `sql_type` is the operand's.
///
/// # Errors
/// 8115 for the smallest integer.
pub fn negate(operand: &ArrayRef, sql_type: SqlType) -> Result<ArrayRef, SqlError> {
    match sql_type {
        SqlType::TinyInt => {
            let wide = cast_array(operand, SqlType::TinyInt, SqlType::SmallInt, None, false)?;
            integer::negate(&wide, SqlType::SmallInt)
        }
        _ if sql_type.is_integer() => integer::negate(operand, sql_type),
        SqlType::Decimal { precision, scale } => negate_decimal(operand, (precision, scale), i128::MAX, sql_type),
        SqlType::Money | SqlType::SmallMoney => {
            let (limit, shape) = money_limit(sql_type);
            negate_decimal(operand, shape, limit, sql_type)
        }
        SqlType::Real => Ok(Arc::new(zip::map::<Float32Type>(operand, |v| (-v, false), || overflow(sql_type))?)),
        SqlType::Float => Ok(Arc::new(zip::map::<Float64Type>(operand, |v| (-v, false), || overflow(sql_type))?)),
        _ => Err(crate::type_rules::invalid_operand(sql_type, "minus")),
    }
}

fn negate_decimal(
    operand: &ArrayRef,
    (precision, scale): (u8, u8),
    limit: i128,
    sql_type: SqlType,
) -> Result<ArrayRef, SqlError> {
    let negated = zip::map::<Decimal128Type>(operand, |v| (v.wrapping_neg(), -v > limit), || overflow(sql_type))?;
    Ok(Arc::new(negated.with_precision_and_scale(precision, scale as i8).map_err(from_arrow)?))
}

/// `~operand`.
///
/// # Errors
/// 8117 if the operand is not an integer.
pub fn bit_not(operand: &ArrayRef, sql_type: SqlType) -> Result<ArrayRef, SqlError> {
    crate::type_rules::bit_not_result(sql_type)?;
    integer::bit_not(operand, sql_type)
}
