//! Counting without reading rows: a page's header has its number of rows and the number of NULLs in each column.
//!
//! For a resident page this copies the words of the header and of the counts optimistically. The next pages' headers
//! are prefetched, so that their cache misses overlap.

use hobt_base::HobtId;
use hobt_page::{PageType, RowPage};

/// Rows and NULLs seen so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    columns: Vec<usize>,
    rows: u64,
    nulls: Vec<u64>,
}

/// The words of the header that hold the page's type, its column count, its HOBT and its row counts.
const TYPE_WORD: usize = 0;
const COLUMNS_WORD: usize = 1;
const HOBT_WORD: usize = 3;
const ROWS_WORD: usize = 6;
/// The null counts begin here, four a word.
const NULL_COUNTS_WORD: usize = 8;
/// Words that an optimistic copy may take: the header and the null counts of the first 64 columns.
pub(super) const WORDS_MAX: usize = NULL_COUNTS_WORD + 16;

/// Sixteen bits of a word.
fn lane(word: u64, lane: usize) -> u64 {
    word >> (16 * lane) & 0xFFFF
}

/// Slots in use without the deleted ones, of which there are never more.
fn live_rows(words: &[u64]) -> u64 {
    lane(words[ROWS_WORD], 0) - lane(words[ROWS_WORD], 2)
}

fn nulls(words: &[u64], column: usize) -> u64 {
    lane(words[NULL_COUNTS_WORD + column / 4], column % 4)
}

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

    /// How many words of a page hold all the counts; `None` if a column's count is too far behind.
    pub(super) fn words(&self) -> Option<usize> {
        let last = self.columns.iter().copied().max().map_or(0, |column| column / 4 + 1);
        let words = NULL_COUNTS_WORD + last;
        (words <= WORDS_MAX).then_some(words)
    }

    /// Whether the words are those of a row page of this table with plausible counts. With another page the count would
    /// be wrong without an error.
    pub(super) fn is_row_page(&self, words: &[u64], columns: usize, hobt: HobtId) -> bool {
        let page_type = words[TYPE_WORD].to_le_bytes()[5];
        page_type == PageType::Row as u8
            && lane(words[COLUMNS_WORD], 3) == columns as u64
            && words[HOBT_WORD] == hobt.0
            && lane(words[ROWS_WORD], 0) <= lane(words[ROWS_WORD], 1)
            && lane(words[ROWS_WORD], 2) <= lane(words[ROWS_WORD], 0)
            && self.columns.iter().all(|&column| nulls(words, column) <= live_rows(words))
    }

    /// Adds a page by its words, which [`Counts::is_row_page`] accepted.
    pub(super) fn add_words(&mut self, words: &[u64]) {
        self.rows += live_rows(words);
        for (sum, &column) in self.nulls.iter_mut().zip(&self.columns) {
            *sum += nulls(words, column);
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
