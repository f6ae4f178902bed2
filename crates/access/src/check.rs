//! Checks whether a database's allocation and its heaps agree: for `DBCC CHECKDB`, tests and simulation.
//!
//! Every extent of a file is free, or kept for allocation pages, or in exactly one run of one heap. The maps on disk
//! and the copy in memory agree. A heap's run list on disk is the one in memory, each of its pages has its id, and the
//! number of live rows is its count. Values on pages of their own are whole, in the runs for them, and no page belongs
//! to two values. A B+tree is also consistent as a tree ([`AllocationCheck::add_tree`]). No page was changed by a
//! record behind the end of the log, or by a statement that never existed. Nothing may change the database meanwhile,
//! or the findings may come from the changes.
//!
//! Left to others: which objects exist in the catalog (it passes the heaps to [`AllocationCheck::add_hobt`]), the
//! meaning of values, repairs. A page of values to which no row points is not a finding: an undo may leave such pages
//! in their run.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_base::{EXTENT_PAGES, FileId, HobtId, PageId};
use hobt_page::{
    AllocationMap, EXTENTS_PER_MAP, LargeValuePage, PageBytes, PageDamage, PageFlags, PageHeader, PageType, RowPage,
    Run, RunContents, RunListPage, StoredValue, check_row_page, map_page_of,
};

use hobt_txn::{Progress, Transactions};

use crate::btree::{TreeFault, Wrong};
use crate::page_set::PageSet;
use crate::storage::DataFile;
use crate::{AccessError, BTree, Hobt, Storage};

/// A contradiction in the database.
#[derive(Clone, PartialEq, Debug)]
pub enum Finding {
    /// An extent is in two runs.
    OwnedTwice {
        /// The extent's first page.
        extent: PageId,
        /// The second owner.
        hobt: HobtId,
    },
    /// An extent is in a run, but is not allocated or not in the file.
    NotAllocated {
        /// The extent's first page.
        extent: PageId,
        /// The owner.
        hobt: HobtId,
    },
    /// An extent is allocated, but is in no run.
    Unowned {
        /// The extent's first page.
        extent: PageId,
    },
    /// The map on disk and the copy in memory differ.
    MapDiffers {
        /// The extent's first page.
        extent: PageId,
    },
    /// The number of free extents is not that of the map.
    FreeCount {
        /// The file.
        file: FileId,
        /// The number kept.
        counted: u32,
        /// The number found.
        found: u32,
    },
    /// The run list on disk and its copy in memory differ.
    RunList {
        /// The heap.
        hobt: HobtId,
        /// The broken rule.
        rule: &'static str,
    },
    /// A page is damaged, or belongs to another heap.
    Page {
        /// The page.
        page: PageId,
        /// What is wrong.
        damage: PageDamage,
    },
    /// A page of a tree contradicts other pages.
    Tree {
        /// The page.
        page: PageId,
        /// How.
        fault: TreeFault,
    },
    /// A page with a piece of a value belongs to two values.
    SharedValue {
        /// The page.
        page: PageId,
        /// The row page whose row has the second value.
        row_page: PageId,
    },
    /// A heap's number of live rows differs from its count.
    RowCount {
        /// The heap.
        hobt: HobtId,
        /// The number kept.
        counted: u64,
        /// The number found.
        found: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::OwnedTwice { extent, hobt } => {
                write!(f, "the extent at page {extent} of HOBT {hobt} is in another run too")
            }
            Finding::NotAllocated { extent, hobt } => {
                write!(f, "the extent at page {extent} of HOBT {hobt} is not allocated")
            }
            Finding::Unowned { extent } => write!(f, "the extent at page {extent} is allocated and belongs to nothing"),
            Finding::MapDiffers { extent } => {
                write!(f, "the allocation map and memory differ about the extent at page {extent}")
            }
            Finding::FreeCount { file, counted, found } => {
                write!(f, "file {file} has {found} free extents and counts {counted}")
            }
            Finding::RunList { hobt, rule } => write!(f, "the run list of HOBT {hobt}: {rule}"),
            Finding::Page { page, damage } => write!(f, "page {page}: {damage}"),
            Finding::Tree { page, fault } => write!(f, "page {page}: {}", fault.rule()),
            Finding::SharedValue { page, row_page } => {
                write!(f, "page {page} is of a value in page {row_page}, and of another one too")
            }
            Finding::RowCount { hobt, counted, found } => {
                write!(f, "HOBT {hobt} has {found} rows and counts {counted}")
            }
        }
    }
}

