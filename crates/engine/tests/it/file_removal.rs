//! Removal of data files and filegroups from a database, and what a crash leaves of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hobt_base::{FileId, number};
use hobt_disk::{Disk, Fault, FaultKind, Operation, SimulatedDisk};
use hobt_engine::{
    DataSpaceDefinition, Database, DatabaseDefinition, DatabaseUse, EngineError, FileDefinition, Instance,
    InstanceSettings, TableDefinition,
};
use hobt_types::Value;

use crate::fixture::{
    FOLDER, begin, check_extents, create, create_partitions, database_named, insert, number_of, open, row, rows, run,
    settings, simulated, small_file, table, table_named, unlocked,
};

/// The system's error number for a device that fails.
const EIO: i32 = 5;

fn path_of(name: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{name}.ndf"))
}

/// Opens the instance so that only the test makes checkpoints: the whole log is read again after a crash.
fn open_without_checkpoints(disk: &Arc<SimulatedDisk>) -> Arc<Instance> {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    let settings = InstanceSettings { checkpoints_by_hand: true, ..settings() };
    Instance::open_on(disk, Path::new(FOLDER), settings).expect("the instance opens")
}

fn table_on(name: &str, filegroup: &str) -> TableDefinition {
    TableDefinition { data_space: DataSpaceDefinition::Named(filegroup.to_owned()), ..table_named(name) }
}

fn with_rows(instance: &Instance, database: &Arc<Database>, definition: &TableDefinition, count: i64) {
    run(instance, |ctx| {
        let table = database.create_table(ctx, definition)?;
        insert(database, ctx, &table, 0, (0..count).map(row))
    })
    .expect("made");
}

fn drop_table(instance: &Instance, database: &Arc<Database>, name: &str) -> Result<(), EngineError> {
    run(instance, |ctx| database.drop_table(ctx, "dbo", name, &mut unlocked).map(drop))
}

fn file_ids(database: &DatabaseUse) -> Vec<u16> {
    let listed: Vec<u16> = database.snapshot().files.iter().map(|file| file.id.0).collect();
    let mut open: Vec<u16> = database.storage().files().iter().map(|file| file.id().0).collect();
    open.sort_unstable();
    assert_eq!(listed, open, "the files that are listed are those that are open");
    listed
}

/// A database with a filegroup `more` with the files `one` (3) and `two` (4).
fn world(instance: &Instance) -> DatabaseUse {
    let database = create(instance, "shop");
    instance.add_filegroup(&database, "more").expect("a filegroup");
    instance.add_files(&database, Some("more"), &[small_file("one"), small_file("two")]).expect("files");
    database
}

#[test]
fn an_empty_file_is_removed_and_a_used_the_primary_or_the_last_default_one_is_not() {
    let disk = simulated();
    let instance = open(&disk);
    let database = world(&instance);
    with_rows(&instance, &database, &table_on("t", "more"), 3000);
    let refused = |name: &str| number_of(instance.remove_file(&database, name));
    assert_eq!(refused("shop"), number::PRIMARY_FILE);
    assert_eq!(refused("none"), number::NO_SUCH_FILE);
    assert_eq!(refused("one"), number::FILE_NOT_EMPTY);
    assert_eq!(refused("two"), number::FILE_NOT_EMPTY);
    assert_eq!(file_ids(&database), [1, 3, 4]);
    // What was refused stays in use.
    with_rows(&instance, &database, &table_on("u", "more"), 3000);
    let open = begin(&instance);
    database.drop_table(&open, "dbo", "t", &mut unlocked).expect("dropped");
    assert_eq!(refused("two"), number::FILE_NOT_EMPTY, "a drop that is not committed frees nothing");
    instance.end_statement(&open, true, &[&database]).expect("committed");
    drop_table(&instance, &database, "u").expect("dropped");
    instance.remove_file(&database, "TWO").expect("it is empty");
    assert!(!disk.exists(&path_of("two")));
    assert_eq!(file_ids(&database), [1, 3]);
    // Everything goes to the other file now.
    with_rows(&instance, &database, &table_on("t", "more"), 3000);
    check_extents(&database);
    instance.set_default_filegroup(&database, "more").expect("a default");
    drop_table(&instance, &database, "t").expect("dropped");
    assert_eq!(refused("one"), number::ONLY_DEFAULT_FILE);
    drop(database);
    instance.close().expect("closed");
    let instance = crate::fixture::open(&disk);
    assert_eq!(file_ids(&instance.database("shop").expect("it")), [1, 3]);
}

