//! `DATEDIFF` and `DATEDIFF_BIG`: the number of boundaries of a part between two moments.

use arrow::array::ArrayRef;
use arrow::datatypes::{Int32Type, Int64Type};
use hobt_base::{SqlError, errors};
use hobt_types::SqlType;

use super::add::{part_of, unsupported};
use super::calendar::{Civil, TICKS_PER_DAY, TICKS_PER_SECOND, weekday};
use super::functions::Moments;
use super::part::DatePart;
use crate::function::Call;

/// The number of the part's boundary at or before a moment; `None` above 64 bits.
fn boundary(part: DatePart, ticks: i64) -> Option<i64> {
    let day = ticks.div_euclid(TICKS_PER_DAY);
    let date = || Civil::from_days(day);
    Some(match part {
        DatePart::Year => date().year,
        DatePart::Quarter => date().year * 4 + (date().month - 1) / 3,
        DatePart::Month => date().year * 12 + date().month - 1,
        // Weeks begin on Sunday whatever DATEFIRST is.
        DatePart::Week => (day - weekday(day)).div_euclid(7),
        DatePart::IsoWeek => (day - (weekday(day) + 6) % 7).div_euclid(7),
        DatePart::Day | DatePart::DayOfYear | DatePart::Weekday => day,
        DatePart::Hour => ticks.div_euclid(3600 * TICKS_PER_SECOND),
        DatePart::Minute => ticks.div_euclid(60 * TICKS_PER_SECOND),
        DatePart::Second => ticks.div_euclid(TICKS_PER_SECOND),
        DatePart::Millisecond => ticks.div_euclid(10_000),
        DatePart::Microsecond => ticks.div_euclid(10),
        DatePart::Nanosecond | DatePart::TimeZoneOffset => return None,
    })
}

fn difference(part: DatePart, start: i64, end: i64) -> Option<i64> {
    match part {
        DatePart::Nanosecond => end.checked_sub(start)?.checked_mul(100),
        _ => boundary(part, end)?.checked_sub(boundary(part, start)?),
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
    let value = |row: usize| -> Result<Option<i64>, SqlError> {
        let Some((start, end)) = starts.get(row).zip(ends.get(row)) else { return Ok(None) };
        difference(part, start, end).map(Some).ok_or_else(overflow)
    };
    if call.result_type == SqlType::BigInt {
        return call.primitive_result::<Int64Type>(value);
    }
    call.primitive_result::<Int32Type>(|row| value(row)?.map(i32::try_from).transpose().map_err(|_| overflow()))
}
