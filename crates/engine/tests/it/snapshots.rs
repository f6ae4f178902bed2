//! Snapshots of databases: what they show while their source changes, and how it is brought back to them.

use std::path::PathBuf;

use hobt_base::{SplitMix64, number};
use hobt_engine::{BackupWhat, DatabaseState, DatabaseUse, EngineError, Instance, RecoveryModel, SnapshotDefinition};

use crate::backup::{Restoring, add, assert_sound, back_up, described, exists, ids, ids_of, shop};
use crate::fixture::{begin, insert, number_of, open, row, run, simulated, small_file, table, table_named};
use crate::recovery_models::load;

fn definition(name: &str) -> SnapshotDefinition {
    SnapshotDefinition {
        name: name.to_owned(),
        source: "shop".to_owned(),
        files: vec![("shop".to_owned(), PathBuf::from(format!("{name}.ss")))],
    }
}

fn snap(instance: &Instance, name: &str) -> Result<DatabaseUse, EngineError> {
    instance.create_snapshot(&definition(name))
}

/// A snapshot shows what was committed at its moment, and not what was open then, whatever the source does later.
#[test]
fn a_snapshot_shows_the_moment_while_its_source_goes_on() {
    for model in RecoveryModel::ALL {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, model);
        add(&instance, &database, 0..3000);
        let ctx = begin(&instance);
        insert(&database, &ctx, &table(&database, "t"), 0, (60_000..60_200).map(row)).expect("inserted");
        let first = snap(&instance, "first").expect("made");
        assert_eq!(ids(&first), (0..3000).collect::<Vec<_>>(), "{model:?}");
        assert_sound(&first);
        instance.end_statement(&ctx, true, &[&database]).expect("committed");
        add(&instance, &database, 3000..5000);
        load(&instance, &database, 4000);
        database.checkpoint().expect("saved");
        let second = snap(&instance, "second").expect("made");
        run(&instance, |ctx| database.create_table(ctx, &table_named("u"))).expect("made");
        add(&instance, &database, 5000..9000);
        database.checkpoint().expect("saved");
        load(&instance, &database, 4000);
        database.checkpoint().expect("saved");
        let shown: Vec<i64> = (0..3000).collect();
        assert_eq!(ids(&first), shown, "{model:?}");
        assert_eq!(ids(&second).len(), 5000 + 200 + 4000, "{model:?}");
        for snapshot in [&first, &second] {
            assert_sound(snapshot);
            assert!(snapshot.snapshot().table(1, "u").is_none());
        }
        let (one, source) = (described(&instance, "first"), described(&instance, "shop"));
        assert!(one.source == Some(source.id) && one.options.is_read_only && !one.is_in_standby);
        assert_sound(&database);
        drop((first, second, database));
        // After a restart, and after a crash with changes that were not saved.
        instance.close().expect("closed");
        let instance = open(&disk);
        assert_eq!(ids_of(&instance, "first"), shown, "{model:?}");
        let database = instance.database("shop").expect("online");
        add(&instance, &database, 20_000..22_000);
        disk.lose_power(7);
        drop(database);
        drop(instance);
        disk.power_on();
        let instance = open(&disk);
        assert_eq!(ids_of(&instance, "shop").len(), 9000 + 200 + 8000 + 2000, "{model:?}");
        assert_eq!(ids_of(&instance, "first"), shown, "{model:?}");
        assert_eq!(ids_of(&instance, "second").len(), 5000 + 200 + 4000, "{model:?}");
        instance.drop_database("first").expect("dropped");
        instance.drop_database("second").expect("dropped");
        for file in ["first.ss", "first_log.ss", "first_undo.ss", "second.ss", "second_log.ss", "second_undo.ss"] {
            assert!(!exists(&disk, file), "{file}");
        }
        instance.drop_database("shop").expect("dropped");
    }
}

