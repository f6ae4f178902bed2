//! The buffer pool extension: which pages are copied, that a copy is never older than its page, and what faults do.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hobt_base::{PAGE_SIZE, PageId};
use hobt_buffer::{BufferError, ExtensionStatistics, PoolFile, ReadCounts, ReadOptions};
use hobt_disk::{AlignedBuffer, CompletionQueue, Disk, Fault, FaultKind, OpenOptions, Operation};
use hobt_page::{PageBytes, seal};

use super::{World, counter, fill, format, register, world};

const EXTENSION: &str = "x.bpe";
/// `EIO`.
const IO_ERROR: i32 = 5;
const FRAMES: usize = 64;
const PAGES: u32 = 256;

/// A pool of 64 frames over 256 pages, with an extension of this many pages. Page `n` has the counter `n`.
fn extended(pages: u32) -> World {
    let world = world(FRAMES, PAGES);
    (0..PAGES).for_each(|number| fill(&mut world.pages.write(number).expect("a page"), u64::from(number)));
    world.pool.flush_all().expect("a working disk");
    switch_on(&world, pages);
    world
}

fn switch_on(world: &World, pages: u32) {
    let options = OpenOptions { create_new: true, read_only: false, direct: true };
    let file = world.disk.open(Path::new(EXTENSION), options).expect("a new file");
    let bytes = u64::from(pages) * PAGE_SIZE as u64;
    file.set_size(bytes).expect("room");
    world.pool.start_extension(file, bytes).expect("memory");
}

fn statistics(world: &World) -> ExtensionStatistics {
    world.pool.extension_statistics().expect("it is on")
}

/// Reads all pages in turn, and checks them. Returns how many came from the data file.
fn read_all(world: &World) -> u64 {
    let counts = ReadCounts::default();
    for number in 0..PAGES {
        let options = ReadOptions { counts: Some(&counts), ..ReadOptions::default() };
        let page = world.pages.read_with(number, options).expect("a sound page");
        assert_eq!(counter(&page), u64::from(number), "page {number}");
    }
    counts.physical.load(Relaxed)
}

/// Scans all pages by loads.
fn scan_all(world: &World) {
    let queue = CompletionQueue::new();
    for first in (0..PAGES).step_by(8) {
        let Ok(load) = world.pages.start_load(first, 8, &queue, 1) else { continue };
        let completions: Vec<_> = (0..load.reads()).filter_map(|_| queue.wait_pop()).collect();
        load.finish(completions).expect("a working disk");
    }
}

#[test]
fn used_pages_that_left_the_pool_come_from_the_extension() {
    let world = extended(512);
    (0..2).for_each(|_| _ = read_all(&world));
    let reads_before = world.file.statistics().snapshot().reads.bytes;
    let physical = read_all(&world);
    let read = world.file.statistics().snapshot().reads.bytes - reads_before;
    assert_eq!(physical * PAGE_SIZE as u64, read, "pages from the extension are no physical reads");
    let statistics = statistics(&world);
    // A batch that is not full is not written yet.
    assert!(physical <= FRAMES as u64 + 64, "{physical} pages came from the data file: {statistics:?}");
    assert!(statistics.pages_read > u64::from(PAGES) / 2 && statistics.pages_damaged == 0, "{statistics:?}");
}

/// What is read again and again and never changed is written once, as long as the file is large enough.
#[test]
fn a_page_whose_copy_is_still_there_is_not_written_again() {
    let world = extended(512);
    (0..10).for_each(|_| _ = read_all(&world));
    let statistics = statistics(&world);
    assert!(statistics.pages_written <= u64::from(PAGES), "{statistics:?}");
    assert!(statistics.pages_read > 5 * 64, "{statistics:?}");
}

