//! The frames, the state words, and every change of a state word. This file and `frames/memory.rs` have all unsafe code
//! of the crate.
//!
//! A frame's bytes are always owned by exactly one of these values, and ownership passes only between them. Soundness
//! rests on that:
//!
//! ```text
//!   OwnedFrame ──submit──► PinnedFrames (the device writes) ──take_back──► OwnedFrame
//!   OwnedFrame + LoadClaim ──publish──► a state word ──latch──► SharedGuard | ExclusiveGuard
//!   a state word ──try_evict, discard──► OwnedFrame
//! ```
//!
//! A state word is private to this file, so no other code can make a word name a frame, or release a latch that it does
//! not hold. That is why the file is long. An [`OwnedFrame`] is in no word, belongs to the pool whose memory it came
//! from, and cannot be copied.
//!
//! Optimistic copies are the exception. They read a frame that they do not own, word by word through relaxed atomic
//! loads, and throw the copy away unless the state word proves that the frame was not written meanwhile (a sequence
//! lock; Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012). No reference to the
//! bytes exists, and the words copied are plain integers, so a torn copy is a wrong number and not an invalid value.
//! The owner's own accesses are ordinary ones. That pair is a race in the letter of the language's memory model, but
//! the loads are compiled to plain aligned loads on every supported target, which is what the scheme needs.

mod memory;

use hobt_instruments::planted::{self, Bug};
use hobt_instruments::rank::{self, Rank};
use hobt_instruments::schedule::{self, Place};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, fence};
use std::time::{Duration, Instant};

use hobt_base::{FileId, PAGE_SIZE, PageId};
use hobt_disk::{Completion, CompletionQueue, Direction, DiskFile, IoBuffer, PinnedSlice, Request};
use hobt_instruments::{LatchClass, Wait, WaitType, latches};
use hobt_page::PageBytes;

pub(crate) use memory::FrameMemory;

use crate::error::BufferError;
use crate::load_owner::LoadOwners;
use crate::page_waits::{FileWaits, WaitTotal};
use crate::parking;
use crate::state::{DIRTY, EXCLUSIVE, LOADING, REFERENCED, SHARED_ONE, StateWord, WAITERS};

/// 64-bit words in a page.
pub const PAGE_WORDS: usize = PAGE_SIZE / 8;
/// State words in a segment: 512 KiB of words for 512 MiB of file.
pub(crate) const SEGMENT_PAGES: usize = 1 << 16;
const SEGMENTS: usize = 1 << 16;
/// How often a thread reads the word again before it parks for a latch: about a microsecond, longer than most holds.
const SPINS: u32 = 64;
/// How long a thread waits for a load before it asks the load owners to publish their loads: longer than a read takes.
const LOAD_PATIENCE: Duration = Duration::from_millis(20);

/// A frame that no state word names: free, or being filled by its owner. If one is dropped, the pool loses the frame.
#[derive(Debug)]
pub(crate) struct OwnedFrame(u32);

impl OwnedFrame {
    pub(crate) fn number(&self) -> u32 {
        self.0
    }

    /// The frame's bytes: what its last page left there.
    pub(crate) fn bytes_mut<'a>(&'a mut self, memory: &'a FrameMemory) -> &'a mut PageBytes {
        // SAFETY: this value is the frame's only owner and is borrowed exclusively; the memory outlives the borrow.
        // Every byte of the mapping is initialised (the kernel's zeros), and any bytes are a valid array.
        unsafe { memory.address(self.0).as_mut() }
    }

    pub(crate) fn bytes<'a>(&'a self, memory: &'a FrameMemory) -> &'a PageBytes {
        // SAFETY: as in `bytes_mut`, with a shared borrow of the only owner.
        unsafe { memory.address(self.0).as_ref() }
    }
}

/// Reserves memory for `frames` frames, and returns all of them for the pool's free list. Called once per pool.
///
/// # Errors
/// [`BufferError::Memory`].
pub(crate) fn reserve(frames: u32) -> Result<(FrameMemory, Vec<OwnedFrame>), BufferError> {
    let memory = FrameMemory::reserve(frames)?;
    // Popped from the end, so the lowest go first and neighbours stay together.
    Ok((memory, (1..=frames).rev().map(OwnedFrame).collect()))
}

