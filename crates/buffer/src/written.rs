//! Which extents of a file were written since counting began: what a differential backup copies.
//!
//! An extent is noted before it is written: a backup that takes the bits, and copies the extents later, misses no write
//! that was done before. It is noted once more after the write: a full backup may have cleared the bits meanwhile.

use hobt_base::EXTENT_PAGES;
use hobt_instruments::schedule::Mutex;

/// One bit an extent, grown as extents are written.
#[derive(Debug, Default)]
pub struct WrittenExtents(Mutex<Vec<u64>>);

impl WrittenExtents {
    /// Notes the extents of pages.
    pub fn note(&self, first_page: u32, pages: u32) {
        let Some(last_page) = pages.checked_sub(1).map(|more| first_page.saturating_add(more)) else { return };
        let (first, last) = (first_page / EXTENT_PAGES, last_page / EXTENT_PAGES);
        let mut words = self.0.lock();
        let needed = (last / 64) as usize + 1;
        if words.len() < needed {
            words.resize(needed, 0);
        }
        (first..=last).for_each(|extent| words[(extent / 64) as usize] |= 1 << (extent % 64));
    }

    /// The bits, in words of 64 extents. Words that are missing at the end are 0.
    pub fn bits(&self) -> Vec<u64> {
        self.0.lock().clone()
    }

    /// Replaces the bits. Returns those that there were.
    pub fn replace(&self, bits: Vec<u64>) -> Vec<u64> {
        std::mem::replace(&mut self.0.lock(), bits)
    }

    /// Adds bits.
    pub fn add(&self, bits: &[u64]) {
        let mut words = self.0.lock();
        if words.len() < bits.len() {
            words.resize(bits.len(), 0);
        }
        words.iter_mut().zip(bits).for_each(|(word, more)| *word |= more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_extent_of_a_write_is_noted() {
        let written = WrittenExtents::default();
        written.note(7, 0);
        assert!(written.bits().is_empty());
        written.note(7, 2);
        written.note(64 * EXTENT_PAGES - 1, 1);
        assert_eq!(written.bits(), [1 << 63 | 0b11]);
        let before = written.replace(vec![4]);
        written.note(64 * EXTENT_PAGES, EXTENT_PAGES + 1);
        written.add(&before);
        assert_eq!(written.bits(), [1 << 63 | 0b111, 0b11]);
    }
}
