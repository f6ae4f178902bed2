//! Writes pages from private memory into a loader's own runs: pages of rows, or of pieces of large values.
//!
//! If the database logs loads ([`Storage::set_logs_loads`](crate::Storage::set_logs_loads)), each page is logged too.
//!
//! Pages are written [`WRITE_PAGES`] at a time through the disk's queue, with a few writes in flight. Runs grow. Each
//! allocated run is freed when the statement is undone.

use std::collections::VecDeque;
use std::sync::Arc;

use hobt_base::{EXTENT_PAGES, FileId, Lsn, PAGE_SIZE, PageId};
use hobt_disk::{AlignedBuffer, CompletionQueue, Direction, IoBuffer, Request};
use hobt_instruments::{Wait, WaitType, waits};
use hobt_page::{PageBytes, PageHeader, Run, RunContents, seal};
use hobt_txn::StatementContext;

use crate::storage::OpenRun;
use crate::{AccessError, Hobt};

/// Pages written at once.
const WRITE_PAGES: usize = 32;
/// Writes in flight for each writer.
const WRITES_IN_FLIGHT: usize = 3;

/// Writes one kind of pages of one HOBT.
pub(crate) struct RunWriter {
    hobt: Arc<Hobt>,
    context: Arc<StatementContext>,
    contents: RunContents,
    queue: Arc<CompletionQueue>,
    buffer: Option<AlignedBuffer>,
    spare: VecDeque<AlignedBuffer>,
    filled: usize,
    in_flight: usize,
    next_extents: u32,
    runs: Vec<Run>,
    /// The runs, as backups see them.
    open_runs: Vec<OpenRun>,
    /// The record of the last run's allocation. Pages are stamped with it, so that recovery does not take them for
    /// older ones.
    lsn: Lsn,
    /// The record of the last page that was logged itself.
    logged: Lsn,
    /// The run after the last one, if a page had to name the page after it, and its record.
    following: Option<(Run, Lsn)>,
    /// Bytes of buffers in the statement's memory account.
    held_bytes: u64,
}

impl RunWriter {
    pub(crate) fn new(hobt: Arc<Hobt>, context: Arc<StatementContext>, contents: RunContents) -> RunWriter {
        let next_extents = hobt.storage().settings().run_extents_first;
        RunWriter {
            hobt,
            context,
            contents,
            queue: CompletionQueue::new(),
            buffer: None,
            spare: VecDeque::new(),
            filled: 0,
            in_flight: 0,
            next_extents,
            runs: Vec::new(),
            open_runs: Vec::new(),
            lsn: Lsn(0),
            logged: Lsn(0),
            following: None,
            held_bytes: 0,
        }
    }

    /// The address of the next page, in a new run if the last is full.
    pub(crate) fn next_page(&mut self) -> Result<PageId, AccessError> {
        let full = self.runs.last().is_none_or(|run| run.used == run.page_count);
        if full {
            let (run, lsn) = match self.following.take() {
                Some(following) => following,
                None => self.allocate()?,
            };
            self.open_runs.push(self.hobt.storage().load_begins((run.first, run.page_count / EXTENT_PAGES)));
            let file = self.hobt.storage().file(run.first.file)?;
            file.pool_file().written().note(run.first.number, run.page_count);
            self.runs.push(run);
            self.lsn = lsn;
        }
        let run = self.runs.last().expect("just made");
        Ok(PageId::new(run.first.file, run.used_end()))
    }

    /// The address of the page after the next one.
    pub(crate) fn page_after_next(&mut self) -> Result<PageId, AccessError> {
        let next = self.next_page()?;
        let run = self.runs.last().expect("made for the next page");
        if run.used + 1 < run.page_count {
            return Ok(PageId::new(next.file, next.number + 1));
        }
        let following = match self.following {
            Some(following) => following,
            None => self.allocate()?,
        };
        self.following = Some(following);
        Ok(following.0.first)
    }

    fn allocate(&mut self) -> Result<(Run, Lsn), AccessError> {
        let storage = self.hobt.storage();
        let run = storage.allocate_for(&self.context, self.hobt.filegroup(), self.next_extents)?;
        self.next_extents = storage.next_run(self.hobt.filegroup(), self.next_extents);
        let page_count = run.extents * EXTENT_PAGES;
        Ok((Run { first: run.first, page_count, used: 0, skip: 0, contents: self.contents }, run.lsn))
    }