/// Frames into which a device writes: those of a read from disk.
///
/// Dropping it waits until its queue has nothing in flight, and the pool loses the frames. Call
/// [`PinnedFrames::take_back`] or [`PinnedFrames::drain`] instead.
pub(crate) struct PinnedFrames {
    memory: Arc<FrameMemory>,
    queue: Arc<CompletionQueue>,
    offset: u64,
    frames: Vec<OwnedFrame>,
}

impl PinnedFrames {
    /// Starts a scatter read of neighbouring pages from byte `offset` on. Does not block.
    pub(crate) fn submit(
        memory: &Arc<FrameMemory>,
        frames: Vec<OwnedFrame>,
        disk: &dyn DiskFile,
        offset: u64,
        tag: u64,
        queue: &Arc<CompletionQueue>,
    ) -> PinnedFrames {
        let mut slices: Vec<PinnedSlice> = Vec::with_capacity(frames.len());
        let mut at = 0;
        while at < frames.len() {
            let run = frames[at..].windows(2).take_while(|pair| pair[1].0 == pair[0].0 + 1).count() + 1;
            let start = memory.address(frames[at].0).as_ptr().cast::<u8>();
            // SAFETY: `run` frames from `start` on are neighbours in the mapping, which the returned value keeps alive.
            // It owns them too, and returns them only against the popped completion or once the queue is drained.
            slices.push(unsafe { PinnedSlice::new(start, run * PAGE_SIZE) });
            at += run;
        }
        let pinned = PinnedFrames { memory: memory.clone(), queue: queue.clone(), offset, frames };
        disk.submit(Request {
            direction: Direction::Read,
            offset,
            buffer: IoBuffer::Pinned(slices),
            tag,
            queue: queue.clone(),
        });
        pinned
    }

    /// Whether `completion` ends this read.
    pub(crate) fn is_ended_by(&self, completion: &Completion) -> bool {
        let IoBuffer::Pinned(slices) = &completion.buffer else { return false };
        let Some((slice, frame)) = slices.first().zip(self.frames.first()) else { return false };
        completion.offset == self.offset
            && completion.buffer.len() == self.frames.len() * PAGE_SIZE
            && slice.as_ptr() == self.memory.address(frame.0).as_ptr().cast()
    }

    /// Returns the frames, after the device is done.
    ///
    /// # Panics
    /// The completion is another read's.
    pub(crate) fn take_back(mut self, completion: &Completion) -> Vec<OwnedFrame> {
        assert!(self.is_ended_by(completion), "the completion of another read");
        std::mem::take(&mut self.frames)
    }

    /// Waits until the queue has nothing in flight, drops what it delivers, and returns the frames.
    pub(crate) fn drain(mut self) -> Vec<OwnedFrame> {
        self.queue.drain();
        std::mem::take(&mut self.frames)
    }
}

impl Drop for PinnedFrames {
    fn drop(&mut self) {
        if !self.frames.is_empty() {
            self.queue.drain();
        }
    }
}

/// A page's state word in memory.
#[repr(transparent)]
struct StateCell(AtomicU64);

type Segment = [StateCell; SEGMENT_PAGES];

/// The state words of one file, allocated a segment at a time as pages are first used. Finding one takes no lock.
pub(crate) struct StateWords {
    memory: Arc<FrameMemory>,
    load_owners: Arc<LoadOwners>,
    waits: FileWaits,
    file: FileId,
    segments: Box<[AtomicPtr<Segment>]>,
    allocated: AtomicU32,
    resident: AtomicU64,
    dirty: AtomicU64,
}

impl StateWords {
    /// State words of a file of which no page is resident.
    pub(crate) fn new(
        memory: Arc<FrameMemory>,
        load_owners: Arc<LoadOwners>,
        waits: FileWaits,
        file: FileId,
    ) -> StateWords {
        // SAFETY: a null `AtomicPtr` is all zeros.
        let segments = unsafe { Box::<[AtomicPtr<Segment>]>::new_zeroed_slice(SEGMENTS).assume_init() };
        let (resident, dirty) = (AtomicU64::new(0), AtomicU64::new(0));
        StateWords { memory, load_owners, waits, file, segments, allocated: AtomicU32::new(0), resident, dirty }
    }

