//! The calendar: conversions between days since 1970-01-01 and years, months and days; ranges and rounding of the
//! temporal types.

use hobt_types::SqlType;

/// 100 ns units in a second.
pub(crate) const TICKS_PER_SECOND: i64 = 10_000_000;
/// 100 ns units in a day.
pub(crate) const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;
/// 1900-01-01 in days since 1970-01-01: day 0 of `datetime`.
pub(crate) const BASE_DAY: i64 = -25_567;
/// 1900-01-01 in 100 ns since 1970-01-01.
pub(crate) const BASE_TICKS: i64 = BASE_DAY * TICKS_PER_DAY;
/// 0001-01-01 in days since 1970-01-01.
const FIRST_DAY: i64 = -719_162;
/// 9999-12-31 in days since 1970-01-01.
const LAST_DAY: i64 = 2_932_896;
/// 1753-01-01, the first day of `datetime`.
const DATETIME_FIRST_DAY: i64 = -79_257;
/// 2079-06-06, the last day of `smalldatetime`.
const SMALLDATETIME_LAST_DAY: i64 = 39_968;

/// A day of the calendar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
}

impl Civil {
    /// The day that is `days` after 1970-01-01. Right for the years 1 to 9999, and some number for any other day.
    ///
    /// Years are counted from March, so that the leap day is the last of its year. Divisions are products with a fixed
    /// fraction (C. Neri, L. Schneider, "Euclidean affine functions and their application to calendar algorithms",
    /// 2023), so that loops over days have no division.
    #[inline]
    pub(crate) fn from_days(days: i64) -> Civil {
        const DAYS_OF_400_YEARS: u32 = 146_097;
        // 0000-03-01 is day 0. The numbers of days in range are positive and far below 2^30.
        let quarters = 4u32.wrapping_mul((days + 719_468) as u32).wrapping_add(3);
        let century = quarters / DAYS_OF_400_YEARS;
        let in_century = (quarters % DAYS_OF_400_YEARS) | 3;
        // 2^32 / 1461, rounded up: the year is the upper half, the day of the year is in the lower half.
        let product = u64::from(in_century) * 2_939_745;
        let day_of_year = (product as u32) / 2_939_745 / 4;
        let months = 2_141 * day_of_year + 197_913;
        let (month, day) = (months >> 16, (months & 0xFFFF) / 2_141);
        let is_of_next_year = day_of_year >= 306;
        let year = 100 * century + (product >> 32) as u32 + u32::from(is_of_next_year);
        let month = if is_of_next_year { month - 12 } else { month };
        Civil { year: i64::from(year), month: i64::from(month), day: i64::from(day) + 1 }
    }

    /// Days since 1970-01-01. The month and the day must exist.
    pub(crate) fn to_days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month_from_march = (self.month + 9) % 12;
        let day_of_year = (153 * month_from_march + 2) / 5 + self.day - 1;
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
    }

    /// The day, if the year is 1 to 9999 and the month and the day exist.
    pub(crate) fn checked(year: i64, month: i64, day: i64) -> Option<Civil> {
        let valid = (1..=9999).contains(&year) && (1..=12).contains(&month);
        (valid && (1..=days_in_month(year, month)).contains(&day)).then_some(Civil { year, month, day })
    }
}

/// The number of days of a month of 1 to 12.
pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Splits 100 ns since 1970-01-01 into the day and the time of day.
pub(crate) fn split(ticks: i64) -> (i64, i64) {
    (ticks.div_euclid(TICKS_PER_DAY), ticks.rem_euclid(TICKS_PER_DAY))
}

/// Whether a day is in 0001-01-01 to 9999-12-31.
pub(crate) fn day_in_range(day: i64) -> bool {
    (FIRST_DAY..=LAST_DAY).contains(&day)
}

/// Whether a moment is in the range of a `datetime` type.
pub(crate) fn datetime_in_range(ticks: i64, sql_type: SqlType) -> bool {
    let day = ticks.div_euclid(TICKS_PER_DAY);
    match sql_type {
        SqlType::DateTime => (DATETIME_FIRST_DAY..=LAST_DAY).contains(&day),
        SqlType::SmallDateTime => (BASE_DAY..=SMALLDATETIME_LAST_DAY).contains(&day),
        _ => day_in_range(day),
    }
}

