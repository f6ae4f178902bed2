//! CREATE, ALTER and DROP DATABASE.

use std::path::{Path, PathBuf};

use hobt_base::number;
use hobt_disk::Disk;
use hobt_engine::{DataSpaceDefinition, DatabaseDefinition, FileDefinition, FilegroupDefinition, TableDefinition};
use hobt_types::Value;

use crate::fixture::{
    FOLDER, check_extents, create, create_partitions, database_named, insert, number_of, open, row, rows, run,
    simulated, small_file, table, table_named,
};

#[test]
fn two_databases_with_several_filegroups_keep_their_rows_apart() {
    let disk = simulated();
    let instance = open(&disk);
    for name in ["first", "second"] {
        let database = create(&instance, name);
        for group in ["fast", "slow"] {
            instance.add_filegroup(&database, group).expect("a filegroup");
            let files: Vec<_> = (0..3).map(|index| small_file(&format!("{name}_{group}_{index}"))).collect();
            instance.add_files(&database, Some(group), &files).expect("files");
        }
        instance.set_default_filegroup(&database, "slow").expect("a default");
        run(&instance, |ctx| {
            let boundaries = vec![Value::Int(100), Value::Int(200)];
            create_partitions(&database, ctx, boundaries, &["fast", "slow", "PRIMARY"])?;
            let data_space = DataSpaceDefinition::Scheme { scheme: "ps".to_owned(), column: "id".to_owned() };
            let made = database.create_table(ctx, &TableDefinition { data_space, ..table_named("parts") })?;
            for partition in 0..3_i64 {
                let rows = (partition * 5000..partition * 5000 + 3000).map(row);
                insert(&database, ctx, &made, usize::try_from(partition).expect("small"), rows)?;
            }
            database.create_table(ctx, &table_named(name)).map(|_| ())
        })
        .expect("made");
    }
    instance.close().expect("closed");
    let instance = open(&disk);
    for name in ["first", "second"] {
        let database = instance.database(name).expect("the database");
        check_extents(&database);
        let snapshot = database.snapshot();
        assert_eq!(snapshot.files.len(), 7);
        let parts = table(&database, "parts");
        assert_eq!(rows(&database, &parts).expect("rows").len(), 9000);
        for partition in &parts.base_index().partitions {
            for run in database.hobt(partition.hobt).expect("a heap").runs() {
                let file = snapshot.files.iter().find(|file| file.id == run.first.file).expect("a file");
                assert_eq!(file.filegroup, partition.filegroup, "rows lie where the scheme has them");
            }
        }
        let slow = snapshot.filegroup("slow").expect("the filegroup").id;
        assert_eq!(table(&database, name).base_index().partitions[0].filegroup, slow, "the default filegroup");
    }
}

#[test]
fn names_and_paths_that_are_taken_are_refused() {
    let disk = simulated();
    let instance = open(&disk);
    drop(create(&instance, "shop"));
    let file = |name: &str, path: &str| FileDefinition {
        name: Some(name.to_owned()),
        path: Some(PathBuf::from(path)),
        ..FileDefinition::default()
    };
    let with = |primary: Vec<FileDefinition>| DatabaseDefinition { primary, ..database_named("new") };
    assert_eq!(number_of(instance.create_database(&database_named("SHOP"))), number::DATABASE_EXISTS);
    assert_eq!(number_of(instance.create_database(&database_named("Master"))), number::DATABASE_EXISTS);
    assert_eq!(number_of(instance.create_database(&database_named(""))), number::EMPTY_NAME);
    assert_eq!(number_of(instance.create_database(&database_named(&"x".repeat(129)))), number::IDENTIFIER_TOO_LONG);
    let twice = with(vec![file("a", "a.mdf"), file("A", "b.mdf")]);
    assert_eq!(number_of(instance.create_database(&twice)), number::FILE_NAME_IN_USE);
    let others = with(vec![file("a", "sub/../shop.mdf")]);
    assert_eq!(number_of(instance.create_database(&others)), number::FILE_OF_ANOTHER_DATABASE);
    let masters = with(vec![file("a", "master.mdf")]);
    assert_eq!(number_of(instance.create_database(&masters)), number::FILE_OF_ANOTHER_DATABASE);
    let options = hobt_disk::OpenOptions { create_new: true, ..hobt_disk::OpenOptions::default() };
    let there = disk.open(&Path::new(FOLDER).join("there.mdf"), options).expect("a new file");
    let mut somebodys = hobt_disk::AlignedBuffer::new(8192).expect("memory");
    somebodys.fill(7);
    there.write_durable_at(&somebodys, 0).expect("room");
    drop(there);
    let existing = with(vec![file("a", "there.mdf")]);
    assert_eq!(number_of(instance.create_database(&existing)), number::FILE_EXISTS);
    // The instance's own names are refused in any letter case, and as folders in a path.
    let own = ["hobt.lock", "hobt.making", "HOBT.making/a.mdf"];
    for path in ["../a.mdf", "/elsewhere/a.mdf", "sub/../../a.mdf", "", "sub/"].into_iter().chain(own) {
        let outside = with(vec![file("a", path)]);
        assert_eq!(number_of(instance.create_database(&outside)), number::CANNOT_CREATE_FILE, "{path}");
    }
    let too_small = FileDefinition { size_pages: Some(4096), max_pages: Some(1024), ..file("a", "a.mdf") };
    assert_eq!(number_of(instance.create_database(&with(vec![too_small]))), number::FILE_SIZE);
    assert_eq!(number_of(instance.database("new")), number::DATABASE_DOES_NOT_EXIST);
    let deep = instance.create_database(&with(vec![file("a", "made/below/a.mdf")])).expect("folders are made");
    assert!(disk.exists(&Path::new(FOLDER).join("made/below/a.mdf")));
    let shop = instance.database("shop").expect("the database");
    let taken = [file("x", "made/below/a.mdf")];
    assert_eq!(number_of(instance.add_files(&shop, None, &taken)), number::FILE_OF_ANOTHER_DATABASE);
    assert_eq!(number_of(instance.add_files(&shop, None, &[file("Shop", "y.ndf")])), number::FILE_NAME_IN_USE);
    assert_eq!(number_of(instance.add_files(&shop, Some("none"), &[])), number::INVALID_DATA_SPACE);
    assert_eq!(number_of(instance.add_filegroup(&shop, "primary")), number::FILE_NAME_IN_USE);
    drop(deep);
}