#[test]
fn a_filegroup_is_removed_when_nothing_refers_to_it() {
    let disk = simulated();
    let instance = open(&disk);
    let database = world(&instance);
    let refused = |name: &str| number_of(instance.remove_filegroup(&database, name));
    assert_eq!(refused("none"), number::NO_SUCH_FILEGROUP);
    assert_eq!(refused("PRIMARY"), number::FILE_NOT_EMPTY);
    assert_eq!(refused("more"), number::FILE_NOT_EMPTY);
    let made = run(&instance, |ctx| create_partitions(&database, ctx, vec![Value::Int(100)], &["PRIMARY", "more"]));
    made.expect("made");
    instance.remove_file(&database, "one").expect("empty");
    instance.remove_file(&database, "two").expect("empty");
    assert_eq!(refused("more"), number::FILE_NOT_EMPTY, "a partition scheme uses it");
    let made = run(&instance, |ctx| database.create_table(ctx, &table_on("t", "more")).map(drop));
    assert_eq!(number_of(made), number::FILEGROUP_WITHOUT_FILES);
    run(&instance, |ctx| database.drop_partition_scheme(ctx, "ps")).expect("dropped");
    instance.remove_filegroup(&database, "MORE").expect("nothing is in it");
    assert!(database.snapshot().filegroup("more").is_none());
    drop(database);
    instance.close().expect("closed");
    let instance = open(&disk);
    let database = instance.database("shop").expect("it");
    assert_eq!(database.snapshot().filegroups.len(), 1);
    instance.add_filegroup(&database, "more").expect("its name is free");
}

/// Recovery would apply the removed file's log records to the new one.
#[test]
fn an_id_is_given_again_only_when_recovery_reads_nothing_of_the_removed_file() {
    let disk = simulated();
    let instance = open_without_checkpoints(&disk);
    let database = world(&instance);
    with_rows(&instance, &database, &table_on("t", "more"), 5000);
    drop_table(&instance, &database, "t").expect("dropped");
    instance.remove_file(&database, "two").expect("empty");
    instance.add_files(&database, Some("more"), &[small_file("three")]).expect("added");
    assert_eq!(file_ids(&database), [1, 3, 5]);
    instance.checkpoint().expect("saved");
    instance.add_files(&database, Some("more"), &[small_file("four")]).expect("added");
    assert_eq!(file_ids(&database), [1, 3, 4, 5]);
    with_rows(&instance, &database, &table_on("t", "more"), 5000);
    drop(database);
    disk.crash(1);
    drop(instance);
    disk.power_on();
    let instance = open(&disk);
    let database = instance.database("shop").expect("recovered");
    assert_eq!(file_ids(&database), [1, 3, 4, 5]);
    assert_eq!(rows(&database, &table(&database, "t")).expect("rows").len(), 5000);
    check_extents(&database);
}

/// The power fails at each write of REMOVE FILE. Then the file exists intact, or is gone from the lists and from the
/// disk. The same statement, or one that adds the file again, works.
#[test]
fn a_crash_leaves_the_file_or_nothing_of_it() {
    let (mut kept, mut gone) = (0, 0);
    for cut in 1.. {
        let disk = simulated();
        let instance = open_without_checkpoints(&disk);
        let database = world(&instance);
        with_rows(&instance, &database, &table_on("t", "more"), 3000);
        with_rows(&instance, &database, &table_named("kept"), 300);
        drop_table(&instance, &database, "t").expect("dropped");
        disk.crash_at(disk.changes() + cut, cut);
        let removed = instance.remove_file(&database, "two");
        let was_cut = disk.is_off();
        disk.crash(cut);
        drop((removed, database, instance));
        disk.power_on();
        let instance = open(&disk);
        let is_on_disk = disk.exists(&path_of("two"));
        let database = instance.database("shop").expect("recovered");
        let is_there = file_ids(&database).contains(&4);
        assert_eq!(is_there, is_on_disk, "cut at {cut}");
        assert!(was_cut || !is_there);
        if is_there {
            kept += 1;
            with_rows(&instance, &database, &table_on("t", "more"), 3000);
            check_extents(&database);
            drop_table(&instance, &database, "t").expect("dropped");
            instance.remove_file(&database, "two").unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        } else {
            gone += 1;
        }
        instance.add_files(&database, Some("more"), &[small_file("two")]).expect("its name and place are free");
        with_rows(&instance, &database, &table_on("t", "more"), 3000);
        assert!(!database.storage().file(FileId(3)).expect("it").is_empty());
        drop(database);
        disk.crash(cut);
        drop(instance);
        disk.power_on();
        let instance = open(&disk);
        let database = instance.database("shop").expect("recovered");
        assert_eq!(rows(&database, &table(&database, "t")).expect("rows").len(), 3000);
        assert_eq!(rows(&database, &table(&database, "kept")).expect("rows").len(), 300);
        assert_eq!(file_ids(&database).len(), 3);
        check_extents(&database);
        drop(database);
        instance.close().expect("closed");
        assert_eq!(file_ids(&open(&disk).database("shop").expect("it")).len(), 3);
        if !was_cut {
            break;
        }
    }
    assert!(kept > 0 && gone > 3, "it was kept {kept} times and gone {gone} times");
}

