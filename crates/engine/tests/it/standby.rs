//! Standbys: databases that are being restored and can be read meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hobt_base::number;
use hobt_disk::{Disk, OpenOptions};
use hobt_engine::{
    BackupWhat, DatabaseState, Instance, IsolationOption, RecoveryModel, RestoreEnd, StopPoint, time_of_day,
};
use hobt_txn::StatementContext;

use crate::backup::{Restoring, add, assert_sound, back_up, described, exists, ids, ids_of, shop};
use crate::fixture::{FOLDER, begin, insert, number_of, open, row, run, simulated, table, table_named};
use crate::recovery_models::load;

/// A restore that leaves a standby.
fn standing_by<'a>(restoring: Restoring<'a>, file: &str) -> Restoring<'a> {
    restoring.end(RestoreEnd::Standby(PathBuf::from(file)))
}

/// A statement that adds rows and has not ended.
fn half_done(instance: &Instance, ids: std::ops::Range<i64>) -> Arc<StatementContext> {
    let database = instance.database("shop").expect("online");
    let ctx = begin(instance);
    insert(&database, &ctx, &table(&database, "t"), 0, ids.map(row)).expect("inserted");
    ctx
}

/// Each standby shows what was committed when its backup ended, also over a transaction that was open then, and the
/// chain goes on from it to the next one and to the end.
#[test]
fn a_standby_is_read_between_the_logs_of_a_chain() {
    for model in [RecoveryModel::Full, RecoveryModel::BulkLogged] {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, model);
        add(&instance, &database, 0..3000);
        back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
        standing_by(Restoring::of("copy", "full.bak").moved(), "copy.ss").run(&instance).expect("restored");
        assert_eq!(ids_of(&instance, "copy"), (0..3000).collect::<Vec<_>>());
        let mut committed = 3000;
        for step in 1..=4 {
            let open = half_done(&instance, 50_000..50_400);
            add(&instance, &database, committed..committed + 300);
            committed += 300;
            if step == 2 {
                database.checkpoint().expect("saved");
            }
            back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
            instance.end_statement(&open, false, &[&database]).expect("undone");
            let log = Restoring::of("copy", "log.bak").log().set(step);
            let done = standing_by(log, "copy.ss").run(&instance).expect("restored");
            assert!(!done.is_recovered);
            let listed = described(&instance, "copy");
            assert_eq!(listed.state, DatabaseState::Online);
            assert!(listed.options.is_read_only && listed.is_in_standby);
            let copy = instance.database("copy").expect("online");
            assert_eq!(ids(&copy), (0..committed).collect::<Vec<_>>(), "{model:?} {step}");
            assert_sound(&copy);
        }
        assert!(exists(&disk, "copy.ss"));
        instance.recover_restored("copy").expect("recovered");
        assert!(!exists(&disk, "copy.ss"));
        let listed = described(&instance, "copy");
        assert!(!listed.options.is_read_only && listed.overlay_file.is_none());
        let copy = instance.database("copy").expect("online");
        assert_eq!(ids(&copy), (0..committed).collect::<Vec<_>>());
        add(&instance, &copy, 90_000..90_100);
        assert_sound(&copy);
    }
}

/// Pages of loads, which are not in the log, and a differential backup over a standby.
#[test]
fn loads_and_differential_backups_reach_a_standby() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::BulkLogged);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    standing_by(Restoring::of("copy", "full.bak").moved(), "copy.ss").run(&instance).expect("restored");
    load(&instance, &database, 5000);
    back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
    standing_by(Restoring::of("copy", "log.bak").log(), "copy.ss").run(&instance).expect("restored");
    assert_eq!(ids_of(&instance, "copy").len(), 5000);
    add(&instance, &database, 10_000..10_500);
    back_up(&instance, &database, BackupWhat::Differential, "diff.bak").expect("backed up");
    standing_by(Restoring::of("copy", "diff.bak"), "other.ss").run(&instance).expect("restored");
    assert!(!exists(&disk, "copy.ss") && exists(&disk, "other.ss"));
    let copy = instance.database("copy").expect("online");
    assert_eq!(ids(&copy).len(), 5500);
    assert_sound(&copy);
    drop(copy);
    // Over the standby, another backup of the whole: nothing of it would be lost.
    Restoring::of("copy", "full.bak").moved().recovery().run(&instance).expect("restored");
    assert!(!exists(&disk, "other.ss"));
    assert_eq!(ids_of(&instance, "copy").len(), 0);
}

