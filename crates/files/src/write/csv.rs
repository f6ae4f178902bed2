//! Rows as CSV (RFC 4180), with any delimiter, quote and row end.
//!
//! A value is quoted if it contains a byte of the delimiter, of the row end or the quote. NULL is nothing between two
//! delimiters, and an empty text is a pair of quotes.

use super::buffer::Buffer;
use super::cells::{CellForm, TextBytes};
use super::column::Column;
use super::error::{Result, WriteError};
use super::text::RowForm;

/// How CSV is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsvOptions {
    /// What stands between two values: 1 to 16 bytes.
    pub delimiter: String,
    /// What stands around a value that needs it, an ASCII character; it is doubled inside.
    pub quote: u8,
    /// What stands behind each row: 1 to 16 bytes.
    pub row_end: String,
    /// Whether the first row has the columns' names.
    pub has_header: bool,
}

impl Default for CsvOptions {
    fn default() -> CsvOptions {
        CsvOptions { delimiter: ",".to_owned(), quote: b'"', row_end: "\n".to_owned(), has_header: true }
    }
}

/// The longest delimiter and row end.
const SEPARATOR_BYTES: usize = 16;
/// Bytes that are compared with a text at once.
const COMPARED: usize = 4;

/// CSV with its options made ready.
#[derive(Debug)]
pub(super) struct Csv {
    delimiter: Vec<u8>,
    quote: u8,
    row_end: Vec<u8>,
    has_header: bool,
    special: Special,
}

/// The bytes that make quotes necessary.
#[derive(Debug)]
enum Special {
    /// A few; the last is repeated.
    Few([u8; COMPARED]),
    /// Whether each byte is one.
    Many(Box<[bool; 256]>),
}

impl Csv {
    /// # Errors
    /// If the delimiter, the quote or the row end could be part of a number or a date, or of each other.
    pub(super) fn new(options: &CsvOptions) -> Result<Csv> {
        let CsvOptions { delimiter, quote, row_end, has_header } = options;
        check_separator("the delimiter", delimiter)?;
        check_separator("the row terminator", row_end)?;
        if !quote.is_ascii() || is_in_values(*quote) || *quote == b' ' || matches!(quote, b'\r' | b'\n') {
            return unfit("the quote is one ASCII character that is no part of numbers and dates");
        }
        let is_taken = |byte| byte == *quote || matches!(byte, b'\r' | b'\n') || row_end.bytes().any(|end| end == byte);
        if delimiter.bytes().any(is_taken) || row_end.bytes().any(|byte| byte == *quote) {
            return unfit("the delimiter, the quote and the row terminator have no character in common");
        }
        let mut bytes: Vec<u8> = delimiter.bytes().chain(row_end.bytes()).chain([*quote, b'\n', b'\r']).collect();
        bytes.sort_unstable();
        bytes.dedup();
        let special = match (bytes.len(), bytes.last()) {
            (..=COMPARED, Some(last)) => Special::Few(std::array::from_fn(|place| *bytes.get(place).unwrap_or(last))),
            _ => Special::Many(Box::new(std::array::from_fn(|byte| bytes.contains(&(byte as u8))))),
        };
        let (delimiter, row_end) = (delimiter.clone().into_bytes(), row_end.clone().into_bytes());
        Ok(Csv { delimiter, quote: *quote, row_end, has_header: *has_header, special })
    }

    #[inline]
    fn is_special(&self, bytes: &[u8; 16]) -> bool {
        match &self.special {
            Special::Few([a, b, c, d]) => {
                // Without a branch for each byte, so that all are compared at once.
                bytes.iter().fold(0, |any, byte| any | u8::from((byte == a) | (byte == b) | (byte == c) | (byte == d)))
                    != 0
            }
            Special::Many(table) => bytes.iter().any(|byte| table[usize::from(*byte)]),
        }
    }

