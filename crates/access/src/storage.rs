//! The data files of one database: which extents are free, how files fill and grow.
//!
//! Extents are handed out in runs as long as the caller asks for and the file has in one piece. Among the files of a
//! filegroup runs are dealt by free space (smooth weighted round robin), so that files fill in proportion and, when one
//! of them is smaller, it gets its share and no more. The bits on disk are changed through the pool; a copy in memory
//! answers the searches.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use hobt_base::{DatabaseId, EXTENT_PAGES, FileId, FilegroupId, HobtId, PAGE_SIZE, PageId};
use hobt_buffer::{BufferPool, Dirty, PoolFile, PoolFileDescription};
use hobt_disk::{DiskError, DiskFile};
use hobt_page::{
    AllocationMap, EXTENTS_PER_MAP, INTERVAL_PAGES, MAP_PAGE_IN_INTERVAL, PageChange, PageHeader, PageType,
    RESERVED_PAGES, apply,
};
use hobt_txn::UndoError;
use parking_lot::{Mutex, RwLock};

use crate::AccessError;

/// How runs of pages grow, in extents of 64 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StorageSettings {
    /// The first run of a HOBT or loader; start-up flag `-E` makes it longer.
    pub run_extents_first: u32,
    /// The longest run.
    pub run_extents_max: u32,
}

impl Default for StorageSettings {
    fn default() -> StorageSettings {
        StorageSettings { run_extents_first: 1, run_extents_max: 256 }
    }
}

/// A data file on its way into a [`Storage`].
#[derive(Clone)]
pub struct DataFileDescription {
    /// Its id.
    pub file: FileId,
    /// Its filegroup.
    pub filegroup: FilegroupId,
    /// Its logical name.
    pub name: String,
    /// Where it lies, for messages.
    pub path: PathBuf,
    /// The open file.
    pub disk: Arc<dyn DiskFile>,
    /// Its size in pages.
    pub size_pages: u32,
    /// Growth in pages; 0 if `growth_percent` counts, and no growth if both are 0.
    pub growth_pages: u32,
    /// Growth in percent of the size.
    pub growth_percent: u32,
    /// The largest size in pages; 0 for no limit.
    pub max_pages: u32,
}

/// A data file of a database.
pub struct DataFile {
    description: DataFileDescription,
    pool_file: Arc<PoolFile>,
    free: Mutex<FreeExtents>,
}

/// The free extents of a file, in memory.
#[derive(Debug)]
struct FreeExtents {
    /// One bit an extent, 1 for allocated.
    bits: Vec<u64>,
    size_pages: u32,
    free: u32,
    /// Searches start here; all extents before it are allocated or were passed over.
    next: u32,
    /// The file's turn in the deal.
    credit: f64,
}

impl std::fmt::Debug for DataFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataFile")
            .field("id", &self.description.file)
            .field("name", &self.description.name)
            .field("size_pages", &self.size_pages())
            .finish_non_exhaustive()
    }
}

impl DataFile {
    /// The file's id.
    pub fn id(&self) -> FileId {
        self.description.file
    }

    /// Its filegroup.
    pub fn filegroup(&self) -> FilegroupId {
        self.description.filegroup
    }

    /// Its logical name.
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// Where it lies.
    pub fn path(&self) -> &PathBuf {
        &self.description.path
    }

    /// The open file.
    pub fn disk(&self) -> &Arc<dyn DiskFile> {
        &self.description.disk
    }

    /// The file's pages in the pool.
    pub fn pool_file(&self) -> &Arc<PoolFile> {
        &self.pool_file
    }

    /// Its size in pages.
    pub fn size_pages(&self) -> u32 {
        self.free.lock().size_pages
    }

    /// Extents that are not allocated.
    pub fn free_extents(&self) -> u32 {
        self.free.lock().free
    }

    fn pool_error(&self, error: hobt_buffer::BufferError) -> AccessError {
        AccessError::of_pool(error, self.name())
    }

