//! Rows as CSV (RFC 4180) and as JSON.

use std::io::{self, Write};

use hobt_types::SqlType;

use super::output::RowWriter;
use hobt::ResultColumn;

/// Writes CSV: a header and rows; NULL is empty, an empty text is `""`. A blank line stands between two result sets.
#[derive(Default)]
pub(super) struct CsvWriter {
    is_later: bool,
}

/// What a column is called where it needs a name: `columnN` if it has none.
fn name_of(index: usize, column: &ResultColumn) -> String {
    if column.name.is_empty() { format!("column{}", index + 1) } else { column.name.clone() }
}

fn quoted(text: &str) -> String {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

impl RowWriter for CsvWriter {
    fn begin(&mut self, columns: &[ResultColumn], out: &mut dyn Write) -> io::Result<()> {
        if std::mem::replace(&mut self.is_later, true) {
            writeln!(out)?;
        }
        let name = |(index, column)| quoted(&name_of(index, column));
        let names: Vec<String> = columns.iter().enumerate().map(name).collect();
        writeln!(out, "{}", names.join(","))
    }

    fn row(&mut self, _: &[ResultColumn], values: &[Option<String>], out: &mut dyn Write) -> io::Result<()> {
        let cells: Vec<String> = values.iter().map(|value| value.as_deref().map_or(String::new(), quoted)).collect();
        writeln!(out, "{}", cells.join(","))
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// Writes one array of objects for each result set. Numbers are JSON's numbers with all their digits.
#[derive(Default)]
pub(super) struct JsonWriter {
    rows: u64,
}

impl RowWriter for JsonWriter {
    fn begin(&mut self, _: &[ResultColumn], out: &mut dyn Write) -> io::Result<()> {
        self.rows = 0;
        write!(out, "[")
    }

    fn row(&mut self, columns: &[ResultColumn], values: &[Option<String>], out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{}\n  {{", if self.rows == 0 { "" } else { "," })?;
        self.rows += 1;
        for (index, (column, value)) in columns.iter().zip(values).enumerate() {
            let name = json_text(&name_of(index, column));
            let separator = if index == 0 { "" } else { ", " };
            write!(out, "{separator}{name}: {}", json_value(column.sql_type, value.as_deref()))?;
        }
        write!(out, "}}")
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}]", if self.rows == 0 { "" } else { "\n" })
    }
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn json_value(sql_type: SqlType, value: Option<&str>) -> String {
    let Some(value) = value else { return "null".to_owned() };
    match sql_type {
        SqlType::Bit => (if value == "1" { "true" } else { "false" }).to_owned(),
        _ if sql_type.is_numeric() => match json_number(value) {
            Some(number) => number,
            None => json_text(value),
        },
        _ => json_text(value),
    }
}

/// A number as JSON writes it: `.5` and `-.5` get their zero. `None` for what JSON has no number for.
fn json_number(text: &str) -> Option<String> {
    let text = text.trim();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let number = match digits.starts_with('.') {
        true => format!("{sign}0{digits}"),
        false => format!("{sign}{digits}"),
    };
    number.parse::<f64>().ok().filter(|value| value.is_finite()).map(|_| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_needs_it() {
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted(""), "\"\"");
    }

    #[test]
    fn json_keeps_all_digits_and_types() {
        let decimal = SqlType::Decimal { precision: 38, scale: 2 };
        assert_eq!(json_value(decimal, Some("-.50")), "-0.50");
        assert_eq!(json_value(decimal, Some("12345678901234567890.12")), "12345678901234567890.12");
        assert_eq!(json_value(SqlType::Bit, Some("1")), "true");
        assert_eq!(json_value(SqlType::Date, Some("2020-01-01")), "\"2020-01-01\"");
        assert_eq!(json_value(SqlType::Int, None), "null");
    }
}