#[test]
fn a_filegroup_that_is_named_as_default_is_the_default_one() {
    let disk = simulated();
    let instance = open(&disk);
    let definition = DatabaseDefinition {
        filegroups: vec![FilegroupDefinition { name: "fg".to_owned(), is_default: true, files: vec![small_file("f")] }],
        ..database_named("shop")
    };
    let created = instance.create_database(&definition).expect("made");
    let files: Vec<_> = created.database.snapshot().files.iter().map(|file| file.name.clone()).collect();
    assert_eq!(files, ["shop", "f"]);
    assert_eq!(created.database.snapshot().default_filegroup(), hobt_base::FilegroupId(2));
}

#[test]
fn a_database_in_use_is_not_dropped_and_a_dropped_one_leaves_nothing() {
    let disk = simulated();
    let instance = open(&disk);
    let database = create(&instance, "shop");
    let other = database.clone();
    drop(database);
    assert_eq!(number_of(instance.drop_database("shop")), number::DATABASE_IN_USE);
    drop(other);
    instance.drop_database("Shop").expect("nobody uses it");
    assert!(!disk.exists(&Path::new(FOLDER).join("shop.mdf")));
    assert_eq!(number_of(instance.drop_database("shop")), number::DROP_DOES_NOT_EXIST);
    assert_eq!(number_of(instance.drop_database("tempdb")), number::SYSTEM_DATABASE);
    let again = create(&instance, "shop");
    assert!(again.id().0 > 5, "the id of a dropped database is not used again");
    drop(again);
    instance.close().expect("closed");
    let instance = open(&disk);
    assert_eq!(instance.databases().len(), 3);
    instance.drop_database("shop").expect("a database that was not opened yet");
    assert_eq!(instance.databases().len(), 2);
}

#[test]
fn tempdb_is_empty_after_a_restart() {
    let disk = simulated();
    let instance = open(&disk);
    let tempdb = instance.tempdb().expect("tempdb");
    let made = run(&instance, |ctx| tempdb.create_table(ctx, &table_named("#t"))).expect("made");
    run(&instance, |ctx| insert(&tempdb, ctx, &made, 0, (0..500).map(row))).expect("inserted");
    drop(tempdb);
    instance.close().expect("closed");
    let instance = open(&disk);
    let tempdb = instance.tempdb().expect("tempdb");
    assert!(tempdb.snapshot().table(1, "#t").is_none());
}

#[test]
fn a_closed_instance_refuses_and_lets_go_of_its_folder() {
    let disk = simulated();
    let instance = open(&disk);
    let database = create(&instance, "shop");
    instance.close().expect("closed");
    instance.close().expect("closed twice");
    assert_eq!(number_of(instance.database("shop")), number::DATABASE_INACCESSIBLE);
    let refused = run(&instance, |ctx| database.create_table(ctx, &table_named("t")));
    assert_eq!(number_of(refused), number::SHUTDOWN);
    assert_eq!(number_of(database.check_usable()), number::DATABASE_INACCESSIBLE);
    open(&disk).database("shop").expect("the files are free");
}