    fn damaged(&self, number: u32, damage: hobt_page::PageDamage) -> AccessError {
        AccessError::Damaged { file: self.name().to_owned(), page: PageId::new(self.id(), number), damage }
    }

    /// Formats the allocation maps of intervals that start in `from..to`.
    fn format_maps(&self, from: u32, to: u32, database_tag: u32) -> Result<(), AccessError> {
        let mut interval = from.div_ceil(INTERVAL_PAGES) * INTERVAL_PAGES;
        while interval < to {
            let number = interval + MAP_PAGE_IN_INTERVAL;
            let mut page = self.pool_file.create(number).map_err(|error| self.pool_error(error))?;
            let id = PageId::new(self.id(), number);
            let header = PageHeader::new(PageType::AllocationMap, id, database_tag, HobtId(0));
            apply(&mut page, None, &PageChange::Format { header }).map_err(|damage| self.damaged(number, damage))?;
            let (offset, bytes) = AllocationMap::set_bytes(&page, 0, RESERVED_PAGES / EXTENT_PAGES, true);
            apply(&mut page, None, &PageChange::Write { offset, bytes })
                .map_err(|damage| self.damaged(number, damage))?;
            interval += INTERVAL_PAGES;
        }
        Ok(())
    }

    /// Sets the bits of extents `first..first + count` on disk (through the pool).
    fn write_bits(&self, first: u32, count: u32, allocated: bool) -> Result<(), AccessError> {
        let mut from = first;
        while from < first + count {
            let map = from / EXTENTS_PER_MAP;
            let to = ((map + 1) * EXTENTS_PER_MAP).min(first + count);
            let number = map * INTERVAL_PAGES + MAP_PAGE_IN_INTERVAL;
            let mut page = self.pool_file.write(number).map_err(|error| self.pool_error(error))?;
            let header = PageHeader::read(&page).map_err(|damage| self.damaged(number, damage))?;
            if header.page_type != PageType::AllocationMap {
                let damage = hobt_page::PageDamage::Type { found: header.page_type as u8 };
                return Err(self.damaged(number, damage));
            }
            let (offset, bytes) =
                AllocationMap::set_bytes(&page, from - map * EXTENTS_PER_MAP, to - from, allocated);
            apply(&mut page, None, &PageChange::Write { offset, bytes })
                .map_err(|damage| self.damaged(number, damage))?;
            from = to;
        }
        Ok(())
    }
}

impl FreeExtents {
    fn new(size_pages: u32) -> FreeExtents {
        let mut free = FreeExtents { bits: Vec::new(), size_pages: 0, free: 0, next: 0, credit: 0.0 };
        free.resize(size_pages);
        free
    }

    /// Takes the extents up to `size_pages` in; new intervals' first extents are allocated.
    fn resize(&mut self, size_pages: u32) {
        let (old, new) = (self.size_pages / EXTENT_PAGES, size_pages / EXTENT_PAGES);
        self.bits.resize((new as usize).div_ceil(64), 0);
        self.free += new - old;
        self.size_pages = size_pages;
        let mut extent = old.div_ceil(EXTENTS_PER_MAP) * EXTENTS_PER_MAP;
        while extent < new {
            self.set(extent, 1, true);
            extent += EXTENTS_PER_MAP;
        }
    }

    fn is_allocated(&self, extent: u32) -> bool {
        self.bits[(extent / 64) as usize] >> (extent % 64) & 1 == 1
    }

    fn set(&mut self, first: u32, count: u32, allocated: bool) {
        for extent in first..first + count {
            assert_ne!(self.is_allocated(extent), allocated, "an extent changes its state");
            self.bits[(extent / 64) as usize] ^= 1 << (extent % 64);
        }
        if allocated {
            self.free -= count;
        } else {
            self.free += count;
            self.next = self.next.min(first);
        }
    }