    /// The waits for pages of the file.
    pub(crate) fn waits(&self) -> &FileWaits {
        &self.waits
    }

    /// The segment of `number`, if any of its words was used yet.
    pub(crate) fn segment(&self, number: u32) -> Option<SegmentRef<'_>> {
        let index = number as usize / SEGMENT_PAGES;
        let segment = self.segments[index].load(Acquire);
        // SAFETY: a pointer in the table is null or came from `Box::into_raw` in `segment_or_allocate`, and is freed
        // only when this value is dropped.
        let cells = unsafe { segment.as_ref() }?;
        // Below 2³²: the index comes from a `u32`.
        Some(SegmentRef { words: self, cells, first: (index * SEGMENT_PAGES) as u32 })
    }

    fn segment_or_allocate(&self, number: u32) -> SegmentRef<'_> {
        if let Some(segment) = self.segment(number) {
            return segment;
        }
        // SAFETY: a state word of zero is an atomic integer of zero: absent, version 0.
        let fresh = Box::into_raw(unsafe { Box::<Segment>::new_zeroed().assume_init() });
        let slot = &self.segments[number as usize / SEGMENT_PAGES];
        // Counted before it can be found, so that every segment that is found, by `segments` too, is counted.
        self.allocated.fetch_add(1, Relaxed);
        if slot.compare_exchange(std::ptr::null_mut(), fresh, AcqRel, Acquire).is_err() {
            self.allocated.fetch_sub(1, Relaxed);
            // SAFETY: another thread was first, so `fresh` was never shared.
            drop(unsafe { Box::from_raw(fresh) });
        }
        self.segment(number).expect("a segment that was just put there")
    }

    /// The cell of `number`, if its segment exists.
    pub(crate) fn get(&self, number: u32) -> Option<PageCell<'_>> {
        self.segment(number).map(|segment| segment.cell(number))
    }

    /// The cell of `number`; allocates its segment.
    pub(crate) fn get_or_allocate(&self, number: u32) -> PageCell<'_> {
        self.segment_or_allocate(number).cell(number)
    }

    /// The segments in use, by page number. Segments that are allocated meanwhile may be missing.
    pub(crate) fn segments(&self) -> impl Iterator<Item = SegmentRef<'_>> {
        let used = (0..SEGMENTS).filter_map(|index| self.segment((index * SEGMENT_PAGES) as u32));
        // The table is long, and most files use its beginning alone.
        used.take(self.allocated.load(Acquire) as usize)
    }

    /// Bytes of state words.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.allocated.load(Relaxed)) * size_of::<Segment>() as u64
    }

    /// Pages in frames.
    pub(crate) fn resident(&self) -> u64 {
        self.resident.load(Relaxed)
    }

    /// Pages in frames whose disk copy is older.
    pub(crate) fn dirty(&self) -> u64 {
        self.dirty.load(Relaxed)
    }

    pub(crate) fn file(&self) -> FileId {
        self.file
    }
}

impl Drop for StateWords {
    fn drop(&mut self) {
        for segment in &mut self.segments {
            let segment = *segment.get_mut();
            if !segment.is_null() {
                // SAFETY: the pointer came from `Box::into_raw`, and nothing borrows `self` any more.
                drop(unsafe { Box::from_raw(segment) });
            }
        }
    }
}

/// One segment of a file's state words.
#[derive(Clone, Copy)]
pub(crate) struct SegmentRef<'a> {
    words: &'a StateWords,
    cells: &'a Segment,
    first: u32,
}

impl<'a> SegmentRef<'a> {
    /// All pages of the segment.
    pub(crate) fn pages(self) -> impl Iterator<Item = PageCell<'a>> {
        self.cells.iter().zip(self.first..=u32::MAX).map(move |(cell, number)| PageCell {
            words: self.words,
            cell,
            number,
        })
    }

    #[inline]
    pub(crate) fn holds(self, number: u32) -> bool {
        number.wrapping_sub(self.first) < SEGMENT_PAGES as u32
    }

    /// The cell of `number`, which must lie in the segment.
    #[inline]
    pub(crate) fn cell(self, number: u32) -> PageCell<'a> {
        let cell = &self.cells[number.wrapping_sub(self.first) as usize];
        PageCell { words: self.words, cell, number }
    }
}