#[test]
fn a_standby_is_one_after_a_restart() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..2000);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    let open_one = half_done(&instance, 7000..7300);
    back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
    instance.end_statement(&open_one, true, &[&database]).expect("committed");
    back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
    Restoring::of("copy", "full.bak").moved().run(&instance).expect("restored");
    standing_by(Restoring::of("copy", "log.bak").log(), "copy.ss").run(&instance).expect("restored");
    drop(database);
    instance.close().expect("closed");
    let instance = open(&disk);
    let listed = described(&instance, "copy");
    assert!(listed.state == DatabaseState::Online && listed.options.is_read_only && listed.is_in_standby);
    assert_eq!(ids_of(&instance, "copy"), (0..2000).collect::<Vec<_>>());
    // A crash of a standby that is open.
    let copy = instance.database("copy").expect("online");
    disk.crash(3);
    drop(copy);
    drop(instance);
    let instance = open(&disk);
    assert_eq!(ids_of(&instance, "copy"), (0..2000).collect::<Vec<_>>());
    // The file may be gone as well.
    instance.close().expect("closed");
    disk.remove(&Path::new(FOLDER).join("copy.ss")).expect("removed");
    let instance = open(&disk);
    assert_eq!(ids_of(&instance, "copy"), (0..2000).collect::<Vec<_>>());
    standing_by(Restoring::of("copy", "log.bak").log().set(2), "copy.ss").run(&instance).expect("restored");
    assert_eq!(ids_of(&instance, "copy"), (0..2000).chain(7000..7300).collect::<Vec<_>>());
    instance.drop_database("copy").expect("dropped");
    for file in ["copy.ss", "copy.mdf", "copy.ldf"] {
        assert!(!exists(&disk, file), "{file}");
    }
}

#[test]
fn a_standby_refuses_changes_and_what_does_not_fit_it() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..100);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    for step in 1..=3 {
        add(&instance, &database, step * 1000..step * 1000 + 10);
        back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
    }
    let log = |set| Restoring::of("copy", "log.bak").log().set(set);
    standing_by(Restoring::of("copy", "full.bak").moved(), "copy.ss").run(&instance).expect("restored");
    let copy = instance.database("copy").expect("online");
    let change = run(&instance, |ctx| copy.create_table(ctx, &table_named("u")));
    assert_eq!(number_of(change), number::DATABASE_READ_ONLY);
    let change = run(&instance, |ctx| insert(&copy, ctx, &table(&copy, "t"), 0, std::iter::once(row(5))));
    assert_eq!(number_of(change), number::DATABASE_READ_ONLY);
    let set = instance.set_options(&copy, |options| options.is_read_only = false);
    assert_eq!(number_of(set), number::WARM_STANDBY);
    let set = instance.set_isolation_option(&copy, IsolationOption::AllowSnapshot, true);
    assert_eq!(number_of(set), number::WARM_STANDBY);
    assert_eq!(number_of(instance.add_files(&copy, None, &[])), number::WARM_STANDBY);
    assert_eq!(number_of(back_up(&instance, &copy, BackupWhat::Database, "c.bak")), number::BACKUP_OF_STANDBY);
    // In use.
    assert_eq!(number_of(log(1).run(&instance)), number::RESTORE_IN_USE);
    assert_eq!(number_of(instance.recover_restored("copy")), number::RESTORE_IN_USE);
    drop(copy);
    assert_eq!(number_of(instance.set_offline("copy")), number::WARM_STANDBY);
    assert_eq!(number_of(instance.detach_database("copy")), number::WARM_STANDBY);
    // What was refused leaves the standby.
    assert_eq!(number_of(log(2).run(&instance)), number::LOG_TOO_RECENT);
    assert_eq!(number_of(Restoring::of("copy", "log.bak").run(&instance)), number::BACKUP_SET_KIND);
    assert_eq!(ids_of(&instance, "copy").len(), 100);
    for (file, refusal) in [
        ("shop.mdf", number::FILE_OF_ANOTHER_DATABASE),
        ("copy.mdf", number::FILE_OF_ANOTHER_DATABASE),
        ("full.bak", number::FILE_EXISTS),
        ("../copy.ss", number::CANNOT_CREATE_FILE),
        ("", number::CANNOT_CREATE_FILE),
    ] {
        assert_eq!(number_of(standing_by(log(1), file).run(&instance)), refusal, "{file}");
        assert_eq!(number_of(instance.stand_by("copy", Path::new(file))), refusal, "{file}");
    }
    assert_eq!(number_of(instance.stand_by("shop", Path::new("shop.ss"))), number::ALREADY_RECOVERED);
    assert_eq!(ids_of(&instance, "copy").len(), 100);
    // Another file for the same standby, to a moment, and on with no file at all.
    instance.stand_by("copy", Path::new("sub/other.ss")).expect("moved");
    assert!(!exists(&disk, "copy.ss") && exists(&disk, "sub/other.ss"));
    assert_eq!(ids_of(&instance, "copy").len(), 100);
    let stop = Some(StopPoint::Time(time_of_day()));
    standing_by(log(1).stop(stop), "sub/other.ss").run(&instance).expect("restored");
    assert_eq!(ids_of(&instance, "copy").len(), 110);
    log(2).run(&instance).expect("restored");
    assert_eq!(number_of(instance.database("copy")), number::DATABASE_RESTORING);
    instance.stand_by("copy", Path::new("copy.ss")).expect("standing by");
    assert_eq!(ids_of(&instance, "copy").len(), 120);
    log(3).recovery().run(&instance).expect("restored");
    assert_eq!(ids_of(&instance, "copy").len(), 130);
}