    /// The first run of `wanted` free extents, or else the longest there is.
    fn find(&self, wanted: u32) -> Option<(u32, u32)> {
        let end = self.size_pages / EXTENT_PAGES;
        let mut best: Option<(u32, u32)> = None;
        let mut extent = self.next;
        while extent < end {
            if extent.is_multiple_of(64) && self.bits[(extent / 64) as usize] == u64::MAX {
                extent += 64;
                continue;
            }
            if self.is_allocated(extent) {
                extent += 1;
                continue;
            }
            let first = extent;
            while extent < end && extent - first < wanted && !self.is_allocated(extent) {
                extent += 1;
            }
            let length = extent - first;
            if length == wanted {
                return Some((first, length));
            }
            if best.is_none_or(|(_, longest)| length > longest) {
                best = Some((first, length));
            }
        }
        best
    }

    fn take(&mut self, wanted: u32) -> Option<(u32, u32)> {
        let (first, count) = self.find(wanted)?;
        self.set(first, count, true);
        if first == self.next {
            self.next = first + count;
        }
        Some((first, count))
    }
}

/// The data files of one database.
pub struct Storage {
    database: DatabaseId,
    database_tag: u32,
    pool: Arc<BufferPool>,
    settings: RwLock<StorageSettings>,
    files: RwLock<Vec<Arc<DataFile>>>,
    growth: Mutex<HashMap<FilegroupId, usize>>,
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Storage").field("database", &self.database).field("files", &self.files).finish_non_exhaustive()
    }
}

impl Storage {
    /// A database without files yet; `database_tag` stands in every page of it.
    pub fn new(
        database: DatabaseId,
        database_tag: u32,
        pool: Arc<BufferPool>,
        settings: StorageSettings,
    ) -> Arc<Storage> {
        Arc::new(Storage {
            database,
            database_tag,
            pool,
            settings: RwLock::new(settings),
            files: RwLock::default(),
            growth: Mutex::default(),
        })
    }

    /// The database.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// What stands in every page's header.
    pub fn database_tag(&self) -> u32 {
        self.database_tag
    }

    /// The pool that holds its pages.
    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    /// How runs grow.
    pub fn settings(&self) -> StorageSettings {
        *self.settings.read()
    }

    /// Changes how later runs grow.
    pub fn set_settings(&self, settings: StorageSettings) {
        *self.settings.write() = settings;
    }

    /// Takes a new, empty file in: gives it its size and formats its allocation maps. The header pages are the
    /// caller's.
    ///
    /// # Errors
    /// The device has no room or fails.
    pub fn create_file(&self, description: DataFileDescription) -> Result<(), AccessError> {
        description.disk.set_size(u64::from(description.size_pages) * PAGE_SIZE as u64)?;
        let file = self.register(description);
        file.format_maps(0, file.size_pages(), self.database_tag)?;
        self.files.write().push(file);
        Ok(())
    }

    /// Takes an existing file in and reads its allocation maps.
    ///
    /// # Errors
    /// A map is damaged or cannot be read.
    pub fn open_file(&self, description: DataFileDescription) -> Result<(), AccessError> {
        let file = self.register(description);
        let size = file.size_pages();
        let mut interval = 0;
        while interval < size {
            let number = interval + MAP_PAGE_IN_INTERVAL;
            let page = file.pool_file.read(number).map_err(|error| file.pool_error(error))?;
            let header = PageHeader::read(&page).map_err(|damage| file.damaged(number, damage))?;
            if header.page_type != PageType::AllocationMap {
                let damage = hobt_page::PageDamage::Type { found: header.page_type as u8 };
                return Err(file.damaged(number, damage));
            }
            let mut free = file.free.lock();
            let first = interval / EXTENT_PAGES;
            let end = (first + EXTENTS_PER_MAP).min(size / EXTENT_PAGES);
            for extent in first..end {
                if AllocationMap::is_allocated(&page, extent - first) && !free.is_allocated(extent) {
                    free.set(extent, 1, true);
                }
            }
            interval += INTERVAL_PAGES;
        }
        self.files.write().push(file);
        Ok(())
    }

