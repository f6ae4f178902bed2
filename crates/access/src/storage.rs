//! The data files of one database: which extents are free, how files are filled and grow.
//!
//! An extent run is as long as the caller asks for and the file has in one piece. Among the files of a filegroup runs
//! are dealt by weights (stride scheduling): by free space, so that files fill in proportion, and a smaller file gets
//! only its share; or by the throughput of devices. If several files have room, a run is a small part of its file's
//! free space, or short (`deal`). The bits on disk are changed through the pool. A copy in memory answers the searches.

use hobt_instruments::planted::{self, Bug};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use hobt_base::{DatabaseId, EXTENT_PAGES, FileId, FilegroupId, HobtId, Lsn, PAGE_SIZE, PageId};
use hobt_buffer::{BufferPool, Dirty, PoolFile, PoolFileDescription};
use hobt_disk::DiskFile;
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::{Mutex, RwLock};
use hobt_log::{NewRecord, RecoveryStart, Reservation};
use hobt_page::{
    AllocationMap, EXTENTS_PER_MAP, INTERVAL_PAGES, MAP_PAGE_IN_INTERVAL, PageChange, PageDamage, PageHeader, PageType,
    RESERVED_PAGES, Run,
};
use hobt_txn::{LogChain, RecordEffect, StatementContext, TransactionLog, UndoError, VersionStore};

use crate::AccessError;
use crate::change::{IMAGE_BYTES, Logged, free_bytes, page_key};
use crate::free_extents::FreeExtents;
use crate::log_record::{Undo, encode_free, kind};

pub(crate) mod deal;
mod growth;
mod removal;
mod watch;

use watch::LoadWatch;
pub(crate) use watch::OpenRun;
pub use watch::{CopyWatch, WrittenRun};

use deal::{Dealt, Fill};

/// What extents are allocated for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// New data: refused if the filegroup is full.
    Work,
    /// An undo, which must not fail: files grow beyond their limits if the disk has room.
    Undo,
}

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

impl StorageSettings {
    /// Limits runs to at least one extent and at most an interval.
    fn in_range(self) -> StorageSettings {
        let run_extents_first = self.run_extents_first.clamp(1, EXTENTS_PER_MAP);
        let run_extents_max = self.run_extents_max.clamp(run_extents_first, EXTENTS_PER_MAP);
        StorageSettings { run_extents_first, run_extents_max }
    }

    /// The length of the run after one of `extents`, if runs are dealt among `files` files. With more files runs grow
    /// more slowly, so that no file gets half of a table in one run.
    fn next_run(&self, extents: u32, files: u32) -> u32 {
        extents.saturating_add(extents.div_ceil(files.max(1))).clamp(1, self.run_extents_max)
    }
}

/// A run that was allocated.
#[derive(Clone, Copy, Debug)]
pub struct Allocated {
    /// Its first page.
    pub first: PageId,
    /// How long it is, in extents.
    pub extents: u32,
    /// The position of its record; 0 in a database without a log.
    pub lsn: Lsn,
}

/// Describes a data file that is to become part of a [`Storage`].
#[derive(Clone)]
pub struct DataFileDescription {
    /// Its id.
    pub file: FileId,
    /// Its filegroup.
    pub filegroup: FilegroupId,
    /// Its logical name.
    pub name: String,
    /// Its path, for messages.
    pub path: PathBuf,
    /// The open file.
    pub disk: Arc<dyn DiskFile>,
    /// Its size in pages.
    pub size_pages: u32,
    /// Growth in pages; 0 if `growth_percent` applies. No growth if both are 0.
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
    free: Ranked<Mutex<FreeExtents>>,
    /// The file's credit in the deal; changed under the storage's `dealing`.
    credit: Mutex<f64>,
    /// So many extents are still dealt by other files before weighted fill lets this one grow again, since its disk had
    /// no room.
    growth_rests_extents: AtomicU32,
    /// No extents are allocated from it and it does not grow; changed under the storage's `growth` and `dealing`.
    is_set_aside: AtomicBool,
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

