//! The pages of a HOBT: runs of contiguous extents, in the order in which they were allocated.
//!
//! ```text
//! 64 rows of the HOBT u64 | 72 reserved u64 | 80 entries of 16 bytes:
//!    file u16 | skip u16 | first page u32 | pages u32 | used u32
//! ```
//! The entry count is the header's `row_count`; `next` chains the pages of a long list, and the row count is in the
//! first. The first `used` pages of a run are formatted, the rest is room to grow. The first `skip` of them hold no
//! rows (a run-list page is the first page of the run that it was allocated with). A `skip` of 65,535 says that the run
//! holds pieces of large values and no rows at all.

use std::ops::Range;

use hobt_base::{EXTENT_PAGES, FileId, PAGE_SIZE, PageId};

use crate::header::HEADER_SIZE;
use crate::{PageBytes, PageDamage, PageHeader, PageType, put_u16, put_u32, u16_at, u32_at};

const ENTRY_SIZE: usize = 16;
const ENTRIES: usize = HEADER_SIZE + 16;

/// Runs that one page of the list holds.
pub const RUNS_PER_PAGE: usize = (PAGE_SIZE - ENTRIES) / ENTRY_SIZE;

/// The `skip` of a run of large values.
const LARGE_VALUES: u16 = u16::MAX;

/// The use of a run's used pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunContents {
    /// Rows, except in the first `skip` pages.
    Rows,
    /// Pieces of values that do not fit their rows.
    LargeValues,
}

/// Contiguous pages of one file that belong to one HOBT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first page; a multiple of an extent.
    pub first: PageId,
    /// Pages allocated, a multiple of an extent.
    pub page_count: u32,
    /// Pages at the front that are formatted.
    pub used: u32,
    /// Those at the front of the used pages that hold no rows; 0 in a run of large values.
    pub skip: u16,
    /// The contents of the other used pages.
    pub contents: RunContents,
}

impl Run {
    /// The page number after the last used page.
    pub fn used_end(&self) -> u32 {
        self.first.number + self.used
    }

    /// The page numbers of its pages that hold rows.
    pub fn row_pages(&self) -> Range<u32> {
        match self.contents {
            RunContents::Rows => self.first.number + u32::from(self.skip)..self.used_end(),
            RunContents::LargeValues => self.first.number..self.first.number,
        }
    }

    /// The number of its pages that hold rows.
    pub fn row_page_count(&self) -> u32 {
        let pages = self.row_pages();
        pages.end - pages.start
    }
}

/// Reads and writes the entries of a run-list page.
#[derive(Debug)]
pub struct RunListPage;

impl RunListPage {
    /// The runs in the page.
    ///
    /// # Errors
    /// The page is not one of a run list, or an entry is impossible.
    pub fn read(page: &PageBytes) -> Result<Vec<Run>, PageDamage> {
        let header = PageHeader::read(page)?;
        if header.page_type != PageType::RunList {
            return Err(PageDamage::Type { found: header.page_type as u8 });
        }
        let count = usize::from(header.row_count);
        if count > RUNS_PER_PAGE {
            return Err(PageDamage::Structure { rule: "entry count of a run list" });
        }
        (0..count).map(|index| RunListPage::entry(page, index)).collect()
    }

    /// The number of rows of the HOBT at the last checkpoint, kept in the first page of the list.
    pub fn row_count(page: &PageBytes) -> u64 {
        crate::u64_at(page, HEADER_SIZE)
    }

    /// The offset and the bytes of the row count, for a [`crate::PageChange::Write`].
    pub fn row_count_bytes(rows: u64) -> (u16, Vec<u8>) {
        (u16::try_from(HEADER_SIZE).expect("in the page"), rows.to_le_bytes().to_vec())
    }

    /// Copies the row count from one page of a list to another.
    pub fn copy_row_count(from: &PageBytes, to: &mut PageBytes) {
        let place = HEADER_SIZE..HEADER_SIZE + size_of::<u64>();
        to[place.clone()].copy_from_slice(&from[place]);
    }

    fn entry(page: &PageBytes, index: usize) -> Result<Run, PageDamage> {
        let at = ENTRIES + index * ENTRY_SIZE;
        let skip = u16_at(page, at + 2);
        let contents = if skip == LARGE_VALUES { RunContents::LargeValues } else { RunContents::Rows };
        let run = Run {
            first: PageId::new(FileId(u16_at(page, at)), u32_at(page, at + 4)),
            page_count: u32_at(page, at + 8),
            used: u32_at(page, at + 12),
            skip: if contents == RunContents::Rows { skip } else { 0 },
            contents,
        };
        let sound = run.used <= run.page_count
            && u32::from(run.skip) <= run.used
            && run.page_count > 0
            && run.page_count.is_multiple_of(EXTENT_PAGES)
            && run.first.number.is_multiple_of(EXTENT_PAGES)
            && run.first.number.checked_add(run.page_count).is_some();
        if sound { Ok(run) } else { Err(PageDamage::Structure { rule: "an entry of a run list" }) }
    }

    /// The offset and the bytes of entry `index`, for a [`crate::PageChange::Write`].
    pub fn entry_bytes(index: usize, run: &Run) -> (u16, Vec<u8>) {
        assert!(index < RUNS_PER_PAGE, "an entry of the page");
        let mut scratch = [0u8; PAGE_SIZE];
        put_u16(&mut scratch, 0, run.first.file.0);
        put_u16(&mut scratch, 2, if run.contents == RunContents::Rows { run.skip } else { LARGE_VALUES });
        put_u32(&mut scratch, 4, run.first.number);
        put_u32(&mut scratch, 8, run.page_count);
        put_u32(&mut scratch, 12, run.used);
        let offset = u16::try_from(ENTRIES + index * ENTRY_SIZE).expect("in the page");
        (offset, scratch[..ENTRY_SIZE].to_vec())
    }
}
