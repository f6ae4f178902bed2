//! Backups and restores: what comes back, what is refused, and what a crash or a full disk in the middle leaves.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hobt_base::{SplitMix64, SqlError, number};
use hobt_disk::{Disk, SimulatedDisk};
use hobt_engine::{
    BackupDone, BackupRequest, BackupWhat, DatabaseDescription, DatabaseUse, EngineError, Instance, Opening,
    RecoveryModel, RestoreDone, RestoreEnd, RestoreRequest, StopPoint, TailRequest, time_of_day,
};
use hobt_types::Value;

use crate::fixture::{
    FOLDER, check_extents, create, insert, number_of, open, row, rows, run, simulated, table, table_named,
};
use crate::recovery_models::load;

/// Told nothing.
fn quiet(_done: u64, _all: u64) -> Result<(), SqlError> {
    Ok(())
}

pub(crate) fn request<'a>(what: BackupWhat, paths: &'a [PathBuf]) -> BackupRequest<'a> {
    BackupRequest {
        what,
        paths,
        opening: Opening::Append,
        compresses: false,
        checks: true,
        continues_after_error: false,
        is_copy_only: false,
        keeps_log: false,
        leaves_restoring: false,
        name: String::new(),
        description: String::new(),
        media_name: String::new(),
        media_description: String::new(),
        user: "tester".to_owned(),
        server: "here".to_owned(),
        observe: &quiet,
    }
}

pub(crate) fn back_up(
    instance: &Instance,
    database: &DatabaseUse,
    what: BackupWhat,
    path: &str,
) -> Result<BackupDone, EngineError> {
    instance.back_up(database, &request(what, &[PathBuf::from(path)]))
}

/// `RESTORE … FROM path`, into files whose names begin with `name` if there are `moves`.
pub(crate) struct Restoring<'a> {
    name: &'a str,
    is_log: bool,
    pub(crate) paths: Vec<PathBuf>,
    set: Option<u32>,
    moves: Vec<(String, PathBuf)>,
    replaces: bool,
    end: RestoreEnd,
    stop: Option<StopPoint>,
}

impl<'a> Restoring<'a> {
    pub(crate) fn of(name: &'a str, path: &str) -> Restoring<'a> {
        Restoring {
            name,
            is_log: false,
            paths: vec![PathBuf::from(path)],
            set: None,
            moves: Vec::new(),
            replaces: false,
            end: RestoreEnd::NoRecovery,
            stop: None,
        }
    }

    /// As a copy beside the database `shop`.
    pub(crate) fn moved(mut self) -> Restoring<'a> {
        self.moves = [("shop", "mdf"), ("shop_log", "ldf")]
            .map(|(logical, ending)| (logical.to_owned(), PathBuf::from(format!("{}.{ending}", self.name))))
            .to_vec();
        self
    }

    /// With one file moved.
    pub(crate) fn moved_to(mut self, logical: &str, path: &str) -> Restoring<'a> {
        self.moves = vec![(logical.to_owned(), PathBuf::from(path))];
        self
    }

    pub(crate) fn log(mut self) -> Restoring<'a> {
        self.is_log = true;
        self
    }

    pub(crate) fn set(mut self, set: u32) -> Restoring<'a> {
        self.set = Some(set);
        self
    }

    pub(crate) fn replace(mut self) -> Restoring<'a> {
        self.replaces = true;
        self
    }

    pub(crate) fn recovery(mut self) -> Restoring<'a> {
        self.end = RestoreEnd::Recovery;
        self
    }

    pub(crate) fn end(mut self, end: RestoreEnd) -> Restoring<'a> {
        self.end = end;
        self
    }

    pub(crate) fn stop(mut self, stop: Option<StopPoint>) -> Restoring<'a> {
        self.stop = stop;
        self
    }

    pub(crate) fn run(self, instance: &Instance) -> Result<RestoreDone, EngineError> {
        instance.restore(&RestoreRequest {
            name: self.name,
            is_log: self.is_log,
            paths: &self.paths,
            set: self.set,
            moves: &self.moves,
            replaces: self.replaces,
            end: self.end.clone(),
            stop: self.stop.clone(),
            checks: false,
            continues_after_error: false,
            user: "tester".to_owned(),
            observe: &quiet,
        })
    }
}