/// The outcome of an optimistic copy.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Optimistic {
    /// The words are those of one whole version of the page.
    Ok,
    /// No frame holds the page. The output is unchanged.
    NotResident,
    /// The page is being loaded or changed, or was while it was copied. The output is undefined.
    Busy,
}

/// The outcome of asking for a latch.
pub(crate) enum Latched<G> {
    /// The latch is held.
    Guard(G),
    /// No frame holds the page.
    Absent,
    /// The caller would have to wait, or its deadline has passed.
    Busy,
}

/// A page of a file, accessed through its state word.
#[derive(Clone, Copy)]
pub(crate) struct PageCell<'a> {
    words: &'a StateWords,
    cell: &'a StateCell,
    number: u32,
}

impl<'a> PageCell<'a> {
    pub(crate) fn number(self) -> u32 {
        self.number
    }

    #[inline]
    pub(crate) fn load(self) -> StateWord {
        StateWord(self.cell.0.load(Acquire))
    }

    fn key(self) -> usize {
        std::ptr::from_ref(self.cell).addr()
    }

    /// Replaces `old` by `new`. A thread that gains access by it sees what earlier holders wrote, and later holders see
    /// what this thread wrote.
    #[inline]
    fn exchange(self, old: StateWord, new: StateWord) -> Result<(), StateWord> {
        self.cell.0.compare_exchange_weak(old.0, new.0, AcqRel, Acquire).map(|_| ()).map_err(StateWord)
    }

    /// Applies `change` until the exchange succeeds or `change` returns `None`. Returns the value before.
    fn update(self, mut change: impl FnMut(StateWord) -> Option<StateWord>) -> Option<StateWord> {
        let mut word = self.load();
        loop {
            match self.exchange(word, change(word)?) {
                Ok(()) => return Some(word),
                Err(now) => word = now,
            }
        }
    }

