//! Rows in columns of fixed width, as sqlcmd prints them.
//!
//! A column is as wide as its type's longest value or its name, whichever is longer; numbers stand at the right. With
//! `-W` values keep their own width. What is longer than `-y` and `-Y` let it be is cut, and ends in `…`.

use std::io::{self, Write};

use arrow::record_batch::RecordBatch;
use hobt_types::{MaxLength, SqlType};

use super::output::{RowWriter, each_row};
use hobt::ResultColumn;

/// What stands in the place of the last character of a value that was cut.
const CUT: char = '…';

/// The widest that columns of text and binary become, in characters; 0 is no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    /// `-y`: of the `max` types.
    pub(super) large: usize,
    /// `-Y`: of the others.
    pub(super) others: usize,
}

/// How a column is shown.
#[derive(Clone, Copy)]
struct Shape {
    width: usize,
    /// Whether longer values are cut.
    is_cut: bool,
}

/// Writes tables.
pub(super) struct TableWriter {
    separator: String,
    /// Rows between headers; 0 is one header, negative none.
    headers: i64,
    trim: bool,
    limits: Limits,
    shapes: Vec<Shape>,
    rows: i64,
    /// Whether a value of these rows was cut, and whether that was said of earlier ones.
    has_cut: bool,
    has_said: bool,
}

impl TableWriter {
    pub(super) fn new(separator: String, headers: i64, trim: bool, limits: Limits) -> TableWriter {
        let shapes = Vec::new();
        TableWriter { separator, headers, trim, limits, shapes, rows: 0, has_cut: false, has_said: false }
    }

    fn header(&self, columns: &[ResultColumn], out: &mut dyn Write) -> io::Result<()> {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let dashes: Vec<String> = match self.trim {
            true => names.iter().map(|name| "-".repeat(name.chars().count().max(1))).collect(),
            false => self.shapes.iter().map(|shape| "-".repeat(shape.width)).collect(),
        };
        let cells = names.iter().zip(&self.shapes).map(|(name, shape)| self.cell(shown(name, *shape).0, *shape, false));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join(&self.separator))?;
        writeln!(out, "{}", dashes.join(&self.separator))
    }

    fn cell(&self, text: String, Shape { width, .. }: Shape, right: bool) -> String {
        match (self.trim, right) {
            (true, _) => text.trim_end().to_owned(),
            (false, true) => format!("{text:>width$}"),
            (false, false) => format!("{text:<width$}"),
        }
    }
}

/// A value on one line, as far as its column has room, and whether that is not all of it.
fn shown(text: &str, shape: Shape) -> (String, bool) {
    let is_cut = shape.is_cut && text.chars().nth(shape.width).is_some();
    // A line's end inside a value would break the table.
    let characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    if is_cut { (characters.take(shape.width - 1).chain([CUT]).collect(), true) } else { (characters.collect(), false) }
}

impl TableWriter {
    /// Writes a row; `None` is NULL.
    fn row(&mut self, columns: &[ResultColumn], values: &[Option<String>], out: &mut dyn Write) -> io::Result<()> {
        if self.headers > 0 && self.rows > 0 && self.rows % self.headers == 0 {
            writeln!(out)?;
            self.header(columns, out)?;
        }
        self.rows += 1;
        for (index, ((value, column), shape)) in values.iter().zip(columns).zip(&self.shapes).enumerate() {
            if index > 0 {
                write!(out, "{}", self.separator)?;
            }
            let right = column.sql_type.is_numeric();
            let (text, is_cut) = shown(value.as_deref().unwrap_or("NULL"), *shape);
            self.has_cut |= is_cut;
            write!(out, "{}", self.cell(text, *shape, right))?;
        }
        writeln!(out)
    }
}

impl RowWriter for TableWriter {
    fn set_trim(&mut self, trims: bool) -> bool {
        std::mem::replace(&mut self.trim, trims)
    }

    fn begin(&mut self, columns: &[ResultColumn], out: &mut dyn Write) -> io::Result<()> {
        let shape = |column: &ResultColumn| {
            let shape = shape_of(column.sql_type, self.limits);
            Shape { width: shape.width.max(column.name.chars().count()).max(1), ..shape }
        };
        self.shapes = columns.iter().map(shape).collect();
        self.rows = 0;
        if self.headers >= 0 { self.header(columns, out) } else { Ok(()) }
    }

    fn rows(&mut self, columns: &[ResultColumn], batch: &RecordBatch, out: &mut dyn Write) -> io::Result<()> {
        each_row(columns, batch, |values| self.row(columns, values, out))
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        if self.has_cut && !self.has_said {
            self.has_said = true;
            eprintln!("Values that end in '{CUT}' are longer. -y 0 and -Y 0 show them whole.");
        }
        Ok(())
    }
}

fn shape_of(sql_type: SqlType, limits: Limits) -> Shape {
    let (longest, limit) = match (width_of(sql_type), sql_type.is_text() || sql_type.is_binary()) {
        (Some(longest), false) => (longest, 0),
        (Some(longest), true) => (longest, limits.others),
        (None, _) => (usize::MAX, limits.large),
    };
    let shape = match (limit, longest) {
        // Its width is not known yet.
        (0, usize::MAX) => Shape { width: 0, is_cut: false },
        (0, longest) => Shape { width: longest, is_cut: false },
        (limit, longest) => Shape { width: longest.min(limit), is_cut: longest > limit },
    };
    Shape { width: shape.width.max("NULL".len()), ..shape }
}

/// The characters of a type's longest value; `None` where there is no such bound.
fn width_of(sql_type: SqlType) -> Option<usize> {
    let limited = |length: MaxLength, factor: usize| match length {
        MaxLength::Limited(length) => Some(usize::from(length) * factor),
        MaxLength::Max => None,
    };
    Some(match sql_type {
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
        SqlType::VarChar(length) | SqlType::NVarChar(length) => limited(length, 1)?,
        SqlType::Binary(length) => usize::from(length) * 2 + 2,
        SqlType::VarBinary(length) => limited(length, 2)? + 2,
    })
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
        let mut writer = TableWriter::new(" ".to_owned(), 0, trim, Limits { large: 256, others: 256 });
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

    fn long_values(large: usize, others: usize) -> (String, bool) {
        let column = |name: &str, sql_type| ResultColumn { name: name.to_owned(), sql_type, nullable: true };
        let columns = [
            column("max", SqlType::NVarChar(MaxLength::Max)),
            column("ten", SqlType::VarChar(MaxLength::Limited(10))),
            column("n", SqlType::BigInt),
        ];
        let mut out = Vec::new();
        let mut writer = TableWriter::new("|".to_owned(), -1, false, Limits { large, others });
        writer.begin(&columns, &mut out).unwrap();
        let values = ["0123456789", "abcdefghij", "1234567890"].map(|value| Some(value.to_owned()));
        writer.row(&columns, &values, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), writer.has_cut)
    }

    #[test]
    fn what_is_cut_says_so_and_numbers_are_whole() {
        assert_eq!(long_values(6, 5), ("01234…|abcd…|          1234567890\n".to_owned(), true));
        assert_eq!(long_values(10, 10), ("0123456789|abcdefghij|          1234567890\n".to_owned(), false));
        assert_eq!(long_values(0, 0), ("0123456789|abcdefghij|          1234567890\n".to_owned(), false));
        assert_eq!(long_values(12, 1), ("0123456789  |abc…|          1234567890\n".to_owned(), true));
    }
}
