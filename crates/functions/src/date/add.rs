//! `DATEADD`, `DATE_BUCKET` and `DATETRUNC`.

use arrow::array::ArrayRef;
use hobt_base::{SqlError, errors};
use hobt_types::SqlType;

use super::calendar::{
    BASE_TICKS, Civil, TICKS_PER_DAY, TICKS_PER_SECOND, datetime_in_range, days_in_month, round_to_datetime, split,
    weekday,
};
use super::functions::{Moments, moments_result};
use super::part::DatePart;
use crate::error::{before_first_date, date_add_overflow};
use crate::function::Call;

/// 9810: a part that the type does not have.
pub(super) fn unsupported(part: DatePart, function: &str, sql_type: SqlType) -> SqlError {
    errors::INVALID_DATE_PART.with([&part.name(), &function, &sql_type.name()])
}

/// The date part of the call.
pub(super) fn part_of(call: &Call<'_>) -> Result<DatePart, SqlError> {
    call.date_part.ok_or_else(|| SqlError::internal("a date function without its date part"))
}

/// Refuses the parts of a day for `date` and of a date for `time`. Also refuses the offset of a zone, by which moments
/// are never moved, compared or truncated.
pub(super) fn check_part(part: DatePart, function: &str, sql_type: SqlType) -> Result<(), SqlError> {
    match sql_type {
        _ if part == DatePart::TimeZoneOffset => Err(unsupported(part, function, sql_type)),
        SqlType::Date if part.is_of_time() => Err(unsupported(part, function, sql_type)),
        SqlType::Time { .. } if !part.is_of_time() => Err(unsupported(part, function, sql_type)),
        _ => Ok(()),
    }
}

/// The moment `count` months later; the last day of the month if the day does not exist in it.
fn add_months(ticks: i64, count: i64) -> Option<i64> {
    let (day, time) = split(ticks);
    let date = Civil::from_days(day);
    let month = (date.year * 12 + date.month - 1).checked_add(count)?;
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    let date = Civil::checked(year, month, date.day.min(days_in_month(year, month)))?;
    Some(date.to_days() * TICKS_PER_DAY + time)
}

/// The length in 100 ns of a part of fixed length; 0 for months and longer, and for nanoseconds.
const fn part_ticks(part: DatePart) -> i64 {
    match part {
        DatePart::Day | DatePart::DayOfYear | DatePart::Weekday => TICKS_PER_DAY,
        DatePart::Week | DatePart::IsoWeek => 7 * TICKS_PER_DAY,
        DatePart::Hour => 3600 * TICKS_PER_SECOND,
        DatePart::Minute => 60 * TICKS_PER_SECOND,
        DatePart::Second => TICKS_PER_SECOND,
        DatePart::Millisecond => 10_000,
        DatePart::Microsecond => 10,
        DatePart::Year | DatePart::Quarter | DatePart::Month | DatePart::Nanosecond | DatePart::TimeZoneOffset => 0,
    }
}

fn add(part: DatePart, count: i64, ticks: i64) -> Option<i64> {
    match part {
        DatePart::Year => add_months(ticks, count.checked_mul(12)?),
        DatePart::Quarter => add_months(ticks, count.checked_mul(3)?),
        DatePart::Month => add_months(ticks, count),
        // Rounded to 100 ns, the unit of time.
        DatePart::Nanosecond => ticks.checked_add((count.checked_add(50)?).div_euclid(100)),
        _ => ticks.checked_add(count.checked_mul(part_ticks(part))?),
    }
}

/// A moment rounded to its type; `None` if it is out of the type's range.
fn rounded(ticks: i64, sql_type: SqlType) -> Option<i64> {
    // Rounding itself could overflow 64 bits, so moments out of range of all types are rejected first.
    let is_known = datetime_in_range(ticks, SqlType::DateTime2 { scale: 7 });
    is_known.then(|| round_to_datetime(ticks, sql_type)).filter(|ticks| datetime_in_range(*ticks, sql_type))
}

pub(super) fn dateadd(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let part = part_of(call)?;
    let (counts, moments) = (call.integers(0)?, Moments::new(call, 1)?);
    let sql_type = call.result_type;
    check_part(part, "dateadd", sql_type)?;
    moments_result(call, |row| {
        let Some((count, ticks)) = counts.get(row).zip(moments.get(row)) else { return Ok(None) };
        let sum = add(part, count, ticks).and_then(|ticks| match sql_type {
            SqlType::Time { .. } => Some(round_to_datetime(ticks.rem_euclid(TICKS_PER_DAY), sql_type)),
            _ => rounded(ticks, sql_type),
        });
        sum.map(Some).ok_or_else(|| date_add_overflow(sql_type))
    })
}