/// A running check. Heaps are added one by one, then [`AllocationCheck::finish`] finds the extents that belong to none.
#[derive(Debug)]
pub struct AllocationCheck {
    storage: Arc<Storage>,
    /// The files at its beginning, each with one bit an extent: in a run, or kept for allocation pages.
    owned: BTreeMap<FileId, (Arc<DataFile>, Vec<bool>)>,
    findings: Vec<Finding>,
    /// The damage noted for each page, so that it is noted once.
    damaged: HashMap<PageId, Vec<PageDamage>>,
    cancelled: Arc<AtomicBool>,
    /// The source of stamps.
    clock: Option<Arc<Transactions>>,
    /// Where read pages are counted.
    progress: Arc<Progress>,
}

/// The pages of values in the runs of one heap or tree. Those that belong to a value are put into the set.
fn value_pages_of(runs: &[Run]) -> PageSet {
    PageSet::empty(value_runs(runs).map(|run| (run.first.file, run.first.number..run.used_end())))
}

fn value_runs(runs: &[Run]) -> impl Iterator<Item = &Run> {
    runs.iter().filter(|run| run.contents == RunContents::LargeValues)
}

impl AllocationCheck {
    /// Starts a check by comparing the maps on disk with memory.
    ///
    /// # Errors
    /// A map cannot be read at all. Damage is a finding.
    pub fn new(storage: &Arc<Storage>) -> Result<AllocationCheck, AccessError> {
        let mut findings = Vec::new();
        let mut owned = BTreeMap::new();
        for file in storage.files() {
            let size = file.size_pages() / EXTENT_PAGES;
            let (mut taken, mut extents) = (0, 0);
            let read = file.for_each_map(&mut |first, count, page| {
                extents += count;
                if let Err(damage) = check_map(page, count).and_then(|header| check_lsn(storage, &header)) {
                    let id = PageId::new(file.id(), map_page_of(first * EXTENT_PAGES));
                    findings.push(Finding::Page { page: id, damage });
                }
                for extent in first..first + count {
                    let on_disk = AllocationMap::is_allocated(page, extent - first);
                    taken += u32::from(on_disk);
                    if on_disk != file.is_allocated(extent) {
                        findings.push(Finding::MapDiffers { extent: PageId::new(file.id(), extent * EXTENT_PAGES) });
                    }
                }
            });
            match read {
                Ok(()) if extents - taken != file.free_extents() => {
                    let (counted, found) = (file.free_extents(), extents - taken);
                    findings.push(Finding::FreeCount { file: file.id(), counted, found });
                }
                Ok(()) => {}
                Err(AccessError::Damaged { page, damage, .. }) => findings.push(Finding::Page { page, damage }),
                // It was removed meanwhile.
                Err(_) if !storage.has(&file) => continue,
                Err(error) => return Err(error),
            }
            let of_maps = |extent: u32| extent.is_multiple_of(EXTENTS_PER_MAP);
            let of_maps = (0..size.max(extents)).map(of_maps).collect();
            owned.insert(file.id(), (file, of_maps));
        }
        let (storage, cancelled) = (Arc::clone(storage), Arc::default());
        Ok(AllocationCheck {
            storage,
            owned,
            findings,
            damaged: HashMap::new(),
            cancelled,
            clock: None,
            progress: Arc::default(),
        })
    }

    /// Makes the check end with [`AccessError::Cancelled`] soon after `cancelled` is set.
    #[must_use]
    pub fn until(mut self, cancelled: Arc<AtomicBool>) -> AllocationCheck {
        self.cancelled = cancelled;
        self
    }

    /// Makes the check compare pages' writers with the statements that there have been.
    #[must_use]
    pub fn stamped_by(mut self, clock: Arc<Transactions>) -> AllocationCheck {
        self.clock = Some(clock);
        self
    }

    /// Makes the check count each reading of a page as a step: for a heap as many as it has pages, for a tree twice as
    /// many.
    pub fn count_in(&mut self, progress: &Arc<Progress>) {
        self.progress = Arc::clone(progress);
    }

