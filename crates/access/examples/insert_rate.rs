//! Rows a second that one thread inserts one by one into a heap in memory.
//!
//! `cargo run --release -p hobt-access --example insert_rate [rows]`

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use hobt_access::{DataFileDescription, Hobt, Storage, StorageSettings};
use hobt_base::{DatabaseId, FileId, FilegroupId, HobtId, SessionId, Stamp};
use hobt_buffer::{BufferPool, PoolSettings};
use hobt_disk::{Disk, OpenOptions, SimulatedConfig, SimulatedDisk};
use hobt_page::{ColumnLayout, RowImage, RowLayout};
use hobt_txn::{MemoryBudget, StatementContext, StatementContextSettings};
use hobt_types::PhysicalType;

const ROWS_A_STATEMENT: u32 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows: u32 = std::env::args().nth(1).map_or(Ok(300_000), |text| text.parse())?;
    let disk = SimulatedDisk::start(SimulatedConfig { track_unsynced: false, ..SimulatedConfig::default() })?;
    let pool = BufferPool::new(PoolSettings { bytes: 256 << 20 })?;
    let storage = Storage::new(DatabaseId(5), 1, pool, StorageSettings::default(), None);
    storage.create_file(DataFileDescription {
        file: FileId(1),
        filegroup: FilegroupId(1),
        name: "data".to_owned(),
        path: PathBuf::from("/data.mdf"),
        disk: disk.open(Path::new("/data.mdf"), OpenOptions { create_new: true, read_only: false, direct: true })?,
        size_pages: 8192,
        growth_pages: 8192,
        growth_percent: 0,
        max_pages: 0,
    })?;
    let column = |physical, nullable| ColumnLayout { physical, nullable };
    let layout = Arc::new(RowLayout::new(vec![
        column(PhysicalType::Fixed8, false),
        column(PhysicalType::Fixed4, true),
        column(PhysicalType::Fixed8, true),
        column(PhysicalType::Variable, true),
        column(PhysicalType::Variable, true),
    ]));
    let context = || {
        let settings = StatementContextSettings {
            session: SessionId(51),
            stamp: Stamp(1),
            degree_of_parallelism: 1,
            memory: MemoryBudget::new(1 << 30),
        };
        StatementContext::new(&settings, Arc::default())
    };
    let first = context();
    let hobt = Hobt::create(&storage, HobtId(1), FilegroupId(1), layout, 1, &first)?;
    first.commit()?;
    let text = b"the quick brown fox jumps over the lazy dog";
    let since = Instant::now();
    let mut statement = context();
    for number in 0..rows {
        let key = u64::from(number).to_le_bytes();
        let length = (number.wrapping_mul(2_654_435_761) >> 16) as usize % text.len();
        let values = [
            Some(&key[..]),
            Some(&key[..4]),
            (number % 3 > 0).then_some(&key[..]),
            Some(&text[..length]),
            (number % 5 > 0).then_some(&text[length..]),
        ];
        hobt.insert(&statement, &RowImage::new(values))?;
        if number % ROWS_A_STATEMENT == 0 {
            statement.commit()?;
            statement = context();
        }
    }
    statement.commit()?;
    let seconds = since.elapsed().as_secs_f64();
    println!("{rows} rows in {seconds:.3} s: {:.0} rows/s, {} pages", f64::from(rows) / seconds, hobt.data_pages());
    Ok(())
}
