//! Functions that build dates from parts, `EOMONTH` and `ISDATE`.

use arrow::array::ArrayRef;
use arrow::datatypes::Int32Type;
use hobt_base::{SqlError, errors};
use hobt_types::{SqlType, Value};

use super::calendar::{Civil, TICKS_PER_DAY, TICKS_PER_SECOND, datetime_in_range, days_in_month, round_to_datetime};
use super::functions::{Moments, moments_result};
use super::parse::parse;
use crate::error::date_add_overflow;
use crate::function::{ArgType, Call};

/// 289.
fn cannot_construct(sql_type: SqlType) -> SqlError {
    errors::CANNOT_CONSTRUCT.with([&sql_type.name()])
}

/// All integer arguments of a row; `None` if one is NULL.
fn parts<const N: usize>(call: &Call<'_>) -> Result<impl Fn(usize) -> Option<[i64; N]>, SqlError> {
    let columns = (0..N).map(|index| call.integers(index)).collect::<Result<Vec<_>, _>>()?;
    Ok(move |row: usize| {
        let mut values = [0; N];
        for (value, column) in values.iter_mut().zip(&columns) {
            *value = column.get(row)?;
        }
        Some(values)
    })
}

fn day_ticks(year: i64, month: i64, day: i64) -> Option<i64> {
    Civil::checked(year, month, day).map(|date| date.to_days() * TICKS_PER_DAY)
}

fn clock_ticks(hour: i64, minute: i64, second: i64) -> Option<i64> {
    let valid = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    valid.then(|| ((hour * 60 + minute) * 60 + second) * TICKS_PER_SECOND)
}

pub(super) fn datefromparts(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let parts = parts::<3>(call)?;
    moments_result(call, |row| {
        let Some([year, month, day]) = parts(row) else { return Ok(None) };
        day_ticks(year, month, day).map(Some).ok_or_else(|| cannot_construct(SqlType::Date))
    })
}

pub(super) fn datetimefromparts(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let parts = parts::<7>(call)?;
    moments_result(call, |row| {
        let Some([year, month, day, hour, minute, second, millisecond]) = parts(row) else { return Ok(None) };
        let ticks = day_ticks(year, month, day)
            .zip(clock_ticks(hour, minute, second))
            .filter(|_| (0..1000).contains(&millisecond))
            .map(|(day, clock)| round_to_datetime(day + clock + millisecond * 10_000, SqlType::DateTime))
            .filter(|ticks| datetime_in_range(*ticks, SqlType::DateTime));
        ticks.map(Some).ok_or_else(|| cannot_construct(SqlType::DateTime))
    })
}

/// The precision is the last argument, a constant.
pub(super) fn datetime2_type(args: &[ArgType]) -> Result<SqlType, SqlError> {
    match args.get(7).and_then(|arg| arg.literal.as_ref()) {
        Some(Value::Int(scale @ 0..=7)) => Ok(SqlType::DateTime2 { scale: u8::try_from(*scale).unwrap_or(7) }),
        _ => Err(errors::DATETIME2_SCALE.error()),
    }
}

pub(super) fn datetime2fromparts(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let parts = parts::<7>(call)?;
    let unit = super::calendar::tick_unit(call.result_type.scale());
    moments_result(call, |row| {
        let Some([year, month, day, hour, minute, second, fraction]) = parts(row) else { return Ok(None) };
        let ticks = day_ticks(year, month, day)
            .zip(clock_ticks(hour, minute, second))
            .filter(|_| (0..TICKS_PER_SECOND / unit).contains(&fraction))
            .map(|(day, clock)| day + clock + fraction * unit);
        ticks.map(Some).ok_or_else(|| cannot_construct(call.result_type))
    })
}

/// The precision is the last argument, a constant.
pub(super) fn time_type(args: &[ArgType]) -> Result<SqlType, SqlError> {
    match args.get(4).and_then(|arg| arg.literal.as_ref()) {
        Some(Value::Int(scale @ 0..=7)) => Ok(SqlType::Time { scale: u8::try_from(*scale).unwrap_or(7) }),
        _ => Err(errors::TIME_SCALE.error()),
    }
}

pub(super) fn timefromparts(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let parts = parts::<4>(call)?;
    let unit = super::calendar::tick_unit(call.result_type.scale());
    moments_result(call, |row| {
        let Some([hour, minute, second, fraction]) = parts(row) else { return Ok(None) };
        let ticks = clock_ticks(hour, minute, second).filter(|_| (0..TICKS_PER_SECOND / unit).contains(&fraction));
        ticks.map(|clock| Some(clock + fraction * unit)).ok_or_else(|| cannot_construct(call.result_type))
    })
}

/// The last day of the month, `n` months later.
pub(super) fn eomonth(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let moments = Moments::new(call, 0)?;
    let counts = if call.args.len() > 1 { Some(call.integers(1)?) } else { None };
    moments_result(call, |row| {
        let count = counts.as_ref().map_or(Some(0), |counts| counts.get(row)).unwrap_or(0);
        let Some(ticks) = moments.get(row) else { return Ok(None) };
        let date = Civil::from_days(ticks.div_euclid(TICKS_PER_DAY));
        let month = (date.year * 12 + date.month - 1).saturating_add(count);
        let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
        let last = day_ticks(year, month, if (1..=9999).contains(&year) { days_in_month(year, month) } else { 1 });
        last.map(Some).ok_or_else(|| date_add_overflow(SqlType::Date))
    })
}

/// 1 if the text can be read as `datetime`.
pub(super) fn isdate(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let arg = call.arg(0)?;
    if matches!(arg.sql_type, SqlType::DateTime | SqlType::SmallDateTime) {
        return call.primitive_result::<Int32Type>(|row| Ok(Some(i32::from(!arg.column.is_null(row)))));
    }
    let texts = call.texts(0)?;
    call.primitive_result::<Int32Type>(|row| {
        let is_date = texts.get(row).filter(|text| !text.trim().is_empty()).is_some_and(|text| {
            parse(text, None).is_ok_and(|parsed| {
                let ticks = parsed.day * TICKS_PER_DAY + parsed.time;
                parsed.fraction_digits <= 3 && datetime_in_range(ticks, SqlType::DateTime)
            })
        });
        Ok(Some(i32::from(is_date)))
    })
}
