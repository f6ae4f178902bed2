//! Single pages: reading, damage, bounds, guards, and what views show of them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hobt_base::{FileId, PAGE_SIZE, PageId};
use hobt_buffer::{BufferError, Dirty, Optimistic, ReadCounts, ReadOptions, SharedGuard, TryRead};
use hobt_disk::AlignedBuffer;
use hobt_instruments::{WaitCounters, WaitType, waits};
use hobt_page::{PageDamage, PageType};

use super::{DATABASE, counter, fill, format, on_disk, world};

#[test]
fn a_flipped_bit_is_reported_with_its_file_and_page_and_spares_the_neighbours() {
    let world = world(16, 32);
    let mut bytes = AlignedBuffer::new(PAGE_SIZE).expect("memory");
    let page = PageId::new(FileId(1), 9);
    world.file.read_at(&mut bytes, page.byte_offset()).expect("the page");
    bytes[5000] ^= 4;
    world.file.write_at(&bytes, page.byte_offset()).expect("the damage");
    let along = world.pages.read_with(8, ReadOptions { ahead: 2, ..ReadOptions::default() });
    assert!(along.is_ok(), "the damage is not in the page that was asked for");
    assert!(matches!(world.pages.try_read(10), TryRead::Guard(_)));
    for _ in 0..20 {
        // More often than there are frames: a refused page costs none.
        match world.pages.read(9) {
            Err(BufferError::Damaged { database: DATABASE, page: found, what: PageDamage::Checksum { .. } }) => {
                assert_eq!(found, page);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(world.pages.try_read(9), TryRead::NotResident));
    assert!(world.pages.read(9).unwrap_err().to_string().contains("(1:9)"));
}

#[test]
fn a_page_behind_the_end_is_refused_until_the_file_has_grown() {
    let world = world(16, 8);
    assert!(matches!(world.pages.read(8), Err(BufferError::OutOfRange { pages: 8, .. })));
    assert!(matches!(world.pages.read(u32::MAX), Err(BufferError::OutOfRange { .. })));
    assert_eq!(world.pool.statistics().state_word_bytes, 0, "a wild page number allocates nothing");
    world.file.set_size(16 * PAGE_SIZE as u64).expect("room");
    assert_eq!(counter(&world.pages.read(8).expect("a page never formatted")), 0);
}

#[test]
fn a_created_page_is_zero_dirty_and_never_read() {
    let world = world(16, 8);
    fill(&mut world.pages.write(3).expect("a page"), 5);
    for number in [3, 4] {
        let mut page = world.pages.create(number).expect("a frame");
        assert!(page.iter().all(|&byte| byte == 0), "page {number}");
        format(&mut page, number);
        fill(&mut page, 8);
    }
    assert_eq!(world.pool.flush_file(&world.pages).expect("a working disk"), 2);
    assert_eq!(world.pool.statistics().page_misses, 1, "page 3, when it was first changed");
    assert_eq!((on_disk(&world.file, 3), on_disk(&world.file, 4)), (8, 8));
}

#[test]
fn reads_count_as_statistics_io_has_them_and_wait_for_the_disk_under_its_name() {
    let world = world(16, 32);
    let counts = ReadCounts::default();
    let waits = Arc::new(WaitCounters::new());
    let _counters = waits::set_statement_counters(Some(waits.clone()));
    let options = ReadOptions { ahead: 7, counts: Some(&counts), once: false };
    for number in [0, 1, 7, 8] {
        assert_eq!(world.pages.read_with(number, options).expect("a page").page().number, number);
    }
    let figures = [&counts.logical, &counts.physical, &counts.read_ahead].map(|count| count.load(Relaxed));
    assert_eq!(figures, [4, 2, 14]);
    let rows = waits.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].wait_type, rows[0].waiting_tasks_count), (WaitType::PageIoLatchSh, 2));
}

