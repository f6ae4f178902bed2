//! Where a scan's rows lie, for statements that change what they read.
//!
//! ```text
//!  bits   95        64 63   48 47          16 15    0
//!        │ partition  │  file  │ page number  │ slot  │
//! ```
//!
//! One number says it all, so that a plan carries it like any other column. Places hold until the statement changes the
//! table for the first time.

use hobt_base::{FileId, PageId, SlotId};
use hobt_page::RowPage;

/// A row's place in the HOBTs of a scan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RowPlace {
    /// The HOBT's place in the scan.
    pub partition: u32,
    /// The page.
    pub page: PageId,
    /// The row in the page.
    pub slot: SlotId,
}

impl RowPlace {
    /// The place as a number, not negative and below 2^96.
    pub const fn number(self) -> i128 {
        let page = (self.page.file.0 as u64) << 48 | (self.page.number as u64) << 16 | self.slot.0 as u64;
        (self.partition as i128) << 64 | page as i128
    }

    /// The place that a number of [`RowPlace::number`] says. The casts take the fields apart.
    pub const fn of_number(number: i128) -> RowPlace {
        let page = PageId::new(FileId((number >> 48) as u16), (number >> 16) as u32);
        RowPlace { partition: (number >> 64) as u32, page, slot: SlotId(number as u16) }
    }
}

/// The places of a batch's rows, as numbers.
#[derive(Clone, Debug, Default)]
pub struct PlaceVector {
    /// A number for each row, see [`RowPlace::number`].
    pub numbers: Vec<i128>,
}

impl PlaceVector {
    /// Adds the places of a page's live rows, in the order in which [`super::ColumnVector::append_page`] adds their values.
    pub fn append_page(&mut self, partition: usize, id: PageId, page: &RowPage<'_>) {
        let partition = u32::try_from(partition).expect("at most 15,000 partitions");
        let live = (0..page.row_count()).filter(|&slot| !page.is_deleted(slot));
        self.numbers.extend(live.map(|slot| {
            let slot = SlotId(u16::try_from(slot).expect("a page's slot"));
            RowPlace { partition, page: id, slot }.number()
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
