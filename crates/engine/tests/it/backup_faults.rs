//! Backups and restores beside faults, crashes and changes of the database: one test for each hole that there was.

use std::path::{Path, PathBuf};

use hobt_base::{SqlError, number};
use hobt_disk::{AlignedBuffer, Disk, Fault, FaultKind, OpenOptions, Operation, SimulatedDisk};
use hobt_engine::{BackupRequest, BackupWhat, DatabaseUse, LogDescription, Opening, RecoveryModel, TruncationWait};

use crate::backup::{Restoring, add, assert_sound, back_up, ids, request, shop};
use crate::fixture::{FOLDER, number_of, open, simulated, small_file};

/// The system's number for "input/output error".
const EIO: i32 = 5;

fn set_model(instance: &hobt_engine::Instance, database: &DatabaseUse, model: RecoveryModel) {
    let set = instance.set_options(database, |options| {
        options.recovery_model = model;
        options.has_log_chain &= model != RecoveryModel::Simple;
    });
    set.expect("set");
}

/// A power failure anywhere in a differential restore: if the database is recovered without repeating it, all of it is
/// of one moment, its options and its rows.
#[test]
fn a_power_failure_in_a_differential_restore_never_leaves_two_moments() {
    let (mut before, mut refused) = (0, 0);
    for after in 1..60 {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::Full);
        add(&instance, &database, 0..500);
        back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
        instance.set_options(&database, |options| options.is_read_only = false).expect("set");
        instance.set_options(&database, |options| options.recovery_model = RecoveryModel::BulkLogged).expect("set");
        add(&instance, &database, 500..1000);
        back_up(&instance, &database, BackupWhat::Differential, "diff.bak").expect("backed up");
        Restoring::of("copy", "full.bak").moved().run(&instance).expect("restored");
        disk.crash_at(disk.changes() + after, after);
        let done = Restoring::of("copy", "diff.bak").run(&instance);
        drop((database, instance));
        disk.crash(after);
        disk.power_on();
        let instance = open(&disk);
        match instance.recover_restored("copy") {
            Ok(()) => {
                let copy = instance.database("copy").expect("online");
                let (rows, model) = (ids(&copy).len(), copy.options().recovery_model);
                let is_new = rows == 1000 && model == RecoveryModel::BulkLogged;
                let is_old = rows == 500 && model == RecoveryModel::Full;
                assert!(is_new || is_old, "{after}: {rows} rows under {model:?}");
                assert!(is_new || done.is_err(), "{after}");
                before += u32::from(is_old);
                assert_sound(&copy);
            }
            Err(_) => {
                refused += 1;
                if Restoring::of("copy", "diff.bak").run(&instance).is_err() {
                    // The old log is gone, and the new one is not whole yet.
                    Restoring::of("copy", "full.bak").moved().replace().run(&instance).expect("from the beginning");
                    Restoring::of("copy", "diff.bak").run(&instance).expect("again");
                }
                instance.recover_restored("copy").expect("recovered");
                assert_eq!(ids(&instance.database("copy").expect("online")).len(), 1000, "{after}");
            }
        }
    }
    assert!(before > 0 && refused > 3, "{before} {refused}");
}

fn bytes_of(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
    let file = disk.open(&Path::new(FOLDER).join(name), OpenOptions::default()).expect("it");
    let mut bytes = AlignedBuffer::new(file.size().expect("a size") as usize).expect("memory");
    file.read_at(&mut bytes, 0).expect("readable");
    bytes.to_vec()
}

fn spoil(disk: &SimulatedDisk, name: &str, at: u64) {
    let file = disk.open(&Path::new(FOLDER).join(name), OpenOptions::default()).expect("it");
    let mut bytes = AlignedBuffer::new(4096).expect("memory");
    file.read_at(&mut bytes, at).expect("readable");
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
    file.write_at(&bytes, at).expect("written");
}

