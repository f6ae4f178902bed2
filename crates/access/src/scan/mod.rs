//! The parallel scan of heaps, and of B+trees whose rows are needed in no order.
//!
//! ```text
//!  runs of the HOBTs --cut into--> page ranges --Dispenser--> workers
//!  worker: keeps a window of ranges in flight (loads into the pool, or private reads past it),
//!          takes what has arrived, shows each page to a PageVisitor; ranges that are resident are shown at once
//! ```
//!
//! The addresses of a tree's leaves are read from the pages above them when the scan starts. Leaves are dealt by
//! address like a heap's runs. If a leaf was split since, its rows are looked up by key (`show`).
//!
//! A table larger than a share of the pool is read past the pool into the worker's own buffers, so that a scan does not
//! evict pages that other statements use. Pages that are resident all the same are taken from the pool, whose copy may
//! be newer. If a page's private copy fails its checksum, the page is read again through the pool before it is reported
//! as damaged, because a write may have been in progress.
//!
//! Waiting for a scan's own reads never blocks: [`ScanWorker::poll_range`] registers the task's waker. Values that are
//! not in their rows are fetched by the visitor, if it needs them, through [`Scan::large_values`]. That blocks. Their
//! pages are never part of a range, so no worker waits for a page that another worker has yet to publish. With
//! read-ahead off (trace flag 652) every page is read and waited for on its own.

mod aggregate;
mod column;
mod count;
mod dispenser;
mod filter;
mod formula;
mod kernels;
mod key_set;
mod place;
mod sample;
mod show;
mod text_extreme;
mod text_filter;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hobt_base::{EXTENT_PAGES, FileId, PAGE_SIZE, PageId, Stamp};
use hobt_buffer::LOAD_PAGES_MAX;
use hobt_buffer::PageRun;
use hobt_page::{PageDamage, RowLayout, RowPage, Run, ValuePointer};
use hobt_txn::{IoCounts, Snapshot, StatementContext};

use crate::btree::LeafList;
use crate::hobt::Operation;
use crate::{AccessError, DataFile, LargeValues, RowStore, ValueReader};

pub use aggregate::{
    AggregateError, AggregateValue, Aggregator, Arithmetic, IntegerWidth, ScanAggregate, ScanExpression,
};
pub use column::{ColumnKind, ColumnVector, VectorData};
pub use count::Counts;
pub use dispenser::{DealerKind, Dispenser, PageRange};
pub use filter::{ColumnFilter, ScanLimits};
pub use formula::{Formula, PageRows};
pub use key_set::{KeySet, key_of_bytes};
pub use place::{KeyPlace, KeyPlaces, PlaceVector, RowPlace};
pub use sample::PageSample;
pub use text_filter::{TextCheck, TextFilter, TextTest};
pub use worker::{ScanWorker, WorkerProgress, WorkerReads};

/// Settings that the laboratory and the administrator vary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanSettings {
    /// Pages of one read, a multiple of an extent, at most 64.
    pub read_pages: u32,
    /// Reads in flight a scan, over all its workers.
    pub queue_depth: u32,
    /// Whether pages are read ahead (off: trace flag 652).
    pub read_ahead: bool,
    /// How ranges are dealt.
    pub dealer: DealerKind,
    /// A scan of more than this many percent of the pool reads past it.
    pub pool_share_percent: u32,
    /// Whether current rows are shown, committed or not (`NOLOCK`, or under locks), although the statement reads
    /// versions.
    pub reads_uncommitted: bool,
    /// The part of the pages that is read; `None` for all.
    pub sample: Option<PageSample>,
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
            sample: None,
        }
    }
}

/// One HOBT's part of a scan.
#[derive(Debug)]
pub struct ScanPartition {
    /// Where its rows are.
    pub store: RowStore,
    /// A heap's runs when the scan started.
    pub runs: Vec<Run>,
    /// How often pages had gone out of use then.
    since: u64,
    /// A tree's leaves.
    leaves: Option<LeafList>,
}

impl ScanPartition {
    fn begin(
        store: &RowStore,
        context: &Arc<StatementContext>,
        counts: &IoCounts,
        reads_ahead: bool,
    ) -> Result<ScanPartition, AccessError> {
        let (runs, since, leaves) = match store {
            RowStore::Heap(hobt) => {
                let (runs, since) = hobt.runs_in_use();
                (runs, since, None)
            }
            RowStore::Tree(tree) => {
                let since = tree.hobt().retired();
                (Vec::new(), since, Some(LeafList::read(tree, context, counts, reads_ahead)?))
            }
        };
        Ok(ScanPartition { store: store.clone(), runs, since, leaves })
    }

    /// Its pages with rows, contiguous pages as one range. `place_of` returns a file's index in the scan.
    fn pages(
        &self,
        partition: usize,
        place_of: impl Fn(FileId) -> Result<usize, AccessError>,
    ) -> Result<Vec<PageRange>, AccessError> {
        let Some(leaves) = &self.leaves else {
            let of_run = |run: &Run| {
                let (file, pages) = (place_of(run.first.file)?, run.row_pages());
                let (first, count) = (pages.start, pages.end - pages.start);
                Ok(PageRange { partition, file, first, count, leaf: 0, since: self.since })
            };
            return self.runs.iter().map(of_run).collect();
        };
        let mut ranges: Vec<PageRange> = Vec::new();
        for leaf in 0..leaves.len() {
            let (page, file) = (leaves.page(leaf), place_of(leaves.page(leaf).file)?);
            match ranges.last_mut() {
                Some(last) if last.file == file && last.first + last.count == page.number => last.count += 1,
                _ => {
                    let (first, since) = (page.number, self.since);
                    ranges.push(PageRange { partition, file, first, count: 1, leaf, since });
                }
            }
        }
        Ok(ranges)
    }
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
    unit_pages: u32,
    context: Arc<StatementContext>,
    /// The snapshot by which rows are shown; `None` for current rows.
    view: Option<Arc<Snapshot>>,
    counts: Arc<IoCounts>,
    read_bytes: AtomicU64,
}