/// The ids of the rows of table `t`, in order.
pub(crate) fn ids(database: &DatabaseUse) -> Vec<i64> {
    let id = |row: Vec<Value>| match row.first() {
        Some(Value::Int(id)) => *id,
        other => panic!("an id: {other:?}"),
    };
    let mut ids: Vec<i64> = rows(database, &table(database, "t")).expect("rows").into_iter().map(id).collect();
    ids.sort_unstable();
    ids
}

pub(crate) fn assert_sound(database: &DatabaseUse) {
    check_extents(database);
    let found = database.check().expect("checked");
    assert!(found.is_empty(), "{found:?}");
}

/// A database `shop` with table `t` under a recovery model.
pub(crate) fn shop(instance: &Instance, model: RecoveryModel) -> DatabaseUse {
    let database = create(instance, "shop");
    instance.set_options(&database, |options| options.recovery_model = model).expect("set");
    run(instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    database
}

pub(crate) fn add(instance: &Instance, database: &DatabaseUse, ids: std::ops::Range<i64>) {
    let table = table(database, "t");
    run(instance, |ctx| insert(database, ctx, &table, 0, ids.map(row))).expect("inserted");
}

/// What is listed of a database.
pub(crate) fn described(instance: &Instance, name: &str) -> DatabaseDescription {
    instance.databases().into_iter().find(|one| one.name == name).expect("listed")
}

/// The ids in table `t` of a database.
pub(crate) fn ids_of(instance: &Instance, name: &str) -> Vec<i64> {
    ids(&instance.database(name).expect("online"))
}

/// Whether the instance's folder has a file.
pub(crate) fn exists(disk: &SimulatedDisk, file: &str) -> bool {
    disk.exists(&Path::new(FOLDER).join(file))
}

#[test]
fn a_full_backup_comes_back_beside_the_database_and_over_it() {
    for model in RecoveryModel::ALL {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, model);
        add(&instance, &database, 0..3000);
        let done = back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
        assert!(done.facts.pages > 0 && !done.facts.is_damaged && done.position == 1);
        add(&instance, &database, 3000..4000);
        Restoring::of("copy", "full.bak").moved().recovery().run(&instance).expect("restored");
        let copy = instance.database("copy").expect("online");
        assert_eq!(ids(&copy), (0..3000).collect::<Vec<_>>());
        assert_sound(&copy);
        add(&instance, &copy, 5000..5100);
        assert_eq!(ids(&database).len(), 4000);
        // Over the database itself. It is in use first, and its log may hold what is nowhere else.
        let over = || Restoring::of("shop", "full.bak").recovery();
        let kept = model != RecoveryModel::Simple;
        let refusal = if kept { number::TAIL_NOT_BACKED_UP } else { number::RESTORE_IN_USE };
        assert_eq!(number_of(over().run(&instance)), refusal, "{model:?}");
        assert_eq!(number_of(over().replace().run(&instance)), number::RESTORE_IN_USE);
        drop(database);
        over().replace().run(&instance).expect("restored");
        let database = instance.database("shop").expect("online");
        assert_eq!(ids(&database).len(), 3000);
        assert_sound(&database);
        drop((database, copy));
        instance.close().expect("closed");
        let instance = open(&disk);
        assert_eq!(ids(&instance.database("shop").expect("online")).len(), 3000);
        assert_eq!(ids(&instance.database("copy").expect("online")).len(), 3100);
        let history = instance.backup_history().expect("readable");
        assert_eq!(history.len(), 3, "a backup and two restores");
    }
}

#[test]
fn logs_bring_a_database_to_any_moment() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    assert_eq!(number_of(back_up(&instance, &database, BackupWhat::Log, "log.bak")), number::LOG_BACKUP_WITHOUT_BASE);
    add(&instance, &database, 0..100);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    let mut moments = Vec::new();
    for step in 1..=6 {
        add(&instance, &database, step * 100..step * 100 + 100);
        moments.push((time_of_day(), (step + 1) * 100));
        if step % 2 == 0 {
            let done = back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
            assert_eq!(i64::from(done.position), step / 2);
        }
        if step == 3 {
            database.checkpoint().expect("saved");
        }
    }
    for (moment, count) in moments {
        Restoring::of("copy", "full.bak").moved().replace().run(&instance).expect("restored");
        assert_eq!(number_of(instance.database("copy")), number::DATABASE_RESTORING);
        let mut is_recovered = false;
        for set in 1..=3 {
            let log = Restoring::of("copy", "log.bak").log().set(set).recovery().stop(Some(StopPoint::Time(moment)));
            let done = log.run(&instance).expect("restored");
            if done.is_recovered {
                is_recovered = true;
                break;
            }
            assert!(done.ends_before_stop);
        }
        assert!(is_recovered);
        let copy = instance.database("copy").expect("online");
        assert_eq!(ids(&copy), (0..count).collect::<Vec<_>>());
        assert_sound(&copy);
        // It goes on, and another backup of it is the beginning of a chain of its own.
        assert_eq!(number_of(back_up(&instance, &copy, BackupWhat::Log, "c.bak")), number::LOG_BACKUP_WITHOUT_BASE);
        add(&instance, &copy, 9000..9010);
    }
}

