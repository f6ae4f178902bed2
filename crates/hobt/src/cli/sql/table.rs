//! Rows in columns of fixed width, as sqlcmd prints them.
//!
//! A column is as wide as its type's longest value or its name, whichever is longer; numbers stand at the right. With
//! `-W` values keep their own width.

use std::io::{self, Write};

use hobt_types::{MaxLength, SqlType};

use super::output::RowWriter;
use crate::ResultColumn;

/// The widest that a column of text becomes; longer values are cut.
const MAX_WIDTH: usize = 256;

/// Writes tables.
pub(super) struct TableWriter {
    separator: String,
    /// Rows between headers; 0 is one header, negative none.
    headers: i64,
    trim: bool,
    widths: Vec<usize>,
    rows: i64,
}

impl TableWriter {
    pub(super) fn new(separator: String, headers: i64, trim: bool) -> TableWriter {
        TableWriter { separator, headers, trim, widths: Vec::new(), rows: 0 }
    }

    fn header(&self, columns: &[ResultColumn], out: &mut dyn Write) -> io::Result<()> {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let dashes: Vec<String> = match self.trim {
            true => names.iter().map(|name| "-".repeat(name.chars().count().max(1))).collect(),
            false => self.widths.iter().map(|width| "-".repeat(*width)).collect(),
        };
        let cells = names.iter().zip(&self.widths).map(|(name, width)| self.cell(name, *width, false));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join(&self.separator))?;
        writeln!(out, "{}", dashes.join(&self.separator))
    }

    fn cell(&self, text: &str, width: usize, right: bool) -> String {
        // A line's end inside a value would break the table.
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(width.max(1)).collect();
        match (self.trim, right) {
            (true, _) => text.trim_end().to_owned(),
            (false, true) => format!("{text:>width$}"),
            (false, false) => format!("{text:<width$}"),
        }
    }
}

impl RowWriter for TableWriter {
    fn begin(&mut self, columns: &[ResultColumn], out: &mut dyn Write) -> io::Result<()> {
        let width = |column: &ResultColumn| width_of(column.sql_type).max(column.name.chars().count()).max(1);
        self.widths = columns.iter().map(width).collect();
        self.rows = 0;
        if self.headers >= 0 { self.header(columns, out) } else { Ok(()) }
    }

    fn row(&mut self, columns: &[ResultColumn], values: &[Option<String>], out: &mut dyn Write) -> io::Result<()> {
        if self.headers > 0 && self.rows > 0 && self.rows % self.headers == 0 {
            writeln!(out)?;
            self.header(columns, out)?;
        }
        self.rows += 1;
        for (index, ((value, column), width)) in values.iter().zip(columns).zip(&self.widths).enumerate() {
            if index > 0 {
                write!(out, "{}", self.separator)?;
            }
            let right = column.sql_type.is_numeric();
            write!(out, "{}", self.cell(value.as_deref().unwrap_or("NULL"), *width, right))?;
        }
        writeln!(out)
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// The characters of a type's longest value.
fn width_of(sql_type: SqlType) -> usize {
    let limited = |length: MaxLength, factor: usize| match length {
        MaxLength::Limited(length) => usize::from(length) * factor,
        MaxLength::Max => MAX_WIDTH,
    };
    let width = match sql_type {
        SqlType::Bit => 3,
        SqlType::TinyInt => 4,
        SqlType::SmallInt => 6,
        SqlType::Int => 11,
        SqlType::BigInt => 20,
        SqlType::Decimal { precision, .. } => usize::from(precision) + 2,
        SqlType::SmallMoney => 12,
        SqlType::Money => 21,
        SqlType::Real => 14,
        SqlType::Float => 24,
        SqlType::Date => 10,
        SqlType::Time { .. } => 16,
        SqlType::SmallDateTime => 19,
        SqlType::DateTime => 23,
        SqlType::DateTime2 { .. } => 27,
        SqlType::UniqueIdentifier => 36,
        SqlType::Char(length) | SqlType::NChar(length) => usize::from(length),
        SqlType::VarChar(length) | SqlType::NVarChar(length) => limited(length, 1),
        SqlType::Binary(length) => usize::from(length) * 2 + 2,
        SqlType::VarBinary(length) => limited(length, 2) + 2,
    };
    width.min(MAX_WIDTH).max("NULL".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(trim: bool) -> String {
        let columns = [
            ResultColumn { name: "id".to_owned(), sql_type: SqlType::Int, nullable: false },
            ResultColumn { name: "name".to_owned(), sql_type: SqlType::VarChar(MaxLength::Limited(6)), nullable: true },
        ];
        let mut out = Vec::new();
        let mut writer = TableWriter::new(" ".to_owned(), 0, trim);
        writer.begin(&columns, &mut out).unwrap();
        writer.row(&columns, &[Some("1".to_owned()), Some("one".to_owned())], &mut out).unwrap();
        writer.row(&columns, &[Some("-2".to_owned()), None], &mut out).unwrap();
        writer.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_stand_at_the_right_and_text_at_the_left() {
        let expected = "id          name  \n----------- ------\n          1 one   \n         -2 NULL  \n";
        assert_eq!(print(false), expected);
    }

    #[test]
    fn trimmed_values_keep_their_own_width() {
        assert_eq!(print(true), "id name\n-- ----\n1 one\n-2 NULL\n");
    }
}
