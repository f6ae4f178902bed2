//! Values from the text of a field: the forms that files are full of, without an allocation. Any other form is left to
//! the conversions of crate `functions`, which know all of them and their errors.

use hobt_types::SqlType;

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;
const TICKS_PER_SECOND: i64 = 10_000_000;
const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;

/// An integer of at most 18 digits, with or without a sign.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0_i64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

/// A decimal of at most 18 digits, in units of its last place: `scale` digits behind the point, and no more than that.
pub(crate) fn decimal(text: &[u8], scale: u8) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (mut value, mut count, mut behind) = (0_i64, 0, None);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            // A nineteenth digit may not fit.
            if count == 18 {
                return None;
            }
            value = value * 10 + i64::from(digit);
            count += 1;
            if let Some(places) = &mut behind {
                *places += 1;
            }
        } else if *byte == b'.' && behind.is_none() {
            behind = Some(0_u8);
        } else {
            return None;
        }
    }
    let missing = scale.checked_sub(behind.unwrap_or(0))?;
    if count == 0 || count + u32::from(missing) > 18 {
        return None;
    }
    let value = value * 10_i64.pow(u32::from(missing));
    Some(if negative { -value } else { value })
}

/// A number with a point or an exponent.
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    let is_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E');
    let text = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| is_number(&byte)))?;
    let value: f64 = text.parse().ok()?;
    // An out-of-range number is an error that the general conversion names. There is one zero.
    value.is_finite().then_some(value + 0.0)
}

/// The days since 1970-01-01 of a date `2020-01-31`.
pub(crate) fn date(text: &[u8]) -> Option<i32> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *<&[u8; 10]>::try_from(text).ok()? else { return None };
    let (year, month, day) = (number(&[y1, y2, y3, y4])?, number(&[m1, m2])?, number(&[d1, d2])?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(is_leap),
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || day == 0 || day > last {
        return None;
    }
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": years begin in March.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    i32::try_from(days - EPOCH_DAYS).ok()
}

/// The ticks of 100 ns since midnight of a time `13:45:00.1234567`, and how many digits its fraction has.
fn time(text: &[u8]) -> Option<(i64, usize)> {
    let (clock, rest) = text.split_at_checked(8)?;
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *<&[u8; 8]>::try_from(clock).ok()? else { return None };
    let (hour, minute, second) = (number(&[h1, h2])?, number(&[m1, m2])?, number(&[s1, s2])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, digits) = match rest {
        [] => (0, 0),
        [b'.', digits @ ..] if (1..=7).contains(&digits.len()) => {
            (number(digits)? * 10_i64.pow(7 - digits.len() as u32), digits.len())
        }
        _ => return None,
    };
    Some((((hour * 60 + minute) * 60 + second) * TICKS_PER_SECOND + fraction, digits))
}

/// The ticks of a time, or of a date and a time, for a type that keeps all of its digits.
pub(crate) fn moment(text: &[u8], sql_type: SqlType) -> Option<i64> {
    match sql_type {
        SqlType::Time { scale } => {
            time(text).filter(|(_, digits)| *digits <= usize::from(scale)).map(|(ticks, _)| ticks)
        }
        SqlType::DateTime2 { scale } => {
            let (day, rest) = text.split_at_checked(10)?;
            let day = i64::from(date(day)?) * TICKS_PER_DAY;
            match rest {
                [] => Some(day),
                [b' ' | b'T', clock @ ..] => {
                    let (ticks, digits) = time(clock)?;
                    (digits <= usize::from(scale)).then_some(day + ticks)
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Digits alone, at most 18.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0_i64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| value * 10 + i64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use hobt_functions::convert_value;
    use hobt_types::{MaxLength, Value};

    use super::*;

    fn converted(text: &str, to: SqlType) -> Option<Value> {
        convert_value(&Value::Text(text.to_owned()), SqlType::VarChar(MaxLength::Max), to).ok()
    }

    #[test]
    fn what_is_read_here_is_what_the_general_conversion_reads() {
        let texts = [
            "0",
            "-1",
            "+7",
            "12345678901234567",
            "999999999999999999",
            "1.5",
            "-0.07",
            ".5",
            "5.",
            "1e3",
            "-2.5E-3",
            "abc",
            "",
            "-",
            "1-2",
            "2020-02-29",
            "2021-02-29",
            "1900-02-29",
            "0001-01-01",
            "9999-12-31",
            "0000-01-01",
            "2020-13-01",
            "2020-00-10",
            "13:45:00",
            "23:59:59.9999999",
            "24:00:00",
            "2020-01-31 13:45:00",
            "2020-01-31T13:45:00.1234567",
            "2020-01-31 13:45:00.12345678",
            "9999999999999999999",
            "99999999999999999999.99",
            "1969-12-31 23:59:59.5",
        ];
        for text in texts {
            let bytes = text.as_bytes();
            let read = [
                (SqlType::BigInt, integer(bytes).map(Value::Int)),
                (
                    SqlType::Decimal { precision: 18, scale: 2 },
                    decimal(bytes, 2).map(|value| Value::Decimal(value.into())),
                ),
                (SqlType::Float, float(bytes).map(Value::Float)),
                (SqlType::Date, date(bytes).map(|days| Value::Int(days.into()))),
                (SqlType::Time { scale: 7 }, moment(bytes, SqlType::Time { scale: 7 }).map(Value::Int)),
                (SqlType::DateTime2 { scale: 7 }, moment(bytes, SqlType::DateTime2 { scale: 7 }).map(Value::Int)),
            ];
            for (sql_type, value) in read {
                if let Some(value) = value {
                    assert_eq!(Some(value), converted(text, sql_type), "{text} as {sql_type}");
                }
            }
        }
        assert_eq!(integer(b"-42"), Some(-42));
        assert_eq!(decimal(b"-12.5", 2), Some(-1250));
        assert_eq!(date(b"1970-01-02"), Some(1));
        assert_eq!(moment(b"1970-01-01T00:00:01", SqlType::DateTime2 { scale: 0 }), Some(TICKS_PER_SECOND));
    }
}
