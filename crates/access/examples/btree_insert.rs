//! How long an insert into a B+tree takes, by the order of the keys and the number of threads.
//!
//! `cargo run --release -p hobt-access --example btree_insert -- [ROWS [no-log]]`: rows of a `bigint` key, an `int` and
//! 24 bytes of text, over a disk in memory that takes no time, with a log and without one. A thousand rows are a
//! statement. Prints nanoseconds of a thread for a row, those in which it was busy and all.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use hobt_access::{
    BTree, Cursor, DataFileDescription, Direction, KeyRange, Storage, StorageSettings, TreeDescription, TreeKey,
    TreeKeyColumn,
};
use hobt_base::{DatabaseId, FileId, FilegroupId, HobtId, PAGE_SIZE, SessionId, Stamp};
use hobt_buffer::{BufferPool, PoolSettings};
use hobt_disk::{Disk, OpenOptions, SimulatedConfig, SimulatedDisk};
use hobt_instruments::processor::thread_cpu_time;
use hobt_log::{Log, LogFile};
use hobt_page::{ColumnLayout, RowImage, RowLayout};
use hobt_txn::{MemoryBudget, StatementContext, StatementContextSettings, TransactionLog};
use hobt_types::{Collation, KeyColumn, PhysicalType, SqlType};

const POOL_PAGES: usize = 1 << 17;
const FILE_PAGES: u32 = 1 << 17;
const ROWS_A_STATEMENT: u64 = 1000;
const LOG_BYTES: u64 = 2 << 30;

fn description() -> TreeDescription {
    let column = |physical| ColumnLayout { physical, nullable: false };
    let columns = vec![column(PhysicalType::Fixed8), column(PhysicalType::Fixed4), column(PhysicalType::Variable)];
    let key = KeyColumn::new(SqlType::BigInt, Collation::default(), false, false).expect("a key's type");
    TreeDescription {
        id: HobtId(100),
        filegroup: FilegroupId(1),
        rows: Arc::new(RowLayout::new(columns).ordered()),
        layout_version: 1,
        key: Arc::new(TreeKey::new(vec![TreeKeyColumn { column: 0, key }])),
    }
}

fn storage(has_log: bool) -> Arc<Storage> {
    let config = SimulatedConfig { track_unsynced: false, ..SimulatedConfig::default() };
    let disk = SimulatedDisk::start(config).expect("a disk in memory");
    let open = |path: &str| {
        let options = OpenOptions { create_new: true, direct: true, ..OpenOptions::default() };
        disk.open(Path::new(path), options).expect("a file")
    };
    let log = has_log.then(|| {
        let file = LogFile {
            disk: open("/log"),
            id: 2,
            name: String::new(),
            bytes: LOG_BYTES,
            growth_bytes: 0,
            bytes_max: LOG_BYTES,
        };
        TransactionLog::new(Arc::new(Log::create(&[file], 1, 8 << 20).expect("room")))
    });
    let pool = BufferPool::new(PoolSettings { bytes: POOL_PAGES * PAGE_SIZE }).expect("memory");
    let storage = Storage::new(DatabaseId(5), 1, pool, StorageSettings::default(), log);
    let file = DataFileDescription {
        file: FileId(1),
        filegroup: FilegroupId(1),
        name: "data".to_owned(),
        disk: open("/data"),
        path: "/data".into(),
        size_pages: FILE_PAGES,
        growth_pages: 0,
        growth_percent: 0,
        max_pages: 0,
    };
    storage.create_file(file).expect("room");
    storage
}

fn statement(stamp: u64) -> Arc<StatementContext> {
    let settings = StatementContextSettings {
        session: SessionId(51),
        stamp: Stamp(stamp),
        degree_of_parallelism: 1,
        memory: MemoryBudget::new(1 << 30),
    };
    StatementContext::new(&settings, Arc::new(AtomicBool::new(false)))
}

/// The `index`-th key of a thread.
fn key(is_rising: bool, index: u64, thread: u64, threads: u64) -> u64 {
    let number = index * threads + thread;
    if is_rising { number } else { number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1 }
}

/// Inserts and scans. Returns nanoseconds a row: busy, in all, and to pass.
fn round(rows: u64, threads: u64, is_rising: bool, has_log: bool) -> [f64; 3] {
    let storage = storage(has_log);
    let context = statement(1);
    let tree = BTree::create(&storage, &description(), &context).expect("room");
    context.commit().expect("the log is well");
    let started = Instant::now();
    let busy = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (tree, busy) = (Arc::clone(&tree), &busy);
            scope.spawn(move || {
                let mut context = statement(2 + thread);
                for index in 0..rows / threads {
                    if index % ROWS_A_STATEMENT == 0 {
                        context.commit().expect("the log is well");
                        context = statement(2 + thread + threads * index);
                    }
                    let key = key(is_rising, index, thread, threads).to_le_bytes();
                    let number = (index as u32).to_le_bytes();
                    let row = RowImage::new([&key[..], &number[..], &b"four and twenty of bytes"[..]].map(Some));
                    tree.insert(&context, &row).expect("a new key");
                }
                context.commit().expect("the log is well");
                busy.fetch_add(thread_cpu_time().as_nanos() as u64, Ordering::Relaxed);
            });
        }
    });
    let elapsed = started.elapsed().as_nanos() as f64 * threads as f64 / rows as f64;
    let busy = busy.into_inner() as f64 / rows as f64;
    let started = Instant::now();
    let mut count = 0;
    let mut cursor = Cursor::new(Arc::clone(&tree), KeyRange::all(), Direction::Forward);
    while cursor
        .next_leaf(&mut |_, _, positions| {
            count += positions.len() as u64;
            Ok(())
        })
        .expect("readable")
    {}
    assert_eq!(count, rows / threads * threads, "each row once");
    let scanned = started.elapsed().as_nanos() as f64 / rows as f64;
    if threads == 1 && !has_log {
        let figures = tree.figures().expect("sound");
        println!("  pages by level {:?}, leaves {:.0} % full", figures.pages, 100.0 * figures.fill());
    }
    [busy, elapsed, scanned]
}

fn main() {
    let rows = std::env::args().nth(1).map_or(1_000_000, |rows| rows.parse().expect("a number of rows"));
    println!("{rows} rows");
    let with_log: &[bool] = if std::env::args().nth(2).is_some() { &[false] } else { &[false, true] };
    for &has_log in with_log {
        for is_rising in [true, false] {
            for threads in [1, 2] {
                let mut rounds: Vec<[f64; 3]> = (0..3).map(|_| round(rows, threads, is_rising, has_log)).collect();
                rounds.sort_by(|one, other| one[0].total_cmp(&other[0]));
                let [busy, elapsed, scan] = rounds[1];
                let order = if is_rising { "rising" } else { "random" };
                let log = if has_log { "log" } else { "no log" };
                println!(
                    "{log}, {order} keys, {threads} threads: {busy:.0} ns busy and {elapsed:.0} ns in all an insert, {scan:.1} to pass a row"
                );
            }
        }
    }
}