#[test]
fn a_chain_with_a_hole_is_refused() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    for step in 0..3 {
        add(&instance, &database, step * 10..step * 10 + 10);
        back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
    }
    let log = |set| Restoring::of("copy", "log.bak").log().set(set);
    assert_eq!(number_of(log(1).run(&instance)), number::RESTORE_NO_DATABASE);
    Restoring::of("copy", "full.bak").moved().run(&instance).expect("restored");
    assert_eq!(number_of(log(2).run(&instance)), number::LOG_TOO_RECENT);
    log(1).run(&instance).expect("restored");
    log(2).run(&instance).expect("restored");
    assert_eq!(number_of(log(1).run(&instance)), number::LOG_TOO_EARLY);
    log(2).run(&instance).expect("nothing new, and nothing wrong");
    assert_eq!(number_of(Restoring::of("copy", "full.bak").log().run(&instance)), number::BACKUP_SET_KIND);
    assert_eq!(number_of(log(4).run(&instance)), number::NO_SUCH_BACKUP_SET);
    instance.recover_restored("copy").expect("recovered");
    assert_eq!(number_of(log(3).run(&instance)), number::NO_ROLL_FORWARD);
    assert_eq!(number_of(instance.recover_restored("copy")), number::ALREADY_RECOVERED);
    let copy = instance.database("copy").expect("online");
    assert_eq!(ids(&copy), (0..20).collect::<Vec<_>>());
    // The copy went another way: its log does not continue the backup of the original, nor the other way round.
    back_up(&instance, &copy, BackupWhat::Database, "copy.bak").expect("backed up");
    add(&instance, &copy, 500..510);
    back_up(&instance, &copy, BackupWhat::Log, "copylog.bak").expect("backed up");
    drop(copy);
    Restoring::of("copy", "full.bak").moved().replace().run(&instance).expect("restored");
    let other = Restoring::of("copy", "copylog.bak").log();
    assert_eq!(number_of(other.run(&instance)), number::LOG_OF_ANOTHER_FORK);
    let foreign = create(&instance, "foreign");
    instance.set_options(&foreign, |options| options.recovery_model = RecoveryModel::Full).expect("set");
    back_up(&instance, &foreign, BackupWhat::Database, "foreign.bak").expect("backed up");
    back_up(&instance, &foreign, BackupWhat::Log, "foreignlog.bak").expect("backed up");
    let other = Restoring::of("copy", "foreignlog.bak").log();
    assert_eq!(number_of(other.run(&instance)), number::RESTORE_OTHER_DATABASE);
    let other = Restoring::of("shop", "foreign.bak");
    assert_eq!(number_of(other.run(&instance)), number::RESTORE_OTHER_DATABASE);
}

/// Changes, loads and checkpoints in the middle of a backup: what was committed when it ended is in it.
#[test]
fn a_backup_beside_changes_and_loads_is_whole() {
    for model in RecoveryModel::ALL {
        for seed in 0..6 {
            let disk = simulated();
            let instance = open(&disk);
            let database = shop(&instance, model);
            add(&instance, &database, 0..20_000);
            let random = std::cell::RefCell::new(SplitMix64::new(seed));
            let next = std::cell::Cell::new(100_000);
            let observe = |_: u64, _: u64| {
                match random.borrow_mut().below(4) {
                    0 => add(&instance, &database, next.get()..next.get() + 500),
                    1 => load(&instance, &database, 2000),
                    2 => database.checkpoint().expect("saved"),
                    _ => {}
                }
                next.set(next.get() + 500);
                Ok(())
            };
            let paths = [PathBuf::from("full.bak")];
            let full = BackupRequest { observe: &observe, ..request(BackupWhat::Database, &paths) };
            instance.back_up(&database, &full).expect("backed up");
            let after = ids(&database);
            Restoring::of("copy", "full.bak").moved().recovery().run(&instance).expect("restored");
            let copy = instance.database("copy").expect("online");
            let copied = ids(&copy);
            // The backup ends before its last call, which may have committed more.
            assert!(copied.len() >= 20_000 && copied.len() <= after.len(), "{model:?} {seed}");
            assert!(after.len() - copied.len() <= 2000 * 4, "{model:?} {seed}: {} of {}", copied.len(), after.len());
            assert_sound(&copy);
        }
    }
}

