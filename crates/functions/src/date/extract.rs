//! `DATEPART`, `DATENAME`, `YEAR`, `MONTH`, `DAY`, under `DATEFIRST 7` and `us_english`.

use std::borrow::Cow;

use arrow::array::ArrayRef;
use arrow::datatypes::Int32Type;
use hobt_base::SqlError;
use hobt_types::SqlType;

use super::add::{check_part, part_of, unsupported};
use super::calendar::{Civil, TICKS_PER_SECOND, iso_week, split, weekday};
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

/// The value of a part of a moment.
fn extract(part: DatePart, ticks: i64) -> i64 {
    let (day, time) = split(ticks);
    let date = Civil::from_days(day);
    let new_year = Civil { year: date.year, month: 1, day: 1 }.to_days();
    match part {
        DatePart::Year => date.year,
        DatePart::Quarter => (date.month - 1) / 3 + 1,
        DatePart::Month => date.month,
        DatePart::DayOfYear => day - new_year + 1,
        DatePart::Day => date.day,
        // The first of January is in week 1, and a week begins on Sunday.
        DatePart::Week => (day - new_year + weekday(new_year)) / 7 + 1,
        DatePart::Weekday => weekday(day) + 1,
        DatePart::IsoWeek => iso_week(day),
        DatePart::Hour => time / (3600 * TICKS_PER_SECOND),
        DatePart::Minute => time / (60 * TICKS_PER_SECOND) % 60,
        DatePart::Second => time / TICKS_PER_SECOND % 60,
        DatePart::Millisecond => time / 10_000 % 1000,
        DatePart::Microsecond => time / 10 % 1_000_000,
        DatePart::Nanosecond => time % TICKS_PER_SECOND * 100,
        // Types without a zone are in UTC; text has its own offset.
        DatePart::TimeZoneOffset => 0,
    }
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
    // Every part of a moment of the years 1 to 9999 fits 32 bits.
    call.primitive_result::<Int32Type>(|row| {
        Ok(moments.get(row).and_then(|ticks| i32::try_from(extract(part, ticks)).ok()))
    })
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
    call.text_result(|row| {
        let Some(ticks) = moments.get(row) else { return Ok(None) };
        let number = extract(part, ticks);
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
