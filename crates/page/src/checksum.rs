//! The checksum of pages: CRC-32C over all bytes after it.

use hobt_base::{PageId, crc32c};

use crate::{PageBytes, PageDamage, PageHeader, put_u32, u32_at};

/// CRC-32C of a value whose bytes arrive piece by piece.
#[derive(Debug)]
pub struct ValueChecksum(crc_fast::Digest);

impl Default for ValueChecksum {
    fn default() -> ValueChecksum {
        ValueChecksum(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }
}

impl ValueChecksum {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn value(&self) -> u32 {
        u32::try_from(self.0.finalize()).expect("a 32-bit checksum")
    }
}

/// Puts the checksum into the header, as the last step before a page is written.
pub fn seal(page: &mut PageBytes) {
    let checksum = crc32c(&page[4..]);
    put_u32(page, 0, checksum);
}

/// Checks a page that was read from `expected`, as the first step after the read.
///
/// A page of zeros is accepted as never formatted (its checksum field is 0 and so is everything else).
///
/// # Errors
/// What is wrong with the page; see [`PageDamage`].
pub fn verify(page: &PageBytes, expected: PageId, database_tag: u32) -> Result<(), PageDamage> {
    let stored = u32_at(page, 0);
    let actual = crc32c(&page[4..]);
    if stored != actual {
        if stored == 0 && page.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        return Err(PageDamage::Checksum { expected: stored, actual });
    }
    let header = PageHeader::read(page)?;
    if header.database_tag != database_tag {
        return Err(PageDamage::Database { found: header.database_tag });
    }
    if header.page != expected {
        return Err(PageDamage::Address { found: header.page });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hobt_base::{FileId, HobtId, PAGE_SIZE, PageId};

    use super::*;
    use crate::PageType;

    fn sealed() -> (Box<PageBytes>, PageId) {
        let id = PageId::new(FileId(3), 77);
        let mut page = Box::new([0u8; PAGE_SIZE]);
        PageHeader::new(PageType::Row, id, 9, HobtId(5)).write(&mut page);
        page[4000] = 0xAB;
        seal(&mut page);
        (page, id)
    }

    #[test]
    fn pieces_have_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..20_000u32).map(|at| (at * 7 % 251) as u8).collect();
        let mut checksum = ValueChecksum::default();
        bytes.chunks(777).for_each(|piece| checksum.add(piece));
        assert_eq!(checksum.value(), crc32c(&bytes));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let (mut page, id) = sealed();
        assert_eq!(verify(&page, id, 9), Ok(()));
        for byte in 0..PAGE_SIZE {
            for bit in 0..8 {
                page[byte] ^= 1 << bit;
                assert!(verify(&page, id, 9).is_err(), "byte {byte} bit {bit}");
                page[byte] ^= 1 << bit;
            }
        }
    }

    #[test]
    fn a_page_from_elsewhere_is_refused() {
        let (page, id) = sealed();
        let other = PageId::new(FileId(3), 78);
        assert_eq!(verify(&page, other, 9), Err(PageDamage::Address { found: id }));
        assert_eq!(verify(&page, id, 8), Err(PageDamage::Database { found: 9 }));
    }
}
