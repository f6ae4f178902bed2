//! The pool: its memory, the files registered with it, and which page each frame holds.
//!
//! Done in other files: finding victims (`clock.rs`), writing (`write_back.rs`), what views show (`statistics.rs`).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hobt_base::{DatabaseId, FileId, HobtId, PAGE_SIZE, PageId};
use hobt_disk::{BufferCache, DiskFile};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::{self, Mutex, RwLock};
use hobt_instruments::{Counter, PerHobt};
use hobt_log::Log;

use crate::error::BufferError;
use crate::extension::{Extension, PageKey};
use crate::file::PoolFile;
use crate::frames::{FrameMemory, Latched, OwnedFrame, PageCell, StateWords, reserve};
use crate::load_owner::{LoadOwner, LoadOwners};
use crate::page_waits::{FileWaits, HobtPageWaits, WaitTotal};
use crate::write_back::WRITE_BYTES_MAX;
use crate::written::WrittenExtents;

/// How long [`BufferPool::unregister_file`] and [`PoolFile::discard`] wait for one page's holders.
pub(crate) const HOLDER_PATIENCE: Duration = Duration::from_secs(10);

/// In [`BufferPool::owners`]: the clock has found the page used since it was put there.
const USED: u64 = 1 << 63;
/// So that an index and [`USED`] fit into half a word.
const MAX_FILES: u32 = (1 << 31) - 1;

/// The settings of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolSettings {
    /// Memory for frames, in bytes. At least 16 frames are made, and at most 512 GiB. Address space is taken at once,
    /// memory as frames are used.
    pub bytes: usize,
}

/// A file whose pages the pool caches.
#[derive(Clone)]
pub struct PoolFileDescription {
    /// The database that the file belongs to.
    pub database: DatabaseId,
    /// The tag that the database's pages carry.
    pub database_tag: u32,
    /// The file's number in the database.
    pub file: FileId,
    /// The open file.
    pub disk: Arc<dyn DiskFile>,
    /// The log that must have a page's last change before the page is written. `None` for pages that no log covers.
    pub log: Option<Arc<Log>>,
}

/// What is done with changed pages when their file is unregistered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dirty {
    /// There must not be any.
    Refuse,
    /// They are lost: the file is being dropped.
    Discard,
}

/// A file as the pool knows it.
pub(crate) struct RegisteredFile {
    /// Its index in the pool's table.
    pub(crate) index: u32,
    /// A number that no other registration has or had.
    pub(crate) registration: u32,
    pub(crate) database: DatabaseId,
    pub(crate) database_tag: u32,
    pub(crate) disk: Arc<dyn DiskFile>,
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) words: Arc<StateWords>,
    pub(crate) closed: AtomicBool,
    /// Its pages are no longer written.
    pub(crate) frozen: AtomicBool,
    pub(crate) written: WrittenExtents,
    /// The number of pages that the file was last seen to have. It may have grown since.
    pages: AtomicU64,
}

impl RegisteredFile {
    pub(crate) fn file(&self) -> FileId {
        self.words.file()
    }

    /// A page of this registration.
    pub(crate) fn key(&self, number: u32) -> PageKey {
        PageKey::new(self.registration, number)
    }

    /// Checks that page `number` lies in the file. Asks the disk only if the page is beyond the known size.
    pub(crate) fn check_range(&self, number: u32) -> Result<(), BufferError> {
        if u64::from(number) < self.pages.load(Ordering::Relaxed) {
            return Ok(());
        }
        let pages = self.disk.size()? / PAGE_SIZE as u64;
        self.pages.store(pages, Ordering::Relaxed);
        if u64::from(number) < pages {
            return Ok(());
        }
        Err(BufferError::OutOfRange { page: PageId::new(self.file(), number), pages })
    }
}

/// What the pool did since its start.
#[derive(Debug, Default)]
pub(crate) struct PoolCounters {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) loaded: Counter,
    pub(crate) written: Counter,
    pub(crate) evicted: Counter,
}

