//! `ROUND`, `CEILING`, `FLOOR`: exact for integers, decimals and money.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array};
use arrow::datatypes::{Decimal128Type, Float64Type, Int32Type, Int64Type};
use hobt_base::SqlError;
use hobt_types::SqlType;

use super::boxed;
use crate::carrier::carrier;
use crate::cast::cast_array;
use crate::decimal::{divide_round, fits, power};
use crate::error::{from_arrow, overflow};
use crate::function::Call;

/// Which values are negative; NULL is not.
pub(super) fn negative(values: &ArrayRef) -> Result<BooleanArray, SqlError> {
    let below = |row: usize| match values.data_type() {
        _ if values.is_null(row) => false,
        arrow::datatypes::DataType::Int32 => values.as_primitive::<Int32Type>().value(row) < 0,
        arrow::datatypes::DataType::Int64 => values.as_primitive::<Int64Type>().value(row) < 0,
        arrow::datatypes::DataType::Float64 => values.as_primitive::<Float64Type>().value(row) < 0.0,
        arrow::datatypes::DataType::Decimal128(..) => values.as_primitive::<Decimal128Type>().value(row) < 0,
        _ => false,
    };
    Ok((0..values.len()).map(|row| Some(below(row))).collect())
}

/// The decimal or money scale of a result type; 0 for integers, `None` for floats.
fn exact_scale(sql_type: SqlType) -> Option<u8> {
    match sql_type {
        SqlType::Float | SqlType::Real => None,
        other => Some(other.scale()),
    }
}

fn to_wide(call: &Call<'_>) -> Result<(ArrayRef, u8), SqlError> {
    let arg = call.arg(0)?;
    let values = arg.column.to_array(call.rows)?;
    let from = arg.sql_type;
    let scale = exact_scale(from).unwrap_or(0);
    let wide = cast_array(&values, from, SqlType::Decimal { precision: 38, scale }, None, false)?;
    Ok((wide, scale))
}

/// Unscaled values of `scale` in the call's result type.
fn finish(call: &Call<'_>, values: Decimal128Array, scale: u8) -> Result<ArrayRef, SqlError> {
    let values = values.with_precision_and_scale(38, scale as i8).map_err(from_arrow)?;
    // A cast from a type to itself does not check the values.
    if values.iter().flatten().any(|value| !fits(value, 38)) {
        return Err(overflow(call.result_type));
    }
    let wide: ArrayRef = boxed(values);
    cast_array(&wide, SqlType::Decimal { precision: 38, scale }, call.result_type, None, false)
        .map_err(|_| overflow(call.result_type))
}

fn whole(call: &Call<'_>, exact: fn(i128, i128) -> i128, float: fn(f64) -> f64) -> Result<ArrayRef, SqlError> {
    if call.result_type == SqlType::Float {
        return super::map(call, float);
    }
    let (wide, scale) = to_wide(call)?;
    let unit = power(scale);
    let values = wide.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(|value| exact(value, unit));
    finish(call, values, 0)
}

pub(super) fn floor(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    whole(call, |value, unit| value.div_euclid(unit), f64::floor)
}

pub(super) fn ceiling(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    whole(call, |value, unit| -(-value).div_euclid(unit), f64::ceil)
}

/// `ROUND(x, length [, truncate])`. A negative length rounds digits before the point.
pub(super) fn round(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let lengths = call.integers(1)?;
    let cuts = if call.args.len() > 2 { Some(call.integers(2)?) } else { None };
    let cut = |row: usize| match &cuts {
        None => Some(false),
        Some(cuts) => cuts.get(row).map(|cut| cut != 0),
    };
    if call.result_type == SqlType::Float {
        let values = call.floats(0)?;
        return call.primitive_result::<Float64Type>(|row| {
            let all = values.get(row).zip(lengths.get(row)).zip(cut(row));
            Ok(all.map(|((value, length), cut)| round_float(value, length, cut)))
        });
    }
    let (wide, scale) = to_wide(call)?;
    let wide = wide.as_primitive::<Decimal128Type>();
    let values: Decimal128Array = (0..call.rows)
        .map(|row| {
            let value = wide.is_valid(row).then(|| wide.value(row));
            let ((value, length), cut) = value.zip(lengths.get(row)).zip(cut(row))?;
            Some(round_exact(value, i64::from(scale).saturating_sub(length), cut))
        })
        .collect();
    debug_assert!(matches!(carrier(call.result_type), arrow::datatypes::DataType::Decimal128(..)) || scale == 0);
    finish(call, values, scale)
}

/// Clears the last `digits` digits of `value`, by rounding or truncation.
fn round_exact(value: i128, digits: i64, cut: bool) -> i128 {
    match u8::try_from(digits) {
        Ok(0) => value,
        Ok(digits @ 1..=37) => {
            let unit = power(digits);
            let quotient = if cut { value / unit } else { divide_round(value, unit) };
            quotient.saturating_mul(unit)
        }
        Ok(_) => 0,
        Err(_) if digits < 0 => value,
        Err(_) => 0,
    }
}

fn round_float(value: f64, length: i64, cut: bool) -> f64 {
    let length = i32::try_from(length.clamp(-308, 308)).unwrap_or(0);
    let factor = 10f64.powi(length.abs());
    let scaled = if length >= 0 { value * factor } else { value / factor };
    if !scaled.is_finite() {
        return value;
    }
    let rounded = if cut { scaled.trunc() } else { scaled.round() };
    if length >= 0 { rounded / factor } else { rounded * factor }
}