/// The start of the bucket of `width` parts that contains `ticks`; one bucket starts at `origin`.
fn bucket(part: DatePart, width: i64, ticks: i64, origin: i64) -> Option<i64> {
    let months = match part {
        DatePart::Year => 12,
        DatePart::Quarter => 3,
        DatePart::Month => 1,
        _ => {
            let width = width.checked_mul(part_ticks(part))?;
            return origin.checked_add(ticks.checked_sub(origin)?.div_euclid(width).checked_mul(width)?);
        }
    };
    let width = width.checked_mul(months)?;
    let month_of = |ticks| {
        let date = Civil::from_days(split(ticks).0);
        date.year * 12 + date.month
    };
    let count = (month_of(ticks) - month_of(origin)).div_euclid(width).checked_mul(width)?;
    let begin = add_months(origin, count)?;
    if begin <= ticks { Some(begin) } else { add_months(origin, count.checked_sub(width)?) }
}

/// `DATE_BUCKET(part, width, date [, origin])`. The default origin is 1900-01-01.
pub(super) fn date_bucket(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let part = part_of(call)?;
    let (widths, moments) = (call.integers(0)?, Moments::new(call, 1)?);
    let origins = if call.args.len() > 2 { Some(Moments::new(call, 2)?) } else { None };
    let sql_type = call.result_type;
    check_part(part, "date_bucket", sql_type)?;
    let fits = matches!(part, DatePart::Year | DatePart::Quarter | DatePart::Month) || part_ticks(part) >= 10_000;
    if !fits || matches!(part, DatePart::DayOfYear | DatePart::Weekday | DatePart::IsoWeek) {
        return Err(unsupported(part, "date_bucket", sql_type));
    }
    moments_result(call, |row| {
        let origin = origins.as_ref().map_or(Some(BASE_TICKS), |origins| origins.get(row));
        let Some(((width, ticks), origin)) = widths.get(row).zip(moments.get(row)).zip(origin) else {
            return Ok(None);
        };
        if width <= 0 {
            return Err(errors::DATE_BUCKET_WIDTH.error());
        }
        let is_time = matches!(sql_type, SqlType::Time { .. });
        let begin = bucket(part, width, ticks, origin);
        // A bucket may start between two values of `datetime`.
        let begin = begin.map(|ticks| round_to_datetime(ticks, sql_type));
        match begin.filter(|ticks| is_time || datetime_in_range(*ticks, sql_type)) {
            Some(ticks) => Ok(Some(ticks)),
            None => Err(date_add_overflow(sql_type)),
        }
    })
}

/// Truncates everything below the part.
fn truncate(part: DatePart, ticks: i64) -> i64 {
    let (day, _) = split(ticks);
    let date = Civil::from_days(day);
    let first = |month| Civil { year: date.year, month, day: 1 }.to_days() * TICKS_PER_DAY;
    match part {
        DatePart::Year => first(1),
        DatePart::Quarter => first((date.month - 1) / 3 * 3 + 1),
        DatePart::Month => first(date.month),
        DatePart::Week => (day - weekday(day)) * TICKS_PER_DAY,
        DatePart::IsoWeek => (day - (weekday(day) + 6) % 7) * TICKS_PER_DAY,
        DatePart::Nanosecond => ticks,
        _ => ticks.div_euclid(part_ticks(part)) * part_ticks(part),
    }
}

pub(super) fn datetrunc(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let part = part_of(call)?;
    let moments = Moments::new(call, 0)?;
    check_part(part, "datetrunc", moments.sql_type())?;
    if matches!(part, DatePart::Weekday | DatePart::Nanosecond) {
        return Err(unsupported(part, "datetrunc", moments.sql_type()));
    }
    let sql_type = moments.sql_type();
    let is_time = matches!(sql_type, SqlType::Time { .. });
    moments_result(call, |row| {
        let Some(ticks) = moments.get(row).map(|ticks| truncate(part, ticks)) else { return Ok(None) };
        if is_time || datetime_in_range(ticks, sql_type) { Ok(Some(ticks)) } else { Err(before_first_date()) }
    })
}
