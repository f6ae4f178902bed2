//! Names and types of a text file's columns, from a sample of its rows.

use hobt_types::{MaxLength, SqlType};

use crate::text::fields::{Field, Fields, RowShape, undoubled};
use crate::text::layout::TextLayout;
use crate::text::parse;

/// Rows that are looked at.
const SAMPLE_ROWS: usize = 50_000;
/// Fields of a row, at most: as many as a table has columns.
pub(crate) const COLUMNS_MAX: usize = 1024;

/// Whether the first row has the columns' names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// It has.
    Yes,
    /// It has values.
    No,
    /// It has if it reads like names: different words that are no numbers and no dates.
    Guess,
}

/// What a sample shows of a text file.
#[derive(Clone, PartialEq, Debug)]
pub struct Inferred {
    /// The columns' names and types.
    pub columns: Vec<(String, SqlType)>,
    /// Whether the first row has the names.
    pub has_header: bool,
    /// Average bytes of a row in the sample.
    pub row_bytes: f64,
}

/// What the values of one column can be.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    values: u64,
    is_integer: bool,
    /// The longest part before the point, and behind it.
    digits: (usize, usize),
    largest: i64,
    is_decimal: bool,
    is_float: bool,
    is_word: bool,
    is_date: bool,
    is_moment: bool,
    fraction: usize,
    is_time: bool,
    is_guid: bool,
    is_ascii: bool,
    longest: usize,
}

impl Column {
    pub(crate) fn new() -> Column {
        Column {
            values: 0,
            is_integer: true,
            digits: (0, 0),
            largest: 0,
            is_decimal: true,
            is_float: true,
            is_word: true,
            is_date: true,
            is_moment: true,
            fraction: 0,
            is_time: true,
            is_guid: true,
            is_ascii: true,
            longest: 0,
        }
    }

