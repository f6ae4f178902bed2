//! The buffer pool extension: copies of clean pages in a file on a fast device.
//!
//! ```text
//!   the clock evicts ──► retire ──► a batch of 64 places ──► one asynchronous write; the writer goes round the file
//!   a page is needed ──► find (is the version still that of the copy?) ──► read ──► checked ──► a frame
//! ```
//!
//! *What is current.* A copy counts only while the page is absent and the version of its state word is the copy's. The
//! version is incremented when an exclusive holder has changed the page, when the page leaves its frame, and when its
//! extent is freed ([`crate::PoolFile::discard`]). So whatever changes a page, through the pool or past it, makes its
//! copy void, whether or not the map is told. A file gets a new registration each time, so no copy of an earlier file
//! is found. `docs/design/0049-devices.md` has the reasons.
//!
//! *What is copied.* Pages that the clock has found used (`clock.rs`). A page whose copy is still there is not written
//! again: its copy only gets the new version.
//!
//! *Faults.* A failed read or write switches the extension off; a copy that is not the page it should be is forgotten.
//! Either way the page is read from its data file, which has the same bytes.
//!
//! The lock of the state is held for short memory accesses alone: transfers begin and end outside, checksums are
//! computed outside, and a walk over all copies releases it every so often. What the pool does with an extension is
//! in `extended.rs`.

mod copies;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use hobt_base::{PAGE_SIZE, PageId};
use hobt_disk::{AlignedBuffer, Completion, CompletionQueue, Direction, DiskError, DiskFile, IoBuffer, Request};
use hobt_instruments::Counter;
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::Mutex;
use hobt_page::{PageBytes, PageHeader, PageType, seal, verify};

use crate::error::BufferError;
pub(crate) use copies::PageKey;
use copies::{Copies, Copy};

/// Pages of one write.
const BATCH_PAGES: u32 = 64;
const BATCH_BYTES: usize = BATCH_PAGES as usize * PAGE_SIZE;
/// Batches that are filled or written at a time. Pages that would need another one are not copied.
const BATCHES_MAX: usize = 3;
/// Places that a walk over all copies looks at before it lets others go on.
const PLACES_OF_A_STEP: u32 = 4096;
/// The fewest batches of a file.
const FILE_BATCHES_MIN: u64 = 4;

/// A page that has just left its frame.
pub(crate) struct Retired {
    pub(crate) key: PageKey,
    /// The version of its state word, without a frame.
    pub(crate) version: u32,
    /// Whether it was used by other work than scans.
    pub(crate) is_used: bool,
}

/// Neighbouring places that are filled or written.
struct Batch {
    first: u32,
    filled: u32,
    buffer: Option<AlignedBuffer>,
}

impl Batch {
    fn has(&self, place: u32) -> bool {
        place.wrapping_sub(self.first) < BATCH_PAGES
    }
}

struct State {
    copies: Copies,
    filling: Option<Batch>,
    /// Their buffers are with the device.
    writing: Vec<Batch>,
    spare: Vec<AlignedBuffer>,
    /// Where the next batch begins.
    next: u32,
}

impl State {
    /// Whether a place has been written.
    fn is_written(&self, place: u32) -> bool {
        !self.filling.iter().chain(&self.writing).any(|batch| batch.has(place))
    }

    /// The batch that is being filled, or a new one in the next places, whose copies are forgotten. `None` while too
    /// many writes are under way, or one of these places.
    fn batch(&mut self, evicted: &Counter) -> Option<&mut Batch> {
        if self.filling.is_none() {
            let first = self.next;
            if self.writing.iter().any(|batch| batch.has(first)) {
                return None;
            }
            let buffer = self.spare.pop()?;
            self.next = (first + BATCH_PAGES) % self.copies.places();
            let cleared = (first..first + BATCH_PAGES).filter(|place| self.copies.clear(*place)).count();
            evicted.add(cleared as u64);
            self.filling = Some(Batch { first, filled: 0, buffer: Some(buffer) });
        }
        self.filling.as_mut()
    }
}

/// What the extension did since it was switched on.
#[derive(Debug, Default)]
struct Counters {
    read: Counter,
    written: Counter,
    skipped: Counter,
    evicted: Counter,
    damaged: Counter,
}

/// An extension that is switched on, or was until its device failed.
pub(crate) struct Extension {
    disk: Arc<dyn DiskFile>,
    queue: Arc<CompletionQueue>,
    state: Ranked<Mutex<State>>,
    counters: Counters,
    failed: OnceLock<String>,
}

/// A copy that is current, where it lies.
pub(crate) struct Found {
    extension: Arc<Extension>,
    place: u32,
    copy: Copy,
}

