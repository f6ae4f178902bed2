//! One heap: its runs of pages, and rows that come and go one at a time.
//!
//! The runs stand in run-list pages on disk and in memory; a scan takes a copy when it starts. The first page of the
//! first run is the first run-list page; when the list outgrows it, the next one gets an extent of its own. Rows are
//! appended to the last page of the last run of rows; bulk loads bring whole runs ([`Hobt::publish`]). Values that do
//! not fit their row lie in runs of their own (`large_values`).

mod large_values;
mod tree_pages;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hobt_base::{EXTENT_PAGES, FilegroupId, HobtId, Lsn, PageId, SlotId, Stamp};
use hobt_buffer::ExclusiveGuard;
use hobt_page::{
    PageBytes, PageChange, PageDamage, PageFlags, PageHeader, PageType, RUNS_PER_PAGE, RowImage, RowLayout, RowPage,
    Run, RunContents, RunListPage,
};
use hobt_sync::{Latch, LatchClass, LatchWriteGuard};
use hobt_txn::{Before, COMMIT_RECORD, LogChain, StatementContext, UndoError};
use parking_lot::{RwLock, RwLockReadGuard};

use crate::change::{Changed, Identity, Logged};
use crate::load::LoadedRuns;
use crate::log_record::Undo;
use crate::storage::Allocated;
use crate::{AccessError, Storage};

pub use large_values::{LargeValues, ValueReader};

/// One partition of a heap.
#[derive(Debug)]
pub struct Hobt {
    storage: Arc<Storage>,
    identity: Identity,
    row_count: AtomicU64,
    /// Held shared from the record of a row that comes or goes until it is counted; a checkpoint, which holds it
    /// exclusively, so knows which rows are in the count that it saves.
    counting: RwLock<()>,
    /// The count that was saved last is that of now. Changed while `counting` is held.
    is_counted: AtomicBool,
    state: Latch<State>,
}

#[derive(Debug)]
struct State {
    /// The pages of the run list, in order.
    list: Vec<PageId>,
    runs: Vec<Run>,
    /// The length of the next run for single rows.
    next_extents: u32,
    /// The length of the next run for their large values.
    next_value_extents: u32,
    /// Its extents are free, or about to be: its pages are not to be touched any more.
    dropped: bool,
}

impl State {
    /// The place of the run that new rows, or new large values, go to.
    fn tail(&self, contents: RunContents) -> Option<usize> {
        self.runs.iter().rposition(|run| run.contents == contents)
    }

    fn next_extents(&mut self, contents: RunContents) -> &mut u32 {
        match contents {
            RunContents::Rows => &mut self.next_extents,
            RunContents::LargeValues => &mut self.next_value_extents,
        }
    }
}

impl Hobt {
    /// Makes an empty heap: one extent, whose first page is the run list. Undone with the statement.
    ///
    /// # Errors
    /// The filegroup is full or the device fails.
    pub fn create(
        storage: &Arc<Storage>,
        id: HobtId,
        filegroup: FilegroupId,
        rows: Arc<RowLayout>,
        layout_version: u32,
        context: &StatementContext,
    ) -> Result<Arc<Hobt>, AccessError> {
        let identity = |first| Identity::new(id, first, filegroup, rows, layout_version);
        storage.in_one_piece(|| Hobt::create_list(storage, filegroup, context, identity))
    }

    /// The same, with what is to be known of it by the first page of its run list.
    pub(crate) fn create_list(
        storage: &Arc<Storage>,
        filegroup: FilegroupId,
        context: &StatementContext,
        identity: impl FnOnce(PageId) -> Identity,
    ) -> Result<Arc<Hobt>, AccessError> {
        let Allocated { first, extents, .. } = storage.allocate_for(context, filegroup, 1)?;
        let run = list_run(first, extents);
        let next_extents = storage.settings().run_extents_first;
        let state = State {
            list: vec![first],
            runs: vec![run],
            next_extents,
            next_value_extents: next_extents,
            dropped: false,
        };
        let hobt = Arc::new(Hobt {
            storage: Arc::clone(storage),
            identity: identity(first),
            row_count: AtomicU64::new(0),
            counting: RwLock::new(()),
            is_counted: AtomicBool::new(true),
            state: Latch::new(LatchClass::HobtVirtualRoot, state),
        });
        hobt.create_list_page(first, &[run])?;
        let chain = storage.chain_of(context);
        let lsn = storage.note(&hobt.identity, chain.as_ref(), &Undo::Uncreate { hobt: hobt.identity.id })?;
        // The undo runs backwards: who still has the heap learns that it is gone before its extents are free.
        let undone = Arc::clone(&hobt);
        context.on_undo(move || undone.storage.end(|| undone.uncreate(chain.as_ref(), lsn)));
        Ok(hobt)
    }

    /// Takes its making back, but for its first run. The runs that it got since are free only when it is in the log that
    /// they are to be.
    fn uncreate(&self, chain: Option<&Arc<LogChain>>, lsn: Lsn) -> Result<(), AccessError> {
        let mut state = self.state.write();
        state.dropped = true;
        let gone = state.runs[1..].to_vec();
        let structure = self.storage.begin_freeing(&gone)?;
        if let Some(structure) = &structure {
            structure.append(COMMIT_RECORD, &[])?;
        }
        self.storage.undone(chain, lsn, self.identity.id, 0)?;
        self.storage.end_freeing(structure, &gone)
    }

    /// The same in recovery.
    pub(crate) fn uncreate_again(&self, chain: &Arc<LogChain>, lsn: Lsn) -> Result<(), AccessError> {
        let state = self.state.write();
        // Nothing is allocated meanwhile: what is free already was freed by a recovery that was cut off here.
        for run in &state.runs[1..] {
            let file = self.storage.file(run.first.file)?;
            if file.is_allocated(run.first.number / EXTENT_PAGES) {
                self.storage.free(run.first, run.page_count / EXTENT_PAGES)?;
            }
        }
        self.storage.undone(Some(chain), lsn, self.identity.id, 0)
    }

