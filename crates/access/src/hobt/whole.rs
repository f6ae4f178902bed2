//! Changes of a heap as a whole: publishing loaded runs, removing all rows, dropping its storage.
//!
//! Each is announced in the log by a note before it begins. Undoing a note twice has no further effect.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_base::{EXTENT_PAGES, Lsn};
use hobt_page::{PageBytes, PageChange, RUNS_PER_PAGE, Run, RunListPage};
use hobt_txn::{COMMIT_RECORD, LogChain, RecordEffect, StatementContext, UndoError};

use super::run_list::Entries;
use super::{FetchAddSigned, Hobt, State};
use crate::AccessError;
use crate::change::Logged;
use crate::load::LoadedRuns;
use crate::log_record::Undo;
use crate::storage::Allocated;

impl Hobt {
    /// Makes loaded runs part of the heap. Undone with the statement. The extents are freed by the loaders' own undo.
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
            // Before the note: their undo frees them only after the note's undo has removed them from the list.
            let list_pages = self.allocate_list_pages(&state, context, runs.len())?;
            let counting = self.begin_counting();
            let until = before + runs.len() + list_pages.len();
            let undo = Undo::Unpublish { hobt: self.identity.id, runs: count_of(before), until: count_of(until), rows };
            let lsn = self.storage.note(&self.identity, chain.as_ref(), &undo)?;
            state.frees_when_undone.add(chain.as_ref());
            self.row_count.fetch_add(rows, Ordering::Relaxed);
            drop(counting);
            let hobt = Arc::clone(self);
            let pushed = self.push_loaded(&mut state, &runs, list_pages);
            let after = state.runs.len();
            context.on_undo(move || hobt.storage.undo(|| hobt.undo_publish(chain.as_ref(), lsn, before..after, rows)));
            pushed
        })
    }

    /// Allocates the extents of the list pages that `count` further runs need.
    pub(super) fn allocate_list_pages(
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

    pub(super) fn push_loaded(
        &self,
        state: &mut State,
        runs: &[Run],
        list_pages: Vec<Allocated>,
    ) -> Result<(), AccessError> {
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

    pub(super) fn undo_publish(
        &self,
        chain: Option<&Arc<LogChain>>,
        lsn: Lsn,
        runs: Range<usize>,
        rows: u64,
    ) -> Result<(), AccessError> {
        let mut state = self.state.write();
        self.unpublish_runs(&mut state, chain, lsn, runs, rows)
    }

    /// Undoes a publication in recovery, where the runs may have joined the list in part, or not at all.
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

    /// Removes the runs from the list, and the runs after them: rows inserted there are gone by now, because a load
    /// locks the table for its transaction alone. The loaded runs are freed by the undo of their allocation, the
    /// others here.
    pub(super) fn unpublish_runs(
        &self,
        state: &mut State,
        chain: Option<&Arc<LogChain>>,
        lsn: Lsn,
        runs: Range<usize>,
        rows: u64,
    ) -> Result<(), AccessError> {
        if state.runs.len() > runs.start {
            let gone = state.runs.get(runs.end..).unwrap_or_default().to_vec();
            let structure = self.storage.begin_freeing(&gone, chain)?;
            let logged = match &structure {
                Some(structure) => Logged::of(Some(structure)).committing(),
                None => Logged::of(chain).reserved(),
            };
            self.pop_runs(state, runs.start, logged)?;
            self.storage.end_freeing(structure, &gone)?;
        }
        self.count_undone(chain, lsn, -rows.cast_signed())
    }

    /// Logs that the change of a note was undone, and counts the rows.
    pub(super) fn count_undone(&self, chain: Option<&Arc<LogChain>>, lsn: Lsn, rows: i64) -> Result<(), AccessError> {
        let _counting = self.begin_counting();
        self.storage.undone(chain, lsn, self.identity.id, rows)?;
        self.row_count.fetch_add_signed(rows);
        Ok(())
    }

    /// Frees all its extents when the statement commits. From then on the heap cannot be changed through references to
    /// it.
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

    /// Removes all rows. All runs but the first are freed when the statement commits. Pages of the first run that held
    /// rows are reused only after the commit, because until then the undo may need them.
    ///
    /// # Errors
    /// The run list cannot be written. The rows are then still there.
    pub fn truncate(self: &Arc<Hobt>, context: &StatementContext) -> Result<(), AccessError> {
        self.truncate_to(context, |first| {
            let skip = u16::try_from(first.used).expect("the first run is one extent, as opening it checked");
            Run { skip, ..first }
        })?;
        let hobt = Arc::clone(self);
        context.on_commit(move || hobt.reuse_first_run());
        Ok(())
    }

    /// As [`Hobt::truncate`], with the new first run computed by the caller.
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
            state.frees_when_undone.add(chain.as_ref());
            let frees_when_undone = std::mem::take(&mut state.frees_when_undone);
            let empty = State::new(vec![self.identity.run_list], vec![emptied], &self.storage);
            let empty = State { frees_when_undone, ..empty };
            let entries = Entries { from: 0, runs: &[emptied], count: 1, next: None };
            let written = self.put_entries(&mut page, id, entries, Logged::structure());
            self.note_retired();
            let old = std::mem::replace(&mut *state, empty);
            context.on_undo(move || hobt.storage.undo(|| hobt.undo_truncate(chain.as_ref(), lsn, undo, old)));
            written
        })
    }

    /// Makes the first run's pages that a truncation left available for rows, if none was put into the run since.
    pub(super) fn reuse_first_run(&self) -> Result<(), UndoError> {
        self.storage.end(|| {
            let mut state = self.state.write();
            let first = state.runs[0];
            if u32::from(first.skip) < first.used || first.used == 1 {
                return Ok(());
            }
            self.replace_run(&mut state, 0, Run { used: 1, skip: 1, ..first })
        })
    }

    pub(super) fn undo_truncate(
        &self,
        chain: Option<&Arc<LogChain>>,
        lsn: Lsn,
        undo: Undo,
        old: State,
    ) -> Result<(), AccessError> {
        let Undo::Untruncate { rows, list_page, .. } = undo else { unreachable!("made by truncate") };
        let mut state = self.state.write();
        self.note_retired();
        // Runs that were added since, if their own undo has left them. They are freed only when no list names them any
        // more, and the log says before that they are to be freed.
        let gone = state.runs[1..].to_vec();
        let structure = self.storage.begin_freeing(&gone, chain)?;
        if let Some(structure) = &structure {
            structure.append(COMMIT_RECORD, &[], &RecordEffect::default())?;
        }
        self.restore_list_page(chain, lsn, list_page, rows)?;
        self.storage.end_freeing(structure, &gone)?;
        let frees_when_undone = std::mem::take(&mut state.frees_when_undone);
        *state = State { frees_when_undone, ..old };
        Ok(())
    }

    /// Undoes a truncation in recovery.
    pub(crate) fn untruncate(
        &self,
        chain: &Arc<LogChain>,
        lsn: Lsn,
        list_page: Box<PageBytes>,
        rows: u64,
    ) -> Result<(), AccessError> {
        let state = self.state.write();
        // Nothing is allocated meanwhile: an extent that is free already was freed by a recovery that was interrupted
        // here.
        for run in state.runs.iter().skip(1) {
            let is_old = RunListPage::read(&list_page).is_ok_and(|old| old.contains(run));
            let file = self.storage.file(run.first.file)?;
            if !is_old && file.is_allocated(run.first.number / EXTENT_PAGES) {
                self.storage.free(run.first, run.page_count / EXTENT_PAGES)?;
            }
        }
        self.restore_list_page(Some(chain), lsn, list_page, rows)
    }

    pub(super) fn restore_list_page(
        &self,
        chain: Option<&Arc<LogChain>>,
        lsn: Lsn,
        mut list_page: Box<PageBytes>,
        rows: u64,
    ) -> Result<(), AccessError> {
        let id = self.identity.run_list;
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        // The saved count stays: rows inserted and deleted since, and this undo, are counted from there.
        RunListPage::copy_row_count(&page, &mut list_page);
        self.change(&mut page, id, &PageChange::Image { bytes: list_page }, Logged::of(chain).reserved())?;
        drop(page);
        self.count_undone(chain, lsn, rows.cast_signed())
    }
}

/// A number of runs, in the type of a record's field.
pub(super) fn count_of(runs: usize) -> u32 {
    u32::try_from(runs).expect("fewer runs than extents")
}
