//! Conversions between temporal types, and between `datetime` and numbers of days since 1900-01-01.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Date32Type, Float64Type, Int64Type};
use hobt_base::SqlError;
use hobt_types::SqlType;

use super::{Mode, cast_array, convert};
use crate::date::{BASE_DAY, BASE_TICKS, TICKS_PER_DAY, datetime_in_range, round_to_datetime};
use crate::error::{date_out_of_range, overflow};

pub(super) fn cast(array: &ArrayRef, from: SqlType, to: SqlType, mode: Mode) -> Result<ArrayRef, SqlError> {
    let out_of_range = || date_out_of_range(from, to);
    match (from, to) {
        (SqlType::Date, SqlType::Date) => Ok(Arc::clone(array)),
        (SqlType::Date, _) => {
            let to_ticks = |day: i32| {
                let ticks = i64::from(day) * TICKS_PER_DAY;
                (ticks, datetime_in_range(ticks, to))
            };
            Ok(Arc::new(convert::<Date32Type, Int64Type>(array, mode, to_ticks, |_| out_of_range())?))
        }
        (SqlType::Time { .. }, SqlType::Time { .. }) => {
            let round = |ticks| (round_to_datetime(ticks, to) % TICKS_PER_DAY, true);
            Ok(Arc::new(convert::<Int64Type, Int64Type>(array, mode, round, |_| out_of_range())?))
        }
        (SqlType::Time { .. }, _) => {
            let round = |ticks: i64| (round_to_datetime(BASE_TICKS + ticks, to), true);
            Ok(Arc::new(convert::<Int64Type, Int64Type>(array, mode, round, |_| out_of_range())?))
        }
        _ if from.is_temporal() && to == SqlType::Date => {
            let day = |ticks: i64| (ticks.div_euclid(TICKS_PER_DAY) as i32, true);
            Ok(Arc::new(convert::<Int64Type, Date32Type>(array, mode, day, |_| out_of_range())?))
        }
        (_, SqlType::Time { .. }) if from.is_temporal() => {
            let time = |ticks: i64| (round_to_datetime(ticks.rem_euclid(TICKS_PER_DAY), to) % TICKS_PER_DAY, true);
            Ok(Arc::new(convert::<Int64Type, Int64Type>(array, mode, time, |_| out_of_range())?))
        }
        _ if from.is_temporal() && to.is_temporal() => {
            let round = |ticks| {
                let ticks = round_to_datetime(ticks, to);
                (ticks, datetime_in_range(ticks, to))
            };
            Ok(Arc::new(convert::<Int64Type, Int64Type>(array, mode, round, |_| out_of_range())?))
        }
        _ if to.is_temporal() => from_days(array, from, to, mode),
        _ => to_days(array, from, to, mode),
    }
}

/// Converts a number of days since 1900-01-01 to a `datetime`: whole days exactly, fractions through `float`.
fn from_days(array: &ArrayRef, from: SqlType, to: SqlType, mode: Mode) -> Result<ArrayRef, SqlError> {
    let in_range = |ticks: i64| (ticks, datetime_in_range(ticks, to));
    if from.is_integer() {
        let days = cast_array(array, from, SqlType::BigInt, None, mode.try_cast)?;
        let whole = |days: i64| {
            let ticks = days.saturating_add(BASE_DAY).saturating_mul(TICKS_PER_DAY);
            in_range(ticks)
        };
        return Ok(Arc::new(convert::<Int64Type, Int64Type>(&days, mode, whole, |_| overflow(to))?));
    }
    let days = cast_array(array, from, SqlType::Float, None, mode.try_cast)?;
    let fraction = |days: f64| {
        let whole = days.floor();
        // The cast saturates, and a saturated value is out of range.
        let ticks = (whole as i64).saturating_add(BASE_DAY).saturating_mul(TICKS_PER_DAY);
        let time = ((days - whole) * TICKS_PER_DAY as f64).round() as i64;
        if !datetime_in_range(ticks, to) {
            return (0, false);
        }
        in_range(round_to_datetime(ticks + time, to))
    };
    Ok(Arc::new(convert::<Float64Type, Int64Type>(&days, mode, fraction, |_| overflow(to))?))
}

/// Converts a `datetime` to a number of days; an integer is rounded to the nearest day.
fn to_days(array: &ArrayRef, from: SqlType, to: SqlType, mode: Mode) -> Result<ArrayRef, SqlError> {
    if to.is_integer() {
        let nearest = |ticks: i64| ((ticks - BASE_TICKS + TICKS_PER_DAY / 2).div_euclid(TICKS_PER_DAY), true);
        let days = convert::<Int64Type, Int64Type>(array, mode, nearest, |_| date_out_of_range(from, to))?;
        return cast_array(&(Arc::new(days) as ArrayRef), SqlType::BigInt, to, None, mode.try_cast);
    }
    let exact = |ticks: i64| ((ticks - BASE_TICKS) as f64 / TICKS_PER_DAY as f64, true);
    let days = convert::<Int64Type, Float64Type>(array, mode, exact, |_| date_out_of_range(from, to))?;
    cast_array(&(Arc::new(days) as ArrayRef), SqlType::Float, to, None, mode.try_cast)
}
