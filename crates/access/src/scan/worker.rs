//! One worker of a scan: keeps reads in flight, shows pages that have arrived.
//!
//! A worker is polled by one task, and between two polls any thread may publish its loads (see
//! [`hobt_buffer::LoadOwner`]). A mutex, locked once a range, separates the two.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hobt_base::{PAGE_SIZE, PageId, Stamp};
use hobt_buffer::{
    BufferError, LoadOwner, Optimistic, PendingLoad, ReadCounts, ReadOptions, SharedGuard, StateSnapshot, TryRead,
};
use hobt_disk::{AlignedBuffer, Completion, CompletionQueue, Direction, IoBuffer, Request};
use hobt_instruments::schedule::Mutex;
use hobt_instruments::{Wait, WaitType};
use hobt_page::{NEWEST_WRITER_WORD, verify};

use super::count::{Counts, WORDS_MAX};
use super::dispenser::PageRange;
use super::filter::ScanLimits;
use super::{NextPage, PageVisitor, Scan};
use crate::{AccessError, DataFile};

/// A page that a scan reads is not marked as used.
const ONCE: ReadOptions<'_> = ReadOptions { ahead: 0, counts: None, once: true };

/// The header and the counts behind it.
const HEADER_BYTES: usize = 192;
/// How many pages ahead a header is prefetched.
const PREFETCH_PAGES: u32 = 12;

/// Takes ranges from the scan's dispenser until they are all dealt.
pub struct ScanWorker {
    shared: Arc<Shared>,
}

/// What a worker shares with threads that wait for its loads.
struct Shared(Mutex<Worker>);

pub(super) struct Worker {
    pub(super) scan: Arc<Scan>,
    queue: Arc<CompletionQueue>,
    window: usize,
    pending: VecDeque<Pending>,
    spare: Vec<AlignedBuffer>,
    /// The rest of a range of which the visitor had enough.
    rest: Option<Arrived>,
    next_tag: u64,
    /// Since when its task has waited for a range, if it waits.
    waits_since: Option<Instant>,
    exhausted: bool,
    /// Which pages need not be read.
    limits: Option<Arc<ScanLimits>>,
    pub(super) rows_by_worker: u64,
    reads: WorkerReads,
    grants: u64,
    changed: Vec<u32>,
    /// Pages, by file and number, of which some rows were shown by key, and the key from which on the others are left.
    pub(super) resumes: HashMap<(usize, u32), Vec<u8>>,
    /// Bytes of buffers in the statement's memory account.
    held_bytes: u64,
}

/// What one worker of a scan has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerProgress {
    /// Live rows that it has seen.
    pub rows: u64,
    /// Ranges that it has taken.
    pub grants: u64,
    /// Pages that it has read.
    pub reads: WorkerReads,
}

/// Pages of the table that one worker of a scan has read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerReads {
    /// Pages accessed.
    pub logical: u64,
    /// Pages read from disk because they were needed at once.
    pub physical: u64,
    /// Pages read from disk ahead of their use.
    pub read_ahead: u64,
}

struct Pending {
    tag: u64,
    range: PageRange,
    source: Source,
}

enum Source {
    /// Every page was resident when the range was taken.
    Resident,
    /// Another scan is reading pages of the range. It is never waited for, because its task may not be polled. The
    /// range is deferred until the pages are there, and is read past the pool when there is nothing else to do.
    Elsewhere,
    /// Reads into the pool's frames are in progress.
    Load { load: PendingLoad, completions: Vec<Completion> },
    /// A read past the pool is in progress.
    Private { snapshot: StateSnapshot, completion: Option<Completion> },
}

impl Pending {
    fn is_ready(&self) -> bool {
        match &self.source {
            Source::Resident => true,
            Source::Elsewhere => false,
            Source::Load { load, completions } => completions.len() == load.reads(),
            Source::Private { completion, .. } => completion.is_some(),
        }
    }
}

/// A range whose pages can be shown.
struct Arrived {
    /// The pages that have not been shown yet.
    range: PageRange,
    /// Their bytes, unless they are in the pool.
    private: Option<PrivatePages>,
}