/// `master` fails while it records the removal, so the outcome is unknown. The database works on, is closed, and opens,
/// with either outcome.
#[test]
fn a_list_that_fails_leaves_the_file_or_nothing_of_it() {
    let (mut kept, mut gone) = (0, 0);
    for (operation, after) in
        [Operation::Write, Operation::Sync].into_iter().flat_map(|each| (0..6).map(move |n| (each, n)))
    {
        let disk = simulated();
        let instance = open(&disk);
        let database = world(&instance);
        with_rows(&instance, &database, &table_named("kept"), 300);
        let kind = FaultKind::Error(EIO);
        disk.inject(Fault { operation, path_contains: "master".to_owned(), after, kind, forever: true });
        let removed = instance.remove_file(&database, "two");
        assert!(after == 0 || removed.is_ok(), "what fails behind the decision is of no interest to the statement");
        disk.clear_faults();
        drop(database);
        instance.close().expect("closed");
        drop(instance);
        let instance = open(&disk);
        let database = instance.database("shop").unwrap_or_else(|error| panic!("{operation:?} {after}: {error}"));
        let is_there = file_ids(&database).contains(&4);
        assert_eq!(is_there, disk.exists(&path_of("two")));
        *if is_there { &mut kept } else { &mut gone } += 1;
        assert_eq!(rows(&database, &table(&database, "kept")).expect("rows").len(), 300);
    }
    assert!(kept > 0 && gone > 0, "it was kept {kept} times and gone {gone} times");
}

fn with_a_file_that_could_not_be_deleted(disk: &Arc<SimulatedDisk>) -> (Arc<Instance>, DatabaseUse) {
    let instance = open(disk);
    let database = world(&instance);
    disk.inject(Fault::once(Operation::Remove, 0, FaultKind::Error(EIO)));
    instance.remove_file(&database, "two").expect("it is off the lists");
    disk.clear_faults();
    assert!(disk.exists(&path_of("two")));
    (instance, database)
}

/// A file that could not be deleted does not belong to the database, and is deleted at the next start.
#[test]
fn a_file_that_cannot_be_deleted_goes_at_the_next_start() {
    let disk = simulated();
    let (instance, database) = with_a_file_that_could_not_be_deleted(&disk);
    assert_eq!(file_ids(&database), [1, 3]);
    drop(database);
    instance.close().expect("closed");
    let instance = open(&disk);
    assert!(!disk.exists(&path_of("two")));
    let database = instance.database("shop").expect("it");
    instance.add_files(&database, None, &[small_file("two")]).expect("its place is free");
    assert_eq!(file_ids(&database), [1, 3, 4]);
}

/// A file at the path of a removed file may by now belong to another database.
#[test]
fn a_drop_keeps_what_took_the_place_of_a_file_that_could_not_be_deleted() {
    let disk = simulated();
    let (instance, database) = with_a_file_that_could_not_be_deleted(&disk);
    let file = FileDefinition { path: Some(path_of("two")), ..small_file("two") };
    let definition = DatabaseDefinition { primary: vec![file], ..database_named("other") };
    let other = instance.create_database(&definition).expect("nothing is in the file").database;
    with_rows(&instance, &other, &table_named("t"), 300);
    drop((database, other));
    instance.drop_database("shop").expect("dropped");
    assert!(!disk.exists(&path_of("one")));
    instance.close().expect("closed");
    let instance = open(&disk);
    let other = instance.database("other").expect("it is whole");
    assert_eq!(rows(&other, &table(&other, "t")).expect("rows").len(), 300);
}
