//! Bulk insert: pages built in private memory, written straight into runs of the loader's own.
//!
//! Each worker of a parallel insert has one loader a target partition. A loader fills pages in table order, writes
//! them in pieces of [`WRITE_PAGES`] through the disk's queue, a few in flight, and allocates ever longer runs. Nothing
//! that it writes is visible before [`crate::Hobt::publish`]; when the statement fails its runs are freed.

use std::collections::VecDeque;
use std::sync::Arc;

use hobt_base::{EXTENT_PAGES, PAGE_SIZE, PageId};
use hobt_disk::{AlignedBuffer, CompletionQueue, Direction, IoBuffer, Request};
use hobt_page::{BulkColumn, BulkPageBuilder, PageBytes, PageHeader, PageType, Run, ValidityBits};
use hobt_sync::{Wait, WaitType};
use hobt_txn::StatementContext;

use crate::{AccessError, Hobt};

/// Pages written at once.
const WRITE_PAGES: usize = 32;
/// Writes in flight a loader.
const WRITES_IN_FLIGHT: usize = 3;

/// One column of a batch on its way into pages.
#[derive(Clone, Debug)]
pub struct LoadColumn<'a> {
    /// The values.
    pub values: LoadValues<'a>,
    /// Which rows have a value; `None` when all have.
    pub validity: Option<ValidityBits<'a>>,
}

/// A column's values.
#[derive(Clone, Debug)]
pub enum LoadValues<'a> {
    /// `rows × width` bytes, little-endian, in the column's physical form.
    Fixed(&'a [u8]),
    /// A slice a row; empty at a NULL.
    Variable(Vec<&'a [u8]>),
}

/// What a loader wrote.
#[derive(Debug, Default)]
pub struct LoadedRuns {
    /// Its runs, in order.
    pub runs: Vec<Run>,
    /// The rows in them.
    pub rows: u64,
}

/// Rows that do not fill a page yet, column-wise.
#[derive(Debug, Default)]
struct Staged {
    rows: usize,
    columns: Vec<StagedColumn>,
    variable_bytes: usize,
}

#[derive(Debug, Default)]
struct StagedColumn {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    validity: Vec<u8>,
    nulls: usize,
}

/// Builds and writes pages of one HOBT for one worker.
pub struct Loader {
    hobt: Arc<Hobt>,
    context: Arc<StatementContext>,
    queue: Arc<CompletionQueue>,
    staged: Staged,
    buffer: Option<AlignedBuffer>,
    spare: VecDeque<AlignedBuffer>,
    filled: usize,
    in_flight: usize,
    next_extents: u32,
    loaded: LoadedRuns,
    /// Bytes of buffers in the statement's memory account.
    held_bytes: u64,
    /// An error came: what is staged or written is not whole any more.
    failed: bool,
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("hobt", &self.hobt.id()).field("rows", &self.loaded.rows).finish_non_exhaustive()
    }
}

impl Loader {
    /// A loader into `hobt` that has written nothing yet.
    pub fn new(hobt: Arc<Hobt>, context: Arc<StatementContext>) -> Loader {
        let columns = hobt.row_layout().columns().len();
        let next_extents = hobt.storage().settings().run_extents_first;
        Loader {
            hobt,
            context,
            queue: CompletionQueue::new(),
            staged: Staged { columns: (0..columns).map(|_| StagedColumn::default()).collect(), ..Staged::default() },
            buffer: None,
            spare: VecDeque::new(),
            filled: 0,
            in_flight: 0,
            next_extents,
            loaded: LoadedRuns::default(),
            held_bytes: 0,
            failed: false,
        }
    }