/// Whether a number is valid in a column of a date or time type: days or 100 ns since 1970-01-01, 100 ns since midnight
/// for `time`. True for all other types.
pub fn holds_moment(sql_type: SqlType, number: i64) -> bool {
    match sql_type {
        SqlType::Date => day_in_range(number),
        SqlType::Time { .. } => (0..TICKS_PER_DAY).contains(&number),
        _ if sql_type.is_temporal() => datetime_in_range(number, sql_type),
        _ => true,
    }
}

/// The number of 100 ns units in the last of `scale` digits of a second.
pub(crate) fn tick_unit(scale: u8) -> i64 {
    10_i64.pow(7 - u32::from(scale.min(7)))
}

fn round_to(ticks: i64, unit: i64) -> i64 {
    (ticks + unit / 2).div_euclid(unit) * unit
}

/// A moment rounded to a `datetime` type: `datetime` to a 1/300 s shown in milliseconds, `smalldatetime` to the minute,
/// `datetime2` and `time` to their scale.
pub fn round_to_datetime(ticks: i64, sql_type: SqlType) -> i64 {
    match sql_type {
        SqlType::DateTime => {
            let (second, rest) = (ticks.div_euclid(TICKS_PER_SECOND), ticks.rem_euclid(TICKS_PER_SECOND));
            let thirds = (rest * 300 + TICKS_PER_SECOND / 2) / TICKS_PER_SECOND;
            let milliseconds = (thirds * 10 + 1) / 3;
            second * TICKS_PER_SECOND + milliseconds * 10_000
        }
        SqlType::SmallDateTime => round_to(round_to_datetime(ticks, SqlType::DateTime), 60 * TICKS_PER_SECOND),
        SqlType::DateTime2 { scale } | SqlType::Time { scale } => match tick_unit(scale) {
            1 => ticks,
            unit => round_to(ticks, unit),
        },
        _ => ticks,
    }
}

/// The weekday, 0 for Sunday.
pub(crate) fn weekday(day: i64) -> i64 {
    (day + 4).rem_euclid(7)
}

/// The week of the year by ISO 8601: weeks start on Monday, the first contains the year's first Thursday.
pub(crate) fn iso_week(day: i64) -> i64 {
    let thursday = day - (weekday(day) + 6) % 7 + 3;
    let start = Civil { year: Civil::from_days(thursday).year, month: 1, day: 1 }.to_days();
    (thursday - start) / 7 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree() {
        for day in FIRST_DAY..=LAST_DAY {
            let date = Civil::from_days(day);
            assert_eq!(date.to_days(), day);
            assert!(Civil::checked(date.year, date.month, date.day).is_some());
        }
        // Under a NULL there may be any number.
        for day in [i64::from(i32::MIN), i64::from(i32::MAX), i64::MIN / TICKS_PER_DAY, i64::MAX / TICKS_PER_DAY] {
            Civil::from_days(day);
        }
        assert_eq!(Civil { year: 1900, month: 1, day: 1 }.to_days(), BASE_DAY);
        assert_eq!(Civil { year: 1753, month: 1, day: 1 }.to_days(), DATETIME_FIRST_DAY);
        assert_eq!(Civil { year: 2079, month: 6, day: 6 }.to_days(), SMALLDATETIME_LAST_DAY);
        assert_eq!(Civil::from_days(FIRST_DAY), Civil { year: 1, month: 1, day: 1 });
        assert_eq!(Civil::from_days(LAST_DAY), Civil { year: 9999, month: 12, day: 31 });
        assert_eq!(Civil::checked(1900, 2, 29), None);
    }

    #[test]
    fn datetime_rounds_to_0_3_and_7_milliseconds() {
        // The examples of the documentation's page on datetime.
        for (from, to) in [(999, 1000), (998, 997), (995, 997), (994, 993), (992, 993), (991, 990), (990, 990)] {
            assert_eq!(round_to_datetime(from * 10_000, SqlType::DateTime), to * 10_000, "{from}");
        }
        assert_eq!(round_to_datetime(29_998 * 10_000, SqlType::SmallDateTime), 0);
        assert_eq!(round_to_datetime(29_999 * 10_000, SqlType::SmallDateTime), 60 * TICKS_PER_SECOND);
    }

    #[test]
    fn weeks_follow_iso_8601() {
        let week = |year, month, day| iso_week(Civil { year, month, day }.to_days());
        assert_eq!(week(2021, 1, 3), 53);
        assert_eq!(week(2021, 1, 4), 1);
        assert_eq!(week(2024, 12, 30), 1);
        assert_eq!(weekday(0), 4);
    }
}