    /// The findings since the check began or since the last call.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings)
    }

    fn check_cancelled(&self) -> Result<(), AccessError> {
        if self.cancelled.load(Ordering::Relaxed) { Err(AccessError::Cancelled) } else { Ok(()) }
    }

    /// A page is about to be read.
    fn step(&self) -> Result<(), AccessError> {
        self.progress.add(1);
        self.check_cancelled()
    }

    /// Checks the extents of one heap or tree and its run list, but none of its rows.
    ///
    /// # Errors
    /// As [`AllocationCheck::add_hobt`].
    pub fn add_extents(&mut self, hobt: &Hobt) -> Result<(), AccessError> {
        let runs = hobt.runs();
        self.compare_list(hobt, &runs)?;
        self.own_all(hobt, &runs)
    }

    fn own_all(&mut self, hobt: &Hobt, runs: &[Run]) -> Result<(), AccessError> {
        for run in runs {
            self.check_cancelled()?;
            for extent in 0..run.page_count / EXTENT_PAGES {
                self.own(hobt.id(), run, extent);
            }
        }
        Ok(())
    }

    /// Checks one heap: its run list, its extents, its pages and its count of rows.
    ///
    /// # Errors
    /// A page cannot be read at all. Damage is a finding. Or the check was cancelled.
    pub fn add_hobt(&mut self, hobt: &Hobt) -> Result<(), AccessError> {
        let runs = hobt.runs();
        self.compare_list(hobt, &runs)?;
        self.own_all(hobt, &runs)?;
        let mut values = value_pages_of(&runs);
        let mut rows = 0;
        for run in &runs {
            for number in run.row_pages() {
                rows += self.page_rows(hobt, PageId::new(run.first.file, number), &mut values)?;
            }
        }
        self.value_pages(hobt, &runs)?;
        if rows != hobt.row_count() {
            self.findings.push(Finding::RowCount { hobt: hobt.id(), counted: hobt.row_count(), found: rows });
        }
        Ok(())
    }

    /// Checks one B+tree: as a heap, and its order and structure.
    ///
    /// # Errors
    /// As [`AllocationCheck::add_hobt`].
    pub fn add_tree(&mut self, tree: &BTree) -> Result<(), AccessError> {
        let hobt = tree.hobt();
        let runs = hobt.runs();
        self.compare_list(hobt, &runs)?;
        self.own_all(hobt, &runs)?;
        let (figures, wrong) = tree.check(&|| self.step())?;
        for (page, wrong) in wrong {
            match wrong {
                Wrong::Damage(damage) => self.note_damage(page, damage),
                Wrong::Tree(fault) => self.findings.push(Finding::Tree { page, fault }),
            }
        }
        let mut values = value_pages_of(&runs);
        for run in &runs {
            for number in run.row_pages() {
                self.tree_page(hobt, PageId::new(run.first.file, number), &mut values)?;
            }
        }
        self.value_pages(hobt, &runs)?;
        if figures.rows != hobt.row_count() {
            let counted = hobt.row_count();
            self.findings.push(Finding::RowCount { hobt: hobt.id(), counted, found: figures.rows });
        }
        Ok(())
    }

    /// Checks the header of a page of a tree, and the large values of a leaf.
    fn tree_page(&mut self, hobt: &Hobt, id: PageId, values: &mut PageSet) -> Result<(), AccessError> {
        self.step()?;
        let file = self.storage.file(id.file)?;
        let page = file.pool_file().read(id.number).map_err(|error| AccessError::of_pool(error, file.name()));
        let Some(page) = self.page_or_finding(page)? else { return Ok(()) };
        if let Err(damage) = self.check_header(&page).and_then(|header| check_version(&header, hobt)) {
            self.note_damage(id, damage);
            return Ok(());
        }
        self.check_values(hobt, id, &page, values)
    }

    /// Checks the pages of a HOBT that have pieces of values.
    fn value_pages(&mut self, hobt: &Hobt, runs: &[Run]) -> Result<(), AccessError> {
        let pages = |run: &Run| {
            (run.first.number..run.used_end()).map({
                let file = run.first.file;
                move |number| PageId::new(file, number)
            })
        };
        value_runs(runs).flat_map(pages).try_for_each(|id| self.value_page(hobt, id))
    }

    /// Checks what a header says, independently of the page's use.
    fn check_header(&self, page: &PageBytes) -> Result<PageHeader, PageDamage> {
        let header = PageHeader::read(page)?;
        header.check(page)?;
        check_lsn(&self.storage, &header)?;
        if self.clock.as_ref().is_some_and(|clock| header.newest_writer > clock.latest()) {
            return Err(PageDamage::Structure { rule: "a page's newest writer among the statements there have been" });
        }
        Ok(header)
    }

    /// Notes a page's damage, unless it is known.
    fn note_damage(&mut self, page: PageId, damage: PageDamage) {
        let of_page = self.damaged.entry(page).or_default();
        if !of_page.contains(&damage) {
            of_page.push(damage);
            self.findings.push(Finding::Page { page, damage });
        }
    }

    /// Ends the check. Extents that are allocated and in no heap's runs are findings.
    pub fn finish(mut self) -> Vec<Finding> {
        // A file that was removed meanwhile is empty; a file that was added since is not checked.
        for (file, owned) in self.owned.values() {
            for (extent, owned) in (0..).zip(owned) {
                if !owned && file.is_allocated(extent) {
                    self.findings.push(Finding::Unowned { extent: PageId::new(file.id(), extent * EXTENT_PAGES) });
                }
            }
        }
        self.findings
    }

    fn own(&mut self, hobt: HobtId, run: &Run, extent: u32) {
        let first = PageId::new(run.first.file, run.first.number + extent * EXTENT_PAGES);
        let extent = first.number / EXTENT_PAGES;
        let known = self.owned.get_mut(&first.file);
        match known.and_then(|(file, owned)| Some((file, owned.get_mut(extent as usize)?))) {
            Some((file, owned)) if file.is_allocated(extent) => {
                if std::mem::replace(owned, true) {
                    self.findings.push(Finding::OwnedTwice { extent: first, hobt });
                }
            }
            _ => self.findings.push(Finding::NotAllocated { extent: first, hobt }),
        }
    }

    /// Compares the run list on disk with the one in memory.
    fn compare_list(&mut self, hobt: &Hobt, runs: &[Run]) -> Result<(), AccessError> {
        let mut on_disk = Vec::new();
        let mut next = hobt.run_list();
        let mut pages = 0;
        while next != PageId::default() && pages <= runs.len() {
            pages += 1;
            let file = self.storage.file(next.file)?;
            let page = file.pool_file().read(next.number).map_err(|error| AccessError::of_pool(error, file.name()));
            let Some(page) = self.page_or_finding(page)? else { return Ok(()) };
            match self.check_header(&page).and_then(|header| Ok((header, RunListPage::read(&page)?))) {
                Ok((header, entries)) => {
                    if header.hobt != hobt.id() {
                        self.findings.push(Finding::RunList { hobt: hobt.id(), rule: "a page of another HOBT" });
                    }
                    on_disk.extend(entries);
                    next = header.next;
                }
                Err(damage) => {
                    self.note_damage(next, damage);
                    return Ok(());
                }
            }
        }
        if on_disk != runs {
            self.findings.push(Finding::RunList { hobt: hobt.id(), rule: "the list on disk differs from memory" });
        }
        Ok(())
    }

    /// Checks a page with a piece of a value.
    fn value_page(&mut self, hobt: &Hobt, id: PageId) -> Result<(), AccessError> {
        self.step()?;
        let file = self.storage.file(id.file)?;
        let page = file.pool_file().read(id.number).map_err(|error| AccessError::of_pool(error, file.name()));
        let Some(page) = self.page_or_finding(page)? else { return Ok(()) };
        let read = self.check_header(&page).and_then(|_| LargeValuePage::read(&page, hobt.id()).map(drop));
        if let Err(damage) = read {
            self.note_damage(id, damage);
        }
        Ok(())
    }

    /// Turns damage into a finding.
    fn page_or_finding<T>(&mut self, read: Result<T, AccessError>) -> Result<Option<T>, AccessError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(AccessError::Damaged { page, damage, .. }) => {
                self.note_damage(page, damage);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the values of a sound page's live rows that are on pages of their own.
    fn check_values(
        &mut self,
        hobt: &Hobt,
        id: PageId,
        bytes: &PageBytes,
        values: &mut PageSet,
    ) -> Result<(), AccessError> {
        if PageHeader::read(bytes).is_ok_and(|header| header.page_type != PageType::Row) {
            return Ok(());
        }
        let Ok(page) = RowPage::open(bytes, hobt.row_layout()) else { return Ok(()) };
        if !page.has_pointers() {
            return Ok(());
        }
        for slot in (0..page.row_count()).filter(|&slot| !page.is_deleted(slot)) {
            for column in 0..hobt.row_layout().columns().len() {
                if let Ok(StoredValue::Pointer(pointer)) = page.stored(column, slot) {
                    let (mut foreign, mut shared) = (Vec::new(), Vec::new());
                    let read = hobt.for_each_value_page(&pointer, &mut |page| {
                        if !values.is_of_runs(page) {
                            let rule = "a page of a value in the runs of values";
                            foreign.push((page, PageDamage::Structure { rule }));
                        } else if !values.insert(page) {
                            shared.push(Finding::SharedValue { page, row_page: id });
                        }
                    });
                    self.page_or_finding(read)?;
                    foreign.into_iter().for_each(|(page, damage)| self.note_damage(page, damage));
                    self.findings.extend(shared);
                }
            }
        }
        Ok(())
    }

    /// The number of live rows of a page of a heap; 0 if it is damaged.
    fn page_rows(&mut self, hobt: &Hobt, id: PageId, values: &mut PageSet) -> Result<u64, AccessError> {
        self.step()?;
        let file = self.storage.file(id.file)?;
        let page = file.pool_file().read(id.number).map_err(|error| AccessError::of_pool(error, file.name()));
        let Some(page) = self.page_or_finding(page)? else { return Ok(0) };
        let rows = self.check_header(&page).and_then(|header| {
            if header.hobt != hobt.id() || header.page_type != PageType::Row {
                return Err(PageDamage::Structure { rule: "a row page of this HOBT" });
            }
            check_version(&header, hobt)?;
            if header.next != PageId::default() || header.flags.contains(PageFlags::FREE) {
                return Err(PageDamage::Structure { rule: "a page of a heap, which leads nowhere and is not free" });
            }
            check_row_page(&page, hobt.row_layout())?;
            let view = RowPage::open(&page, hobt.row_layout())?;
            Ok((view.row_count() - view.deleted_count()) as u64)
        });
        match rows {
            Ok(rows) => {
                self.check_values(hobt, id, &page, values)?;
                Ok(rows)
            }
            Err(damage) => {
                self.note_damage(id, damage);
                Ok(0)
            }
        }
    }
}

