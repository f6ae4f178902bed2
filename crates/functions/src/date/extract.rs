//! `DATEPART`, `DATENAME`, `YEAR`, `MONTH`, `DAY`, under `DATEFIRST 7` and `us_english`.

use std::borrow::Cow;

use arrow::array::ArrayRef;
use arrow::datatypes::Int32Type;
use hobt_base::SqlError;

use super::add::{check_part, part_of};
use super::calendar::{Civil, TICKS_PER_SECOND, iso_week, split, weekday};
use super::functions::Moments;
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

/// The number of a part of a moment.
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
    }
}

pub(super) fn datepart(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let part = part_of(call)?;
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