    pub(crate) fn see(&mut self, text: &str) {
        self.values += 1;
        let bytes = text.as_bytes();
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        // Codes like 007 keep their zeros only as text.
        let has_zeros = unsigned.len() > 1 && unsigned.starts_with('0') && !unsigned.starts_with("0.");
        let is_plain = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let integer = parse::integer(bytes).filter(|_| !has_zeros);
        self.is_integer &= integer.is_some();
        self.largest = self.largest.max(integer.map_or(0, |value| value.saturating_abs()));
        let (before, behind) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let has_digits = !before.is_empty() || !behind.is_empty();
        self.is_decimal &= is_plain && has_digits && !has_zeros && !behind.contains('.');
        if self.is_decimal {
            self.digits = (self.digits.0.max(before.len()), self.digits.1.max(behind.len()));
        }
        self.is_float = self.is_float && parse::float(bytes).is_some() && !has_zeros;
        self.is_word = self.is_word && (text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false"));
        self.is_date = self.is_date && parse::date(bytes).is_some();
        let moment = SqlType::DateTime2 { scale: 7 };
        self.is_moment = self.is_moment && parse::moment(bytes, moment).is_some();
        self.is_time = self.is_time && parse::moment(bytes, SqlType::Time { scale: 7 }).is_some();
        if self.is_moment || self.is_time {
            self.fraction = self.fraction.max(text.rsplit_once('.').map_or(0, |(_, digits)| digits.len()));
        }
        self.is_guid = self.is_guid && is_guid(bytes);
        self.is_ascii &= text.is_ascii();
        self.longest = self.longest.max(if text.is_ascii() { text.len() } else { text.encode_utf16().count() });
    }

    fn is_text(&self) -> bool {
        let is_other = self.is_integer || self.is_decimal || self.is_float || self.is_word || self.is_date;
        self.values > 0 && !(is_other || self.is_moment || self.is_time || self.is_guid)
    }

    pub(crate) fn sql_type(&self) -> SqlType {
        const INT_MAX: i64 = i32::MAX as i64;
        if self.values == 0 {
            return SqlType::NVarChar(MaxLength::Limited(4000));
        }
        let scale = self.fraction as u8;
        if self.is_word {
            return SqlType::Bit;
        }
        if self.is_integer {
            // The sample need not have the greatest value.
            return if self.largest <= INT_MAX / 10 { SqlType::Int } else { SqlType::BigInt };
        }
        if self.is_decimal && self.digits.0 + self.digits.1 <= 28 {
            let scale = self.digits.1 as u8;
            // Room for values ten thousand times as large.
            let precision = (self.digits.0 as u8 + scale + 4).clamp(9, 38);
            return SqlType::Decimal { precision, scale };
        }
        match () {
            () if self.is_float => SqlType::Float,
            () if self.is_date => SqlType::Date,
            () if self.is_moment => SqlType::DateTime2 { scale },
            () if self.is_time => SqlType::Time { scale },
            () if self.is_guid => SqlType::UniqueIdentifier,
            () => self.text_type(),
        }
    }

    fn text_type(&self) -> SqlType {
        // Twice the longest text of the sample, rounded up to a usual length.
        const LENGTHS: [u16; 10] = [10, 20, 50, 100, 200, 500, 1000, 2000, 4000, 8000];
        let length = LENGTHS.into_iter().find(|length| usize::from(*length) >= self.longest * 2);
        let most = if self.is_ascii { 8000 } else { 4000 };
        let length = match length.filter(|length| *length <= most) {
            Some(length) => MaxLength::Limited(length),
            None if self.longest <= usize::from(most) / 2 => MaxLength::Limited(most),
            None => MaxLength::Max,
        };
        if self.is_ascii { SqlType::VarChar(length) } else { SqlType::NVarChar(length) }
    }
}

fn is_guid(bytes: &[u8]) -> bool {
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The columns of a text whose rows are whole. There are as many as most rows have fields; a row with more or fewer,
/// which a load leaves out, says nothing of them.
pub(crate) fn infer_text(layout: &TextLayout, text: &str, header: Header) -> Inferred {
    let width = common_width(layout, text);
    let mut columns: Vec<Column> = (0..width).map(|_| Column::new()).collect();
    let mut first: Option<Vec<String>> = None;
    let mut first_columns = Vec::new();
    let read = for_each_row(layout, text, |fields| {
        if fields.len() != width {
            return;
        }
        let texts = fields.iter().map(|field| text_of(layout, text, *field));
        if first.is_none() {
            let texts: Vec<String> = texts.map(Option::unwrap_or_default).collect();
            first_columns = texts.iter().map(|text| seen(Column::new(), text)).collect();
            first = Some(texts);
            return;
        }
        for (column, text) in columns.iter_mut().zip(texts) {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                column.see(&text);
            }
        }
    });
    let first = first.unwrap_or_default();
    let has_header = match header {
        Header::Yes => true,
        Header::No => false,
        Header::Guess => reads_like_names(&first, &first_columns, &columns),
    };
    if !has_header {
        columns.iter_mut().zip(&first).filter(|(_, text)| !text.is_empty()).for_each(|(column, text)| column.see(text));
    }
    // A terminator behind the last field of each row is no further column.
    if columns.len() > 1 && first.last().is_some_and(String::is_empty) && columns.last().is_some_and(|c| c.values == 0)
    {
        columns.pop();
    }
    let names = names_of(if has_header { &first } else { &[] }, columns.len());
    let columns = names.into_iter().zip(columns.iter().map(Column::sql_type)).collect();
    let row_bytes = read.bytes as f64 / read.rows.max(1) as f64;
    Inferred { columns, has_header, row_bytes: row_bytes.max(1.0) }
}

/// The fields of the first row of a text whose rows are whole.
pub(crate) fn first_row_of(layout: &TextLayout, text: &str) -> Vec<String> {
    let mut first: Option<Vec<String>> = None;
    for_each_row(layout, text, |fields| {
        first.get_or_insert_with(|| fields.iter().map(|at| text_of(layout, text, *at).unwrap_or_default()).collect());
    });
    first.unwrap_or_default()
}

/// What a walk over the sample has met.
struct Sampled {
    rows: usize,
    bytes: usize,
}

/// Gives the fields of each row of the sample that is no empty line.
fn for_each_row(layout: &TextLayout, text: &str, mut take: impl FnMut(&[Field])) -> Sampled {
    let shape = RowShape { wanted: COLUMNS_MAX + 1, least: 0, is_exact: false };
    let mut reading = Fields::new(layout, text.as_bytes(), 0, shape);
    let (mut row, mut rows) = (Vec::new(), 0);
    while rows < SAMPLE_ROWS && reading.next_row(&mut row).is_some() {
        let is_empty = row.iter().all(|field| field.is_missing()) && row.len() == 1;
        if !is_empty {
            take(&row);
        }
        rows += 1;
        row.clear();
    }
    Sampled { rows, bytes: reading.position() }
}

/// How many fields most rows of the sample have; of as many the first.
fn common_width(layout: &TextLayout, text: &str) -> usize {
    let mut widths: Vec<(usize, usize)> = Vec::new();
    for_each_row(layout, text, |fields| match widths.iter_mut().find(|(width, _)| *width == fields.len()) {
        Some((_, count)) => *count += 1,
        None => widths.push((fields.len(), 1)),
    });
    // The last of equal ones is the maximum, so the first row comes last.
    widths.iter().rev().max_by_key(|(_, count)| *count).map_or(0, |(width, _)| *width)
}

fn seen(mut column: Column, text: &str) -> Column {
    if !text.is_empty() {
        column.see(text);
    }
    column
}

/// The text of a field; `None` for none.
fn text_of(layout: &TextLayout, text: &str, field: Field) -> Option<String> {
    let value = &text[field.range()];
    match layout.quote {
        _ if field.is_missing() => None,
        Some(quote) if field.is_doubled() => Some(undoubled(value, quote)),
        _ => Some(value.to_owned()),
    }
}

/// Whether a file's first row has names: all are words, no two are the same, and either a column below is no text, or
/// all look like names.
fn reads_like_names(first: &[String], first_columns: &[Column], columns: &[Column]) -> bool {
    let are_words = !first.is_empty() && first_columns.iter().all(Column::is_text);
    let mut lower: Vec<String> = first.iter().map(|name| name.to_lowercase()).collect();
    lower.sort_unstable();
    let are_different = lower.windows(2).all(|pair| pair[0] != pair[1]);
    let has_other = columns.iter().any(|column| column.values > 0 && !column.is_text());
    let is_name = |name: &String| {
        let begins = name.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
        begins && name.chars().count() <= 64 && name.chars().all(|c| c.is_alphanumeric() || "_ -.#$/()".contains(c))
    };
    are_words && are_different && (has_other || first.iter().all(is_name))
}

/// Names for columns: those of the file as far as it has any, made different.
fn names_of(given: &[String], count: usize) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(count);
    for at in 0..count {
        let plain = given.get(at).map(|name| name.trim()).filter(|name| !name.is_empty());
        let plain: String = plain.map_or_else(|| format!("C{}", at + 1), |name| name.chars().take(120).collect());
        let mut name = plain.clone();
        let mut number = 2;
        while names.iter().any(|other| other.eq_ignore_ascii_case(&name)) {
            name = format!("{plain}_{number}");
            number += 1;
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(text: &str, header: Header) -> (Vec<String>, Vec<String>, bool) {
        let found = infer_text(&TextLayout::csv(), text, header);
        let (names, types) = found.columns.into_iter().map(|(name, sql_type)| (name, sql_type.to_string())).unzip();
        (names, types, found.has_header)
    }

    #[test]
    fn types_are_the_narrowest_that_hold_all_values_of_the_sample() {
        let text = "id,price,day,at,code,flag,note,big,f,g,empty\n\
             1,1.50,2020-01-31,2020-01-31 10:00:00.25,007,true,é,9999999999,1e3,6F9619FF-8B86-D011-B42D-00C04FC964FF,\n\
             2,-10,2021-01-01,2020-01-31T10:00:00,012,FALSE,abc,1,2.5,00000000-0000-0000-0000-000000000000,\n";
        let (names, found, has_header) = types(text, Header::Guess);
        assert!(has_header);
        assert_eq!(names[..3], ["id", "price", "day"]);
        let expected = [
            "int",
            "decimal(9,2)",
            "date",
            "datetime2(2)",
            "varchar(10)",
            "bit",
            "nvarchar(10)",
            "bigint",
            "float",
            "uniqueidentifier",
            "nvarchar(4000)",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_first_row_is_a_header_only_if_it_reads_like_one() {
        assert!(!types("1,a\n2,b\n", Header::Guess).2);
        assert!(types("name,town\nAda,London\n", Header::Guess).2);
        assert!(!types("x,x\nAda,London\n", Header::Guess).2);
        assert_eq!(types("a,A,\n1,2,3\n", Header::Yes).0, ["a", "A_2", "C3"]);
        assert_eq!(types("1,2\n3,4\n", Header::No).0, ["C1", "C2"]);
        assert_eq!(types("", Header::Guess), (vec![], vec![], false));
    }

    #[test]
    fn rows_with_more_or_fewer_fields_than_most_say_nothing() {
        let (names, found, has_header) = types("a,b\n1,2\n\"x,y\n3\"4,5,6\n7\n\n8,9\n10,11\n", Header::Guess);
        assert_eq!((names, has_header), (vec!["a".to_owned(), "b".to_owned()], true));
        assert_eq!(found, ["int", "int"]);
    }

    #[test]
    fn long_texts_and_trailing_terminators_are_taken_as_they_are() {
        let long = "x".repeat(5000);
        assert_eq!(types(&format!("a,{long}\n"), Header::No).1, ["varchar(10)", "varchar(max)"]);
        assert_eq!(types("1,2,\n3,4,\n", Header::No).1.len(), 2);
    }
}