/// Pages that were read past the pool.
struct PrivatePages {
    snapshot: StateSnapshot,
    buffer: AlignedBuffer,
    /// The number of the buffer's first page.
    first: u32,
}

impl std::fmt::Debug for ScanWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanWorker").field("grants", &self.grants()).field("rows", &self.rows()).finish_non_exhaustive()
    }
}

/// What to do with the pages of a range.
pub(super) enum Work<'a> {
    Visit(&'a mut dyn PageVisitor),
    Count(&'a mut Counts),
}

impl Work<'_> {
    /// Whether the visitor has enough pages for now.
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Work::Visit(visitor) if visitor.is_full())
    }
}

impl ScanWorker {
    /// A worker of `scan`.
    pub fn new(scan: Arc<Scan>) -> ScanWorker {
        let pool = scan.files.first().filter(|_| scan.through_pool).map(|file| Arc::clone(file.pool_file().pool()));
        let shared = Arc::new(Shared(Mutex::new(Worker::new(scan))));
        if let Some(pool) = pool {
            let owner: Weak<dyn LoadOwner> = Arc::downgrade(&shared) as Weak<dyn LoadOwner>;
            pool.add_load_owner(owner);
        }
        ScanWorker { shared }
    }

    /// Live rows that this worker has seen.
    pub fn rows(&self) -> u64 {
        self.shared.0.lock().rows_by_worker
    }

    /// What this worker has done so far.
    pub fn progress(&self) -> WorkerProgress {
        let worker = self.shared.0.lock();
        WorkerProgress { rows: worker.rows_by_worker, grants: worker.grants, reads: worker.reads }
    }

    /// Whether the scan is so small that its ranges are cut below the read size.
    pub fn is_small_scan(&self) -> bool {
        let worker = self.shared.0.lock();
        worker.scan.page_count < 4 * worker.scan.workers as u64 * u64::from(worker.scan.settings.read_pages)
    }

    /// Sets which pages need not be read from now on. Reads in progress are completed.
    pub fn limit(&mut self, limits: Arc<ScanLimits>) {
        self.shared.0.lock().limits = Some(limits);
    }

    /// Ranges that this worker has taken.
    pub fn grants(&self) -> u64 {
        self.shared.0.lock().grants
    }

    /// Shows the pages of one range, or as many of them as the visitor takes. The rest come first at the next call.
    /// `Ready(None)` when the scan is over for this worker. Starts reads of later ranges first. Pending while every
    /// range of the window is still being read.
    pub fn poll_range(
        &mut self,
        task: &mut Context<'_>,
        visitor: &mut dyn PageVisitor,
    ) -> Poll<Option<Result<(), AccessError>>> {
        self.shared.0.lock().poll(task, &mut Work::Visit(visitor))
    }

    /// Counts the pages of one range; as [`ScanWorker::poll_range`].
    pub fn poll_counts(
        &mut self,
        task: &mut Context<'_>,
        counts: &mut Counts,
    ) -> Poll<Option<Result<(), AccessError>>> {
        self.shared.0.lock().poll(task, &mut Work::Count(counts))
    }
}

impl Drop for ScanWorker {
    fn drop(&mut self) {
        // Here and not when the last reference is dropped: that may be by a thread that calls `publish_loads`.
        self.shared.0.lock().abandon();
    }
}

impl LoadOwner for Shared {
    fn publish_loads(&self) {
        if let Some(mut worker) = self.0.try_lock() {
            // Pages of a failed load stay absent. The scan reads them once more and reports the error.
            let _read_again = worker.settle();
        }
    }
}

impl Worker {
    fn new(scan: Arc<Scan>) -> Worker {
        let window = if scan.settings.read_ahead {
            (scan.settings.queue_depth as usize).div_ceil(scan.workers).max(1)
        } else {
            1
        };
        Worker {
            scan,
            queue: CompletionQueue::new(),
            window,
            pending: VecDeque::new(),
            spare: Vec::new(),
            rest: None,
            next_tag: 0,
            waits_since: None,
            exhausted: false,
            limits: None,
            rows_by_worker: 0,
            reads: WorkerReads::default(),
            grants: 0,
            changed: Vec::new(),
            resumes: HashMap::new(),
            held_bytes: 0,
        }
    }

