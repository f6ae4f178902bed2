//! A file's pages: reading, changing, creating and forgetting them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use hobt_base::{DatabaseId, EXTENT_PAGES, FileId, PAGE_SIZE};
use hobt_instruments::{LatchClass, Wait, WaitType, latches};
use hobt_page::{PageBytes, verify};

use crate::error::BufferError;
use crate::frames::{ExclusiveGuard, Latched, LoadClaim, Optimistic, OwnedFrame, PageCell, SharedGuard};
use crate::page_waits::WaitTotal;
use crate::pool::{BufferPool, Dirty, RegisteredFile};
use crate::run::PageRun;
use crate::written::WrittenExtents;

/// Page reads of one statement, as `SET STATISTICS IO` counts them. Many threads may add.
#[derive(Debug, Default)]
pub struct ReadCounts {
    /// Pages asked for.
    pub logical: AtomicU64,
    /// Pages among them that were read from disk, and not from the buffer pool extension.
    pub physical: AtomicU64,
    /// Pages read from disk because they are next to one that was asked for.
    pub read_ahead: AtomicU64,
}

/// How a page is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions<'a> {
    /// How many pages after it are read along if the page must be read from disk, up to 7. They stop at the first that
    /// is not absent, and at the end of the file.
    pub ahead: u32,
    /// The counts that the read is added to.
    pub counts: Option<&'a ReadCounts>,
    /// The page will not be needed again soon: the read does not count as use that keeps it in the pool.
    pub once: bool,
}

/// The outcome of asking for a page without waiting.
#[must_use]
#[derive(Debug)]
pub enum TryRead<'a> {
    /// The page.
    Guard(SharedGuard<'a>),
    /// No frame holds it: [`PoolFile::read`] would go to disk.
    NotResident,
    /// It is being loaded or held exclusively: [`PoolFile::read`] would wait.
    Busy,
}

/// A registered file, through which its pages are accessed.
pub struct PoolFile {
    pool: Arc<BufferPool>,
    registered: Arc<RegisteredFile>,
}

/// A page that was loaded for a guard, in a frame that is not published yet.
struct Fault<'a> {
    cell: PageCell<'a>,
    claim: LoadClaim,
    frame: OwnedFrame,
}

impl PoolFile {
    pub(crate) fn new(pool: Arc<BufferPool>, registered: Arc<RegisteredFile>) -> PoolFile {
        PoolFile { pool, registered }
    }

    pub(crate) fn registered(&self) -> &Arc<RegisteredFile> {
        &self.registered
    }

    /// The file's number in its database.
    pub fn id(&self) -> FileId {
        self.registered.file()
    }

    /// The database that the file belongs to.
    pub fn database(&self) -> DatabaseId {
        self.registered.database
    }

    /// The pool that the file is registered with.
    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    /// The extents of the file that were written.
    pub fn written(&self) -> &WrittenExtents {
        &self.registered.written
    }

    /// Stops all writes of this file's pages: their contents may be wrong.
    pub fn freeze(&self) {
        self.registered.frozen.store(true, Ordering::Release);
    }

