//! Logs of several files.

use std::path::Path;
use std::sync::Arc;

use hobt_base::{FileId, number};
use hobt_disk::{Disk, Fault, FaultKind, OpenOptions, Operation, SimulatedConfig, SimulatedDisk};
use hobt_engine::{DatabaseDefinition, DatabaseState, DatabaseUse, FileDefinition, Instance, LogDescription};

use hobt_catalog::Growth;

use crate::fixture::{
    FOLDER, begin, create, insert, number_of, open, row, rows, run, simulated, small_file, table, table_named,
};

const EIO: i32 = 5;

/// A log file of 4 MiB that does not grow.
fn log_file(name: &str) -> FileDefinition {
    FileDefinition {
        name: Some(name.to_owned()),
        size_pages: Some(512),
        growth: Some(Growth::None),
        ..FileDefinition::default()
    }
}

fn with_log(instance: &Instance, name: &str, log: &[&str]) -> DatabaseUse {
    let definition = DatabaseDefinition {
        name: name.to_owned(),
        primary: vec![small_file(name), small_file(&format!("{name}_more"))],
        log: log.iter().map(|name| log_file(name)).collect(),
        ..DatabaseDefinition::default()
    };
    let database = instance.create_database(&definition).expect("made").database;
    run(instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    database
}

fn files(database: &DatabaseUse) -> Vec<(u16, String)> {
    let log = LogDescription::of(database.storage()).expect("it has a log");
    log.files.into_iter().map(|file| (file.id.0, file.name)).collect()
}

fn segment_files(database: &DatabaseUse) -> Vec<FileId> {
    let log = LogDescription::of(database.storage()).expect("it has a log");
    log.segments.iter().filter(|segment| segment.sequence.is_some()).map(|segment| log.file_of(segment)).collect()
}

fn grow_to(instance: &Instance, database: &DatabaseUse, from: i64, count: i64) {
    let table = table(database, "t");
    run(instance, |ctx| insert(database, ctx, &table, 0, (from..from + count).map(row))).expect("in");
}

/// Inserts rows, in a few transactions, until there are records in a second file; returns the number of rows. Meanwhile
/// an open transaction keeps the first records.
fn fill_first_file(instance: &Instance, database: &DatabaseUse) -> usize {
    let open = begin(instance);
    database.create_table(&open, &table_named("kept")).expect("made");
    let mut count = 0;
    while segment_files(database).iter().all(|file| *file == FileId(2)) {
        grow_to(instance, database, count, 3000);
        count += 3000;
    }
    instance.end_statement(&open, true, &[database]).expect("committed");
    usize::try_from(count).expect("few")
}

#[test]
fn files_are_numbered_from_two_and_used_one_after_the_other() {
    let disk = simulated();
    let instance = open(&disk);
    let database = with_log(&instance, "shop", &["one", "two"]);
    assert_eq!(files(&database), [(2, "one".to_owned()), (4, "two".to_owned())]);
    let data: Vec<u16> = database.snapshot().files.iter().map(|file| file.id.0).collect();
    assert_eq!(data, [1, 3]);
    instance.add_log_files(&database, &[log_file("three")]).expect("added");
    assert_eq!(files(&database)[2], (5, "three".to_owned()));
    let count = fill_first_file(&instance, &database);
    drop(database);
    disk.crash(3);
    drop(instance);
    let instance = open(&disk);
    let database = instance.database("shop").expect("recovered");
    assert_eq!(files(&database).len(), 3);
    assert_eq!(rows(&database, &table(&database, "t")).expect("rows").len(), count);
}

#[test]
fn an_unused_file_is_removed_and_a_used_or_the_first_one_is_not() {
    let disk = simulated();
    let instance = open(&disk);
    let database = with_log(&instance, "shop", &["one", "two"]);
    let refused = |name: &str| number_of(instance.remove_file(&database, name));
    assert_eq!(refused("one"), number::PRIMARY_FILE);
    assert_eq!(refused("shop"), number::PRIMARY_FILE);
    assert_eq!(refused("none"), number::NO_SUCH_FILE);
    instance.remove_file(&database, "TWO").expect("unused");
    assert!(!disk.exists(&Path::new(FOLDER).join("two.ldf")));
    assert_eq!(files(&database).len(), 1);
    // Its name and its path are free again.
    instance.add_log_files(&database, &[log_file("two")]).expect("added");
    fill_first_file(&instance, &database);
    assert_eq!(refused("two"), number::FILE_NOT_EMPTY);
    drop(database);
    instance.close().expect("closed");
    let instance = open(&disk);
    assert_eq!(files(&instance.database("shop").expect("it")).len(), 2);
}

/// `master` fails while it records the removal, so the outcome is unknown. The database opens with either.
#[test]
fn a_list_that_fails_leaves_the_log_file_or_nothing_of_it() {
    let (mut kept, mut gone) = (0, 0);
    for (operation, after) in
        [Operation::Write, Operation::Sync].into_iter().flat_map(|each| (0..6).map(move |n| (each, n)))
    {
        let disk = simulated();
        let instance = open(&disk);
        let database = with_log(&instance, "shop", &["one", "two"]);
        let kind = FaultKind::Error(EIO);
        disk.inject(Fault { operation, path_contains: "master".to_owned(), after, kind, forever: true });
        let removed = instance.remove_file(&database, "two");
        disk.clear_faults();
        // What is not known to be in the log's files stays out of the file that may be gone.
        grow_to(&instance, &database, 0, 300);
        drop(database);
        disk.crash(after);
        drop(instance);
        let instance = open(&disk);
        let database = instance.database("shop").unwrap_or_else(|error| panic!("{operation:?} {after}: {error}"));
        let is_there = files(&database).len() == 2;
        assert!(!(is_there && removed.is_ok()), "{operation:?} {after}");
        *if is_there { &mut kept } else { &mut gone } += 1;
        assert_eq!(rows(&database, &table(&database, "t")).expect("rows").len(), 300);
    }
    assert!(kept > 0 && gone > 0, "it was kept {kept} times and gone {gone} times");
}

#[test]
fn names_and_places_are_those_of_no_other_file() {
    let disk = simulated();
    let instance = open(&disk);
    let database = with_log(&instance, "shop", &["one", "two"]);
    let add = |file: FileDefinition| number_of(instance.add_log_files(&database, &[file]));
    assert_eq!(add(log_file("SHOP")), number::FILE_NAME_IN_USE);
    assert_eq!(add(log_file("Two")), number::FILE_NAME_IN_USE);
    // Also if the path generated from the name belongs to another file.
    assert_eq!(add(log_file("two")), number::FILE_NAME_IN_USE);
    let elsewhere = |name: &str, path: &str| FileDefinition { path: Some(path.into()), ..log_file(name) };
    assert_eq!(add(elsewhere("two", "other.ldf")), number::FILE_NAME_IN_USE);
    assert_eq!(add(elsewhere("new", "../out.ldf")), number::CANNOT_CREATE_FILE);
    assert_eq!(add(elsewhere("new", "shop.mdf")), number::FILE_OF_ANOTHER_DATABASE);
    assert_eq!(add(FileDefinition { max_pages: Some(100), ..log_file("new") }), number::FILE_SIZE);
    let other = DatabaseDefinition { log: vec![elsewhere("log", "one.ldf")], name: "b".into(), ..Default::default() };
    assert_eq!(number_of(instance.create_database(&other)), number::FILE_OF_ANOTHER_DATABASE);
    assert!(!disk.exists(&Path::new(FOLDER).join("b.mdf")));
}

#[test]
fn an_added_or_removed_file_is_there_or_not_after_a_crash_at_any_step() {
    let mut left = 0;
    for cut in (1..).step_by(2) {
        let disk = simulated();
        let instance = open(&disk);
        let database = with_log(&instance, "shop", &["one"]);
        disk.crash_at(disk.changes() + cut, cut);
        let added = instance.add_log_files(&database, &[log_file("two")]);
        let removed = instance.remove_file(&database, "two");
        let was_cut = disk.is_off();
        // Whether the file itself is deleted does not matter to the statement.
        assert!(was_cut || (added.is_ok() && removed.is_ok()), "cut at {cut}");
        drop(database);
        disk.crash(cut);
        drop(instance);
        disk.power_on();
        let instance = open(&disk);
        let database = instance.database("shop").unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let count = files(&database).len();
        assert!(count <= 2, "cut at {cut}");
        grow_to(&instance, &database, 0, 10);
        // A free name and path can be used, whatever the crash left.
        if count == 1 {
            let added = instance.add_log_files(&database, &[log_file("two")]);
            left += added.unwrap_or_else(|error| panic!("cut at {cut}: {error}")).len();
        }
        if !was_cut {
            break;
        }
    }
    assert!(left > 3, "{left} files were in the way");
}

#[test]
fn a_log_file_that_is_missing_or_cut_makes_its_database_unusable_and_no_other() {
    for (is_removed, is_clean) in [(true, true), (true, false), (false, true), (false, false)] {
        let disk = simulated();
        let instance = open(&disk);
        let database = with_log(&instance, "shop", &["one", "two"]);
        drop(create(&instance, "other"));
        grow_to(&instance, &database, 0, 100);
        drop(database);
        if is_clean {
            instance.close().expect("closed");
        } else {
            disk.crash(1);
        }
        drop(instance);
        disk.power_on();
        let path = Path::new(FOLDER).join("two.ldf");
        if is_removed {
            disk.remove(&path).expect("removed");
        } else {
            let file = disk.open(&path, OpenOptions { direct: true, ..OpenOptions::default() }).expect("it is there");
            file.set_size(1 << 20).expect("cut");
        }
        let instance = open(&disk);
        let error = instance.database("shop").expect_err("it cannot be used").to_sql_error();
        assert!(error.message.contains("two.ldf"), "{error}");
        let state = instance.databases().into_iter().find(|known| known.name == "shop").expect("listed").state;
        let expected = if is_removed { DatabaseState::RecoveryPending } else { DatabaseState::Suspect };
        assert_eq!(state, expected, "{error}");
        instance.database("other").expect("not affected");
    }
}

#[test]
fn a_log_that_finds_no_room_on_the_disk_leaves_nothing_and_can_be_made_later() {
    let config = SimulatedConfig { capacity_bytes: 40 << 20, ..SimulatedConfig::default() };
    let disk: Arc<SimulatedDisk> = SimulatedDisk::start(config).expect("a disk in memory");
    let instance = open(&disk);
    let large = FileDefinition { size_pages: Some(8192), ..log_file("large") };
    let definition = DatabaseDefinition {
        name: "shop".to_owned(),
        primary: vec![small_file("shop")],
        log: vec![log_file("small"), large.clone()],
        ..DatabaseDefinition::default()
    };
    assert_eq!(number_of(instance.create_database(&definition)), number::CANNOT_EXPAND_FILE);
    for name in ["shop.mdf", "small.ldf", "large.ldf"] {
        assert!(!disk.exists(&Path::new(FOLDER).join(name)), "{name}");
    }
    let database = with_log(&instance, "shop", &["small"]);
    assert_eq!(number_of(instance.add_log_files(&database, &[large])), number::CANNOT_EXPAND_FILE);
    assert!(!disk.exists(&Path::new(FOLDER).join("large.ldf")));
    grow_to(&instance, &database, 0, 100);
    instance.add_log_files(&database, &[log_file("large")]).expect("a smaller one");
}
