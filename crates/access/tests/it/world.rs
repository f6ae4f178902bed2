//! A small database over a simulated disk, and rows to put into it.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use hobt_access::scan::{PageVisitor, Scan, ScanSettings, ScanWorker, ShownPage};
use hobt_access::{
    AccessError, AllocationCheck, DataFileDescription, Finding, Hobt, LargeValues, LoadColumn, LoadValues, Loader,
    RowStore, Storage, StorageSettings,
};
use hobt_base::{DatabaseId, FileId, FilegroupId, HobtId, PAGE_SIZE, PageId, SessionId, SplitMix64, Stamp};
use hobt_buffer::{BufferPool, PoolSettings};
use hobt_disk::{Disk, OpenOptions, SimulatedConfig, SimulatedDisk};
use hobt_page::{ColumnLayout, RowImage, RowLayout, RowPage, StoredValue, ValidityBits};
use hobt_txn::{IoCounts, MemoryBudget, StatementContext, StatementContextSettings};
use hobt_types::PhysicalType;

pub(crate) const TAG: u32 = 0x7461_6721;
pub(crate) const GROUP: FilegroupId = FilegroupId(1);

/// A row as the model keeps it.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

pub(crate) struct World {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) simulated: Option<Arc<SimulatedDisk>>,
    pub(crate) folder: PathBuf,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) storage: Arc<Storage>,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) pool_pages: usize,
}

#[derive(Clone, Copy)]
pub(crate) struct FileSize {
    pub(crate) pages: u32,
    pub(crate) growth_pages: u32,
    pub(crate) max_pages: u32,
}

pub(crate) fn file_of(pages: u32) -> FileSize {
    FileSize { pages, growth_pages: 0, max_pages: 0 }
}

impl World {
    pub(crate) fn new(pool_pages: usize, files: &[FileSize]) -> World {
        World::with(SimulatedConfig { track_unsynced: false, ..SimulatedConfig::default() }, pool_pages, files)
    }

    pub(crate) fn with(config: SimulatedConfig, pool_pages: usize, files: &[FileSize]) -> World {
        let simulated = SimulatedDisk::start(config).expect("a simulated disk");
        let disk: Arc<dyn Disk> = Arc::clone(&simulated) as Arc<dyn Disk>;
        disk.create_directory(Path::new("/data")).expect("a folder");
        World::on(disk, Some(simulated), PathBuf::from("/data"), pool_pages, files)
    }

    pub(crate) fn on(
        disk: Arc<dyn Disk>,
        simulated: Option<Arc<SimulatedDisk>>,
        folder: PathBuf,
        pool_pages: usize,
        files: &[FileSize],
    ) -> World {
        let pool = BufferPool::new(PoolSettings { bytes: pool_pages * PAGE_SIZE }).expect("a pool");
        let storage = Storage::new(DatabaseId(5), TAG, Arc::clone(&pool), StorageSettings::default(), None);
        let budget = MemoryBudget::new(1 << 30);
        let world = World { disk, simulated, folder, pool, storage, budget, pool_pages };
        for (index, size) in files.iter().enumerate() {
            world.storage.create_file(world.description(index, *size, true)).expect("a new file");
        }
        world
    }

    pub(crate) fn description(&self, index: usize, size: FileSize, create_new: bool) -> DataFileDescription {
        let path = self.folder.join(format!("file{index}.ndf"));
        let options = OpenOptions { create_new, read_only: false, direct: true };
        DataFileDescription {
            file: FileId(index as u16 + 1),
            filegroup: GROUP,
            name: format!("file{index}"),
            disk: self.disk.open(&path, options).expect("a file"),
            path,
            size_pages: size.pages,
            growth_pages: size.growth_pages,
            growth_percent: 0,
            max_pages: size.max_pages,
        }
    }

    /// Closes the files after a checkpoint and opens them again with a new pool.
    pub(crate) fn reopen(&mut self) {
        let files = self.storage.files();
        self.storage.flush().expect("a checkpoint");
        self.storage.close().expect("nothing is dirty");
        self.pool = BufferPool::new(PoolSettings { bytes: self.pool_pages * PAGE_SIZE }).expect("a pool");
        self.storage = Storage::new(DatabaseId(5), TAG, Arc::clone(&self.pool), StorageSettings::default(), None);
        for (index, file) in files.iter().enumerate() {
            let size = file_of(file.size_pages());
            self.storage.open_file(self.description(index, size, false)).expect("a file that is there");
        }
    }

    /// A run that a statement has allocated.
    pub(crate) fn allocate(&self, wanted: u32) -> Result<(PageId, u32), AccessError> {
        let context = self.context();
        let run = self.storage.allocate_for(&context, GROUP, wanted)?;
        context.commit().expect("nothing is put off");
        Ok((run.first, run.extents))
    }

    pub(crate) fn context(&self) -> Arc<StatementContext> {
        self.cancellable(Arc::default())
    }