/// A set in the middle of a file cannot be read: the sets behind it are not overwritten by the next backup.
#[test]
fn a_damaged_set_is_not_taken_for_one_that_was_cut_short() {
    for place in 0..3 {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::Full);
        let mut ends = Vec::new();
        for step in 0..3 {
            add(&instance, &database, step * 100..step * 100 + 100);
            back_up(&instance, &database, BackupWhat::Database, "all.bak").expect("backed up");
            ends.push(bytes_of(&disk, "all.bak").len() as u64);
        }
        // The begin of the second set, its end, the end of the last one.
        let at = [ends[0], ends[1] - 8192, ends[2] - 8192][place];
        spoil(&disk, "all.bak", at);
        let before = bytes_of(&disk, "all.bak");
        let appended = back_up(&instance, &database, BackupWhat::Database, "all.bak");
        assert_eq!(number_of(appended), number::BACKUP_SET_DAMAGED, "{place}");
        assert!(bytes_of(&disk, "all.bak") == before, "{place}: the file has changed");
        let number = if place == 2 { 3 } else { 2 };
        let restored = Restoring::of("copy", "all.bak").set(number).moved().run(&instance);
        assert_eq!(number_of(restored), number::BACKUP_SET_DAMAGED, "{place}");
        Restoring::of("copy", "all.bak").moved().run(&instance).expect("the first one");
        let paths = [PathBuf::from("all.bak")];
        let anew = BackupRequest { opening: Opening::Init, ..request(BackupWhat::Database, &paths) };
        assert_eq!(instance.back_up(&database, &anew).expect("backed up").position, 1);
    }
}

/// Files come and go between backups, not in the middle of one: also of the log, which has pages that loads filled.
#[test]
fn no_file_is_added_while_a_backup_runs() {
    for what in [BackupWhat::Database, BackupWhat::Differential, BackupWhat::Log] {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::BulkLogged);
        add(&instance, &database, 0..100);
        back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
        let asked = std::cell::Cell::new(0);
        let observe = |_: u64, _: u64| -> Result<(), SqlError> {
            asked.set(asked.get() + 1);
            let added = instance.add_files(&database, None, &[small_file("more")]);
            assert_eq!(number_of(added), number::BACKUP_IN_PROGRESS, "{what:?}");
            Ok(())
        };
        let paths = [PathBuf::from("next.bak")];
        let next = BackupRequest { observe: &observe, ..request(what, &paths) };
        instance.back_up(&database, &next).expect("backed up");
        assert!(asked.get() > 0);
        instance.add_files(&database, None, &[small_file("more")]).expect("added");
    }
}

/// The recovery model becomes `SIMPLE` while the log is backed up: the log is not kept.
#[test]
fn a_log_is_not_kept_under_simple_that_came_during_its_backup() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..100);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    let observe = |_: u64, _: u64| {
        set_model(&instance, &database, RecoveryModel::Simple);
        Ok(())
    };
    let paths = [PathBuf::from("log.bak")];
    let log = BackupRequest { observe: &observe, ..request(BackupWhat::Log, &paths) };
    instance.back_up(&database, &log).expect("backed up");
    let is_kept = || database.storage().log().expect("a log").log().is_kept_for_backup();
    assert!(!is_kept());
    set_model(&instance, &database, RecoveryModel::Full);
    assert!(!is_kept());
    assert_ne!(LogDescription::of(database.storage()).expect("a log").reuse_wait, TruncationWait::LogBackup);
    assert_eq!(number_of(back_up(&instance, &database, BackupWhat::Log, "log.bak")), number::LOG_BACKUP_WITHOUT_BASE);
}

/// The folder cannot be synced, so a new full backup may be gone after a crash: differential ones build on the last.
#[test]
fn a_full_backup_whose_file_may_not_stay_is_no_base() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..1000);
    let base = back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up").facts;
    add(&instance, &database, 1000..1100);
    disk.inject(Fault::once(Operation::Directory, 0, FaultKind::Error(EIO)));
    assert!(back_up(&instance, &database, BackupWhat::Database, "other.bak").is_err());
    disk.clear_faults();
    add(&instance, &database, 1100..1200);
    let done = back_up(&instance, &database, BackupWhat::Differential, "diff.bak").expect("backed up");
    assert_eq!(done.facts.base, base.guid);
    Restoring::of("copy", "full.bak").moved().run(&instance).expect("restored");
    Restoring::of("copy", "diff.bak").recovery().run(&instance).expect("restored");
    let copy = instance.database("copy").expect("online");
    assert_eq!(ids(&copy).len(), 1200);
    assert_sound(&copy);
}