    /// Latches the page for reading. Blocks on the disk if the page is not resident, and on an exclusive holder.
    ///
    /// # Errors
    /// [`BufferError::Damaged`], [`BufferError::Disk`], [`BufferError::NoFrames`], [`BufferError::OutOfRange`],
    /// [`BufferError::Closed`].
    pub fn read(&self, number: u32) -> Result<SharedGuard<'_>, BufferError> {
        self.read_with(number, ReadOptions::default())
    }

    /// Like [`PoolFile::read`], with options.
    ///
    /// # Errors
    /// As [`PoolFile::read`].
    pub fn read_with(&self, number: u32, options: ReadOptions<'_>) -> Result<SharedGuard<'_>, BufferError> {
        loop {
            let found = match self.registered.words.get(number) {
                Some(cell) if options.once => cell.share_quietly(),
                Some(cell) => cell.share(),
                None => Latched::Absent,
            };
            if let Latched::Guard(guard) = found {
                self.count_hit(options);
                return Ok(guard);
            }
            if let Some(fault) = self.fault(number, options, WaitType::PageIoLatchSh)? {
                return Ok(fault.claim.publish_shared(fault.frame, fault.cell, options.once));
            }
        }
    }

    /// Latches the page for reading and changing. Blocks as [`PoolFile::read`] does, and on any holder.
    ///
    /// # Errors
    /// As [`PoolFile::read`].
    pub fn write(&self, number: u32) -> Result<ExclusiveGuard<'_>, BufferError> {
        self.write_with(number, ReadOptions::default())
    }

    /// Like [`PoolFile::write`], with options.
    ///
    /// # Errors
    /// As [`PoolFile::read`].
    pub fn write_with(&self, number: u32, options: ReadOptions<'_>) -> Result<ExclusiveGuard<'_>, BufferError> {
        loop {
            let found = self.registered.words.get(number).map_or(Latched::Absent, |cell| cell.exclude(None));
            if let Latched::Guard(guard) = found {
                self.count_hit(options);
                return Ok(guard);
            }
            if let Some(fault) = self.fault(number, options, WaitType::PageIoLatchEx)? {
                return Ok(fault.claim.publish_excluded(fault.frame, fault.cell, false));
            }
        }
    }

    /// Creates a new page: zeroed, dirty, and held exclusively. The page's bytes on disk are not read. The page must
    /// lie in the file. The caller writes its header. Blocks on holders of an earlier page of this number.
    ///
    /// # Errors
    /// As [`PoolFile::read`], but never `Damaged`.
    pub fn create(&self, number: u32) -> Result<ExclusiveGuard<'_>, BufferError> {
        loop {
            let found = self.registered.words.get(number).map_or(Latched::Absent, |cell| cell.exclude(None));
            if let Latched::Guard(mut guard) = found {
                guard.fill(0);
                return Ok(guard);
            }
            let Some((cell, claim)) = self.claim(number)? else { continue };
            let frame = self.pool.take_frames(1)?.pop();
            let mut frame = frame.expect("one frame was asked for");
            frame.bytes_mut(&self.pool.memory).fill(0);
            self.pool.set_owner(&frame, &self.registered, number);
            return Ok(claim.publish_excluded(frame, cell, true));
        }
    }

    /// Latches the page for reading, if that needs no waiting. Does not count as use that keeps the page in the pool.
    #[inline]
    pub fn try_read(&self, number: u32) -> TryRead<'_> {
        self.registered.words.get(number).map_or(TryRead::NotResident, try_read_cell)
    }

    /// Copies 64-bit words of the page, from word `first_word` on, without a latch and without waiting. Does not count
    /// as use. [`PoolFile::page_run`] is cheaper for many pages in turn.
    ///
    /// # Panics
    /// The words reach over the page's end.
    #[inline]
    pub fn optimistic_words(&self, number: u32, first_word: usize, out: &mut [u64]) -> Optimistic {
        match self.registered.words.get(number) {
            Some(cell) => cell.copy_words(first_word, out),
            None => Optimistic::NotResident,
        }
    }

    /// Asks the processor to bring bytes of the page into its cache, if the page is resident. Never blocks.
    #[inline]
    pub fn prefetch(&self, number: u32, first_byte: usize, bytes: usize) {
        if let Some(cell) = self.registered.words.get(number) {
            cell.prefetch(first_byte, bytes);
        }
    }

    /// A cursor over neighbouring pages: optimistic copies and prefetches that do not look up the state words each
    /// time.
    pub fn page_run(&self, first: u32, count: u32) -> PageRun<'_> {
        PageRun::new(&self.registered.words, first, count)
    }

    /// Drops pages whose extent was freed. They are not written, whatever was in them. Waits up to ten seconds for each
    /// page that is held.
    ///
    /// # Errors
    /// [`BufferError::InUse`] when a page stays held. The pages before it are dropped.
    pub fn discard(&self, first: u32, count: u32) -> Result<(), BufferError> {
        let mut number = first;
        let end = first.saturating_add(count);
        while number < end {
            let Some(segment) = self.registered.words.segment(number) else {
                // Nothing of this segment was ever used.
                let segment_pages = crate::frames::SEGMENT_PAGES as u32;
                number = (number / segment_pages + 1).saturating_mul(segment_pages);
                continue;
            };
            let cell = segment.cell(number);
            // The clock may evict the page at any moment. With a new version its copy in the extension is no page any
            // more; dropping a page that is there gives it one.
            while !cell.change_version() {
                self.pool.drop_page(cell, Dirty::Discard)?;
            }
            number += 1;
        }
        Ok(())
    }

    /// Takes the right to load page `number`. `None` when the page is not absent any more.
    pub(crate) fn claim(&self, number: u32) -> Result<Option<(PageCell<'_>, LoadClaim)>, BufferError> {
        self.registered.check_range(number)?;
        let cell = self.registered.words.get_or_allocate(number);
        let Some(claim) = cell.try_claim(&self.registered.words) else { return Ok(None) };
        // Unregistering sets `closed` and then reads every word: either it sees the claim, or this claim sees `closed`.
        fence(Ordering::SeqCst);
        if self.registered.closed.load(Ordering::Relaxed) {
            return Err(BufferError::Closed);
        }
        Ok(Some((cell, claim)))
    }

    /// Reads an absent page. `None` when another thread loads it: the caller looks again.
    #[cold]
    fn fault(
        &self,
        number: u32,
        options: ReadOptions<'_>,
        wait_type: WaitType,
    ) -> Result<Option<Fault<'_>>, BufferError> {
        let Some((cell, claim)) = self.claim(number)? else { return Ok(None) };
        let copy = self.pool.find_copy(&self.registered, cell);
        let mut neighbours = Vec::new();
        let ahead = if copy.is_some() { 0 } else { options.ahead.min(EXTENT_PAGES - 1) };
        for next in 1..=ahead {
            // An error of a page after the one asked for is not this caller's concern.
            let claimed = number.checked_add(next).and_then(|next| self.claim(next).ok().flatten());
            let Some((_, neighbour)) = claimed else { break };
            neighbours.push(neighbour);
        }
        let mut frames = match self.pool.take_frames(1 + neighbours.len()) {
            Err(BufferError::NoFrames) if !neighbours.is_empty() => {
                neighbours.clear();
                self.pool.take_frames(1)?
            }
            taken => taken?,
        };
        let wait = Wait::begin_working(wait_type);
        let page = claim.page();
        let memory = &self.pool.memory;
        let is_copied =
            copy.is_some_and(|copy| copy.read(frames[0].bytes_mut(memory), page, self.registered.database_tag));
        let read = if is_copied { Ok(()) } else { self.read_into(&mut frames, &claim) };
        let elapsed = wait.elapsed();
        latches::record(LatchClass::Buffer, elapsed);
        drop(wait);
        let checked = read.and_then(|()| self.check(&claim, frames[0].bytes(&self.pool.memory)));
        if let Err(error) = checked {
            self.pool.give_back(frames);
            return Err(error);
        }
        let page = frames[0].bytes(&self.pool.memory);
        self.registered.words.waits().note(page, WaitTotal::default(), WaitTotal::one(elapsed));
        self.pool.counters.misses.add(1);
        if let Some(counts) = options.counts {
            counts.logical.fetch_add(1, Ordering::Relaxed);
            counts.physical.fetch_add(u64::from(!is_copied), Ordering::Relaxed);
            counts.read_ahead.fetch_add(neighbours.len() as u64, Ordering::Relaxed);
        }
        let mut frames = frames.into_iter();
        let frame = frames.next().expect("a frame for the page itself");
        self.pool.set_owner(&frame, &self.registered, number);
        self.publish(neighbours, frames);
        Ok(Some(Fault { cell, claim, frame }))
    }

    fn read_into(&self, frames: &mut [OwnedFrame], first: &LoadClaim) -> Result<(), BufferError> {
        let offset = first.page().byte_offset();
        if let [frame] = frames {
            self.registered.disk.read_at(frame.bytes_mut(&self.pool.memory), offset)?;
            return Ok(());
        }
        let mut buffer = self.pool.staging.take(frames.len() * PAGE_SIZE)?;
        let read = self.registered.disk.read_at(&mut buffer, offset);
        for (frame, bytes) in frames.iter_mut().zip(buffer.chunks_exact(PAGE_SIZE)) {
            frame.bytes_mut(&self.pool.memory).copy_from_slice(bytes);
        }
        self.pool.staging.give(buffer);
        Ok(read?)
    }

    fn check(&self, claim: &LoadClaim, bytes: &PageBytes) -> Result<(), BufferError> {
        let page = claim.page();
        verify(bytes, page, self.registered.database_tag).map_err(|what| BufferError::Damaged {
            database: self.registered.database,
            page,
            what,
        })
    }

    /// Makes pages that were read resident, if they are sound. Damaged pages stay absent and are returned.
    pub(crate) fn publish(
        &self,
        claims: impl IntoIterator<Item = LoadClaim>,
        frames: impl IntoIterator<Item = OwnedFrame>,
    ) -> Vec<u32> {
        let mut damaged = Vec::new();
        let mut loaded = 0;
        for (claim, frame) in claims.into_iter().zip(frames) {
            if self.check(&claim, frame.bytes(&self.pool.memory)).is_ok() {
                self.pool.set_owner(&frame, &self.registered, claim.number());
                claim.publish(frame);
                loaded += 1;
            } else {
                damaged.push(claim.number());
                self.pool.give_back([frame]);
            }
        }
        self.pool.counters.loaded.add(loaded);
        damaged
    }

    #[inline]
    fn count_hit(&self, options: ReadOptions<'_>) {
        self.pool.counters.hits.add(1);
        if let Some(counts) = options.counts {
            counts.logical.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// See [`PoolFile::try_read`].
#[inline]
pub(crate) fn try_read_cell(cell: PageCell<'_>) -> TryRead<'_> {
    match cell.try_share_quietly() {
        Latched::Guard(guard) => TryRead::Guard(guard),
        Latched::Absent => TryRead::NotResident,
        Latched::Busy => TryRead::Busy,
    }
}

impl std::fmt::Debug for PoolFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PoolFile(database {}, file {})", self.database(), self.id())
    }
}
