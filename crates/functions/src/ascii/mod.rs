//! A batch of texts that are all ASCII, where a byte is a character, a UTF-16 unit and a byte of code page 1252.
//!
//! [`AsciiTexts::of`] finds out once for a batch. The functions on it work on views (see
//! [`ascii_views`](views::ascii_views)): a text of up to twelve bytes is a number that is shifted and masked, a part of
//! a longer one is a view of the same buffer, a longer result is copied in blocks of sixteen bytes. None of them
//! allocates for a row. What they return is what the functions for any text return, which remain for the other batches.
//!
//! | file | what |
//! |---|---|
//! | this one | the texts, their lengths, parts and case |
//! | `search` | occurrences of a constant text |
//! | `build` | concatenation and replacement |

pub(crate) mod build;
pub(crate) mod search;
#[cfg(test)]
mod tests;
pub(crate) mod views;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer};
use hobt_base::SqlError;
use hobt_types::{MaxLength, SqlType};

use crate::column::Column;
use crate::type_rules::declared_length;
use crate::watch::Meter;
use views::{INLINE_BYTES_MAX, ascii_views};

/// The most bytes of texts that are worked on at once, or built at once. Longer batches go value by value, so that a
/// statement can be cancelled between them.
pub(crate) const BATCH_BYTES_MAX: usize = 16 << 20;

/// The bytes copied at once, and so the room that [`AsciiTexts::write`] needs behind a text.
pub(crate) const BLOCK: usize = 16;

/// The lowest bytes of a block, by their number.
const LOWEST: [u128; BLOCK + 1] = {
    let mut table = [0; BLOCK + 1];
    let mut bytes = 1;
    while bytes <= BLOCK {
        table[bytes] = table[bytes - 1] << 8 | 0xFF;
        bytes += 1;
    }
    table
};

/// Sixteen times this byte.
const fn repeated(byte: u8) -> u128 {
    u128::from_le_bytes([byte; BLOCK])
}

/// The bit 0x20 of each byte from `first` to `last`. ASCII bytes do not carry into the next one. After a byte that is
/// not ASCII, the bits of the rest of the block are not to be used.
const fn case_bits(block: u128, first: u8, last: u8) -> u128 {
    let from_first = block.wrapping_add(repeated(0x80 - first));
    let after_last = block.wrapping_add(repeated(0x7F - last));
    (from_first & !after_last & repeated(0x80)) >> 2
}

/// ASCII bytes in lower case.
pub(crate) const fn lower_block(block: u128) -> u128 {
    block ^ case_bits(block, b'A', b'Z')
}

/// ASCII bytes in upper case.
const fn upper_block(block: u128) -> u128 {
    block ^ case_bits(block, b'a', b'z')
}

/// The number of bytes of a view's text.
pub(crate) const fn length_of(view: u128) -> usize {
    view as u32 as usize
}

/// The view of the first `length` bytes of `block`, up to twelve.
pub(crate) const fn inline_view(block: u128, length: usize) -> u128 {
    (block & LOWEST[length]) << 32 | length as u128
}

