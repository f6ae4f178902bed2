//! Conversions between numbers. Widening is free, narrowing is checked without a branch per value. Fractions are
//! truncated in conversions to integers, and rounded in conversions to decimals and money.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, Decimal128Array, PrimitiveArray};
use arrow::datatypes::{Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt8Type, i256};
use hobt_base::SqlError;
use hobt_types::SqlType;

use super::{Mode, convert};
use crate::arithmetic::money_limit;
use crate::decimal::{divide_round, power};
use crate::error::{from_arrow, message_name, overflow, overflow_float, overflow_from, overflow_small};
use crate::type_rules::as_decimal;

/// A decimal or money target: its precision and scale, its minimum and its maximum.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) shape: (u8, u8),
    pub(super) least: i128,
    pub(super) limit: i128,
}

impl Target {
    /// Whether an unscaled value is in the target's range.
    pub(super) fn holds(self, unscaled: i128) -> bool {
        (self.least..=self.limit).contains(&unscaled)
    }
}

pub(super) fn decimal_target(to: SqlType) -> Option<Target> {
    match to {
        SqlType::Decimal { precision, scale } => {
            let limit = power(precision.min(38)) - 1;
            Some(Target { shape: (precision, scale), least: -limit, limit })
        }
        SqlType::Money | SqlType::SmallMoney => {
            let (limit, shape) = money_limit(to);
            // Money is a whole number of ten-thousandths, so there is one more negative value.
            Some(Target { shape, least: -limit - 1, limit })
        }
        _ => None,
    }
}

/// Gives a raw array the precision and scale of its decimal carrier.
pub(super) fn shaped(array: Decimal128Array, target: Target) -> Result<ArrayRef, SqlError> {
    let (precision, scale) = target.shape;
    Ok(Arc::new(array.with_precision_and_scale(precision, scale as i8).map_err(from_arrow)?))
}

pub(super) fn cast(array: &ArrayRef, from: SqlType, to: SqlType, mode: Mode) -> Result<ArrayRef, SqlError> {
    match from {
        SqlType::Bit | SqlType::TinyInt => from_integer::<UInt8Type>(array, from, to, mode),
        SqlType::SmallInt => from_integer::<Int16Type>(array, from, to, mode),
        SqlType::Int => from_integer::<Int32Type>(array, from, to, mode),
        SqlType::BigInt => from_integer::<Int64Type>(array, from, to, mode),
        SqlType::Real => from_float::<Float32Type>(array, from, to, mode),
        SqlType::Float => from_float::<Float64Type>(array, from, to, mode),
        _ => from_decimal(array, from, to, mode),
    }
}

fn boxed<T: ArrowPrimitiveType>(array: Result<PrimitiveArray<T>, SqlError>) -> Result<ArrayRef, SqlError> {
    array.map(|array| Arc::new(array) as ArrayRef)
}

/// The error of a number that an integer type cannot hold: 220 for the small types, else 8115.
pub(super) fn too_large(to: SqlType, value: impl std::fmt::Display) -> SqlError {
    match to {
        SqlType::TinyInt | SqlType::SmallInt => overflow_small(to, value),
        _ => overflow(to),
    }
}

fn from_integer<I: ArrowPrimitiveType>(
    array: &ArrayRef,
    from: SqlType,
    to: SqlType,
    mode: Mode,
) -> Result<ArrayRef, SqlError>
where
    i64: From<I::Native>,
{
    let wide = i64::from;
    let error = |value: I::Native| too_large(to, wide(value));
    if let Some(target) = decimal_target(to) {
        let factor = power(target.shape.1);
        let scaled = |value: I::Native| {
            // 2^63 × 10^38 does not fit 128 bits: so the value is checked before scaling.
            let value = i128::from(wide(value));
            let good = (target.least / factor..=target.limit / factor).contains(&value);
            (value.wrapping_mul(factor), good)
        };
        let error = |_| overflow_from(from.name(), to);
        return shaped(convert::<I, Decimal128Type>(array, mode, scaled, error)?, target);
    }
    match to {
        SqlType::Bit => boxed(convert::<I, UInt8Type>(array, mode, |v| (u8::from(wide(v) != 0), true), error)),
        SqlType::TinyInt => {
            boxed(convert::<I, UInt8Type>(array, mode, |v| narrow(wide(v), wide(v) as u8, |n| n as i64), error))
        }
        SqlType::SmallInt => {
            boxed(convert::<I, Int16Type>(array, mode, |v| narrow(wide(v), wide(v) as i16, |n| n as i64), error))
        }
        SqlType::Int => {
            boxed(convert::<I, Int32Type>(array, mode, |v| narrow(wide(v), wide(v) as i32, |n| n as i64), error))
        }
        SqlType::BigInt => boxed(convert::<I, Int64Type>(array, mode, |v| (wide(v), true), error)),
        SqlType::Real => boxed(convert::<I, Float32Type>(array, mode, |v| (wide(v) as f32, true), error)),
        _ => boxed(convert::<I, Float64Type>(array, mode, |v| (wide(v) as f64, true), error)),
    }
}