/// The extension at one moment; counts since it was switched on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExtensionStatistics {
    /// Places for pages.
    pub pages: u32,
    /// Copies, among them some that are not current any more.
    pub copies: u32,
    /// Pages read from it.
    pub pages_read: u64,
    /// Pages written to it.
    pub pages_written: u64,
    /// Pages that were not copied because the device did not keep up.
    pub pages_skipped: u64,
    /// Copies that were overwritten by those of other pages.
    pub pages_evicted: u64,
    /// Copies that were not the page that they should be.
    pub pages_damaged: u64,
    /// Writes under way.
    pub writes: u64,
    /// Why it is not used any more; `None` while it is.
    pub failed: Option<String>,
}

impl Extension {
    /// An extension without copies, in a file of so many pages.
    ///
    /// # Errors
    /// [`BufferError::Memory`], [`BufferError::Disk`].
    pub(crate) fn new(disk: Arc<dyn DiskFile>, pages: u32) -> Result<Extension, BufferError> {
        let spare = (0..BATCHES_MAX).map(|_| AlignedBuffer::new(BATCH_BYTES)).collect::<Result<Vec<_>, _>>()?;
        let (filling, writing) = (None, Vec::with_capacity(BATCHES_MAX));
        let state = State { copies: Copies::new(pages)?, filling, writing, spare, next: 0 };
        Ok(Extension {
            disk,
            queue: CompletionQueue::new(),
            state: Ranked::new(Rank::Extension, Mutex::new(state)),
            counters: Counters::default(),
            failed: OnceLock::new(),
        })
    }

    /// Whether its device works.
    pub(crate) fn is_usable(&self) -> bool {
        self.failed.get().is_none()
    }

    /// Switches it off for good.
    fn fail(&self, error: &DiskError) {
        self.failed.get_or_init(|| error.to_string());
    }

    /// Takes the writes that have ended.
    pub(crate) fn reap(&self) {
        while let Some(completion) = self.queue.try_pop() {
            let Completion { buffer, result, tag, .. } = completion;
            let mut state = self.state.lock();
            state.writing.retain(|batch| u64::from(batch.first) != tag);
            state.spare.extend(buffer.into_owned());
            drop(state);
            match result {
                Ok(()) => self.counters.written.add(u64::from(BATCH_PAGES)),
                Err(error) => self.fail(&error),
            }
        }
    }

    /// The page's copy, if it is current for a state word of this version.
    pub(crate) fn find(self: &Arc<Extension>, key: PageKey, version: u32) -> Option<Found> {
        self.reap();
        if !self.is_usable() {
            return None;
        }
        let state = self.state.lock();
        let (place, copy) = state.copies.find(key)?;
        let is_current = copy.version == version && state.is_written(place);
        drop(state);
        is_current.then(|| Found { extension: Arc::clone(self), place, copy })
    }

    /// Takes a page that has left its frame with these bytes, which its data file has too. Returns a full batch for
    /// [`Extension::write`].
    pub(crate) fn retire(&self, retired: &Retired, bytes: &PageBytes) -> Option<(u32, AlignedBuffer)> {
        let &Retired { key, version, is_used } = retired;
        let mut state = self.state.lock();
        if let Some((place, copy)) = state.copies.find(key) {
            // It left the state in which the copy was current by leaving its frame, and by nothing else.
            if copy.version == version_before(version) {
                state.copies.set_version(place, version);
                return None;
            }
            state.copies.clear(place);
        }
        if !is_used || !is_worth_a_copy(bytes) {
            return None;
        }
        let Some(batch) = state.batch(&self.counters.evicted) else {
            self.counters.skipped.add(1);
            return None;
        };
        let place = batch.first + batch.filled;
        let at = batch.filled as usize * PAGE_SIZE;
        let buffer = batch.buffer.as_mut().expect("a batch that is filled has its buffer");
        let copy: &mut PageBytes = (&mut buffer[at..at + PAGE_SIZE]).try_into().expect("a page");
        copy.copy_from_slice(bytes);
        batch.filled += 1;
        let is_full = batch.filled == BATCH_PAGES;
        // It is sealed when the batch is written. It is not read before that.
        state.copies.put(place, Copy { key, version, checksum: 0 });
        if !is_full {
            return None;
        }
        let mut full = state.filling.take().expect("it has just been filled");
        let (first, buffer) = (full.first, full.buffer.take().expect("as above"));
        state.writing.push(full);
        Some((first, buffer))
    }

    /// Seals the pages of a batch and begins to write it. Does not block.
    pub(crate) fn write(&self, first: u32, mut buffer: AlignedBuffer) {
        let (pages, _) = buffer.as_chunks_mut::<PAGE_SIZE>();
        pages.iter_mut().for_each(seal);
        let mut state = self.state.lock();
        for (place, page) in (first..).zip(pages.iter()) {
            state.copies.set_checksum(place, checksum_of(page));
        }
        drop(state);
        self.disk.submit(Request {
            direction: Direction::Write,
            offset: u64::from(first) * PAGE_SIZE as u64,
            buffer: IoBuffer::Owned(buffer),
            tag: u64::from(first),
            queue: Arc::clone(&self.queue),
        });
    }

