//! Rows as JSON (RFC 8259): one object a line, or one array of objects.
//!
//! Numbers have all their digits, a `bit` is true or false, dates and times are ISO 8601 with a `T`, binary values are
//! texts of hexadecimal digits, NULL is null.

use super::buffer::Buffer;
use super::cells::{CellForm, TextBytes};
use super::column::Column;
use super::text::RowForm;

/// What stands around the objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonShape {
    /// One object a line and nothing else.
    Lines,
    /// One array.
    Array,
}

/// JSON for columns of certain names.
#[derive(Debug)]
pub(super) struct Json {
    shape: JsonShape,
    /// What stands before each value: a brace or a comma, the name and a colon.
    keys: Vec<Vec<u8>>,
}

impl Json {
    pub(super) fn new(shape: JsonShape, columns: &[Column]) -> Json {
        let key = |(index, column): (usize, &Column)| {
            let mut out = Buffer::default();
            out.set_margin(2);
            out.reserve(0);
            out.byte(if index == 0 { b'{' } else { b',' });
            string(&mut out, column.name.as_bytes());
            out.byte(b':');
            out.as_slice().to_vec()
        };
        Json { shape, keys: columns.iter().enumerate().map(key).collect() }
    }
}

/// Whether a byte is escaped.
#[inline]
fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

#[inline]
fn has_special(bytes: &[u8]) -> bool {
    // Without a branch for each byte, so that 16 are looked at at once.
    let any = |bytes: &[u8]| bytes.iter().fold(false, |any, byte| any | is_special(*byte));
    let (chunks, rest) = bytes.as_chunks::<16>();
    chunks.iter().any(|chunk| any(chunk)) || any(rest)
}

/// A string. Makes room itself.
#[inline]
fn string(out: &mut Buffer, bytes: &[u8]) {
    if has_special(bytes) {
        return escaped(out, bytes);
    }
    out.reserve(2 + bytes.len());
    out.byte(b'"');
    out.slice(bytes);
    out.byte(b'"');
}

#[cold]
fn escaped(out: &mut Buffer, bytes: &[u8]) {
    // An escape has six bytes at most.
    out.reserve(2 + 6 * bytes.len());
    out.byte(b'"');
    for piece in bytes.split_inclusive(|byte| is_special(*byte)) {
        let Some((last, plain)) = piece.split_last().filter(|(last, _)| is_special(**last)) else {
            out.slice(piece);
            continue;
        };
        out.slice(plain);
        out.byte(b'\\');
        match last {
            b'"' | b'\\' => out.byte(*last),
            b'\n' => out.byte(b'n'),
            b'\r' => out.byte(b'r'),
            b'\t' => out.byte(b't'),
            other => {
                out.slice(b"u00");
                out.byte(b'0' + (other >> 4));
                out.byte(b"0123456789abcdef"[usize::from(other & 15)]);
            }
        }
    }
    out.byte(b'"');
}

impl CellForm for Json {
    const DATE_TIME: u8 = b'T';
    const QUOTE: Option<u8> = Some(b'"');

    #[inline]
    fn bit(&self, out: &mut Buffer, is_set: bool) {
        if is_set { out.slice(b"true") } else { out.slice(b"false") }
    }

    #[inline]
    fn text(&self, out: &mut Buffer, text: TextBytes<'_>) {
        match text {
            TextBytes::Word(word, length) => {
                // Spaces behind the text, which are not special.
                let padded = (word | u128::from_le_bytes([b' '; 16]) << (8 * length)).to_le_bytes();
                if has_special(&padded) {
                    return escaped(out, &word.to_le_bytes()[..length]);
                }
                out.byte(b'"');
                out.long_word(word, length);
                out.byte(b'"');
            }
            TextBytes::Slice(bytes) => string(out, bytes),
        }
    }

    #[inline]
    fn null(&self, out: &mut Buffer) {
        out.slice(b"null");
    }
}

impl RowForm for Json {
    fn row_bytes(&self, _: &[Column]) -> usize {
        4 + self.keys.iter().map(Vec::len).sum::<usize>()
    }

    fn begin_file(&self, _: &[Column], out: &mut Buffer) {
        if self.shape == JsonShape::Array {
            out.reserve(1);
            out.byte(b'[');
        }
    }

    #[inline]
    fn begin_row(&self, is_first: bool, out: &mut Buffer) {
        if self.shape == JsonShape::Array {
            if !is_first {
                out.byte(b',');
            }
            out.byte(b'\n');
        }
    }

    #[inline]
    fn before_value(&self, column: usize, out: &mut Buffer) {
        out.slice(&self.keys[column]);
    }

    #[inline]
    fn end_row(&self, out: &mut Buffer) {
        out.byte(b'}');
        if self.shape == JsonShape::Lines {
            out.byte(b'\n');
        }
    }

    fn end_file(&self, out: &mut Buffer) {
        if self.shape == JsonShape::Array {
            out.reserve(3);
            out.slice(b"\n]\n");
        }
    }
}