    /// Calls `fill` with the address of the next page, the log position to stamp it with, which is that of its run's
    /// allocation, and its bytes. `fill` writes the whole page, checksum included.
    pub(crate) fn write(&mut self, fill: impl FnOnce(PageId, Lsn, &mut PageBytes)) -> Result<(), AccessError> {
        let id = self.next_page()?;
        if self.buffer.is_none() {
            self.buffer = Some(self.free_buffer()?);
        }
        let buffer = self.buffer.as_mut().expect("taken above");
        let (pages, _) = buffer.as_chunks_mut::<PAGE_SIZE>();
        let page = &mut pages[self.filled];
        fill(id, self.lsn, page);
        let storage = self.hobt.storage();
        if let Some(chain) = storage.chain_of(&self.context).filter(|_| storage.logs_loads()) {
            self.logged = storage.log_loaded(self.hobt.identity(), &chain, id, page)?;
            PageHeader::stamp_lsn(page, self.logged);
            seal(page);
        } else if let Some(open) = self.open_runs.last_mut() {
            self.logged = self.logged.max(open.note_unlogged()?);
        }
        self.filled += 1;
        waits::note_pages_dirtied(1);
        let run = self.runs.last_mut().expect("next_page made one");
        run.used += 1;
        let run_is_full = run.used == run.page_count;
        if self.filled == WRITE_PAGES || run_is_full {
            self.flush()?;
        }
        Ok(())
    }

    fn free_buffer(&mut self) -> Result<AlignedBuffer, AccessError> {
        while self.in_flight >= WRITES_IN_FLIGHT {
            self.reap()?;
        }
        if let Some(buffer) = self.spare.pop_front() {
            return Ok(buffer);
        }
        let bytes = (WRITE_PAGES * PAGE_SIZE) as u64;
        self.context.memory().grow(bytes)?;
        self.held_bytes += bytes;
        Ok(AlignedBuffer::new(WRITE_PAGES * PAGE_SIZE)?)
    }

    /// Waits for one write.
    fn reap(&mut self) -> Result<(), AccessError> {
        let completion = match self.queue.try_pop() {
            Some(completion) => completion,
            None => {
                let _wait = Wait::begin(WaitType::IoCompletion);
                self.queue.wait_pop().expect("a write is in flight")
            }
        };
        self.in_flight -= 1;
        // Before the write was done, a read may have brought the old page into the pool: read-ahead past the end of
        // another run, or DBCC PAGE.
        let pages = completion.buffer.len() / PAGE_SIZE;
        let first = PageId::new(
            FileId(u16::try_from(completion.tag).expect("a file's number")),
            u32::try_from(completion.offset / PAGE_SIZE as u64).expect("a page of a file"),
        );
        self.forget(first, u32::try_from(pages).expect("at most WRITE_PAGES"))?;
        if let Some(mut buffer) = completion.buffer.into_owned() {
            buffer.set_len(WRITE_PAGES * PAGE_SIZE);
            self.spare.push_back(buffer);
        }
        completion.result.map_err(AccessError::Disk)
    }

    /// Removes old pages from the pool, where they would hide what the load writes.
    fn forget(&self, first: PageId, pages: u32) -> Result<(), AccessError> {
        let file = self.hobt.storage().file(first.file)?;
        file.pool_file().discard(first.number, pages).map_err(|error| AccessError::of_pool(error, file.name()))
    }

    /// Submits the pages that are filled.
    fn flush(&mut self) -> Result<(), AccessError> {
        let Some(mut buffer) = self.buffer.take().filter(|_| self.filled > 0) else { return Ok(()) };
        buffer.set_len(self.filled * PAGE_SIZE);
        let run = self.runs.last().expect("pages belong to a run");
        let pages = u32::try_from(self.filled).expect("at most WRITE_PAGES");
        let first = PageId::new(run.first.file, run.used_end() - pages);
        if let Some(log) = self.hobt.storage().log() {
            // Write-ahead: the old pages are not overwritten as long as a crash could undo that the extents were freed
            // and allocated.
            log.log().flush_past(self.lsn.max(self.logged))?;
        }
        self.forget(first, pages)?;
        let file = self.hobt.storage().file(first.file)?;
        file.disk().submit(Request {
            direction: Direction::Write,
            offset: first.byte_offset(),
            buffer: IoBuffer::Owned(buffer),
            tag: u64::from(first.file.0),
            queue: Arc::clone(&self.queue),
        });
        self.in_flight += 1;
        self.filled = 0;
        Ok(())
    }

    /// Writes the remaining pages, waits for all writes, and frees the unused end of the last run. Returns the runs, in
    /// order.
    pub(crate) fn finish(&mut self) -> Result<Vec<Run>, AccessError> {
        self.flush()?;
        while self.in_flight > 0 {
            self.reap()?;
        }
        assert!(self.following.is_none(), "the page that was announced has been written");
        self.open_runs.clear();
        if let Some(run) = self.runs.last_mut() {
            let keep = run.used.next_multiple_of(EXTENT_PAGES);
            let unused = (run.page_count - keep) / EXTENT_PAGES;
            if unused > 0 {
                // Freed only when the statement commits: until then its undo frees the whole run.
                let first = PageId::new(run.first.file, run.first.number + keep);
                self.hobt.storage().free_on_commit(&self.context, first, unused)?;
                run.page_count = keep;
            }
        }
        Ok(std::mem::take(&mut self.runs))
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        // Writes still in flight must not land in extents that the statement's undo has given to another HOBT.
        while self.in_flight > 0 {
            let _failed_write_of_a_failed_statement = self.reap();
        }
        self.buffer = None;
        self.spare.clear();
        self.open_runs.clear();
        self.context.memory().shrink(self.held_bytes);
    }
}
