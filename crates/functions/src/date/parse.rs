//! Dates and times from text, as `CAST` and `CONVERT` read them under `SET LANGUAGE us_english`.
//!
//! `2026-11-21`, `20261121`, `11/21/2026`, `Nov 21 2026`, `21 November 2026`, each with or without `13:05:07.1234567`
//! or `1:05 PM`, also with a `T` between. A `Z` or an offset at the end is accepted and ignored.

use super::calendar::{Civil, TICKS_PER_DAY, TICKS_PER_SECOND};

/// The order of the numbers in `01/02/03`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    MonthDayYear,
    DayMonthYear,
    YearMonthDay,
}

/// Why a text is not a date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DateError {
    /// It has no known form.
    Syntax,
    /// A number is out of range, such as month 13 or hour 25.
    Range,
}

/// A text read as a date and a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parsed {
    /// Days since 1970-01-01; 1900-01-01 if the text has only a time.
    pub(crate) day: i64,
    /// 100 ns since midnight; 0 if the text has only a date.
    pub(crate) time: i64,
    /// The number of digits after the second.
    pub(crate) fraction_digits: usize,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// A year of two digits: up to 49 it is in this century (`two digit year cutoff` 2049).
fn full_year(number: i64, digits: usize) -> i64 {
    match (digits, number) {
        (1 | 2, 0..=49) => 2000 + number,
        (1 | 2, _) => 1900 + number,
        _ => number,
    }
}

/// Parses `text`. `style` is that of `CONVERT` and determines the order of day and month.
pub(crate) fn parse(text: &str, style: Option<i32>) -> Result<Parsed, DateError> {
    let text = text.trim();
    let order = match style {
        Some(3 | 4 | 5 | 13 | 103 | 104 | 105 | 113 | 130 | 131) => Order::DayMonthYear,
        Some(2 | 11 | 102 | 111) => Order::YearMonthDay,
        _ => Order::MonthDayYear,
    };
    let (date, time) = match text.find(':') {
        None => (text, ""),
        Some(colon) => {
            let bytes = text.as_bytes();
            let start =
                (0..colon).rev().take_while(|at| bytes[*at].is_ascii_digit()).last().ok_or(DateError::Syntax)?;
            (text[..start].trim_end_matches(['T', 't', ' ']), &text[start..])
        }
    };
    let day = if date.is_empty() { super::BASE_DAY } else { parse_date(date, order)?.to_days() };
    let (time, fraction_digits) = if time.is_empty() { (0, 0) } else { parse_time(time)? };
    Ok(Parsed { day, time, fraction_digits })
}

fn number(digits: &str) -> Result<i64, DateError> {
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DateError::Syntax);
    }
    digits.parse().map_err(|_| DateError::Syntax)
}

fn civil(year: i64, month: i64, day: i64) -> Result<Civil, DateError> {
    Civil::checked(year, month, day).ok_or(DateError::Range)
}

fn parse_date(text: &str, order: Order) -> Result<Civil, DateError> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return match text.len() {
            4 => civil(number(text)?, 1, 1),
            6 => civil(full_year(number(&text[..2])?, 2), number(&text[2..4])?, number(&text[4..])?),
            8 => civil(number(&text[..4])?, number(&text[4..6])?, number(&text[6..])?),
            _ => Err(DateError::Syntax),
        };
    }
    if text.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return parse_named_month(text);
    }
    let separator = text.chars().find(|character| !character.is_ascii_digit()).ok_or(DateError::Syntax)?;
    if !matches!(separator, '-' | '/' | '.') {
        return Err(DateError::Syntax);
    }
    let parts: Vec<&str> = text.split(separator).map(str::trim).collect();
    let [first, second, third] = parts[..] else {
        return Err(DateError::Syntax);
    };
    let (a, b, c) = (number(first)?, number(second)?, number(third)?);
    if first.len() == 4 {
        return civil(a, b, c);
    }
    match order {
        Order::MonthDayYear => civil(full_year(c, third.len()), a, b),
        Order::DayMonthYear => civil(full_year(c, third.len()), b, a),
        Order::YearMonthDay => civil(full_year(a, first.len()), b, c),
    }
}

/// `Nov 21, 2026`, `21 Nov 2026`, `21-nov-26`, `Nov 2026`.
fn parse_named_month(text: &str) -> Result<Civil, DateError> {
    let mut month = None;
    let mut numbers: Vec<(i64, usize)> = Vec::new();
    for word in text.split([' ', ',', '-', '/', '.']).filter(|word| !word.is_empty()) {
        if word.as_bytes()[0].is_ascii_digit() {
            numbers.push((number(word)?, word.len()));
        } else {
            let word = word.to_ascii_lowercase();
            let known = MONTHS.iter().position(|name| *name == word || (word.len() == 3 && name.starts_with(&word)));
            if month.replace(known.ok_or(DateError::Syntax)?).is_some() {
                return Err(DateError::Syntax);
            }
        }
    }
    let month = month.and_then(|index| i64::try_from(index).ok()).ok_or(DateError::Syntax)? + 1;
    match numbers[..] {
        [(year, 4)] => civil(year, month, 1),
        [(year, 4), (day, _)] => civil(year, month, day),
        [(day, _), (year, digits)] => civil(full_year(year, digits), month, day),
        _ => Err(DateError::Syntax),
    }
}

