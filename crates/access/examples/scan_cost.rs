//! What a bulk load, a cold scan, a warm count and warm aggregates cost, without SQL above them.
//!
//! `cargo run --release -p hobt-access --example scan_cost -- [rows] [folder]`: loads rows of BigData's shape with one
//! loader, then scans them with one and two workers. Prints medians of five runs. Removes its file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use hobt_access::scan::{
    Aggregator, Arithmetic, Counts, IntegerWidth, PageVisitor, Scan, ScanAggregate, ScanExpression, ScanSettings,
    ScanWorker, ShownPage,
};
use hobt_access::{
    AccessError, DataFileDescription, Hobt, LoadColumn, LoadValues, Loader, RowStore, Storage, StorageSettings,
};
use hobt_base::{DatabaseId, FileId, FilegroupId, HobtId, SessionId, SplitMix64, Stamp};
use hobt_buffer::{BufferPool, PoolSettings};
use hobt_disk::{DiskKind, OpenOptions, open_disk};
use hobt_page::{ColumnLayout, RowLayout, ValidityBits};
use hobt_txn::{IoCounts, MemoryBudget, StatementContext, StatementContextSettings};
use hobt_types::{Collation, PhysicalType};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Drives a worker on this thread.
fn drive(mut poll: impl FnMut(&mut Context<'_>) -> Poll<Option<Result<(), AccessError>>>) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match poll(&mut context) {
            Poll::Ready(Some(done)) => done.expect("a sound table"),
            Poll::Ready(None) => return,
            Poll::Pending => std::thread::park(),
        }
    }
}

struct Aggregate(Aggregator, Arc<Scan>);

