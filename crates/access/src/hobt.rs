//! One heap: its runs of pages, and inserts and deletes of single rows.
//!
//! The runs are listed in run-list pages on disk and in memory. A scan takes a copy of the list when it starts. The
//! first page of the first run is the first run-list page. When the list outgrows it, the next one gets an extent of
//! its own. Rows are appended to the last page of the last run of rows. Bulk loads add whole runs ([`Hobt::publish`]).
//! Values that do not fit their row are in runs of their own (`large_values`).
//!
//! This file creates, opens and describes a heap. `rows` changes single rows, `run_list` the run list, `whole` all of
//! the heap at once. `tree_pages` gives pages to B+trees, `visible` tells what a statement sees, `operations` counts.

mod large_values;
mod operations;
mod rows;
mod run_list;
mod tree_pages;
mod visible;
mod whole;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use hobt_base::{EXTENT_PAGES, FileId, FilegroupId, HobtId, Lsn, PageId};
use hobt_buffer::{ExclusiveGuard, ReadCounts, ReadOptions};
use hobt_instruments::planted::{self, Bug};
use hobt_instruments::rank::{Rank, Ranked, RankedGuard};
use hobt_instruments::schedule::RwLock;
use hobt_instruments::{Latch, LatchClass, LatchWriteGuard};
use hobt_page::{
    PageChange, PageDamage, PageHeader, PageType, RUNS_PER_PAGE, RowLayout, RowPage, Run, RunContents, RunListPage,
};
use hobt_txn::locks::RangeLockers;
use hobt_txn::{COMMIT_RECORD, IoCounts, LogChain, RecordEffect, StatementContext, TransactionLog, UndoError};

use crate::change::{COUNT_RECORD_BYTES, Changed, Identity, Logged};
use crate::log_record::Undo;
use crate::read_ahead::add_reads;
use crate::storage::Allocated;
use crate::{AccessError, Storage};

pub use large_values::{LargeValues, ValueReader};
pub(crate) use operations::Operation;
use operations::OperationCounters;
pub use operations::Operations;
pub(crate) use rows::{Replaced, RowChange, newest_writer};
use run_list::{list_run, overlap};

/// One partition of a heap.
#[derive(Debug)]
pub struct Hobt {
    storage: Arc<Storage>,
    identity: Identity,
    row_count: AtomicU64,
    /// Held shared from the log record of a row's insert or delete until the row is counted. A checkpoint holds it
    /// exclusively, so it knows which rows are in the count that it saves.
    counting: Ranked<RwLock<()>>,
    /// Whether the count has changed since it was last saved. Changed while `counting` is held.
    unsaved_count: UnsavedCount,
    state: Ranked<Latch<State>>,
    /// How often pages of its runs have gone out of use. Changed while `state` is held exclusively.
    retired: AtomicU64,
    /// Pages in use, as far as they were asked for.
    in_use: ArcSwapOption<InUse>,
    operations: OperationCounters,
    range_lockers: Arc<RangeLockers>,
    /// Pages read from disk to open it and to plan statements, until a statement is charged with them.
    uncharged_reads: AtomicU64,
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
    /// Its extents are free, or about to be: its pages must not be used any more.
    dropped: bool,
    /// Transactions whose undo frees runs that are added after what they did.
    frees_when_undone: FreesWhenUndone,
}

/// Open transactions of a log that have created, emptied or published something.
///
/// Their undo frees the runs that a HOBT has got since. Each new run reserves room in the log for that: otherwise the
/// undo might find none.
#[derive(Debug, Default)]
struct FreesWhenUndone(Vec<Weak<LogChain>>);

impl FreesWhenUndone {
    fn add(&mut self, chain: Option<&Arc<LogChain>>) {
        self.0.retain(|open| open.strong_count() > 0);
        let is_new =
            |chain: &&Arc<LogChain>| !self.0.iter().any(|open| std::ptr::eq(open.as_ptr(), Arc::as_ptr(chain)));
        self.0.extend(chain.filter(is_new).map(Arc::downgrade));
    }

    fn open(&self) -> impl Iterator<Item = Arc<LogChain>> {
        self.0.iter().filter_map(Weak::upgrade)
    }
}