fn files_of(disk: &SimulatedDisk) -> Vec<PathBuf> {
    disk.list(std::path::Path::new(crate::fixture::FOLDER)).expect("the folder")
}

#[test]
fn a_restore_that_fails_leaves_nothing_and_a_backup_that_fails_no_backup() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..2000);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    let before = files_of(&disk);
    let stops = std::cell::Cell::new(0);
    let observe = |_: u64, _: u64| {
        stops.set(stops.get() + 1);
        if stops.get() == 2 { Err(SqlError::cancelled()) } else { Ok(()) }
    };
    let (paths, moves) = ([PathBuf::from("full.bak")], Restoring::of("copy", "full.bak").moved().moves);
    let restore = RestoreRequest {
        name: "copy",
        is_log: false,
        paths: &paths,
        set: None,
        moves: &moves,
        replaces: false,
        end: RestoreEnd::Recovery,
        stop: None,
        checks: false,
        continues_after_error: false,
        user: String::new(),
        observe: &observe,
    };
    assert!(instance.restore(&restore).is_err());
    assert_eq!(number_of(instance.database("copy")), number::DATABASE_DOES_NOT_EXIST);
    assert_eq!(files_of(&disk), before);
    stops.set(0);
    let paths = [PathBuf::from("other.bak")];
    let other = BackupRequest { observe: &observe, ..request(BackupWhat::Database, &paths) };
    assert!(instance.back_up(&database, &other).is_err());
    assert_eq!(files_of(&disk), before);
    // Behind another backup set: that stays, and the next one takes the place of the one that failed.
    stops.set(0);
    let paths = [PathBuf::from("full.bak")];
    let other = BackupRequest { observe: &observe, ..request(BackupWhat::Database, &paths) };
    assert!(instance.back_up(&database, &other).is_err());
    assert_eq!(instance.backup_media(&paths).expect("a media set").sets().len(), 1);
    let second = Restoring::of("copy", "full.bak").moved().set(2);
    assert_eq!(number_of(second.run(&instance)), number::NO_SUCH_BACKUP_SET);
    let done = back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    assert_eq!(done.position, 2);
    let verified = instance.verify_backup(&paths, Some(2), false, &quiet).expect("sound");
    assert_eq!(verified.facts, done.facts);
}

/// What was restored is there after a power failure, and what was not is still restoring.
#[test]
fn a_power_failure_in_the_middle_of_a_restore_leaves_it_to_be_repeated() {
    let mut interrupted = 0;
    for after in (1..120).step_by(5) {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::Full);
        add(&instance, &database, 0..2000);
        back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
        add(&instance, &database, 2000..3000);
        back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
        drop(database);
        instance.close().expect("closed");
        let instance = open(&disk);
        disk.crash_at(disk.changes() + after, after);
        let restored = Restoring::of("shop", "full.bak")
            .replace()
            .run(&instance)
            .and_then(|_| Restoring::of("shop", "log.bak").log().recovery().run(&instance));
        drop(instance);
        disk.crash(after);
        disk.power_on();
        let instance = open(&disk);
        let state = instance.databases().into_iter().find(|one| one.name == "shop").expect("listed").state;
        if restored.is_ok() {
            assert_eq!(state.name(), "ONLINE", "{after}");
        }
        if state.name() == "RESTORING" {
            interrupted += 1;
            Restoring::of("shop", "full.bak").replace().run(&instance).expect("again");
            Restoring::of("shop", "log.bak").log().recovery().run(&instance).expect("again");
        }
        let database = instance.database("shop").expect("online");
        assert_eq!(ids(&database), (0..3000).collect::<Vec<_>>(), "{after}");
        assert_sound(&database);
    }
    assert!(interrupted > 3, "{interrupted}");
}