/// The power fails at each operation of CREATE DATABASE. The same statement works after the start, whatever the crash
/// left.
#[test]
fn what_a_crash_left_of_a_database_is_not_in_its_own_way() {
    let (mut removed, mut made) = (0, 0);
    // What is left of operations that were not durable is another part of them with each seed.
    for (cut, seed) in (1..).flat_map(|cut| [(cut, cut), (cut, cut + 1_000)]) {
        let disk = simulated();
        let instance = open(&disk);
        let definition = DatabaseDefinition { primary: vec![small_file("shop")], ..database_named("shop") };
        disk.crash_at(disk.changes() + cut, seed);
        let created = instance.create_database(&definition);
        let was_cut = disk.is_off();
        assert_eq!(created.is_err(), was_cut);
        disk.crash(seed);
        drop((created, instance));
        disk.power_on();
        let instance = open(&disk);
        if !instance.databases().iter().any(|database| database.name == "shop") {
            let created = instance.create_database(&definition).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            removed += created.left_over.len();
        } else {
            made += 1;
        }
        check_extents(&instance.database("shop").expect("it is there"));
        if !was_cut {
            break;
        }
    }
    assert!(removed > 10 && made > 1, "{removed} files were removed, {made} times it was there");
}

/// The power fails at each operation of ADD FILE. The same statement works after the start, whatever the crash left.
#[test]
fn what_a_crash_left_of_a_file_is_not_in_its_own_way() {
    let mut removed = 0;
    for cut in 1.. {
        let disk = simulated();
        let instance = open(&disk);
        let database = create(&instance, "shop");
        run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
        let more = [small_file("more")];
        disk.crash_at(disk.changes() + cut, cut);
        let added = instance.add_files(&database, None, &more);
        let was_cut = disk.is_off();
        disk.crash(cut);
        drop((added, database, instance));
        disk.power_on();
        let instance = open(&disk);
        let database = instance.database("shop").expect("recovered");
        if !database.snapshot().files.iter().any(|file| file.name == "more") {
            let added = instance.add_files(&database, None, &more);
            removed += added.unwrap_or_else(|error| panic!("cut at {cut}: {error}")).len();
        }
        check_extents(&database);
        if !was_cut {
            break;
        }
    }
    assert!(removed > 3, "{removed} files were removed");
}

/// Files of databases that were used, or that were detached while still empty, and files of other owners are not
/// removed.
#[test]
fn a_file_that_may_be_a_users_is_never_removed() {
    let disk = simulated();
    let instance = open(&disk);
    for (name, is_used) in [("used", true), ("empty", false)] {
        let database = create(&instance, name);
        if is_used {
            run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
        }
        drop(database);
        instance.detach_database(name).expect("detached");
        let definition = DatabaseDefinition { primary: vec![small_file(name)], ..database_named(name) };
        assert_eq!(number_of(instance.create_database(&definition)), number::FILE_EXISTS, "{name}");
        let path = Path::new(FOLDER).join(format!("{name}.mdf"));
        instance.attach_database(name, &[path], false).expect("it is as it was");
    }
    let database = instance.database("used").expect("it");
    instance.add_log_files(&database, &[small_file("log")]).expect("a second file of its log");
    drop(database);
    instance.detach_database("used").expect("detached");
    let other = instance.database("empty").expect("it");
    assert_eq!(number_of(instance.add_log_files(&other, &[small_file("log")])), number::FILE_EXISTS);
    drop(other);
    let paths = ["used.mdf", "used_log.ldf", "log.ldf"].map(|name| Path::new(FOLDER).join(name));
    instance.attach_database("used", &paths, false).expect("its log is whole");
    let database = instance.database("used").expect("it");
    let copy = Path::new(FOLDER).join("copy.ndf");
    let options = hobt_disk::OpenOptions { create_new: true, read_only: false, direct: true };
    let file = disk.open(&copy, options).expect("a new file");
    let mut text = hobt_disk::AlignedBuffer::new(4096).expect("memory");
    text[..5].copy_from_slice(b"hello");
    file.write_at(&text, 0).expect("written");
    drop(file);
    let more = FileDefinition { path: Some(copy.clone()), ..small_file("copy") };
    assert_eq!(number_of(instance.add_files(&database, None, &[more])), number::FILE_EXISTS);
    assert!(disk.exists(&copy));
}
