//! The date parts of `DATEADD`, `DATEPART` and their like.

/// A date part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DatePart {
    /// `year`, `yy`, `yyyy`
    Year,
    /// `quarter`, `qq`, `q`
    Quarter,
    /// `month`, `mm`, `m`
    Month,
    /// `dayofyear`, `dy`, `y`
    DayOfYear,
    /// `day`, `dd`, `d`
    Day,
    /// `week`, `wk`, `ww`: weeks that start on Sunday
    Week,
    /// `weekday`, `dw`, `w`: 1 is Sunday
    Weekday,
    /// `iso_week`, `isowk`, `isoww`
    IsoWeek,
    /// `hour`, `hh`
    Hour,
    /// `minute`, `mi`, `n`
    Minute,
    /// `second`, `ss`, `s`
    Second,
    /// `millisecond`, `ms`
    Millisecond,
    /// `microsecond`, `mcs`
    Microsecond,
    /// `nanosecond`, `ns`
    Nanosecond,
    /// `tzoffset`, `tz`: minutes east of UTC
    TimeZoneOffset,
}

const NAMES: [(DatePart, &[&str]); 15] = [
    (DatePart::Year, &["year", "yy", "yyyy"]),
    (DatePart::Quarter, &["quarter", "qq", "q"]),
    (DatePart::Month, &["month", "mm", "m"]),
    (DatePart::DayOfYear, &["dayofyear", "dy", "y"]),
    (DatePart::Day, &["day", "dd", "d"]),
    (DatePart::Week, &["week", "wk", "ww"]),
    (DatePart::Weekday, &["weekday", "dw", "w"]),
    (DatePart::IsoWeek, &["iso_week", "isowk", "isoww"]),
    (DatePart::Hour, &["hour", "hh"]),
    (DatePart::Minute, &["minute", "mi", "n"]),
    (DatePart::Second, &["second", "ss", "s"]),
    (DatePart::Millisecond, &["millisecond", "ms"]),
    (DatePart::Microsecond, &["microsecond", "mcs"]),
    (DatePart::Nanosecond, &["nanosecond", "ns"]),
    (DatePart::TimeZoneOffset, &["tzoffset", "tz"]),
];

impl DatePart {
    /// The part with the name or abbreviation `name`, ignoring case.
    pub fn parse(name: &str) -> Option<DatePart> {
        let is = |names: &&[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        NAMES.iter().find(|(_, names)| is(names)).map(|(part, _)| *part)
    }

    /// The full name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(part, _)| *part == self).map_or("day", |(_, names)| names[0])
    }

    /// Whether the part is shorter than a day.
    pub const fn is_of_time(self) -> bool {
        matches!(
            self,
            DatePart::Hour
                | DatePart::Minute
                | DatePart::Second
                | DatePart::Millisecond
                | DatePart::Microsecond
                | DatePart::Nanosecond
        )
    }
}

#[cfg(test)]
mod tests {
    use super::DatePart;

    #[test]
    fn abbreviations_mean_their_part() {
        assert_eq!(DatePart::parse("MI"), Some(DatePart::Minute));
        assert_eq!(DatePart::parse("m"), Some(DatePart::Month));
        assert_eq!(DatePart::parse("isowk"), Some(DatePart::IsoWeek));
        assert_eq!(DatePart::parse("fortnight"), None);
        assert_eq!(DatePart::Weekday.name(), "weekday");
    }
}