/// A power failure in the middle of a backup leaves the database, the backups before, and the chain of the log.
#[test]
fn a_power_failure_in_the_middle_of_a_backup_leaves_the_chain() {
    for (step, after) in (1..120).step_by(7).enumerate() {
        let what = [BackupWhat::Log, BackupWhat::Database, BackupWhat::Differential][step % 3];
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::Full);
        add(&instance, &database, 0..500);
        back_up(&instance, &database, BackupWhat::Database, "all.bak").expect("backed up");
        add(&instance, &database, 500..900);
        disk.crash_at(disk.changes() + after, after);
        let made = back_up(&instance, &database, what, "all.bak");
        drop(database);
        drop(instance);
        disk.crash(after);
        disk.power_on();
        let instance = open(&disk);
        let database = instance.database("shop").expect("recovered");
        assert_same(&ids(&database), &(0..900).collect::<Vec<_>>(), &format!("{after}"));
        let paths = [PathBuf::from("all.bak")];
        let listed = instance.backup_media(&paths).expect("a media set").sets().len();
        assert!(listed >= 1 && (made.is_err() || listed == 2), "{after}: {listed}");
        add(&instance, &database, 900..1000);
        match back_up(&instance, &database, BackupWhat::Differential, "diff.bak") {
            Ok(done) => assert!(done.facts.base_first > 0),
            Err(error) => assert_eq!(error.to_sql_error().number, number::NO_DIFFERENTIAL_BASE, "{after}"),
        }
        back_up(&instance, &database, BackupWhat::Log, "all.bak").expect("backed up");
        Restoring::of("copy", "all.bak").moved().run(&instance).expect("restored");
        let sets = instance.backup_media(&paths).expect("a media set");
        for set in sets.sets().iter().filter(|set| set.facts.kind == hobt_engine::SetKind::Log) {
            Restoring::of("copy", "all.bak").log().set(set.number).run(&instance).expect("no hole");
        }
        instance.recover_restored("copy").expect("recovered");
        let copy = instance.database("copy").expect("online");
        assert_same(&ids(&copy), &(0..1000).collect::<Vec<_>>(), &format!("{after}"));
        assert_sound(&copy);
    }
}

#[test]
fn a_backup_holds_the_log_while_it_runs() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Simple);
    add(&instance, &database, 0..20_000);
    let waits = std::cell::RefCell::new(Vec::new());
    let observe = |_: u64, _: u64| {
        for step in 0..5 {
            add(&instance, &database, step * 1000..step * 1000 + 1000);
            database.checkpoint().expect("saved");
        }
        let log = hobt_engine::LogDescription::of(database.storage()).expect("a log");
        waits.borrow_mut().push(log.reuse_wait);
        Ok(())
    };
    let paths = [PathBuf::from("full.bak")];
    let full = BackupRequest { observe: &observe, ..request(BackupWhat::Database, &paths) };
    instance.back_up(&database, &full).expect("backed up");
    assert!(waits.borrow().contains(&hobt_engine::TruncationWait::ActiveBackup), "{waits:?}");
    database.checkpoint().expect("saved");
    let log = hobt_engine::LogDescription::of(database.storage()).expect("a log");
    assert_ne!(log.reuse_wait, hobt_engine::TruncationWait::ActiveBackup);
}

/// A backup with any bit flipped, or cut short anywhere, is refused, or what it brings back is right.
#[test]
fn a_damaged_backup_never_brings_back_something_else() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..500);
    let paths = [PathBuf::from("full.bak")];
    let small = BackupRequest { compresses: true, ..request(BackupWhat::Database, &paths) };
    instance.back_up(&database, &small).expect("backed up");
    let wanted = ids(&database);
    let path = |name: &str| std::path::Path::new(crate::fixture::FOLDER).join(name);
    let options = |create_new| hobt_disk::OpenOptions { create_new, ..hobt_disk::OpenOptions::default() };
    let whole = disk.open(&path("full.bak"), options(false)).expect("it");
    let mut bytes = hobt_disk::AlignedBuffer::new(whole.size().expect("a size") as usize).expect("memory");
    whole.read_at(&mut bytes, 0).expect("readable");
    let mut random = SplitMix64::new(5);
    let mut refused = 0;
    for step in 0..60 {
        let bad = disk.open(&path("bad.bak"), options(true)).expect("a new file");
        let (at, is_cut) = (random.below(bytes.len() as u64) as usize, step % 3 == 0);
        if is_cut {
            let end = at / 4096 * 4096;
            if end > 0 {
                let mut part = hobt_disk::AlignedBuffer::new(end).expect("memory");
                part.copy_from_slice(&bytes[..end]);
                bad.write_at(&part, 0).expect("written");
            }
        } else {
            // In what is used of a block, mostly.
            let at = if step % 3 == 1 { at / 4096 * 4096 + at % 96 } else { at };
            let mut changed = hobt_disk::AlignedBuffer::new(bytes.len()).expect("memory");
            changed.copy_from_slice(&bytes);
            changed[at] ^= 1 << random.below(8);
            bad.write_at(&changed, 0).expect("written");
        }
        drop(bad);
        let verified = instance.verify_backup(&[PathBuf::from("bad.bak")], None, true, &quiet);
        let restored = Restoring::of("copy", "bad.bak").moved().recovery().run(&instance);
        assert_eq!(verified.is_ok(), restored.is_ok(), "{step}: {verified:?} {restored:?}");
        match restored {
            Ok(_) => {
                let copy = instance.database("copy").expect("online");
                assert_same(&ids(&copy), &wanted, &format!("{step}"));
                drop(copy);
                instance.drop_database("copy").expect("dropped");
            }
            Err(_) => {
                refused += 1;
                assert_eq!(number_of(instance.database("copy")), number::DATABASE_DOES_NOT_EXIST);
            }
        }
        disk.remove(&path("bad.bak")).expect("removed");
    }
    assert!(refused > 30, "{refused}");
}