    /// Shared access without waiting; counts as use.
    #[inline]
    pub(crate) fn try_share(self) -> Latched<SharedGuard<'a>> {
        self.try_share_marking(REFERENCED)
    }

    /// Shared access without waiting; does not count as use.
    #[inline]
    pub(crate) fn try_share_quietly(self) -> Latched<SharedGuard<'a>> {
        self.try_share_marking(0)
    }

    #[inline]
    fn try_share_marking(self, mark: u64) -> Latched<SharedGuard<'a>> {
        let mut word = self.load();
        loop {
            if word.is_absent() {
                return Latched::Absent;
            }
            if !word.admits_shared() {
                return Latched::Busy;
            }
            match self.exchange(word, StateWord(word.0 + SHARED_ONE).with(mark)) {
                Ok(()) => {
                    rank::note(Rank::Page);
                    return Latched::Guard(SharedGuard { page: self, frame: word.frame() });
                }
                Err(now) => word = now,
            }
        }
    }

    /// Exclusive access without waiting.
    #[inline]
    pub(crate) fn try_exclude(self) -> Latched<ExclusiveGuard<'a>> {
        let mut word = self.load();
        loop {
            if word.is_absent() {
                return Latched::Absent;
            }
            if !word.admits_exclusive() {
                return Latched::Busy;
            }
            match self.exchange(word, word.with(EXCLUSIVE | REFERENCED)) {
                Ok(()) => {
                    // Orders the exclusive bits before the writes that follow, for optimistic readers.
                    fence(Release);
                    rank::note(Rank::Page);
                    return Latched::Guard(ExclusiveGuard { page: self, frame: word.frame(), changed: false });
                }
                Err(now) => word = now,
            }
        }
    }

    /// Shared access; waits for a load or an exclusive holder. Counts as use.
    pub(crate) fn share(self) -> Latched<SharedGuard<'a>> {
        self.share_by(PageCell::try_share)
    }

    /// Like [`PageCell::share`], but does not count as use.
    pub(crate) fn share_quietly(self) -> Latched<SharedGuard<'a>> {
        self.share_by(PageCell::try_share_quietly)
    }

    fn share_by(self, attempt: fn(Self) -> Latched<SharedGuard<'a>>) -> Latched<SharedGuard<'a>> {
        rank::check(Rank::Page);
        schedule::point(Place::PageLatch);
        // Readers that arrive while a writer is parked hold back for a moment, so that the page can become free. They
        // do not wait for the writer: two readers of two pages would wait for each other across two writers.
        for _ in 0..SPINS {
            let word = self.load();
            if !word.has(WAITERS) || !word.admits_shared() {
                break;
            }
            std::hint::spin_loop();
        }
        match attempt(self) {
            Latched::Busy => self.wait_for(attempt, StateWord::admits_shared, false, None),
            settled => settled,
        }
    }

    /// Exclusive access. Waits for a load or any holder, until `deadline` if there is one.
    pub(crate) fn exclude(self, deadline: Option<Instant>) -> Latched<ExclusiveGuard<'a>> {
        if deadline.is_none() {
            rank::check(Rank::Page);
        }
        schedule::point(Place::PageLatch);
        match self.try_exclude() {
            Latched::Busy => self.wait_for(PageCell::try_exclude, StateWord::admits_exclusive, true, deadline),
            settled => settled,
        }
    }

    #[cold]
    fn wait_for<G: Deref<Target = PageBytes>>(
        self,
        attempt: fn(Self) -> Latched<G>,
        admits: fn(StateWord) -> bool,
        exclusive: bool,
        deadline: Option<Instant>,
    ) -> Latched<G> {
        let mut waiting = Waiting { exclusive, current: None, latch: WaitTotal::default(), io: WaitTotal::default() };
        let mut spins = 0;
        let mut owes_mark = false;
        loop {
            match attempt(self) {
                Latched::Busy => {}
                Latched::Guard(guard) => {
                    if owes_mark {
                        self.cell.0.fetch_or(WAITERS, AcqRel);
                    }
                    waiting.end();
                    if waiting.latch.count + waiting.io.count > 0 {
                        self.words.waits.note(&guard, waiting.latch, waiting.io);
                    }
                    return Latched::Guard(guard);
                }
                Latched::Absent => {
                    if owes_mark {
                        // All of them look for the page again.
                        parking::wake_all(self.key());
                    }
                    return Latched::Absent;
                }
            }
            if deadline.is_some_and(|deadline| schedule::now() >= deadline) {
                if owes_mark {
                    parking::wake_next(self.key());
                }
                return Latched::Busy;
            }
            // A load takes as long as the disk does, so spinning is of no use.
            if spins < SPINS && !self.load().is_loading() {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            spins = 0;
            let for_load = self.load().is_loading();
            if owes_mark && exclusive && self.load().admits_shared() {
                // Readers got the latch before this writer. Sleeping readers need not wait for them to end.
                parking::wake_readers(self.key());
            }
            waiting.begin(for_load);
            let patience = for_load.then(|| schedule::now() + LOAD_PATIENCE);
            let until = deadline.into_iter().chain(patience).min();
            owes_mark = self.park(exclusive, until, owes_mark, |word| !word.is_absent() && !admits(word));
            if for_load && self.load().is_loading() {
                self.words.load_owners.publish();
            }
        }
    }

    /// Sleeps once if the word conflicts with the request. Returns whether this thread then owes the others WAITERS.
    fn park(
        self,
        exclusive: bool,
        deadline: Option<Instant>,
        owes_mark: bool,
        in_the_way: impl Fn(StateWord) -> bool,
    ) -> bool {
        let mut is_marked = false;
        let woken = parking::park(self.key(), exclusive, deadline, || {
            is_marked = self.update(|word| in_the_way(word).then(|| word.with(WAITERS))).is_some();
            is_marked
        });
        woken || (owes_mark && !is_marked)
    }

    /// Takes the right to load an absent page.
    pub(crate) fn try_claim(self, words: &Arc<StateWords>) -> Option<LoadClaim> {
        debug_assert!(std::ptr::eq(Arc::as_ptr(words), self.words));
        self.update(|word| word.is_absent().then(|| word.emptied().with(LOADING | EXCLUSIVE)))?;
        Some(LoadClaim { words: words.clone(), number: self.number, open: true })
    }

    /// Takes the frame of a page that is clean and not held. With `spare_referenced`, a page that was used since the
    /// last pass gets a second chance: only its REFERENCED bit is cleared.
    pub(crate) fn try_evict(self, frame: u32, spare_referenced: bool) -> Evicted {
        let word = self.load();
        if word.frame() != frame || word.is_latched() || word.has(WAITERS) {
            return Evicted::No;
        }
        if spare_referenced && word.has(REFERENCED) {
            // A lost race against another change of the word costs the page nothing.
            let _mark = self.exchange(word, word.without(REFERENCED));
            return Evicted::Spared;
        }
        if word.is_dirty() && !planted::has(Bug::DirtyPagesEvicted) {
            return Evicted::Dirty;
        }
        let absent = word.emptied().next_version();
        if self.exchange(word, absent).is_err() {
            return Evicted::No;
        }
        Evicted::Frame(self.emptied(frame), absent.version_number())
    }

    /// Gives an absent page another version: its bytes on disk are about to change, or have changed, past the pool.
    /// Returns `false` if the page is not absent.
    pub(crate) fn change_version(self) -> bool {
        self.update(|word| word.is_absent().then(|| word.next_version())).is_some()
    }

    /// The frame that this thread has just taken from the word.
    fn emptied(self, frame: u32) -> OwnedFrame {
        self.words.resident.fetch_sub(1, Relaxed);
        // Orders the word's change before any write of the new owner, for optimistic readers.
        fence(Release);
        OwnedFrame(frame)
    }

    /// Releases an exclusive latch and stores `next` (which drops the page if it has no frame), and wakes waiters.
    fn settle(self, next: impl Fn(StateWord) -> StateWord) {
        let before = self.update(|word| Some(next(word).without(WAITERS)));
        if let Some(before) = before.filter(|word| word.has(WAITERS)) {
            if next(before).is_resident() { parking::wake_next(self.key()) } else { parking::wake_all(self.key()) }
        }
        schedule::point(Place::PageRelease);
    }

    /// Copies 64-bit words of the page without a latch.
    #[inline]
    pub(crate) fn copy_words(self, first_word: usize, out: &mut [u64]) -> Optimistic {
        assert!(first_word <= PAGE_WORDS && out.len() <= PAGE_WORDS - first_word, "words outside a page");
        let before = self.load();
        if !before.is_resident() {
            return if before.is_loading() { Optimistic::Busy } else { Optimistic::NotResident };
        }
        if before.is_exclusive() {
            return Optimistic::Busy;
        }
        let words = self.words.memory.address(before.frame()).as_ptr().cast::<u64>();
        for (at, out) in out.iter_mut().enumerate() {
            // SAFETY: the word lies in the frame by the assertion above, is aligned as frames are, and the mapping
            // lives as long as `self.words`. Others may write it meanwhile: see the file's header.
            *out = unsafe { AtomicU64::from_ptr(words.add(first_word + at)) }.load(Relaxed);
        }
        fence(Acquire);
        if before.same_contents(StateWord(self.cell.0.load(Relaxed))) { Optimistic::Ok } else { Optimistic::Busy }
    }

    /// Asks the processor to bring bytes of the page's frame into its cache. Bytes outside the page are left out.
    #[inline]
    pub(crate) fn prefetch(self, first_byte: usize, bytes: usize) {
        const LINE: usize = 64;
        let word = StateWord(self.cell.0.load(Relaxed));
        if !word.is_resident() {
            return;
        }
        let page = self.words.memory.address(word.frame()).as_ptr().cast::<u8>();
        let end = first_byte.saturating_add(bytes).min(PAGE_SIZE);
        let mut at = first_byte & !(LINE - 1);
        while at < end {
            prefetch_line(page.wrapping_add(at));
            at += LINE;
        }
    }
}

