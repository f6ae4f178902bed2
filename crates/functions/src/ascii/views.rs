//! Builds an array of texts from its views and buffers without decoding UTF-8.
//!
//! ```text
//! view of at most 12 bytes   | length: u32 | the bytes, then zeros                             |
//! longer view                | length: u32 | first 4 bytes | buffer number: u32 | offset: u32  |
//! ```
//!
//! [`StringViewArray::try_new`] decodes every value on its own, which takes longer than most text functions. Most texts
//! are ASCII, and bytes that are all ASCII are UTF-8 wherever they are cut. So [`ascii_views`] proves that with a few
//! instructions for each view and one pass over the buffers. Input that it cannot prove goes to `try_new`.
//!
//! This is the crate's only file with unsafe code.

#![expect(unsafe_code, reason = "arrow's only way to make an array of texts that it does not decode itself")]

use arrow::array::StringViewArray;
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use hobt_base::SqlError;

use crate::error::from_arrow;

/// The longest text that a view holds itself.
pub(crate) const INLINE_BYTES_MAX: usize = 12;

/// The bits that a view may have by its length; the last entry is for all lengths over [`INLINE_BYTES_MAX`].
const ALLOWED: [u128; INLINE_BYTES_MAX + 2] = allowed();

const fn allowed() -> [u128; INLINE_BYTES_MAX + 2] {
    let mut table = [u32::MAX as u128; INLINE_BYTES_MAX + 2];
    let mut length = 1;
    while length <= INLINE_BYTES_MAX {
        table[length] = table[length - 1] | 0x7F << (24 + 8 * length);
        length += 1;
    }
    // A long view has four bytes of text; its buffer number and offset may be anything.
    table[INLINE_BYTES_MAX + 1] = !(0x8080_8080 << 32);
    table
}

/// The array of these views into these buffers. ASCII costs a fraction of [`StringViewArray::try_new`]; other texts,
/// and parts that do not make an array, go there. The input may be anything.
///
/// # Errors
/// An internal error for what [`StringViewArray::try_new`] refuses: a view outside its buffer, a prefix that is not
/// that of the bytes, bytes that are not UTF-8, a null buffer of another length.
pub fn ascii_views(
    views: impl Into<ScalarBuffer<u128>>,
    buffers: Vec<Buffer>,
    nulls: Option<NullBuffer>,
) -> Result<StringViewArray, SqlError> {
    let views = views.into();
    let nulls_fit = nulls.as_ref().is_none_or(|nulls| nulls.len() == views.len());
    if nulls_fit && all_are_ascii(&views, &buffers) {
        // SAFETY: `try_new` would not error, which is what `new_unchecked` requires. It checks these things, in arrow's
        // `validate_string_view`: the null buffer has the views' length (`nulls_fit`); and for each view, which
        // `all_are_ascii` returned true for: one of up to 12 bytes has zeros after them; a longer one has a buffer
        // number below the number of buffers, lies within that buffer, and begins with the bytes there; and its bytes
        // are UTF-8, because they are ASCII. `Buffer` and `ScalarBuffer` are immutable, so what was checked is what the
        // array gets.
        return Ok(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) });
    }
    StringViewArray::try_new(views, buffers, nulls).map_err(from_arrow)
}

/// Whether all views are valid, and all their bytes ASCII.
fn all_are_ascii(views: &[u128], buffers: &[Buffer]) -> bool {
    let buffers: Vec<&[u8]> = buffers.iter().map(Buffer::as_slice).collect();
    let mut forbidden = 0;
    let mut long_bytes = 0;
    let mut all_lie_within = true;
    for view in views {
        // The low 32 bits are the length.
        let length = *view as u32 as usize;
        forbidden |= view & !ALLOWED[length.min(INLINE_BYTES_MAX + 1)];
        if length > INLINE_BYTES_MAX {
            long_bytes += length;
            all_lie_within &= long_bytes_of(*view, &buffers).is_some();
        }
    }
    if forbidden != 0 || !all_lie_within {
        return false;
    }
    // Buffers of which the views use little (pages, or what a filter left) may hold anything elsewhere.
    let buffer_bytes: usize = buffers.iter().map(|buffer| buffer.len()).sum();
    if buffer_bytes / 2 <= long_bytes && buffers.iter().all(|buffer| buffer.is_ascii()) {
        return true;
    }
    views
        .iter()
        .filter(|view| **view as u32 as usize > INLINE_BYTES_MAX)
        .all(|view| long_bytes_of(*view, &buffers).is_some_and(<[u8]>::is_ascii))
}