/// `13:05`, `13:05:07`, `13:05:07.123`, `1:05:07 PM`. Returns 100 ns and the number of digits of the fraction.
fn parse_time(text: &str) -> Result<(i64, usize), DateError> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(text.len());
    let (clock, suffix) = text.split_at(end);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = clock.split(':');
    let mut next = || parts.next().map(number).transpose();
    let hour = next()?.ok_or(DateError::Syntax)?;
    let minute = next()?.ok_or(DateError::Syntax)?;
    let second = next()?.unwrap_or(0);
    // `hh:mm:ss:mmm`, the old notation of milliseconds.
    let milliseconds = next()?.unwrap_or(0);
    if parts.next().is_some() || fraction.len() > 7 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DateError::Syntax);
    }
    let mut ticks = milliseconds * 10_000;
    if !fraction.is_empty() {
        ticks = number(fraction)? * 10_i64.pow(7 - u32::try_from(fraction.len()).unwrap_or(7));
    }
    let hour = match suffix.trim().to_ascii_uppercase().as_str() {
        "" | "Z" => hour,
        "AM" | "PM" if !(1..=12).contains(&hour) => return Err(DateError::Range),
        "AM" => hour % 12,
        "PM" => hour % 12 + 12,
        offset if is_offset(offset) => hour,
        _ => return Err(DateError::Syntax),
    };
    if hour > 23 || minute > 59 || second > 59 || milliseconds > 999 {
        return Err(DateError::Range);
    }
    let time = ((hour * 60 + minute) * 60 + second) * TICKS_PER_SECOND + ticks;
    debug_assert!(time < TICKS_PER_DAY, "the parts are in range");
    Ok((time, fraction.len()))
}

/// The offset in minutes east of UTC at the end of a text that [`parse`] accepts; 0 if there is none.
pub(super) fn zone_offset(text: &str) -> i32 {
    let minutes = || {
        let at = text.trim_end().rfind(['+', '-']).filter(|at| is_offset(text[*at..].trim_end()))?;
        let (hours, minutes) = text[at + 1..].trim_end().split_once(':')?;
        let total = 60 * hours.parse::<i32>().ok()? + minutes.parse::<i32>().ok()?;
        Some(if text[at..].starts_with('-') { -total } else { total })
    };
    minutes().unwrap_or(0)
}

/// `+01:00`
fn is_offset(text: &str) -> bool {
    text.strip_prefix(['+', '-'])
        .and_then(|rest| rest.split_once(':'))
        .is_some_and(|(hours, minutes)| matches!((number(hours), number(minutes)), (Ok(0..=14), Ok(0..=59))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ymd(text: &str, style: Option<i32>) -> (i64, i64, i64) {
        let date = Civil::from_days(parse(text, style).unwrap().day);
        (date.year, date.month, date.day)
    }

    #[test]
    fn the_usual_forms_are_read() {
        let forms = [
            "2026-11-21",
            "20261121",
            "11/21/2026",
            "11-21-26",
            "Nov 21 2026",
            "21 november 2026",
            "November 21, 2026",
            "2026-11-21T10:00:00",
            "2026/11/21 23:59",
            "21-Nov-26",
        ];
        for text in forms {
            assert_eq!(ymd(text, None), (2026, 11, 21), "{text}");
        }
        assert_eq!(ymd("03/04/2026", Some(103)), (2026, 4, 3));
        assert_eq!(ymd("03/04/2026", Some(101)), (2026, 3, 4));
        assert_eq!(ymd("12:30", None), (1900, 1, 1));
    }

    #[test]
    fn times_are_read_to_seven_digits() {
        let time = |text| parse(text, None).map(|parsed| parsed.time);
        assert_eq!(time("2026-11-21 01:02:03.1234567"), Ok(37_231_234_567));
        assert_eq!(time("1:05 PM"), Ok((13 * 60 + 5) * 60 * TICKS_PER_SECOND));
        assert_eq!(time("12:00AM"), Ok(0));
        assert_eq!(time("10:00:00:007"), Ok(36_000 * TICKS_PER_SECOND + 70_000));
        assert_eq!(time("10:00:00Z"), Ok(36_000 * TICKS_PER_SECOND));
    }

    #[test]
    fn nonsense_is_told_from_numbers_out_of_range() {
        for text in ["abc", "1-2", "2026-11-21x", "12:", ":", "ü:1", "Foo 1 2026", "99999999999999999999"] {
            assert_eq!(parse(text, None), Err(DateError::Syntax), "{text}");
        }
        for text in ["2026-13-01", "20260230", "25:00", "13:00 PM"] {
            assert_eq!(parse(text, None), Err(DateError::Range), "{text}");
        }
    }
}
