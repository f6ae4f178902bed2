//! Decimal and money arithmetic.
//!
//! Operands keep their own scales. If the precisions prove that nothing can overflow, the loop checks nothing. If a
//! product or a shifted dividend can exceed 128 bits, it is computed in 256. A product that loses digits is rounded, a
//! quotient is truncated, as in SQL Server.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array};
use arrow::datatypes::Decimal128Type;
use hobt_base::SqlError;
use hobt_types::SqlType;

use super::zip::zip;
use crate::column::Column;
use crate::decimal::{divide_round, divide_wide, fits, multiply_wide, power, rescale};
use crate::error::{divide_by_zero, from_arrow, overflow};
use crate::type_rules::BinaryOperator;

/// An operand's precision and scale.
pub(super) type Shape = (u8, u8);

/// Gives a raw array its precision and scale.
fn finish(array: Decimal128Array, shape: Shape) -> Result<ArrayRef, SqlError> {
    let array = array.with_precision_and_scale(shape.0, shape.1 as i8).map_err(from_arrow)?;
    Ok(Arc::new(array))
}

/// A possibly missing result, in the form the loops need.
fn checked(value: Option<i128>, precision: u8) -> (i128, bool) {
    match value {
        Some(value) => (value, !fits(value, precision)),
        None => (0, true),
    }
}

/// `left operator right` as a decimal of `shape`; `result` names the type in errors.
pub(super) fn binary(
    operator: BinaryOperator,
    (left, l): (&Column, Shape),
    (right, r): (&Column, Shape),
    (result, shape): (SqlType, Shape),
    rows: usize,
) -> Result<ArrayRef, SqlError> {
    let too_large = || overflow(result);
    let array = match operator {
        BinaryOperator::Add | BinaryOperator::Subtract => {
            let sign = if operator == BinaryOperator::Add { 1 } else { -1 };
            add(left, l, right, r, sign, (result, shape), rows)?
        }
        BinaryOperator::Multiply => {
            let (precision, down) = (shape.0, (l.1 + r.1).saturating_sub(shape.1));
            if down == 0 && l.0 + r.0 <= 38 {
                zip::<Decimal128Type, _>(left, right, rows, |a, b| (a.wrapping_mul(b), false), too_large)?
            } else {
                let product = |a, b| checked(multiply_wide(a, b, down), precision);
                zip::<Decimal128Type, _>(left, right, rows, product, too_large)?
            }
        }
        BinaryOperator::Divide => {
            check_divisor(left, right, rows)?;
            // The quotient's scale is s1 + up - s2; a reduced scale can need fewer digits than the division gives.
            let up = (shape.1 + r.1).saturating_sub(l.1);
            let down = power(l.1.saturating_sub(shape.1 + r.1));
            if down > 1 {
                let quotient = |a: i128, b: i128| checked(Some(a / (if b == 0 { 1 } else { b }) / down), shape.0);
                zip::<Decimal128Type, _>(left, right, rows, quotient, too_large)?
            } else if l.0 + up <= 38 {
                let factor = power(up);
                let quotient = |a: i128, b: i128| {
                    let value = a.wrapping_mul(factor).wrapping_div(if b == 0 { 1 } else { b });
                    (value, !fits(value, shape.0))
                };
                zip::<Decimal128Type, _>(left, right, rows, quotient, too_large)?
            } else {
                let quotient = |a, b| checked(divide_wide(a, if b == 0 { 1 } else { b }, up), shape.0);
                zip::<Decimal128Type, _>(left, right, rows, quotient, too_large)?
            }
        }
        BinaryOperator::Modulo => {
            check_divisor(left, right, rows)?;
            let scale = l.1.max(r.1);
            let rest = |a, b| match (rescale(a, l.1, scale), rescale(b, r.1, scale)) {
                (Some(a), Some(b)) if b != 0 => checked(rescale(a % b, scale, shape.1), shape.0),
                _ => (0, true),
            };
            zip::<Decimal128Type, _>(left, right, rows, rest, too_large)?
        }
        _ => return Err(SqlError::internal(format!("the operator {operator} over decimals"))),
    };
    finish(array, shape)
}