/// A pool of frames that the files of an instance share. See the crate's documentation.
pub struct BufferPool {
    pub(crate) memory: Arc<FrameMemory>,
    /// By frame number: `(file index + 1) << 32 | page number` of the page that was last put there, or 0 for none, and
    /// [`USED`]. A hint: only the state word is authoritative.
    owners: Box<[AtomicU64]>,
    free: Ranked<Mutex<Vec<OwnedFrame>>>,
    pub(crate) hand: AtomicU32,
    load_owners: Arc<LoadOwners>,
    page_waits: Arc<PerHobt<HobtPageWaits>>,
    files: Ranked<RwLock<Vec<Option<Arc<RegisteredFile>>>>>,
    pub(crate) counters: PoolCounters,
    pub(crate) staging: BufferCache,
    /// The last registration of a file.
    registrations: AtomicU32,
    pub(crate) extension: Ranked<RwLock<Option<Arc<Extension>>>>,
    /// Whether there is an extension: spares its lock where there is none.
    pub(crate) is_extended: AtomicBool,
}

impl BufferPool {
    /// A pool with all frames free.
    ///
    /// # Errors
    /// [`BufferError::Memory`].
    pub fn new(settings: PoolSettings) -> Result<Arc<BufferPool>, BufferError> {
        const FRAMES_MIN: usize = 16;
        const FRAMES_MAX: usize = (1 << 26) - 1;
        let frames = (settings.bytes / PAGE_SIZE).clamp(FRAMES_MIN, FRAMES_MAX);
        let frames = u32::try_from(frames).expect("at most 2²⁶ frames");
        let (memory, free) = reserve(frames)?;
        Ok(Arc::new(BufferPool {
            memory: Arc::new(memory),
            owners: std::iter::repeat_with(AtomicU64::default).take(frames as usize + 1).collect(),
            free: Ranked::new(Rank::FreeFrames, Mutex::new(free)),
            hand: AtomicU32::new(0),
            load_owners: Arc::default(),
            page_waits: Arc::default(),
            files: Ranked::new(Rank::PoolFiles, RwLock::new(Vec::new())),
            counters: PoolCounters::default(),
            staging: BufferCache::new(4 * WRITE_BYTES_MAX),
            registrations: AtomicU32::new(0),
            extension: Ranked::new(Rank::Extension, RwLock::new(None)),
            is_extended: AtomicBool::new(false),
        }))
    }

