//! Allocation of extents: proportional and weighted fill, growth, several intervals, and reopening.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hobt_access::{AccessError, AllocationCheck, Fill, Finding, Loader, StorageSettings};
use hobt_base::{EXTENT_PAGES, PageId, SplitMix64};
use hobt_disk::{AlignedBuffer, DeviceModel, Direction, Fault, FaultKind, Operation, SimulatedConfig};
use hobt_page::{ColumnLayout, EXTENTS_PER_MAP, INTERVAL_PAGES, RowLayout};
use hobt_types::PhysicalType;

use crate::world::{FileSize, GROUP, Row, World, append, file_of};

#[test]
fn files_fill_in_proportion_to_their_free_space() {
    let world = World::new(64, &[file_of(8 * 101), file_of(8 * 201), file_of(8 * 401)]);
    let totals: Vec<f64> = world.storage.files().iter().map(|file| f64::from(file.free_extents())).collect();
    let mut random = SplitMix64::new(1);
    while world.free_extents() > 60 {
        world.allocate(1 + random.below(4) as u32).expect("room");
        let used: Vec<f64> = world
            .storage
            .files()
            .iter()
            .zip(&totals)
            .map(|(file, total)| 1.0 - f64::from(file.free_extents()) / total)
            .collect();
        let spread = used.iter().fold(0f64, |most, part| most.max((part - used[0]).abs()));
        assert!(spread < 0.06, "{used:?}");
    }
}

#[test]
fn each_load_is_shared_by_seven_files_of_different_sizes() {
    let extents = [1280, 160, 320, 160, 480, 160, 640];
    let world = World::new(256, &extents.map(|extents| file_of(8 * extents)));
    let column = ColumnLayout { physical: PhysicalType::Variable, nullable: false };
    let layout = Arc::new(RowLayout::new(vec![column]));
    let hobt = world.create(&layout);
    let rows: Vec<Row> = vec![vec![Some(vec![7; 1990])]; 40];
    // Two workers at a time, runs of 1, 2, 3 … extents each: 100 in a load.
    for _ in 0..12 {
        let context = world.context();
        let mut loaders = [(); 2].map(|()| Loader::new(Arc::clone(&hobt), Arc::clone(&context)));
        for _ in 0..80 / 5 * 2 {
            loaders.iter_mut().for_each(|loader| append(loader, &layout, &rows).expect("room"));
        }
        let loaded = loaders.map(|loader| loader.finish().expect("written")).into();
        hobt.publish(&context, loaded).expect("published");
        context.commit().expect("committed");
        let free: Vec<u32> = world.storage.files().iter().map(|file| file.free_extents()).collect();
        let part = |free: u32, of: u32| 1.0 - f64::from(free) / f64::from(of);
        let mean = part(free.iter().sum(), extents.iter().sum());
        for (free, extents) in free.iter().zip(extents) {
            assert!((part(*free, extents) - mean).abs() < 0.1, "{mean}: {free} of {extents} are free");
        }
    }
}

#[test]
fn a_full_filegroup_says_so_and_loses_nothing() {
    let world = World::new(64, &[file_of(8 * 20), file_of(8 * 30)]);
    let free = world.free_extents();
    let mut taken = Vec::new();
    let error = loop {
        match world.allocate(7) {
            Ok((first, extents)) => taken.push((first, extents)),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AccessError::FilegroupFull { filegroup: GROUP, .. }), "{error}");
    assert_eq!(taken.iter().map(|(_, extents)| extents).sum::<u32>(), free);
    for (first, extents) in taken {
        world.storage.free(first, extents).expect("freed");
    }
    assert_eq!(world.free_extents(), free);
    world.assert_sound(&[]);
}

#[test]
fn files_grow_in_turn_up_to_their_limits() {
    let size = FileSize { pages: 8 * 4, growth_pages: 16, max_pages: 8 * 10 };
    let world = World::new(64, &[size, FileSize { max_pages: 8 * 7 + 3, ..size }]);
    let mut extents = 0;
    while let Ok((_, count)) = world.allocate(1) {
        extents += count;
    }
    let sizes: Vec<u32> = world.storage.files().iter().map(|file| file.size_pages()).collect();
    assert_eq!(sizes, [8 * 10, 8 * 7]);
    assert_eq!(extents, 9 + 6, "all but the extents that hold the maps");
    for file in world.storage.files() {
        assert_eq!(file.disk().size().expect("a size"), u64::from(file.size_pages()) * 8192);
    }
}

