//! Integer arithmetic that detects overflow by bits, not by branches.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType};
use arrow::datatypes::{ArrowNativeType, Int16Type, Int32Type, Int64Type, UInt8Type};
use hobt_base::SqlError;
use hobt_types::SqlType;

use super::zip::{map, zip};
use crate::column::Column;
use crate::error::{divide_by_zero, overflow};
use crate::type_rules::BinaryOperator;

/// A native integer whose operations return the wrapped result and whether it is wrong.
pub(super) trait Checked: ArrowNativeType {
    fn add(self, other: Self) -> (Self, bool);
    fn subtract(self, other: Self) -> (Self, bool);
    fn multiply(self, other: Self) -> (Self, bool);
    /// Truncated; fails for 0 and for the smallest number over −1.
    fn divide(self, other: Self) -> (Self, bool);
    /// Fails for 0.
    fn modulo(self, other: Self) -> (Self, bool);
    fn negate(self) -> (Self, bool);
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn not(self) -> Self;
}

macro_rules! checked {
    ($native:ty, $wide:ty) => {
        impl Checked for $native {
            fn add(self, other: Self) -> (Self, bool) {
                let wide = <$wide>::from(self).wrapping_add(<$wide>::from(other));
                (wide as $native, <$wide>::from(wide as $native) != wide)
            }
            fn subtract(self, other: Self) -> (Self, bool) {
                let wide = <$wide>::from(self).wrapping_sub(<$wide>::from(other));
                (wide as $native, <$wide>::from(wide as $native) != wide)
            }
            fn multiply(self, other: Self) -> (Self, bool) {
                let wide = <$wide>::from(self).wrapping_mul(<$wide>::from(other));
                (wide as $native, <$wide>::from(wide as $native) != wide)
            }
            checked!(@division $native);
        }
    };
    (@division $native:ty) => {
        fn divide(self, other: Self) -> (Self, bool) {
            // A divisor of 0 is replaced, so that the loop has no branch and no trap.
            self.overflowing_div(other | <$native>::from(other == 0)).or_failed(other == 0)
        }
        fn modulo(self, other: Self) -> (Self, bool) {
            (self.wrapping_rem(other | <$native>::from(other == 0)), other == 0)
        }
        fn negate(self) -> (Self, bool) {
            self.overflowing_neg()
        }
        fn and(self, other: Self) -> Self {
            self & other
        }
        fn or(self, other: Self) -> Self {
            self | other
        }
        fn xor(self, other: Self) -> Self {
            self ^ other
        }
        fn not(self) -> Self {
            !self
        }
    };
}

trait OrFailed {
    fn or_failed(self, failed: bool) -> Self;
}

impl<N> OrFailed for (N, bool) {
    fn or_failed(self, failed: bool) -> (N, bool) {
        (self.0, self.1 | failed)
    }
}

checked!(u8, i16);
checked!(i16, i32);
checked!(i32, i64);

impl Checked for i64 {
    fn add(self, other: i64) -> (i64, bool) {
        // The sum is wrong if both operands have the opposite sign.
        let sum = self.wrapping_add(other);
        (sum, ((self ^ sum) & (other ^ sum)) < 0)
    }
    fn subtract(self, other: i64) -> (i64, bool) {
        let difference = self.wrapping_sub(other);
        (difference, ((self ^ other) & (self ^ difference)) < 0)
    }
    fn multiply(self, other: i64) -> (i64, bool) {
        self.overflowing_mul(other)
    }
    checked!(@division i64);
}

/// Runs `$body` with `$T` as the Arrow type of an integer SQL type.
macro_rules! with_integer {
    ($sql_type:expr, $T:ident, $body:expr) => {
        match $sql_type {
            SqlType::Bit | SqlType::TinyInt => {
                type $T = UInt8Type;
                $body
            }
            SqlType::SmallInt => {
                type $T = Int16Type;
                $body
            }
            SqlType::Int => {
                type $T = Int32Type;
                $body
            }
            SqlType::BigInt => {
                type $T = Int64Type;
                $body
            }
            other => Err(SqlError::internal(format!("{other} is not an integer type"))),
        }
    };
}

