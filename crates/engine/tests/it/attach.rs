//! Databases that leave an instance and come back, to the same instance or another one; offline and read-only
//! databases.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hobt_base::number;
use hobt_disk::{Disk, SimulatedDisk};
use hobt_engine::{DatabaseDefinition, DatabaseState, DatabaseUse, FileDefinition, Instance};

use crate::fixture::{
    FOLDER, Folder, check_extents, create, insert, number_of, open, row, rows, run, settings, simulated, small_file,
    table, table_named,
};

const ELSEWHERE: &str = "/hobt-elsewhere";

fn with_rows(instance: &Instance, name: &str, files: &[&str], count: i64) -> DatabaseUse {
    let definition = DatabaseDefinition {
        name: name.to_owned(),
        primary: files.iter().map(|file| small_file(file)).collect(),
        ..DatabaseDefinition::default()
    };
    let database = instance.create_database(&definition).expect("made").database;
    let made = run(instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    run(instance, |ctx| insert(&database, ctx, &made, 0, (0..count).map(row))).expect("inserted");
    database
}

fn row_count(database: &DatabaseUse) -> usize {
    check_extents(database);
    rows(database, &table(database, "t")).expect("rows").len()
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

fn names(instance: &Instance) -> Vec<String> {
    instance.databases().into_iter().map(|database| database.name).filter(|name| name.len() < 6).collect()
}

/// Another instance on the same disk, which may use the first one's folder.
fn open_elsewhere(disk: &Arc<SimulatedDisk>) -> Arc<Instance> {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    let settings = hobt_engine::InstanceSettings { allowed_folders: vec![FOLDER.into()], ..settings() };
    Instance::open_on(disk, Path::new(ELSEWHERE), settings).expect("the instance opens")
}

#[test]
fn a_detached_database_is_attached_under_another_name_with_all_its_rows() {
    let disk = simulated();
    let instance = open(&disk);
    drop(with_rows(&instance, "shop", &["shop", "more"], 500));
    instance.detach_database("SHOP").expect("detached");
    assert_eq!(number_of(instance.database("shop")), number::DATABASE_DOES_NOT_EXIST);
    assert!(disk.exists(&Path::new(FOLDER).join("shop.mdf")));
    let attached = instance.attach_database("store", &paths(&["shop.mdf", "more.ndf"]), false).expect("attached");
    assert_eq!(row_count(&attached.database), 500);
    let made = table(&attached.database, "t");
    run(&instance, |ctx| insert(&attached.database, ctx, &made, 0, (500..600).map(row))).expect("inserted");
    drop(attached);
    disk.crash(1);
    drop(instance);
    let instance = open(&disk);
    assert_eq!(names(&instance), ["store"]);
    assert_eq!(row_count(&instance.database("store").expect("recovered")), 600);
}

#[test]
fn a_database_that_was_not_closed_is_recovered_when_it_is_attached_and_the_clock_passes_its_stamps() {
    let disk = simulated();
    let instance = open(&disk);
    let database = with_rows(&instance, "shop", &["shop"], 10);
    for id in 10..200 {
        run(&instance, |ctx| insert(&database, ctx, &table(&database, "t"), 0, std::iter::once(row(id)))).expect("in");
    }
    let stamp = instance.next_stamp();
    drop(database);
    disk.crash(7);
    drop(instance);
    let other = open_elsewhere(&disk);
    let path = Path::new(FOLDER).join("shop.mdf");
    let attached = other.attach_database("shop", &[path], false).expect("attached");
    assert_eq!(row_count(&attached.database), 200);
    assert!(other.next_stamp().0 + 20 > stamp.0, "stamps go on where the database's ended");
    // The old instance finds the database in use.
    let old = open(&disk);
    assert_eq!(number_of(old.database("shop")), number::DATABASE_INACCESSIBLE);
}

#[test]
fn a_missing_log_is_made_anew_for_a_database_that_was_closed_and_for_no_other() {
    for is_clean in [true, false] {
        let disk = simulated();
        let instance = open(&disk);
        drop(with_rows(&instance, "shop", &["shop"], 50));
        if is_clean {
            instance.detach_database("shop").expect("detached");
        } else {
            disk.crash(2);
        }
        drop(instance);
        disk.power_on();
        disk.remove(&Path::new(FOLDER).join("shop_log.ldf")).expect("removed");
        let other = open_elsewhere(&disk);
        let path = [Path::new(FOLDER).join("shop.mdf")];
        for rebuilds in [false, true] {
            let attached = other.attach_database("shop", &path, rebuilds);
            if is_clean {
                assert_eq!(row_count(&attached.expect("attached").database), 50);
                other.detach_database("shop").expect("detached");
                continue;
            }
            assert_eq!(number_of(attached), number::CANNOT_OPEN_NEW_DATABASE);
            assert!(names(&other).is_empty());
        }
        if is_clean {
            // Its pages have positions in the lost log: new changes must be redone all the same.
            disk.remove(&Path::new(FOLDER).join("shop_log.ldf")).expect("removed");
            let database = other.attach_database("shop", &path, false).expect("attached").database;
            run(&other, |ctx| insert(&database, ctx, &table(&database, "t"), 0, (50..90).map(row))).expect("in");
            drop(database);
            disk.crash(5);
            drop(other);
            let other = open_elsewhere(&disk);
            assert_eq!(row_count(&other.database("shop").expect("recovered")), 90);
        }
    }
}

#[test]
fn files_that_are_none_or_do_not_belong_together_are_refused_and_left_alone() {
    let disk = simulated();
    let instance = open(&disk);
    drop(with_rows(&instance, "a", &["a", "a2"], 5));
    drop(with_rows(&instance, "b", &["b"], 5));
    let attach = |instance: &Instance, name: &str, files: &[&str]| {
        number_of(instance.attach_database(name, &paths(files), false))
    };
    assert_eq!(attach(&instance, "b", &["x.mdf"]), number::DATABASE_EXISTS);
    assert_eq!(attach(&instance, "c", &["a.mdf"]), number::FILE_OF_ANOTHER_DATABASE);
    assert_eq!(attach(&instance, "c", &["none.mdf"]), number::DEVICE_ACTIVATION);
    assert_eq!(attach(&instance, "c", &["../../etc/passwd"]), number::CANNOT_CREATE_FILE);
    instance.detach_database("a").expect("detached");
    instance.detach_database("b").expect("detached");
    assert_eq!(attach(&instance, "c", &["a2.ndf"]), number::NOT_A_PRIMARY_FILE);
    assert_eq!(attach(&instance, "c", &["a_log.ldf"]), number::NOT_A_PRIMARY_FILE);
    assert_eq!(attach(&instance, "c", &["a.mdf", "b.mdf"]), number::FILES_DO_NOT_MATCH);
    let missing = instance.attach_database("c", &paths(&["a.mdf"]), false).expect_err("a file is missing");
    assert_eq!(missing.to_sql_error().number, number::DATABASE_INACCESSIBLE, "{missing}");
    assert!(instance.attach_database("c", &paths(&["a.mdf", "a2.ndf", "b_log.ldf"]), false).is_err());
    assert_eq!(names(&instance), Vec::<String>::new());
    let attached = instance.attach_database("c", &paths(&["a2.ndf", "a_log.ldf", "a.mdf"]), false).expect("whole");
    assert_eq!(row_count(&attached.database), 5);
    assert_eq!(number_of(instance.detach_database("c")), number::CANNOT_DETACH_IN_USE);
    assert_eq!(number_of(instance.detach_database("none")), number::NO_SUCH_DATABASE);
    assert_eq!(number_of(instance.detach_database("master")), number::CANNOT_DETACH_SYSTEM);
}

#[test]
fn an_offline_database_stays_so_until_it_is_set_online() {
    let disk = simulated();
    let instance = open(&disk);
    let database = with_rows(&instance, "shop", &["shop"], 5);
    assert_eq!(number_of(instance.set_offline("shop")), number::DATABASE_NOT_LOCKED);
    drop(database);
    instance.set_offline("shop").expect("closed");
    assert_eq!(number_of(instance.database("shop")), number::DATABASE_OFFLINE);
    disk.crash(1);
    drop(instance);
    let instance = open(&disk);
    let state = |instance: &Instance| {
        instance.databases().into_iter().find(|database| database.name == "shop").expect("listed").state
    };
    assert_eq!(state(&instance), DatabaseState::Offline);
    assert_eq!(number_of(instance.database("shop")), number::DATABASE_OFFLINE);
    instance.set_online("shop").expect("opened");
    assert_eq!(row_count(&instance.database("shop").expect("online")), 5);
    // A failure while it runs is repaired by opening the database again.
    let database = instance.database("shop").expect("online");
    database.mark_suspect("a test says so");
    drop(database);
    assert_eq!(number_of(instance.database("shop")), number::DATABASE_SUSPECT);
    instance.set_online("shop").expect("recovered");
    assert_eq!(row_count(&instance.database("shop").expect("online")), 5);
    assert_eq!(number_of(instance.set_offline("master")), number::OPTION_OF_DATABASE);
    assert_eq!(number_of(instance.set_online("none")), number::DATABASE_DOES_NOT_EXIST);
}

#[test]
fn a_database_that_is_dropped_while_it_is_offline_leaves_its_files() {
    let disk = simulated();
    let instance = open(&disk);
    drop(with_rows(&instance, "shop", &["shop"], 5));
    instance.set_offline("shop").expect("closed");
    instance.drop_database("shop").expect("dropped");
    let path = Path::new(FOLDER).join("shop.mdf");
    let attached = instance.attach_database("again", &[path], false).expect("its files are there");
    assert_eq!(row_count(&attached.database), 5);
}

#[test]
fn a_file_of_another_database_stays_when_the_one_is_dropped_in_whose_place_it_stands() {
    let folder = Folder::new("swapped");
    let instance = folder.open();
    for name in ["a", "b"] {
        drop(with_rows(&instance, name, &[name], 5));
    }
    instance.close().expect("closed");
    let swap = || {
        for (from, to) in [("a", "x"), ("b", "a"), ("x", "b")] {
            for end in [".mdf", "_log.ldf"] {
                let path = |name: &str| folder.0.join(format!("{name}{end}"));
                std::fs::rename(path(from), path(to)).expect("renamed");
            }
        }
    };
    swap();
    let instance = folder.open();
    assert_eq!(number_of(instance.database("a")), number::DATABASE_SUSPECT);
    instance.drop_database("a").expect("dropped");
    instance.close().expect("closed");
    swap();
    assert!(!folder.0.join("x.mdf").exists());
    let instance = folder.open();
    assert_eq!(row_count(&instance.database("b").expect("its files are its own again")), 5);
    instance.close().expect("closed");
}

#[test]
fn a_read_only_database_is_read_and_not_changed_also_after_a_restart() {
    let disk = simulated();
    let instance = open(&disk);
    let database = with_rows(&instance, "shop", &["shop"], 5);
    instance.set_options(&database, |options| options.is_read_only = true).expect("set");
    drop(database);
    instance.close().expect("closed");
    let instance = open(&disk);
    let database = instance.database("shop").expect("it");
    assert_eq!(row_count(&database), 5);
    let refused = run(&instance, |ctx| insert(&database, ctx, &table(&database, "t"), 0, std::iter::once(row(9))));
    assert_eq!(number_of(refused), number::DATABASE_READ_ONLY);
    assert_eq!(
        number_of(run(&instance, |ctx| database.create_table(ctx, &table_named("u")))),
        number::DATABASE_READ_ONLY
    );
    let more = FileDefinition { path: Some("more.ndf".into()), ..small_file("more") };
    assert_eq!(number_of(instance.add_files(&database, None, &[more])), number::DATABASE_READ_ONLY);
    instance.set_options(&database, |options| options.is_read_only = false).expect("set");
    run(&instance, |ctx| insert(&database, ctx, &table(&database, "t"), 0, std::iter::once(row(9)))).expect("in");
    drop(create(&instance, "other"));
    assert_eq!(row_count(&database), 6);
}