/// A disk that is full in the middle: of a backup, which leaves no file, and of a restore, which leaves no database.
#[test]
fn a_full_disk_in_the_middle_leaves_nothing() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..5000);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    let before = files_of(&disk);
    for room in [0, 4096, 8192, 100_000, 400_000] {
        disk.leave_free(Some(room));
        assert!(back_up(&instance, &database, BackupWhat::Database, "other.bak").is_err(), "{room}");
        assert!(Restoring::of("copy", "full.bak").moved().run(&instance).is_err(), "{room}");
        disk.leave_free(None);
        assert_eq!(files_of(&disk), before, "{room}");
        assert_eq!(number_of(instance.database("copy")), number::DATABASE_DOES_NOT_EXIST);
    }
    // A set that is appended: those before it stay.
    disk.leave_free(Some(100_000));
    assert!(back_up(&instance, &database, BackupWhat::Database, "full.bak").is_err());
    disk.leave_free(None);
    let done = back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    assert_eq!(done.position, 2);
    Restoring::of("copy", "full.bak").set(2).moved().recovery().run(&instance).expect("restored");
}

/// The tail of the log of a database whose data file is gone, and of one that is left restoring.
#[test]
fn the_tail_of_a_log_brings_back_the_last_commit() {
    for is_gone in [true, false] {
        let disk = simulated();
        let mut instance = open(&disk);
        let database = shop(&instance, RecoveryModel::Full);
        add(&instance, &database, 0..1000);
        back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
        add(&instance, &database, 1000..1700);
        if is_gone {
            database.flush_log().expect("durable");
            drop(database);
            disk.crash(3);
            drop(instance);
            disk.remove(&std::path::Path::new(crate::fixture::FOLDER).join("shop.mdf")).expect("removed");
            instance = open(&disk);
            assert_eq!(number_of(instance.database("shop")), number::DATABASE_INACCESSIBLE);
        } else {
            drop(database);
        }
        let paths = [PathBuf::from("tail.bak")];
        let tail = BackupRequest { keeps_log: is_gone, leaves_restoring: !is_gone, ..request(BackupWhat::Log, &paths) };
        let done = instance.back_up_tail(&TailRequest { name: "shop", request: &tail }).expect("backed up");
        assert!(done.facts.is_tail);
        if !is_gone {
            assert_eq!(number_of(instance.database("shop")), number::DATABASE_RESTORING);
            assert_eq!(number_of(instance.set_online("shop")), number::DATABASE_RESTORING);
        }
        Restoring::of("shop", "full.bak").replace().run(&instance).expect("restored");
        Restoring::of("shop", "tail.bak").log().recovery().run(&instance).expect("restored");
        let database = instance.database("shop").expect("online");
        assert_same(&ids(&database), &(0..1700).collect::<Vec<_>>(), "all of them");
        assert_sound(&database);
    }
}