/// A data file that came after the full backup needs a place of its own, and the others none; a power failure anywhere
/// leaves what can be repeated.
#[test]
fn a_new_file_alone_needs_a_place_and_a_repetition_finds_it() {
    let mut interrupted = 0;
    for after in 0..40 {
        let what = if after % 2 == 0 { BackupWhat::Log } else { BackupWhat::Differential };
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::Full);
        add(&instance, &database, 0..1000);
        back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
        let file = hobt_engine::FileDefinition { path: Some("shop2.ndf".into()), ..small_file("shop2") };
        instance.add_files(&database, None, &[file]).expect("added");
        add(&instance, &database, 1000..3000);
        back_up(&instance, &database, what, "next.bak").expect("backed up");
        Restoring::of("copy", "full.bak").moved().run(&instance).expect("restored");
        let next = |instance: &hobt_engine::Instance| {
            let next = Restoring::of("copy", "next.bak").moved_to("shop2", "copy2.ndf");
            if what == BackupWhat::Log { next.log() } else { next }.run(instance)
        };
        let done = if after == 0 {
            next(&instance)
        } else {
            disk.crash_at(disk.changes() + after, after);
            next(&instance)
        };
        drop((database, instance));
        disk.crash(after);
        disk.power_on();
        let instance = open(&disk);
        if done.is_err() {
            interrupted += 1;
            if let Err(error) = next(&instance) {
                // The old log is gone, and the new one is not whole yet.
                assert_eq!(what, BackupWhat::Differential, "{after}: {error}");
                Restoring::of("copy", "full.bak").moved().replace().run(&instance).expect("from the beginning");
                next(&instance).expect("again");
            }
        }
        instance.recover_restored("copy").expect("recovered");
        let copy = instance.database("copy").expect("online");
        assert_eq!(ids(&copy).len(), 3000, "{after}");
        assert_eq!(copy.storage().files().len(), 2);
        assert_sound(&copy);
    }
    assert!(interrupted > 20, "{interrupted}");
}

/// `master` cannot take the history: the backup is there all the same.
#[test]
fn a_backup_that_the_history_lacks_has_succeeded() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..300);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    let fault = Fault::once(Operation::Write, 0, FaultKind::Error(EIO));
    disk.inject(Fault { path_contains: "master".to_owned(), forever: true, ..fault });
    let done = back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
    assert!(done.unnoted.is_some());
    disk.clear_faults();
    drop((database, instance));
    let instance = open(&disk);
    Restoring::of("copy", "full.bak").moved().run(&instance).expect("restored");
    Restoring::of("copy", "log.bak").log().recovery().run(&instance).expect("restored");
    assert_eq!(ids(&instance.database("copy").expect("online")).len(), 300);
}

/// Files that another process has open are not overwritten, whatever the statement says.
#[test]
fn files_of_another_process_are_not_replaced() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    for file in ["copy.mdf", "copy.ldf"] {
        let path = Path::new(FOLDER).join(file);
        let other = disk.open(&path, OpenOptions { create_new: true, ..OpenOptions::default() }).expect("a new file");
        other.try_lock_exclusive().expect("locked");
        let restore = || Restoring::of("copy", "full.bak").moved().replace().recovery();
        assert_eq!(number_of(restore().run(&instance)), number::RESTORE_FILE_PLACE, "{file}");
        assert!(disk.exists(&path));
        drop(other);
        restore().run(&instance).expect("restored over a file that nobody uses");
        instance.drop_database("copy").expect("dropped");
    }
}

/// What was changed since a restore is in no backup, so it is not restored over without REPLACE.
#[test]
fn a_restored_database_is_not_restored_over_unasked() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    Restoring::of("copy", "full.bak").moved().recovery().run(&instance).expect("restored");
    let copy = instance.database("copy").expect("online");
    add(&instance, &copy, 0..10);
    drop(copy);
    let again = || Restoring::of("copy", "full.bak").moved().recovery();
    assert_eq!(number_of(again().run(&instance)), number::TAIL_NOT_BACKED_UP);
    assert_eq!(ids(&instance.database("copy").expect("online")).len(), 10);
    again().replace().run(&instance).expect("restored");
    assert!(ids(&instance.database("copy").expect("online")).is_empty());
}

