//! A cursor over neighbouring pages: the inner loop of a warm scan.

use std::cell::Cell;

use crate::file::{TryRead, try_read_cell};
use crate::frames::{Optimistic, PageCell, SegmentRef, StateWords};

/// Neighbouring pages of a file. It remembers the last segment of state words used, so each page costs the load of its
/// word, the access itself, and the check afterwards.
///
/// None of its accesses counts as use that keeps a page in the pool.
pub struct PageRun<'a> {
    words: &'a StateWords,
    segment: Cell<Option<SegmentRef<'a>>>,
    first: u32,
    count: u32,
}

impl<'a> PageRun<'a> {
    pub(crate) fn new(words: &'a StateWords, first: u32, count: u32) -> PageRun<'a> {
        PageRun { words, segment: Cell::new(words.segment(first)), first, count }
    }

    /// The first page and the number of pages.
    pub fn range(&self) -> (u32, u32) {
        (self.first, self.count)
    }

    #[inline]
    fn cell(&self, number: u32) -> Option<PageCell<'a>> {
        debug_assert!(number.wrapping_sub(self.first) < self.count, "page {number} is outside the run");
        match self.segment.get() {
            Some(segment) if segment.holds(number) => Some(segment.cell(number)),
            _ => self.move_to(number),
        }
    }

    #[cold]
    fn move_to(&self, number: u32) -> Option<PageCell<'a>> {
        let segment = self.words.segment(number)?;
        self.segment.set(Some(segment));
        Some(segment.cell(number))
    }

    /// As [`crate::PoolFile::optimistic_words`].
    ///
    /// # Panics
    /// The words reach over the page's end.
    #[inline]
    pub fn optimistic_words(&self, number: u32, first_word: usize, out: &mut [u64]) -> Optimistic {
        self.cell(number).map_or(Optimistic::NotResident, |cell| cell.copy_words(first_word, out))
    }

    /// As [`crate::PoolFile::prefetch`].
    #[inline]
    pub fn prefetch(&self, number: u32, first_byte: usize, bytes: usize) {
        if let Some(cell) = self.cell(number) {
            cell.prefetch(first_byte, bytes);
        }
    }

    /// As [`crate::PoolFile::try_read`].
    #[inline]
    pub fn try_read(&self, number: u32) -> TryRead<'a> {
        self.cell(number).map_or(TryRead::NotResident, try_read_cell)
    }
}

impl std::fmt::Debug for PageRun<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageRun({}, {} pages)", self.first, self.count)
    }
}
