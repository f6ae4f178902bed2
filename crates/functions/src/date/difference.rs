//! `DATEDIFF` and `DATEDIFF_BIG`: the number of boundaries of a part between two moments.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, PrimitiveArray, new_null_array};
use arrow::datatypes::Int64Type;
use hobt_base::{SqlError, errors};
use hobt_types::SqlType;

use super::add::{part_of, unsupported};
use super::calendar::{Civil, TICKS_PER_SECOND, weekday};
use super::functions::Moments;
use super::part::DatePart;
use crate::arithmetic::zip;
use crate::carrier::carrier;
use crate::function::Call;

/// The number of the part's boundary at or before each moment.
fn boundaries(part: DatePart, moments: &Moments) -> PrimitiveArray<Int64Type> {
    let of_time = |unit: i64| moments.map(|_, ticks| ticks.div_euclid(unit));
    match part {
        DatePart::Year => moments.map(|day, _| Civil::from_days(day).year),
        DatePart::Quarter => moments.map(|day, _| {
            let date = Civil::from_days(day);
            date.year * 4 + (date.month - 1) / 3
        }),
        DatePart::Month => moments.map(|day, _| {
            let date = Civil::from_days(day);
            date.year * 12 + date.month - 1
        }),
        // Weeks begin on Sunday whatever DATEFIRST is.
        DatePart::Week => moments.map(|day, _| (day - weekday(day)).div_euclid(7)),
        DatePart::IsoWeek => moments.map(|day, _| (day - (weekday(day) + 6) % 7).div_euclid(7)),
        DatePart::Day | DatePart::DayOfYear | DatePart::Weekday => moments.map(|day, _| day),
        DatePart::Hour => of_time(3600 * TICKS_PER_SECOND),
        DatePart::Minute => of_time(60 * TICKS_PER_SECOND),
        DatePart::Second => of_time(TICKS_PER_SECOND),
        DatePart::Millisecond => of_time(10_000),
        DatePart::Microsecond => of_time(10),
        DatePart::Nanosecond | DatePart::TimeZoneOffset => moments.map(|_, ticks| ticks),
    }
}

pub(super) fn datediff(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let part = part_of(call)?;
    let (starts, ends) = (Moments::new(call, 0)?, Moments::new(call, 1)?);
    if part == DatePart::TimeZoneOffset {
        return Err(unsupported(part, "datediff", starts.sql_type()));
    }
    let overflow = || {
        let name = if call.result_type == SqlType::BigInt { "datediff_big" } else { "datediff" };
        errors::DATEDIFF_OVERFLOW.with([&name, &name])
    };
    // What is left of a difference of ticks of 100 ns.
    let unit = if part == DatePart::Nanosecond { 100 } else { 1 };
    let is_big = call.result_type == SqlType::BigInt;
    let between = |start: i64, end: i64| {
        let (steps, below) = end.overflowing_sub(start);
        let (steps, above) = steps.overflowing_mul(unit);
        (steps, below | above | (!is_big & i32::try_from(steps).is_err()))
    };
    if starts.is_constant_null() || ends.is_constant_null() {
        return Ok(new_null_array(&carrier(call.result_type), call.rows));
    }
    let (start, end) = (starts.with(boundaries(part, &starts)), ends.with(boundaries(part, &ends)));
    let steps = zip::<Int64Type, _>(&start, &end, call.rows, between, overflow)?;
    if is_big {
        return Ok(Arc::new(steps));
    }
    let narrow: Int32Array = steps.unary(|steps| steps as i32);
    Ok(Arc::new(narrow))
}