    /// Makes a file's pages available. Reads nothing. The caller must register a file only once.
    pub fn register_file(self: &Arc<Self>, description: PoolFileDescription) -> Arc<PoolFile> {
        let PoolFileDescription { database, database_tag, file, disk, log } = description;
        let mut files = self.files.write();
        let index = files.iter().position(Option::is_none).unwrap_or(files.len());
        let last = self.registrations.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| last.checked_add(1));
        let registered = Arc::new(RegisteredFile {
            registration: last.expect("fewer registrations than 2³²") + 1,
            index: u32::try_from(index).ok().filter(|index| *index < MAX_FILES).expect("fewer files than 2³¹"),
            database,
            database_tag,
            disk,
            log,
            words: Arc::new(StateWords::new(
                self.memory.clone(),
                self.load_owners.clone(),
                FileWaits { all: self.page_waits.clone(), database },
                file,
            )),
            closed: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            written: WrittenExtents::default(),
            pages: AtomicU64::new(0),
        });
        match files.get_mut(index) {
            Some(slot) => *slot = Some(registered.clone()),
            None => files.push(Some(registered.clone())),
        }
        Arc::new(PoolFile::new(self.clone(), registered))
    }

    /// How often and how long threads waited for pages of a heap or tree.
    pub fn page_waits(&self, database: DatabaseId, hobt: HobtId) -> HobtPageWaits {
        self.page_waits.of(database, hobt)
    }

    /// Records a wait for the disk for pages of a heap or tree that were not read through [`PoolFile::read`].
    pub fn note_io_wait(&self, database: DatabaseId, hobt: HobtId, time: Duration) {
        self.page_waits.change(database, hobt, |waits| waits.io += WaitTotal::one(time));
    }

    /// Drops the recorded waits for pages of heaps and trees that no longer exist.
    pub fn forget_waits(&self, is_gone: impl Fn(DatabaseId, HobtId) -> bool) {
        self.page_waits.forget(is_gone);
    }

    /// Registers an owner of loads, until it is dropped. A thread that waits for a page that is being loaded asks it to
    /// publish.
    pub fn add_load_owner(&self, owner: Weak<dyn LoadOwner>) {
        self.load_owners.add(owner);
    }

    /// Unregisters a file: frees its frames and refuses every later use of `file`. Waits for reads under way and for
    /// pages that are held, up to ten seconds each.
    ///
    /// # Errors
    /// [`BufferError::Dirty`] when there are changed pages and they may not be lost. [`BufferError::InUse`] when a page
    /// stays held. In both cases the file stays registered. [`BufferError::Closed`] when it was unregistered before.
    pub fn unregister_file(&self, file: &PoolFile, dirty: Dirty) -> Result<(), BufferError> {
        let registered = file.registered();
        if registered.closed.swap(true, Ordering::SeqCst) {
            return Err(BufferError::Closed);
        }
        // See `PoolFile::claim`.
        fence(Ordering::SeqCst);
        let emptied = self.empty(registered, dirty);
        if emptied.is_err() {
            registered.closed.store(false, Ordering::SeqCst);
            return emptied;
        }
        self.files.write()[registered.index as usize] = None;
        self.forget_copies(|registration| registration == registered.registration);
        Ok(())
    }

    fn empty(&self, registered: &RegisteredFile, dirty: Dirty) -> Result<(), BufferError> {
        if dirty == Dirty::Refuse && registered.words.dirty() > 0 {
            return Err(BufferError::Dirty);
        }
        for segment in registered.words.segments() {
            for cell in segment.pages() {
                if !cell.load().is_absent() {
                    self.drop_page(cell, dirty)?;
                }
            }
        }
        Ok(())
    }

    /// Makes one page absent. Waits for its holders.
    pub(crate) fn drop_page(&self, cell: PageCell<'_>, dirty: Dirty) -> Result<(), BufferError> {
        let guard = match cell.exclude(Some(schedule::now() + HOLDER_PATIENCE)) {
            Latched::Guard(guard) => guard,
            Latched::Absent => return Ok(()),
            Latched::Busy => return Err(BufferError::InUse),
        };
        if dirty == Dirty::Refuse && cell.load().is_dirty() {
            return Err(BufferError::Dirty);
        }
        self.give_back([guard.discard()]);
        Ok(())
    }

    /// The files that are registered now.
    pub(crate) fn registered_files(&self) -> Vec<Arc<RegisteredFile>> {
        self.files.read().iter().flatten().cloned().collect()
    }

    /// Records that the clock has found the frame's page used.
    pub(crate) fn note_used(&self, frame: u32) {
        self.owners[frame as usize].fetch_or(USED, Ordering::Relaxed);
    }

    /// Whether the clock has found the page used that was last put into the frame.
    pub(crate) fn was_used(&self, frame: u32) -> bool {
        self.owners[frame as usize].load(Ordering::Relaxed) & USED != 0
    }

    /// Records which page a frame is about to hold.
    pub(crate) fn set_owner(&self, frame: &OwnedFrame, file: &RegisteredFile, number: u32) {
        let owner = (u64::from(file.index) + 1) << 32 | u64::from(number);
        self.owners[frame.number() as usize].store(owner, Ordering::Relaxed);
    }

    /// Calls `visit` for the pages that these frames were last given to. `visit` must not register files.
    pub(crate) fn visit_owners(
        &self,
        frames: impl Iterator<Item = u32>,
        mut visit: impl FnMut(u32, &Arc<RegisteredFile>, PageCell<'_>),
    ) {
        let files = self.files.read();
        for frame in frames {
            let owner = self.owners[frame as usize].load(Ordering::Relaxed) & !USED;
            let Some(index) = (owner >> 32).checked_sub(1) else { continue };
            // A slot's high half came from a `u32`.
            let Some(Some(file)) = files.get(index as usize) else { continue };
            // The low half is the page number.
            if let Some(cell) = file.words.get(owner as u32) {
                visit(frame, file, cell);
            }
        }
    }

    /// Takes up to `count` free frames and appends them to `out`.
    pub(crate) fn pop_free(&self, count: usize, out: &mut Vec<OwnedFrame>) {
        let mut free = self.free.lock();
        let rest = free.len() - count.min(free.len());
        out.extend(free.drain(rest..).rev());
    }

    /// Puts frames on the free list.
    pub(crate) fn give_back(&self, frames: impl IntoIterator<Item = OwnedFrame>) {
        self.free.lock().extend(frames);
    }

    pub(crate) fn free_frames(&self) -> u64 {
        self.free.lock().len() as u64
    }
}

impl std::fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BufferPool({} frames)", self.memory.frames())
    }
}
