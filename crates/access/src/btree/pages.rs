//! Access to a tree's pages: guards that are held across pages, and the checks of every page.
//!
//! A guard lives as long as the reference to its file. A [`FileTable`] keeps the files of a tree's pages for as long as
//! the tree exists, so that guards of several pages can be held and returned.

use std::sync::{Arc, OnceLock};

use hobt_base::{FileId, PageId};
use hobt_buffer::{ExclusiveGuard, ReadCounts, ReadOptions, SharedGuard};
use hobt_page::{IndexPage, PageBytes, PageDamage, PageHeader, PageType, RowPage};

use super::BTree;
use crate::{AccessError, DataFile, Storage};

/// The number of files in one part of the table.
const CHUNK: usize = 256;

type Chunk = Box<[OnceLock<Arc<DataFile>>]>;

/// The files of a tree's pages, each looked up once.
pub(super) struct FileTable {
    chunks: Box<[OnceLock<Chunk>]>,
}

impl FileTable {
    pub(super) fn new() -> FileTable {
        let chunks = usize::from(u16::MAX) / CHUNK + 1;
        FileTable { chunks: (0..chunks).map(|_| OnceLock::new()).collect() }
    }

    fn get(&self, storage: &Storage, id: FileId) -> Result<&DataFile, AccessError> {
        let (chunk, place) = (usize::from(id.0) / CHUNK, usize::from(id.0) % CHUNK);
        let chunk = self.chunks[chunk].get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        if let Some(file) = chunk[place].get() {
            return Ok(file);
        }
        let file = storage.file(id)?;
        Ok(chunk[place].get_or_init(|| file))
    }
}

impl BTree {
    pub(super) fn file(&self, id: PageId) -> Result<&DataFile, AccessError> {
        let file = self.files.get(self.hobt.storage(), id.file);
        file.map_err(|_| self.damaged(id, "a page of a tree in a file that is there"))
    }

    /// A page of the tree, held shared. Blocks on the disk and on a thread that holds it exclusively.
    pub(super) fn read(&self, id: PageId) -> Result<SharedGuard<'_>, AccessError> {
        let file = self.file(id)?;
        file.pool_file().read(id.number).map_err(|error| AccessError::of_pool(error, file.name()))
    }

    /// As [`BTree::read`]; the read is counted in `counts`, if there are any.
    pub(super) fn read_counted(&self, id: PageId, counts: Option<&ReadCounts>) -> Result<SharedGuard<'_>, AccessError> {
        let file = self.file(id)?;
        let options = ReadOptions { counts, ..ReadOptions::default() };
        file.pool_file().read_with(id.number, options).map_err(|error| AccessError::of_pool(error, file.name()))
    }

    /// A page of the tree, held exclusively.
    pub(super) fn write(&self, id: PageId) -> Result<ExclusiveGuard<'_>, AccessError> {
        let file = self.file(id)?;
        file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))
    }

    /// A page that was newly allocated for the tree, zeroed and held exclusively.
    pub(super) fn create_page(&self, id: PageId) -> Result<ExclusiveGuard<'_>, AccessError> {
        let file = self.file(id)?;
        file.pool_file().create(id.number).map_err(|error| AccessError::of_pool(error, file.name()))
    }

    pub(super) fn damaged(&self, id: PageId, rule: &'static str) -> AccessError {
        self.hobt.damaged(id, PageDamage::Structure { rule })
    }

    /// The number of levels below a page, checked to be one of this tree.
    pub(super) fn level_of(&self, id: PageId, page: &PageBytes) -> Result<u8, AccessError> {
        let header = PageHeader::read(page).map_err(|damage| self.hobt.damaged(id, damage))?;
        if header.hobt != self.hobt.id() {
            return Err(self.damaged(id, "a page of another HOBT"));
        }
        match header.page_type {
            PageType::Row if header.level == 0 => Ok(0),
            PageType::Index if header.level > 0 => Ok(header.level),
            found => Err(self.hobt.damaged(id, PageDamage::Type { found: found as u8 })),
        }
    }

    /// Refuses a child that is not on the level below its parent, so that a descent ends.
    pub(super) fn expect_level(&self, id: PageId, page: &PageBytes, level: u8) -> Result<(), AccessError> {
        if self.level_of(id, page)? == level { Ok(()) } else { Err(self.damaged(id, "the level of a page of a tree")) }
    }

    pub(super) fn leaf<'p>(&'p self, id: PageId, page: &'p PageBytes) -> Result<RowPage<'p>, AccessError> {
        RowPage::open(page, self.hobt.row_layout()).map_err(|damage| self.hobt.damaged(id, damage))
    }

    pub(super) fn index<'p>(&self, id: PageId, page: &'p PageBytes) -> Result<IndexPage<'p>, AccessError> {
        IndexPage::open(page).map_err(|damage| self.hobt.damaged(id, damage))
    }
}
