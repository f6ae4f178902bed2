//! Dates and times as bytes, in hobt's units: days and 100 ns since 1970-01-01, 100 ns since midnight.
//!
//! What is read may lie outside of its type; the caller checks it. What is written lies inside.

const TICKS_PER_SECOND: i64 = 10_000_000;
const TICKS_PER_MINUTE: i64 = 60 * TICKS_PER_SECOND;
const TICKS_PER_DAY: i64 = 24 * 60 * TICKS_PER_MINUTE;
/// 1900-01-01 in days since 1970-01-01.
const BASE_DAY: i64 = -25_567;
/// 0001-01-01 in days since 1970-01-01.
const FIRST_DAY: i64 = -719_162;
/// 1/300 s in a day.
const THIRDS_PER_DAY: u32 = 300 * 24 * 60 * 60;
const MINUTES_PER_DAY: u16 = 24 * 60;

/// 100 ns since 1970-01-01; `None` beyond midnight.
pub(super) fn smalldatetime([day_low, day_high, low, high]: [u8; 4]) -> Option<i64> {
    let day = i64::from(u16::from_le_bytes([day_low, day_high])) + BASE_DAY;
    let minute = u16::from_le_bytes([low, high]);
    (minute < MINUTES_PER_DAY).then(|| day * TICKS_PER_DAY + i64::from(minute) * TICKS_PER_MINUTE)
}

pub(super) fn smalldatetime_bytes(ticks: i64) -> [u8; 4] {
    let day = (ticks.div_euclid(TICKS_PER_DAY) - BASE_DAY) as u16;
    let minute = (ticks.rem_euclid(TICKS_PER_DAY) / TICKS_PER_MINUTE) as u16;
    let ([a, b], [c, d]) = (day.to_le_bytes(), minute.to_le_bytes());
    [a, b, c, d]
}

/// 100 ns since 1970-01-01, rounded to the milliseconds that a `datetime` shows; `None` beyond midnight.
pub(super) fn datetime(bytes: [u8; 8]) -> Option<i64> {
    let both = u64::from_le_bytes(bytes);
    let (day, thirds) = (i64::from(both as u32 as i32) + BASE_DAY, (both >> 32) as u32);
    let milliseconds = (i64::from(thirds) * 10 + 1) / 3;
    let ticks = day.checked_mul(TICKS_PER_DAY)?.checked_add(milliseconds * (TICKS_PER_SECOND / 1000))?;
    (thirds < THIRDS_PER_DAY).then_some(ticks)
}

pub(super) fn datetime_bytes(ticks: i64) -> [u8; 8] {
    let (day, rest) = (ticks.div_euclid(TICKS_PER_DAY) - BASE_DAY, ticks.rem_euclid(TICKS_PER_DAY));
    // A time that is one of `datetime`'s is 1/900 s at most from its 1/300 s: it never reaches midnight.
    let thirds = ((rest * 300 + TICKS_PER_SECOND / 2) / TICKS_PER_SECOND).min(i64::from(THIRDS_PER_DAY) - 1);
    (u64::from(day as i32 as u32) | (thirds as u64) << 32).to_le_bytes()
}

/// Days since 1970-01-01.
pub(super) fn date([low, middle, high]: [u8; 3]) -> Option<i64> {
    Some(i64::from(u32::from_le_bytes([low, middle, high, 0])) + FIRST_DAY)
}

pub(super) fn date_bytes(day: i64) -> [u8; 3] {
    let [low, middle, high, ..] = (day - FIRST_DAY).to_le_bytes();
    [low, middle, high]
}

/// 100 ns since midnight.
pub(super) fn time([a, b, c, d, e]: [u8; 5]) -> Option<i64> {
    let ticks = i64::from_le_bytes([a, b, c, d, e, 0, 0, 0]);
    (ticks < TICKS_PER_DAY).then_some(ticks)
}

pub(super) fn time_bytes(ticks: i64) -> [u8; 5] {
    let [a, b, c, d, e, ..] = ticks.to_le_bytes();
    [a, b, c, d, e]
}

/// 100 ns since 1970-01-01.
pub(super) fn datetime2([a, b, c, d, e, day @ ..]: [u8; 8]) -> Option<i64> {
    let ticks = time([a, b, c, d, e])?;
    date(day)?.checked_mul(TICKS_PER_DAY)?.checked_add(ticks)
}

pub(super) fn datetime2_bytes(ticks: i64) -> [u8; 8] {
    let [a, b, c, d, e] = time_bytes(ticks.rem_euclid(TICKS_PER_DAY));
    let [f, g, h] = date_bytes(ticks.div_euclid(TICKS_PER_DAY));
    [a, b, c, d, e, f, g, h]
}