#[test]
fn a_database_is_brought_back_to_its_snapshot() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..2000);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    drop(snap(&instance, "snap").expect("made"));
    drop(database);
    for round in 0..3 {
        let database = instance.database("shop").expect("online");
        run(&instance, |ctx| database.create_table(ctx, &table_named("u"))).expect("made");
        add(&instance, &database, 2000..4000);
        load(&instance, &database, 3000);
        database.checkpoint().expect("saved");
        instance.add_files(&database, None, &[small_file("more")]).expect("added");
        assert_eq!(number_of(snap(&instance, "other")), number::SNAPSHOT_FILE_MISSING);
        assert_eq!(number_of(instance.revert("shop", "snap")), number::RESTORE_IN_USE);
        drop(database);
        assert_eq!(number_of(instance.revert("shop", "nothing")), number::CANNOT_REVERT);
        instance.revert("shop", "snap").unwrap_or_else(|error| panic!("{round}: {error:?}"));
        let database = instance.database("shop").expect("online");
        assert_eq!(ids(&database), (0..2000).collect::<Vec<_>>(), "{round}");
        assert_sound(&database);
        assert!(database.snapshot().table(1, "u").is_none());
        assert_eq!(number_of(back_up(&instance, &database, BackupWhat::Log, "l.bak")), number::LOG_BACKUP_WITHOUT_BASE);
        assert_eq!(ids_of(&instance, "snap"), (0..2000).collect::<Vec<_>>(), "{round}");
    }
}

#[test]
fn what_would_break_a_snapshot_is_refused() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..500);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    let with = |change: &dyn Fn(&mut SnapshotDefinition)| {
        let mut definition = definition("snap");
        change(&mut definition);
        number_of(instance.create_snapshot(&definition))
    };
    assert_eq!(with(&|one| one.source = "nothing".to_owned()), number::DATABASE_DOES_NOT_EXIST);
    assert_eq!(with(&|one| one.source = "master".to_owned()), number::NO_SNAPSHOT_OF);
    assert_eq!(with(&|one| one.name = "shop".to_owned()), number::DATABASE_EXISTS);
    assert_eq!(with(&|one| one.files.clear()), number::SNAPSHOT_FILE_MISSING);
    assert_eq!(with(&|one| one.files.push(one.files[0].clone())), number::FILE_NAME_IN_USE);
    assert_eq!(with(&|one| one.files[0].0 = "other".to_owned()), number::NO_SUCH_FILE_OF);
    assert_eq!(with(&|one| one.files[0].1 = PathBuf::from("../snap.ss")), number::CANNOT_CREATE_FILE);
    assert_eq!(with(&|one| one.files[0].1 = PathBuf::from("full.bak")), number::FILE_EXISTS);
    assert_eq!(with(&|one| one.files[0].1 = PathBuf::from("shop.mdf")), number::FILE_OF_ANOTHER_DATABASE);
    let snapshot = snap(&instance, "snap").expect("made");
    let change = run(&instance, |ctx| insert(&snapshot, ctx, &table(&snapshot, "t"), 0, std::iter::once(row(5))));
    assert_eq!(number_of(change), number::DATABASE_READ_ONLY);
    let set = instance.set_options(&snapshot, |options| options.is_read_only = false);
    assert_eq!(number_of(set), number::DATABASE_IS_SNAPSHOT);
    assert_eq!(number_of(back_up(&instance, &snapshot, BackupWhat::Database, "s.bak")), number::BACKUP_OF_SNAPSHOT);
    assert_eq!(with(&|one| (one.name, one.source) = ("two".to_owned(), "snap".to_owned())), number::NO_SNAPSHOT_OF);
    drop((snapshot, database));
    assert_eq!(number_of(instance.set_offline("snap")), number::DATABASE_IS_SNAPSHOT);
    assert_eq!(number_of(instance.detach_database("snap")), number::DATABASE_IS_SNAPSHOT);
    assert_eq!(number_of(instance.drop_database("shop")), number::DATABASE_HAS_SNAPSHOTS);
    assert_eq!(number_of(instance.detach_database("shop")), number::DATABASE_HAS_SNAPSHOTS);
    let over = Restoring::of("shop", "full.bak").replace();
    assert_eq!(number_of(over.run(&instance)), number::DATABASE_HAS_SNAPSHOTS);
    let over = Restoring::of("snap", "full.bak").replace();
    assert_eq!(number_of(over.run(&instance)), number::BACKUP_OF_SNAPSHOT);
    drop(snap(&instance, "second").expect("made"));
    assert_eq!(number_of(instance.revert("shop", "snap")), number::CANNOT_REVERT);
    // The source may be taken offline and back: what it writes then is copied too.
    instance.set_offline("shop").expect("offline");
    assert_eq!(ids_of(&instance, "snap").len(), 500);
    instance.set_online("shop").expect("online");
    let database = instance.database("shop").expect("online");
    add(&instance, &database, 1000..4000);
    database.checkpoint().expect("saved");
    assert_eq!(ids_of(&instance, "snap").len(), 500);
    assert_eq!(ids_of(&instance, "second").len(), 500);
}