/// The first sixteen bytes from `at` on, with zeros after the end of `bytes`.
pub(crate) fn block_at(bytes: &[u8], at: usize) -> u128 {
    let rest = bytes.get(at..).unwrap_or_default();
    if let Some(block) = rest.first_chunk() {
        return u128::from_le_bytes(*block);
    }
    let mut block = [0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    u128::from_le_bytes(block)
}

/// The view of `length` bytes from `at` on in `bytes`, which is buffer `number`.
pub(crate) fn view_of(bytes: &[u8], at: usize, length: usize, number: usize) -> u128 {
    let block = block_at(bytes, at);
    if length <= INLINE_BYTES_MAX {
        return inline_view(block, length);
    }
    // Both are below 2^32: a buffer here has at most a few times `BATCH_BYTES_MAX`, and there are few.
    length as u128 | (block & LOWEST[4]) << 32 | (number as u128) << 64 | (at as u128) << 96
}

/// The maximum length of a result's texts; `None` if they are padded.
pub(crate) fn limit_of(result: SqlType) -> Option<usize> {
    match (result, declared_length(result)) {
        (SqlType::Char(_) | SqlType::NChar(_), _) => None,
        (_, Some(MaxLength::Limited(limit))) => Some(usize::from(limit)),
        _ => Some(usize::MAX),
    }
}

/// An array of these views into these buffers. Rows that are NULL become empty views.
pub(crate) fn text_array(
    mut views: Vec<u128>,
    buffers: Vec<Buffer>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, SqlError> {
    if let Some(nulls) = nulls.as_ref().filter(|nulls| nulls.null_count() > 0) {
        let is_null = !nulls.inner();
        is_null.set_indices().for_each(|row| views[row] = 0);
    }
    let long_bytes: usize = views.iter().map(|view| length_of(*view)).filter(|length| *length > INLINE_BYTES_MAX).sum();
    let buffer_bytes: usize = buffers.iter().map(Buffer::len).sum();
    let buffers = if long_bytes > 0 { buffers } else { Vec::new() };
    let array = ascii_views(views, buffers, nulls)?;
    // A result shares its argument's buffers, and must not keep much more memory than it needs.
    Ok(Arc::new(if long_bytes > 0 && buffer_bytes / 4 > long_bytes { array.gc() } else { array }))
}

/// Counts of texts as the `int` or `bigint` that a function returns.
pub(crate) fn counts(
    counts: impl Iterator<Item = usize>,
    nulls: Option<NullBuffer>,
    result: SqlType,
) -> Result<ArrayRef, SqlError> {
    // No count is above `BATCH_BYTES_MAX`.
    Ok(match result {
        SqlType::Int => Arc::new(Int32Array::new(counts.map(|count| count as i32).collect(), nulls)),
        SqlType::BigInt => Arc::new(Int64Array::new(counts.map(|count| count as i64).collect(), nulls)),
        other => return Err(SqlError::internal(format!("a count as {other}"))),
    })
}

/// The texts of one operand, all ASCII; also the bytes under NULL.
#[derive(Debug)]
pub(crate) struct AsciiTexts {
    /// At least half of its buffers' bytes belong to its texts, and all of them are ASCII.
    array: StringViewArray,
    is_scalar: bool,
    /// The number of bytes of its longest text.
    longest: usize,
    /// The number of bytes of all its texts.
    bytes: usize,
}

impl AsciiTexts {
    /// The texts of `column`, if they are all ASCII and not too many bytes.
    pub(crate) fn of(column: &Column) -> Option<AsciiTexts> {
        let array = column.array().as_string_view_opt()?;
        let (mut inline, mut inline_bytes, mut long_bytes, mut longest) = (0, 0, 0, 0);
        for view in array.views() {
            let length = length_of(*view);
            let is_long = length > INLINE_BYTES_MAX;
            inline |= if is_long { 0 } else { *view >> 32 };
            inline_bytes += if is_long { 0 } else { length };
            long_bytes += if is_long { length } else { 0 };
            longest = longest.max(length);
        }
        let bytes = inline_bytes + long_bytes;
        if inline & repeated(0x80) != 0 || bytes > BATCH_BYTES_MAX {
            return None;
        }
        let buffers = array.data_buffers();
        let buffer_bytes: usize = buffers.iter().map(Buffer::len).sum();
        // Results share the buffers, and some functions work on whole buffers.
        let array = if buffer_bytes / 2 > long_bytes { array.gc() } else { array.clone() };
        let is_ascii = array.data_buffers().iter().all(|buffer| buffer.is_ascii());
        is_ascii.then(|| AsciiTexts { array, is_scalar: column.is_scalar(), longest, bytes })
    }

    /// As [`AsciiTexts::of`], if there is one text for each of `rows` rows.
    pub(crate) fn of_rows(column: &Column, rows: usize) -> Option<AsciiTexts> {
        if column.is_scalar() || column.array().len() != rows { None } else { AsciiTexts::of(column) }
    }

    /// The number of bytes of the longest text.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// The number of bytes of all texts.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn array(&self) -> &StringViewArray {
        &self.array
    }

    pub(crate) fn views(&self) -> &[u128] {
        self.array.views()
    }

    pub(crate) fn nulls(&self) -> Option<&NullBuffer> {
        self.array.nulls()
    }

    fn buffers(&self) -> Vec<Buffer> {
        self.array.data_buffers().to_vec()
    }

    /// The buffer of a view of more than twelve bytes, and the place of the text in it.
    fn place(&self, view: u128) -> (&[u8], usize) {
        let buffer = &self.array.data_buffers()[(view >> 64) as u32 as usize];
        (buffer.as_slice(), (view >> 96) as usize)
    }

    /// Whether the text in a row begins with `prefix`, which is in lower case if case is ignored.
    pub(crate) fn begins_with(&self, prefix: &[u8], ignores_case: bool) -> impl Fn(usize) -> bool {
        let fold = move |block| if ignores_case { lower_block(block) } else { block };
        let start = LOWEST[prefix.len().min(BLOCK)];
        // A view has four bytes of any text.
        let in_view = start & LOWEST[4];
        let wanted = block_at(prefix, 0);
        move |row| {
            let view = self.views()[row];
            if length_of(view) < prefix.len() || (fold(view >> 32 & LOWEST[4]) ^ wanted) & in_view != 0 {
                return false;
            }
            (fold(self.first_block(view)) ^ wanted) & start == 0
                && prefix.get(BLOCK..).is_none_or(|rest| {
                    let text = &self.array.value(row).as_bytes()[BLOCK..prefix.len()];
                    if ignores_case { text.eq_ignore_ascii_case(rest) } else { text == rest }
                })
        }
    }

    /// The first sixteen bytes of a text. If it is shorter, zeros or others follow.
    fn first_block(&self, view: u128) -> u128 {
        if length_of(view) <= INLINE_BYTES_MAX {
            return view >> 32;
        }
        let (buffer, at) = self.place(view);
        block_at(buffer, at)
    }

    /// The number of bytes of the text in `row`.
    pub(crate) fn length(&self, row: usize) -> usize {
        length_of(self.views()[row])
    }

    /// The last byte of a text that is not empty.
    fn last_byte(&self, view: u128) -> u8 {
        let length = length_of(view);
        if length <= INLINE_BYTES_MAX {
            return (view >> (24 + 8 * length)) as u8;
        }
        let (buffer, at) = self.place(view);
        buffer[at + length - 1]
    }

    /// The number of bytes of the text in `row` without trailing spaces.
    #[inline]
    fn trimmed_length(&self, row: usize) -> usize {
        let view = self.views()[row];
        let length = length_of(view);
        if length == 0 || self.last_byte(view) != b' ' {
            return length;
        }
        let text = self.array.value(row).as_bytes();
        text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1)
    }

    /// The view of bytes `start..end` of a view's text, or of those of them that there are.
    #[inline]
    fn slice(&self, view: u128, start: usize, end: usize) -> u128 {
        let whole = length_of(view);
        let start = start.min(whole);
        let length = end.clamp(start, whole) - start;
        if whole <= INLINE_BYTES_MAX {
            return inline_view((view >> 32) >> (8 * start), length);
        }
        let (buffer, at) = self.place(view);
        view_of(buffer, at + start, length, (view >> 64) as u32 as usize)
    }

    /// Writes a text to `out` from `at` on. Up to [`BLOCK`] bytes after it are overwritten.
    #[inline]
    fn write(&self, view: u128, out: &mut [u8], at: usize) {
        let length = length_of(view);
        if length <= INLINE_BYTES_MAX {
            out[at..at + BLOCK].copy_from_slice(&(view >> 32).to_le_bytes());
            return;
        }
        let (buffer, from) = self.place(view);
        let out = &mut out[at..at + length.next_multiple_of(BLOCK)];
        for (number, out) in out.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
            *out = block_at(buffer, from + number * BLOCK).to_le_bytes();
        }
    }

    /// `LEN`.
    pub(crate) fn lengths(&self, result: SqlType) -> Result<ArrayRef, SqlError> {
        counts((0..self.array.len()).map(|row| self.trimmed_length(row)), self.nulls().cloned(), result)
    }

    /// The number of bytes of each text, times `width`.
    pub(crate) fn data_lengths(&self, width: usize, result: SqlType) -> Result<ArrayRef, SqlError> {
        counts(self.views().iter().map(|view| width * length_of(*view)), self.nulls().cloned(), result)
    }

    /// `UPPER`, or else `LOWER`.
    pub(crate) fn in_case(&self, is_upper: bool) -> Result<ArrayRef, SqlError> {
        Meter::new().build(self.bytes)?;
        let change = |view: u128| {
            // Neither the length nor a buffer's number and offset are text.
            let is_long = length_of(view) > INLINE_BYTES_MAX;
            let text = view & if is_long { LOWEST[4] << 32 } else { !LOWEST[4] };
            let changed = if is_upper { upper_block(text) } else { lower_block(text) };
            view ^ text ^ changed
        };
        let views = self.views().iter().map(|view| change(*view)).collect();
        let buffer = |buffer: &Buffer| match is_upper {
            true => Buffer::from_vec(buffer.to_ascii_uppercase()),
            false => Buffer::from_vec(buffer.to_ascii_lowercase()),
        };
        text_array(views, self.array.data_buffers().iter().map(buffer).collect(), self.nulls().cloned())
    }

    /// A part of each text: `bounds` returns its first byte and its end for each row that is not NULL, `None` for NULL.
    pub(crate) fn parts(
        &self,
        mut bounds: impl FnMut(usize) -> Result<Option<(usize, usize)>, SqlError>,
    ) -> Result<ArrayRef, SqlError> {
        let mut views = self.views().to_vec();
        let mut nulls = self.nulls().cloned();
        let mut more_nulls = Vec::new();
        let mut bytes = 0;
        for (row, view) in views.iter_mut().enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            *view = if let Some((start, end)) = bounds(row)? {
                self.slice(*view, start, end)
            } else {
                more_nulls.push(row);
                0
            };
            bytes += length_of(*view);
        }
        Meter::new().build(bytes)?;
        if !more_nulls.is_empty() {
            let mut is_valid = vec![true; views.len()];
            more_nulls.into_iter().for_each(|row| is_valid[row] = false);
            nulls = NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::from(is_valid)));
        }
        text_array(views, self.buffers(), nulls)
    }

    /// Each text without the bytes of `set` (one bit for each) at its start and its end, as asked.
    pub(crate) fn trimmed(&self, set: u128, at_start: bool, at_end: bool) -> Result<ArrayRef, SqlError> {
        let is_kept = |byte: &u8| set >> (byte & 0x7F) & 1 == 0;
        let spaces_at_end = set == 1 << b' ' && !at_start;
        self.parts(|row| {
            if spaces_at_end {
                return Ok(Some((0, self.trimmed_length(row))));
            }
            let text = self.array.value(row).as_bytes();
            let start = if at_start { text.iter().position(is_kept).unwrap_or(text.len()) } else { 0 };
            let end = if at_end { text.iter().rposition(is_kept).map_or(start, |last| last + 1) } else { text.len() };
            Ok(Some((start, end)))
        })
    }

    /// Cuts each text to `limit` bytes.
    pub(crate) fn cut(&self, limit: usize) -> Result<ArrayRef, SqlError> {
        let views = self.views().iter().map(|view| self.slice(*view, 0, limit)).collect();
        text_array(views, self.buffers(), self.nulls().cloned())
    }
}
