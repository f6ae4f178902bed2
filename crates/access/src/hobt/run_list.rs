//! The run list: its pages and entries, and how runs are added.
//!
//! Entries behind a page's count are ignored, so the change of the count is what makes them valid.

use std::sync::Arc;

use hobt_base::{EXTENT_PAGES, PageId};
use hobt_buffer::ExclusiveGuard;
use hobt_page::{PageChange, PageHeader, PageType, RUNS_PER_PAGE, Run, RunContents, RunListPage};
use hobt_txn::{LogChain, StatementContext, UndoError};

use super::{Hobt, State};
use crate::AccessError;
use crate::change::Logged;
use crate::storage::{Allocated, Purpose};

impl Hobt {
    /// Formats a new page of the run list with its first entries.
    pub(super) fn create_list_page(&self, id: PageId, runs: &[Run], logged: Logged<'_>) -> Result<(), AccessError> {
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().create(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let header = PageHeader::new(PageType::RunList, id, self.storage.database_tag(), self.identity.id);
        let logged = Logged::structure_of(logged);
        self.change(&mut page, id, &PageChange::Format { header }, logged)?;
        self.put_entries(&mut page, id, Entries { from: 0, runs, count: runs.len(), next: None }, logged)
    }

    /// Writes entries of a run-list page, then the page's number of entries and the next page. With an error no new
    /// entry is valid: entries behind the count are ignored. `logged` is for the change of the count.
    pub(super) fn write_entries(
        &self,
        id: PageId,
        entries: Entries<'_>,
        logged: Logged<'_>,
    ) -> Result<(), AccessError> {
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        self.put_entries(&mut page, id, entries, logged)
    }

    pub(super) fn put_entries(
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
            self.change(page, id, &PageChange::Write { offset, bytes }, Logged::structure_of(logged))?;
        }
        self.change(page, id, &PageChange::SetHeader { header }, logged)?;
        Ok(())
    }

    /// Replaces a run, in the list and in memory.
    pub(super) fn replace_run(&self, state: &mut State, index: usize, run: Run) -> Result<(), AccessError> {
        let place = index / RUNS_PER_PAGE;
        let id = state.list[place];
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let (offset, bytes) = RunListPage::entry_bytes(index % RUNS_PER_PAGE, &run);
        self.change(&mut page, id, &PageChange::Write { offset, bytes }, Logged::structure())?;
        if run.used < state.runs[index].used || run.skip > state.runs[index].skip {
            self.note_retired();
        }
        state.runs[index] = run;
        Ok(())
    }

    /// Whether one more run needs one more page of the list.
    pub(super) fn needs_list_page(state: &State) -> bool {
        state.runs.len() / RUNS_PER_PAGE == state.list.len()
    }

    /// Adds a run to the list, whose last page has room. With an error the list is unchanged, and the run's extents
    /// still belong to the caller.
    pub(super) fn push_run(&self, state: &mut State, run: Run, logged: Logged<'_>) -> Result<(), AccessError> {
        let index = state.runs.len();
        let (page, place) = (state.list[index / RUNS_PER_PAGE], index % RUNS_PER_PAGE);
        self.write_entries(page, Entries { from: place, runs: &[run], count: place + 1, next: None }, logged)?;
        state.runs.push(run);
        Ok(())
    }

    /// Adds a list page in an extent of its own, whose entries are itself and `run`, and links it afterwards.
    pub(super) fn push_list_page(
        &self,
        state: &mut State,
        list_page: Allocated,
        run: Run,
        logged: Logged<'_>,
    ) -> Result<(), AccessError> {
        let Allocated { first, extents, .. } = list_page;
        let own = list_run(first, extents);
        let last = *state.list.last().expect("a heap has a run list");
        self.create_list_page(first, &[own, run], logged)?;
        let link = Entries { from: RUNS_PER_PAGE, runs: &[], count: RUNS_PER_PAGE, next: Some(first) };
        self.write_entries(last, link, logged)?;
        state.list.push(first);
        state.runs.extend([own, run]);
        Ok(())
    }

    /// Removes runs from the end of the list until `count` are left. Their extents, and those of the list pages that
    /// are removed with them, then belong to the caller.
    pub(super) fn pop_runs(&self, state: &mut State, count: usize, logged: Logged<'_>) -> Result<(), AccessError> {
        let pages = count.div_ceil(RUNS_PER_PAGE).max(1);
        let in_page = count - (pages - 1) * RUNS_PER_PAGE;
        let end = Entries { from: in_page, runs: &[], count: in_page, next: None };
        self.write_entries(state.list[pages - 1], end, logged)?;
        self.note_retired();
        state.runs.truncate(count);
        state.list.truncate(pages);
        Ok(())
    }

