//! Conversion of dates and times to text, by the style numbers of `CONVERT`.
//!
//! Source: Microsoft's "CAST and CONVERT", date and time styles. Styles of the Hijri calendar (130, 131) are not
//! supported.

use std::fmt::Write;

use hobt_types::SqlType;

use super::calendar::{Civil, TICKS_PER_SECOND, split, tick_unit};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A moment split into its parts.
struct Moment {
    date: Civil,
    hour: i64,
    minute: i64,
    second: i64,
    /// 100 ns in the second.
    ticks: i64,
}

impl Moment {
    fn month_name(&self) -> &'static str {
        usize::try_from(self.date.month - 1).ok().and_then(|index| MONTHS.get(index)).unwrap_or(&"")
    }

    fn twelve_hours(&self) -> (i64, &'static str) {
        ((self.hour + 11) % 12 + 1, if self.hour < 12 { "AM" } else { "PM" })
    }
}

/// The text of a temporal value, given in its carrier's unit; `None` if `CONVERT` does not have the style.
pub(crate) fn to_text(value: i64, sql_type: SqlType, style: Option<i32>) -> Option<String> {
    let (day, time) = match sql_type {
        SqlType::Date => (value, 0),
        SqlType::Time { .. } => (super::BASE_DAY, value),
        _ => split(value),
    };
    let seconds = time / TICKS_PER_SECOND;
    let moment = Moment {
        date: Civil::from_days(day),
        hour: seconds / 3600,
        minute: seconds / 60 % 60,
        second: seconds % 60,
        ticks: time % TICKS_PER_SECOND,
    };
    let default = if matches!(sql_type, SqlType::DateTime | SqlType::SmallDateTime) { 0 } else { 121 };
    let style = style.unwrap_or(default);
    let date = date_text(&moment, style)?;
    let clock = time_text(&moment, style, sql_type);
    Some(match sql_type {
        SqlType::Date => date.unwrap_or_else(|| iso_date(&moment)),
        SqlType::Time { .. } => clock.unwrap_or_else(|| time_text(&moment, 121, sql_type).unwrap_or_default()),
        _ => match (date, clock) {
            (Some(date), Some(clock)) => {
                let between = if matches!(style, 126 | 127) { "T" } else { " " };
                format!("{date}{between}{clock}")
            }
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => String::new(),
        },
    })
}

fn iso_date(moment: &Moment) -> String {
    let Civil { year, month, day } = moment.date;
    format!("{year:04}-{month:02}-{day:02}")
}

/// The date in a style. The outer `None` means an unknown style, the inner one a style without a date.
fn date_text(moment: &Moment, style: i32) -> Option<Option<String>> {
    let Civil { year, month, day } = moment.date;
    let name = moment.month_name();
    let short = year % 100;
    Some(Some(match style {
        0 | 100 | 9 | 109 => format!("{name} {day:>2} {year:04}"),
        1 => format!("{month:02}/{day:02}/{short:02}"),
        2 => format!("{short:02}.{month:02}.{day:02}"),
        3 => format!("{day:02}/{month:02}/{short:02}"),
        4 => format!("{day:02}.{month:02}.{short:02}"),
        5 => format!("{day:02}-{month:02}-{short:02}"),
        6 => format!("{day:02} {name} {short:02}"),
        7 => format!("{name} {day:02}, {short:02}"),
        10 => format!("{month:02}-{day:02}-{short:02}"),
        11 => format!("{short:02}/{month:02}/{day:02}"),
        12 => format!("{short:02}{month:02}{day:02}"),
        101 => format!("{month:02}/{day:02}/{year:04}"),
        102 => format!("{year:04}.{month:02}.{day:02}"),
        103 => format!("{day:02}/{month:02}/{year:04}"),
        104 => format!("{day:02}.{month:02}.{year:04}"),
        105 => format!("{day:02}-{month:02}-{year:04}"),
        106 | 13 | 113 => format!("{day:02} {name} {year:04}"),
        107 => format!("{name} {day:02}, {year:04}"),
        110 => format!("{month:02}-{day:02}-{year:04}"),
        111 => format!("{year:04}/{month:02}/{day:02}"),
        112 => format!("{year:04}{month:02}{day:02}"),
        20 | 21 | 25 | 23 | 120 | 121 | 126 | 127 => iso_date(moment),
        22 => format!("{month:02}/{day:02}/{short:02}"),
        8 | 24 | 108 | 14 | 114 => return Some(None),
        _ => return None,
    }))
}