    /// Its path.
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
        self.free.lock().size_pages()
    }

    /// Extents that are not allocated.
    pub fn free_extents(&self) -> u32 {
        self.free.lock().free()
    }

    fn pool_error(&self, error: hobt_buffer::BufferError) -> AccessError {
        AccessError::of_pool(error, self.name())
    }

    fn damaged(&self, number: u32, damage: PageDamage) -> AccessError {
        AccessError::Damaged { file: self.name().to_owned(), page: PageId::new(self.id(), number), damage }
    }

    /// Shows each allocation map to `visit`: the number of its first extent, how many of its extents are in the file,
    /// and the page.
    pub(crate) fn for_each_map(
        &self,
        visit: &mut dyn FnMut(u32, u32, &hobt_page::PageBytes),
    ) -> Result<(), AccessError> {
        let extents = self.free.lock().extents();
        let mut first = 0;
        while first < extents {
            let number = first * EXTENT_PAGES + MAP_PAGE_IN_INTERVAL;
            let page = self.pool_file.read(number).map_err(|error| self.pool_error(error))?;
            self.expect_map(&page, number)?;
            visit(first, EXTENTS_PER_MAP.min(extents - first), &page);
            first += EXTENTS_PER_MAP;
        }
        Ok(())
    }

    fn expect_map(&self, page: &hobt_page::PageBytes, number: u32) -> Result<(), AccessError> {
        let header = PageHeader::read(page).map_err(|damage| self.damaged(number, damage))?;
        if header.page_type == PageType::AllocationMap {
            return Ok(());
        }
        Err(self.damaged(number, PageDamage::Type { found: header.page_type as u8 }))
    }

    /// Marks in memory the extents that the allocation maps have as allocated.
    pub(crate) fn read_maps(&self) -> Result<(), AccessError> {
        self.for_each_map(&mut |first, count, page| {
            let mut free = self.free.lock();
            for extent in 0..count {
                if AllocationMap::is_allocated(page, extent) && !free.is_allocated(first + extent) {
                    free.set(first + extent, 1, true).expect("asked above");
                }
            }
        })
    }

    /// Whether a run can belong to a HOBT: it is whole in the file, allocated, and has no allocation page.
    pub(crate) fn can_be_owned(&self, run: &Run) -> Result<(), &'static str> {
        let (first, extents) = (run.first.number / EXTENT_PAGES, run.page_count / EXTENT_PAGES);
        let free = self.free.lock();
        if first.checked_add(extents).is_none_or(|end| end > free.extents()) {
            return Err("a run behind the end of its file");
        }
        if free.can_be_owned(first, extents) { Ok(()) } else { Err("a run of extents that are not its own") }
    }

    /// The runs of extents that are allocated now, in order: the first extent, and how many. Those with allocation
    /// pages are among them.
    pub fn allocated_runs(&self) -> Vec<(u32, u32)> {
        self.free.lock().allocated_runs()
    }

    /// Whether the extent is allocated according to the copy in memory.
    pub(crate) fn is_allocated(&self, extent: u32) -> bool {
        self.free.lock().is_allocated(extent)
    }

    /// Sets its number of pages, as found by recovery. No extent of it may be in use yet.
    pub(crate) fn set_size_pages(&self, pages: u32) {
        *self.free.lock() = FreeExtents::new(pages);
    }
}

/// The data files of one database.
pub struct Storage {
    database: DatabaseId,
    database_tag: u32,
    pool: Arc<BufferPool>,
    settings: RwLock<StorageSettings>,
    log: Option<Arc<TransactionLog>>,
    versions: Arc<VersionStore>,
    files: Ranked<RwLock<Vec<Arc<DataFile>>>>,
    /// What weights files. Held while a run is dealt, which only changes memory.
    dealing: Ranked<Mutex<Fill>>,
    growth: Ranked<Mutex<HashMap<FilegroupId, usize>>>,
    /// Whether pages that loads build are logged.
    logs_loads: AtomicBool,
    loads: LoadWatch,
    /// Why the pages cannot be trusted any more.
    broken: OnceLock<String>,
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Storage").field("database", &self.database).field("files", &self.files).finish_non_exhaustive()
    }
}