    /// Allocates the next run for single rows or their large values, of `wanted` extents if so many are free in one
    /// piece: a small transaction of its own.
    pub(super) fn add_run(
        self: &Arc<Hobt>,
        state: &mut State,
        context: &StatementContext,
        contents: RunContents,
        wanted: u32,
    ) -> Result<(), AccessError> {
        let before = state.runs.len();
        let extents_before = *state.next_extents(contents);
        let run = self.add_structure_run(state, contents, wanted, Purpose::Work, None)?;
        let after = state.runs.len();
        let hobt = Arc::clone(self);
        context.on_undo(move || hobt.undo_add_run(before, after, run, extents_before));
        Ok(())
    }

    /// Adds a run that is not undone with the statement. Room in the log comes from the reservation of `payer`, if
    /// there is one.
    pub(super) fn add_structure_run(
        &self,
        state: &mut State,
        contents: RunContents,
        wanted: u32,
        purpose: Purpose,
        payer: Option<&Arc<LogChain>>,
    ) -> Result<Run, AccessError> {
        let extents_before = *state.next_extents(contents);
        if purpose == Purpose::Work {
            // There are never more extents than are wanted. Their bits are mostly on the page that has those of the
            // last run, or are followed there by those of the next.
            let near = state.runs.last().expect("a HOBT has its first run").first;
            state.frees_when_undone.open().try_for_each(|open| self.storage.reserve_to_free(&open, near, wanted))?;
        }
        let chain = self.storage.log().map(|log| log.begin_structure_for(payer));
        let added = self.add_allocated_run(state, chain.as_ref(), purpose, contents, wanted);
        if let Some(chain) = chain {
            // Its last change commits it. If it failed, its changes have been undone.
            if added.is_ok() { chain.leave() } else { chain.end()? }
        }
        let run = added?;
        *state.next_extents(contents) = self.storage.next_run(self.identity.filegroup, extents_before);
        Ok(run)
    }

    pub(super) fn add_allocated_run(
        &self,
        state: &mut State,
        chain: Option<&Arc<LogChain>>,
        purpose: Purpose,
        contents: RunContents,
        wanted: u32,
    ) -> Result<Run, AccessError> {
        let run = self.storage.allocate(chain, purpose, self.identity.filegroup, wanted)?;
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
        let list_page = self.storage.allocate(chain, purpose, self.identity.filegroup, 1).map_err(give_back)?;
        let pushed = self.push_list_page(state, list_page, entry, logged);
        pushed.map_err(|error| match self.storage.free_undone(chain, &list_page) {
            Ok(()) | Err(_) => give_back(error),
        })?;
        Ok(entry)
    }

    pub(super) fn undo_add_run(
        &self,
        before: usize,
        after: usize,
        run: Run,
        next_extents: u32,
    ) -> Result<(), UndoError> {
        self.storage.tidy(|| {
            let mut state = self.state.write();
            // A list page's own run is removed with the run that needed it, if no row was put into it.
            let is_own = |run: &Run| run.used == u32::from(run.skip);
            if state.runs.len() != after
                || state.runs[after - 1] != run
                || !state.runs[before..after - 1].iter().all(is_own)
            {
                return Ok(());
            }
            *state.next_extents(run.contents) = next_extents;
            let gone = state.runs[before..].to_vec();
            let structure = self.storage.begin_freeing(&gone, None)?;
            self.pop_runs(&mut state, before, Logged::of(structure.as_ref()).committing())?;
            self.storage.end_freeing(structure, &gone)
        })
    }
}

/// What to write into a run-list page: entries from an index on, the number of entries it then has, and the next page.
#[derive(Clone, Copy)]
pub(super) struct Entries<'a> {
    pub(super) from: usize,
    pub(super) runs: &'a [Run],
    pub(super) count: usize,
    pub(super) next: Option<PageId>,
}

/// Whether two runs have an extent in common.
pub(super) fn overlap(runs: &[Run]) -> bool {
    let mut places: Vec<(PageId, u32)> = runs.iter().map(|run| (run.first, run.page_count)).collect();
    places.sort_unstable();
    places.windows(2).any(|pair| {
        let [(one, pages), (next, _)] = pair else { return false };
        one.file == next.file && one.number + pages > next.number
    })
}

/// The run of a run-list page: the page, and room for rows behind it.
pub(super) fn list_run(first: PageId, extents: u32) -> Run {
    Run { first, page_count: extents * EXTENT_PAGES, used: 1, skip: 1, contents: RunContents::Rows }
}
