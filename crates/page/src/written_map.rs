//! Which extents of an interval were written since the last full backup: one bit an extent, 1 for written.
//!
//! Two copies are written in turn, pages 3 and 4 of the interval; the newer sound one holds. They lie outside the log
//! and the pool. In the header, `hobt` names the backup, `lsn` is where that begins, and `newest_writer` counts the
//! writes.

use hobt_base::{FileId, HobtId, Lsn, PAGE_SIZE, PageId, Stamp};

use crate::allocation::{EXTENTS_PER_MAP, INTERVAL_PAGES};
use crate::header::HEADER_SIZE;
use crate::{PageBytes, PageDamage, PageHeader, PageType, verify};

/// The two copies within their interval.
const COPIES: [u32; 2] = [3, 4];

/// The backup that written extents are counted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrittenSince {
    /// Names the backup.
    pub backup: u64,
    /// The first position of the log that it has.
    pub first: Lsn,
}

/// A map of written extents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrittenMap {
    /// What it counts from.
    pub since: WrittenSince,
    /// One more with each write.
    pub version: u64,
    /// The bits of the interval's extents, in words of 64.
    pub bits: Vec<u64>,
}

/// Words of one map.
const WORDS: usize = (EXTENTS_PER_MAP / 64) as usize;
const _: () = assert!(WORDS * 8 + HEADER_SIZE == PAGE_SIZE);

impl WrittenMap {
    /// Words of 64 extents that one map has.
    pub const WORDS: usize = WORDS;

    /// The two pages of the map of interval `interval`; version `v` is in the one at `v % 2`.
    pub fn pages(interval: u32) -> [u32; 2] {
        COPIES.map(|page| interval * INTERVAL_PAGES + page)
    }

    /// The page of the map of interval `interval` that its version `version` is written to.
    pub fn page_of(interval: u32, version: u64) -> u32 {
        WrittenMap::pages(interval)[usize::from(!version.is_multiple_of(2))]
    }

    /// Whether a page is kept for such a map.
    pub fn is_map(number: u32) -> bool {
        COPIES.contains(&(number % INTERVAL_PAGES))
    }

    /// The map in a page that was read from `expected`.
    ///
    /// # Errors
    /// The page is damaged, or was never written.
    pub fn read(page: &PageBytes, expected: PageId, database_tag: u32) -> Result<WrittenMap, PageDamage> {
        verify(page, expected, database_tag)?;
        let header = PageHeader::read(page)?;
        if header.page_type != PageType::WrittenMap {
            return Err(PageDamage::Type { found: header.page_type as u8 });
        }
        let words = page[HEADER_SIZE..].as_chunks::<8>().0;
        Ok(WrittenMap {
            since: WrittenSince { backup: header.hobt.0, first: header.lsn },
            version: header.newest_writer.0,
            bits: words.iter().map(|word| u64::from_le_bytes(*word)).collect(),
        })
    }

    /// The sealed page for interval `interval` of a file. Words that are missing are 0.
    pub fn to_page(&self, file: FileId, interval: u32, database_tag: u32) -> Box<PageBytes> {
        let mut page = Box::new([0; PAGE_SIZE]);
        let number = WrittenMap::page_of(interval, self.version);
        let id = PageId::new(file, number);
        let mut header = PageHeader::new(PageType::WrittenMap, id, database_tag, HobtId(self.since.backup));
        header.lsn = self.since.first;
        header.newest_writer = Stamp(self.version);
        header.write(&mut page);
        for (bytes, word) in page[HEADER_SIZE..].as_chunks_mut::<8>().0.iter_mut().zip(&self.bits) {
            *bytes = word.to_le_bytes();
        }
        crate::seal(&mut page);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_comes_back_from_the_copy_of_its_version() {
        for version in [4, 5] {
            let since = WrittenSince { backup: 77, first: Lsn(4096) };
            let map = WrittenMap { since, version, bits: (0..WORDS as u64).map(|word| word * 3).collect() };
            let page = map.to_page(FileId(3), 2, 9);
            let number = WrittenMap::pages(2)[(version % 2) as usize];
            assert_eq!(WrittenMap::read(&page, PageId::new(FileId(3), number), 9), Ok(map));
            assert!(WrittenMap::is_map(number) && !WrittenMap::is_map(number + 2));
            assert!(WrittenMap::read(&page, PageId::new(FileId(3), number + 1), 9).is_err());
        }
        assert!(WrittenMap::read(&[0; PAGE_SIZE], PageId::new(FileId(1), 3), 9).is_err(), "never written");
    }
}
