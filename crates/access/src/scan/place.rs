//! Row positions of a scan, for statements that change the rows that they read.
//!
//! ```text
//!  bits   95        64 63   48 47          16 15    0
//!        │ partition  │  file  │ page number  │ slot  │
//! ```
//!
//! One number is the whole position, so that a plan carries it like any other column. Positions are valid until the
//! statement first changes the table.
//!
//! Rows of a B+tree have no lasting position: a split moves them. They are found again by their key ([`KeyPlace`]): the
//! partition in four bytes, most significant first, and the normalised key.

use hobt_base::{FileId, PageId, SlotId};
use hobt_page::RowPage;
use hobt_types::PhysicalType;

use super::{ColumnKind, ColumnVector};
use crate::{AccessError, BTree};

/// A row's position in the HOBTs of a scan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RowPlace {
    /// The HOBT's index in the scan.
    pub partition: u32,
    /// The page.
    pub page: PageId,
    /// The row in the page.
    pub slot: SlotId,
}

impl RowPlace {
    /// The position as a number, not negative and below 2^96.
    pub const fn number(self) -> i128 {
        (self.partition as i128) << 64 | RowPlace::row_id(self.page, self.slot).cast_unsigned() as i128
    }

    /// File, page and slot in one number: how an index refers to a row of a heap.
    pub const fn row_id(page: PageId, slot: SlotId) -> i64 {
        ((page.file.0 as u64) << 48 | (page.number as u64) << 16 | slot.0 as u64).cast_signed()
    }

    /// The position in a partition from a number of [`RowPlace::row_id`].
    pub const fn of_row_id(partition: u32, id: i64) -> RowPlace {
        RowPlace::of_number((partition as i128) << 64 | id.cast_unsigned() as i128)
    }

    /// The position from a number of [`RowPlace::number`]. The casts separate the fields.
    pub const fn of_number(number: i128) -> RowPlace {
        let page = PageId::new(FileId((number >> 48) as u16), (number >> 16) as u32);
        RowPlace { partition: (number >> 64) as u32, page, slot: SlotId(number as u16) }
    }
}

/// The positions of a batch's rows, as numbers.
#[derive(Clone, Debug, Default)]
pub struct PlaceVector {
    /// A number for each row, see [`RowPlace::number`].
    pub numbers: Vec<i128>,
}

impl PlaceVector {
    /// Adds the positions of a page's live rows, in the order in which [`super::ColumnVector::append_page`] adds their
    /// values.
    pub fn append_page(&mut self, partition: usize, id: PageId, page: &RowPage<'_>) {
        let partition = u32::try_from(partition).expect("at most 15,000 partitions");
        let live = (0..page.row_count()).filter(|&slot| !page.is_deleted(slot));
        self.extend(partition, id, live);
    }

    /// Adds the positions of a page's rows by their slots, in this order.
    pub fn append_slots(&mut self, partition: usize, id: PageId, slots: &[usize]) {
        let partition = u32::try_from(partition).expect("at most 15,000 partitions");
        self.extend(partition, id, slots.iter().copied());
    }

    fn extend(&mut self, partition: u32, page: PageId, slots: impl Iterator<Item = usize>) {
        self.numbers.extend(slots.map(|slot| {
            let slot = SlotId(u16::try_from(slot).expect("a page's slot"));
            RowPlace { partition, page, slot }.number()
        }));
    }
}

/// Identifies a row of a tree so that it is found again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyPlace<'k> {
    /// The tree's index in the scan.
    pub partition: u32,
    /// The row's normalised key.
    pub key: &'k [u8],
}

impl<'k> KeyPlace<'k> {
    /// Appends its bytes. They sort by partition, then by key.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.partition.to_be_bytes());
        out.extend_from_slice(self.key);
    }

    /// Reads the bytes of [`KeyPlace::write`]; `None` if they are too few.
    pub fn read(bytes: &'k [u8]) -> Option<KeyPlace<'k>> {
        let (partition, key) = bytes.split_first_chunk()?;
        Some(KeyPlace { partition: u32::from_be_bytes(*partition), key })
    }
}