/// A narrowed value is good if widening it returns the original value.
fn narrow<N: Copy>(wide: i64, narrow: N, widen: impl Fn(N) -> i64) -> (N, bool) {
    (narrow, widen(narrow) == wide)
}

fn from_decimal(array: &ArrayRef, from: SqlType, to: SqlType, mode: Mode) -> Result<ArrayRef, SqlError> {
    let (precision, scale) = as_decimal(from).ok_or_else(|| SqlError::internal(format!("{from} is not a decimal")))?;
    let error = |_| overflow_from(message_name(from), to);
    if let Some(target) = decimal_target(to) {
        let (digits, to_scale) = target.shape;
        let is_money = !matches!(to, SqlType::Decimal { .. });
        let result = if to_scale >= scale {
            let factor = power(to_scale - scale);
            if precision - scale <= digits - to_scale && !is_money {
                convert::<Decimal128Type, Decimal128Type>(array, mode, |v| (v.wrapping_mul(factor), true), error)
            } else {
                let bounds = target.least / factor..=target.limit / factor;
                let up = |v: i128| (v.wrapping_mul(factor), bounds.contains(&v));
                convert::<Decimal128Type, Decimal128Type>(array, mode, up, error)
            }
        } else {
            let divisor = power(scale - to_scale);
            let down = |v: i128| {
                let rounded = divide_round(v, divisor);
                (rounded, target.holds(rounded))
            };
            convert::<Decimal128Type, Decimal128Type>(array, mode, down, error)
        };
        return shaped(result?, target);
    }
    let divisor = power(scale);
    // Money is rounded to an integer, a decimal is truncated ("CAST and CONVERT", truncating and rounding).
    let is_money = matches!(from, SqlType::Money | SqlType::SmallMoney);
    let whole = move |v: i128| if is_money { divide_round(v, divisor) } else { v / divisor };
    let float = move |v: i128| v as f64 / divisor as f64;
    match to {
        SqlType::Bit => boxed(convert::<Decimal128Type, UInt8Type>(array, mode, |v| (u8::from(v != 0), true), error)),
        SqlType::TinyInt => boxed(convert::<Decimal128Type, UInt8Type>(
            array,
            mode,
            |v| (whole(v) as u8, i128::from(whole(v) as u8) == whole(v)),
            error,
        )),
        SqlType::SmallInt => boxed(convert::<Decimal128Type, Int16Type>(
            array,
            mode,
            |v| (whole(v) as i16, i128::from(whole(v) as i16) == whole(v)),
            error,
        )),
        SqlType::Int => boxed(convert::<Decimal128Type, Int32Type>(
            array,
            mode,
            |v| (whole(v) as i32, i128::from(whole(v) as i32) == whole(v)),
            error,
        )),
        SqlType::BigInt => boxed(convert::<Decimal128Type, Int64Type>(
            array,
            mode,
            |v| (whole(v) as i64, i128::from(whole(v) as i64) == whole(v)),
            error,
        )),
        SqlType::Real => boxed(convert::<Decimal128Type, Float32Type>(array, mode, |v| (float(v) as f32, true), error)),
        _ => boxed(convert::<Decimal128Type, Float64Type>(array, mode, |v| (float(v), true), error)),
    }
}

/// A float as an unscaled decimal, rounded; `None` if it is out of the target's range.
pub(super) fn scale_float(value: f64, target: Target) -> Option<i128> {
    let scaled = (value * power(target.shape.1) as f64).round();
    // The minimum of money has no exact float; the nearest one stands for it.
    if scaled == target.least as f64 && target.least < -target.limit {
        return Some(target.least);
    }
    let unscaled = times_power(value, target.shape.1)?;
    // The float nearest to a limit may be below it (for 10³⁸ by 2·10²¹) and still stand for values beyond the limit.
    let is_below = scaled.abs() < (target.limit + 1) as f64;
    (is_below && target.holds(unscaled)).then_some(unscaled)
}