    fn register(&self, description: DataFileDescription) -> Arc<DataFile> {
        let pool_file = self.pool.register_file(PoolFileDescription {
            database: self.database,
            database_tag: self.database_tag,
            file: description.file,
            disk: Arc::clone(&description.disk),
        });
        let free = Mutex::new(FreeExtents::new(description.size_pages));
        Arc::new(DataFile { description, pool_file, free })
    }

    /// The files, in the order in which they were taken in.
    pub fn files(&self) -> Vec<Arc<DataFile>> {
        self.files.read().clone()
    }

    /// A file by its id.
    ///
    /// # Errors
    /// There is no such file: a page refers to what is not there.
    pub fn file(&self, id: FileId) -> Result<Arc<DataFile>, AccessError> {
        let files = self.files.read();
        let file = files.iter().find(|file| file.id() == id);
        file.cloned().ok_or_else(|| AccessError::Closed(format!("the database has no file {id}")))
    }

    /// Allocates a run of up to `wanted` extents in one file of `filegroup`; at least one. The caller registers the
    /// undo ([`Storage::free`]).
    ///
    /// # Errors
    /// `FilegroupFull` when no file has a free extent or can grow.
    pub fn allocate(&self, filegroup: FilegroupId, wanted: u32) -> Result<(PageId, u32), AccessError> {
        assert!(wanted > 0, "a run has at least one extent");
        loop {
            let files: Vec<Arc<DataFile>> =
                self.files.read().iter().filter(|file| file.filegroup() == filegroup).cloned().collect();
            if let Some(file) = deal(&files, wanted) {
                let taken = file.free.lock().take(wanted);
                let Some((first, count)) = taken else { continue };
                if let Err(error) = file.write_bits(first, count, true) {
                    file.free.lock().set(first, count, false);
                    return Err(error);
                }
                return Ok((PageId::new(file.id(), first * EXTENT_PAGES), count));
            }
            self.grow(filegroup, &files, wanted)?;
        }
    }

    /// Gives extents back, at once.
    ///
    /// # Errors
    /// The allocation map cannot be read or written.
    pub fn free(&self, first: PageId, extents: u32) -> Result<(), AccessError> {
        let file = self.file(first.file)?;
        file.pool_file.discard(first.number, extents * EXTENT_PAGES).map_err(|error| file.pool_error(error))?;
        let extent = first.number / EXTENT_PAGES;
        file.write_bits(extent, extents, false)?;
        file.free.lock().set(extent, extents, false);
        Ok(())
    }