    /// Waits for the writes under way.
    pub(crate) fn drain(&self) {
        self.queue.drain();
    }

    /// Forgets the copies of files whose registration `is_gone`.
    pub(crate) fn forget(&self, is_gone: impl Fn(u32) -> bool) {
        for places in self.steps() {
            self.state.lock().copies.forget(places, &is_gone);
        }
    }

    /// Calls `visit` for each copy with its page and version, whether it is current or not. A page whose copy moves
    /// meanwhile may come twice or not at all.
    pub(crate) fn visit(&self, mut visit: impl FnMut(PageKey, u32)) {
        let mut some = Vec::with_capacity(PLACES_OF_A_STEP as usize);
        for places in self.steps() {
            some.extend(self.state.lock().copies.iter(places));
            some.drain(..).for_each(|copy: Copy| visit(copy.key, copy.version));
        }
    }

    /// All places, in parts. A walk releases the lock after each.
    fn steps(&self) -> impl Iterator<Item = Range<u32>> + use<> {
        let all = self.state.lock().copies.places();
        let firsts = (0..all).step_by(PLACES_OF_A_STEP as usize);
        firsts.map(move |first| first..all.min(first + PLACES_OF_A_STEP))
    }

    /// Its state.
    pub(crate) fn statistics(&self) -> ExtensionStatistics {
        self.reap();
        let state = self.state.lock();
        ExtensionStatistics {
            pages: state.copies.places(),
            copies: state.copies.count(),
            pages_read: self.counters.read.sum(),
            pages_written: self.counters.written.sum(),
            pages_skipped: self.counters.skipped.sum(),
            pages_evicted: self.counters.evicted.sum(),
            pages_damaged: self.counters.damaged.sum(),
            writes: state.writing.len() as u64,
            failed: self.failed.get().cloned(),
        }
    }
}

impl Found {
    /// Reads the copy. Blocks. `false` if it is not the page: it was overwritten meanwhile, or the device failed or
    /// returned something else. The bytes are then undefined.
    pub(crate) fn read(&self, bytes: &mut PageBytes, page: PageId, database_tag: u32) -> bool {
        let extension = &self.extension;
        if let Err(error) = extension.disk.read_at(bytes, u64::from(self.place) * PAGE_SIZE as u64) {
            extension.fail(&error);
            return false;
        }
        let is_sound = checksum_of(bytes) == self.copy.checksum && verify(bytes, page, database_tag).is_ok();
        let mut state = extension.state.lock();
        // Another page may have got the place while this one was read. Its version may have changed, which is no harm.
        let is_there = state
            .copies
            .find(self.copy.key)
            .is_some_and(|(place, copy)| place == self.place && copy.checksum == self.copy.checksum);
        if is_sound {
            extension.counters.read.add(1);
        } else if is_there {
            extension.counters.damaged.add(1);
            state.copies.clear(self.place);
        }
        is_sound
    }
}

/// The version of a state word before its page left its frame.
fn version_before(version: u32) -> u32 {
    version.wrapping_sub(1) & ((1 << crate::state::VERSION_BITS) - 1)
}

/// Whether a page is one that is changed through the pool alone, or past it by a writer that discards it before and
/// after. Headers of files, the boot page and the maps of written extents are written past the pool at any time;
/// `DBCC PAGE` may have brought them in.
fn is_worth_a_copy(bytes: &PageBytes) -> bool {
    let of_engine = [PageType::Unformatted, PageType::FileHeader, PageType::Boot, PageType::WrittenMap];
    PageHeader::read(bytes).is_ok_and(|header| !of_engine.contains(&header.page_type))
}

/// The checksum in a page's header.
fn checksum_of(bytes: &PageBytes) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The memory that an extension in a file of so many bytes takes.
pub(crate) fn memory_bytes(file_bytes: u64) -> u64 {
    Copies::bytes(places_of(file_bytes)) + (BATCHES_MAX * BATCH_BYTES) as u64
}

/// The places of a file: whole batches, so that none reaches over its end.
pub(crate) fn places_of(file_bytes: u64) -> u32 {
    const FILE_BATCHES_MAX: u64 = (1 << 30) / BATCH_PAGES as u64;
    let batches = (file_bytes / BATCH_BYTES as u64).clamp(FILE_BATCHES_MIN, FILE_BATCHES_MAX);
    u32::try_from(batches).expect("at most FILE_BATCHES_MAX") * BATCH_PAGES
}

#[cfg(test)]
mod tests;