/// Wherever the power fails, the source has what was committed, and a snapshot that is listed shows its moment.
#[test]
fn a_power_failure_leaves_the_source_and_whole_snapshots() {
    let mut listed = 0;
    for after in (1..220).step_by(7) {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::Full);
        add(&instance, &database, 0..1500);
        disk.crash_at(disk.changes() + after, after);
        let made = snap(&instance, "snap");
        let is_made = made.is_ok();
        drop(made);
        let mut committed = 1500;
        while !disk.is_off() && committed < 20_000 {
            let table = table(&database, "t");
            let ctx = begin(&instance);
            let done = insert(&database, &ctx, &table, 0, (committed..committed + 500).map(row));
            let ended = instance.end_statement(&ctx, done.is_ok(), &[&database]);
            if done.is_err() || ended.is_err() {
                break;
            }
            committed += 500;
            if database.checkpoint().is_err() {
                break;
            }
        }
        drop(database);
        drop(instance);
        disk.crash(after);
        disk.power_on();
        let instance = open(&disk);
        let rows = ids_of(&instance, "shop").len() as i64;
        assert!(rows == committed || rows == committed + 500, "{after}: {rows} of {committed}");
        let is_listed = instance.databases().iter().any(|one| one.name == "snap");
        assert!(is_listed || !is_made, "{after}");
        if is_listed {
            listed += 1;
            let snapshot = instance.database("snap").unwrap_or_else(|error| panic!("{after}: {error:?}"));
            assert_eq!(ids(&snapshot), (0..1500).collect::<Vec<_>>(), "{after}");
            assert_sound(&snapshot);
            instance.drop_database("snap").expect_err("in use");
            drop(snapshot);
            instance.drop_database("snap").expect("dropped");
        }
        drop(snap(&instance, "snap").unwrap_or_else(|error| panic!("{after}: {error:?}")));
    }
    assert!(listed > 5, "{listed}");
}

#[test]
fn a_power_failure_in_the_middle_of_a_revert_leaves_it_to_be_repeated() {
    let mut interrupted = 0;
    for after in (1..60).step_by(4) {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::Simple);
        add(&instance, &database, 0..1500);
        drop(snap(&instance, "snap").expect("made"));
        drop(database);
        // Its log has lived more than one life.
        instance.revert("shop", "snap").expect("reverted");
        let database = instance.database("shop").expect("online");
        add(&instance, &database, 1500..5000);
        database.checkpoint().expect("saved");
        drop(database);
        disk.crash_at(disk.changes() + after, after);
        let reverted = instance.revert("shop", "snap");
        drop(instance);
        disk.crash(after);
        disk.power_on();
        let instance = open(&disk);
        if described(&instance, "shop").state == DatabaseState::Restoring {
            assert!(reverted.is_err(), "{after}");
            interrupted += 1;
            instance.drop_database("snap").expect_err("it has the only good pages");
            match instance.recover_restored("shop") {
                // Nothing was written back yet, or everything.
                Ok(()) => assert!([1500, 5000].contains(&ids_of(&instance, "shop").len()), "{after}"),
                Err(error) => {
                    // The latter while one log takes the place of the other.
                    let number = number_of::<()>(Err(error));
                    assert!(
                        [number::LOG_NOT_RESTORED, number::DATABASE_INACCESSIBLE].contains(&number),
                        "{after}: {number}"
                    );
                }
            }
            instance.revert("shop", "snap").unwrap_or_else(|error| panic!("{after}: {error:?}"));
        }
        let rows = ids_of(&instance, "shop").len();
        assert!(rows == 1500 || (rows == 5000 && reverted.is_err()), "{after}: {rows}");
        assert_sound(&instance.database("shop").expect("online"));
        assert_eq!(ids_of(&instance, "snap").len(), 1500, "{after}");
    }
    assert!(interrupted > 2, "{interrupted}");
}

