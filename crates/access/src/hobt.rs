//! One heap: its runs of pages, and rows that come and go one at a time.
//!
//! The runs stand in run-list pages on disk and in memory; a scan takes a copy when it starts. The first page of the
//! first run is the first run-list page; when the list outgrows it, the next one gets an extent of its own. Rows are
//! appended to the last page of the last run of rows; bulk loads bring whole runs ([`Hobt::publish`]). Values that do
//! not fit their row lie in runs of their own (`large_values`).

mod large_values;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hobt_base::{EXTENT_PAGES, FilegroupId, HobtId, PageId, SlotId, Stamp};
use hobt_buffer::ExclusiveGuard;
use hobt_page::{
    PageChange, PageDamage, PageHeader, PageType, RUNS_PER_PAGE, RowImage, RowLayout, RowPage, Run, RunContents,
    RunListPage, apply,
};
use hobt_sync::{Latch, LatchClass, LatchWriteGuard};
use hobt_txn::{StatementContext, UndoError};

use crate::load::LoadedRuns;
use crate::{AccessError, Storage};

pub use large_values::{LargeValues, ValueReader};

/// One partition of a heap.
#[derive(Debug)]
pub struct Hobt {
    id: HobtId,
    storage: Arc<Storage>,
    filegroup: FilegroupId,
    rows: Arc<RowLayout>,
    layout_version: u32,
    run_list: PageId,
    row_count: AtomicU64,
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
        storage.in_one_piece(|| Hobt::create_heap(storage, id, filegroup, rows, layout_version, context))
    }

    fn create_heap(
        storage: &Arc<Storage>,
        id: HobtId,
        filegroup: FilegroupId,
        rows: Arc<RowLayout>,
        layout_version: u32,
        context: &StatementContext,
    ) -> Result<Arc<Hobt>, AccessError> {
        let (first, extents) = storage.allocate(filegroup, 1)?;
        context.on_undo(storage.free_action(first, extents));
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
            id,
            storage: Arc::clone(storage),
            filegroup,
            rows,
            layout_version,
            run_list: first,
            row_count: AtomicU64::new(0),
            state: Latch::new(LatchClass::HobtVirtualRoot, state),
        });
        hobt.create_list_page(first, &[run])?;
        // The undo runs backwards: who still has the heap learns that it is gone before its extents are free.
        let undone = Arc::clone(&hobt);
        context.on_undo(move || undone.leave());
        Ok(hobt)
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
            for run in &entries {
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
        if overlap(&runs) {
            let file = storage.file(run_list.file)?.name().to_owned();
            let damage = PageDamage::Structure { rule: "runs of a run list that share extents" };
            return Err(AccessError::Damaged { file, page: run_list, damage });
        }
        let next_extents = storage.settings().run_extents_first;
        let state = State { list, runs, next_extents, next_value_extents: next_extents, dropped: false };
        Ok(Arc::new(Hobt {
            id,
            storage: Arc::clone(storage),
            filegroup,
            rows,
            layout_version,
            run_list,
            row_count: AtomicU64::new(row_count),
            state: Latch::new(LatchClass::HobtVirtualRoot, state),
        }))
    }

    /// The heap's id.
    pub fn id(&self) -> HobtId {
        self.id
    }

    /// The first page of the run list.
    pub fn run_list(&self) -> PageId {
        self.run_list
    }

    /// The database's files.
    pub fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The filegroup of its runs.
    pub fn filegroup(&self) -> FilegroupId {
        self.filegroup
    }

    /// The table's columns.
    pub fn row_layout(&self) -> &Arc<RowLayout> {
        &self.rows
    }

    /// The version of the column layout in its pages' headers.
    pub fn layout_version(&self) -> u32 {
        self.layout_version
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

    /// The runs at this moment, in order: what a scan works on.
    pub fn runs(&self) -> Vec<Run> {
        self.state.read().runs.clone()
    }

    /// Formats a new page of the run list with its first entries.
    fn create_list_page(&self, id: PageId, runs: &[Run]) -> Result<(), AccessError> {
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().create(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let header = PageHeader::new(PageType::RunList, id, self.storage.database_tag(), self.id);
        self.change(&mut page, id, &PageChange::Format { header })?;
        self.put_entries(&mut page, id, 0, runs, runs.len(), PageId::default())
    }

    /// Applies a change; `None` if the page has no room.
    fn change(
        &self,
        page: &mut ExclusiveGuard<'_>,
        id: PageId,
        change: &PageChange,
    ) -> Result<Option<PageChange>, AccessError> {
        let rows = match change {
            PageChange::AppendRow { .. } | PageChange::RemoveLastRow { .. } | PageChange::SetDeleted { .. } => {
                Some(&*self.rows)
            }
            PageChange::Format { header } if header.page_type == PageType::Row => Some(&*self.rows),
            _ => None,
        };
        apply(page, rows, change).map_err(|damage| self.damaged(id, damage))
    }

    fn damaged(&self, page: PageId, damage: PageDamage) -> AccessError {
        let file = self.storage.file(page.file).map_or_else(|_| String::new(), |file| file.name().to_owned());
        AccessError::Damaged { file, page, damage }
    }

    fn with_page(&self, id: PageId, change: &PageChange) -> Result<Option<PageChange>, AccessError> {
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        self.change(&mut page, id, change)
    }

    /// Writes entries of a run-list page from place `from` on, then how many the page has and which page follows. All of
    /// it or, with an error, nothing: only reaching the page can fail.
    fn write_entries(
        &self,
        id: PageId,
        from: usize,
        runs: &[Run],
        count: usize,
        next: PageId,
    ) -> Result<(), AccessError> {
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        self.put_entries(&mut page, id, from, runs, count, next)
    }

    fn put_entries(
        &self,
        page: &mut ExclusiveGuard<'_>,
        id: PageId,
        from: usize,
        runs: &[Run],
        count: usize,
        next: PageId,
    ) -> Result<(), AccessError> {
        let mut header = PageHeader::read(page).map_err(|damage| self.damaged(id, damage))?;
        header.row_count = u16::try_from(count).expect("a page's entries");
        header.next = next;
        for (index, run) in (from..).zip(runs) {
            let (offset, bytes) = RunListPage::entry_bytes(index, run);
            self.change(page, id, &PageChange::Write { offset, bytes })?;
        }
        self.change(page, id, &PageChange::SetHeader { header })?;
        Ok(())
    }

    /// Replaces a run, in the list and in memory.
    fn replace_run(&self, state: &mut State, index: usize, run: Run) -> Result<(), AccessError> {
        let place = index / RUNS_PER_PAGE;
        let count = (state.runs.len() - place * RUNS_PER_PAGE).min(RUNS_PER_PAGE);
        let next = state.list.get(place + 1).copied().unwrap_or_default();
        self.write_entries(state.list[place], index % RUNS_PER_PAGE, &[run], count, next)?;
        state.runs[index] = run;
        Ok(())
    }

    /// Adds a run to the list; a new list page, if one is needed, gets an extent of its own. With an error the list is
    /// as it was, and the run's extents are still the caller's.
    fn push_run(&self, state: &mut State, run: Run) -> Result<(), AccessError> {
        let index = state.runs.len();
        if index / RUNS_PER_PAGE == state.list.len() {
            return self.push_list_page(state, run);
        }
        let page = state.list[index / RUNS_PER_PAGE];
        self.write_entries(page, index % RUNS_PER_PAGE, &[run], index % RUNS_PER_PAGE + 1, PageId::default())?;
        state.runs.push(run);
        Ok(())
    }

    /// Adds a list page whose entries are itself and `run`, and only then links it.
    fn push_list_page(&self, state: &mut State, run: Run) -> Result<(), AccessError> {
        let (first, extents) = self.storage.allocate(self.filegroup, 1)?;
        let own = list_run(first, extents);
        let last = *state.list.last().expect("a heap has a run list");
        let linked = self
            .create_list_page(first, &[own, run])
            .and_then(|()| self.write_entries(last, RUNS_PER_PAGE, &[], RUNS_PER_PAGE, first));
        if let Err(error) = linked {
            return Err(self.give_back(first, extents, error));
        }
        state.list.push(first);
        state.runs.extend([own, run]);
        Ok(())
    }

    /// Frees extents that nothing refers to yet, on the way out with `error`.
    fn give_back(&self, first: PageId, extents: u32, error: AccessError) -> AccessError {
        match self.storage.free(first, extents) {
            // The first error is the cause of both; the extents stay allocated and are nobody's, which harms nothing and
            // which [`crate::AllocationCheck`] reports.
            Ok(()) | Err(_) => error,
        }
    }

    /// Takes runs off the end of the list until `count` are left and frees the extents of list pages that go with them;
    /// those of the other runs are the caller's.
    fn pop_runs(&self, state: &mut State, count: usize) -> Result<(), AccessError> {
        let pages = count.div_ceil(RUNS_PER_PAGE).max(1);
        let in_page = count - (pages - 1) * RUNS_PER_PAGE;
        self.write_entries(state.list[pages - 1], in_page, &[], in_page, PageId::default())?;
        state.runs.truncate(count);
        let gone = state.list.split_off(pages);
        gone.into_iter().try_for_each(|page| self.storage.free(page, 1))
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
        let variable_bytes = row.variable_bytes(&self.rows);
        let bytes = row.byte_count();
        let change = PageChange::AppendRow { row, writer: context.stamp() };
        let mut state = self.state_to_change()?;
        loop {
            let tail = state.runs[state.tail(RunContents::Rows).expect("a heap has its first run")];
            if tail.used > u32::from(tail.skip) {
                let id = PageId::new(tail.first.file, tail.used_end() - 1);
                let file = self.storage.file(id.file)?;
                let mut page =
                    file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
                let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
                if self.change(&mut page, id, &change)?.is_some() {
                    drop(page);
                    self.row_count.fetch_add(1, Ordering::Relaxed);
                    let (slot, writer, before) = (SlotId(header.row_count), context.stamp(), header.newest_writer);
                    let hobt = Arc::clone(self);
                    context.on_undo(move || hobt.undo_row(id, slot, true, writer, before));
                    return Ok((id, slot));
                }
                if header.row_count == 0 {
                    return Err(AccessError::RowTooLarge { bytes });
                }
            }
            let capacity = self.rows.capacity_for(variable_bytes);
            if capacity == 0 {
                return Err(AccessError::RowTooLarge { bytes });
            }
            self.add_page(&mut state, context, capacity)?;
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
        let mut header = PageHeader::new(PageType::Row, id, self.storage.database_tag(), self.id);
        header.capacity = capacity;
        header.layout_version = self.layout_version;
        header.newest_writer = context.stamp();
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().create(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        self.change(&mut page, id, &PageChange::Format { header })?;
        drop(page);
        let grown = Run { used: run.used + 1, ..run };
        self.replace_run(state, index, grown)?;
        let hobt = Arc::clone(self);
        context.on_undo(move || hobt.undo_add_page(index, grown));
        Ok(())
    }

    /// Allocates the next run for single rows or their large values, of `wanted` extents if there are so many in a row.
    fn add_run(
        self: &Arc<Hobt>,
        state: &mut State,
        context: &StatementContext,
        contents: RunContents,
        wanted: u32,
    ) -> Result<(), AccessError> {
        let before = state.runs.len();
        let extents_before = *state.next_extents(contents);
        let (first, extents) = self.storage.allocate(self.filegroup, wanted)?;
        let run = Run { first, page_count: extents * EXTENT_PAGES, used: 0, skip: 0, contents };
        if let Err(error) = self.push_run(state, run) {
            return Err(self.give_back(first, extents, error));
        }
        *state.next_extents(contents) = self.storage.settings().next_run(extents_before);
        let after = state.runs.len();
        let hobt = Arc::clone(self);
        context.on_undo(move || hobt.undo_add_run(before, after, run, extents_before));
        Ok(())
    }

    fn undo_add_page(&self, index: usize, grown: Run) -> Result<(), UndoError> {
        self.storage.end(|| {
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
        self.storage.end(|| {
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
            self.pop_runs(&mut state, before)?;
            self.storage.free(run.first, run.page_count / EXTENT_PAGES)
        })
    }

    /// Deletes a row. Undone with the statement.
    ///
    /// # Errors
    /// The page is damaged or cannot be read.
    pub fn delete(self: &Arc<Hobt>, context: &StatementContext, page: PageId, slot: SlotId) -> Result<(), AccessError> {
        let writer = context.stamp();
        let change = PageChange::SetDeleted { slot, deleted: true, writer };
        self.storage.in_one_piece(|| {
            let undo = self.with_page(page, &change)?;
            let Some(PageChange::SetDeleted { writer: before, .. }) = undo else {
                unreachable!("the undo of a deleted bit is the bit before");
            };
            self.row_count.fetch_sub(1, Ordering::Relaxed);
            let hobt = Arc::clone(self);
            context.on_undo(move || hobt.undo_row(page, slot, false, writer, before));
            Ok(())
        })
    }

    /// Takes an inserted row away, or brings a deleted one back. Other statements may have changed other rows of the
    /// page since (the catalog's tables have many writers), so nothing but this row is touched: not the layout, and a
    /// row that is no longer the last is marked as deleted.
    fn undo_row(
        &self,
        id: PageId,
        slot: SlotId,
        was_inserted: bool,
        writer: Stamp,
        before: Stamp,
    ) -> Result<(), UndoError> {
        self.storage.end(|| {
            let file = self.storage.file(id.file)?;
            let mut page =
                file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
            let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
            let writer = if header.newest_writer == writer { before } else { header.newest_writer };
            let change = if was_inserted && header.row_count == slot.0 + 1 {
                PageChange::RemoveLastRow { writer }
            } else {
                PageChange::SetDeleted { slot, deleted: was_inserted, writer }
            };
            self.change(&mut page, id, &change)?;
            self.row_count.fetch_add_signed(if was_inserted { -1 } else { 1 });
            Ok(())
        })
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
                let view = RowPage::open(&page, &self.rows).map_err(|damage| AccessError::Damaged {
                    file: name.to_owned(),
                    page: id,
                    damage,
                })?;
                if view.hobt() != self.id {
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
            let mut state = self.state_to_change()?;
            let before = state.runs.len();
            let rows: u64 = loaded.iter().map(|runs| runs.rows).sum();
            let mut runs = loaded.into_iter().flat_map(|runs| runs.runs);
            let pushed = runs.try_for_each(|run| self.push_run(&mut state, run));
            let after = state.runs.len();
            self.row_count.fetch_add(rows, Ordering::Relaxed);
            let hobt = Arc::clone(self);
            context.on_undo(move || hobt.undo_publish(before, after, rows));
            pushed
        })
    }

    fn undo_publish(&self, before: usize, after: usize, rows: u64) -> Result<(), UndoError> {
        self.storage.end(|| {
            let mut state = self.state.write();
            if state.runs.len() != after {
                let what = format!("HOBT {} has got pages from another statement meanwhile", self.id);
                return Err(AccessError::Closed(what));
            }
            self.row_count.fetch_sub(rows, Ordering::Relaxed);
            self.pop_runs(&mut state, before)
        })
    }

    /// Frees all its extents when the statement commits. Whoever still has the heap then cannot change it any more.
    pub fn drop_storage(self: &Arc<Hobt>, context: &StatementContext) {
        let hobt = Arc::clone(self);
        context.on_commit(move || hobt.leave());
        for run in self.runs() {
            context.on_commit(self.storage.free_action(run.first, run.page_count / EXTENT_PAGES));
        }
    }

    /// Takes all rows away: the runs but the first are freed when the statement commits. Of the first, pages that held
    /// rows are used again only after the commit, for until then the undo may need them.
    ///
    /// # Errors
    /// The run list cannot be written; the rows are there still.
    pub fn truncate(self: &Arc<Hobt>, context: &StatementContext) -> Result<(), AccessError> {
        self.storage.in_one_piece(|| {
            let mut state = self.state_to_change()?;
            let first = state.runs[0];
            let skip = u16::try_from(first.used).expect("the first run is one extent, as opening it checked");
            let emptied = Run { skip, ..first };
            self.write_entries(state.list[0], 0, &[emptied], 1, PageId::default())?;
            let first_extents = self.storage.settings().run_extents_first;
            let empty = State {
                list: vec![self.run_list],
                runs: vec![emptied],
                next_extents: first_extents,
                next_value_extents: first_extents,
                dropped: false,
            };
            let old = std::mem::replace(&mut *state, empty);
            let rows = self.row_count.swap(0, Ordering::Relaxed);
            for run in &old.runs[1..] {
                context.on_commit(self.storage.free_action(run.first, run.page_count / EXTENT_PAGES));
            }
            let hobt = Arc::clone(self);
            context.on_commit(move || hobt.reuse_first_run());
            let hobt = Arc::clone(self);
            context.on_undo(move || hobt.undo_truncate(old, rows));
            Ok(())
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
            let fresh = Run { used: 1, skip: 1, ..first };
            let (count, next) = (state.runs.len().min(RUNS_PER_PAGE), state.list.get(1).copied().unwrap_or_default());
            self.write_entries(self.run_list, 0, &[fresh], count, next)?;
            state.runs[0] = fresh;
            Ok(())
        })
    }

    fn undo_truncate(&self, old: State, rows: u64) -> Result<(), UndoError> {
        self.storage.end(|| {
            let mut state = self.state.write();
            self.row_count.store(rows, Ordering::Relaxed);
            *state = old;
            let chunks = state.runs.chunks(RUNS_PER_PAGE);
            state.list.iter().zip(chunks).enumerate().try_for_each(|(index, (&page, runs))| {
                let next = state.list.get(index + 1).copied().unwrap_or_default();
                self.write_entries(page, 0, runs, runs.len(), next)
            })
        })
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
        let (id, file) = (self.run_list, self.storage.file(self.run_list.file)?);
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let header = PageHeader::read(&page).map_err(|damage| self.damaged(id, damage))?;
        if header.page_type != PageType::RunList || header.hobt != self.id {
            return Err(self.damaged(id, PageDamage::Structure { rule: "the run list of another HOBT" }));
        }
        let (offset, bytes) = RunListPage::row_count_bytes(self.row_count());
        self.storage.in_one_piece(|| self.change(&mut page, id, &PageChange::Write { offset, bytes }))?;
        Ok(())
    }

    /// The state of a heap that is there.
    fn state_to_change(&self) -> Result<LatchWriteGuard<'_, State>, AccessError> {
        let state = self.state.write();
        if state.dropped {
            return Err(AccessError::Closed(format!("the table of HOBT {} was dropped", self.id)));
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
