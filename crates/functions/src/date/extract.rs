//! `DATEPART`, `DATENAME`, `YEAR`, `MONTH`, `DAY`, under `DATEFIRST 7` and `us_english`.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::Int32Type;
use hobt_base::SqlError;
use hobt_types::SqlType;

use super::add::{check_part, part_of, unsupported};
use super::calendar::{Civil, TICKS_PER_SECOND, iso_week, weekday};
use super::functions::Moments;
use super::parse::zone_offset;
use super::part::DatePart;
use crate::function::Call;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The value of a part of each moment. Every part of a moment of the years 1 to 9999 fits 32 bits.
fn extract(part: DatePart, moments: &Moments) -> PrimitiveArray<Int32Type> {
    // A loop for each part: the part is not looked at for each row.
    let of_day = |of: fn(i64) -> i64| moments.map(|day, _| of(day) as i32);
    let of_time = |unit: i64, limit: i64| moments.map(|_, ticks| (ticks.div_euclid(unit).rem_euclid(limit)) as i32);
    match part {
        DatePart::Year => moments.map(|day, _| Civil::from_days(day).year as i32),
        DatePart::Quarter => moments.map(|day, _| ((Civil::from_days(day).month - 1) / 3 + 1) as i32),
        DatePart::Month => moments.map(|day, _| Civil::from_days(day).month as i32),
        DatePart::Day => moments.map(|day, _| Civil::from_days(day).day as i32),
        DatePart::DayOfYear => of_day(|day| day - new_year(day) + 1),
        // The first of January is in week 1, and a week begins on Sunday.
        DatePart::Week => of_day(|day| (day - new_year(day) + weekday(new_year(day))) / 7 + 1),
        DatePart::Weekday => moments.map(|day, _| (weekday(day) + 1) as i32),
        DatePart::IsoWeek => of_day(iso_week),
        DatePart::Hour => of_time(3600 * TICKS_PER_SECOND, 24),
        DatePart::Minute => of_time(60 * TICKS_PER_SECOND, 60),
        DatePart::Second => of_time(TICKS_PER_SECOND, 60),
        DatePart::Millisecond => of_time(10_000, 1000),
        DatePart::Microsecond => of_time(10, 1_000_000),
        DatePart::Nanosecond => moments.map(|_, ticks| (ticks.rem_euclid(TICKS_PER_SECOND) * 100) as i32),
        // Types without a zone are in UTC; text has its own offset.
        DatePart::TimeZoneOffset => moments.map(|_, _| 0),
    }
}

/// The first day of the year of a day.
fn new_year(day: i64) -> i64 {
    Civil { year: Civil::from_days(day).year, month: 1, day: 1 }.to_days()
}

/// The offset of each value in minutes east of UTC: that at the end of a text, 0 for `datetime2`.
///
/// # Errors
/// 9810 for other types.
fn zone_offsets(call: &Call<'_>, function: &str) -> Result<Vec<Option<i32>>, SqlError> {
    let moments = Moments::new(call, 0)?;
    let sql_type = call.arg(0)?.sql_type;
    let texts = if sql_type.is_text() { Some(call.texts(0)?) } else { None };
    if texts.is_none() && !matches!(sql_type, SqlType::DateTime2 { .. }) {
        return Err(unsupported(DatePart::TimeZoneOffset, function, sql_type));
    }
    let offset = |row: usize| match &texts {
        Some(texts) => texts.get(row).map(zone_offset),
        None => moments.get(row).map(|_| 0),
    };
    Ok((0..call.rows).map(offset).collect())
}

pub(super) fn datepart(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let part = part_of(call)?;
    if part == DatePart::TimeZoneOffset {
        let offsets = zone_offsets(call, "datepart")?;
        return call.primitive_result::<Int32Type>(|row| Ok(offsets[row]));
    }
    check_part(part, "datepart", Moments::new(call, 0)?.sql_type())?;
    fixed(call, part)
}

pub(super) fn fixed(call: &Call<'_>, part: DatePart) -> Result<ArrayRef, SqlError> {
    let moments = Moments::new(call, 0)?;
    moments.with(extract(part, &moments)).to_array(call.rows)
}

pub(super) fn datename(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let part = part_of(call)?;
    if part == DatePart::TimeZoneOffset {
        let offsets = zone_offsets(call, "datename")?;
        let shown = |minutes: i32| {
            let sign = if minutes < 0 { '-' } else { '+' };
            Cow::Owned(format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60))
        };
        return call.text_result(|row| Ok(offsets[row].map(shown)));
    }
    let moments = Moments::new(call, 0)?;
    check_part(part, "datename", moments.sql_type())?;
    let numbers = moments.with(extract(part, &moments)).to_array(call.rows)?;
    let numbers = numbers.as_primitive::<Int32Type>();
    call.text_result(|row| {
        if numbers.is_null(row) {
            return Ok(None);
        }
        let number = numbers.value(row);
        let name = |names: &'static [&'static str]| {
            usize::try_from(number - 1).ok().and_then(|index| names.get(index)).copied().map(Cow::Borrowed)
        };
        Ok(match part {
            DatePart::Month => name(&MONTHS),
            DatePart::Weekday => name(&WEEKDAYS),
            _ => Some(Cow::Owned(number.to_string())),
        })
    })
}
