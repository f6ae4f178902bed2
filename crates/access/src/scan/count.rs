//! Counting without looking at rows: the header of a page says how many rows it has and how many NULLs in each column.
//!
//! For a resident page this copies three or four words optimistically; the next pages' headers are prefetched, so that
//! their cache misses overlap.

use hobt_page::RowPage;

/// Rows and NULLs seen so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    columns: Vec<usize>,
    rows: u64,
    nulls: Vec<u64>,
}

/// The word of the header that holds the row counts, and how many words reach to the null count of a column.
pub(super) const FIRST_WORD: usize = 6;
const NULL_COUNTS_WORD: usize = 8;
/// Words that an optimistic copy may take: null counts of the first 64 columns.
pub(super) const WORDS_MAX: usize = NULL_COUNTS_WORD - FIRST_WORD + 16;

impl Counts {
    /// Counts rows, and NULLs of `columns`.
    pub fn new(columns: Vec<usize>) -> Counts {
        let nulls = vec![0; columns.len()];
        Counts { columns, rows: 0, nulls }
    }

    /// Rows seen.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// NULLs of each column, in the order given to `new`.
    pub fn nulls(&self) -> &[u64] {
        &self.nulls
    }

    /// Adds another worker's counts of the same columns.
    pub fn merge(&mut self, other: &Counts) {
        self.rows += other.rows;
        for (sum, count) in self.nulls.iter_mut().zip(&other.nulls) {
            *sum += count;
        }
    }

    /// Words from [`FIRST_WORD`] on that hold all the counts; `None` if a column is too far behind.
    pub(super) fn words(&self) -> Option<usize> {
        let last = self.columns.iter().copied().max().map_or(0, |column| column / 4 + 1);
        let words = NULL_COUNTS_WORD - FIRST_WORD + last;
        (words <= WORDS_MAX).then_some(words)
    }

    /// Adds a page by its words. The caller has checked that it is a row page of the table.
    pub(super) fn add_words(&mut self, words: &[u64]) {
        let lanes = |word: u64, lane: usize| word >> (16 * lane) & 0xFFFF;
        self.rows += lanes(words[0], 0).saturating_sub(lanes(words[0], 2));
        for (sum, &column) in self.nulls.iter_mut().zip(&self.columns) {
            *sum += lanes(words[NULL_COUNTS_WORD - FIRST_WORD + column / 4], column % 4);
        }
    }

    /// Adds a page.
    pub(super) fn add_page(&mut self, page: &RowPage<'_>) {
        self.rows += (page.row_count() - page.deleted_count()) as u64;
        for (sum, &column) in self.nulls.iter_mut().zip(&self.columns) {
            *sum += page.null_count(column) as u64;
        }
    }
}