/// A disk without room for the copies ends the snapshot, and not its source.
#[test]
fn a_full_disk_loses_the_snapshot() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Simple);
    add(&instance, &database, 0..20_000);
    database.checkpoint().expect("saved");
    drop(snap(&instance, "snap").expect("made"));
    disk.leave_free(Some(0));
    run(&instance, |ctx| insert(&database, ctx, &table(&database, "t"), 0, (30_000..30_100).map(row))).expect("room");
    database.checkpoint().expect("saved");
    assert!(!exists(&disk, "snap.ss"));
    disk.leave_free(None);
    drop(database);
    instance.close().expect("closed");
    for _ in 0..2 {
        let instance = open(&disk);
        assert_eq!(ids_of(&instance, "shop").len(), 20_100);
        assert_eq!(described(&instance, "snap").state, DatabaseState::Suspect);
        assert_eq!(number_of(instance.database("snap")), number::DATABASE_SUSPECT);
        instance.close().expect("closed");
    }
    let instance = open(&disk);
    instance.drop_database("snap").expect("dropped");
    drop(snap(&instance, "snap").expect("made"));
}

/// Random changes, loads, checkpoints, restarts and crashes, with snapshots between them: each goes on showing its
/// moment.
#[test]
fn any_history_leaves_its_snapshots() {
    let seeds = std::env::var("HOBT_BACKUP_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(6);
    for seed in 0..seeds {
        let mut random = SplitMix64::new(seed);
        let disk = simulated();
        let mut instance = open(&disk);
        let model = RecoveryModel::ALL[random.below(3) as usize];
        drop(shop(&instance, model));
        let mut expected: Vec<(String, Vec<i64>)> = Vec::new();
        let mut next = 0;
        for step in 0..25 {
            let database = instance.database("shop").expect("online");
            match random.below(10) {
                0..=3 => {
                    let count = 1 + random.below(600) as i64;
                    add(&instance, &database, next..next + count);
                    next += count;
                }
                4 => load(&instance, &database, 1500),
                5 => database.checkpoint().expect("saved"),
                6..=7 if expected.len() < 3 => {
                    let name = format!("snap{step}");
                    let snapshot = snap(&instance, &name).unwrap_or_else(|error| panic!("{seed} {step}: {error:?}"));
                    expected.push((name, ids(&database)));
                    assert_sound(&snapshot);
                }
                8 => {
                    drop(database);
                    if random.below(2) == 0 {
                        instance.close().expect("closed");
                    } else {
                        disk.lose_power(seed * 1000 + step);
                    }
                    drop(instance);
                    disk.power_on();
                    instance = open(&disk);
                }
                _ if !expected.is_empty() => {
                    let (name, _) = expected.swap_remove(random.below(expected.len() as u64) as usize);
                    instance.drop_database(&name).expect("dropped");
                }
                _ => {}
            }
            for (name, rows) in &expected {
                assert!(ids_of(&instance, name) == *rows, "{seed} {step}: {name}");
            }
        }
        if let [(name, rows), others @ ..] = &expected[..] {
            others.iter().for_each(|(other, _)| instance.drop_database(other).expect("dropped"));
            instance.revert("shop", name).expect("reverted");
            assert!(ids_of(&instance, "shop") == *rows, "{seed}: {name}");
            assert_sound(&instance.database("shop").expect("online"));
        }
    }
}