/// The bytes of a view of more than 12 bytes; `None` if they are not in the buffers, or do not begin as the view says.
fn long_bytes_of<'b>(view: u128, buffers: &[&'b [u8]]) -> Option<&'b [u8]> {
    let (length, prefix) = (view as u32, (view >> 32) as u32);
    let (number, offset) = ((view >> 64) as u32, (view >> 96) as u32);
    let rest = buffers.get(number as usize)?.get(offset as usize..)?;
    let bytes = rest.get(..length as usize)?;
    (bytes.first_chunk() == Some(&prefix.to_le_bytes())).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringViewBuilder;

    fn long_view(length: u32, prefix: &[u8; 4], number: u32, offset: u32) -> u128 {
        u128::from(length)
            | u128::from(u32::from_le_bytes(*prefix)) << 32
            | u128::from(number) << 64
            | u128::from(offset) << 96
    }

    /// The array that `try_new` makes of the same parts, or `None` if it makes none.
    fn checked(views: &[u128], buffers: &[Buffer], nulls: Option<&NullBuffer>) -> Option<StringViewArray> {
        StringViewArray::try_new(views.to_vec().into(), buffers.to_vec(), nulls.cloned()).ok()
    }

    #[track_caller]
    fn same_as_checked(views: &[u128], buffers: &[Buffer], nulls: Option<&NullBuffer>) {
        let array = ascii_views(views.to_vec(), buffers.to_vec(), nulls.cloned()).ok();
        assert_eq!(array, checked(views, buffers, nulls));
    }

    #[test]
    fn what_arrow_builds_is_taken() {
        let texts =
            ["", "a", "exactly 12 b", "exactly 13 by", "a text that is much longer", "é", "an é in a long text", "😀"];
        for count in 0..=texts.len() {
            let mut builder = StringViewBuilder::new();
            texts[..count].iter().for_each(|text| builder.append_value(text));
            builder.append_null();
            let array = builder.finish();
            let (views, buffers, nulls) = array.clone().into_parts();
            assert_eq!(ascii_views(views, buffers.to_vec(), nulls).expect("arrow made it"), array);
        }
    }

    #[test]
    fn what_arrow_refuses_is_refused() {
        let ascii = Buffer::from(b"0123456789abcdef".as_slice());
        let high = Buffer::from(b"0123456789abcde\xC3\xA9".as_slice());
        let buffers = [ascii, high];
        for view in [
            long_view(16, b"0123", 0, 0),
            long_view(13, b"3456", 0, 3),
            long_view(14, b"3456", 0, 3),
            long_view(16, b"0124", 0, 0),
            long_view(16, b"0123", 2, 0),
            long_view(u32::MAX, b"0123", 0, 0),
            long_view(16, b"0123", 0, u32::MAX),
            long_view(17, b"0123", 1, 0),
            long_view(16, b"0123", 1, 0),
            long_view(13, b"\xC3\xA9ab", 0, 0),
            // Inline: a byte after the text, a byte that is no UTF-8, a control character.
            1 | u128::from(b'a') << 32 | 1 << 40,
            1 | 0xC3 << 32,
            1 | 0x1F << 32,
            12 | u128::from(b'a') << 120,
            12 | 0xFF << 120,
            0,
            1 << 32,
        ] {
            same_as_checked(&[view], &buffers, None);
            same_as_checked(&[0, view], &buffers, Some(&NullBuffer::from(vec![true, false])));
        }
        same_as_checked(&[0], &[], Some(&NullBuffer::from(vec![true, false])));
    }

    #[test]
    fn the_rest_of_a_sparse_buffer_may_be_anything() {
        let mut bytes = vec![0xFF; 1000];
        bytes[500..516].copy_from_slice(b"0123456789abcdef");
        let views = vec![long_view(16, b"0123", 0, 500), 0, long_view(13, b"3456", 0, 503)];
        let array = ascii_views(views, vec![Buffer::from(bytes)], None).expect("its texts are ASCII");
        assert_eq!((array.value(0), array.value(2)), ("0123456789abcdef", "3456789abcdef"));
    }
}
