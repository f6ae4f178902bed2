//! A scan's loads and private reads.

use std::time::Duration;

use hobt_base::{DatabaseId, FileId, PAGE_SIZE, PageId};
use hobt_buffer::{BufferError, PendingLoad, TryRead};
use hobt_disk::{AlignedBuffer, Completion, CompletionQueue, DeviceModel, SimulatedConfig};

use super::{World, counter, fill, world, world_with};

fn all_of(load: &PendingLoad, queue: &CompletionQueue) -> Vec<Completion> {
    (0..load.reads()).map(|_| queue.wait_pop().expect("a completion for each read")).collect()
}

fn is_resident(world: &World, number: u32) -> bool {
    !matches!(world.pages.try_read(number), TryRead::NotResident)
}

#[test]
fn a_load_reads_what_is_absent_in_as_few_reads_as_there_are_gaps() {
    let world = world(64, 64);
    fill(&mut world.pages.write(10).expect("a page"), 7);
    let queue = CompletionQueue::new();
    let load = world.pages.start_load(8, 8, &queue, 42).expect("frames");
    assert_eq!((load.reads(), load.loading()), (2, [8, 9, 11, 12, 13, 14, 15].as_slice()));
    assert!(matches!(world.pages.try_read(8), TryRead::Busy));
    let other = world.pages.start_load(14, 4, &queue, 43).expect("frames");
    assert_eq!((other.loading(), other.elsewhere()), ([16, 17].as_slice(), [14, 15].as_slice()));
    let mut completions = all_of(&load, &queue);
    assert!(completions.iter().all(|completion| completion.tag == 42));
    // In any order.
    completions.reverse();
    assert!(load.finish(completions).expect("a working disk").damaged.is_empty());
    other.finish(queue.wait_pop()).expect("a working disk");
    for number in 8..18 {
        let TryRead::Guard(page) = world.pages.try_read(number) else { panic!("page {number} is not there") };
        assert_eq!(counter(&page), if number == 10 { 7 } else { 0 });
    }
    let nothing = world.pages.start_load(8, 8, &queue, 44).expect("nothing to do");
    assert_eq!(nothing.reads(), 0);
}

#[test]
fn a_load_that_is_dropped_early_gives_back_pages_and_frames() {
    let slow = DeviceModel { latency: Duration::from_millis(5), ..DeviceModel::fast_card() };
    let config = SimulatedConfig { device: Some(slow), ..SimulatedConfig::default() };
    let world = world_with(config, 64, 64);
    let queue = CompletionQueue::new();
    std::thread::scope(|scope| {
        let load = world.pages.start_load(0, 32, &queue, 1).expect("frames");
        let later = world.pages.start_load(32, 8, &queue, 2).expect("frames");
        // Waits for the load, and then reads by itself.
        let reader = scope.spawn(|| counter(&world.pages.read(5).expect("a page")));
        drop(load);
        drop(later);
        assert_eq!(reader.join().expect("the reader ends"), 0);
    });
    assert_eq!(queue.in_flight(), 0);
    assert_eq!(world.pool.statistics().free, 63);
    assert!((0..40).all(|number| is_resident(&world, number) == (number == 5)));
}

#[test]
fn damage_in_a_load_keeps_to_its_page_and_a_failed_read_to_its_load() {
    let world = world(64, 64);
    let place = PageId::new(FileId(1), 6).byte_offset();
    let mut damage = AlignedBuffer::new(PAGE_SIZE).expect("memory");
    damage.fill(0xA5);
    world.file.write_at(&damage, place).expect("the damage");
    let queue = CompletionQueue::new();
    let load = world.pages.start_load(0, 16, &queue, 1).expect("frames");
    let completions = all_of(&load, &queue);
    assert_eq!(load.finish(completions).expect("the disk works").damaged, [6]);
    assert!((0..16).all(|number| is_resident(&world, number) == (number != 6)));
    assert!(matches!(world.pages.read(6), Err(BufferError::Damaged { .. })));

    let load = world.pages.start_load(16, 8, &queue, 1).expect("frames");
    let mut completion = queue.wait_pop().expect("a completion");
    completion.result = Err(hobt_disk::DiskError::OutOfMemory { bytes: 1 });
    assert!(matches!(load.finish([completion]), Err(BufferError::Disk(_))));
    assert_eq!((world.pool.statistics().free, is_resident(&world, 16)), (64 - 15, false));
}

#[test]
fn a_scan_does_not_push_out_what_others_use() {
    let world = world(128, 2048);
    let queue = CompletionQueue::new();
    (0..64).for_each(|number| drop(world.pages.read(number).expect("a page")));
    let misses = world.pool.statistics().page_misses;
    for first in (64..2048).step_by(32) {
        if let Ok(load) = world.pages.start_load(first, 32, &queue, 1) {
            let completions = all_of(&load, &queue);
            load.finish(completions).expect("a working disk");
        }
        (0..64).for_each(|number| drop(world.pages.read(number).expect("a page")));
    }
    let statistics = world.pool.statistics();
    assert!(statistics.pages_loaded > 1000, "the scan was let in: {statistics:?}");
    assert_eq!(statistics.page_misses, misses, "a used page was pushed out");
}

#[test]
fn a_load_neither_takes_frames_that_are_held_nor_writes_for_them() {
    let world = world(16, 64);
    let queue = CompletionQueue::new();
    let held: Vec<_> = (0..8).map(|number| world.pages.read(number).expect("a page")).collect();
    for number in 8..16 {
        fill(&mut world.pages.write(number).expect("a page"), 1);
    }
    assert!(matches!(world.pages.start_load(32, 1, &queue, 1), Err(BufferError::NoFrames)));
    assert_eq!(world.pool.statistics().pages_written, 0);
    assert!(!is_resident(&world, 32), "the claim was given up");
    drop(held);
    assert_eq!(world.pool.drop_clean_buffers(Some(DatabaseId(99))), 0);
    assert_eq!(world.pool.drop_clean_buffers(Some(super::DATABASE)), 8);
    assert_eq!(world.pages.start_load(32, 8, &queue, 1).expect("frames").loading().len(), 8);
}

#[test]
fn a_private_read_is_told_which_pages_the_pool_knows_better() {
    let world = world(64, 64);
    fill(&mut world.pages.write(1).expect("a page"), 1);
    drop(world.pages.read(2).expect("a page"));
    drop(world.pages.read(4).expect("a page"));
    let held = world.pages.write(6).expect("a page");
    let snapshot = world.pages.state_snapshot(0, 8);
    assert_eq!((snapshot.resident(), snapshot.all_resident(), snapshot.is_resident(2)), (4, false, true));
    // Changed and written in between: clean at both moments, and still not what was read.
    fill(&mut world.pages.write(4).expect("a page"), 1);
    drop(held);
    world.pool.flush_all().expect("a working disk");
    fill(&mut world.pages.create(5).expect("a frame"), 1);
    drop(world.pages.read(7).expect("a page"));
    let mut changed = Vec::new();
    world.pages.changed_since(&snapshot, &mut changed);
    assert_eq!(changed, [1, 4, 5, 6]);
    let settled = world.pages.state_snapshot(0, 5);
    changed.clear();
    world.pages.changed_since(&settled, &mut changed);
    assert!(changed.is_empty(), "clean pages are as good on disk: {changed:?}");
}
