//! Checks that both copies of each file's header match the database, and that both copies of the boot page are equal.

use hobt_base::PageId;
use hobt_page::{BOOT_COPY_PAGE, BOOT_PAGE, FILE_HEADER_COPY_PAGE, FILE_HEADER_PAGE, PageDamage};

use super::problem::place_of;
use super::{Found, Problem};
use crate::database::{Database, TEMPDB};
use crate::error::Result;

impl Database {
    /// The copies that were rewritten from the other copy when the database was opened: damage at rest, or a write that
    /// a crash interrupted, which look alike. One text for each copy of a header or of the boot page.
    pub fn mended_copies(&self) -> Vec<String> {
        let text = |(page, damage): &(PageId, PageDamage)| {
            format!("Page {page}: {damage}; {}. It was written anew from its other copy.", place_of(self, *page))
        };
        self.mended.lock().iter().map(text).collect()
    }

    /// The copies that differ from what was written last. Waits for a checkpoint.
    pub(super) fn check_headers(&self) -> Result<Vec<Found>> {
        let files = self.files.lock();
        let mut found = Vec::new();
        let mut note = |file, page, reason: String| {
            found.push(Found { problem: Problem::Header { file, page, reason }, owner: None });
        };
        for file in &files.files {
            for page in [FILE_HEADER_PAGE, FILE_HEADER_COPY_PAGE] {
                match file.read_header_copy(page)? {
                    Ok(header) if header == file.header => {}
                    Ok(_) => note(file.header.file, page, "a file's header says what the other copy says".to_owned()),
                    Err(damage) => note(file.header.file, page, damage.to_string()),
                }
            }
        }
        // tempdb has no boot page: it is never opened.
        if let Some(first) = files.files.first().filter(|_| self.id != TEMPDB) {
            let copies = [first.read_boot_copy(BOOT_PAGE)?, first.read_boot_copy(BOOT_COPY_PAGE)?];
            for (page, copy) in [BOOT_PAGE, BOOT_COPY_PAGE].into_iter().zip(&copies) {
                match copy {
                    Ok(boot) if boot.database_guid == self.guid => {}
                    Ok(_) => note(first.header.file, page, "the boot page is this database's".to_owned()),
                    Err(damage) => note(first.header.file, page, damage.to_string()),
                }
            }
            if let [Ok(boot), Ok(copy)] = &copies
                && boot != copy
            {
                note(first.header.file, BOOT_COPY_PAGE, "both copies of the boot page say the same".to_owned());
            }
        }
        Ok(found)
    }
}