    pub(crate) fn cancellable(&self, cancelled: Arc<AtomicBool>) -> Arc<StatementContext> {
        let settings = StatementContextSettings {
            session: SessionId(51),
            stamp: Stamp(7),
            degree_of_parallelism: 4,
            memory: Arc::clone(&self.budget),
        };
        StatementContext::new(&settings, cancelled)
    }

    pub(crate) fn create(&self, rows: &Arc<RowLayout>) -> Arc<Hobt> {
        let context = self.context();
        let hobt = Hobt::create(&self.storage, HobtId(77), GROUP, Arc::clone(rows), 3, &context).expect("room");
        context.commit().expect("nothing to do");
        hobt
    }

    pub(crate) fn open(&self, rows: &Arc<RowLayout>, run_list: PageId) -> Arc<Hobt> {
        Hobt::open(&self.storage, HobtId(77), GROUP, Arc::clone(rows), 3, run_list).expect("a sound heap")
    }

    /// The findings of a check, with these heaps as the only owners of extents.
    pub(crate) fn findings(&self, hobts: &[&Hobt]) -> Vec<Finding> {
        let mut check = AllocationCheck::new(&self.storage).expect("readable maps");
        for hobt in hobts {
            check.add_hobt(hobt).expect("readable pages");
        }
        check.finish()
    }

    pub(crate) fn assert_sound(&self, hobts: &[&Hobt]) {
        assert_eq!(self.findings(hobts), []);
    }

    pub(crate) fn free_extents(&self) -> u32 {
        self.storage.files().iter().map(|file| file.free_extents()).sum()
    }

    /// Loads rows in batches of these sizes and publishes them; not committed.
    pub(crate) fn load(
        &self,
        hobt: &Arc<Hobt>,
        context: &Arc<StatementContext>,
        rows: &[Row],
        batch_rows: &mut dyn FnMut() -> usize,
    ) -> Result<(), AccessError> {
        let mut loader = Loader::new(Arc::clone(hobt), Arc::clone(context));
        let mut rest = rows;
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(batch_rows().min(rest.len()));
            append(&mut loader, hobt.row_layout(), batch)?;
            rest = later;
        }
        let loaded = loader.finish()?;
        hobt.publish(context, vec![loaded])
    }

    /// A heap with `count` random rows that is on disk and not in the pool.
    pub(crate) fn cold_heap(&self, count: usize, seed: u64) -> (Arc<Hobt>, Vec<Row>) {
        let layout = table();
        let mut random = SplitMix64::new(seed);
        let rows: Vec<Row> = (0..count).map(|_| random_row(&mut random, &layout, 60)).collect();
        let hobt = self.create(&layout);
        let context = self.context();
        self.load(&hobt, &context, &rows, &mut || 1000).expect("room");
        context.commit().expect("nothing fails");
        self.make_cold();
        (hobt, rows)
    }

    pub(crate) fn make_cold(&self) {
        self.storage.flush().expect("a checkpoint");
        self.pool.drop_clean_buffers(None);
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.storage.files().iter().map(|file| file.disk().statistics().snapshot().reads.bytes).sum()
    }
}

pub(crate) fn table() -> Arc<RowLayout> {
    let column = |physical, nullable| ColumnLayout { physical, nullable };
    Arc::new(RowLayout::new(vec![
        column(PhysicalType::Fixed8, false),
        column(PhysicalType::Variable, true),
        column(PhysicalType::Fixed4, true),
        column(PhysicalType::Variable, false),
        column(PhysicalType::Fixed1, true),
        column(PhysicalType::Fixed16, true),
    ]))
}

pub(crate) fn random_row(random: &mut SplitMix64, layout: &RowLayout, text_max: u64) -> Row {
    layout
        .columns()
        .iter()
        .map(|column| {
            if column.nullable && random.below(4) == 0 {
                return None;
            }
            let length = match column.physical.width() {
                Some(width) => width as u64,
                None if random.below(4) == 0 => 0,
                None => random.below(text_max + 1),
            };
            Some((0..length).map(|_| random.below(256) as u8).collect())
        })
        .collect()
}

pub(crate) fn image(row: &Row) -> RowImage {
    RowImage::new(row.iter().map(|value| value.as_deref()))
}

/// A column of a batch.
pub(crate) struct OwnedColumn<'a> {
    is_fixed: bool,
    fixed: Vec<u8>,
    variable: Vec<&'a [u8]>,
    bits: Vec<u8>,
    nulls: bool,
}

impl OwnedColumn<'_> {
    pub(crate) fn borrow(&self) -> LoadColumn<'_> {
        LoadColumn {
            values: match self.is_fixed {
                true => LoadValues::Fixed(&self.fixed),
                false => LoadValues::Variable(self.variable.clone()),
            },
            validity: self.nulls.then_some(ValidityBits { bytes: &self.bits, offset: 3 }),
        }
    }
}

