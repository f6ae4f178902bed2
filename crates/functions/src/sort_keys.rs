//! Sort keys of a text or `varbinary` column, which joins, groups, sorts and comparisons use in place of the value.
//!
//! Most keys of short strings fit in the view itself. Then nothing is allocated per value and the array has no buffer.

use arrow::array::make_view;
use arrow::array::{Array, BinaryViewArray, ByteView, StringViewArray};
use arrow::buffer::{Buffer, ScalarBuffer};
use hobt_base::SqlError;
use hobt_types::Collation;

/// The number of bytes that fit in a view itself.
const INLINE: usize = 12;
/// A buffer of keys longer than this is closed: offsets in a view have 32 bits.
const BUFFER_BYTES: usize = 1 << 30;

/// The key of every string under `collation`; NULL for NULL. Keys compare as bytes.
///
/// # Errors
/// An internal error if a single key is longer than a view can express.
pub fn sort_keys(texts: &StringViewArray, collation: Collation) -> Result<BinaryViewArray, SqlError> {
    let mut buffers: Vec<Buffer> = Vec::new();
    // A key has about as many bytes as its text. A buffer that grows could end up twice as large as needed.
    let lengths = texts.views().iter().map(|view| *view as u32 as usize).filter(|&length| length > INLINE);
    let mut long: Vec<u8> = Vec::with_capacity(lengths.sum::<usize>().min(BUFFER_BYTES));
    let mut views: Vec<u128> = Vec::with_capacity(texts.len());
    for (row, view) in texts.views().iter().enumerate() {
        let length = *view as u32 as usize;
        if length <= INLINE
            && let Some(key) = collation.short_key(*view)
        {
            views.push(key);
            continue;
        }
        if texts.is_null(row) {
            views.push(0);
            continue;
        }
        if long.len() > BUFFER_BYTES {
            buffers.push(Buffer::from_vec(std::mem::take(&mut long)));
        }
        let start = long.len();
        collation.sort_key(texts.value(row), &mut long);
        let block = u32::try_from(buffers.len()).map_err(|_| too_long())?;
        if i32::try_from(long.len()).is_err() {
            return Err(too_long());
        }
        let offset = u32::try_from(start).map_err(|_| too_long())?;
        views.push(make_view(&long[start..], block, offset));
        if long.len() - start <= INLINE {
            long.truncate(start);
        }
    }
    buffers.push(Buffer::from_vec(long));
    BinaryViewArray::try_new(ScalarBuffer::from(views), buffers, texts.nulls().cloned())
        .map_err(crate::error::from_arrow)
}

/// The bytes of a `varbinary` that comparison uses: the shorter of two values is treated as padded with zeros.
pub fn binary_key(value: &[u8]) -> &[u8] {
    let end = value.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &value[..end]
}

/// The [`binary_key`] of every value, NULL for NULL. The bytes are not copied.
///
/// # Errors
/// An internal error if the array is invalid.
pub fn binary_keys(values: &BinaryViewArray) -> Result<BinaryViewArray, SqlError> {
    let views = values.views().iter().enumerate().map(|(row, view)| {
        if values.is_null(row) {
            return 0;
        }
        let value = values.value(row);
        let key = binary_key(value);
        let place = ByteView::from(*view);
        match key.len() {
            same if same == value.len() => *view,
            ..=INLINE => make_view(key, 0, 0),
            _ => make_view(key, place.buffer_index, place.offset),
        }
    });
    BinaryViewArray::try_new(views.collect(), values.data_buffers().to_vec(), values.nulls().cloned())
        .map_err(crate::error::from_arrow)
}

fn too_long() -> SqlError {
    SqlError::internal("a text is too long for a sort key; compare a shorter part of it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_the_end_of_binaries_do_not_count() {
        let long = [&[7u8; 20][..], &[0; 3]].concat();
        let halved = [&[9u8; 5][..], &[0; 30]].concat();
        let values = BinaryViewArray::from(vec![
            Some(&[1, 0][..]),
            None,
            Some(&[0, 1]),
            Some(&[0, 0]),
            Some(&long),
            Some(&halved),
        ]);
        let keys = binary_keys(&values).unwrap();
        let expected =
            BinaryViewArray::from(vec![Some(&[1][..]), None, Some(&[0, 1]), Some(&[]), Some(&[7; 20]), Some(&[9; 5])]);
        assert_eq!(keys, expected);
    }

    #[test]
    fn keys_are_those_of_the_collation() {
        let texts = StringViewArray::from(vec![
            Some("Short"),
            None,
            Some("a string longer than twelve bytes   "),
            Some("é"),
            Some("x   "),
            Some("ünïcödé beyond the inline length"),
        ]);
        for collation in [Collation::Latin1GeneralCiAs, Collation::Latin1GeneralCsAs, Collation::Latin1GeneralBin2] {
            let keys = sort_keys(&texts, collation).unwrap();
            for row in 0..texts.len() {
                assert_eq!(keys.is_null(row), texts.is_null(row));
                if texts.is_valid(row) {
                    let mut key = Vec::new();
                    collation.sort_key(texts.value(row), &mut key);
                    assert_eq!(keys.value(row), key);
                }
            }
        }
    }
}