#[inline]
fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is a hint without effect on memory.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// The outcome of an attempt to take a page's frame.
pub(crate) enum Evicted {
    /// The frame was taken. The page is absent now, and its state word has this version.
    Frame(OwnedFrame, u32),
    /// It was used since the last pass, and stays.
    Spared,
    /// It could be taken if it were written first.
    Dirty,
    /// It is in use, or holds another page.
    No,
}

/// The wait that a thread is in: for the disk, or for another holder. Each is recorded under its own wait type.
struct Waiting {
    exclusive: bool,
    current: Option<(bool, Wait)>,
    /// The waits that have ended: here those for other holders, below those for the disk.
    latch: WaitTotal,
    io: WaitTotal,
}

impl Waiting {
    fn begin(&mut self, for_load: bool) {
        if self.current.as_ref().is_some_and(|(before, _)| *before == for_load) {
            return;
        }
        self.end();
        let wait_type = match (for_load, self.exclusive) {
            (true, false) => WaitType::PageIoLatchSh,
            (true, true) => WaitType::PageIoLatchEx,
            (false, false) => WaitType::PageLatchSh,
            (false, true) => WaitType::PageLatchEx,
        };
        self.current = Some((for_load, Wait::begin(wait_type)));
    }

    fn end(&mut self) {
        if let Some((for_load, wait)) = self.current.take() {
            let elapsed = wait.elapsed();
            latches::record(LatchClass::Buffer, elapsed);
            *(if for_load { &mut self.io } else { &mut self.latch }) += WaitTotal::one(elapsed);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.end();
    }
}

/// The right to load one page. Other threads wait for it. Dropping it leaves the page absent.
pub(crate) struct LoadClaim {
    words: Arc<StateWords>,
    number: u32,
    open: bool,
}

impl LoadClaim {
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn page(&self) -> PageId {
        PageId::new(self.words.file, self.number)
    }