#[test]
fn pages_of_scans_are_not_copied_and_scans_leave_the_copies() {
    let world = world(FRAMES, PAGES);
    switch_on(&world, 512);
    (0..4).for_each(|_| scan_all(&world));
    (0..PAGES).for_each(|number| {
        drop(world.pages.read_with(number, ReadOptions { once: true, ..ReadOptions::default() }).expect("a page"));
    });
    assert_eq!(statistics(&world).copies, 0);
    for number in 0..PAGES {
        fill(&mut world.pages.write(number).expect("a page"), u64::from(number));
    }
    (0..2).for_each(|_| _ = read_all(&world));
    let copies = statistics(&world).copies;
    (0..4).for_each(|_| scan_all(&world));
    assert!(statistics(&world).copies >= copies, "{copies} copies before");
    assert!(read_all(&world) < u64::from(PAGES) / 2, "they are still current");
}

#[test]
fn a_small_extension_goes_round_and_its_pages_are_right() {
    let world = extended(256 - 64);
    (0..6).for_each(|_| _ = read_all(&world));
    let statistics = statistics(&world);
    assert_eq!(statistics.pages, 256, "at least four batches");
    let mut shown = Vec::new();
    world.pool.visit_extension(|_, page| shown.push(page.number));
    let shown_count = shown.len();
    shown.sort_unstable();
    shown.dedup();
    assert!(shown.len() == shown_count && shown_count <= statistics.copies as usize, "{statistics:?}");
    assert!(shown.len() > 64, "{} pages have a current copy", shown.len());
}

/// Eight threads, few frames, a small extension: no reader sees a page go back in time.
#[test]
fn no_copy_is_older_than_its_page_whatever_threads_do() {
    let world = world(48, 200);
    switch_on(&world, 256);
    let changes: Vec<AtomicU64> = (0..200).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (world, changes) = (&world, &changes);
            scope.spawn(move || {
                let mut random = hobt_base::SplitMix64::new(thread);
                for _ in 0..1500 {
                    let number = random.below(200) as u32;
                    let known = changes[number as usize].load(Relaxed);
                    match random.below(40) {
                        0..=9 => {
                            let mut page = world.pages.write(number).expect("a sound page");
                            let next = counter(&page) + 1;
                            assert!(next > known, "a change was lost");
                            fill(&mut page, next);
                            changes[number as usize].fetch_max(next, Relaxed);
                        }
                        10 => world.pool.flush_all().map(drop).expect("a working disk"),
                        11 if thread == 0 => _ = world.pool.drop_clean_buffers(None),
                        _ => assert!(counter(&world.pages.read(number).expect("a sound page")) >= known),
                    }
                }
            });
        }
    });
    let statistics = statistics(&world);
    assert!(statistics.pages_read > 100 && statistics.pages_damaged == 0, "{statistics:?}");
    for (number, changes) in (0..).zip(&changes) {
        assert_eq!(counter(&world.pages.read(number).expect("a page")), changes.load(Relaxed), "page {number}");
    }
}

/// As a load does it: the extent was freed, and gets pages of another table past the pool.
#[test]
fn what_was_written_past_the_pool_is_not_hidden_by_a_copy() {
    let world = extended(512);
    (0..2).for_each(|_| _ = read_all(&world));
    let mut content = AlignedBuffer::new(8 * PAGE_SIZE).expect("memory");
    let is_copied = |number: u32| {
        let mut found = false;
        world.pool.visit_extension(|_, page| found |= page.number == number);
        found
    };
    let first = (0..PAGES).step_by(8).find(|first| (*first..first + 8).all(&is_copied)).expect("a copied extent");
    for (number, page) in (first..).zip(content.chunks_exact_mut(PAGE_SIZE)) {
        let page: &mut PageBytes = page.try_into().expect("a page");
        format(page, number);
        fill(page, 4711);
        seal(page);
    }
    world.pages.discard(first, 8).expect("nobody has it");
    world.file.write_at(&content, PageId::new(world.pages.id(), first).byte_offset()).expect("a working disk");
    world.pages.discard(first, 8).expect("nobody has it");
    for number in first..first + 8 {
        assert!(!is_copied(number));
        assert_eq!(counter(&world.pages.read(number).expect("a page")), 4711, "page {number}");
    }
}