#[test]
fn a_file_grows_by_its_step_when_the_disk_has_no_room_for_more() {
    let config = SimulatedConfig { capacity_bytes: 8 * 8192 * 10, ..SimulatedConfig::default() };
    let world = World::with(config, 64, &[FileSize { pages: 8 * 4, growth_pages: 8, max_pages: 0 }]);
    let mut extents = 0;
    let error = loop {
        match world.allocate(256) {
            Ok((_, count)) => extents += count,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AccessError::FilegroupFull { .. }), "{error}");
    assert_eq!(extents, 9);
}

/// The error names what there is and what was asked for, for each file.
#[test]
fn a_full_filegroup_says_what_each_file_and_its_disk_have_and_what_was_asked_for() {
    let fixed = file_of(8 * 2);
    let limited = FileSize { pages: 8 * 2, growth_pages: 8 * 4, max_pages: 8 * 3 };
    let growing = FileSize { pages: 8 * 2, growth_pages: 8 * 4, max_pages: 0 };
    // Twelve kilobytes are left beside eight extents.
    let config = SimulatedConfig { capacity_bytes: 8 * 65_536 + 12 * 1024, ..SimulatedConfig::default() };
    let world = World::with(config, 64, &[fixed, limited, growing]);
    let error = std::iter::repeat_with(|| world.allocate(1)).find_map(Result::err).expect("a small disk").to_string();
    for part in [
        "64 KB at least were asked for, and 0 KB of 512 KB are free",
        "file 'file0' may not grow (FILEGROWTH = 0)",
        "file 'file1' may not grow beyond its MAXSIZE of 192 KB",
        "the disk of file 'file2' has no room left: it was asked for 64 KB at least, and has 12 KB",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn growth_of_any_size_asked_for_is_no_overflow() {
    let huge = FileSize { pages: 8 * 4, growth_pages: u32::MAX, max_pages: 8 * 100 };
    let world = World::new(64, &[huge]);
    while world.free_extents() > 0 {
        world.allocate(u32::MAX).expect("room");
    }
    world.allocate(1).expect("the file grows");
    assert_eq!(world.storage.files()[0].size_pages(), 8 * 100);
}

#[test]
fn threads_that_grow_a_file_get_extents_of_their_own() {
    let world = World::new(256, &[FileSize { pages: 16, growth_pages: 8, max_pages: 8 * 600 }; 2]);
    let taken: Vec<(PageId, u32)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..5)
            .map(|wanted| {
                let world = &world;
                scope.spawn(move || (0..60).map(|_| world.allocate(wanted).expect("room")).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut extents: Vec<(u16, u32)> = taken
        .iter()
        .flat_map(|(first, count)| (0..*count).map(|extent| (first.file.0, first.number / EXTENT_PAGES + extent)))
        .collect();
    let count = extents.len();
    extents.sort_unstable();
    extents.dedup();
    assert_eq!(extents.len(), count, "no extent is given twice");
    for (first, extents) in taken {
        world.storage.free(first, extents).expect("freed");
    }
    world.assert_sound(&[]);
}

#[test]
fn every_interval_has_its_map_and_reopening_reads_them() {
    let pages = 2 * INTERVAL_PAGES + 8 * 50;
    let mut world =
        World::new(64, &[FileSize { pages: INTERVAL_PAGES, growth_pages: pages - INTERVAL_PAGES, max_pages: 0 }]);
    let mut taken = Vec::new();
    world.storage.set_settings(StorageSettings { run_extents_first: 0, run_extents_max: 0 });
    assert_eq!(world.storage.settings().run_extents_first, 1, "a run has an extent at least");
    while world.storage.files()[0].size_pages() < pages || world.free_extents() > 10 {
        taken.push(world.allocate(20_000).expect("room"));
    }
    let maps = [0, EXTENTS_PER_MAP, 2 * EXTENTS_PER_MAP];
    for (first, count) in &taken {
        let extent = first.number / EXTENT_PAGES;
        assert!(maps.iter().all(|map| !(extent..extent + count).contains(map)), "the maps' extents stay theirs");
    }
    let last = taken.pop().expect("some");
    world.storage.free(last.0, last.1).expect("freed");
    let free = world.free_extents();
    world.reopen();
    assert_eq!(world.free_extents(), free);
    for (first, extents) in taken {
        world.storage.free(first, extents).expect("freed");
    }
    world.assert_sound(&[]);
}

#[test]
fn a_file_that_is_cut_short_or_has_no_map_is_not_taken_in() {
    let mut world = World::new(64, &[file_of(8 * 20)]);
    world.reopen();
    world.storage.close().expect("clean");
    let longer = world.description(0, file_of(8 * 21), false);
    assert!(matches!(world.storage.open_file(longer), Err(AccessError::Closed(_))));
    let disk = world.description(0, file_of(8 * 20), false).disk;
    disk.write_at(&hobt_disk::AlignedBuffer::new(8192).expect("memory"), 2 * 8192).expect("written");
    let zeroed = world.description(0, file_of(8 * 20), false);
    let error = world.storage.open_file(zeroed).expect_err("the map is gone");
    assert!(matches!(error, AccessError::Damaged { page, .. } if page.number == 2), "{error}");
    assert!(world.storage.files().is_empty());
}

#[test]
fn an_allocation_whose_map_cannot_be_read_takes_nothing() {
    let world = World::new(64, &[file_of(8 * 20)]);
    world.make_cold();
    let free = world.free_extents();
    let simulated = world.simulated.as_ref().expect("simulated");
    simulated.inject(Fault { forever: true, ..Fault::once(Operation::Read, 0, FaultKind::Error(5)) });
    assert!(matches!(world.allocate(3), Err(AccessError::Disk(_))));
    simulated.clear_faults();
    assert_eq!(world.free_extents(), free);
    world.assert_sound(&[]);
}

#[test]
fn the_check_finds_a_leak_and_a_double_owner() {
    let world = World::new(64, &[file_of(8 * 20)]);
    let hobt = world.create(&crate::world::table());
    let (leak, _) = world.allocate(1).expect("room");
    let findings = world.findings(&[&hobt, &hobt]);
    assert_eq!(
        findings,
        [Finding::OwnedTwice { extent: hobt.run_list(), hobt: hobt.id() }, Finding::Unowned { extent: leak }]
    );
}

#[test]
fn a_check_lets_files_come_and_go() {
    let world = World::new(64, &[file_of(800), file_of(1600)]);
    let check = AllocationCheck::new(&world.storage).expect("readable maps");
    let second = world.storage.files()[1].id();
    world.storage.set_aside(second, true).expect("it is there");
    world.storage.release_file(second).expect("nobody holds a page of it");
    // A new file of the same number, and one more: both were added after the check began.
    world.disk.remove(&world.folder.join("file1.ndf")).expect("it is there");
    for index in 1..3 {
        world.storage.create_file(world.description(index, file_of(80), true)).expect("a new file");
    }
    world.storage.set_aside(world.storage.files()[0].id(), true).expect("it is there");
    let (page, _) = world.allocate(9).expect("there is room");
    assert_eq!(page.file, second);
    assert_eq!(check.finish(), []);
}

/// A device of so many megabytes a second, without any other cost.
fn megabytes_a_second(rate: u64) -> DeviceModel {
    DeviceModel {
        latency: Duration::ZERO,
        overhead: Duration::ZERO,
        bytes_per_second: rate * 1_000_000,
        ..DeviceModel::fast_card()
    }
}

/// A world whose first file lies on a device of its own, which is a quarter as fast as that of the others.
fn world_of_two_devices(files: &[FileSize]) -> World {
    let config = SimulatedConfig {
        device: Some(megabytes_a_second(2_000)),
        devices: vec![(PathBuf::from("/data/file0.ndf"), megabytes_a_second(500))],
        track_unsynced: false,
        ..SimulatedConfig::default()
    };
    let world = World::with(config, 64, files);
    world.storage.set_fill(Fill::Throughput);
    world
}

/// Writes (or reads) 16 MiB at the end of each file, past the pool, as loads and scans do.
fn measure(world: &World, direction: Direction) {
    let mut buffer = AlignedBuffer::new(512 << 10).expect("memory");
    for file in world.storage.files() {
        let end = u64::from(file.size_pages()) * 8192;
        for piece in 1..=32 {
            let at = end - piece * buffer.len() as u64;
            let done = match direction {
                Direction::Read => file.disk().read_at(&mut buffer, at),
                Direction::Write => file.disk().write_at(&buffer, at),
            };
            done.expect("a working disk");
        }
    }
}

fn used_extents(world: &World) -> Vec<u32> {
    world.storage.files().iter().map(|file| file.size_pages() / EXTENT_PAGES - file.free_extents()).collect()
}

/// The slow file has a quarter of the fast device's share, and the fast device's files share the rest, from the first
/// extents after the measurement on, at every length of runs.
#[test]
fn weighted_fill_gives_each_device_what_it_transfers_in_the_same_time() {
    let world = world_of_two_devices(&[file_of(8 * 400), file_of(8 * 600), file_of(8 * 300)]);
    measure(&world, Direction::Write);
    let before = used_extents(&world);
    let mut random = SplitMix64::new(3);
    let mut dealt = 0;
    while dealt < 400 {
        dealt += world.allocate(1 + random.below(12) as u32).expect("room").1;
        let shares =
            used_extents(&world).iter().zip(&before).map(|(now, before)| f64::from(now - before)).collect::<Vec<_>>();
        for (given, due) in shares.iter().zip([0.2, 0.4, 0.4]) {
            assert!((given - due * f64::from(dealt)).abs() <= 16.0, "{shares:?} of {dealt}");
        }
    }
    let shown: Vec<f64> = world.storage.shares().iter().map(|share| (share.share * 10.0).round()).collect();
    assert_eq!(shown, [2.0, 4.0, 4.0]);
}

#[test]
fn reads_decide_as_soon_as_all_devices_were_read_and_before_any_measurement_files_count_alike() {
    let world = world_of_two_devices(&[file_of(8 * 400), file_of(8 * 400)]);
    let shares = |world: &World| world.storage.shares().iter().map(|share| share.share).collect::<Vec<f64>>();
    assert_eq!(shares(&world), [0.5, 0.5]);
    let mut small = AlignedBuffer::new(8192).expect("memory");
    for file in world.storage.files() {
        (0..8).for_each(|page| file.disk().read_at(&mut small, page * 8192).expect("a working disk"));
    }
    assert_eq!(shares(&world), [0.5, 0.5], "single pages measure latency");
    measure(&world, Direction::Write);
    measure(&world, Direction::Read);
    let measured = shares(&world);
    assert!((measured[0] - 0.2).abs() < 0.01, "{measured:?}");
    world.storage.set_fill(Fill::FreeSpace);
    assert_eq!(shares(&world), [0.5, 0.5]);
}

/// Files grow while it is their turn: neither fills up before the other one starts to grow.
#[test]
fn weighted_files_grow_in_their_turn_and_one_that_cannot_leaves_the_rest_to_the_others() {
    let size = FileSize { pages: 8 * 300, growth_pages: 8 * 16, max_pages: 0 };
    let limited = FileSize { max_pages: 8 * 350, ..size };
    let world = world_of_two_devices(&[limited, size]);
    measure(&world, Direction::Write);
    let mut dealt = 0;
    let mut allocate = |until: u32| {
        while dealt < until {
            dealt += world.allocate(4).expect("the second file grows").1;
        }
    };
    allocate(1500);
    let used = used_extents(&world);
    assert!((298..=305).contains(&used[0]) && used[1] > 1190, "a fifth and four fifths: {used:?}");
    allocate(3000);
    assert_eq!(used_extents(&world)[0], 350, "it is full, and the other one has all the rest");
}

/// A full file whose disk has no room is not asked at each allocation, and grows again when room has come.
#[test]
fn a_weighted_file_whose_disk_is_full_is_tried_again_seldom_and_grows_when_there_is_room() {
    let size = FileSize { pages: 8 * 40, growth_pages: 8 * 16, max_pages: 0 };
    let roomy = FileSize { pages: 8 * 4_000, ..size };
    let world = world_of_two_devices(&[size, roomy]);
    let disk = world.simulated.as_ref().expect("a simulated disk");
    disk.leave_free(Some(0));
    let allocate = |extents: u32| {
        let mut dealt = 0;
        while dealt < extents {
            dealt += world.allocate(1).expect("the second file has room").1;
        }
    };
    let attempts = || disk.operations(Operation::SetSize);
    allocate(100);
    let first = attempts();
    allocate(900);
    assert_eq!(attempts(), first, "the full file is not asked again so early");
    allocate(1_000);
    assert!(attempts() > first, "after 1,024 extents of the others it is asked");
    disk.leave_free(None);
    allocate(1_200);
    assert!(world.storage.files()[0].size_pages() > size.pages, "room has come");
}