    fn enter(&mut self, frame: &OwnedFrame, bits: u64) {
        self.open = false;
        self.words.resident.fetch_add(1, Relaxed);
        let cell = self.words.get(self.number).expect("a claimed page has a word");
        cell.settle(|word| word.emptied().with(u64::from(frame.0) | bits));
    }

    /// Makes the page resident in `frame`: clean, not latched, not marked as used.
    pub(crate) fn publish(mut self, frame: OwnedFrame) {
        self.enter(&frame, 0);
    }

    /// Like [`LoadClaim::publish`], with a shared latch for the caller. Counts as use unless `once`. `cell` is the
    /// claimed page's.
    pub(crate) fn publish_shared(mut self, frame: OwnedFrame, cell: PageCell<'_>, once: bool) -> SharedGuard<'_> {
        assert!(cell.number == self.number && std::ptr::eq(cell.words, Arc::as_ptr(&self.words)));
        self.enter(&frame, if once { SHARED_ONE } else { SHARED_ONE | REFERENCED });
        rank::note(Rank::Page);
        SharedGuard { page: cell, frame: frame.0 }
    }

    /// Like [`LoadClaim::publish`], with an exclusive latch for the caller. `changed` says that the disk does not have
    /// the page's contents.
    pub(crate) fn publish_excluded(
        mut self,
        frame: OwnedFrame,
        cell: PageCell<'_>,
        changed: bool,
    ) -> ExclusiveGuard<'_> {
        assert!(cell.number == self.number && std::ptr::eq(cell.words, Arc::as_ptr(&self.words)));
        self.enter(&frame, EXCLUSIVE);
        rank::note(Rank::Page);
        ExclusiveGuard { page: cell, frame: frame.0, changed }
    }
}

impl Drop for LoadClaim {
    fn drop(&mut self) {
        if self.open {
            let cell = self.words.get(self.number).expect("a claimed page has a word");
            cell.settle(StateWord::emptied);
        }
    }
}

/// Shared access to a page in its frame. Other readers may hold it too. The page is not changed or moved while this
/// lives.
///
/// A thread that holds a guard must not ask for exclusive access to the same page, nor flush or unregister its file: it
/// would wait for itself.
pub struct SharedGuard<'a> {
    page: PageCell<'a>,
    frame: u32,
}