#[test]
fn who_does_not_wait_is_told_why() {
    let world = world(16, 8);
    let mut words = [0; 2];
    assert!(matches!(world.pages.try_read(1), TryRead::NotResident));
    assert_eq!(world.pages.optimistic_words(1, 8, &mut words), Optimistic::NotResident);
    let page = world.pages.write(1).expect("a page");
    assert!(matches!(world.pages.try_read(1), TryRead::Busy));
    assert_eq!(world.pages.optimistic_words(1, 8, &mut words), Optimistic::Busy);
    let page = page.downgrade();
    assert_eq!(world.pages.optimistic_words(1, 8, &mut words), Optimistic::Ok);
    drop(page);
    assert!(matches!(world.pages.try_read(1), TryRead::Guard(_)));
    world.pages.prefetch(1, 8000, 4000);
    world.pages.prefetch(2, 0, 64);
}

#[test]
fn a_leaked_guard_keeps_its_page_and_nothing_else() {
    let world = world(16, 64);
    let guard = world.pages.read(0).expect("a page");
    std::mem::forget(guard);
    for number in 1..64 {
        fill(&mut world.pages.write(number).expect("the other frames go round"), 1);
    }
    assert!(matches!(world.pages.try_read(0), TryRead::Guard(_)));
    world.pool.flush_all().expect("a working disk");
    world.pool.drop_clean_buffers(None);
    assert_eq!(world.pool.statistics().free, 15);
}

#[test]
fn guards_go_to_other_threads() {
    fn is_send<T: Send>(_: &T) {}
    let world = world(16, 8);
    let guard: SharedGuard<'_> = world.pages.read(0).expect("a page");
    is_send(&guard);
    std::thread::scope(|scope| {
        scope.spawn(move || assert_eq!(counter(&guard), 0));
    });
    assert!(matches!(world.pages.write(0).map(|page| page.page().number), Ok(0)));
}

#[test]
fn a_file_is_given_up_only_with_its_changes_written_or_given_up_too() {
    let world = world(16, 8);
    fill(&mut world.pages.write(2).expect("a page"), 1);
    assert!(matches!(world.pool.unregister_file(&world.pages, Dirty::Refuse), Err(BufferError::Dirty)));
    assert_eq!(counter(&world.pages.read(2).expect("still registered")), 1);
    world.pool.unregister_file(&world.pages, Dirty::Discard).expect("nothing is held");
    assert!(matches!(world.pages.read(2), Err(BufferError::Closed)));
    assert!(matches!(world.pool.unregister_file(&world.pages, Dirty::Discard), Err(BufferError::Closed)));
    let statistics = world.pool.statistics();
    assert_eq!((statistics.free, statistics.dirty, statistics.files.len()), (16, 0, 0));
    assert_eq!(on_disk(&world.file, 2), 0);
}

#[test]
fn freed_pages_are_forgotten_unwritten() {
    let world = world(16, 32);
    for number in 4..12 {
        fill(&mut world.pages.write(number).expect("a page"), 1);
    }
    world.pages.discard(0, 8).expect("nothing is held");
    world.pages.discard(u32::MAX - 5, 100).expect("nothing is there");
    assert_eq!(world.pool.flush_all().expect("a working disk"), 4);
    assert_eq!((on_disk(&world.file, 7), on_disk(&world.file, 8)), (0, 1));
}

#[test]
fn descriptors_show_each_resident_page_with_its_header() {
    let world = world(16, 32);
    drop(world.pages.read(3).expect("a page"));
    fill(&mut world.pages.write(5).expect("a page"), 1);
    let mut found: Vec<_> = world.pool.descriptors().collect();
    found.sort_by_key(|descriptor| descriptor.page);
    let facts = found.iter().map(|found| (found.page.number, found.dirty, found.page_type, found.database));
    let row = Some(PageType::Row);
    assert!(facts.eq([(3, false, row, DATABASE), (5, true, row, DATABASE)]));
}