    fn count_reads(&mut self, pages: u64, ahead: bool) {
        self.scan.count_reads(pages, ahead);
        let counter = if ahead { &mut self.reads.read_ahead } else { &mut self.reads.physical };
        *counter += pages;
    }

    fn poll(&mut self, task: &mut Context<'_>, work: &mut Work<'_>) -> Poll<Option<Result<(), AccessError>>> {
        if self.scan.context.is_cancelled() {
            return Poll::Ready(Some(Err(AccessError::Cancelled)));
        }
        if let Err(error) = self.fill_window() {
            return Poll::Ready(Some(Err(error)));
        }
        if let Some(rest) = self.rest.take() {
            if rest.private.is_some() || self.is_resident(&rest.range) {
                return Poll::Ready(Some(self.show_arrived(rest, work)));
            }
            // Its pages were not held meanwhile, and some are gone: they are read again as any range.
            match self.start(rest.range) {
                Ok(pending) => self.pending.push_front(pending),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        loop {
            while let Some(completion) = self.queue.try_pop() {
                self.arrive(completion);
            }
            if let Some(place) = self.pending.iter().position(|pending| pending.is_ready() || self.has_come(pending)) {
                let mut pending = self.pending.remove(place).expect("just found");
                if let Some(since) = self.waits_since.take() {
                    self.note_wait(&pending.range, since.elapsed());
                }
                match self.finish_shared_load(&mut pending) {
                    Err(error) => return Poll::Ready(Some(Err(error))),
                    Ok(true) => return Poll::Ready(Some(self.process(pending, work))),
                    Ok(false) => self.pending.push_back(pending),
                }
                continue;
            }
            if self.pending.is_empty() {
                return Poll::Ready(None);
            }
            if self.pending.iter().all(|pending| matches!(pending.source, Source::Elsewhere)) {
                if let Err(error) = self.read_first_past_pool() {
                    return Poll::Ready(Some(Err(error)));
                }
                continue;
            }
            match self.queue.poll_pop(task) {
                Poll::Ready(Some(completion)) => self.arrive(completion),
                Poll::Ready(None) => unreachable!("a range that is not ready has a read in flight"),
                Poll::Pending => {
                    self.waits_since.get_or_insert_with(Instant::now);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Records a wait for pages of a range.
    fn note_wait(&self, range: &PageRange, time: Duration) {
        let hobt = self.scan.partitions[range.partition].store.hobt();
        hobt.storage().pool().note_io_wait(hobt.storage().database(), hobt.id(), time);
    }

    /// Whether the pages that another scan was reading have arrived.
    fn has_come(&self, pending: &Pending) -> bool {
        matches!(pending.source, Source::Elsewhere) && self.is_resident(&pending.range)
    }

    fn is_resident(&self, range: &PageRange) -> bool {
        let file = &self.scan.files[range.file];
        file.pool_file().state_snapshot(range.first, range.count).all_resident()
    }

    /// Finishes a load of a range of which another scan reads a part; `false` if that part has not arrived yet.
    fn finish_shared_load(&mut self, pending: &mut Pending) -> Result<bool, AccessError> {
        if !matches!(&pending.source, Source::Load { load, .. } if !load.elsewhere().is_empty()) {
            return Ok(true);
        }
        let source = std::mem::replace(&mut pending.source, Source::Elsewhere);
        let Source::Load { load, completions } = source else { unreachable!("matched above") };
        self.finish_load(&pending.range, load, completions)?;
        Ok(self.has_come(pending))
    }

    /// Publishes the pages of a load. Damaged ones stay absent, and each is read again by itself.
    fn finish_load(
        &self,
        range: &PageRange,
        load: PendingLoad,
        completions: Vec<Completion>,
    ) -> Result<(), AccessError> {
        let file = &self.scan.files[range.file];
        load.finish(completions).map(drop).map_err(|error| AccessError::of_pool(error, file.name()))
    }

    /// Reads the first range of the window past the pool, although other scans are reading its pages.
    fn read_first_past_pool(&mut self) -> Result<(), AccessError> {
        let mut pending = self.pending.pop_front().expect("a range that is put off");
        let file = Arc::clone(&self.scan.files[pending.range.file]);
        pending.source = self.start_private(&file, &pending.range, pending.tag)?;
        self.pending.push_front(pending);
        Ok(())
    }

    fn arrive(&mut self, completion: Completion) {
        let pending = self.pending.iter_mut().find(|pending| pending.tag == completion.tag);
        match &mut pending.expect("a completion belongs to a range of the window").source {
            Source::Resident | Source::Elsewhere => unreachable!("a range without reads of its own"),
            Source::Load { completions, .. } => completions.push(completion),
            Source::Private { completion: place, .. } => *place = Some(completion),
        }
    }

    /// Takes ranges until enough reads are in progress. It stops at a resident range, which can be shown at once. A
    /// worker does not hold more than its share of the remaining ranges, so that no worker runs dry while another has a
    /// full window.
    fn fill_window(&mut self) -> Result<(), AccessError> {
        if self.rest.is_some() && self.pending.iter().any(|pending| matches!(pending.source, Source::Resident)) {
            return Ok(());
        }
        while !self.exhausted {
            let share = self.scan.dispenser.remaining().div_ceil(self.scan.workers).max(1);
            if self.pending.len() >= self.window.min(share) {
                return Ok(());
            }
            let Some(range) = self.scan.dispenser.grant() else {
                self.exhausted = true;
                return Ok(());
            };
            self.grants += 1;
            let wanted = match &self.limits {
                Some(limits) => limits.cut(&self.scan, range),
                None => Some(range),
            };
            let Some(range) = wanted else { continue };
            let pending = self.start(range)?;
            let resident = matches!(pending.source, Source::Resident);
            self.pending.push_back(pending);
            if resident {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Says of a range that is about to be read since when its pages are known to be in use. After a rollback has given
    /// pages back, reads that were begun before it are repeated page by page, those that begin now are not.
    fn known_in_use(&mut self, range: PageRange) -> Result<PageRange, AccessError> {
        let scan = Arc::clone(&self.scan);
        let partition = &scan.partitions[range.partition];
        if partition.leaves.is_some() || !scan.may_be_retired(&range) {
            return Ok(range);
        }
        let (hobt, first) = (partition.store.hobt(), PageId::new(scan.files[range.file].id(), range.first));
        let since = match hobt.known_in_use(first, range.count) {
            Some(since) => Some(since),
            None => {
                // The worker's own loads first: it waits for a latch under which other threads wait for pages.
                self.settle()?;
                hobt.in_use(first, range.count)
            }
        };
        // If some are not in use, each page is asked for by itself.
        Ok(PageRange { since: since.unwrap_or(range.since), ..range })
    }

    fn start(&mut self, range: PageRange) -> Result<Pending, AccessError> {
        let range = self.known_in_use(range)?;
        self.next_tag += 1;
        let tag = self.next_tag;
        let file = Arc::clone(&self.scan.files[range.file]);
        if !self.scan.settings.read_ahead {
            return Ok(Pending { tag, range, source: Source::Resident });
        }
        let source = if self.scan.through_pool {
            self.start_load(&file, &range, tag)?
        } else {
            self.start_private(&file, &range, tag)?
        };
        Ok(Pending { tag, range, source })
    }

    fn start_load(&mut self, file: &DataFile, range: &PageRange, tag: u64) -> Result<Source, AccessError> {
        match file.pool_file().start_load(range.first, range.count, &self.queue, tag) {
            Ok(load) if load.reads() == 0 && load.elsewhere().is_empty() => Ok(Source::Resident),
            Ok(load) if load.reads() == 0 => Ok(Source::Elsewhere),
            Ok(load) => {
                self.count_reads(load.loading().len() as u64, true);
                Ok(Source::Load { load, completions: Vec::new() })
            }
            Err(BufferError::NoFrames) => self.start_private(file, range, tag),
            Err(error) => Err(AccessError::of_pool(error, file.name())),
        }
    }

    fn start_private(&mut self, file: &DataFile, range: &PageRange, tag: u64) -> Result<Source, AccessError> {
        let snapshot = file.pool_file().state_snapshot(range.first, range.count);
        if snapshot.all_resident() {
            return Ok(Source::Resident);
        }
        let bytes = range.count as usize * PAGE_SIZE;
        let mut buffer = match self.spare.pop() {
            Some(buffer) => buffer,
            None => {
                let size = self.scan.settings.read_pages as usize * PAGE_SIZE;
                self.scan.context.memory().grow(size as u64)?;
                self.held_bytes += size as u64;
                AlignedBuffer::new(size)?
            }
        };
        buffer.set_len(bytes);
        self.count_reads(u64::from(range.count), true);
        file.disk().submit(Request {
            direction: Direction::Read,
            offset: PageId::new(file.id(), range.first).byte_offset(),
            buffer: IoBuffer::Owned(buffer),
            tag,
            queue: Arc::clone(&self.queue),
        });
        Ok(Source::Private { snapshot, completion: None })
    }

    fn process(&mut self, pending: Pending, work: &mut Work<'_>) -> Result<(), AccessError> {
        let range = pending.range;
        let private = match pending.source {
            Source::Resident | Source::Elsewhere => None,
            Source::Load { load, completions } => {
                self.finish_load(&range, load, completions)?;
                None
            }
            Source::Private { snapshot, completion } => {
                let completion = completion.expect("the range is ready");
                let buffer = completion.buffer.into_owned().expect("the worker's own buffer");
                completion.result.map_err(AccessError::Disk)?;
                Some(PrivatePages { snapshot, buffer, first: range.first })
            }
        };
        self.show_arrived(Arrived { range, private }, work)
    }

    /// Shows the pages of a range until the visitor has enough, and keeps the rest.
    fn show_arrived(&mut self, arrived: Arrived, work: &mut Work<'_>) -> Result<(), AccessError> {
        let Arrived { range, private } = arrived;
        let file = Arc::clone(&self.scan.files[range.file]);
        let shown = match &private {
            Some(pages) => self.private(&file, &range, pages, work),
            None => self.resident(&file, &range, work),
        };
        if let Ok(shown) = shown {
            self.scan.counts.logical_reads.fetch_add(u64::from(shown), Ordering::Relaxed);
            self.reads.logical += u64::from(shown);
        }
        match shown {
            Ok(shown) if shown < range.count => {
                self.rest = Some(Arrived { range: range.behind(shown), private });
            }
            _ => self.spare.extend(private.map(|pages| pages.buffer)),
        }
        shown.map(drop)
    }

    /// Shows pages that are in the pool; returns how many.
    fn resident(&mut self, file: &DataFile, range: &PageRange, work: &mut Work<'_>) -> Result<u32, AccessError> {
        match work {
            Work::Visit(_) => self.visit_resident(file, range, work),
            Work::Count(counts) => {
                match counts.words() {
                    Some(words) => self.count_resident(file, range, words, work)?,
                    None => (range.first..range.first + range.count)
                        .try_for_each(|number| self.page_from_pool(file, range, number, work))?,
                }
                Ok(range.count)
            }
        }
    }

    /// Shows resident pages. The header of the page after next is prefetched here, columns of the next page by the
    /// visitor.
    fn visit_resident(&mut self, file: &DataFile, range: &PageRange, work: &mut Work<'_>) -> Result<u32, AccessError> {
        let run = file.pool_file().page_run(range.first, range.count);
        let end = range.first + range.count;
        for number in range.first..end {
            if number + 2 < end {
                run.prefetch(number + 2, 0, HEADER_BYTES);
            }
            let next = (number + 1 < end).then_some(NextPage { run: &run, number: number + 1 });
            if !self.resume(range, number, work)? {
                match run.try_read(number) {
                    TryRead::Guard(guard) => {
                        let shown = self.show(range, number, &guard, work, next.as_ref())?;
                        drop(guard);
                        self.finish_page(shown, range, number, work)?;
                    }
                    TryRead::Busy | TryRead::NotResident => self.page_from_pool(file, range, number, work)?,
                }
            }
            if work.is_done() {
                return Ok(self.pages_until(range, number));
            }
        }
        Ok(range.count)
    }

    /// The warm `COUNT`: reads a few words of each page, and prefetches headers of later pages.
    fn count_resident(
        &mut self,
        file: &DataFile,
        range: &PageRange,
        word_count: usize,
        work: &mut Work<'_>,
    ) -> Result<(), AccessError> {
        let run = file.pool_file().page_run(range.first, range.count);
        let mut words = [0u64; WORDS_MAX];
        let words = &mut words[..word_count];
        let horizon = self.scan.horizon();
        let bytes = word_count * 8;
        let (columns, hobt) = (self.scan.rows.columns().len(), self.scan.partitions[range.partition].store.hobt().id());
        let end = range.first + range.count;
        for number in range.first..(range.first + PREFETCH_PAGES).min(end) {
            run.prefetch(number, 0, bytes);
        }
        for number in range.first..end {
            if number + PREFETCH_PAGES < end {
                run.prefetch(number + PREFETCH_PAGES, 0, bytes);
            }
            let copied = run.optimistic_words(number, 0, words);
            match (copied, &mut *work) {
                (Optimistic::Ok, Work::Count(counts))
                    if counts.is_row_page(words, columns, hobt)
                        && Stamp(words[NEWEST_WRITER_WORD]) < horizon
                        && !self.scan.is_split(range, number)
                        && !self.scan.may_be_retired(range) =>
                {
                    let before = counts.rows();
                    counts.add_words(words);
                    self.rows_by_worker += counts.rows() - before;
                }
                // A page that is no row page of the table is read whole, and refused there. A page that was changed
                // recently is read whole too.
                _ => self.page_from_pool(file, range, number, work)?,
            }
        }
        Ok(())
    }

    /// Shows one page of the pool, and reads it first if it is not (or no longer) resident.
    fn page_from_pool(
        &mut self,
        file: &DataFile,
        range: &PageRange,
        number: u32,
        work: &mut Work<'_>,
    ) -> Result<(), AccessError> {
        let pool_file = file.pool_file();
        let guard = match pool_file.try_read(number) {
            TryRead::Guard(guard) => guard,
            TryRead::Busy if !pool_file.state_snapshot(number, 1).all_resident() => {
                return self.page_past_pool(file, range, number, work);
            }
            TryRead::Busy | TryRead::NotResident => return self.show_through_pool(file, range, number, work),
        };
        let shown = self.show(range, number, &guard, work, None)?;
        drop(guard);
        self.finish_page(shown, range, number, work)
    }

    /// Shows one page that is read into the pool first.
    fn show_through_pool(
        &mut self,
        file: &DataFile,
        range: &PageRange,
        number: u32,
        work: &mut Work<'_>,
    ) -> Result<(), AccessError> {
        self.settle()?;
        let guard = match self.read_through_pool(file, number) {
            Ok(guard) => guard,
            Err(_) if self.scan.may_be_retired(range) => return self.show_anew(range, number, work),
            Err(error) => return Err(error),
        };
        let shown = self.show(range, number, &guard, work, None)?;
        drop(guard);
        self.finish_page(shown, range, number, work)
    }

    /// Shows one page that another scan is reading into the pool, from a read of the worker's own.
    fn page_past_pool(
        &mut self,
        file: &DataFile,
        range: &PageRange,
        number: u32,
        work: &mut Work<'_>,
    ) -> Result<(), AccessError> {
        let snapshot = file.pool_file().state_snapshot(number, 1);
        let mut buffer = AlignedBuffer::new(PAGE_SIZE)?;
        let id = PageId::new(file.id(), number);
        self.count_reads(1, false);
        let wait = Wait::begin_working(WaitType::PageIoLatchSh);
        file.disk().read_at(&mut buffer, id.byte_offset())?;
        self.note_wait(range, wait.elapsed());
        drop(wait);
        let mut changed = Vec::new();
        file.pool_file().changed_since(&snapshot, &mut changed);
        let (pages, _) = buffer.as_chunks::<PAGE_SIZE>();
        let tag = self.scan.partitions[range.partition].store.hobt().storage().database_tag();
        if changed.is_empty() && verify(&pages[0], id, tag).is_ok() {
            let shown = self.show(range, number, &pages[0], work, None)?;
            return self.finish_page(shown, range, number, work);
        }
        self.show_through_pool(file, range, number, work)
    }

    /// A page of the pool, read first if necessary.
    pub(super) fn read_through_pool<'a>(
        &mut self,
        file: &'a DataFile,
        number: u32,
    ) -> Result<SharedGuard<'a>, AccessError> {
        let counts = ReadCounts::default();
        let options = ReadOptions { counts: Some(&counts), ..ONCE };
        let guard =
            file.pool_file().read_with(number, options).map_err(|error| AccessError::of_pool(error, file.name()))?;
        self.count_reads(counts.physical.into_inner(), false);
        Ok(guard)
    }

    /// Waits for the worker's own loads and publishes them. A worker that has pages in the loading state must not wait
    /// for a page that another worker loads: that worker may be waiting for one of these pages.
    pub(super) fn settle(&mut self) -> Result<(), AccessError> {
        while self.pending.iter().any(|pending| matches!(pending.source, Source::Load { .. }) && !pending.is_ready()) {
            let wait = Wait::begin(WaitType::PageIoLatchSh);
            let completion = self.queue.wait_pop().expect("a load that is not ready has a read in flight");
            drop(wait);
            self.arrive(completion);
        }
        for place in 0..self.pending.len() {
            let pending = &mut self.pending[place];
            if matches!(pending.source, Source::Load { .. }) {
                let source = std::mem::replace(&mut pending.source, Source::Resident);
                let Source::Load { load, completions } = source else { unreachable!("matched above") };
                let range = pending.range;
                self.finish_load(&range, load, completions)?;
            }
        }
        Ok(())
    }

    /// Shows pages that were read past the pool; returns how many.
    fn private(
        &mut self,
        file: &DataFile,
        range: &PageRange,
        private: &PrivatePages,
        work: &mut Work<'_>,
    ) -> Result<u32, AccessError> {
        let mut changed = std::mem::take(&mut self.changed);
        changed.clear();
        file.pool_file().changed_since(&private.snapshot, &mut changed);
        let (pages, _) = private.buffer.as_chunks::<PAGE_SIZE>();
        let from = (range.first - private.first) as usize;
        let mut shown = range.count;
        for (number, page) in (range.first..).zip(&pages[from..from + range.count as usize]) {
            let id = PageId::new(file.id(), number);
            let tag = self.scan.partitions[range.partition].store.hobt().storage().database_tag();
            let is_sound = || changed.binary_search(&number).is_err() && verify(page, id, tag).is_ok();
            if self.resume(range, number, work)? {
                // Some of its rows were shown before.
            } else if is_sound() {
                let shown = self.show(range, number, page, work, None)?;
                self.finish_page(shown, range, number, work)?;
            } else {
                self.page_from_pool(file, range, number, work)?;
            }
            if work.is_done() {
                shown = self.pages_until(range, number);
                break;
            }
        }
        self.changed = changed;
        Ok(shown)
    }

    /// Releases what the worker holds, after its reads.
    fn abandon(&mut self) {
        // Loads first: each waits for its reads and releases its frames.
        self.pending.clear();
        self.spare.clear();
        self.rest = None;
        self.scan.context.memory().shrink(std::mem::take(&mut self.held_bytes));
    }
}
