//! A row that is written: its location, and the hidden column that distinguishes rows with equal keys.

use hobt_access::{AccessError, Hobt};
use hobt_base::{PageId, SlotId};
use hobt_page::{RowImage, StoredValue};
use hobt_txn::RowId;
use hobt_txn::locks::KeyHash;

/// The location of a row of a table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RowAt {
    /// In a heap.
    Heap {
        /// The partition, from 0.
        partition: usize,
        /// Its page.
        page: PageId,
        /// Its slot there.
        slot: SlotId,
    },
    /// In a clustered index.
    Tree {
        /// The partition, from 0.
        partition: usize,
        /// The normalised key of the row.
        key: Vec<u8>,
    },
}

impl RowAt {
    /// The partition, from 0.
    pub fn partition(&self) -> usize {
        match self {
            RowAt::Heap { partition, .. } | RowAt::Tree { partition, .. } => *partition,
        }
    }

    /// Its identity in locks.
    pub fn id(&self) -> RowId {
        match self {
            RowAt::Heap { page, slot, .. } => RowId::Heap(*page, *slot),
            RowAt::Tree { key, .. } => RowId::Key(KeyHash::of(key)),
        }
    }

    /// The uniqueifier of a row of a clustered index that is not unique.
    pub fn uniqueifier(&self) -> Option<i32> {
        match self {
            RowAt::Heap { .. } => None,
            RowAt::Tree { key, .. } => uniqueifier_of_key(key),
        }
    }
}

/// A row that gets new values.
#[derive(Debug)]
pub struct RowUpdate {
    /// Where it is.
    pub at: RowAt,
    /// The partition that its new values belong to, from 0.
    pub partition: usize,
    /// All its new values, in the order of the table.
    pub row: RowImage,
}

/// The uniqueifier: the last column of a nonunique clustered key, an `int` that is not NULL; `None` if the key is too
/// short.
pub fn uniqueifier_of_key(key: &[u8]) -> Option<i32> {
    let last = key.last_chunk::<4>()?;
    Some((u32::from_be_bytes(*last) ^ 0x8000_0000).cast_signed())
}

/// The row with its hidden uniqueifier column.
pub(super) fn with_uniqueifier(row: &RowImage, uniqueifier: i32) -> RowImage {
    let hidden = uniqueifier.to_le_bytes();
    let values = (0..row.column_count()).map(|column| row.value(column)).chain([Some(hidden.as_slice())]);
    RowImage::new(values)
}

/// A row together with its values that are stored on pages of their own. Blocks on reading them.
///
/// # Errors
/// A page is damaged or cannot be read.
pub fn whole_row(hobt: &Hobt, row: RowImage) -> std::result::Result<RowImage, AccessError> {
    let mut long = Vec::new();
    for column in 0..row.column_count() {
        long.push(match row.stored(column) {
            StoredValue::Pointer(pointer) => Some(hobt.large_value(&pointer, None)?),
            StoredValue::Null | StoredValue::InRow(_) => None,
        });
    }
    if long.iter().all(Option::is_none) {
        return Ok(row);
    }
    let whole = long.iter().enumerate().map(|(column, long)| long.as_deref().or_else(|| row.value(column)));
    Ok(RowImage::new(whole))
}