    /// The same as an undo or commit action.
    pub(crate) fn free_action(self: &Arc<Storage>, first: PageId, extents: u32) -> impl FnOnce() -> Result<(), UndoError> + Send + 'static {
        let storage = Arc::clone(self);
        move || storage.free(first, extents).map_err(|error| UndoError(error.to_string()))
    }

    /// Grows one file of the filegroup, each in its turn.
    fn grow(&self, filegroup: FilegroupId, files: &[Arc<DataFile>], wanted: u32) -> Result<(), AccessError> {
        let mut turns = self.growth.lock();
        if files.iter().any(|file| file.free_extents() > 0) {
            return Ok(());
        }
        let turn = turns.entry(filegroup).or_default();
        let mut reason = "its files may not grow; add a file or allow growth".to_owned();
        for step in 0..files.len() {
            let file = &files[(*turn + step) % files.len()];
            match self.grow_file(file, wanted) {
                Ok(true) => {
                    *turn = (*turn + step + 1) % files.len();
                    return Ok(());
                }
                Ok(false) => {}
                Err(AccessError::Disk(DiskError::NoSpace { .. })) => {
                    reason = format!("the disk of file '{}' has no room left", file.name());
                }
                Err(error) => return Err(error),
            }
        }
        Err(AccessError::FilegroupFull { filegroup, reason })
    }

    /// Grows `file` by its growth step, and by `wanted` extents at least; `false` if it may not grow.
    fn grow_file(&self, file: &Arc<DataFile>, wanted: u32) -> Result<bool, AccessError> {
        let description = &file.description;
        let size = file.size_pages();
        let step = if description.growth_pages > 0 {
            description.growth_pages
        } else {
            u32::try_from(u64::from(size) * u64::from(description.growth_percent) / 100).unwrap_or(u32::MAX)
        };
        if description.growth_pages == 0 && description.growth_percent == 0 {
            return Ok(false);
        }
        let limit = if description.max_pages == 0 { u32::MAX - EXTENT_PAGES } else { description.max_pages };
        let step = step.max(wanted.saturating_mul(EXTENT_PAGES));
        let target = size.saturating_add(step.next_multiple_of(EXTENT_PAGES)).min(limit) / EXTENT_PAGES * EXTENT_PAGES;
        if target <= size {
            return Ok(false);
        }
        file.disk().set_size(u64::from(target) * PAGE_SIZE as u64)?;
        file.format_maps(size, target, self.database_tag)?;
        file.free.lock().resize(target);
        Ok(true)
    }

    /// Writes every dirty page of the database and syncs its files.
    ///
    /// # Errors
    /// The device failed; the files are then poisoned.
    pub fn checkpoint(&self) -> Result<(), AccessError> {
        for file in self.files() {
            self.pool.flush_file(&file.pool_file).map_err(|error| file.pool_error(error))?;
        }
        Ok(())
    }

    /// Takes the files out of the pool; call after a checkpoint.
    ///
    /// # Errors
    /// A page is still dirty or in use.
    pub fn close(&self) -> Result<(), AccessError> {
        for file in self.files.write().drain(..) {
            self.pool.unregister_file(&file.pool_file, Dirty::Refuse).map_err(|error| file.pool_error(error))?;
        }
        Ok(())
    }

    /// Takes the files out of the pool and forgets what was not written: for a database that is dropped.
    ///
    /// # Errors
    /// A page is still in use.
    pub fn discard(&self) -> Result<(), AccessError> {
        for file in self.files.write().drain(..) {
            self.pool.unregister_file(&file.pool_file, Dirty::Discard).map_err(|error| file.pool_error(error))?;
        }
        Ok(())
    }
}

/// Whose turn it is among `files` for `wanted` extents: each gains credit in proportion to its free space, the richest
/// pays.
fn deal(files: &[Arc<DataFile>], wanted: u32) -> Option<Arc<DataFile>> {
    let total: f64 = files.iter().map(|file| f64::from(file.free_extents())).sum();
    if total == 0.0 {
        return None;
    }
    let mut richest: Option<(f64, &Arc<DataFile>)> = None;
    for file in files {
        let mut free = file.free.lock();
        if free.free == 0 {
            continue;
        }
        free.credit += f64::from(wanted) * f64::from(free.free) / total;
        if richest.is_none_or(|(credit, _)| free.credit > credit) {
            richest = Some((free.credit, file));
        }
    }
    let (_, file) = richest?;
    file.free.lock().credit -= f64::from(wanted);
    Some(Arc::clone(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_extents_are_found_in_one_piece_and_counted() {
        let mut free = FreeExtents::new(EXTENT_PAGES * 300);
        assert_eq!(free.free, 299, "the first extent holds the maps");
        assert_eq!(free.take(100), Some((1, 100)));
        assert_eq!(free.take(150), Some((101, 150)));
        free.set(50, 10, false);
        assert_eq!(free.take(20), Some((251, 20)), "a longer piece is preferred to a nearer one");
        assert_eq!(free.take(100), Some((271, 29)), "the longest that is left");
        assert_eq!(free.take(100), Some((50, 10)));
        assert_eq!(free.take(1), None);
        free.resize(EXTENT_PAGES * 301);
        assert_eq!(free.take(5), Some((300, 1)));
    }

    #[test]
    fn a_new_interval_keeps_its_first_extent() {
        let mut free = FreeExtents::new(INTERVAL_PAGES);
        assert_eq!(free.free, EXTENTS_PER_MAP - 1);
        free.resize(2 * INTERVAL_PAGES);
        assert_eq!(free.free, 2 * EXTENTS_PER_MAP - 2);
        assert!(free.is_allocated(EXTENTS_PER_MAP));
    }
}