    /// Adds `rows` rows. Blocks when too many writes are in flight.
    ///
    /// # Errors
    /// A row is larger than a page, the filegroup is full, the device fails, the statement is cancelled.
    ///
    /// # Panics
    /// If the columns do not have the table's shape, or a NOT NULL column has a NULL: the caller checks both.
    pub fn append(&mut self, rows: usize, columns: &[LoadColumn<'_>]) -> Result<(), AccessError> {
        assert_eq!(columns.len(), self.hobt.row_layout().columns().len(), "a batch of this table");
        self.expect_sound()?;
        if rows == 0 {
            return Ok(());
        }
        let appended = self.append_rows(rows, columns);
        self.failed = appended.is_err();
        appended
    }

    /// After an error a part of the rows is lost; they must not be published without it.
    fn expect_sound(&self) -> Result<(), AccessError> {
        if self.failed {
            return Err(AccessError::Closed("the load has failed before; undo its statement".to_owned()));
        }
        Ok(())
    }

    fn append_rows(&mut self, rows: usize, columns: &[LoadColumn<'_>]) -> Result<(), AccessError> {
        if self.context.is_cancelled() {
            return Err(AccessError::Cancelled);
        }
        let variable_bytes = variable_bytes(rows, columns);
        let layout = Arc::clone(self.hobt.row_layout());
        let builder = BulkPageBuilder::new(&layout);
        let mut from = 0;
        if self.staged.rows > 0 {
            from = self.top_up(&builder, rows, columns, &variable_bytes)?;
        }
        while from < rows {
            let count = builder.rows_that_fit(&variable_bytes[from..]);
            if count == 0 {
                let bytes = variable_bytes[from] as usize + layout.fixed_row_bytes();
                return Err(AccessError::RowTooLarge { bytes });
            }
            if from + count == rows {
                self.stage(from, count, columns, &variable_bytes);
                break;
            }
            self.write_page(&builder, count, |page| {
                for (index, column) in columns.iter().enumerate() {
                    let validity = column.validity.map(|bits| bits.skip(from));
                    match &column.values {
                        LoadValues::Fixed(bytes) => {
                            let width = bytes.len() / rows;
                            let slice = &bytes[from * width..(from + count) * width];
                            page.column(index, BulkColumn::Fixed(slice), validity);
                        }
                        LoadValues::Variable(values) => {
                            page.column(index, BulkColumn::Variable(&values[from..from + count]), validity);
                        }
                    }
                }
            })?;
            from += count;
        }
        Ok(())
    }

    /// Fills the staged page with the batch's first rows; returns how many it took.
    fn top_up(
        &mut self,
        builder: &BulkPageBuilder<'_>,
        rows: usize,
        columns: &[LoadColumn<'_>],
        variable_bytes: &[u32],
    ) -> Result<usize, AccessError> {
        let take = builder.rows_that_fit_behind(self.staged.rows, self.staged.variable_bytes, variable_bytes);
        self.stage(0, take, columns, variable_bytes);
        if take < rows {
            self.write_staged(builder)?;
        }
        Ok(take)
    }

    fn stage(&mut self, from: usize, count: usize, columns: &[LoadColumn<'_>], variable_bytes: &[u32]) {
        let rows_before = self.staged.rows;
        for (staged, column) in self.staged.columns.iter_mut().zip(columns) {
            match &column.values {
                LoadValues::Fixed(bytes) => {
                    let width = bytes.len() / variable_bytes.len();
                    staged.bytes.extend_from_slice(&bytes[from * width..(from + count) * width]);
                }
                LoadValues::Variable(values) => {
                    for value in &values[from..from + count] {
                        staged.bytes.extend_from_slice(value);
                        staged.ends.push(u32::try_from(staged.bytes.len()).expect("at most a page"));
                    }
                }
            }
            staged.validity.resize((rows_before + count).div_ceil(8), 0);
            for row in 0..count {
                if column.validity.is_none_or(|bits| bits.is_valid(from + row)) {
                    staged.validity[(rows_before + row) / 8] |= 1 << ((rows_before + row) % 8);
                } else {
                    staged.nulls += 1;
                }
            }
        }
        self.staged.variable_bytes +=
            variable_bytes[from..from + count].iter().map(|&bytes| bytes as usize).sum::<usize>();
        self.staged.rows += count;
    }

    fn write_staged(&mut self, builder: &BulkPageBuilder<'_>) -> Result<(), AccessError> {
        let mut staged = std::mem::take(&mut self.staged);
        let rows = staged.rows;
        self.write_page(builder, rows, |page| {
            for (index, column) in staged.columns.iter().enumerate() {
                let validity = (column.nulls > 0).then_some(ValidityBits { bytes: &column.validity, offset: 0 });
                if column.ends.is_empty() {
                    page.column(index, BulkColumn::Fixed(&column.bytes), validity);
                } else {
                    let mut start = 0;
                    let values: Vec<&[u8]> = column
                        .ends
                        .iter()
                        .map(|&end| {
                            let value = &column.bytes[start..end as usize];
                            start = end as usize;
                            value
                        })
                        .collect();
                    page.column(index, BulkColumn::Variable(&values), validity);
                }
            }
        })?;
        for column in &mut staged.columns {
            column.bytes.clear();
            column.ends.clear();
            column.validity.clear();
            column.nulls = 0;
        }
        staged.variable_bytes = 0;
        staged.rows = 0;
        self.staged = staged;
        Ok(())
    }

    /// Gives `fill` the next page of the current run and counts its rows.
    fn write_page(
        &mut self,
        builder: &BulkPageBuilder<'_>,
        rows: usize,
        fill: impl FnOnce(&mut hobt_page::BulkPage<'_, '_>),
    ) -> Result<(), AccessError> {
        let id = self.next_page()?;
        if self.buffer.is_none() {
            self.buffer = Some(self.free_buffer()?);
        }
        let buffer = self.buffer.as_mut().expect("taken above");
        let (pages, _) = buffer.as_chunks_mut::<PAGE_SIZE>();
        let page: &mut PageBytes = &mut pages[self.filled];
        let mut header = PageHeader::new(PageType::Row, id, self.hobt.storage().database_tag(), self.hobt.id());
        header.layout_version = self.hobt.layout_version();
        header.newest_writer = self.context.stamp();
        let mut bulk = builder.start(page, header, rows);
        fill(&mut bulk);
        bulk.finish();
        self.filled += 1;
        self.loaded.rows += rows as u64;
        let run = self.loaded.runs.last_mut().expect("next_page made one");
        run.used += 1;
        let run_is_full = run.used == run.page_count;
        if self.filled == WRITE_PAGES || run_is_full {
            self.flush()?;
        }
        Ok(())
    }

    /// The address of the next page, in a new run if the last is full.
    fn next_page(&mut self) -> Result<PageId, AccessError> {
        let full = self.loaded.runs.last().is_none_or(|run| run.used == run.page_count);
        if full {
            let storage = self.hobt.storage();
            let (first, extents) = storage.allocate(self.hobt.filegroup(), self.next_extents)?;
            self.context.on_undo(storage.free_action(first, extents));
            self.next_extents = storage.settings().next_run(self.next_extents);
            self.loaded.runs.push(Run { first, page_count: extents * EXTENT_PAGES, used: 0, skip: 0 });
        }
        let run = self.loaded.runs.last().expect("just made");
        Ok(PageId::new(run.first.file, run.used_end()))
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
        if let Some(mut buffer) = completion.buffer.into_owned() {
            buffer.set_len(WRITE_PAGES * PAGE_SIZE);
            self.spare.push_back(buffer);
        }
        completion.result.map_err(AccessError::Disk)
    }

    /// Submits the pages that are built.
    fn flush(&mut self) -> Result<(), AccessError> {
        let Some(mut buffer) = self.buffer.take().filter(|_| self.filled > 0) else { return Ok(()) };
        buffer.set_len(self.filled * PAGE_SIZE);
        let run = self.loaded.runs.last().expect("pages belong to a run");
        let pages = u32::try_from(self.filled).expect("at most WRITE_PAGES");
        let first = PageId::new(run.first.file, run.used_end() - pages);
        let file = self.hobt.storage().file(first.file)?;
        file.pool_file().discard(first.number, pages).map_err(|error| AccessError::of_pool(error, file.name()))?;
        file.disk().submit(Request {
            direction: Direction::Write,
            offset: first.byte_offset(),
            buffer: IoBuffer::Owned(buffer),
            tag: 0,
            queue: Arc::clone(&self.queue),
        });
        self.in_flight += 1;
        self.filled = 0;
        Ok(())
    }

    /// Writes what is left, waits for all writes, gives the unused end of the last run back.
    ///
    /// The caller syncs the files before it publishes.
    ///
    /// # Errors
    /// As [`Loader::append`]; the statement is then undone.
    pub fn finish(mut self) -> Result<LoadedRuns, AccessError> {
        self.expect_sound()?;
        if self.context.is_cancelled() {
            return Err(AccessError::Cancelled);
        }
        if self.staged.rows > 0 {
            let layout = Arc::clone(self.hobt.row_layout());
            self.write_staged(&BulkPageBuilder::new(&layout))?;
        }
        self.flush()?;
        while self.in_flight > 0 {
            self.reap()?;
        }
        if let Some(run) = self.loaded.runs.last_mut() {
            let keep = run.used.next_multiple_of(EXTENT_PAGES);
            let unused = (run.page_count - keep) / EXTENT_PAGES;
            if unused > 0 {
                // Freed only when the statement commits: until then its undo frees the run whole.
                let first = PageId::new(run.first.file, run.first.number + keep);
                self.context.on_commit(self.hobt.storage().free_action(first, unused));
                run.page_count = keep;
            }
        }
        Ok(std::mem::take(&mut self.loaded))
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // Writes still in flight must not land in extents that the statement's undo has given to somebody else.
        while self.in_flight > 0 {
            let _failed_write_of_a_failed_statement = self.reap();
        }
        self.buffer = None;
        self.spare.clear();
        self.context.memory().shrink(self.held_bytes);
    }
}

/// The variable bytes of each row.
fn variable_bytes(rows: usize, columns: &[LoadColumn<'_>]) -> Vec<u32> {
    let mut bytes = vec![0u32; rows];
    for column in columns {
        match &column.values {
            LoadValues::Fixed(_) => {}
            LoadValues::Variable(values) => {
                assert_eq!(values.len(), rows);
                for (sum, value) in bytes.iter_mut().zip(values) {
                    *sum = sum.saturating_add(u32::try_from(value.len()).unwrap_or(u32::MAX));
                }
            }
        }
    }
    bytes
}