/// Several files hold one backup, and all of them are needed; files that the database gets later come back by its log.
#[test]
fn stripes_and_files_that_were_added_come_back() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..4000);
    let paths = ["a.bak", "b.bak", "c.bak"].map(PathBuf::from);
    let striped = BackupRequest { compresses: true, ..request(BackupWhat::Database, &paths) };
    instance.back_up(&database, &striped).expect("backed up");
    let file = hobt_engine::FileDefinition { path: Some("shop2.ndf".into()), ..crate::fixture::small_file("shop2") };
    instance.add_files(&database, None, &[file]).expect("added");
    add(&instance, &database, 4000..12_000);
    back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
    let restoring = |paths: &[PathBuf]| Restoring { paths: paths.to_vec(), ..Restoring::of("copy", "").moved() };
    assert_eq!(number_of(restoring(&paths[..2]).run(&instance)), number::BACKUP_STRIPES_MISSING);
    let turned = [paths[2].clone(), paths[0].clone(), paths[1].clone()];
    restoring(&turned).run(&instance).expect("restored");
    let log = Restoring::of("copy", "log.bak").log().recovery().moved_to("shop2", "copy2.ndf");
    log.run(&instance).expect("restored");
    let copy = instance.database("copy").expect("online");
    assert_same(&ids(&copy), &(0..12_000).collect::<Vec<_>>(), "all of them");
    assert_eq!(copy.storage().files().len(), 2);
    assert_sound(&copy);
    drop(copy);
    instance.close().ok();
    drop(database);
    drop(instance);
    let instance = open(&disk);
    assert_eq!(ids(&instance.database("copy").expect("online")).len(), 12_000);
}

