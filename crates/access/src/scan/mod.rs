//! The parallel scan of heaps.
//!
//! ```text
//!  runs of the HOBTs --cut into--> page ranges --Dispenser--> workers
//!  worker: keeps a window of ranges in flight (loads into the pool, or private reads past it),
//!          takes what has arrived, shows each page to a PageVisitor; ranges that are resident are shown at once
//! ```
//!
//! A table that is larger than a share of the pool is read past it into buffers of the worker's own, so that a scan
//! does not push out what others use; pages that are resident all the same are taken from the pool, whose copy may be
//! newer. A page whose private copy fails its checksum is read again through the pool before it is called damaged,
//! because a write may have been under way.
//!
//! Nothing here blocks while it waits for a scan's own reads: [`ScanWorker::poll_range`] registers the task's waker.
//! Values that are not in their rows are fetched by the visitor, if it wants them, through [`Scan::large_values`]; that
//! blocks. Their pages are never part of a range, so no worker waits for one that another has yet to publish.
//! With read-ahead off (trace flag 652) every page is read alone and waited for.

mod aggregate;
mod column;
mod count;
mod dispenser;
mod kernels;
mod place;
mod text_extreme;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hobt_base::{EXTENT_PAGES, PAGE_SIZE, PageId, Stamp};
use hobt_buffer::LOAD_PAGES_MAX;
use hobt_buffer::PageRun;
use hobt_page::{PageBytes, PageChange, PageDamage, PageHeader, RowLayout, RowPage, Run, ValuePointer, apply};
use hobt_txn::{Before, IoCounts, Snapshot, StatementContext};

use crate::{AccessError, DataFile, LargeValues, RowStore, ValueReader};

pub use aggregate::{
    AggregateError, AggregateValue, Aggregator, Arithmetic, IntegerWidth, ScanAggregate, ScanExpression,
};
pub use column::{ColumnKind, ColumnVector, VectorData};
pub use count::Counts;
pub use dispenser::{DealerKind, Dispenser, PageRange};
pub use place::{PlaceVector, RowPlace};
pub use worker::ScanWorker;

/// What the laboratory and the administrator vary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanSettings {
    /// Pages of one read, a multiple of an extent, at most 64.
    pub read_pages: u32,
    /// Reads in flight a scan, over all its workers.
    pub queue_depth: u32,
    /// Whether pages are read before they are asked for (off: trace flag 652).
    pub read_ahead: bool,
    /// How ranges are dealt.
    pub dealer: DealerKind,
    /// A scan of more than this many percent of the pool reads past it.
    pub pool_share_percent: u32,
    /// Whether rows are shown as they stand in the pages, committed or not (`NOLOCK`, or under locks), although the
    /// statement reads versions.
    pub reads_uncommitted: bool,
}

impl Default for ScanSettings {
    fn default() -> ScanSettings {
        ScanSettings {
            read_pages: 64,
            queue_depth: 32,
            read_ahead: true,
            dealer: DealerKind::Atomic,
            pool_share_percent: 75,
            reads_uncommitted: false,
        }
    }
}

/// One HOBT's part of a scan.
#[derive(Clone, Debug)]
pub struct ScanPartition {
    /// Where its rows are.
    pub store: RowStore,
    /// Its runs when the scan started.
    pub runs: Vec<Run>,
}

/// A scan of some HOBTs of one table, shared by its workers.
#[derive(Debug)]
pub struct Scan {
    partitions: Vec<ScanPartition>,
    files: Vec<Arc<DataFile>>,
    rows: Arc<RowLayout>,
    dispenser: Dispenser,
    settings: ScanSettings,
    through_pool: bool,
    workers: usize,
    page_count: u64,
    context: Arc<StatementContext>,
    /// What of others' changes is shown; all if absent.
    view: Option<Arc<Snapshot>>,
    counts: Arc<IoCounts>,
    read_bytes: AtomicU64,
}

/// What a statement sees of a page.
enum Visible {
    /// All of it.
    AsItStands,
    /// None of it: whoever loaded it is not seen.
    Nothing,
    /// This, with changes taken back.
    Otherwise(Box<PageBytes>),
}