    /// Whether a text of more than 12 bytes has to be quoted.
    #[inline]
    fn needs_quotes(&self, bytes: &[u8]) -> bool {
        let (chunks, rest) = bytes.as_chunks::<16>();
        if chunks.iter().any(|chunk| self.is_special(chunk)) {
            return true;
        }
        // The last 16 bytes, whether or not some of them were seen before.
        match bytes.last_chunk::<16>() {
            Some(last) => !rest.is_empty() && self.is_special(last),
            None => {
                // Repeats the first byte, which is in the text.
                let mut word = [bytes.first().copied().unwrap_or_default(); 16];
                word[..bytes.len()].copy_from_slice(bytes);
                !bytes.is_empty() && self.is_special(&word)
            }
        }
    }

    #[cold]
    fn quote(&self, out: &mut Buffer, bytes: &[u8]) {
        out.reserve(2 * bytes.len() + 2);
        out.byte(self.quote);
        for piece in bytes.split_inclusive(|byte| *byte == self.quote) {
            out.slice(piece);
            if piece.last() == Some(&self.quote) {
                out.byte(self.quote);
            }
        }
        out.byte(self.quote);
    }

    #[inline]
    fn separator(out: &mut Buffer, bytes: &[u8]) {
        match bytes {
            [byte] => out.byte(*byte),
            bytes => out.slice(bytes),
        }
    }
}

/// Whether a byte may be in a number, a date or a `0x…`.
fn is_in_values(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b':')
}

fn unfit<T>(text: &str) -> Result<T> {
    Err(WriteError::Unfit(text.to_owned()))
}

fn check_separator(what: &str, text: &str) -> Result<()> {
    if text.is_empty() || text.len() > SEPARATOR_BYTES {
        return Err(WriteError::Unfit(format!("{what} has 1 to {SEPARATOR_BYTES} bytes")));
    }
    if text.bytes().any(is_in_values) || text == " " {
        let text = format!("{what} has no letter, no digit, none of + - . : and is no space: values have them");
        return Err(WriteError::Unfit(text));
    }
    Ok(())
}

impl CellForm for Csv {
    const DATE_TIME: u8 = b' ';
    const QUOTE: Option<u8> = None;

    #[inline]
    fn bit(&self, out: &mut Buffer, is_set: bool) {
        out.byte(b'0' + u8::from(is_set));
    }

    #[inline]
    fn text(&self, out: &mut Buffer, text: TextBytes<'_>) {
        match text {
            TextBytes::Word(_, 0) => out.word(u64::from_le_bytes([self.quote; 8]), 2),
            // The zero bytes behind a short text are compared, too. They differ from all but a separator with zeros.
            TextBytes::Word(word, length) if !self.is_special(&word.to_le_bytes()) => out.long_word(word, length),
            TextBytes::Word(word, length) => {
                let bytes = &word.to_le_bytes()[..length];
                if self.needs_quotes(bytes) { self.quote(out, bytes) } else { out.long_word(word, length) }
            }
            TextBytes::Slice(bytes) if self.needs_quotes(bytes) => self.quote(out, bytes),
            TextBytes::Slice(bytes) => {
                out.reserve(bytes.len());
                out.slice(bytes);
            }
        }
    }

    #[inline]
    fn null(&self, _: &mut Buffer) {}
}

impl RowForm for Csv {
    fn row_bytes(&self, columns: &[Column]) -> usize {
        columns.len() * self.delimiter.len() + self.row_end.len()
    }

    fn begin_file(&self, columns: &[Column], out: &mut Buffer) {
        if !self.has_header {
            return;
        }
        for (index, column) in columns.iter().enumerate() {
            out.reserve(SEPARATOR_BYTES + column.name.len());
            if index > 0 {
                Self::separator(out, &self.delimiter);
            }
            let name = column.name.as_bytes();
            if self.needs_quotes(name) { self.quote(out, name) } else { out.slice(name) }
        }
        out.reserve(SEPARATOR_BYTES);
        Self::separator(out, &self.row_end);
    }

    #[inline]
    fn before_value(&self, column: usize, out: &mut Buffer) {
        if column > 0 {
            Self::separator(out, &self.delimiter);
        }
    }

    #[inline]
    fn begin_row(&self, _: bool, _: &mut Buffer) {}

    #[inline]
    fn end_row(&self, out: &mut Buffer) {
        Self::separator(out, &self.row_end);
    }

    fn end_file(&self, _: &mut Buffer) {}
}
