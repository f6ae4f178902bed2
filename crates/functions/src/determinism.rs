//! Which conversions and calls give the same for the same values in every session.
//!
//! Microsoft's pages "Deterministic and nondeterministic functions", "CAST and CONVERT" and those of the date
//! functions: text and dates are read and written by a session's settings, unless a style says how. A function converts
//! what is not of the type that it takes, so that `LEFT(d, 11)` of a `datetime` depends on settings as `CAST(d AS
//! varchar(30))` does.
//!
//! Left to others: what gives another value each time by itself ([`Volatility`](crate::Volatility)).

use hobt_types::{MaxLength, SqlType};

use crate::date::DatePart;
use crate::function::FunctionDef;
use crate::type_rules::common_type;
use crate::{conditional, date, text};

/// Whether a conversion depends on nothing but its value and its style.
pub fn is_conversion_deterministic(from: SqlType, to: SqlType, style: Option<i32>) -> bool {
    let is_datetime = |sql_type| matches!(sql_type, SqlType::DateTime | SqlType::SmallDateTime);
    let depends = from.is_text() && to.is_temporal() || is_datetime(from) && to.is_text();
    !depends
        || matches!(style, Some(20 | 21))
        || style.is_some_and(|style| style > 100 && ![106, 107, 109, 113, 130].contains(&style))
}

/// Whether a call depends on nothing but its arguments, which are of these types. Of `ISDATE` it says no: what its
/// argument was converted with is the caller's to know.
pub fn is_call_deterministic(
    def: &FunctionDef,
    arguments: &[SqlType],
    result: SqlType,
    date_part: Option<DatePart>,
) -> bool {
    // Names of days and months are of a language; a week begins with the day that DATEFIRST says.
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

/// The type that a function converts an argument to; `None` where it takes the value as it is, or a number of it.
fn read_as(def: &FunctionDef, arguments: &[SqlType], result: SqlType, place: usize) -> Option<SqlType> {
    let is_of = |table: &[FunctionDef]| table.iter().any(|known| known.name == def.name);
    if is_of(text::FUNCTIONS) {
        // It counts the bytes of whatever there is.
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
        // It compares its arguments and gives the first as it is.
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
        // The page names datetime and smalldatetime alone.
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
        // Its weeks begin on Sunday, whatever DATEFIRST says.
        assert!(call("DATEDIFF", &[SqlType::Date, SqlType::Date], SqlType::Int, Some(DatePart::Week)));
        assert!(!call("ISDATE", &[TEXT], SqlType::Int, None));
    }
}