impl Storage {
    /// A database without files yet. `database_tag` is in the header of every page. With a log its changes survive a
    /// crash. Without one, as in `tempdb`, they are lost.
    pub fn new(
        database: DatabaseId,
        database_tag: u32,
        pool: Arc<BufferPool>,
        settings: StorageSettings,
        log: Option<Arc<TransactionLog>>,
    ) -> Arc<Storage> {
        Arc::new(Storage {
            database,
            database_tag,
            pool,
            settings: RwLock::new(settings.in_range()),
            log,
            versions: VersionStore::new(),
            files: Ranked::new(Rank::StorageFiles, RwLock::default()),
            dealing: Ranked::new(Rank::Dealing, Mutex::new(Fill::default())),
            growth: Ranked::new(Rank::Growth, Mutex::default()),
            logs_loads: AtomicBool::new(false),
            loads: LoadWatch::default(),
            broken: OnceLock::new(),
        })
    }

    /// Sets whether pages that loads build are logged too, from the next page on: backups of the log then can restore
    /// them. Recovery from a crash does not need these records: the pages are on disk before the load commits.
    pub fn set_logs_loads(&self, logs: bool) {
        self.logs_loads.store(logs, Ordering::Relaxed);
    }

    /// Whether pages that loads build are in the log.
    pub(crate) fn logs_loads(&self) -> bool {
        self.logs_loads.load(Ordering::Relaxed) || self.loads.logs_loads()
    }

    /// Marks the pages as broken, in memory or on disk: a change stopped half-way, or could not be undone. This cannot
    /// be reset. The first reason stays.
    pub fn mark_broken(&self, reason: &str) {
        self.broken.get_or_init(|| reason.to_owned());
        self.log().iter().for_each(|log| log.leave_ends_to_recovery());
        // Changes that the log does not have must not be written to disk: recovery starts from what is there.
        self.files.read().iter().for_each(|file| file.pool_file.freeze());
    }