impl SharedGuard<'_> {
    /// The page's address.
    pub fn page(&self) -> PageId {
        PageId::new(self.page.words.file, self.page.number)
    }

    /// Marks the page clean. The caller has written it to disk under this latch.
    pub(crate) fn mark_clean(&self) {
        let before = StateWord(self.page.cell.0.fetch_and(!DIRTY, AcqRel));
        if before.is_dirty() {
            self.page.words.dirty.fetch_sub(1, Relaxed);
        }
    }

    /// Takes the page's frame, if this is the only holder, no thread waits, and the page is clean and unused since the
    /// clock last passed. Returns the version of its state word too.
    pub(crate) fn evict(self) -> Option<(OwnedFrame, u32)> {
        let kept = DIRTY | REFERENCED | WAITERS;
        let evictable = |word: StateWord| word.is_shared_once() && word == word.without(kept);
        let (page, frame) = (self.page, self.frame);
        let before = page.update(|word| evictable(word).then(|| word.emptied().next_version()))?;
        rank::forget(Rank::Page);
        std::mem::forget(self);
        Some((page.emptied(frame), before.emptied().next_version().version_number()))
    }
}

impl Deref for SharedGuard<'_> {
    type Target = PageBytes;

    #[inline]
    fn deref(&self) -> &PageBytes {
        // SAFETY: while the latch is held the word names this frame, so it is in no `OwnedFrame`, and no exclusive
        // guard exists: no thread writes. The mapping outlives `page`.
        unsafe { self.page.words.memory.address(self.frame).as_ref() }
    }
}

impl Drop for SharedGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        rank::forget(Rank::Page);
        let before = StateWord(self.page.cell.0.fetch_sub(SHARED_ONE, AcqRel));
        // The last holder lets writers in. A page with as many holders as the word can count makes readers wait too.
        if before.has(WAITERS) && (before.is_shared_once() || !before.admits_shared()) {
            self.page.cell.0.fetch_and(!WAITERS, AcqRel);
            parking::wake_next(self.page.key());
        }
    }
}

/// Exclusive access to a page in its frame. Changing its bytes marks it dirty.
///
/// A thread that holds a guard must not ask for the same page again, nor flush or unregister its file: it would wait
/// for itself.
pub struct ExclusiveGuard<'a> {
    page: PageCell<'a>,
    frame: u32,
    changed: bool,
}

impl<'a> ExclusiveGuard<'a> {
    /// The page's address.
    pub fn page(&self) -> PageId {
        PageId::new(self.page.words.file, self.page.number)
    }

    /// Keeps shared access. The page is not changed in between.
    pub fn downgrade(self) -> SharedGuard<'a> {
        let (page, frame) = (self.page, self.frame);
        self.release(SHARED_ONE);
        std::mem::forget(self);
        SharedGuard { page, frame }
    }

    /// Drops the page without writing it, and takes its frame.
    pub(crate) fn discard(self) -> OwnedFrame {
        let (page, frame) = (self.page, self.frame);
        if page.load().is_dirty() {
            page.words.dirty.fetch_sub(1, Relaxed);
        }
        page.settle(|word| word.emptied().next_version());
        rank::forget(Rank::Page);
        std::mem::forget(self);
        page.emptied(frame)
    }

    fn release(&self, latch: u64) {
        if !self.changed {
            return self.page.settle(|word| word.unlatched().with(latch));
        }
        // No other thread changes DIRTY while the page is held exclusively.
        if !self.page.load().is_dirty() {
            self.page.words.dirty.fetch_add(1, Relaxed);
            hobt_instruments::waits::note_pages_dirtied(1);
        }
        self.page.settle(|word| word.unlatched().with(DIRTY | latch).next_version());
    }
}

impl Deref for ExclusiveGuard<'_> {
    type Target = PageBytes;

    #[inline]
    fn deref(&self) -> &PageBytes {
        // SAFETY: as in `deref_mut`.
        unsafe { self.page.words.memory.address(self.frame).as_ref() }
    }
}

impl DerefMut for ExclusiveGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut PageBytes {
        self.changed = true;
        // SAFETY: while the word says exclusive it names this frame for this guard alone, so no other guard and no
        // `OwnedFrame` refers to it. The mapping outlives `page`.
        unsafe { self.page.words.memory.address(self.frame).as_mut() }
    }
}

impl Drop for ExclusiveGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        rank::forget(Rank::Page);
        self.release(0);
    }
}

macro_rules! debug_page {
    ($($guard:ident),*) => {$(
        impl std::fmt::Debug for $guard<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($guard), "({})"), self.page())
            }
        }
    )*};
}
debug_page!(SharedGuard, ExclusiveGuard);

#[cfg(test)]
mod tests;