/// Pages for rows that were in use at one moment. As long as none goes out of use, they still are.
#[derive(Debug)]
struct InUse {
    /// [`Hobt::retired`] at that moment.
    retired: u64,
    /// The used pages of each run, in the order of the pages.
    pages: Vec<(FileId, Range<u32>)>,
}

impl InUse {
    fn has(&self, first: PageId, count: u32) -> bool {
        let behind = self.pages.partition_point(|(file, pages)| (*file, pages.start) <= (first.file, first.number));
        let run = behind.checked_sub(1).map(|at| &self.pages[at]);
        run.is_some_and(|(file, pages)| covers(*file, pages, first, count))
    }
}

/// Whether `count` pages from `first` on are among the pages of a file.
fn covers(file: FileId, pages: &Range<u32>, first: PageId, count: u32) -> bool {
    let end = first.number.checked_add(count);
    file == first.file && pages.contains(&first.number) && end.is_some_and(|end| end <= pages.end)
}

impl State {
    /// With these pages of the run list and runs. Further runs begin as short as the storage's settings say.
    fn new(list: Vec<PageId>, runs: Vec<Run>, storage: &Storage) -> State {
        let first_extents = storage.settings().run_extents_first;
        State {
            list,
            runs,
            next_extents: first_extents,
            next_value_extents: first_extents,
            dropped: false,
            frees_when_undone: FreesWhenUndone::default(),
        }
    }

    /// The index of the run that new rows, or new large values, go to.
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
    /// Creates an empty heap: one extent, whose first page is the run list. Undone with the statement.
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

    /// Creates a heap or tree. `identity` makes its description once the first page of its run list is known.
    pub(crate) fn create_list(
        storage: &Arc<Storage>,
        filegroup: FilegroupId,
        context: &StatementContext,
        identity: impl FnOnce(PageId) -> Identity,
    ) -> Result<Arc<Hobt>, AccessError> {
        let Allocated { first, extents, .. } = storage.allocate_for(context, filegroup, 1)?;
        let run = list_run(first, extents);
        let mut state = State::new(vec![first], vec![run], storage);
        let chain = storage.chain_of(context);
        state.frees_when_undone.add(chain.as_ref());
        let identity = identity(first);
        let hobt = Arc::new(Hobt {
            storage: Arc::clone(storage),
            row_count: AtomicU64::new(0),
            counting: Ranked::new(Rank::Counting, RwLock::new(())),
            unsaved_count: UnsavedCount::of(storage, &identity),
            state: Ranked::new(identity.state_rank(), Latch::new(LatchClass::HobtVirtualRoot, state)),
            identity,
            retired: AtomicU64::new(0),
            in_use: ArcSwapOption::empty(),
            operations: OperationCounters::default(),
            range_lockers: Arc::default(),
            uncharged_reads: AtomicU64::new(0),
        });
        hobt.create_list_page(first, &[run], Logged::structure())?;
        let lsn = storage.note(&hobt.identity, chain.as_ref(), &Undo::Uncreate { hobt: hobt.identity.id })?;
        // The undo runs backwards: the heap is marked as dropped, for all that refer to it, before its extents are
        // free.
        let undone = Arc::clone(&hobt);
        context.on_undo(move || undone.storage.undo(|| undone.uncreate(chain.as_ref(), lsn)));
        Ok(hobt)
    }

    /// Undoes its creation, except for its first run. The runs that were added since are freed only when the log says
    /// that they are to be freed.
    fn uncreate(&self, chain: Option<&Arc<LogChain>>, lsn: Lsn) -> Result<(), AccessError> {
        let mut state = self.state.write();
        self.note_retired();
        state.dropped = true;
        let gone = state.runs[1..].to_vec();
        let structure = self.storage.begin_freeing(&gone, chain)?;
        if let Some(structure) = &structure {
            structure.append(COMMIT_RECORD, &[], &RecordEffect::default())?;
        }
        self.storage.undone(chain, lsn, self.identity.id, 0)?;
        self.storage.end_freeing(structure, &gone)
    }

