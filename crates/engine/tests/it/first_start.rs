//! The first start of an instance, interrupted or failed at each of its operations, and the starts after it.

use std::path::Path;
use std::sync::Arc;

use hobt_disk::{Disk, Fault, FaultKind, Operation, SimulatedConfig, SimulatedDisk};
use hobt_engine::Instance;

use crate::fixture::{FOLDER, create, insert, open, row, rows, run, simulated, table, table_named, try_open};

const EIO: i32 = 5;
const EACCES: i32 = 13;
const EMFILE: i32 = 24;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;

/// The names in the instance's folder.
fn names(disk: &SimulatedDisk) -> Vec<String> {
    let listed = disk.list(Path::new(FOLDER)).unwrap_or_default();
    listed.iter().filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
}

/// The instance works: it opens, keeps its data over a power failure, and nothing of its creation is left.
fn check_usable(disk: &Arc<SimulatedDisk>, what: &str) {
    let instance = try_open(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(names(disk), ["hobt.lock", "master.mdf", "master_log.ldf", "tempdb.mdf"], "{what}");
    drop(create(&instance, "shop"));
    drop(instance);
    disk.crash(7);
    let instance = try_open(disk).unwrap_or_else(|error| panic!("{what}, after a power failure: {error}"));
    let database = instance.database("shop").unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(database);
    instance.close().expect("closed");
}

/// The number of operations of a first start that change something.
fn changes_of_a_start() -> u64 {
    let disk = simulated();
    let instance = open(&disk);
    let changes = disk.changes();
    drop(instance);
    changes
}

/// A start in which the power fails at the `change`-th change, counted from now.
fn cut_start(disk: &Arc<SimulatedDisk>, change: u64, seed: u64) -> Option<Arc<Instance>> {
    disk.crash_at(disk.changes() + change, seed);
    let started = try_open(disk).ok();
    let was_cut = disk.is_off();
    disk.power_on();
    assert!(!(was_cut && started.is_some()), "a start is over when the power fails behind it");
    started
}

#[test]
fn a_first_start_that_loses_its_power_anywhere_is_made_up_for_by_the_next() {
    let changes = changes_of_a_start();
    assert!(changes > 30, "{changes} changes are a start");
    for change in 1..=changes {
        for seed in 0..2 {
            let disk = simulated();
            drop(cut_start(&disk, change, change * 8 + seed));
            check_usable(&disk, &format!("cut at {change} of {changes}, seed {seed}"));
        }
    }
}

#[test]
fn so_is_one_whose_repair_loses_its_power_too() {
    let changes = changes_of_a_start();
    // First cuts that leave little, a half, and nearly all of an instance; then every position of the second cut.
    for first in [3, changes / 2, changes - 6, changes - 1] {
        let mut second = 1;
        loop {
            let disk = simulated();
            drop(cut_start(&disk, first, first));
            let started = cut_start(&disk, second, second * 3 + first);
            let is_over = started.is_some();
            drop(started);
            check_usable(&disk, &format!("cut at {first}, then at {second}"));
            if is_over {
                break;
            }
            second += 1;
        }
        assert!(second > 5, "a repair after a cut at {first} has {second} operations");
    }
}

#[test]
fn a_first_start_that_fails_anywhere_leaves_the_locked_folder_alone_and_the_next_one_succeeds() {
    let mut failed = 0;
    for (operation, errors) in [
        (Operation::Open, [EMFILE, ENOSPC]),
        (Operation::Write, [EIO, ENOSPC]),
        (Operation::Sync, [EIO, ENOSPC]),
        (Operation::SetSize, [EFBIG, ENOSPC]),
        (Operation::Directory, [EIO, EACCES]),
        (Operation::Remove, [EIO, EACCES]),
        (Operation::Read, [EIO, EACCES]),
    ] {
        for error in errors {
            for after in 0.. {
                let what = format!("{operation} {after} fails with {error}");
                let disk = simulated();
                disk.inject(Fault::once(operation, after, FaultKind::Error(error)));
                let started = try_open(&disk);
                let is_over = started.is_ok();
                drop(started);
                disk.clear_faults();
                if !is_over {
                    failed += 1;
                    let left = names(&disk);
                    let is_clean = left.is_empty() || left == ["hobt.lock"];
                    // The end of the creation is not undone: the instance is complete, or created again.
                    let is_whole = ["master.mdf", "master_log.ldf", "tempdb.mdf"]
                        .iter()
                        .all(|name| left.iter().any(|other| other == name));
                    assert!(is_clean || is_whole, "{what}: {left:?}");
                }
                check_usable(&disk, &what);
                if is_over {
                    break;
                }
            }
        }
    }
    assert!(failed > 60, "{failed} starts failed");
}

#[test]
fn a_first_start_on_a_disk_that_is_too_small_leaves_nothing_of_itself() {
    let needed = 40 << 20;
    let mut refused = 0;
    for capacity_bytes in (0..needed).step_by(1 << 20) {
        let config = SimulatedConfig { capacity_bytes, ..SimulatedConfig::default() };
        let disk = SimulatedDisk::start(config).expect("a disk in memory");
        for attempt in 0..2 {
            if let Err(error) = try_open(&disk) {
                let error = error.to_sql_error();
                assert_eq!(error.number, hobt_base::number::DEVICE_ACTIVATION, "{error}");
                assert!(error.message.contains("No space left"), "attempt {attempt}: {error}");
                assert_eq!(names(&disk), ["hobt.lock"], "{capacity_bytes} bytes, attempt {attempt}");
                refused += 1;
            }
        }
    }
    assert!(refused > 20, "{refused} disks are too small");
}

#[test]
fn an_instance_that_was_used_is_not_taken_for_an_unfinished_one() {
    let disk = simulated();
    let instance = open(&disk);
    let database = create(&instance, "shop");
    let made = run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    run(&instance, |ctx| insert(&database, ctx, &made, 0, (0..10).map(row))).expect("inserted");
    drop(database);
    instance.close().expect("closed");
    let marker = Path::new(FOLDER).join("hobt.making");
    let options = hobt_disk::OpenOptions { create_new: true, ..hobt_disk::OpenOptions::default() };
    drop(disk.open(&marker, options).expect("put there"));
    let instance = open(&disk);
    assert!(!disk.exists(&marker));
    let database = instance.database("shop").expect("it is listed still");
    assert_eq!(rows(&database, &table(&database, "t")).expect("rows").len(), 10);
    drop(database);
    instance.close().expect("closed");
    // A missing master of a complete instance is refused.
    disk.remove(&Path::new(FOLDER).join("master.mdf")).expect("removed");
    let error = try_open(&disk).expect_err("its list of databases would be lost").to_string();
    assert!(error.contains("the file is missing"), "{error}");
}

#[test]
fn an_instance_that_was_used_is_kept_when_its_master_cannot_be_read_at_a_start() {
    let mut failed = 0;
    for (operation, errors) in [(Operation::Open, [EMFILE, EACCES]), (Operation::Read, [EIO, EACCES])] {
        for error in errors {
            for after in 0.. {
                let disk = simulated();
                let instance = open(&disk);
                drop(create(&instance, "shop"));
                instance.close().expect("closed");
                drop(instance);
                let options = hobt_disk::OpenOptions { create_new: true, ..hobt_disk::OpenOptions::default() };
                drop(disk.open(&Path::new(FOLDER).join("hobt.making"), options).expect("put there"));
                disk.inject(Fault::once(operation, after, FaultKind::Error(error)));
                let started = try_open(&disk);
                let is_over = started.is_ok();
                drop(started);
                disk.clear_faults();
                let instance = open(&disk);
                let what = format!("{operation} {after} fails with {error}");
                drop(instance.database("shop").unwrap_or_else(|error| panic!("{what}: {error}")));
                failed += u32::from(!is_over);
                if is_over && after > 20 {
                    break;
                }
            }
        }
    }
    assert!(failed > 4, "{failed} starts failed");
}