/// The identifications of a batch's rows of trees.
#[derive(Clone, Debug)]
pub struct KeyPlaces {
    vector: ColumnVector,
    place: Vec<u8>,
    key: Vec<u8>,
}

impl KeyPlaces {
    /// An empty list, for a column of this number.
    pub fn new(column: usize) -> KeyPlaces {
        let vector = ColumnVector::new(column, PhysicalType::Variable, ColumnKind::Native, false);
        KeyPlaces { vector, place: Vec::new(), key: Vec::new() }
    }

    /// Adds those of a page's live rows, in the order in which [`ColumnVector::append_page`] adds their values.
    ///
    /// # Errors
    /// The page is damaged.
    pub fn append_page(
        &mut self,
        partition: usize,
        tree: &BTree,
        id: PageId,
        page: &RowPage<'_>,
    ) -> Result<(), AccessError> {
        let mut live = (0..page.row_count()).filter(|&slot| !page.is_deleted(slot));
        live.try_for_each(|slot| self.append(partition, tree, id, page, slot))
    }

    /// Adds those of rows by their slots, in this order.
    ///
    /// # Errors
    /// The page is damaged.
    ///
    /// # Panics
    /// If a slot is not in use.
    pub fn append_slots(
        &mut self,
        partition: usize,
        tree: &BTree,
        id: PageId,
        page: &RowPage<'_>,
        slots: &[usize],
    ) -> Result<(), AccessError> {
        slots.iter().try_for_each(|&slot| self.append(partition, tree, id, page, slot))
    }

    fn append(
        &mut self,
        partition: usize,
        tree: &BTree,
        id: PageId,
        page: &RowPage<'_>,
        slot: usize,
    ) -> Result<(), AccessError> {
        let partition = u32::try_from(partition).expect("at most 15,000 partitions");
        self.place.clear();
        let appended = tree.key_of_slot(page, slot, &mut self.key).and_then(|()| {
            KeyPlace { partition, key: &self.key }.write(&mut self.place);
            self.vector.push_bytes(&self.place)
        });
        appended.map_err(|damage| tree.hobt().damaged(id, damage))
    }

    /// How many there are.
    pub fn rows(&self) -> usize {
        self.vector.rows()
    }

    /// The list as a column of byte strings, none of them NULL.
    pub fn vector(&self) -> &ColumnVector {
        &self.vector
    }

    /// As [`KeyPlaces::vector`], moved out.
    pub fn into_vector(self) -> ColumnVector {
        self.vector
    }

    /// An empty list, with capacity for as many.
    #[must_use]
    pub fn next(&self) -> KeyPlaces {
        KeyPlaces { vector: self.vector.next(), place: Vec::new(), key: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_say_the_partition_and_the_key() {
        let places = [(0, &b""[..]), (1, b"\0"), (1, b"\0a"), (256, b""), (14_999, b"\xFF\xFF")];
        let mut all = Vec::new();
        for (partition, key) in places {
            let mut bytes = Vec::new();
            KeyPlace { partition, key }.write(&mut bytes);
            assert_eq!(KeyPlace::read(&bytes), Some(KeyPlace { partition, key }));
            all.push(bytes);
        }
        assert!(all.is_sorted());
        assert_eq!(KeyPlace::read(&[0, 0, 1]), None);
    }

    #[test]
    fn a_number_says_the_whole_place() {
        let places = [(0, 1, 0, 0), (14_999, u16::MAX, u32::MAX, u16::MAX), (7, 3, 0x8000_0001, 0x8001)];
        for (partition, file, number, slot) in places {
            let place = RowPlace { partition, page: PageId::new(FileId(file), number), slot: SlotId(slot) };
            assert!(place.number() >= 0);
            assert_eq!(RowPlace::of_number(place.number()), place);
        }
    }
}