    /// Opens a heap whose run list starts at `run_list`.
    ///
    /// # Errors
    /// A page of the list is damaged, belongs to another HOBT, or names pages that do not exist or are not the HOBT's to
    /// free: such that are not allocated, hold allocation pages, or stand in two of its runs.
    pub fn open(
        storage: &Arc<Storage>,
        id: HobtId,
        filegroup: FilegroupId,
        rows: Arc<RowLayout>,
        layout_version: u32,
        run_list: PageId,
    ) -> Result<Arc<Hobt>, AccessError> {
        let identity = Identity::new(id, run_list, filegroup, rows, layout_version);
        Hobt::open_list(storage, identity, true)
    }

    /// The same for recovery, where extents may be freed that the list still names.
    pub(crate) fn open_to_undo(storage: &Arc<Storage>, identity: Identity) -> Result<Arc<Hobt>, AccessError> {
        Hobt::open_list(storage, identity, false)
    }

    pub(crate) fn open_list(
        storage: &Arc<Storage>,
        identity: Identity,
        checks_runs: bool,
    ) -> Result<Arc<Hobt>, AccessError> {
        let (id, run_list) = (identity.id, identity.run_list);
        let mut list = Vec::new();
        let mut runs: Vec<Run> = Vec::new();
        let mut row_count = 0;
        let mut next = run_list;
        while next != PageId::default() {
            let file = storage.file(next.file)?;
            let damaged = |damage| AccessError::Damaged { file: file.name().to_owned(), page: next, damage };
            let wrong = |rule| damaged(PageDamage::Structure { rule });
            if list.contains(&next) {
                return Err(wrong("a run list that returns to itself"));
            }
            let page = file.pool_file().read(next.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
            let header = PageHeader::read(&page).map_err(damaged)?;
            if header.hobt != id {
                return Err(wrong("the run list of another HOBT"));
            }
            let entries = RunListPage::read(&page).map_err(damaged)?;
            for run in entries.iter().filter(|_| checks_runs) {
                let Ok(target) = storage.file(run.first.file) else {
                    return Err(wrong("a run in a file that is not there"));
                };
                target.can_be_owned(run).map_err(wrong)?;
            }
            if list.is_empty() {
                row_count = RunListPage::row_count(&page);
            }
            let is_whole = header.next == PageId::default() || entries.len() == RUNS_PER_PAGE;
            let is_own = |own: &Run| own.first == next && own.skip > 0 && own.page_count == EXTENT_PAGES;
            if !is_whole || !entries.first().is_some_and(is_own) {
                return Err(wrong("entries of a run list"));
            }
            runs.extend(entries);
            list.push(next);
            next = header.next;
        }
        if checks_runs && overlap(&runs) {
            let file = storage.file(run_list.file)?.name().to_owned();
            let damage = PageDamage::Structure { rule: "runs of a run list that share extents" };
            return Err(AccessError::Damaged { file, page: run_list, damage });
        }
        let next_extents = storage.settings().run_extents_first;
        let state = State { list, runs, next_extents, next_value_extents: next_extents, dropped: false };
        Ok(Arc::new(Hobt {
            storage: Arc::clone(storage),
            identity,
            row_count: AtomicU64::new(row_count),
            counting: RwLock::new(()),
            is_counted: AtomicBool::new(true),
            state: Latch::new(LatchClass::HobtVirtualRoot, state),
        }))
    }

    /// The heap's id.
    pub fn id(&self) -> HobtId {
        self.identity.id
    }

    /// The first page of the run list.
    pub fn run_list(&self) -> PageId {
        self.identity.run_list
    }

    /// The database's files.
    pub fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The filegroup of its runs.
    pub fn filegroup(&self) -> FilegroupId {
        self.identity.filegroup
    }

    /// The table's columns.
    pub fn row_layout(&self) -> &Arc<RowLayout> {
        &self.identity.rows
    }

    /// The version of the column layout in its pages' headers.
    pub fn layout_version(&self) -> u32 {
        self.identity.layout_version
    }

    /// Rows, statements that still run included.
    pub fn row_count(&self) -> u64 {
        self.row_count.load(Ordering::Relaxed)
    }

    /// Pages that are formatted, run-list pages included.
    pub fn used_pages(&self) -> u64 {
        self.state.read().runs.iter().map(|run| u64::from(run.used)).sum()
    }

    /// Pages that hold rows.
    pub fn data_pages(&self) -> u64 {
        self.state.read().runs.iter().map(|run| u64::from(run.row_page_count())).sum()
    }

    /// Pages of values that do not fit their rows: formatted, and allocated for them.
    pub fn large_value_pages(&self) -> (u64, u64) {
        let state = self.state.read();
        let runs = state.runs.iter().filter(|run| run.contents == RunContents::LargeValues);
        runs.fold((0, 0), |(used, pages), run| (used + u64::from(run.used), pages + u64::from(run.page_count)))
    }

    /// Pages that are allocated.
    pub fn reserved_pages(&self) -> u64 {
        self.state.read().runs.iter().map(|run| u64::from(run.page_count)).sum()
    }

    /// Whether a page is in one of its runs.
    pub(crate) fn owns(&self, page: PageId) -> bool {
        let lies_in = |run: &Run| {
            run.first.file == page.file && (run.first.number..run.first.number + run.page_count).contains(&page.number)
        };
        self.state.read().runs.iter().any(lies_in)
    }

    /// The runs at this moment, in order: what a scan works on.
    pub fn runs(&self) -> Vec<Run> {
        self.state.read().runs.clone()
    }

    /// Formats a new page of the run list with its first entries.
    fn create_list_page(&self, id: PageId, runs: &[Run]) -> Result<(), AccessError> {
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().create(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let header = PageHeader::new(PageType::RunList, id, self.storage.database_tag(), self.identity.id);
        self.change(&mut page, id, &PageChange::Format { header }, Logged::structure())?;
        self.put_entries(&mut page, id, Entries { from: 0, runs, count: runs.len(), next: None }, Logged::structure())
    }

    /// Applies a change; `None` if the page has no room.
    pub(crate) fn change(
        &self,
        page: &mut ExclusiveGuard<'_>,
        id: PageId,
        change: &PageChange,
        logged: Logged<'_>,
    ) -> Result<Option<Changed>, AccessError> {
        self.storage.change(page, id, Some(&self.identity), change, logged)
    }

    pub(crate) fn damaged(&self, page: PageId, damage: PageDamage) -> AccessError {
        self.storage.damaged(page, damage)
    }

    /// Writes entries of a run-list page, then how many the page has and which page follows. All of it or, with an error,
    /// nothing that counts: what is behind the count is nothing yet. `logged` is for the count.
    fn write_entries(&self, id: PageId, entries: Entries<'_>, logged: Logged<'_>) -> Result<(), AccessError> {
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        self.put_entries(&mut page, id, entries, logged)
    }

    fn put_entries(
        &self,
        page: &mut ExclusiveGuard<'_>,
        id: PageId,
        entries: Entries<'_>,
        logged: Logged<'_>,
    ) -> Result<(), AccessError> {
        let mut header = PageHeader::read(page).map_err(|damage| self.damaged(id, damage))?;
        header.row_count = u16::try_from(entries.count).expect("a page's entries");
        header.next = entries.next.unwrap_or_default();
        for (index, run) in (entries.from..).zip(entries.runs) {
            let (offset, bytes) = RunListPage::entry_bytes(index, run);
            self.change(page, id, &PageChange::Write { offset, bytes }, Logged::structure())?;
        }
        self.change(page, id, &PageChange::SetHeader { header }, logged)?;
        Ok(())
    }

    /// Replaces a run, in the list and in memory.
    fn replace_run(&self, state: &mut State, index: usize, run: Run) -> Result<(), AccessError> {
        let place = index / RUNS_PER_PAGE;
        let id = state.list[place];
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let (offset, bytes) = RunListPage::entry_bytes(index % RUNS_PER_PAGE, &run);
        self.change(&mut page, id, &PageChange::Write { offset, bytes }, Logged::structure())?;
        state.runs[index] = run;
        Ok(())
    }

    /// Whether a further run needs a further page of the list.
    fn needs_list_page(state: &State) -> bool {
        state.runs.len() / RUNS_PER_PAGE == state.list.len()
    }

    /// Adds a run to the list, whose page has room. With an error the list is as it was, and the run's extents are still
    /// the caller's.
    fn push_run(&self, state: &mut State, run: Run, logged: Logged<'_>) -> Result<(), AccessError> {
        let index = state.runs.len();
        let (page, place) = (state.list[index / RUNS_PER_PAGE], index % RUNS_PER_PAGE);
        self.write_entries(page, Entries { from: place, runs: &[run], count: place + 1, next: None }, logged)?;
        state.runs.push(run);
        Ok(())
    }

    /// Adds a list page in an extent of its own, whose entries are itself and `run`, and only then links it.
    fn push_list_page(
        &self,
        state: &mut State,
        list_page: Allocated,
        run: Run,
        logged: Logged<'_>,
    ) -> Result<(), AccessError> {
        let Allocated { first, extents, .. } = list_page;
        let own = list_run(first, extents);
        let last = *state.list.last().expect("a heap has a run list");
        self.create_list_page(first, &[own, run])?;
        let link = Entries { from: RUNS_PER_PAGE, runs: &[], count: RUNS_PER_PAGE, next: Some(first) };
        self.write_entries(last, link, logged)?;
        state.list.push(first);
        state.runs.extend([own, run]);
        Ok(())
    }

    /// Takes runs off the end of the list until `count` are left; their extents, and those of the list pages that go with
    /// them, are the caller's.
    fn pop_runs(&self, state: &mut State, count: usize, logged: Logged<'_>) -> Result<(), AccessError> {
        let pages = count.div_ceil(RUNS_PER_PAGE).max(1);
        let in_page = count - (pages - 1) * RUNS_PER_PAGE;
        let end = Entries { from: in_page, runs: &[], count: in_page, next: None };
        self.write_entries(state.list[pages - 1], end, logged)?;
        state.runs.truncate(count);
        state.list.truncate(pages);
        Ok(())
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Counts rows that came or went, while [`Hobt::begin_counting`] is held.
    pub(crate) fn count_rows(&self, rows: i64) {
        self.row_count.fetch_add_signed(rows);
    }

    /// To be held from the record of rows that come or go until they are counted.
    pub(crate) fn begin_counting(&self) -> RwLockReadGuard<'_, ()> {
        let counting = self.counting.read();
        self.is_counted.store(false, Ordering::Relaxed);
        counting
    }

    /// Inserts a row at the end; values that do not fit it go to pages of their own. Blocks on the tail page's latch and,
    /// when the tail is full, on allocation.
    ///
    /// # Errors
    /// The row is larger than a page even so, the filegroup is full, or the device fails.
    pub fn insert(
        self: &Arc<Hobt>,
        context: &StatementContext,
        row: &RowImage,
    ) -> Result<(PageId, SlotId), AccessError> {
        self.storage.in_one_piece(|| self.insert_row(context, row))
    }

    fn insert_row(
        self: &Arc<Hobt>,
        context: &StatementContext,
        row: &RowImage,
    ) -> Result<(PageId, SlotId), AccessError> {
        let row = self.move_out(context, row)?.unwrap_or_else(|| row.clone());
        let variable_bytes = row.variable_bytes(&self.identity.rows);
        let bytes = row.byte_count();
        let change = PageChange::AppendRow { row, writer: context.stamp() };
        let chain = self.storage.chain_of(context);
        let mut state = self.state_to_change()?;
        loop {
            let tail = state.runs[state.tail(RunContents::Rows).expect("a heap has its first run")];
            if tail.used > u32::from(tail.skip) {
                let id = PageId::new(tail.first.file, tail.used_end() - 1);
                let file = self.storage.file(id.file)?;
                let mut page =
                    file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
                let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
                let slot = SlotId(header.row_count);
                self.put_loaded_versions(context, id, &header);
                let undo = Undo::RemoveRow { slot };
                let counting = self.begin_counting();
                let logged = Logged::of(chain.as_ref()).undone_by(&undo).rows(1);
                if let Some(changed) = self.change(&mut page, id, &change, logged)? {
                    context.put_version(self.storage.versions(), id, slot, Before::Absent);
                    drop(page);
                    self.row_count.fetch_add(1, Ordering::Relaxed);
                    drop(counting);
                    let done = RowChange { page: id, slot, was_inserted: true, lsn: changed.lsn };
                    let (writer, before) = (context.stamp(), header.newest_writer);
                    let hobt = Arc::clone(self);
                    context.on_undo(move || hobt.storage.end(|| hobt.undo_row(chain.as_ref(), &done, writer, before)));
                    return Ok((id, slot));
                }
                drop(counting);
                if header.row_count == 0 {
                    return Err(AccessError::RowTooLarge { bytes });
                }
            }
            let capacity = self.identity.rows.capacity_for(variable_bytes);
            if capacity == 0 {
                return Err(AccessError::RowTooLarge { bytes });
            }
            self.add_page(&mut state, context, capacity)?;
        }
    }

    /// A page that a load built says by its stamp alone who sees it; from its first change on its rows do.
    fn put_loaded_versions(&self, context: &StatementContext, id: PageId, header: &PageHeader) {
        if header.flags.contains(PageFlags::BULK) {
            context.put_loaded_versions(self.storage.versions(), header.newest_writer, id, header.row_count);
        }
    }

    /// Formats the next page of the tail run for `capacity` rows, allocating a run if that is full. Undone with the
    /// statement, unless somebody has gone on from there.
    fn add_page(
        self: &Arc<Hobt>,
        state: &mut State,
        context: &StatementContext,
        capacity: u16,
    ) -> Result<(), AccessError> {
        let tail = state.tail(RunContents::Rows).expect("a heap has its first run");
        if state.runs[tail].used == state.runs[tail].page_count {
            let extents = state.next_extents;
            self.add_run(state, context, RunContents::Rows, extents)?;
        }
        let index = state.tail(RunContents::Rows).expect("a heap has its first run");
        let run = state.runs[index];
        let id = PageId::new(run.first.file, run.used_end());
        let mut header = PageHeader::new(PageType::Row, id, self.storage.database_tag(), self.identity.id);
        header.capacity = capacity;
        header.layout_version = self.identity.layout_version;
        header.newest_writer = context.stamp();
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().create(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        self.change(&mut page, id, &PageChange::Format { header }, Logged::structure())?;
        drop(page);
        let grown = Run { used: run.used + 1, ..run };
        self.replace_run(state, index, grown)?;
        let hobt = Arc::clone(self);
        context.on_undo(move || hobt.undo_add_page(index, grown));
        Ok(())
    }

    /// Allocates the next run for single rows or their large values, of `wanted` extents if there are so many in a row: a
    /// small transaction of its own.
    fn add_run(
        self: &Arc<Hobt>,
        state: &mut State,
        context: &StatementContext,
        contents: RunContents,
        wanted: u32,
    ) -> Result<(), AccessError> {
        let before = state.runs.len();
        let extents_before = *state.next_extents(contents);
        let run = self.add_structure_run(state, contents, wanted)?;
        let after = state.runs.len();
        let hobt = Arc::clone(self);
        context.on_undo(move || hobt.undo_add_run(before, after, run, extents_before));
        Ok(())
    }

    /// The same, not undone with any statement.
    fn add_structure_run(&self, state: &mut State, contents: RunContents, wanted: u32) -> Result<Run, AccessError> {
        let extents_before = *state.next_extents(contents);
        let chain = self.storage.log().map(|log| log.begin_structure());
        let added = self.add_allocated_run(state, chain.as_ref(), contents, wanted);
        if let Some(chain) = chain {
            // Its last change commits it; one that failed has been taken back.
            if added.is_ok() { chain.leave() } else { chain.end()? }
        }
        let run = added?;
        *state.next_extents(contents) = self.storage.settings().next_run(extents_before);
        Ok(run)
    }

    fn add_allocated_run(
        &self,
        state: &mut State,
        chain: Option<&Arc<LogChain>>,
        contents: RunContents,
        wanted: u32,
    ) -> Result<Run, AccessError> {
        let run = self.storage.allocate(chain, self.identity.filegroup, wanted)?;
        let page_count = run.extents * EXTENT_PAGES;
        let entry = Run { first: run.first, page_count, used: 0, skip: 0, contents };
        let give_back = |error| match self.storage.free_undone(chain, &run) {
            // The first error is the cause of both.
            Ok(()) | Err(_) => error,
        };
        let logged = Logged::of(chain).committing();
        if !Hobt::needs_list_page(state) {
            self.push_run(state, entry, logged).map_err(give_back)?;
            return Ok(entry);
        }
        let list_page = self.storage.allocate(chain, self.identity.filegroup, 1).map_err(give_back)?;
        let pushed = self.push_list_page(state, list_page, entry, logged);
        pushed.map_err(|error| match self.storage.free_undone(chain, &list_page) {
            Ok(()) | Err(_) => give_back(error),
        })?;
        Ok(entry)
    }

    fn undo_add_page(&self, index: usize, grown: Run) -> Result<(), UndoError> {
        self.storage.tidy(|| {
            let mut state = self.state.write();
            if state.tail(RunContents::Rows) != Some(index) || state.runs[index] != grown {
                return Ok(());
            }
            let id = PageId::new(grown.first.file, grown.used_end() - 1);
            let file = self.storage.file(id.file)?;
            let page = file.pool_file().read(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
            let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
            drop(page);
            if header.row_count > 0 {
                return Ok(());
            }
            // The page stays as it is, formatted and without rows, for scans that have it in their copy of the runs.
            self.replace_run(&mut state, index, Run { used: grown.used - 1, ..grown })
        })
    }

    fn undo_add_run(&self, before: usize, after: usize, run: Run, next_extents: u32) -> Result<(), UndoError> {
        self.storage.tidy(|| {
            let mut state = self.state.write();
            // A list page's own run goes with the run that needed it, if no row has gone into it.
            let is_own = |run: &Run| run.used == u32::from(run.skip);
            if state.runs.len() != after
                || state.runs[after - 1] != run
                || !state.runs[before..after - 1].iter().all(is_own)
            {
                return Ok(());
            }
            *state.next_extents(run.contents) = next_extents;
            let gone = state.runs[before..].to_vec();
            let structure = self.storage.begin_freeing(&gone)?;
            self.pop_runs(&mut state, before, Logged::of(structure.as_ref()).committing())?;
            self.storage.end_freeing(structure, &gone)
        })
    }

    /// Deletes a row. Undone with the statement.
    ///
    /// # Errors
    /// The page is damaged or cannot be read.
    pub fn delete(self: &Arc<Hobt>, context: &StatementContext, page: PageId, slot: SlotId) -> Result<(), AccessError> {
        let writer = context.stamp();
        let change = PageChange::SetDeleted { slot, deleted: true, writer };
        let chain = self.storage.chain_of(context);
        self.storage.in_one_piece(|| {
            let file = self.storage.file(page.file)?;
            let guard = file.pool_file().write(page.number);
            let mut guard = guard.map_err(|error| AccessError::of_pool(error, file.name()))?;
            let header = PageHeader::read(&guard).map_err(|damage| self.damaged(page, damage))?;
            self.put_loaded_versions(context, page, &header);
            let undo = Undo::RestoreRow { slot };
            let counting = self.begin_counting();
            let logged = Logged::of(chain.as_ref()).undone_by(&undo).rows(-1);
            let changed = self.change(&mut guard, page, &change, logged)?.expect("a bit has room");
            let PageChange::SetDeleted { writer: before, .. } = changed.undo else {
                unreachable!("the undo of a deleted bit is the bit before");
            };
            context.put_version(self.storage.versions(), page, slot, Before::Present);
            drop(guard);
            self.row_count.fetch_sub(1, Ordering::Relaxed);
            drop(counting);
            let done = RowChange { page, slot, was_inserted: false, lsn: changed.lsn };
            let hobt = Arc::clone(self);
            context.on_undo(move || hobt.storage.end(|| hobt.undo_row(chain.as_ref(), &done, writer, before)));
            Ok(())
        })
    }

    /// Puts another row in the place of one, or, where that might not be undone, into a place of its own; where it is. Undone
    /// with the statement.
    ///
    /// # Errors
    /// As [`Hobt::insert`] and [`Hobt::delete`].
    pub fn replace(
        self: &Arc<Hobt>,
        context: &StatementContext,
        page: PageId,
        slot: SlotId,
        row: &RowImage,
    ) -> Result<(PageId, SlotId), AccessError> {
        if self.storage.in_one_piece(|| self.replace_in_place(context, page, slot, row))? {
            return Ok((page, slot));
        }
        self.delete(context, page, slot)?;
        self.insert(context, row)
    }

    /// `false`, and nothing is changed, if the row has to move: it has no room, its values go to pages of their own, or it
    /// is shorter than the one before, whose room others could take before an undo needs it again.
    fn replace_in_place(
        self: &Arc<Hobt>,
        context: &StatementContext,
        id: PageId,
        slot: SlotId,
        row: &RowImage,
    ) -> Result<bool, AccessError> {
        let rows = &self.identity.rows;
        let variable_bytes = row.variable_bytes(rows);
        if !rows.fits_in_row(variable_bytes) {
            return Ok(false);
        }
        let chain = self.storage.chain_of(context);
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
        let view = RowPage::open(&page, rows).map_err(|damage| self.damaged(id, damage))?;
        let old = view.row_image(usize::from(slot.0)).map_err(|damage| self.damaged(id, damage))?;
        if variable_bytes < old.variable_bytes(rows) {
            return Ok(false);
        }
        self.put_loaded_versions(context, id, &header);
        let undo = Undo::PutBack { slot, row: old.clone() };
        let change = PageChange::ReplaceRow { slot, row: row.clone(), writer: context.stamp() };
        let logged = Logged::of(chain.as_ref()).undone_by(&undo);
        let Some(changed) = self.change(&mut page, id, &change, logged)? else { return Ok(false) };
        context.put_version(self.storage.versions(), id, slot, Before::Row(Arc::new(old.clone())));
        drop(page);
        let done = Replaced { page: id, slot, row: old, lsn: changed.lsn };
        let (writer, before) = (context.stamp(), header.newest_writer);
        let hobt = Arc::clone(self);
        context.on_undo(move || hobt.storage.end(|| hobt.put_back(chain.as_ref(), &done, writer, before)));
        Ok(true)
    }

    /// Puts a row back in whose place another one was put; it is no longer than that one.
    pub(crate) fn put_back(
        &self,
        chain: Option<&Arc<LogChain>>,
        done: &Replaced,
        writer: Stamp,
        before: Stamp,
    ) -> Result<(), AccessError> {
        let id = done.page;
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
        let writer = if header.newest_writer == writer { before } else { header.newest_writer };
        let change = PageChange::ReplaceRow { slot: done.slot, row: done.row.clone(), writer };
        let put = self.change(&mut page, id, &change, Logged::of(chain).compensating(done.lsn))?;
        let no_room = PageDamage::Structure { rule: "room for a row that stood there before" };
        put.map(drop).ok_or_else(|| self.damaged(id, no_room))
    }

    /// Takes an inserted row away, or brings a deleted one back. Other statements may have changed other rows of the
    /// page since (the catalog's tables have many writers), so nothing but this row is touched: not the layout, and a
    /// row that is no longer the last is marked as deleted.
    pub(crate) fn undo_row(
        &self,
        chain: Option<&Arc<LogChain>>,
        done: &RowChange,
        writer: Stamp,
        before: Stamp,
    ) -> Result<(), AccessError> {
        let (id, slot) = (done.page, done.slot);
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
        let writer = if header.newest_writer == writer { before } else { header.newest_writer };
        let change = if done.was_inserted && header.row_count == slot.0 + 1 {
            PageChange::RemoveLastRow { writer }
        } else {
            PageChange::SetDeleted { slot, deleted: done.was_inserted, writer }
        };
        let rows = if done.was_inserted { -1 } else { 1 };
        let _counting = self.begin_counting();
        self.change(&mut page, id, &change, Logged::of(chain).compensating(done.lsn).rows(rows))?;
        self.row_count.fetch_add_signed(rows.into());
        Ok(())
    }

    /// Shows every page with live rows to `visit`, in order, one latch at a time. For small tables: the catalog.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or what `visit` returned.
    pub fn for_each_page(
        &self,
        visit: &mut dyn FnMut(PageId, &RowPage<'_>) -> Result<(), AccessError>,
    ) -> Result<(), AccessError> {
        for run in self.runs() {
            let file = self.storage.file(run.first.file)?;
            let name = file.name();
            for number in run.row_pages() {
                let id = PageId::new(run.first.file, number);
                let page = file.pool_file().read(number).map_err(|error| AccessError::of_pool(error, name))?;
                let view = RowPage::open(&page, &self.identity.rows).map_err(|damage| AccessError::Damaged {
                    file: name.to_owned(),
                    page: id,
                    damage,
                })?;
                if view.hobt() != self.identity.id {
                    return Err(self.damaged(id, PageDamage::Structure { rule: "a page of another HOBT" }));
                }
                visit(id, &view)?;
            }
        }
        Ok(())
    }

    /// Shows every live row: its page, its slot and the page's columns.
    ///
    /// # Errors
    /// As [`Hobt::for_each_page`].
    pub fn for_each_row(
        &self,
        visit: &mut dyn FnMut(PageId, usize, &RowPage<'_>) -> Result<(), AccessError>,
    ) -> Result<(), AccessError> {
        self.for_each_page(&mut |id, page| {
            (0..page.row_count()).filter(|&slot| !page.is_deleted(slot)).try_for_each(|slot| visit(id, slot, page))
        })
    }

    /// Makes loaded runs part of the heap. Undone with the statement; the loaders' own undo frees the extents.
    ///
    /// # Errors
    /// The run list cannot grow.
    pub fn publish(self: &Arc<Hobt>, context: &StatementContext, loaded: Vec<LoadedRuns>) -> Result<(), AccessError> {
        self.storage.in_one_piece(|| {
            let chain = self.storage.chain_of(context);
            let mut state = self.state_to_change()?;
            let before = state.runs.len();
            let rows: u64 = loaded.iter().map(|runs| runs.rows).sum();
            let runs: Vec<Run> = loaded.into_iter().flat_map(|runs| runs.runs).collect();
            // Before the note: their undo frees them only when the note's has taken them off the list.
            let list_pages = self.allocate_list_pages(&state, context, runs.len())?;
            let counting = self.begin_counting();
            let until = before + runs.len() + list_pages.len();
            let undo = Undo::Unpublish { hobt: self.identity.id, runs: count_of(before), until: count_of(until), rows };
            let lsn = self.storage.note(&self.identity, chain.as_ref(), &undo)?;
            self.row_count.fetch_add(rows, Ordering::Relaxed);
            drop(counting);
            let hobt = Arc::clone(self);
            let pushed = self.push_loaded(&mut state, &runs, list_pages);
            let after = state.runs.len();
            context.on_undo(move || hobt.storage.end(|| hobt.undo_publish(chain.as_ref(), lsn, before..after, rows)));
            pushed
        })
    }

    /// The extents of the list pages that `count` further runs need.
    fn allocate_list_pages(
        &self,
        state: &State,
        context: &StatementContext,
        count: usize,
    ) -> Result<Vec<Allocated>, AccessError> {
        let mut entries = state.runs.len();
        let mut room = state.list.len() * RUNS_PER_PAGE;
        let mut pages = Vec::new();
        for _ in 0..count {
            if entries == room {
                pages.push(self.storage.allocate_for(context, self.identity.filegroup, 1)?);
                room += RUNS_PER_PAGE;
                entries += 1;
            }
            entries += 1;
        }
        Ok(pages)
    }

    fn push_loaded(&self, state: &mut State, runs: &[Run], list_pages: Vec<Allocated>) -> Result<(), AccessError> {
        let mut list_pages = list_pages.into_iter();
        for run in runs {
            if Hobt::needs_list_page(state) {
                let page = list_pages.next().expect("as many were allocated as are needed");
                self.push_list_page(state, page, *run, Logged::structure())?;
            } else {
                self.push_run(state, *run, Logged::structure())?;
            }
        }
        Ok(())
    }

    fn undo_publish(
        &self,
        chain: Option<&Arc<LogChain>>,
        lsn: Lsn,
        runs: Range<usize>,
        rows: u64,
    ) -> Result<(), AccessError> {
        let mut state = self.state.write();
        if self.identity.key.is_some() {
            return self.unpublish_runs(&mut state, chain, lsn, runs, rows);
        }
        if state.runs.len() != runs.end {
            let what = format!("HOBT {} has got pages from another statement meanwhile", self.identity.id);
            return Err(AccessError::Closed(what));
        }
        self.pop_runs(&mut state, runs.start, Logged::of(chain).reserved())?;
        self.count_undone(chain, lsn, -rows.cast_signed())
    }

    /// The same in recovery, where the runs may have joined the list in part, or not at all.
    pub(crate) fn unpublish(
        &self,
        chain: &Arc<LogChain>,
        lsn: Lsn,
        runs: Range<usize>,
        rows: u64,
    ) -> Result<(), AccessError> {
        let mut state = self.state.write();
        self.unpublish_runs(&mut state, Some(chain), lsn, runs, rows)
    }

    /// Takes the runs off the list, and those that joined it behind them: what was inserted there is gone by now. The loaded
    /// ones are freed by the undo of their allocation, the others here.
    fn unpublish_runs(
        &self,
        state: &mut State,
        chain: Option<&Arc<LogChain>>,
        lsn: Lsn,
        runs: Range<usize>,
        rows: u64,
    ) -> Result<(), AccessError> {
        if state.runs.len() > runs.start {
            let gone = state.runs.get(runs.end..).unwrap_or_default().to_vec();
            let structure = self.storage.begin_freeing(&gone)?;
            let logged = match &structure {
                Some(structure) => Logged::of(Some(structure)).committing(),
                None => Logged::of(chain).reserved(),
            };
            self.pop_runs(state, runs.start, logged)?;
            self.storage.end_freeing(structure, &gone)?;
        }
        self.count_undone(chain, lsn, -rows.cast_signed())
    }

    /// Logs that what a note announced was taken back, and counts the rows.
    fn count_undone(&self, chain: Option<&Arc<LogChain>>, lsn: Lsn, rows: i64) -> Result<(), AccessError> {
        let _counting = self.begin_counting();
        self.storage.undone(chain, lsn, self.identity.id, rows)?;
        self.row_count.fetch_add_signed(rows);
        Ok(())
    }

    /// Frees all its extents when the statement commits. Whoever still has the heap then cannot change it any more.
    ///
    /// # Errors
    /// The log is full or has failed.
    pub fn drop_storage(self: &Arc<Hobt>, context: &StatementContext) -> Result<(), AccessError> {
        let hobt = Arc::clone(self);
        context.on_commit(move || hobt.leave());
        self.runs()
            .iter()
            .try_for_each(|run| self.storage.free_on_commit(context, run.first, run.page_count / EXTENT_PAGES))
    }

    /// Takes all rows away: the runs but the first are freed when the statement commits. Of the first, pages that held
    /// rows are used again only after the commit, for until then the undo may need them.
    ///
    /// # Errors
    /// The run list cannot be written; the rows are there still.
    pub fn truncate(self: &Arc<Hobt>, context: &StatementContext) -> Result<(), AccessError> {
        self.truncate_to(context, |first| {
            let skip = u16::try_from(first.used).expect("the first run is one extent, as opening it checked");
            Run { skip, ..first }
        })?;
        let hobt = Arc::clone(self);
        context.on_commit(move || hobt.reuse_first_run());
        Ok(())
    }

    /// The same; what becomes of the first run is the caller's.
    pub(crate) fn truncate_to(
        self: &Arc<Hobt>,
        context: &StatementContext,
        emptied: impl FnOnce(Run) -> Run,
    ) -> Result<(), AccessError> {
        self.storage.in_one_piece(|| {
            let chain = self.storage.chain_of(context);
            let mut state = self.state_to_change()?;
            let emptied = emptied(state.runs[0]);
            let id = state.list[0];
            let file = self.storage.file(id.file)?;
            let guard = file.pool_file().write(id.number);
            let mut page = guard.map_err(|error| AccessError::of_pool(error, file.name()))?;
            let list_page = Box::new(*page);
            for run in &state.runs[1..] {
                self.storage.free_on_commit(context, run.first, run.page_count / EXTENT_PAGES)?;
            }
            let counting = self.begin_counting();
            let rows = self.row_count();
            let undo = Undo::Untruncate { hobt: self.identity.id, rows, list_page };
            let lsn = self.storage.note(&self.identity, chain.as_ref(), &undo)?;
            self.row_count.store(0, Ordering::Relaxed);
            drop(counting);
            let hobt = Arc::clone(self);
            let first_extents = self.storage.settings().run_extents_first;
            let empty = State {
                list: vec![self.identity.run_list],
                runs: vec![emptied],
                next_extents: first_extents,
                next_value_extents: first_extents,
                dropped: false,
            };
            let entries = Entries { from: 0, runs: &[emptied], count: 1, next: None };
            let written = self.put_entries(&mut page, id, entries, Logged::structure());
            let old = std::mem::replace(&mut *state, empty);
            context.on_undo(move || hobt.storage.end(|| hobt.undo_truncate(chain.as_ref(), lsn, undo, old)));
            written
        })
    }

    /// Makes the pages of the first run that a truncation left free for rows, if none has gone into it since.
    fn reuse_first_run(&self) -> Result<(), UndoError> {
        self.storage.end(|| {
            let mut state = self.state.write();
            let first = state.runs[0];
            if u32::from(first.skip) < first.used || first.used == 1 {
                return Ok(());
            }
            self.replace_run(&mut state, 0, Run { used: 1, skip: 1, ..first })
        })
    }

    fn undo_truncate(
        &self,
        chain: Option<&Arc<LogChain>>,
        lsn: Lsn,
        undo: Undo,
        old: State,
    ) -> Result<(), AccessError> {
        let Undo::Untruncate { rows, list_page, .. } = undo else { unreachable!("made by truncate") };
        let mut state = self.state.write();
        // Runs that came since, if their own undo has left them. They are free only when nothing names them any more, and
        // that they are to be is in the log before that.
        let gone = state.runs[1..].to_vec();
        let structure = self.storage.begin_freeing(&gone)?;
        if let Some(structure) = &structure {
            structure.append(COMMIT_RECORD, &[])?;
        }
        self.restore_list_page(chain, lsn, list_page, rows)?;
        self.storage.end_freeing(structure, &gone)?;
        *state = old;
        Ok(())
    }

    /// The same in recovery.
    pub(crate) fn untruncate(
        &self,
        chain: &Arc<LogChain>,
        lsn: Lsn,
        list_page: Box<PageBytes>,
        rows: u64,
    ) -> Result<(), AccessError> {
        let state = self.state.write();
        // Nothing is allocated meanwhile: what is free already was freed by a recovery that was cut off here.
        for run in state.runs.iter().skip(1) {
            let is_old = RunListPage::read(&list_page).is_ok_and(|old| old.contains(run));
            let file = self.storage.file(run.first.file)?;
            if !is_old && file.is_allocated(run.first.number / EXTENT_PAGES) {
                self.storage.free(run.first, run.page_count / EXTENT_PAGES)?;
            }
        }
        self.restore_list_page(Some(chain), lsn, list_page, rows)
    }

    fn restore_list_page(
        &self,
        chain: Option<&Arc<LogChain>>,
        lsn: Lsn,
        mut list_page: Box<PageBytes>,
        rows: u64,
    ) -> Result<(), AccessError> {
        let id = self.identity.run_list;
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        // The count that was saved last stays: what came and went since, this included, is counted from there.
        RunListPage::copy_row_count(&page, &mut list_page);
        self.change(&mut page, id, &PageChange::Image { bytes: list_page }, Logged::of(chain).reserved())?;
        drop(page);
        self.count_undone(chain, lsn, rows.cast_signed())
    }

    /// Writes the row count into the run list; part of a checkpoint. A heap that was dropped has none any more.
    ///
    /// # Errors
    /// The page cannot be read or written, or is not this heap's.
    pub fn save_counts(&self) -> Result<(), AccessError> {
        let state = self.state.write();
        if state.dropped {
            return Ok(());
        }
        let _counting = self.counting.write();
        if self.is_counted.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (id, file) = (self.identity.run_list, self.storage.file(self.identity.run_list.file)?);
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
        if header.page_type != PageType::RunList || header.hobt != self.identity.id {
            return Err(self.damaged(id, PageDamage::Structure { rule: "the run list of another HOBT" }));
        }
        let (offset, bytes) = RunListPage::row_count_bytes(self.row_count());
        let change = PageChange::Write { offset, bytes };
        self.storage.in_one_piece(|| self.change(&mut page, id, &change, Logged::structure().counting()))?;
        // Only now: a checkpoint that failed before has saved nothing, and the next one is to do it.
        self.is_counted.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Adds to the count that was saved last, and saves it.
    pub(crate) fn add_to_count(&self, rows: i64) -> Result<(), AccessError> {
        self.row_count.fetch_add_signed(rows);
        self.is_counted.store(false, Ordering::Relaxed);
        self.save_counts()
    }

    /// The state of a heap that is there.
    fn state_to_change(&self) -> Result<LatchWriteGuard<'_, State>, AccessError> {
        let state = self.state.write();
        if state.dropped {
            return Err(AccessError::Closed(format!("the table of HOBT {} was dropped", self.identity.id)));
        }
        Ok(state)
    }

    /// The last that happens to a heap before its extents are free: a checkpoint under way has done with it, and a later
    /// one leaves its pages alone.
    fn leave(&self) -> Result<(), UndoError> {
        self.state.write().dropped = true;
        Ok(())
    }
}

/// A row that came or went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowChange {
    pub(crate) page: PageId,
    pub(crate) slot: SlotId,
    pub(crate) was_inserted: bool,
    /// The record that says so.
    pub(crate) lsn: Lsn,
}

/// A row in whose place another one was put.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    pub(crate) page: PageId,
    pub(crate) slot: SlotId,
    /// The row that stood there.
    pub(crate) row: RowImage,
    /// The record that says so.
    pub(crate) lsn: Lsn,
}

/// What is to be written into a run-list page: entries from a place on, how many it then has, and which page follows.
#[derive(Clone, Copy)]
struct Entries<'a> {
    from: usize,
    runs: &'a [Run],
    count: usize,
    next: Option<PageId>,
}

/// A number of runs, as a record has it.
fn count_of(runs: usize) -> u32 {
    u32::try_from(runs).expect("fewer runs than extents")
}

/// Whether two runs have an extent in common.
fn overlap(runs: &[Run]) -> bool {
    let mut places: Vec<(PageId, u32)> = runs.iter().map(|run| (run.first, run.page_count)).collect();
    places.sort_unstable();
    places.windows(2).any(|pair| {
        let [(one, pages), (next, _)] = pair else { return false };
        one.file == next.file && one.number + pages > next.number
    })
}

/// The run of a run-list page: the page, and room for rows behind it.
fn list_run(first: PageId, extents: u32) -> Run {
    Run { first, page_count: extents * EXTENT_PAGES, used: 1, skip: 1, contents: RunContents::Rows }
}

/// Adds a signed number to a counter.
trait FetchAddSigned {
    fn fetch_add_signed(&self, by: i64);
}

impl FetchAddSigned for AtomicU64 {
    fn fetch_add_signed(&self, by: i64) {
        self.fetch_add(by.cast_unsigned(), Ordering::Relaxed);
    }
}
