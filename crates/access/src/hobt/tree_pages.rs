//! Pages that a B+tree takes from a HOBT's runs, and pages that it rewrites. The tree defines their content.

use std::sync::Arc;

use hobt_base::{Lsn, PageId};
use hobt_page::{PageBytes, PageChange, RUNS_PER_PAGE, Run, RunContents, RunListPage};
use hobt_txn::{LogChain, StatementContext};

use super::Hobt;
use crate::AccessError;
use crate::change::{Logged, Part};
use crate::log_record::Undo;
use crate::storage::Purpose;

impl Hobt {
    /// Takes the next page for a B+tree, from a new run if the last is full. Calls `use_page` with the page's address,
    /// and with the page of the run list that names its run and the change there that makes the page the tree's.
    /// `use_page` makes that change together with those that need the page. It returns `false` if they had no room, and
    /// the page stays free. A new run uses log room that `payer` has reserved, if there is one.
    ///
    /// # Errors
    /// The filegroup or the log is full, the device fails, or what `use_page` returns.
    pub(crate) fn take_page(
        &self,
        purpose: Purpose,
        payer: Option<&Arc<LogChain>>,
        use_page: impl FnOnce(PageId, Part<'_>) -> Result<bool, AccessError>,
    ) -> Result<bool, AccessError> {
        let mut state = self.state_to_change()?;
        let tail = state.tail(RunContents::Rows).expect("a HOBT has its first run");
        if state.runs[tail].used == state.runs[tail].page_count {
            let extents = state.next_extents;
            self.add_structure_run(&mut state, RunContents::Rows, extents, purpose, payer)?;
        }
        let index = state.tail(RunContents::Rows).expect("a HOBT has its first run");
        let run = state.runs[index];
        let grown = Run { used: run.used + 1, ..run };
        let list = state.list[index / RUNS_PER_PAGE];
        let file = self.storage.file(list.file)?;
        let mut page = file.pool_file().write(list.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let (offset, bytes) = RunListPage::entry_bytes(index % RUNS_PER_PAGE, &grown);
        let part = Part { id: list, page: &mut page, changes: vec![PageChange::Write { offset, bytes }] };
        let used = use_page(PageId::new(run.first.file, run.used_end()), part)?;
        if used {
            state.runs[index] = grown;
        }
        Ok(used)
    }

    /// Removes pages of a B+tree from the end of its last runs as long as `is_free` says that they are unused, and
    /// frees runs that have none left. Returns the number of pages. Not undone.
    ///
    /// # Errors
    /// The log is full or has failed.
    pub(crate) fn shorten(&self, is_free: &dyn Fn(PageId) -> bool) -> Result<u64, AccessError> {
        let mut state = self.state_to_change()?;
        let mut count = 0;
        loop {
            let tail = state.tail(RunContents::Rows).expect("a HOBT has its first run");
            let run = state.runs[tail];
            let is_last = |used: &u32| is_free(PageId::new(run.first.file, run.first.number + used - 1));
            let mut used = run.used;
            while used > u32::from(run.skip) && is_last(&used) {
                used -= 1;
            }
            if used == run.used && used > 0 {
                return Ok(count);
            }
            count += u64::from(run.used - used);
            // A list page's own run stays, and so do runs before one of large values.
            if used > 0 || tail == 0 || tail + 1 < state.runs.len() {
                self.replace_run(&mut state, tail, Run { used, ..run })?;
                return Ok(count);
            }
            let gone = [run];
            let structure = self.storage.begin_freeing(&gone, None)?;
            self.pop_runs(&mut state, tail, Logged::of(structure.as_ref()).committing())?;
            self.storage.end_freeing(structure, &gone)?;
        }
    }

    /// Rewrites a page for a statement that has the HOBT for itself. Undone with the statement, whatever has become of
    /// the page by then.
    ///
    /// # Errors
    /// The page cannot be read, or the log is full.
    pub(crate) fn remake_page(
        self: &Arc<Hobt>,
        context: &StatementContext,
        id: PageId,
        change: &PageChange,
    ) -> Result<(), AccessError> {
        let chain = self.storage.chain_of(context);
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        let bytes = Box::new(*page);
        let undo = Undo::RestorePage { bytes: bytes.clone() };
        let made = self.change(&mut page, id, change, Logged::of(chain.as_ref()).undone_by(&undo))?;
        let lsn = made.expect("a page that is made anew has room").lsn;
        drop(page);
        let hobt = Arc::clone(self);
        context.on_undo(move || hobt.storage.undo(|| hobt.restore_page(chain.as_ref(), lsn, id, bytes)));
        Ok(())
    }

    /// Undoes [`Hobt::remake_page`].
    pub(crate) fn restore_page(
        &self,
        chain: Option<&Arc<LogChain>>,
        lsn: Lsn,
        id: PageId,
        bytes: Box<PageBytes>,
    ) -> Result<(), AccessError> {
        let file = self.storage.file(id.file)?;
        let mut page = file.pool_file().write(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
        self.change(&mut page, id, &PageChange::Image { bytes }, Logged::of(chain).compensating(lsn))?;
        Ok(())
    }
}