/// What looks at the pages of a scan, one worker's.
pub trait PageVisitor {
    /// Looks at a page of partition `partition` (its place in the scan). Live rows are those not deleted.
    ///
    /// # Errors
    /// What stops the scan.
    fn visit(&mut self, partition: usize, id: PageId, page: &RowPage<'_>) -> Result<(), AccessError>;

    /// The same, with the means to fetch columns of the page that comes next into the cache. A visitor that works column
    /// by column asks for a column of the next page before it reads that of this one: spread out like that, the fetches
    /// overlap with its work.
    ///
    /// # Errors
    /// As [`PageVisitor::visit`].
    fn visit_ahead(
        &mut self,
        partition: usize,
        id: PageId,
        page: &RowPage<'_>,
        next: Option<&NextPage<'_>>,
    ) -> Result<(), AccessError> {
        let _the_page_is_read_as_a_whole = next;
        self.visit(partition, id, page)
    }

    /// Whether it has enough for now. The rest of the range is kept until it asks again.
    fn is_full(&self) -> bool {
        false
    }
}

/// The page that a scan shows next, if it is resident.
#[derive(Debug)]
pub struct NextPage<'a> {
    run: &'a PageRun<'a>,
    number: u32,
}

impl NextPage<'_> {
    /// Fetches a column of the next page into the cache; it is taken to lie where it lies in `page`, because neighbours
    /// are laid out alike.
    pub fn fetch(&self, page: &RowPage<'_>, column: usize) {
        for (at, length) in page.extents(column) {
            self.run.prefetch(self.number, at, length);
        }
    }

    /// Fetches only the end offsets of a variable-length column.
    pub fn fetch_ends(&self, page: &RowPage<'_>, column: usize) {
        let [(at, length), _] = page.extents(column);
        self.run.prefetch(self.number, at, length);
    }
}

/// The values of one partition's rows that are on pages of their own. Reading one blocks.
#[derive(Clone, Copy, Debug)]
pub struct ScanValues<'a> {
    scan: &'a Scan,
    partition: usize,
}

impl LargeValues for ScanValues<'_> {
    fn fetch(&self, pointer: &ValuePointer) -> Result<Vec<u8>, AccessError> {
        let reader = ValueReader { context: &self.scan.context, counts: &self.scan.counts };
        self.scan.partitions[self.partition].store.hobt().large_value(pointer, Some(reader))
    }

    fn damaged(&self, page: PageId, damage: PageDamage) -> AccessError {
        self.scan.damaged_page(page, damage)
    }
}

impl Scan {
    /// A scan of `stores` (one table's) by `workers` workers. Takes the runs as they are now.
    ///
    /// # Errors
    /// A run lies in a file that is not there, or a store is a tree, which is read by [`crate::Cursor`].
    ///
    /// # Panics
    /// If there is no store or no worker, or the settings are outside their ranges.
    pub fn new(
        stores: &[RowStore],
        workers: usize,
        settings: ScanSettings,
        context: Arc<StatementContext>,
        counts: Arc<IoCounts>,
    ) -> Result<Arc<Scan>, AccessError> {
        assert!(workers > 0 && !stores.is_empty(), "somebody scans something");
        let whole_extents = settings.read_pages > 0 && settings.read_pages.is_multiple_of(EXTENT_PAGES);
        assert!(whole_extents && settings.read_pages <= LOAD_PAGES_MAX, "reads of {} pages", settings.read_pages);
        if stores.iter().any(|store| store.tree().is_some()) {
            return Err(AccessError::Closed("a B+tree is read by a cursor".to_owned()));
        }
        let first = stores[0].hobt();
        // Before the runs are looked at: whatever the view sees lies in them then.
        let view = context.view().filter(|_| !settings.reads_uncommitted);
        let partitions: Vec<ScanPartition> =
            stores.iter().map(|store| ScanPartition { store: store.clone(), runs: store.hobt().runs() }).collect();
        let files = first.storage().files();
        let mut runs = Vec::new();
        for (partition, part) in partitions.iter().enumerate() {
            for run in &part.runs {
                let file = files
                    .iter()
                    .position(|file| file.id() == run.first.file)
                    .ok_or_else(|| AccessError::Closed(format!("the database has no file {}", run.first.file)))?;
                runs.push((partition, file, *run));
            }
        }
        let page_count: u64 = runs.iter().map(|(_, _, run)| u64::from(run.row_page_count())).sum();
        let pool_pages = first.storage().pool().statistics().frames;
        let through_pool = page_count * 100 <= pool_pages * u64::from(settings.pool_share_percent);
        let unit = if settings.read_ahead { settings.read_pages } else { settings.read_pages.min(8) };
        Ok(Arc::new(Scan {
            rows: Arc::clone(first.row_layout()),
            dispenser: Dispenser::new(&runs, unit, workers, settings.dealer),
            partitions,
            files,
            settings,
            through_pool,
            workers,
            page_count,
            context,
            view,
            counts,
            read_bytes: AtomicU64::new(0),
        }))
    }

