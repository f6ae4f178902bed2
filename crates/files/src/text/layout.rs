//! What ends rows and fields of a text file, and what quotes.

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