/// Wherever the power fails, the database is as before the restore or behind it, or restoring, and goes on from there.
#[test]
fn a_power_failure_leaves_a_standby_or_a_database_that_is_restoring() {
    let (mut standbys, mut restoring) = (0, 0);
    for after in (1..90).step_by(5) {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::Full);
        add(&instance, &database, 0..1000);
        back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
        add(&instance, &database, 1000..1500);
        back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
        standing_by(Restoring::of("copy", "full.bak").moved(), "copy.ss").run(&instance).expect("restored");
        drop(database);
        disk.crash_at(disk.changes() + after, after);
        let log = || Restoring::of("copy", "log.bak").log();
        let restored = standing_by(log(), "copy.ss").run(&instance);
        drop(instance);
        disk.crash(after);
        disk.power_on();
        let instance = open(&disk);
        match described(&instance, "copy").state {
            DatabaseState::Restoring => restoring += 1,
            state => {
                assert_eq!(state, DatabaseState::Online, "{after}");
                let rows = ids_of(&instance, "copy").len();
                assert!(rows == 1500 || (rows == 1000 && restored.is_err()), "{after}: {rows}");
                standbys += 1;
            }
        }
        standing_by(log(), "copy.ss").run(&instance).expect("again");
        let copy = instance.database("copy").expect("online");
        assert_eq!(ids(&copy).len(), 1500, "{after}");
        assert_sound(&copy);
        drop(copy);
        instance.recover_restored("copy").expect("recovered");
        assert_eq!(ids_of(&instance, "copy").len(), 1500, "{after}");
    }
    assert!(standbys > 2 && restoring > 2, "{standbys} {restoring}");
}

/// A disk that is full leaves the database restoring, and nothing of it is lost.
#[test]
fn a_full_disk_leaves_it_restoring() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..1000);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    Restoring::of("copy", "full.bak").moved().run(&instance).expect("restored");
    disk.leave_free(Some(32 << 10));
    assert!(instance.stand_by("copy", Path::new("copy.ss")).is_err());
    disk.leave_free(None);
    assert_eq!(described(&instance, "copy").state, DatabaseState::Restoring);
    instance.stand_by("copy", Path::new("copy.ss")).expect("standing by");
    assert_eq!(ids_of(&instance, "copy").len(), 1000);
    let path = Path::new(FOLDER).join("copy.ss");
    assert!(disk.open(&path, OpenOptions::default()).expect("a file").size().expect("a size") > 0);
}