/// Rows as the columns of a batch.
pub(crate) fn load_columns<'a>(layout: &RowLayout, rows: &'a [Row]) -> Vec<OwnedColumn<'a>> {
    layout
        .columns()
        .iter()
        .enumerate()
        .map(|(place, described)| {
            let (mut fixed, mut variable, mut nulls) = (Vec::new(), Vec::new(), false);
            // Bits of a longer batch: the offset is not a multiple of eight.
            let mut bits = vec![0u8; (rows.len() + 3).div_ceil(8)];
            for (index, row) in rows.iter().enumerate() {
                match (&row[place], described.physical.width()) {
                    (Some(value), Some(_)) => fixed.extend_from_slice(value),
                    (Some(value), None) => variable.push(value.as_slice()),
                    (None, Some(width)) => fixed.extend(std::iter::repeat_n(0xEE, width)),
                    (None, None) => variable.push(&[][..]),
                }
                nulls |= row[place].is_none();
                bits[(index + 3) / 8] |= u8::from(row[place].is_some()) << ((index + 3) % 8);
            }
            OwnedColumn { is_fixed: described.physical.width().is_some(), fixed, variable, bits, nulls }
        })
        .collect()
}

/// Appends a batch of rows to a loader.
pub(crate) fn append(loader: &mut Loader, layout: &RowLayout, rows: &[Row]) -> Result<(), AccessError> {
    let columns = load_columns(layout, rows);
    loader.append(rows.len(), &columns.iter().map(OwnedColumn::borrow).collect::<Vec<_>>())
}

/// The live rows of a page.
pub(crate) fn rows_of(page: &RowPage<'_>, values: &dyn LargeValues) -> Vec<Row> {
    let whole = |stored| match stored {
        StoredValue::Null => None,
        StoredValue::InRow(bytes) => Some(bytes.to_vec()),
        StoredValue::Pointer(pointer) => Some(values.fetch(&pointer).expect("a sound chain")),
    };
    (0..page.row_count())
        .filter(|&slot| !page.is_deleted(slot))
        .map(|slot| {
            (0..page.row_layout().columns().len())
                .map(|column| whole(page.stored(column, slot).expect("a sound page")))
                .collect()
        })
        .collect()
}

/// The live rows of a heap, in order.
pub(crate) fn rows_in(hobt: &Hobt) -> Vec<Row> {
    let mut rows = Vec::new();
    hobt.for_each_page(&mut |_, page| {
        rows.extend(rows_of(page, hobt));
        Ok(())
    })
    .expect("readable pages");
    rows
}

pub(crate) fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_unstable();
    rows
}

/// Collects rows, and the number of pages shown.
#[derive(Default)]
pub(crate) struct Collect {
    pub(crate) rows: Vec<Row>,
    pub(crate) pages: u64,
    /// The source of large values; not needed for tables that have none.
    pub(crate) scan: Option<Arc<Scan>>,
}

impl PageVisitor for Collect {
    fn visit(&mut self, ShownPage { partition, page, .. }: ShownPage<'_, '_>) -> Result<(), AccessError> {
        match &self.scan {
            Some(scan) => self.rows.extend(rows_of(page, &scan.large_values(partition))),
            None => {
                let value = |column, slot| page.value(column, slot).expect("a value in its row").map(<[u8]>::to_vec);
                let live = (0..page.row_count()).filter(|&slot| !page.is_deleted(slot));
                let columns = page.row_layout().columns().len();
                self.rows.extend(live.map(|slot| (0..columns).map(|column| value(column, slot)).collect::<Row>()));
            }
        }
        self.pages += 1;
        Ok(())
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// One worker's part of a scan, on this thread.
pub(crate) fn run_worker(scan: &Arc<Scan>, visitor: &mut dyn PageVisitor) -> Result<ScanWorker, AccessError> {
    let mut worker = ScanWorker::new(Arc::clone(scan));
    while let Some(range) = block_on(poll_fn(|task| worker.poll_range(task, visitor))) {
        range?;
    }
    Ok(worker)
}

pub(crate) struct Scanned {
    pub(crate) rows: Vec<Row>,
    pub(crate) pages: u64,
    pub(crate) counts: Arc<IoCounts>,
    pub(crate) scan: Arc<Scan>,
}

pub(crate) fn loaded(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Scans heaps with `workers` threads.
pub(crate) fn scan(
    world: &World,
    hobts: &[Arc<Hobt>],
    workers: usize,
    settings: ScanSettings,
) -> Result<Scanned, AccessError> {
    let counts = Arc::new(IoCounts::default());
    let stores: Vec<RowStore> = hobts.iter().cloned().map(RowStore::Heap).collect();
    let scan = Scan::new(&stores, workers, settings, world.context(), Arc::clone(&counts))?;
    let results: Vec<Result<Collect, AccessError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| {
                    let mut collect = Collect { scan: Some(Arc::clone(&scan)), ..Collect::default() };
                    run_worker(&scan, &mut collect).map(|_| collect)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut rows = Vec::new();
    let mut pages = 0;
    for result in results {
        let collect = result?;
        rows.extend(collect.rows);
        pages += collect.pages;
    }
    Ok(Scanned { rows, pages, counts, scan })
}
