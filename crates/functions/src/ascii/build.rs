//! Concatenation of texts, and replacement of a constant text in them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{Buffer, NullBuffer};
use hobt_base::SqlError;

use super::search::{Haystack, Needle};
use super::{AsciiTexts, BATCH_BYTES_MAX, BLOCK, block_at, inline_view, length_of, text_array, view_of};
use crate::ascii::views::INLINE_BYTES_MAX;
use crate::watch::Meter;

impl AsciiTexts {
    /// The view of `row`, or of the only text; empty for NULL.
    fn view_or_empty(&self, row: usize) -> u128 {
        let row = if self.is_scalar { 0 } else { row };
        if self.array.is_null(row) { 0 } else { self.views()[row] }
    }

    /// The NULLs of `rows` rows.
    fn nulls_of(&self, rows: usize) -> Option<NullBuffer> {
        match self.is_scalar {
            true => self.array.is_null(0).then(|| NullBuffer::new_null(rows)),
            false => self.nulls().cloned(),
        }
    }

    /// The number of bytes of the texts of `rows` rows.
    fn bytes_of(&self, rows: usize) -> usize {
        if self.is_scalar { rows.saturating_mul(self.bytes) } else { self.bytes }
    }
}

/// The texts of each row one after another, cut to `limit` bytes. NULL counts as empty, or else makes the row NULL.
/// `None` if that may be too many bytes.
pub(crate) fn concatenate(
    operands: &[AsciiTexts],
    rows: usize,
    limit: usize,
    null_is_empty: bool,
) -> Result<Option<ArrayRef>, SqlError> {
    let bytes: usize = operands.iter().map(|texts| texts.bytes_of(rows)).sum();
    if bytes > BATCH_BYTES_MAX || operands.iter().any(|texts| !texts.is_scalar && texts.array.len() != rows) {
        return Ok(None);
    }
    Meter::new().build(bytes)?;
    let nulls = match null_is_empty {
        true => None,
        false => operands.iter().fold(None, |nulls: Option<NullBuffer>, texts| {
            NullBuffer::union(nulls.as_ref(), texts.nulls_of(rows).as_ref())
        }),
    };
    let mut views = Vec::with_capacity(rows);
    // Only results that their views do not hold go here; and the last of them may be followed by one that is cut.
    let mut out = vec![0; bytes + BLOCK];
    let mut at = 0;
    for row in 0..rows {
        let length = operands.iter().map(|texts| length_of(texts.view_or_empty(row))).sum::<usize>();
        if length <= INLINE_BYTES_MAX {
            let (mut block, mut bits) = (0, 0);
            for texts in operands {
                let view = texts.view_or_empty(row);
                block |= (view >> 32) << bits;
                bits += 8 * length_of(view);
            }
            views.push(inline_view(block, length.min(limit)));
            continue;
        }
        let mut end = at;
        for texts in operands {
            let view = texts.view_or_empty(row);
            texts.write(view, &mut out, end);
            end += length_of(view);
        }
        let length = length.min(limit);
        views.push(view_of(&out, at, length, 0));
        at += if length <= INLINE_BYTES_MAX { 0 } else { length };
    }
    out.truncate(at);
    text_array(views, vec![Buffer::from_vec(out)], nulls).map(Some)
}

/// Replaces all occurrences of a needle in each text by `replacement`, which is ASCII, and cuts the results to `limit`
/// bytes, which no text is longer than before. `None` if the results may be too many bytes.
pub(crate) fn replace(
    texts: &AsciiTexts,
    needle: &Needle,
    replacement: &[u8],
    limit: usize,
) -> Result<Option<ArrayRef>, SqlError> {
    let haystack = Haystack::new(texts, 0);
    let found = haystack.all(needle);
    if found.is_empty() {
        return Ok(Some(Arc::new(texts.array().clone())));
    }
    let bytes = texts.bytes().saturating_add(found.len().saturating_mul(replacement.len()));
    if bytes > BATCH_BYTES_MAX {
        return Ok(None);
    }
    Meter::new().build(bytes)?;
    let mut replaced = Replaced {
        source: haystack.bytes(),
        needle: needle.length(),
        replacement,
        first_block: block_at(replacement, 0).to_le_bytes(),
        out: vec![0; bytes + 2 * BLOCK],
    };
    let mut views = texts.views().to_vec();
    let mut at = 0;
    // Texts without an occurrence stay where they are.
    let number = texts.array().data_buffers().len();
    let mut found = found.as_slice();
    for (row, view) in views.iter_mut().enumerate() {
        let (start, end) = haystack.place(row);
        let count = found.iter().take_while(|place| (**place as usize) < end).count();
        if count == 0 {
            continue;
        }
        let (places, rest) = found.split_at(count);
        found = rest;
        let length = replaced.write(start..end, places, at).min(limit);
        *view = view_of(&replaced.out, at, length, number);
        at += if length <= INLINE_BYTES_MAX { 0 } else { length };
    }
    let mut out = replaced.out;
    out.truncate(at);
    let mut buffers = texts.buffers();
    buffers.push(Buffer::from_vec(out));
    text_array(views, buffers, texts.nulls().cloned()).map(Some)
}

/// The texts that `REPLACE` changes.
struct Replaced<'t> {
    /// The texts as they were, and a block behind them.
    source: &'t [u8],
    /// The number of bytes of what is replaced.
    needle: usize,
    replacement: &'t [u8],
    /// The replacement's first bytes.
    first_block: [u8; BLOCK],
    /// The texts as they become, with room for two blocks behind them.
    out: Vec<u8>,
}

impl Replaced<'_> {
    /// Writes the text at `text` of the source, with its occurrences at `places` replaced, from `at` on. Returns its
    /// length.
    fn write(&mut self, text: Range<usize>, places: &[u32], at: usize) -> usize {
        let mut end = at;
        let mut copied = text.start;
        for place in places {
            let place = *place as usize;
            self.copy(copied..place, end);
            end += place - copied;
            self.out[end..end + BLOCK].copy_from_slice(&self.first_block);
            if self.replacement.len() > BLOCK {
                self.out[end..end + self.replacement.len()].copy_from_slice(self.replacement);
            }
            end += self.replacement.len();
            copied = place + self.needle;
        }
        self.copy(copied..text.end, end);
        end + text.end - copied - at
    }

    /// Copies a part of the source in whole blocks.
    fn copy(&mut self, part: Range<usize>, to: usize) {
        let mut done = 0;
        while done < part.len() {
            let block = block_at(self.source, part.start + done).to_le_bytes();
            self.out[to + done..to + done + BLOCK].copy_from_slice(&block);
            done += BLOCK;
        }
    }
}
