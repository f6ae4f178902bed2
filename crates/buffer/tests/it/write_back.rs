//! What reaches the disk, and what happens when it does not.

use std::path::Path;

use hobt_buffer::BufferError;
use hobt_disk::{Disk, Fault, FaultKind, OpenOptions, Operation};

use super::{counter, fill, on_disk, world};

/// `EIO`.
const IO_ERROR: i32 = 5;

#[test]
fn a_checkpoint_writes_all_changed_pages_and_only_those_in_large_pieces() {
    let world = world(512, 512);
    let before = world.file.statistics().snapshot().writes;
    let dirty: Vec<u32> = (10..200).chain([300, 302, 303]).collect();
    (0..400).for_each(|number| drop(world.pages.read(number).expect("a page")));
    for &number in &dirty {
        fill(&mut world.pages.write(number).expect("a page"), 9);
    }
    drop(world.pages.write(250).expect("held and not changed"));
    assert_eq!(world.pool.statistics().dirty, dirty.len() as u64);
    assert_eq!(world.pool.flush_file(&world.pages).expect("a working disk"), dirty.len() as u64);
    let after = world.file.statistics().snapshot().writes;
    assert_eq!(after.bytes - before.bytes, dirty.len() as u64 * 8192);
    assert_eq!(after.count - before.count, 3 + 2, "190 pages in three writes, then two islands");
    for number in [9, 10, 100, 199, 200, 250, 300, 301, 302, 303] {
        assert_eq!(on_disk(&world.file, number), if dirty.contains(&number) { 9 } else { 0 }, "page {number}");
    }
    assert_eq!(world.pool.flush_all().expect("a working disk"), 0, "nothing is changed any more");
    assert_eq!(counter(&world.pages.read(10).expect("still there")), 9);
}

#[test]
fn what_was_flushed_survives_a_power_failure() {
    let world = world(64, 64);
    for number in 0..20 {
        fill(&mut world.pages.write(number).expect("a page"), 3);
    }
    world.disk.sync_directory(Path::new("")).expect("the file's name is kept");
    world.pool.flush_all().expect("a working disk");
    world.disk.crash(11);
    let options = OpenOptions { create_new: false, read_only: false, direct: true };
    let file = world.disk.open(Path::new("a.mdf"), options).expect("the file");
    assert!((0..20).all(|number| on_disk(&file, number) == 3));
}

#[test]
fn a_page_that_cannot_be_written_stays_dirty_and_readable() {
    let world = world(16, 64);
    for number in 0..16 {
        fill(&mut world.pages.write(number).expect("a page"), 4);
    }
    world.disk.inject(Fault { forever: true, ..Fault::once(Operation::Write, 0, FaultKind::Error(IO_ERROR)) });
    assert!(matches!(world.pool.flush_all(), Err(BufferError::Disk(_))));
    assert_eq!(world.pool.statistics().dirty, 16);
    // There is no clean victim, so a thread that needs a frame gets the reason.
    assert!(matches!(world.pages.read(20), Err(BufferError::Disk(_))));
    for number in 0..16 {
        assert_eq!(counter(&world.pages.read(number).expect("resident")), 4);
    }
}

#[test]
fn changed_pages_make_room_in_runs() {
    let world = world(128, 1024);
    let before = world.file.statistics().snapshot().writes;
    for number in 0..1024 {
        let mut page = world.pages.create(number).expect("a frame");
        super::format(&mut page, number);
        fill(&mut page, 2);
    }
    let writes = world.file.statistics().snapshot().writes.count - before.count;
    assert!((1..=896 / 16).contains(&writes), "{writes} writes for at least 896 pages");
    world.pool.flush_all().expect("a working disk");
    assert!((0..1024).step_by(100).all(|number| on_disk(&world.file, number) == 2));
}