/// After a time under SIMPLE a differential backup begins the chain of the log again, as a full one does.
#[test]
fn a_differential_backup_begins_a_chain() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    set_model(&instance, &database, RecoveryModel::Simple);
    add(&instance, &database, 0..10);
    database.checkpoint().expect("saved");
    set_model(&instance, &database, RecoveryModel::Full);
    assert_eq!(number_of(back_up(&instance, &database, BackupWhat::Log, "log.bak")), number::LOG_BACKUP_WITHOUT_BASE);
    back_up(&instance, &database, BackupWhat::Differential, "diff.bak").expect("backed up");
    add(&instance, &database, 10..30);
    back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
    Restoring::of("copy", "full.bak").moved().run(&instance).expect("restored");
    Restoring::of("copy", "diff.bak").run(&instance).expect("restored");
    Restoring::of("copy", "log.bak").log().recovery().run(&instance).expect("restored");
    let copy = instance.database("copy").expect("online");
    assert_eq!(ids(&copy), (0..30).collect::<Vec<_>>());
    assert_sound(&copy);
}

/// A backup that is refused, or that fails because the disk is full, leaves the backups in its files as they were.
#[test]
fn a_backup_that_is_refused_or_fails_changes_no_other() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..100);
    let path = || [PathBuf::from("full.bak")];
    let size = || disk.open(&Path::new(FOLDER).join("full.bak"), OpenOptions::default()).expect("there").size();
    let paths = path();
    let other =
        instance.create_database(&hobt_engine::DatabaseDefinition { name: "other".to_owned(), ..Default::default() });
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    let before = size().expect("a size");
    for opening in [Opening::Init, Opening::Format] {
        let differential = BackupRequest { opening, ..request(BackupWhat::Differential, &paths) };
        let refused = instance.back_up(&other.as_ref().expect("made").database, &differential);
        assert_eq!(number_of(refused), number::NO_DIFFERENTIAL_BASE);
        assert_eq!(size().expect("a size"), before, "{opening:?}");
    }
    add(&instance, &database, 100..3000);
    disk.inject(Fault {
        path_contains: "full.bak".to_owned(),
        ..Fault::once(Operation::Write, 2, FaultKind::Error(28))
    });
    let appended = back_up(&instance, &database, BackupWhat::Database, "full.bak").expect_err("no room");
    assert!(!appended.to_string().contains("takes no more writes"), "{appended}");
    assert_eq!(size().expect("a size"), before);
    assert_eq!(instance.backup_media(&path()).expect("a media set").sets().len(), 1);
}

/// A file that another backup removes when it fails, while this one waits for it, is made anew.
#[test]
fn a_lock_of_a_file_that_is_gone_is_none() {
    let disk = simulated();
    let path = Path::new(FOLDER).join("a.bak");
    let (new, old) = (OpenOptions { create_new: true, ..OpenOptions::default() }, OpenOptions::default());
    disk.create_directory(Path::new(FOLDER)).expect("made");
    let first = disk.open(&path, new).expect("a new file");
    first.try_lock_exclusive().expect("locked");
    let second = disk.open(&path, old).expect("there");
    disk.remove(&path).expect("removed");
    drop(first);
    assert!(second.try_lock_exclusive().is_err());
    let third = disk.open(&path, new).expect("a new file");
    assert!(second.try_lock_exclusive().is_err());
    third.try_lock_exclusive().expect("locked");
}

/// A backup does not overwrite what a restore is reading.
#[test]
fn what_a_restore_reads_is_not_overwritten() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..2000);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    let (paths, tries) = ([PathBuf::from("full.bak")], std::cell::Cell::new(0));
    let observe = |_: u64, _: u64| {
        tries.set(tries.get() + 1);
        if tries.get() == 1 {
            let over = BackupRequest { opening: Opening::Init, ..request(BackupWhat::Database, &paths) };
            assert_eq!(number_of(instance.back_up(&database, &over)), number::BACKUP_DEVICE);
        }
        Ok(())
    };
    instance.verify_backup(&paths, None, false, &observe).expect("sound");
    assert!(tries.get() > 1);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("nobody reads it any more");
}