/// The code that gets the pages of a scan, for one worker.
pub trait PageVisitor {
    /// Gets a page.
    ///
    /// # Errors
    /// An error stops the scan.
    fn visit(&mut self, shown: ShownPage<'_, '_>) -> Result<(), AccessError>;

    /// Whether it has enough for now. The rest of the range is kept until the next call.
    fn is_full(&self) -> bool {
        false
    }
}

/// A page that a scan shows.
#[derive(Clone, Copy, Debug)]
pub struct ShownPage<'a, 'n> {
    /// The index of its partition in the scan.
    pub partition: usize,
    /// Its address.
    pub id: PageId,
    /// The page. Live rows are those not deleted.
    pub page: &'a RowPage<'a>,
    /// The page after it. A visitor that works column by column prefetches a column of it before it reads that of this
    /// page. Spread out like that, the fetches overlap with its work.
    pub next: Option<&'a NextPage<'n>>,
}

/// The page that a scan shows next, if it is resident.
#[derive(Debug)]
pub struct NextPage<'a> {
    run: &'a PageRun<'a>,
    number: u32,
}

impl NextPage<'_> {
    /// Prefetches a column of the next page into the cache. Its position is assumed to be that in `page`, because
    /// neighbouring pages have the same layout.
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
        let (context, counts) = (&*self.scan.context, &*self.scan.counts);
        let partition = &self.scan.partitions[self.partition];
        let uncommitted_since = self.scan.view.is_none().then_some(partition.since);
        let reader = ValueReader { context, counts, uncommitted_since };
        partition.store.hobt().large_value(pointer, Some(reader))
    }

    fn damaged(&self, page: PageId, damage: PageDamage) -> AccessError {
        self.scan.damaged_page(page, damage)
    }
}

impl Scan {
    /// A scan of `stores` (one table's) by `workers` workers. Takes the runs and the leaves as they are now. For a tree
    /// it reads the pages above the leaves, and blocks on these reads.
    ///
    /// # Errors
    /// A run is in a file that does not exist, a page above the leaves is damaged or cannot be read, or the statement's
    /// memory is not enough for the list of leaves.
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
        let first = stores[0].hobt();
        // Before the runs are read: they then contain all that the view sees.
        let view = context.view().filter(|_| !settings.reads_uncommitted);
        if let Some(view) = &view {
            view.begin_scan();
        }
        let partitions = stores.iter().map(|store| ScanPartition::begin(store, &context, &counts, settings.read_ahead));
        let partitions = partitions.collect::<Result<Vec<_>, _>>()?;
        for store in stores {
            store.hobt().note_operations(Operation::RangeScan, 1);
            store.hobt().charge_reads(&counts);
        }
        let files = first.storage().files();
        let place_of = |id: FileId| {
            let place = files.iter().position(|file| file.id() == id);
            place.ok_or_else(|| AccessError::Closed(format!("the database has no file {id}")))
        };
        let mut pages = Vec::new();
        for (partition, part) in partitions.iter().enumerate() {
            pages.extend(part.pages(partition, place_of)?);
        }
        let unit_pages = sample::unit_pages(&pages);
        if let Some(sample) = &settings.sample {
            pages = sample.of(&pages);
        }
        let page_count: u64 = pages.iter().map(|range| u64::from(range.count)).sum();
        let pool_pages = first.storage().pool().statistics().frames;
        let through_pool = page_count * 100 <= pool_pages * u64::from(settings.pool_share_percent);
        let unit = if settings.read_ahead { settings.read_pages } else { settings.read_pages.min(8) };
        Ok(Arc::new(Scan {
            rows: Arc::clone(first.row_layout()),
            dispenser: Dispenser::new(&pages, unit, workers, settings.dealer),
            partitions,
            files,
            settings,
            through_pool,
            workers,
            page_count,
            unit_pages,
            context,
            view,
            counts,
            read_bytes: AtomicU64::new(0),
        }))
    }

    /// Pages whose newest writer is below this stamp are shown as they are.
    fn horizon(&self) -> Stamp {
        self.view.as_ref().map_or(Stamp(u64::MAX), |view| view.horizon())
    }

    /// Whether a page is a leaf that was split since the scan began. The caller has read the page before.
    fn is_split(&self, range: &PageRange, number: u32) -> bool {
        let leaves = &self.partitions[range.partition].leaves;
        leaves.as_ref().is_some_and(|leaves| leaves.is_split(range.leaf_of(number)))
    }

    /// Whether pages of the range's HOBT have gone out of use since those of the range were known to be in use. The
    /// caller has read them before, or holds them.
    fn may_be_retired(&self, range: &PageRange) -> bool {
        self.partitions[range.partition].store.hobt().retired() != range.since
    }

    /// The table's columns.
    pub fn row_layout(&self) -> &Arc<RowLayout> {
        &self.rows
    }

    /// The HOBTs, in the order of the indexes that visitors get.
    pub fn partitions(&self) -> &[ScanPartition] {
        &self.partitions
    }

    /// The number of pages that the scan covers.
    pub fn page_count(&self) -> u64 {
        self.page_count
    }

    /// Which unit of a sample a page is in: pages of one are taken or left out together.
    pub fn sampled_unit(&self, page: PageId) -> u64 {
        u64::from(page.file.0) << 32 | u64::from(page.number / self.unit_pages)
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

    /// Access to the values of partition `partition` that are not in their rows.
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