/// `left operator right` over two columns of `result`'s carrier.
pub(super) fn binary(
    operator: BinaryOperator,
    left: &Column,
    right: &Column,
    result: SqlType,
    rows: usize,
) -> Result<ArrayRef, SqlError> {
    with_integer!(result, T, typed::<T>(operator, left, right, result, rows))
}

fn typed<T: ArrowPrimitiveType>(
    operator: BinaryOperator,
    left: &Column,
    right: &Column,
    result: SqlType,
    rows: usize,
) -> Result<ArrayRef, SqlError>
where
    T::Native: Checked,
{
    let too_large = || overflow(result);
    let array = match operator {
        BinaryOperator::Add => zip::<T, _>(left, right, rows, Checked::add, too_large),
        BinaryOperator::Subtract => zip::<T, _>(left, right, rows, Checked::subtract, too_large),
        BinaryOperator::Multiply => zip::<T, _>(left, right, rows, Checked::multiply, too_large),
        BinaryOperator::Divide => {
            let zero = zip::<T, _>(left, right, rows, |a, b| (a, b == T::Native::default()), divide_by_zero);
            zero.and_then(|_| zip::<T, _>(left, right, rows, Checked::divide, too_large))
        }
        BinaryOperator::Modulo => zip::<T, _>(left, right, rows, Checked::modulo, divide_by_zero),
        BinaryOperator::BitAnd => zip::<T, _>(left, right, rows, |a, b| (a.and(b), false), too_large),
        BinaryOperator::BitOr => zip::<T, _>(left, right, rows, |a, b| (a.or(b), false), too_large),
        BinaryOperator::BitXor => zip::<T, _>(left, right, rows, |a, b| (a.xor(b), false), too_large),
    }?;
    Ok(Arc::new(array))
}

/// `-operand` within one type.
pub(super) fn negate(operand: &ArrayRef, sql_type: SqlType) -> Result<ArrayRef, SqlError> {
    with_integer!(sql_type, T, map::<T>(operand, Checked::negate, || overflow(sql_type)).map(|a| Arc::new(a) as _))
}

/// `~operand`; a `bit` has one bit.
pub(super) fn bit_not(operand: &ArrayRef, sql_type: SqlType) -> Result<ArrayRef, SqlError> {
    if sql_type == SqlType::Bit {
        let flipped = map::<UInt8Type>(operand, |bit| (bit ^ 1, false), || overflow(sql_type))?;
        return Ok(Arc::new(flipped));
    }
    with_integer!(sql_type, T, map::<T>(operand, |v| (v.not(), false), || overflow(sql_type)).map(|a| Arc::new(a) as _))
}

/// `left operator right` of two values, of the type `result`.
pub(super) fn of_values(operator: BinaryOperator, left: i64, right: i64, result: SqlType) -> Result<i64, SqlError> {
    let (least, greatest) = match result {
        SqlType::Bit | SqlType::TinyInt => (0, i64::from(u8::MAX)),
        SqlType::SmallInt => (i64::from(i16::MIN), i64::from(i16::MAX)),
        SqlType::Int => (i64::from(i32::MIN), i64::from(i32::MAX)),
        SqlType::BigInt => (i64::MIN, i64::MAX),
        other => return Err(SqlError::internal(format!("{other} is not an integer type"))),
    };
    let value = match operator {
        BinaryOperator::Add => left.checked_add(right),
        BinaryOperator::Subtract => left.checked_sub(right),
        BinaryOperator::Multiply => left.checked_mul(right),
        BinaryOperator::Divide | BinaryOperator::Modulo if right == 0 => return Err(divide_by_zero()),
        BinaryOperator::Divide => left.checked_div(right),
        BinaryOperator::Modulo => Some(left.wrapping_rem(right)),
        BinaryOperator::BitAnd => Some(left & right),
        BinaryOperator::BitOr => Some(left | right),
        BinaryOperator::BitXor => Some(left ^ right),
    };
    value.filter(|value| (least..=greatest).contains(value)).ok_or_else(|| overflow(result))
}