#[test]
fn a_file_that_is_registered_again_has_no_copies_and_neither_have_dropped_buffers() {
    let world = extended(512);
    (0..2).for_each(|_| _ = read_all(&world));
    assert!(world.pool.drop_clean_buffers(Some(super::DATABASE)) > 0);
    assert_eq!(statistics(&world).copies, 0);
    assert_eq!(read_all(&world), u64::from(PAGES), "all of them are cold");
    read_all(&world);
    assert!(statistics(&world).copies > 0);
    world.pool.unregister_file(&world.pages, hobt_buffer::Dirty::Refuse).expect("nobody has it");
    assert_eq!(statistics(&world).copies, 0);
    // The file of the same number, with other contents.
    let again: Arc<PoolFile> = register(&world.pool, &world.file);
    let mut content = AlignedBuffer::new(PAGE_SIZE).expect("memory");
    let page: &mut PageBytes = (&mut content[..]).try_into().expect("a page");
    format(page, 7);
    fill(page, 99);
    seal(page);
    world.file.write_at(&content, 7 * PAGE_SIZE as u64).expect("a working disk");
    assert_eq!(counter(&again.read(7).expect("a page")), 99);
}

#[test]
fn a_device_that_fails_switches_the_extension_off_and_loses_nothing() {
    for (operation, after) in
        [(Operation::Read, 0), (Operation::Read, 20), (Operation::Write, 0), (Operation::Write, 2)]
    {
        let world = extended(512);
        let fault =
            Fault { path_contains: EXTENSION.to_owned(), ..Fault::once(operation, after, FaultKind::Error(IO_ERROR)) };
        world.disk.inject(fault);
        (0..4).for_each(|_| _ = read_all(&world));
        let failed = statistics(&world);
        assert!(failed.failed.as_ref().is_some_and(|why| why.contains(EXTENSION)), "{operation}: {failed:?}");
        let hits = world.pool.statistics().page_hits;
        let physical = read_all(&world);
        let hits = world.pool.statistics().page_hits - hits;
        assert_eq!(physical + hits, u64::from(PAGES), "what is in no frame comes from the data file");
        world.disk.remove(Path::new(EXTENSION)).expect("it is there");
        // Another device takes its place.
        switch_on(&world, 512);
        assert_eq!((statistics(&world).failed, statistics(&world).copies), (None, 0));
        (0..3).for_each(|_| _ = read_all(&world));
        assert!(statistics(&world).pages_read > 0);
    }
}

#[test]
fn a_damaged_copy_is_noticed_and_the_page_comes_from_its_file() {
    let world = extended(512);
    (0..2).for_each(|_| _ = read_all(&world));
    let file = world.disk.open(Path::new(EXTENSION), OpenOptions { direct: true, ..OpenOptions::default() });
    let mut garbage = AlignedBuffer::new(512 * PAGE_SIZE).expect("memory");
    garbage.fill(0xA5);
    file.expect("it is there").write_at(&garbage, 0).expect("the damage");
    let before = statistics(&world).pages_read;
    read_all(&world);
    let damaged = statistics(&world);
    assert!(damaged.pages_damaged > 64 && damaged.failed.is_none(), "{damaged:?}");
    assert_eq!(damaged.pages_read, before);
    read_all(&world);
}

#[test]
fn it_is_switched_on_once_and_off_at_any_time() {
    let world = extended(512);
    let other = Arc::clone(&world.file);
    assert!(matches!(world.pool.start_extension(other, 1 << 22), Err(BufferError::InUse)));
    (0..2).for_each(|_| _ = read_all(&world));
    assert!(world.pool.stop_extension() && !world.pool.stop_extension());
    assert_eq!(world.pool.extension_statistics(), None);
    let hits = world.pool.statistics().page_hits;
    let physical = read_all(&world);
    assert_eq!(physical + world.pool.statistics().page_hits - hits, u64::from(PAGES));
    let memory = hobt_buffer::BufferPool::extension_memory_bytes(1 << 40);
    assert!(memory < (1 << 40) / 200, "half a per cent: {memory}");
}
