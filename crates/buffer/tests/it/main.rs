//! The pool from outside, over the simulated disk: concurrency, pressure, damage, loads, write-back.

mod concurrency;
mod extension;
mod loads;
mod pages;
mod write_back;

use std::path::Path;
use std::sync::Arc;

use hobt_base::{DatabaseId, FileId, HobtId, PAGE_SIZE, PageId};
use hobt_buffer::{BufferPool, PoolFile, PoolFileDescription, PoolSettings};
use hobt_disk::{AlignedBuffer, Disk, DiskFile, OpenOptions, SimulatedConfig, SimulatedDisk};
use hobt_page::{PageBytes, PageHeader, PageType, seal};

const TAG: u32 = 0x0BF7_0001;
const DATABASE: DatabaseId = DatabaseId(7);
/// The first word after the header.
const BODY: usize = 8;

/// A file on a disk of its own, and a pool.
struct World {
    disk: Arc<SimulatedDisk>,
    file: Arc<dyn DiskFile>,
    pool: Arc<BufferPool>,
    pages: Arc<PoolFile>,
}

/// A pool of `frames` frames over a file of `pages` formatted pages.
fn world(frames: usize, pages: u32) -> World {
    world_with(SimulatedConfig::default(), frames, pages)
}

fn world_with(config: SimulatedConfig, frames: usize, pages: u32) -> World {
    let disk = SimulatedDisk::start(config).expect("a disk");
    let options = OpenOptions { create_new: true, read_only: false, direct: true };
    let file = disk.open(Path::new("a.mdf"), options).expect("a file");
    file.set_size(u64::from(pages) * PAGE_SIZE as u64).expect("room");
    let mut content = AlignedBuffer::new(pages as usize * PAGE_SIZE).expect("memory");
    for (number, page) in (0..).zip(content.chunks_exact_mut(PAGE_SIZE)) {
        let page: &mut PageBytes = page.try_into().expect("a page");
        format(page, number);
        seal(page);
    }
    file.write_at(&content, 0).expect("the first contents");
    let pool = BufferPool::new(PoolSettings { bytes: frames * PAGE_SIZE }).expect("memory");
    let pages = register(&pool, &file);
    World { disk, file, pool, pages }
}

fn register(pool: &Arc<BufferPool>, file: &Arc<dyn DiskFile>) -> Arc<PoolFile> {
    pool.register_file(PoolFileDescription {
        database: DATABASE,
        database_tag: TAG,
        file: FileId(1),
        disk: file.clone(),
        log: None,
    })
}

fn format(page: &mut PageBytes, number: u32) {
    PageHeader::new(PageType::Row, PageId::new(FileId(1), number), TAG, HobtId(1)).write(page);
}

/// Writes `counter` into every word after the header.
fn fill(page: &mut PageBytes, counter: u64) {
    page[BODY * 8..].chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&counter.to_ne_bytes()));
}

/// The counter, if every word has the same.
fn counter(page: &PageBytes) -> u64 {
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    let first = word(&page[BODY * 8..][..8]);
    assert!(page[BODY * 8..].chunks_exact(8).all(|bytes| word(bytes) == first), "a page that is two versions at once");
    first
}

/// What the disk has of a page, checked.
fn on_disk(file: &Arc<dyn DiskFile>, number: u32) -> u64 {
    let pool = BufferPool::new(PoolSettings { bytes: 0 }).expect("memory");
    let pages = register(&pool, file);
    counter(&pages.read(number).expect("a sound page"))
}