/// The time in a style; `None` if the style has no time.
fn time_text(moment: &Moment, style: i32, sql_type: SqlType) -> Option<String> {
    let Moment { hour, minute, second, .. } = *moment;
    Some(match style {
        0 | 100 => {
            let (hour, half) = moment.twelve_hours();
            format!("{hour:>2}:{minute:02}{half}")
        }
        9 | 109 => {
            let (hour, half) = moment.twelve_hours();
            format!("{hour:>2}:{minute:02}:{second:02}{}{half}", fraction(moment, sql_type, ':'))
        }
        22 => {
            let (hour, half) = moment.twelve_hours();
            format!("{hour:>2}:{minute:02}:{second:02} {half}")
        }
        8 | 24 | 108 | 20 | 120 => format!("{hour:02}:{minute:02}:{second:02}"),
        13 | 14 | 113 | 114 => format!("{hour:02}:{minute:02}:{second:02}{}", fraction(moment, sql_type, ':')),
        126 | 127 if matches!(sql_type, SqlType::DateTime | SqlType::SmallDateTime) && moment.ticks == 0 => {
            format!("{hour:02}:{minute:02}:{second:02}")
        }
        21 | 25 | 121 | 126 | 127 => {
            format!("{hour:02}:{minute:02}:{second:02}{}", fraction(moment, sql_type, '.'))
        }
        _ => return None,
    })
}

/// The fraction of a second with the type's number of digits: three for `datetime`, the scale for `datetime2` and
/// `time`.
fn fraction(moment: &Moment, sql_type: SqlType, old_separator: char) -> String {
    let (separator, scale) = match sql_type {
        SqlType::DateTime2 { scale } | SqlType::Time { scale } => ('.', scale),
        _ => (old_separator, 3),
    };
    let mut text = String::new();
    if scale > 0 {
        let digits = moment.ticks / tick_unit(scale);
        let _ = write!(text, "{separator}{digits:0width$}", width = usize::from(scale));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;
    use crate::date::TICKS_PER_DAY;

    fn text(value: &str, sql_type: SqlType, style: Option<i32>) -> String {
        let parsed = parse(value, None).unwrap();
        let value = match sql_type {
            SqlType::Date => parsed.day,
            SqlType::Time { .. } => parsed.time,
            _ => parsed.day * TICKS_PER_DAY + parsed.time,
        };
        to_text(value, sql_type, style).unwrap()
    }

    #[test]
    fn styles_print_as_documented() {
        let moment = "2026-02-03 14:05:06.123";
        for (style, expected) in [
            (0, "Feb  3 2026  2:05PM"),
            (1, "02/03/26"),
            (101, "02/03/2026"),
            (102, "2026.02.03"),
            (103, "03/02/2026"),
            (104, "03.02.2026"),
            (105, "03-02-2026"),
            (106, "03 Feb 2026"),
            (107, "Feb 03, 2026"),
            (108, "14:05:06"),
            (109, "Feb  3 2026  2:05:06:123PM"),
            (110, "02-03-2026"),
            (111, "2026/02/03"),
            (112, "20260203"),
            (113, "03 Feb 2026 14:05:06:123"),
            (114, "14:05:06:123"),
            (120, "2026-02-03 14:05:06"),
            (121, "2026-02-03 14:05:06.123"),
            (126, "2026-02-03T14:05:06.123"),
            (23, "2026-02-03"),
        ] {
            assert_eq!(text(moment, SqlType::DateTime, Some(style)), expected, "style {style}");
        }
        assert_eq!(to_text(0, SqlType::DateTime, Some(999)), None);
    }

    #[test]
    fn the_newer_types_print_iso_with_their_digits() {
        assert_eq!(text("2026-02-03 14:05:06", SqlType::DateTime2 { scale: 2 }, None), "2026-02-03 14:05:06.00");
        assert_eq!(text("14:05:06.5", SqlType::Time { scale: 7 }, None), "14:05:06.5000000");
        assert_eq!(text("2026-02-03", SqlType::Date, None), "2026-02-03");
        assert_eq!(text("2026-02-03", SqlType::DateTime, None), "Feb  3 2026 12:00AM");
    }
}
