//! Which extents of a file are allocated: one bit an extent, 1 for allocated.
//!
//! A file is divided into intervals of [`INTERVAL_PAGES`] pages. The first extent of each interval is reserved for
//! allocation pages. Its page 2 is the map; pages 3 and 4 are for the map of extents written since the last full backup
//! ([`WrittenMap`](crate::WrittenMap)). Page 0 of the file is its header, page 1 the header's copy; the first file
//! has its
//! boot page and the copy of that in pages 5 and 6.

use hobt_base::{EXTENT_PAGES, PAGE_SIZE};

use crate::PageBytes;
use crate::header::HEADER_SIZE;

/// Extents that one map page describes.
pub const EXTENTS_PER_MAP: u32 = ((PAGE_SIZE - HEADER_SIZE) * 8) as u32;
/// Pages of an interval.
pub const INTERVAL_PAGES: u32 = EXTENTS_PER_MAP * EXTENT_PAGES;
/// The map's page within its interval.
pub const MAP_PAGE_IN_INTERVAL: u32 = 2;
/// Pages at the start of each interval that hold no HOBT's data.
pub const RESERVED_PAGES: u32 = EXTENT_PAGES;

/// The map page that describes the extent of `page_number`.
pub const fn map_page_of(page_number: u32) -> u32 {
    page_number / INTERVAL_PAGES * INTERVAL_PAGES + MAP_PAGE_IN_INTERVAL
}

/// The bits of a map page.
#[derive(Debug)]
pub struct AllocationMap;

impl AllocationMap {
    /// Whether extent `index` of the interval is allocated.
    pub fn is_allocated(page: &PageBytes, index: u32) -> bool {
        let index = index as usize;
        page[HEADER_SIZE + index / 8] >> (index % 8) & 1 == 1
    }

    /// The bitmap's bytes, for building a copy in memory.
    pub fn bits(page: &PageBytes) -> &[u8] {
        &page[HEADER_SIZE..]
    }

    /// The offset and the bytes after setting extents `first..first + count` to `allocated`, for a
    /// [`crate::PageChange::Write`].
    ///
    /// # Panics
    /// If the extents are not all in this map.
    pub fn set_bytes(page: &PageBytes, first: u32, count: u32, allocated: bool) -> (u16, Vec<u8>) {
        assert!(count > 0 && first + count <= EXTENTS_PER_MAP, "extents of this map");
        let from = (first / 8) as usize;
        let to = ((first + count - 1) / 8) as usize;
        let mut bytes = page[HEADER_SIZE + from..=HEADER_SIZE + to].to_vec();
        for extent in first..first + count {
            let bit = 1u8 << (extent % 8);
            let byte = &mut bytes[(extent / 8) as usize - from];
            if allocated { *byte |= bit } else { *byte &= !bit }
        }
        (u16::try_from(HEADER_SIZE + from).expect("in the page"), bytes)
    }
}
