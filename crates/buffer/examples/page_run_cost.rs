//! What a warm scan pays for a page: `cargo run --release -p hobt-buffer --example page_run_cost`.
//!
//! Medians in nanoseconds a page, of: ten header words copied through a [`hobt_buffer::PageRun`] with prefetching; the
//! copy without prefetching; a shared guard taken and released.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hobt_base::{DatabaseId, FileId, HobtId, PAGE_SIZE, PageId};
use hobt_buffer::{BufferPool, Optimistic, PageRun, PoolFileDescription, PoolSettings, TryRead};
use hobt_disk::{Disk, OpenOptions, SimulatedConfig, SimulatedDisk};
use hobt_page::{PageHeader, PageType};

/// 1 GiB, so that no cache holds it.
const PAGES: u32 = 1 << 17;
const DISTANCE: u32 = 24;

fn median_ns_a_page(mut pass: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            let since = Instant::now();
            pass();
            since.elapsed().as_secs_f64() * 1e9 / f64::from(PAGES)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn copy_words(run: &PageRun<'_>, ahead: bool) -> u64 {
    let mut sum = 0;
    let mut words = [0; 10];
    for number in 0..PAGES {
        if ahead && number + DISTANCE < PAGES {
            run.prefetch(number + DISTANCE, 64, 80);
        }
        assert_eq!(run.optimistic_words(number, 8, &mut words), Optimistic::Ok);
        sum += words.iter().sum::<u64>();
    }
    sum
}

fn main() {
    let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
    let options = OpenOptions { create_new: true, read_only: false, direct: true };
    let file = disk.open(Path::new("a.mdf"), options).expect("a file in memory");
    file.set_size(u64::from(PAGES) * PAGE_SIZE as u64).expect("memory");
    let settings = PoolSettings { bytes: (PAGES as usize + 1024) * PAGE_SIZE };
    let pool = BufferPool::new(settings).expect("memory");
    let pages = pool.register_file(PoolFileDescription {
        database: DatabaseId(5),
        database_tag: 1,
        file: FileId(1),
        disk: Arc::clone(&file),
        log: None,
    });
    for number in 0..PAGES {
        let mut page = pages.create(number).expect("a frame");
        PageHeader::new(PageType::Row, PageId::new(FileId(1), number), 1, HobtId(1)).write(&mut page);
    }
    let run = pages.page_run(0, PAGES);
    let prefetched = median_ns_a_page(|| {
        black_box(copy_words(&run, true));
    });
    let plain = median_ns_a_page(|| {
        black_box(copy_words(&run, false));
    });
    let guard = median_ns_a_page(|| {
        for number in 0..PAGES {
            let TryRead::Guard(page) = run.try_read(number) else { panic!("page {number} is resident") };
            black_box(page[64]);
        }
    });
    println!("ten words: {prefetched:.1} ns with prefetch, {plain:.1} without; a guard and one byte: {guard:.1} ns");
}
