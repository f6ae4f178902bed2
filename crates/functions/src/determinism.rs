//! Which conversions and calls return the same for the same values in every session.
//!
//! By Microsoft's pages "Deterministic and nondeterministic functions", "CAST and CONVERT" and those of the date
//! functions: conversions between text and dates depend on a session's settings, unless a style is given. A function
//! converts arguments that are not of the type it takes, so `LEFT(d, 11)` of a `datetime` depends on settings as
//! `CAST(d AS varchar(30))` does.
//!
//! Not here: functions that return another value each time ([`Volatility`](crate::Volatility)).

use hobt_types::{MaxLength, SqlType};

use crate::date::DatePart;
use crate::function::FunctionDef;
use crate::type_rules::common_type;
use crate::{conditional, date, text};

/// Whether a conversion depends only on its value and its style.
pub fn is_conversion_deterministic(from: SqlType, to: SqlType, style: Option<i32>) -> bool {
    let is_datetime = |sql_type| matches!(sql_type, SqlType::DateTime | SqlType::SmallDateTime);
    let depends = from.is_text() && to.is_temporal() || is_datetime(from) && to.is_text();
    !depends
        || matches!(style, Some(20 | 21))
        || style.is_some_and(|style| style > 100 && ![106, 107, 109, 113, 130].contains(&style))
}

/// Whether a call depends only on its arguments, which have these types. `false` for `ISDATE`: only the caller knows
/// how its argument was converted.
pub fn is_call_deterministic(
    def: &FunctionDef,
    arguments: &[SqlType],
    result: SqlType,
    date_part: Option<DatePart>,
) -> bool {
    // Names of days and months depend on the language; the first day of a week is that of DATEFIRST.
    let depends = match def.name {
        "DATENAME" | "ISDATE" => true,
        "DATEPART" => matches!(date_part, Some(DatePart::Week | DatePart::Weekday)),
        "DATETRUNC" => date_part == Some(DatePart::Week),
        _ => false,
    };
    let read = |(place, from): (usize, &SqlType)| {
        read_as(def, arguments, result, place).is_none_or(|to| is_conversion_deterministic(*from, to, None))
    };
    !depends && arguments.iter().enumerate().all(read)
}

/// The type that a function converts an argument to; `None` if it takes the value, or a number, as it is.
fn read_as(def: &FunctionDef, arguments: &[SqlType], result: SqlType, place: usize) -> Option<SqlType> {
    let is_of = |table: &[FunctionDef]| table.iter().any(|known| known.name == def.name);
    if is_of(text::FUNCTIONS) {
        // It counts the bytes of any value.
        return (def.name != "DATALENGTH").then_some(SqlType::VarChar(MaxLength::Max));
    }
    if is_of(date::FUNCTIONS) {
        let is_date = match def.name {
            "DATEADD" | "DATE_BUCKET" => place > 0,
            "EOMONTH" => place == 0,
            name => !name.ends_with("FROMPARTS"),
        };
        return is_date.then_some(SqlType::DateTime2 { scale: 7 });
    }
    if !is_of(conditional::FUNCTIONS) {
        return None;
    }
    match def.name {
        "CHOOSE" => (place > 0).then_some(result),
        // It compares its arguments and returns the first one as it is.
        "NULLIF" => common_type(*arguments.first()?, *arguments.get(1)?).ok(),
        _ => Some(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::lookup;

    const TEXT: SqlType = SqlType::VarChar(MaxLength::Limited(30));

    fn call(name: &str, arguments: &[SqlType], result: SqlType, date_part: Option<DatePart>) -> bool {
        is_call_deterministic(lookup(name).expect("a function"), arguments, result, date_part)
    }

    #[test]
    fn text_of_a_datetime_depends_on_settings_whoever_makes_it() {
        assert!(!call("LEFT", &[SqlType::DateTime, SqlType::Int], TEXT, None));
        assert!(!call("CONCAT", &[TEXT, SqlType::SmallDateTime], TEXT, None));
        assert!(!call("ISNULL", &[TEXT, SqlType::DateTime], TEXT, None));
        // The page names only datetime and smalldatetime.
        assert!(call("LEFT", &[SqlType::Date, SqlType::Int], TEXT, None));
        assert!(call("DATALENGTH", &[SqlType::DateTime], SqlType::Int, None));
        assert!(call("CONCAT", &[TEXT, SqlType::Int], TEXT, None));
    }

    #[test]
    fn a_date_of_a_text_depends_on_settings_and_a_number_of_one_does_not() {
        assert!(!call("YEAR", &[TEXT], SqlType::Int, None));
        assert!(!call("DATEDIFF", &[TEXT, SqlType::Date], SqlType::Int, Some(DatePart::Day)));
        assert!(!call("NULLIF", &[TEXT, SqlType::Date], TEXT, None));
        assert!(call("DATEADD", &[TEXT, SqlType::Date], SqlType::Date, Some(DatePart::Day)));
        assert!(call("YEAR", &[SqlType::DateTime], SqlType::Int, None));
    }

    #[test]
    fn names_and_weeks_depend_on_settings() {
        assert!(!call("DATENAME", &[SqlType::Date], TEXT, Some(DatePart::Year)));
        assert!(!call("DATEPART", &[SqlType::Date], SqlType::Int, Some(DatePart::Week)));
        assert!(!call("DATEPART", &[SqlType::Date], SqlType::Int, Some(DatePart::Weekday)));
        assert!(call("DATEPART", &[SqlType::Date], SqlType::Int, Some(DatePart::IsoWeek)));
        // Its weeks begin on Sunday, whatever DATEFIRST is.
        assert!(call("DATEDIFF", &[SqlType::Date, SqlType::Date], SqlType::Int, Some(DatePart::Week)));
        assert!(!call("ISDATE", &[TEXT], SqlType::Int, None));
    }
}