    /// Why the pages cannot be trusted any more; `None` if they can.
    pub fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }

    /// Runs a change that must not stop half-way: a panic in it marks the pages as broken. Errors are returned.
    pub fn in_one_piece<R>(&self, change: impl FnOnce() -> R) -> R {
        struct Armed<'a>(&'a Storage);
        impl Drop for Armed<'_> {
            fn drop(&mut self) {
                self.0.mark_broken("a change of its pages stopped at a broken invariant");
            }
        }
        let armed = Armed(self);
        let result = change();
        std::mem::forget(armed);
        result
    }

    /// Runs an action that only tidies up after a transaction. It is skipped if the log has no room for it.
    pub(crate) fn tidy(&self, action: impl FnOnce() -> Result<(), AccessError>) -> Result<(), UndoError> {
        self.end(|| match action() {
            Err(AccessError::LogFull { .. }) => Ok(()),
            done => done,
        })
    }

    /// Undoes a change of pages that can be trusted. After an undo that failed, the undo of earlier changes would not
    /// find what it expects. Recovery undoes the transaction instead.
    pub(crate) fn undo(&self, action: impl FnOnce() -> Result<(), AccessError>) -> Result<(), UndoError> {
        self.broken().map_or_else(|| self.end(action), |why| Err(UndoError(why.to_owned())))
    }

    /// Runs the last action of a statement on pages, its undo or a deferred action. If it fails, the pages are broken.
    pub(crate) fn end(&self, action: impl FnOnce() -> Result<(), AccessError>) -> Result<(), UndoError> {
        self.in_one_piece(action).map_err(|error| {
            self.mark_broken(&error.to_string());
            UndoError(error.to_string())
        })
    }

    /// The database.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// Its log, if it has one.
    pub fn log(&self) -> Option<&Arc<TransactionLog>> {
        self.log.as_ref()
    }

    /// The earlier versions of its rows.
    pub fn versions(&self) -> &Arc<VersionStore> {
        &self.versions
    }

    /// The tag in every page's header.
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
        *self.settings.write() = settings.in_range();
    }

    /// Adds a new, empty file: gives it its size and formats its allocation maps. The caller writes the header pages.
    /// Pages behind the last whole extent are not used.
    ///
    /// # Errors
    /// The device has no room or fails. The file is not added then.
    pub fn create_file(&self, description: DataFileDescription) -> Result<(), AccessError> {
        description.disk.set_size(u64::from(description.size_pages) * PAGE_SIZE as u64)?;
        let file = self.register(description);
        let formatted = self.format_maps(&file, 0, file.size_pages(), Logged::structure());
        self.take_in(file, formatted)
    }

    /// Adds an existing file and reads its allocation maps.
    ///
    /// # Errors
    /// The file is shorter than described, or a map is damaged or cannot be read. The file is not added then.
    pub fn open_file(&self, description: DataFileDescription) -> Result<(), AccessError> {
        let pages = description.disk.size()? / PAGE_SIZE as u64;
        if pages < u64::from(description.size_pages) {
            return Err(AccessError::Closed(format!(
                "file '{}' is cut short: it has {pages} pages and should have {}",
                description.name, description.size_pages
            )));
        }
        let file = self.register(description);
        let read = file.read_maps();
        self.take_in(file, read)
    }

    /// Adds an existing file whose pages are as a crash left them. [`crate::recover`] repairs them.
    pub fn open_file_to_recover(&self, description: DataFileDescription) {
        let file = self.register(description);
        self.files.write().push(file);
    }

    /// Adds a file that is ready, and removes one that failed from the pool.
    fn take_in(&self, file: Arc<DataFile>, ready: Result<(), AccessError>) -> Result<(), AccessError> {
        match ready {
            Ok(()) => self.files.write().push(file),
            Err(error) => {
                self.pool.unregister_file(&file.pool_file, Dirty::Discard).map_err(|error| file.pool_error(error))?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn register(&self, description: DataFileDescription) -> Arc<DataFile> {
        let pool_file = self.pool.register_file(PoolFileDescription {
            database: self.database,
            database_tag: self.database_tag,
            file: description.file,
            disk: Arc::clone(&description.disk),
            log: self.log.as_ref().map(|log| Arc::clone(log.log())),
        });
        let free = Ranked::new(Rank::FreeExtents, Mutex::new(FreeExtents::new(description.size_pages)));
        Arc::new(DataFile {
            description,
            pool_file,
            free,
            credit: Mutex::new(0.0),
            growth_rests_extents: AtomicU32::new(0),
            is_set_aside: AtomicBool::new(false),
        })
    }

    /// The files, in the order in which they were added.
    pub fn files(&self) -> Vec<Arc<DataFile>> {
        self.files.read().clone()
    }

    /// A file by its id.
    ///
    /// # Errors
    /// There is no such file: a page refers to a file that does not exist.
    pub fn file(&self, id: FileId) -> Result<Arc<DataFile>, AccessError> {
        let files = self.files.read();
        let file = files.iter().find(|file| file.id() == id);
        file.cloned().ok_or_else(|| AccessError::Closed(format!("the database has no file {id}")))
    }

    /// Allocates a run of up to `wanted` extents, at least one, in one file of `filegroup`. The caller registers the
    /// undo ([`Storage::free_undone`] with the record's position). Recovery knows it from the record in `chain`.
    ///
    /// # Errors
    /// `FilegroupFull` when no file has a free extent or can grow; the log is full.
    pub(crate) fn allocate(
        &self,
        chain: Option<&Arc<LogChain>>,
        purpose: Purpose,
        filegroup: FilegroupId,
        wanted: u32,
    ) -> Result<Allocated, AccessError> {
        assert!(wanted > 0, "a run has at least one extent");
        self.in_one_piece(|| self.allocate_run(chain, purpose, filegroup, wanted))
    }

    /// Allocates a run for a statement. It is freed if the statement is undone.
    ///
    /// # Errors
    /// `FilegroupFull` when no file has a free extent or can grow; the log is full.
    pub fn allocate_for(
        self: &Arc<Storage>,
        context: &StatementContext,
        filegroup: FilegroupId,
        wanted: u32,
    ) -> Result<Allocated, AccessError> {
        let chain = self.chain_of(context);
        let run = self.allocate(chain.as_ref(), Purpose::Work, filegroup, wanted)?;
        let storage = Arc::clone(self);
        context.on_undo(move || storage.undo(|| storage.free_undone(chain.as_ref(), &run)));
        Ok(run)
    }

    fn allocate_run(
        &self,
        chain: Option<&Arc<LogChain>>,
        purpose: Purpose,
        filegroup: FilegroupId,
        wanted: u32,
    ) -> Result<Allocated, AccessError> {
        loop {
            let files: Vec<Arc<DataFile>> =
                self.files.read().iter().filter(|file| file.gives_extents_of(filegroup)).cloned().collect();
            let dealt = self.deal(&files, wanted);
            if let Dealt::Full(file) = &dealt {
                self.grow_one(file, wanted, chain)?;
                continue;
            }
            if let Dealt::Run(file, first, extents) = dealt {
                let first_page = PageId::new(file.id(), first * EXTENT_PAGES);
                let undo = Undo::FreeRun { first: first_page, extents };
                // Before the record: what recovery does not read again, a checkpoint has written with the bits.
                file.pool_file().written().note(first_page.number, extents * EXTENT_PAGES);
                match self.write_bits(&file, first, extents, true, Logged::of(chain).undone_by(&undo)) {
                    Ok(lsn) => return Ok(Allocated { first: first_page, extents, lsn }),
                    Err(error) => {
                        file.free.lock().set(first, extents, false).expect("just dealt");
                        return Err(error);
                    }
                }
            }
            self.grow(filegroup, purpose, &files, wanted, chain)?;
        }
    }

    /// Frees extents at once.
    ///
    /// # Errors
    /// They are not allocated, or hold allocation pages: the caller read a damaged list. Or the allocation map cannot
    /// be read or written.
    pub fn free(&self, first: PageId, extents: u32) -> Result<(), AccessError> {
        self.free_as(first, extents, Logged::structure())
    }

    fn free_as(&self, first: PageId, extents: u32, logged: Logged<'_>) -> Result<(), AccessError> {
        let file = self.file(first.file)?;
        let extent = first.number / EXTENT_PAGES;
        let wrong =
            || file.damaged(first.number, PageDamage::Structure { rule: "a run of extents that are not its own" });
        if !file.free.lock().can_be_owned(extent, extents) {
            return Err(wrong());
        }
        self.in_one_piece(|| {
            file.pool_file.discard(first.number, extents * EXTENT_PAGES).map_err(|error| file.pool_error(error))?;
            self.write_bits(&file, extent, extents, false, logged)?;
            file.free.lock().set(extent, extents, false).map_err(|_| wrong())
        })
    }

    /// Frees extents that were allocated by a transaction that is being undone.
    pub(crate) fn free_undone(&self, chain: Option<&Arc<LogChain>>, run: &Allocated) -> Result<(), AccessError> {
        self.free_as(run.first, run.extents, Logged::of(chain).compensating(run.lsn))
    }

    /// Logs that extents are to be freed once the transaction has committed, even if a crash comes in between. Returns
    /// the position of the record.
    fn log_pending_free(&self, chain: Option<&Arc<LogChain>>, first: PageId, extents: u32) -> Result<Lsn, AccessError> {
        let Some(chain) = chain else { return Ok(Lsn(0)) };
        let payload = encode_free(first, extents);
        self.reserve_to_free(chain, first, extents)?;
        let effect = RecordEffect { defers: Some((first, extents)), ..RecordEffect::default() };
        Ok(chain.append(kind::PENDING_FREE, &payload, &effect)?.lsn)
    }

    /// Frees extents when the statement commits.
    ///
    /// # Errors
    /// The log is full or has failed. The extents stay allocated.
    pub(crate) fn free_on_commit(
        self: &Arc<Storage>,
        context: &StatementContext,
        first: PageId,
        extents: u32,
    ) -> Result<(), AccessError> {
        let chain = self.chain_of(context);
        let lsn = self.log_pending_free(chain.as_ref(), first, extents)?;
        let (storage, undone) = (Arc::clone(self), chain.clone());
        // A statement may be undone although its transaction commits.
        context.on_undo(move || storage.undo(|| storage.undone(undone.as_ref(), lsn, HobtId(0), 0)));
        let storage = Arc::clone(self);
        if planted::has(Bug::ExtentsFreedAtOnce) {
            return storage.free_pending(chain.as_ref(), first, extents);
        }
        context.on_commit(move || storage.end(|| storage.free_pending(chain.as_ref(), first, extents)));
        Ok(())
    }

    /// Frees extents as announced by [`Storage::log_pending_free`].
    pub(crate) fn free_pending(
        &self,
        chain: Option<&Arc<LogChain>>,
        first: PageId,
        extents: u32,
    ) -> Result<(), AccessError> {
        self.free_as(first, extents, Logged::of(chain).freeing(first, extents))
    }

    /// Reserves room for the record that a run of so many extents is to be freed, and for that of its bits; once for
    /// each page of bits also for an image of it, because a checkpoint may begin before the extents are freed. Where
    /// the image has been appended, the next checkpoint reserves it again.
    ///
    /// # Errors
    /// The log is full or has failed.
    pub(crate) fn reserve_to_free(
        &self,
        chain: &Arc<LogChain>,
        first: PageId,
        extents: u32,
    ) -> Result<(), AccessError> {
        let number = first.number / INTERVAL_PAGES * INTERVAL_PAGES + MAP_PAGE_IN_INTERVAL;
        let map = page_key(PageId::new(first.file, number));
        let image = if chain.is_untouched(map) { IMAGE_BYTES } else { 0 };
        chain.reserve(free_bytes(extents) + image)?;
        chain.note_touched(map);
        Ok(())
    }

    /// Begins a small transaction that frees runs once it has committed. The caller commits it with the change after
    /// which no list names the runs any more. It uses room that `undone`, the transaction that is being undone, has
    /// reserved; without one it needs room like new work, and may be refused. Returns `None` in a database without a
    /// log.
    pub(crate) fn begin_freeing(
        &self,
        gone: &[Run],
        undone: Option<&Arc<LogChain>>,
    ) -> Result<Option<Arc<LogChain>>, AccessError> {
        let Some(log) = self.log.as_ref().filter(|_| !gone.is_empty()) else { return Ok(None) };
        let chain = log.begin_structure_for(undone);
        for run in gone {
            if let Err(error) = self.log_pending_free(Some(&chain), run.first, run.page_count / EXTENT_PAGES) {
                chain.end()?;
                return Err(error);
            }
        }
        Ok(Some(chain))
    }

    /// Frees the runs, after the commit, and ends the transaction.
    pub(crate) fn end_freeing(&self, chain: Option<Arc<LogChain>>, gone: &[Run]) -> Result<(), AccessError> {
        for run in gone {
            self.free_pending(chain.as_ref(), run.first, run.page_count / EXTENT_PAGES)?;
        }
        chain.map_or(Ok(()), |chain| Ok(chain.end()?))
    }

    /// Sets the bits of extents `first..first + count` on disk (through the pool). Returns the position of the record.
    fn write_bits(
        &self,
        file: &DataFile,
        first: u32,
        count: u32,
        allocated: bool,
        logged: Logged<'_>,
    ) -> Result<Lsn, AccessError> {
        let map = first / EXTENTS_PER_MAP;
        assert!(first + count <= (map + 1) * EXTENTS_PER_MAP, "a run lies in one interval");
        let number = map * INTERVAL_PAGES + MAP_PAGE_IN_INTERVAL;
        let mut page = file.pool_file.write(number).map_err(|error| file.pool_error(error))?;
        file.expect_map(&page, number)?;
        let (offset, bytes) = AllocationMap::set_bytes(&page, first - map * EXTENTS_PER_MAP, count, allocated);
        let id = PageId::new(file.id(), number);
        let changed = self.change(&mut page, id, None, &PageChange::Write { offset, bytes }, logged)?;
        Ok(changed.expect("a write has room").lsn)
    }

    /// Formats the allocation maps of intervals that start in `from..to`.
    fn format_maps(&self, file: &DataFile, from: u32, to: u32, logged: Logged<'_>) -> Result<(), AccessError> {
        let (from, to) = (from / EXTENT_PAGES * EXTENT_PAGES, to / EXTENT_PAGES * EXTENT_PAGES);
        let mut interval = from.div_ceil(INTERVAL_PAGES) * INTERVAL_PAGES;
        while interval < to {
            let number = interval + MAP_PAGE_IN_INTERVAL;
            let mut page = file.pool_file.create(number).map_err(|error| file.pool_error(error))?;
            let id = PageId::new(file.id(), number);
            let header = PageHeader::new(PageType::AllocationMap, id, self.database_tag, HobtId(0));
            self.change(&mut page, id, None, &PageChange::Format { header }, logged)?;
            let (offset, bytes) = AllocationMap::set_bytes(&page, 0, RESERVED_PAGES / EXTENT_PAGES, true);
            self.change(&mut page, id, None, &PageChange::Write { offset, bytes }, logged)?;
            interval += INTERVAL_PAGES;
        }
        Ok(())
    }

    pub(crate) fn damaged(&self, page: PageId, damage: PageDamage) -> AccessError {
        let file = self.file(page.file).map_or_else(|_| String::new(), |file| file.name().to_owned());
        AccessError::Damaged { file, page, damage }
    }

    /// Begins a checkpoint: changes from now on are redone by a recovery that begins here. Returns its position for
    /// [`Storage::end_checkpoint`]; `None` in a database without a log.
    ///
    /// # Errors
    /// The log has failed; or it is full, and the checkpoint can be made later.
    pub fn begin_checkpoint(&self) -> Result<Option<Lsn>, AccessError> {
        let Some(log) = &self.log else { return Ok(None) };
        log.reserve_for_undo_behind_checkpoint()?;
        let record = NewRecord { kind: kind::CHECKPOINT, transaction: 0, previous: Lsn(0), payload: &[] };
        let begun = log.log().begin_epoch(&record)?.lsn;
        log.checkpoint_begun(begun);
        Ok(Some(begun))
    }

    /// Ends a checkpoint whose pages have all been written ([`Storage::flush`]). From now on recovery begins where the
    /// checkpoint began, and the log keeps older records only for transactions that are still open.
    ///
    /// # Errors
    /// The log has failed; or it is full, and a later checkpoint does the work of this one.
    pub fn end_checkpoint(&self, begun: Option<Lsn>) -> Result<(), AccessError> {
        let (Some(log), Some(begun)) = (&self.log, begun) else { return Ok(()) };
        let counted = planted::has(Bug::EndNotDurableAtCheckpoint).then(|| log.oldest());
        // Recovery will begin behind the records in which decisions were first written. The flush of the transactions'
        // end records flushes the new records too, and the entries of the transaction table.
        log.carry_decisions()?;
        let read_from = log.write_down_open(begun)?;
        let oldest = match counted {
            None => log.needed_from()?,
            Some(counted) => {
                let is_more = log.decision_count() > 0 || log.open_count() > 0;
                log.log().flush_past(if is_more { Lsn(log.log().end().0 - 1) } else { begun })?;
                counted
            }
        };
        let keep = oldest.map_or(begun, |oldest| oldest.min(begun));
        let begun = if planted::has(Bug::RedoFromCheckpointEnd) {
            let last = NewRecord { kind: kind::CHECKPOINT, transaction: 0, previous: Lsn(0), payload: &[] };
            let last = log.log().append_always(&last, &Reservation::default())?.lsn;
            log.log().flush_past(last)?;
            last
        } else {
            begun
        };
        // A transaction that is not written down may have ended since.
        let read_from = read_from.clamp(keep, begun);
        log.log().set_recovery_start(RecoveryStart { redo: begun, read_from, keep })?;
        log.checkpoint_ended();
        Ok(())
    }

    /// Writes every dirty page of the database and syncs its files.
    ///
    /// # Errors
    /// The device failed; the files are then poisoned. Or the log is full, and pages stay dirty.
    pub fn flush(&self) -> Result<(), AccessError> {
        for file in self.files() {
            self.pool.flush_for_checkpoint(&file.pool_file).map_err(|error| file.pool_error(error))?;
        }
        Ok(())
    }

    /// Removes the files from the pool. Call it after a checkpoint.
    ///
    /// # Errors
    /// A page is still dirty or in use. That file and those after it stay.
    pub fn close(&self) -> Result<(), AccessError> {
        self.leave(Dirty::Refuse)
    }

    /// Removes the files from the pool and discards dirty pages: for a database that is dropped.
    ///
    /// # Errors
    /// A page is still in use. That file and those after it stay.
    pub fn discard(&self) -> Result<(), AccessError> {
        self.leave(Dirty::Discard)
    }

    fn leave(&self, dirty: Dirty) -> Result<(), AccessError> {
        let mut files = self.files.write();
        while let Some(file) = files.first() {
            self.pool.unregister_file(&file.pool_file, dirty).map_err(|error| file.pool_error(error))?;
            files.remove(0);
        }
        if let Some(log) = &self.log {
            log.log().close();
        }
        Ok(())
    }
}