impl PageVisitor for Aggregate {
    fn visit(&mut self, ShownPage { partition, page, next, .. }: ShownPage<'_, '_>) -> Result<(), AccessError> {
        self.0.add_page(page, next, &self.1.large_values(partition)).expect("no overflow");
        Ok(())
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn context() -> Arc<StatementContext> {
    let settings = StatementContextSettings {
        session: SessionId(51),
        stamp: Stamp(1),
        degree_of_parallelism: 2,
        memory: MemoryBudget::new(8 << 30),
    };
    StatementContext::new(&settings, Arc::default())
}

fn load(hobt: &Arc<Hobt>, rows: usize) -> Duration {
    const BATCH: usize = 8192;
    let names = [
        "Alexandra",
        "Blake",
        "Christine",
        "Dalton",
        "Elizabeth",
        "Fernando",
        "Grace",
        "Hunter",
        "Isabella",
        "Jon",
        "Kayla",
        "Lucas",
        "Morgan",
        "Nathan",
        "Olivia",
        "Pedro",
        "Rachel",
        "Seth",
        "Taylor",
        "Victoria",
        "Wyatt",
        "Xavier",
        "Yolanda",
        "Zoe",
    ];
    let mut random = SplitMix64::new(4);
    let mixed: Vec<&str> = (0..BATCH).map(|_| names[random.below(names.len() as u64) as usize]).collect();
    let context = context();
    let start = Instant::now();
    let mut loader = Loader::new(Arc::clone(hobt), Arc::clone(&context));
    let nulls: Vec<u8> = (0..BATCH / 8).map(|byte| (byte * 37 % 256) as u8).collect();
    let mut at = 0;
    while at < rows {
        let id = (at / BATCH) as i64;
        let fixed: Vec<Vec<u8>> = [id % 24, id + 1, id + 2, id + 3, id + 4]
            .iter()
            .map(|value| std::iter::repeat_n(value.to_le_bytes(), BATCH).flatten().collect())
            .collect();
        let text = |strings: &[&'static str]| -> Vec<&'static [u8]> {
            (0..BATCH).map(|row| strings[row % strings.len()].as_bytes()).collect()
        };
        let bits = Some(ValidityBits { bytes: &nulls, offset: 0 });
        let address = ["3761 N. 14th St", "2243 W St.", "5844 Linden Land", "1825 Village Pl.", "7553 Harness Circle"];
        let with_nulls = |strings: &[&'static str]| -> LoadValues<'static> {
            let values = text(strings).into_iter().enumerate();
            LoadValues::Variable(
                values.map(|(row, value)| if nulls[row / 8] >> (row % 8) & 1 == 1 { value } else { &[][..] }).collect(),
            )
        };
        let mut columns: Vec<LoadColumn<'_>> =
            fixed.iter().map(|bytes| LoadColumn { values: LoadValues::Fixed(bytes), validity: None }).collect();
        columns.push(LoadColumn { values: with_nulls(&address), validity: bits });
        columns.push(LoadColumn { values: with_nulls(&address), validity: bits });
        columns.push(LoadColumn { values: LoadValues::Variable(text(&mixed)), validity: None });
        columns.push(LoadColumn { values: with_nulls(&["L", "R", "V"]), validity: bits });
        columns.push(LoadColumn { values: LoadValues::Variable(text(&["Yang", "Huang", "Torres"])), validity: None });
        columns.push(LoadColumn { values: LoadValues::Variable(text(&["AW00011000"])), validity: None });
        loader.append(BATCH, &columns).expect("room on the disk");
        at += BATCH;
    }
    let loaded = loader.finish().expect("room on the disk");
    hobt.publish(&context, vec![loaded]).expect("room in the run list");
    context.commit().expect("nothing to undo");
    start.elapsed()
}

/// Elapsed time, processor time of the workers, pages read.
fn scan(hobt: &Arc<Hobt>, workers: usize, settings: ScanSettings, work: &str) -> (Duration, Duration, u64) {
    let counts = Arc::new(IoCounts::default());
    let start = Instant::now();
    let cpu = AtomicU64::new(0);
    let stores = [RowStore::Heap(Arc::clone(hobt))];
    let scan = Scan::new(&stores, workers, settings, context(), Arc::clone(&counts)).expect("the file is there");
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut worker = ScanWorker::new(Arc::clone(&scan));
                if work == "count" {
                    let mut counts = Counts::new((0..10).collect());
                    drive(|context| worker.poll_counts(context, &mut counts));
                } else {
                    let column = |place| ScanExpression::Column(place);
                    let sum = ScanExpression::Arithmetic {
                        operation: Arithmetic::Add,
                        left: Box::new(column(0)),
                        right: Box::new(column(1)),
                        width: IntegerWidth::Signed64,
                    };
                    let aggregator = Aggregator::new(vec![
                        ScanAggregate::Max(sum),
                        ScanAggregate::Max(column(4)),
                        ScanAggregate::Max(ScanExpression::Length(5)),
                        ScanAggregate::MaxText(7, Collation::Latin1GeneralCiAs),
                        ScanAggregate::Sum(column(2)),
                    ]);
                    let mut aggregate = Aggregate(aggregator, Arc::clone(&scan));
                    drive(|context| worker.poll_range(context, &mut aggregate));
                }
                let spent = hobt_instruments::processor::thread_cpu_time().as_nanos();
                cpu.fetch_add(u64::try_from(spent).expect("a short run"), Ordering::Relaxed);
            });
        }
    });
    let cpu = Duration::from_nanos(cpu.into_inner());
    (
        start.elapsed(),
        cpu,
        counts.read_ahead_reads.load(Ordering::Relaxed) + counts.physical_reads.load(Ordering::Relaxed),
    )
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rows: usize = arguments.next().map_or(4_000_000, |rows| rows.parse().expect("a number of rows"));
    let folder = arguments.next().unwrap_or_else(|| ".".to_owned());
    let path = std::path::Path::new(&folder).join("scan_cost.mdf");
    let disk = open_disk(DiskKind::Auto).expect("a disk");
    let file = disk.open(&path, OpenOptions { create_new: true, read_only: false, direct: true }).expect("a new file");
    let pool = BufferPool::new(PoolSettings { bytes: 6 << 30 }).expect("memory");
    let storage = Storage::new(DatabaseId(5), 1, Arc::clone(&pool), StorageSettings::default(), None);
    storage
        .create_file(DataFileDescription {
            file: FileId(1),
            filegroup: FilegroupId(1),
            name: "scan_cost".to_owned(),
            path: path.clone(),
            disk: file,
            size_pages: 1024,
            growth_pages: 32768,
            growth_percent: 0,
            max_pages: 0,
        })
        .expect("room on the disk");
    let fixed = ColumnLayout { physical: PhysicalType::Fixed8, nullable: true };
    let text = ColumnLayout { physical: PhysicalType::Variable, nullable: true };
    let layout = Arc::new(RowLayout::new([vec![fixed; 5], vec![text; 6]].concat()));
    let creation = context();
    let hobt = Hobt::create(&storage, HobtId(1), FilegroupId(1), layout, 1, &creation).expect("room");
    creation.commit().expect("nothing to undo");
    let time = load(&hobt, rows);
    let bytes = hobt.used_pages() * 8192;
    let seconds = time.as_secs_f64();
    println!(
        "disk {}: {} pages, {:.1} rows a page",
        disk.kind(),
        hobt.used_pages(),
        rows as f64 / hobt.used_pages() as f64
    );
    println!("load: {:.0} ns a row, {:.0} MB/s", seconds * 1e9 / rows as f64, bytes as f64 / 1e6 / seconds);
    let past = ScanSettings { pool_share_percent: 0, ..ScanSettings::default() };
    for (name, settings) in [("past the pool", past), ("through the pool", ScanSettings::default())] {
        let times = (0..3)
            .map(|_| {
                pool.drop_clean_buffers(None);
                scan(&hobt, 2, settings, "count").0
            })
            .collect();
        println!("cold count {name}: {:.0} MB/s", bytes as f64 / 1e6 / median(times).as_secs_f64());
    }
    for work in ["count", "aggregates"] {
        for workers in [1, 2] {
            let runs: Vec<(Duration, Duration, u64)> =
                (0..9).map(|_| scan(&hobt, workers, ScanSettings::default(), work)).collect();
            assert!(runs.iter().all(|(_, _, reads)| *reads == 0), "warm");
            let cpu = median(runs.iter().map(|(_, cpu, _)| *cpu).collect()).as_secs_f64();
            let time = median(runs.into_iter().map(|(time, ..)| time).collect()).as_secs_f64();
            println!(
                "warm {work}, {workers} workers: {:.1} ms; processor time {:.2} ns a row, {:.0} ns a page",
                time * 1e3,
                cpu * 1e9 / rows as f64,
                cpu * 1e9 / hobt.used_pages() as f64
            );
        }
    }
    std::fs::remove_file(&path).expect("the file was made above");
}