fn check_divisor(left: &Column, right: &Column, rows: usize) -> Result<(), SqlError> {
    zip::<Decimal128Type, _>(left, right, rows, |a, b| (a, b == 0), divide_by_zero).map(|_| ())
}

fn add(
    left: &Column,
    l: Shape,
    right: &Column,
    r: Shape,
    sign: i128,
    (result, shape): (SqlType, Shape),
    rows: usize,
) -> Result<Decimal128Array, SqlError> {
    let scale = l.1.max(r.1);
    let whole = (l.0 - l.1).max(r.0 - r.1);
    let too_large = || overflow(result);
    let (up_left, up_right) = (power(scale - l.1), power(scale - r.1));
    if shape.1 == scale && whole + scale < 38 {
        // The precision has one digit more than the longer operand: nothing can overflow.
        let up_right = up_right * sign;
        if up_left == 1 && up_right.abs() == 1 {
            let sum = |a: i128, b: i128| (a.wrapping_add(b.wrapping_mul(sign)), false);
            return zip::<Decimal128Type, _>(left, right, rows, sum, too_large);
        }
        let sum = |a: i128, b: i128| (a.wrapping_mul(up_left).wrapping_add(b.wrapping_mul(up_right)), false);
        return zip::<Decimal128Type, _>(left, right, rows, sum, too_large);
    }
    let sum = |a: i128, b: i128| {
        let value = a
            .checked_mul(up_left)
            .zip(b.checked_mul(up_right * sign))
            .and_then(|(a, b)| a.checked_add(b))
            .map(|value| if scale > shape.1 { divide_round(value, power(scale - shape.1)) } else { value });
        checked(value, shape.0)
    };
    zip::<Decimal128Type, _>(left, right, rows, sum, too_large)
}

/// `money` and `smallmoney`: four decimal places, checked against the type's integer range.
pub(super) fn money(
    operator: BinaryOperator,
    left: &Column,
    right: &Column,
    result: SqlType,
    rows: usize,
) -> Result<ArrayRef, SqlError> {
    let (limit, shape) = money_limit(result);
    let within = move |value: i128| (value, value > limit || value < -limit - 1);
    let too_large = || overflow(result);
    let array = match operator {
        BinaryOperator::Add => zip::<Decimal128Type, _>(left, right, rows, |a, b| within(a + b), too_large)?,
        BinaryOperator::Subtract => zip::<Decimal128Type, _>(left, right, rows, |a, b| within(a - b), too_large)?,
        BinaryOperator::Multiply => {
            let product = |a: i128, b: i128| within(divide_round(a.wrapping_mul(b), 10_000));
            zip::<Decimal128Type, _>(left, right, rows, product, too_large)?
        }
        BinaryOperator::Divide => {
            check_divisor(left, right, rows)?;
            let quotient = |a: i128, b: i128| within(a.wrapping_mul(10_000).wrapping_div(if b == 0 { 1 } else { b }));
            zip::<Decimal128Type, _>(left, right, rows, quotient, too_large)?
        }
        BinaryOperator::Modulo => {
            check_divisor(left, right, rows)?;
            let rest = |a: i128, b: i128| (a.wrapping_rem(if b == 0 { 1 } else { b }), false);
            zip::<Decimal128Type, _>(left, right, rows, rest, too_large)?
        }
        _ => return Err(SqlError::internal(format!("the operator {operator} over money"))),
    };
    finish(array, shape)
}

/// The maximum of a money type in ten-thousandths, and its carrier's precision and scale.
pub(crate) fn money_limit(sql_type: SqlType) -> (i128, Shape) {
    match sql_type {
        SqlType::SmallMoney => (i128::from(i32::MAX), (10, 4)),
        _ => (i128::from(i64::MAX), (19, 4)),
    }
}
