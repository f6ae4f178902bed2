//! Rows as CSV (RFC 4180) and as JSON, on a stream that has the rows of many statements.

use std::io::{self, Write};

use arrow::record_batch::RecordBatch;
use hobt_files::write::{CsvOptions, Format, JsonShape, RowText};
use hobt_types::SqlType;

use super::output::{RowWriter, each_row};
use crate::export::{columns_of, name_of};
use hobt::ResultColumn;

/// Writes rows as crate `files` does: CSV, with a blank line between two result sets, or one object a line.
pub(super) struct TextWriter {
    format: Format,
    /// What stands before all result sets but the first.
    between: &'static str,
    is_later: bool,
    text: Option<RowText>,
}

impl TextWriter {
    /// CSV with a header.
    pub(super) fn csv() -> TextWriter {
        TextWriter { format: Format::Csv(CsvOptions::default()), between: "\n", is_later: false, text: None }
    }

    /// JSON, one object a line.
    pub(super) fn json_lines() -> TextWriter {
        TextWriter { format: Format::Json(JsonShape::Lines), between: "", is_later: false, text: None }
    }
}

impl RowWriter for TextWriter {
    fn begin(&mut self, columns: &[ResultColumn], out: &mut dyn Write) -> io::Result<()> {
        if std::mem::replace(&mut self.is_later, true) {
            out.write_all(self.between.as_bytes())?;
        }
        let text = RowText::new(columns_of(columns, true), &self.format).map_err(io::Error::other)?;
        out.write_all(self.text.insert(text).begin())
    }

    fn rows(&mut self, _: &[ResultColumn], batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        match &mut self.text {
            Some(text) => out.write_all(text.rows(batch).map_err(io::Error::other)?),
            None => Ok(()),
        }
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match &mut self.text {
            Some(text) => out.write_all(text.end()),
            None => Ok(()),
        }
    }
}

/// Writes one array of objects for each result set. Numbers are JSON's numbers with all their digits.
#[derive(Default)]
pub(super) struct JsonWriter {
    rows: u64,
}

impl JsonWriter {
    /// Writes a row; `None` is NULL.
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
}

impl RowWriter for JsonWriter {
    fn begin(&mut self, _: &[ResultColumn], out: &mut dyn Write) -> io::Result<()> {
        self.rows = 0;
        write!(out, "[")
    }

    fn rows(&mut self, columns: &[ResultColumn], batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        each_row(columns, batch, |values| self.row(columns, values, out))
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
    fn json_keeps_all_digits_and_types() {
        let decimal = SqlType::Decimal { precision: 38, scale: 2 };
        assert_eq!(json_value(decimal, Some("-.50")), "-0.50");
        assert_eq!(json_value(decimal, Some("12345678901234567890.12")), "12345678901234567890.12");
        assert_eq!(json_value(SqlType::Bit, Some("1")), "true");
        assert_eq!(json_value(SqlType::Date, Some("2020-01-01")), "\"2020-01-01\"");
        assert_eq!(json_value(SqlType::Int, None), "null");
    }
}