/// A history of changes, loads, backups and power failures, under any recovery model that keeps the log.
#[test]
fn any_history_comes_back_at_any_of_its_moments() {
    let first: u64 = std::env::var("HOBT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let count: u64 = std::env::var("HOBT_BACKUP_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(8);
    for seed in first..first + count {
        History::new(seed).run();
    }
}

struct History {
    seed: u64,
    random: SplitMix64,
    disk: Arc<SimulatedDisk>,
    model: RecoveryModel,
    next: i64,
    /// Rows in table `t`, loaded ones counted by their number.
    rows: Vec<i64>,
    /// After each commit the time, and the rows.
    moments: Vec<(i64, Vec<i64>)>,
    /// The complete backup sets: what, and the number of moments when it was begun and ended.
    sets: Vec<(BackupWhat, usize, usize)>,
    has_bulk: bool,
    /// Nothing else is changed during a backup: rows of an open transaction would count.
    is_quiet: bool,
}

/// Compares rows without printing all of them.
fn assert_same(left: &[i64], right: &[i64], what: &str) {
    let differs = left.iter().zip(right).position(|(left, right)| left != right);
    assert!(left == right, "{what}: {} and {} rows, different from {differs:?} on", left.len(), right.len());
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = SplitMix64::new(seed);
        let model = [RecoveryModel::Full, RecoveryModel::BulkLogged][random.below(2) as usize];
        let (disk, next) = (simulated(), 1_000_000);
        let (rows, moments, sets) = Default::default();
        History { seed, random, disk, model, next, rows, moments, sets, has_bulk: false, is_quiet: false }
    }

    fn run(&mut self) {
        let mut instance = open(&self.disk);
        let mut database = shop(&instance, self.model);
        self.note(&database);
        self.back_up(&instance, &database, BackupWhat::Database);
        for _ in 0..25 {
            match self.random.below(12) {
                0..=3 => self.change(&instance, &database),
                4 => {
                    let count = 500 + self.random.below(2000) as i32;
                    load(&instance, &database, count);
                    self.has_bulk |= self.model == RecoveryModel::BulkLogged;
                    self.note(&database);
                }
                5 => database.checkpoint().expect("saved"),
                6 => self.back_up(&instance, &database, BackupWhat::Database),
                7 => self.back_up(&instance, &database, BackupWhat::Differential),
                8 | 9 => self.back_up(&instance, &database, BackupWhat::Log),
                10 => {
                    drop(database);
                    if self.random.below(2) == 0 {
                        instance.close().expect("closed");
                    } else {
                        self.disk.crash(self.random.next_u64());
                    }
                    drop(instance);
                    instance = open(&self.disk);
                    database = instance.database("shop").expect("recovered");
                    assert_same(&ids(&database), &self.rows, &format!("seed {}", self.seed));
                }
                _ => {
                    // Open when a backup is made: it is not in it.
                    let table = table(&database, "t");
                    let ctx = crate::fixture::begin(&instance);
                    insert(&database, &ctx, &table, 0, (self.next..self.next + 50).map(row)).expect("inserted");
                    self.is_quiet = true;
                    self.back_up(&instance, &database, BackupWhat::Log);
                    self.is_quiet = false;
                    instance.end_statement(&ctx, false, &[&database]).expect("rolled back");
                }
            }
        }
        self.is_quiet = true;
        self.back_up(&instance, &database, BackupWhat::Log);
        for _ in 0..4 {
            self.restore(&instance);
        }
        assert_sound(&database);
    }

    fn note(&mut self, database: &DatabaseUse) {
        self.rows = ids(database);
        self.moments.push((time_of_day(), self.rows.clone()));
    }

    fn change(&mut self, instance: &Instance, database: &DatabaseUse) {
        let count = 1 + self.random.below(800) as i64;
        add(instance, database, self.next..self.next + count);
        self.next += count;
        self.note(database);
    }

    /// Makes a backup, with changes and loads in the middle of it.
    fn back_up(&mut self, instance: &Instance, database: &DatabaseUse, what: BackupWhat) {
        let begun = self.moments.len();
        let (path, compresses) = (PathBuf::from("all.bak"), self.random.below(2) == 0);
        let history = std::cell::RefCell::new(&mut *self);
        let observe = |_: u64, _: u64| {
            let mut history = history.borrow_mut();
            match history.random.below(12) {
                _ if history.is_quiet => {}
                0 => history.change(instance, database),
                1 => {
                    load(instance, database, 700);
                    history.has_bulk |= history.model == RecoveryModel::BulkLogged;
                    history.note(database);
                }
                2 => database.checkpoint().expect("saved"),
                _ => {}
            }
            Ok(())
        };
        let paths = [path];
        let backup = BackupRequest { compresses, observe: &observe, ..request(what, &paths) };
        let done = instance.back_up(database, &backup);
        let done = done.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        self.sets.push((what, begun, self.moments.len()));
        assert_eq!(done.position as usize, self.sets.len());
    }

    /// Restores to one of the moments by one of the ways to it, and compares.
    fn restore(&mut self, instance: &Instance) {
        let wanted = self.random.below(self.moments.len() as u64) as usize;
        let (time, rows) = self.moments[wanted].clone();
        let is_before = |(_, _, end): &(BackupWhat, usize, usize)| *end <= wanted;
        let fulls: Vec<usize> = (0..self.sets.len())
            .filter(|set| self.sets[*set].0 == BackupWhat::Database && is_before(&self.sets[*set]))
            .collect();
        let Some(full) = fulls.get(self.random.below(fulls.len().max(1) as u64) as usize).copied() else { return };
        let number = |set: usize| set as u32 + 1;
        println!("seed {}: {:?}, moment {wanted}, from set {full} of {:?}", self.seed, self.model, self.sets);
        Restoring::of("copy", "all.bak").set(number(full)).moved().replace().run(instance).expect("restored");
        let next_full = (full + 1..self.sets.len()).find(|set| self.sets[*set].0 == BackupWhat::Database);
        let differentials: Vec<usize> = (full + 1..next_full.unwrap_or(self.sets.len()))
            .filter(|set| self.sets[*set].0 == BackupWhat::Differential && is_before(&self.sets[*set]))
            .collect();
        let mut from = full;
        if let Some(last) = differentials.last().filter(|_| self.random.below(2) == 0) {
            Restoring::of("copy", "all.bak").set(number(*last)).run(instance).expect("restored");
            from = *last;
            println!("differential {from}");
        }
        for set in from + 1..self.sets.len() {
            if self.sets[set].0 != BackupWhat::Log {
                continue;
            }
            println!("log {set}");
            let log = || Restoring::of("copy", "all.bak").log().set(number(set));
            let done = match log().recovery().stop(Some(StopPoint::Time(time))).run(instance) {
                // A backup with what loads have written is restored whole or not at all.
                Err(error) if error.to_sql_error().number == number::STOP_WITHIN_BULK && self.has_bulk => {
                    instance.recover_restored("copy").expect("what was restored is whole");
                    let copy = instance.database("copy").expect("online");
                    let now = ids(&copy);
                    assert!(self.moments.iter().any(|(_, rows)| *rows == now), "seed {}", self.seed);
                    assert_sound(&copy);
                    return;
                }
                done => done.unwrap_or_else(|error| panic!("seed {}, set {set}: {error}", self.seed)),
            };
            if done.is_recovered {
                let copy = instance.database("copy").expect("online");
                assert_same(&ids(&copy), &rows, &format!("seed {}, moment {wanted}", self.seed));
                assert_sound(&copy);
                return;
            }
        }
        panic!("seed {}: no log reaches moment {wanted}", self.seed);
    }
}