    /// Undoes the creation in recovery, where an earlier recovery may have been interrupted in it.
    pub(crate) fn uncreate_again(&self, chain: &Arc<LogChain>, lsn: Lsn) -> Result<(), AccessError> {
        let state = self.state.write();
        // Nothing is allocated meanwhile: an extent that is free already was freed by a recovery that was interrupted
        // here.
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
    /// A page of the list is damaged, belongs to another HOBT, or names pages that do not exist or are not the HOBT's
    /// to free: pages that are not allocated, hold allocation pages, or are in two of its runs.
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

    /// Like [`Hobt::open`], for recovery, where extents may be free that the list still names.
    pub(crate) fn open_to_undo(storage: &Arc<Storage>, identity: Identity) -> Result<Arc<Hobt>, AccessError> {
        Hobt::open_list(storage, identity, false)
    }

    pub(crate) fn open_list(
        storage: &Arc<Storage>,
        identity: Identity,
        checks_runs: bool,
    ) -> Result<Arc<Hobt>, AccessError> {
        let (id, run_list) = (identity.id, identity.run_list);
        let reads = ReadCounts::default();
        let mut list = Vec::new();
        let mut runs: Vec<Run> = Vec::new();
        let mut row_count = 0;
        let mut next = run_list;
        while next != PageId::default() {
            let Ok(file) = storage.file(next.file) else {
                return Err(storage.damaged(next, PageDamage::Structure { rule: "a run list in a file that is there" }));
            };
            let damaged = |damage| AccessError::Damaged { file: file.name().to_owned(), page: next, damage };
            let wrong = |rule| damaged(PageDamage::Structure { rule });
            if list.contains(&next) {
                return Err(wrong("a run list that returns to itself"));
            }
            let options = ReadOptions { counts: Some(&reads), ..ReadOptions::default() };
            let page = file.pool_file().read_with(next.number, options);
            let page = page.map_err(|error| AccessError::of_pool(error, file.name()))?;
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
            let rule = "runs of a run list that share extents";
            return Err(storage.damaged(run_list, PageDamage::Structure { rule }));
        }
        let state = State::new(list, runs, storage);
        Ok(Arc::new(Hobt {
            storage: Arc::clone(storage),
            row_count: AtomicU64::new(row_count),
            counting: Ranked::new(Rank::Counting, RwLock::new(())),
            unsaved_count: UnsavedCount::of(storage, &identity),
            state: Ranked::new(identity.state_rank(), Latch::new(LatchClass::HobtVirtualRoot, state)),
            identity,
            retired: AtomicU64::new(0),
            in_use: ArcSwapOption::empty(),
            operations: OperationCounters::default(),
            range_lockers: Arc::default(),
            uncharged_reads: reads.physical,
        }))
    }

    /// Counts reads for which there is no statement yet: those that open data structures in the heap's pages, and those
    /// that plan statements. Writes no shared memory if no page came from disk.
    pub(crate) fn leave_uncharged(&self, reads: &ReadCounts) {
        self.charge_later(reads.physical.load(Ordering::Relaxed));
    }

    /// Counts pages that were read from disk before any statement asked for them. The next scan or seek is charged with
    /// them.
    pub fn charge_later(&self, pages: u64) {
        if pages > 0 {
            self.uncharged_reads.fetch_add(pages, Ordering::Relaxed);
        }
    }

    /// Charges a statement with the pages that were read from disk before and not charged yet. So the reads charged to
    /// statements add up to what the file has read. They do not count as logical reads, so that a statement's logical
    /// reads are the same each time.
    pub(crate) fn charge_reads(&self, counts: &IoCounts) {
        if self.uncharged_reads.load(Ordering::Relaxed) > 0 {
            let pages = self.uncharged_reads.swap(0, Ordering::Relaxed);
            counts.physical_reads.fetch_add(pages, Ordering::Relaxed);
        }
    }

    /// The heap's id.
    pub fn id(&self) -> HobtId {
        self.identity.id
    }

    /// The count of transactions that have locked ranges of its keys.
    pub fn range_lockers(&self) -> &Arc<RangeLockers> {
        &self.range_lockers
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

    /// The number of rows, including those of statements that still run.
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

    /// Pages of values that do not fit their rows: how many are formatted, and how many allocated.
    pub fn large_value_pages(&self) -> (u64, u64) {
        let state = self.state.read();
        let runs = state.runs.iter().filter(|run| run.contents == RunContents::LargeValues);
        runs.fold((0, 0), |(used, pages), run| (used + u64::from(run.used), pages + u64::from(run.page_count)))
    }

    /// Pages that are allocated.
    pub fn reserved_pages(&self) -> u64 {
        self.state.read().runs.iter().map(|run| u64::from(run.page_count)).sum()
    }

    /// How often pages have gone out of use since the HOBT was opened. What was read of pages that were in use is
    /// theirs if this is still what it was then.
    pub fn retired(&self) -> u64 {
        self.retired.load(Ordering::SeqCst)
    }

    /// Counts that pages go out of use, before they are. The caller holds the state exclusively.
    fn note_retired(&self) {
        if planted::has(Bug::RetiredPagesUncounted) {
            return;
        }
        self.retired.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether all of some pages of a file are formatted pages for its rows: [`Hobt::retired`] at this moment, or
    /// `None`.
    ///
    /// May block on the state's latch, under which other threads wait for page latches and loads: the caller holds
    /// none.
    pub(crate) fn in_use(&self, first: PageId, count: u32) -> Option<u64> {
        self.known_in_use(first, count).or_else(|| self.in_use_by_state(&self.state.read(), first, count))
    }

    /// [`Hobt::in_use`] of pages that have been in use for a while. Does not block. `None`: not known.
    pub(crate) fn known_in_use(&self, first: PageId, count: u32) -> Option<u64> {
        let known = self.in_use.load();
        let known = known.as_ref().filter(|known| known.retired == self.retired())?;
        known.has(first, count).then_some(known.retired)
    }

    fn in_use_by_state(&self, state: &State, first: PageId, count: u32) -> Option<u64> {
        let retired = self.retired();
        if state.dropped {
            return None;
        }
        // The list is made once for each time that pages go out of use, and when it lacks an eighth of the runs.
        let is_known = |known: &InUse| known.retired == retired && state.runs.len() <= known.pages.len() / 8 * 9 + 8;
        if !self.in_use.load().as_ref().is_some_and(|known| is_known(known)) {
            let mut pages: Vec<_> = state.runs.iter().map(|run| (run.first.file, run.row_pages())).collect();
            pages.sort_unstable_by_key(|(file, pages)| (*file, pages.start));
            self.in_use.store(Some(Arc::new(InUse { retired, pages })));
        }
        let has = |run: &Run| covers(run.first.file, &run.row_pages(), first, count);
        state.runs.iter().rev().any(has).then_some(retired)
    }

    /// Shows a page that was a page of rows when its address was read: in a copy of the runs, in a RID. `None` if it is
    /// none now. An undo gives back the pages that its transaction has added. Then such a page is free, with older
    /// rows of this HOBT perhaps, another HOBT's, or this one's again.
    ///
    /// # Errors
    /// The page cannot be read, is in use and damaged, or what `show` returned.
    pub(crate) fn with_row_page<R>(
        &self,
        id: PageId,
        counts: Option<&IoCounts>,
        show: impl FnOnce(&RowPage<'_>) -> Result<R, AccessError>,
    ) -> Result<Option<R>, AccessError> {
        loop {
            // Without a latch as long as no page has ever gone out of use.
            let since = match self.retired() {
                0 => 0,
                _ => match self.in_use(id, 1) {
                    Some(since) => since,
                    None => return Ok(None),
                },
            };
            let file = self.storage.file(id.file)?;
            let reads = ReadCounts::default();
            let options = ReadOptions { counts: Some(&reads), ..ReadOptions::default() };
            let guard = file.pool_file().read_with(id.number, options);
            counts.iter().for_each(|counts| add_reads(counts, &reads));
            // Asked while the page is held: it stays in use at least until it is released.
            if self.retired() != since {
                continue;
            }
            let guard = guard.map_err(|error| AccessError::of_pool(error, file.name()))?;
            let page = RowPage::open(&guard, self.row_layout()).map_err(|damage| self.damaged(id, damage))?;
            if page.hobt() != self.id() {
                return Err(self.damaged(id, PageDamage::Structure { rule: "a page of another HOBT" }));
            }
            return show(&page).map(Some);
        }
    }

    /// The runs at this moment, in order: what a scan works on.
    pub fn runs(&self) -> Vec<Run> {
        self.state.read().runs.clone()
    }

    /// [`Hobt::runs`], with [`Hobt::retired`] at that moment.
    pub(crate) fn runs_in_use(&self) -> (Vec<Run>, u64) {
        let state = self.state.read();
        (state.runs.clone(), self.retired())
    }

    /// Applies a change and logs it; `None` if the page has no room.
    pub(crate) fn change(
        &self,
        page: &mut ExclusiveGuard<'_>,
        id: PageId,
        change: &PageChange,
        logged: Logged<'_>,
    ) -> Result<Option<Changed>, AccessError> {
        self.storage.change(page, id, Some(&self.identity), change, logged)
    }

    /// The error for a damaged page of it.
    pub fn damaged(&self, page: PageId, damage: PageDamage) -> AccessError {
        self.storage.damaged(page, damage)
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Adds to the number of rows, while [`Hobt::begin_counting`] is held.
    pub(crate) fn count_rows(&self, rows: i64) {
        self.row_count.fetch_add_signed(rows);
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
            for number in run.row_pages() {
                let id = PageId::new(run.first.file, number);
                self.with_row_page(id, None, |page| visit(id, page))?;
            }
        }
        Ok(())
    }

    /// Shows every live row: its page's address, its slot and the page.
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

    /// Writes the row count into the run list, as part of a checkpoint. Does nothing for a heap that was dropped.
    ///
    /// # Errors
    /// The page cannot be read or written, or is not this heap's.
    pub fn save_counts(&self) -> Result<(), AccessError> {
        let state = self.state.write();
        if state.dropped {
            return Ok(());
        }
        let _counting = self.counting.write();
        if !self.unsaved_count.is() {
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
        // Only now: a checkpoint that failed has saved nothing, and the next one has to.
        self.unsaved_count.end();
        Ok(())
    }

    /// Adds to the count that was last saved, and saves it.
    pub(crate) fn add_to_count(&self, rows: i64) -> Result<(), AccessError> {
        self.row_count.fetch_add_signed(rows);
        self.unsaved_count.begin();
        self.save_counts()
    }

    /// The state, locked for a change, of a heap that was not dropped.
    fn state_to_change(&self) -> Result<RankedGuard<LatchWriteGuard<'_, State>>, AccessError> {
        let state = self.state.write();
        if state.dropped {
            return Err(AccessError::Closed(format!("the table of HOBT {} was dropped", self.identity.id)));
        }
        Ok(state)
    }

    /// The last action on a heap before its extents are freed: a checkpoint in progress has finished with it, and later
    /// ones leave its pages alone.
    fn leave(&self) -> Result<(), UndoError> {
        let mut state = self.state.write();
        self.note_retired();
        state.dropped = true;
        Ok(())
    }
}

/// Whether the next checkpoint has to save a HOBT's count of rows. If so, the log keeps room for that.
#[derive(Debug)]
struct UnsavedCount {
    is: AtomicBool,
    log: Option<Arc<TransactionLog>>,
    /// The size of the record that saves it, with an image of the page, and of the HOBT's description.
    bytes: u64,
}

impl UnsavedCount {
    fn of(storage: &Storage, identity: &Identity) -> UnsavedCount {
        let bytes = (COUNT_RECORD_BYTES + identity.record_bytes()) as u64;
        UnsavedCount { is: AtomicBool::new(false), log: storage.log().cloned(), bytes }
    }

    fn is(&self) -> bool {
        self.is.load(Ordering::Relaxed)
    }

    /// Called when the count changes. Writes no shared memory if it has changed before.
    fn begin(&self) {
        if !self.is()
            && !self.is.swap(true, Ordering::Relaxed)
            && let Some(log) = &self.log
        {
            log.log().expect_of_checkpoint(self.bytes);
        }
    }

    fn end(&self) {
        if self.is.swap(false, Ordering::Relaxed)
            && let Some(log) = &self.log
        {
            log.log().expect_no_more(self.bytes);
        }
    }
}

impl Drop for UnsavedCount {
    fn drop(&mut self) {
        // The HOBT is dropped, or its database closed.
        self.end();
    }
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