/// Checks that a page was made for the layout of its heap or tree, or for an earlier one: a partition that was switched
/// in may have such pages.
fn check_version(header: &PageHeader, hobt: &Hobt) -> Result<(), PageDamage> {
    if !(1..=hobt.layout_version()).contains(&header.layout_version) {
        return Err(PageDamage::Structure { rule: "a layout version from 1 to that of the page's table" });
    }
    Ok(())
}

/// Checks that a map page that describes so many extents of its file describes no others.
fn check_map(page: &PageBytes, extents: u32) -> Result<PageHeader, PageDamage> {
    let header = PageHeader::read(page)?;
    header.check(page)?;
    if header.hobt != HobtId(0) || header.next != PageId::default() {
        return Err(PageDamage::Structure { rule: "an allocation map, which is its file's alone" });
    }
    if (extents..EXTENTS_PER_MAP).any(|extent| AllocationMap::is_allocated(page, extent)) {
        return Err(PageDamage::Structure { rule: "extents of an allocation map in the file" });
    }
    Ok(header)
}

/// Checks that the record that last changed a page is in the log. Called after the page is read: a record of a
/// concurrent change is in the log by then.
fn check_lsn(storage: &Storage, header: &PageHeader) -> Result<(), PageDamage> {
    if storage.log().is_some_and(|log| header.lsn >= log.log().end()) {
        return Err(PageDamage::Structure { rule: "a page's log sequence number before the end of the log" });
    }
    Ok(())
}