    /// Pages whose newest writer is below are shown as they stand.
    fn horizon(&self) -> Stamp {
        self.view.as_ref().map_or(Stamp(u64::MAX), |view| view.horizon())
    }

    /// A page as the scan's statement sees it.
    fn visible(&self, id: PageId, page: &RowPage<'_>, partition: usize) -> Result<Visible, AccessError> {
        let Some(view) = &self.view else { return Ok(Visible::AsItStands) };
        let (bytes, writer) = (page.bytes(), PageHeader::newest_writer_of(page.bytes()));
        if writer < view.horizon() {
            return Ok(Visible::AsItStands);
        }
        if PageHeader::is_bulk(bytes) {
            return Ok(if view.sees(writer) { Visible::AsItStands } else { Visible::Nothing });
        }
        let storage = self.partitions[partition].store.hobt().storage();
        let changes = storage.versions().changes(id, view);
        if changes.is_empty() {
            return Ok(Visible::AsItStands);
        }
        let mut copy = Box::new(*bytes);
        let damaged = |damage| self.damaged_page(id, damage);
        // A version may be newer than this copy of the page.
        for (slot, before) in changes.into_iter().filter(|(slot, _)| usize::from(slot.0) < page.row_count()) {
            let deleted = before == Before::Absent;
            if page.is_deleted(usize::from(slot.0)) != deleted {
                let change = PageChange::SetDeleted { slot, deleted, writer };
                apply(&mut copy, Some(&self.rows), &change).map_err(damaged)?;
            }
            if let Before::Row(row) = before {
                // It is no longer than what stands there now.
                let change = PageChange::ReplaceRow { slot, row: (*row).clone(), writer };
                let put = apply(&mut copy, Some(&self.rows), &change).map_err(damaged)?;
                put.ok_or_else(|| damaged(PageDamage::Structure { rule: "room for a row that stood there before" }))?;
            }
        }
        Ok(Visible::Otherwise(copy))
    }

    /// The table's columns.
    pub fn row_layout(&self) -> &Arc<RowLayout> {
        &self.rows
    }

    /// The HOBTs, in the order in which visitors see their places.
    pub fn partitions(&self) -> &[ScanPartition] {
        &self.partitions
    }

    /// Pages that the scan will look at.
    pub fn page_count(&self) -> u64 {
        self.page_count
    }

    /// How many workers share the scan.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Whether pages come through the pool (or past it, for a table that is too large for it).
    pub fn is_through_pool(&self) -> bool {
        self.through_pool
    }

    /// The dispenser, for its counters.
    pub fn dispenser(&self) -> &Dispenser {
        &self.dispenser
    }

    /// The statement.
    pub fn context(&self) -> &Arc<StatementContext> {
        &self.context
    }

    /// Bytes that the scan read from disk so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    fn count_reads(&self, pages: u64, ahead: bool) {
        let counter = if ahead { &self.counts.read_ahead_reads } else { &self.counts.physical_reads };
        counter.fetch_add(pages, Ordering::Relaxed);
        self.read_bytes.fetch_add(pages * PAGE_SIZE as u64, Ordering::Relaxed);
    }

    /// The way to the values of partition `partition` that are not in their rows.
    pub fn large_values(&self, partition: usize) -> ScanValues<'_> {
        ScanValues { scan: self, partition }
    }

    /// The error for a page of this scan that a visitor found damaged.
    pub fn damaged_page(&self, id: PageId, damage: PageDamage) -> AccessError {
        let file = self.files.iter().find(|file| file.id() == id.file);
        AccessError::Damaged { file: file.map_or_else(String::new, |file| file.name().to_owned()), page: id, damage }
    }

    fn damaged(&self, range: &PageRange, number: u32, damage: PageDamage) -> AccessError {
        let file = &self.files[range.file];
        AccessError::Damaged { file: file.name().to_owned(), page: PageId::new(file.id(), number), damage }
    }
}