/// `value × 10^scale`, exact, then rounded half away from zero; `None` above 127 bits, and if it is not a finite
/// number.
fn times_power(value: f64, scale: u8) -> Option<i128> {
    let bits = value.abs().to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32, i128::from(bits & ((1 << 52) - 1)));
    // The value is mantissa × 2^shift.
    let (mantissa, shift) = match exponent {
        0x7ff => return None,
        0 => (fraction, -1074),
        _ => (fraction | 1 << 52, exponent - 1075),
    };
    let magnitude = match u32::try_from(-shift) {
        Ok(down) => shift_round(mantissa, power(scale), down)?,
        Err(_) => {
            // A mantissa of 53 bits can be shifted by at most 74.
            let up = u32::try_from(shift).ok().filter(|up| *up <= 74)?;
            (mantissa << up).checked_mul(power(scale))?
        }
    };
    Some(if value < 0.0 { -magnitude } else { magnitude })
}

/// `mantissa × factor / 2^down`, rounded half up; neither is negative.
fn shift_round(mantissa: i128, factor: i128, down: u32) -> Option<i128> {
    let half = |down: u32| if down == 0 { 0 } else { 1_u128 << (down - 1) };
    if let Some(product) = mantissa.checked_mul(factor) {
        // A product of 127 bits is less than half of 2^128.
        return match down {
            0..=127 => i128::try_from((product.unsigned_abs() + half(down)) >> down).ok(),
            _ => Some(0),
        };
    }
    let product = i256::from_i128(mantissa).checked_mul(i256::from_i128(factor))?;
    match u8::try_from(down) {
        Ok(0) => product.to_i128(),
        Ok(down) => (product.checked_add(i256::ONE << (down - 1))? >> down).to_i128(),
        // A product of 180 bits.
        Err(_) => Some(0),
    }
}

fn from_float<I: ArrowPrimitiveType>(
    array: &ArrayRef,
    from: SqlType,
    to: SqlType,
    mode: Mode,
) -> Result<ArrayRef, SqlError>
where
    f64: From<I::Native>,
{
    let wide = f64::from;
    let error = |value: I::Native| match to {
        SqlType::BigInt => overflow(to),
        _ => overflow_float(to, wide(value)),
    };
    if let Some(target) = decimal_target(to) {
        let scaled = |value| match scale_float(wide(value), target) {
            Some(unscaled) => (unscaled, true),
            None => (0, false),
        };
        let error = |_| overflow_from(from.name(), to);
        return shaped(convert::<I, Decimal128Type>(array, mode, scaled, error)?, target);
    }
    // A float-to-integer cast truncates the fraction and saturates, so a value out of range differs from it.
    let within = |value: f64, low: f64, high: f64| value.trunc() >= low && value.trunc() < high;
    match to {
        SqlType::Bit => boxed(convert::<I, UInt8Type>(array, mode, |v| (u8::from(wide(v) != 0.0), true), error)),
        SqlType::TinyInt => {
            boxed(convert::<I, UInt8Type>(array, mode, |v| (wide(v) as u8, within(wide(v), 0.0, 256.0)), error))
        }
        SqlType::SmallInt => {
            let limit = 32_768.0;
            boxed(convert::<I, Int16Type>(array, mode, |v| (wide(v) as i16, within(wide(v), -limit, limit)), error))
        }
        SqlType::Int => {
            let limit = 2_147_483_648.0;
            boxed(convert::<I, Int32Type>(array, mode, |v| (wide(v) as i32, within(wide(v), -limit, limit)), error))
        }
        SqlType::BigInt => {
            let limit = 9_223_372_036_854_775_808.0;
            boxed(convert::<I, Int64Type>(array, mode, |v| (wide(v) as i64, within(wide(v), -limit, limit)), error))
        }
        SqlType::Real => {
            let narrow = |v| (wide(v) as f32, (wide(v) as f32).is_finite());
            boxed(convert::<I, Float32Type>(array, mode, narrow, error))
        }
        _ => boxed(convert::<I, Float64Type>(array, mode, |v| (wide(v), true), error)),
    }
}
