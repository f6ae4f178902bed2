//! Text files: CSV and its relatives.
//!
//! A row ends at a row terminator that is not inside quotes. A field ends at a field terminator or at the row's end. A
//! field that begins with the quote is quoted: inside, terminators are text, and two quotes are one. A quote anywhere
//! else is text. Source: RFC 4180, and Microsoft's "BULK INSERT (Transact-SQL)".
//!
//! | file | what |
//! |---|---|
//! | `cut` | row ends, for stretches |
//! | `fields` | the fields of rows |
//! | `parse` | values from the text of a field |
//! | `columns` | columns of values |
//! | `batch` | a batch of rows, without those that cannot be read |
//! | `reader` | batches of text files |

pub(crate) mod batch;
pub(crate) mod columns;
pub(crate) mod cut;
pub(crate) mod fields;
pub(crate) mod parse;
mod reader;

pub(crate) use reader::TextRows;

/// What ends rows and fields, and what quotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextLayout {
    /// What ends a field; at least one byte.
    pub field_end: Vec<u8>,
    /// What ends a row; at least one byte.
    pub row_end: Vec<u8>,
    /// Whether a carriage return before the row end belongs to it. For a row end of one line feed.
    pub strips_return: bool,
    /// The quote; `None` if none is special.
    pub quote: Option<u8>,
}

impl TextLayout {
    /// CSV as RFC 4180 has it, with lines that end in any way.
    pub fn csv() -> TextLayout {
        TextLayout { field_end: b",".to_vec(), row_end: b"\n".to_vec(), strips_return: true, quote: Some(b'"') }
    }
}
