//! Transactions over several databases, interrupted between any two steps of their commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hobt_base::{SessionId, number};
use hobt_disk::{Disk, Fault, FaultKind, Operation, SimulatedDisk};
use hobt_engine::{BackupWhat, DatabaseState, EngineError, InDoubtResolution, Instance};

use crate::backup::{Restoring, back_up};
use crate::fixture::{
    FOLDER, begin, check_extents, create, insert, number_of, open, row, rows, run, simulated, table, table_named,
};

/// The system's number for "input/output error".
const EIO: i32 = 5;

const NAMES: [&str; 3] = ["first", "second", "third"];

/// Three databases, each with a table and the rows 0 and 1.
fn world() -> (Arc<SimulatedDisk>, Arc<Instance>) {
    let disk = simulated();
    let instance = open(&disk);
    for name in NAMES {
        let database = create(&instance, name);
        let made = run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
        run(&instance, |ctx| insert(&database, ctx, &made, 0, (0..2).map(row))).expect("inserted");
    }
    instance.checkpoint().expect("saved");
    (disk, instance)
}

/// Inserts the row `id` into the tables of `names` in one transaction and commits it.
fn commit_in(instance: &Instance, names: &[&str], id: i64) -> Result<(), EngineError> {
    let uses: Vec<_> = names.iter().map(|name| instance.database(name)).collect::<Result<_, _>>()?;
    let transaction = instance.begin_transaction(SessionId(51))?;
    for database in &uses {
        let ctx = instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
        let done = insert(database, &ctx, &table(database, "t"), 0, std::iter::once(row(id)));
        instance.end_statement(&ctx, done.is_ok(), &[database])?;
        done?;
    }
    let databases: Vec<_> = uses.iter().map(|database| &***database).collect();
    instance.end_transaction(&transaction, true, &databases)
}

/// Whether the row `id` is in the table of each database.
fn have(instance: &Instance, names: &[&str], id: i64) -> Vec<bool> {
    let has = |name: &&str| {
        let database = instance.database(name).expect("it is recovered");
        check_extents(&database);
        rows(&database, &table(&database, "t")).expect("rows").contains(&row(id))
    };
    names.iter().map(has).collect()
}

fn file(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

#[test]
fn a_commit_that_is_cut_off_anywhere_is_in_all_databases_or_in_none() {
    let mut kept = [0, 0];
    for cut in 1.. {
        let (disk, instance) = world();
        disk.crash_at(disk.changes() + cut, cut);
        let committed = commit_in(&instance, &NAMES, 7);
        let was_cut = disk.is_off();
        assert_eq!(committed.is_err(), was_cut, "cut at {cut}");
        // What other flushes have written meanwhile does not matter: the power fails in any case.
        disk.crash(cut);
        drop(instance);
        disk.power_on();
        let instance = open(&disk);
        // The database opened first asks the coordinator.
        let mut order = NAMES;
        order.rotate_left(usize::try_from(cut).expect("small") % 3);
        let found = have(&instance, &order, 7);
        assert!(found.iter().all(|has| *has == found[0]), "cut at {cut}: {order:?} {found:?}");
        assert!(was_cut || found[0], "it was acknowledged");
        kept[usize::from(found[0])] += 1;
        if !was_cut {
            break;
        }
    }
    assert!(kept.iter().all(|count| *count > 1), "cuts before the decision and behind it: {kept:?}");
}

#[test]
fn a_decision_outlives_checkpoints_and_clean_closes_of_who_decided() {
    let (disk, instance) = world();
    commit_in(&instance, &NAMES, 7).expect("committed");
    disk.crash(1);
    drop(instance);
    for life in 0..3 {
        let instance = open(&disk);
        let first = instance.database("first").expect("recovered");
        for id in 0..20 {
            run(&instance, |ctx| insert(&first, ctx, &table(&first, "t"), 0, std::iter::once(row(100 + id))))
                .expect("in");
        }
        first.checkpoint().expect("saved");
        drop(first);
        if life < 2 {
            instance.close().expect("closed");
        }
        disk.crash(life);
    }
    let instance = open(&disk);
    assert_eq!(have(&instance, &["third", "second", "first"], 7), [true; 3]);
    let decider = instance.database("first").expect("it");
    let log = decider.storage().log().expect("a log");
    assert_eq!(log.decision_count(), 1);
    // Without a change there is no checkpoint.
    run(&instance, |ctx| insert(&decider, ctx, &table(&decider, "t"), 0, std::iter::once(row(9)))).expect("inserted");
    decider.checkpoint().expect("saved");
    assert_eq!(log.decision_count(), 0, "everybody has heard of it");
}

#[test]
fn a_decision_is_kept_no_longer_than_it_is_needed() {
    let (_disk, instance) = world();
    for id in 0..30 {
        commit_in(&instance, &NAMES, 10 + id).expect("committed");
    }
    let decider = instance.database("first").expect("it");
    decider.checkpoint().expect("saved");
    assert_eq!(decider.storage().log().expect("a log").decision_count(), 0);
}

/// A commit that was interrupted right after the decision: `second` is prepared, and does not know the decision.
fn in_doubt() -> Arc<SimulatedDisk> {
    for cut in 1.. {
        let (disk, instance) = world();
        disk.crash_at(disk.changes() + cut, cut);
        let committed = commit_in(&instance, &["first", "second"], 7);
        disk.crash(cut);
        drop(instance);
        disk.power_on();
        if committed.is_ok() {
            return disk;
        }
    }
    unreachable!("some commit is not cut off")
}

#[test]
fn without_who_decides_a_database_is_recovery_pending_and_loses_nothing() {
    let disk = in_doubt();
    let away = file("first.away");
    let move_file = |from: &Path, to: &Path| {
        let options = hobt_disk::OpenOptions { create_new: false, read_only: false, direct: true };
        let old = disk.open(from, options).expect("it is there");
        let new = disk.open(to, hobt_disk::OpenOptions { create_new: true, ..options }).expect("a new name");
        let size = old.size().expect("a size");
        let mut bytes = hobt_disk::AlignedBuffer::new(usize::try_from(size).expect("small")).expect("memory");
        old.read_at(&mut bytes, 0).expect("read");
        new.set_size(size).expect("room");
        new.write_at(&bytes, 0).expect("written");
        new.sync().expect("synced");
        drop((old, new));
        disk.remove(from).expect("removed");
        disk.sync_directory(Path::new(FOLDER)).expect("synced");
    };
    move_file(&file("first.mdf"), &away);
    let instance = open(&disk);
    let error = instance.database("second").expect_err("it is in doubt").to_sql_error();
    assert_eq!(error.number, number::DATABASE_INACCESSIBLE);
    assert!(error.message.contains("in doubt") && error.message.contains("'first'"), "{error}");
    let state = |name| instance.databases().into_iter().find(|database| database.name == name).expect("listed").state;
    assert_eq!(state("second"), DatabaseState::RecoveryPending);
    assert_eq!(have(&instance, &["third"], 7), [false]);
    instance.close().expect("closed");
    drop(instance);
    move_file(&away, &file("first.mdf"));
    let instance = open(&disk);
    assert_eq!(have(&instance, &["second", "first"], 7), [true; 2]);
}

/// The coordinator was closed, and so can be opened without its log. But its decisions are then unknown, and must not
/// be taken for roll-backs.
#[test]
fn a_decision_that_is_gone_with_its_log_is_not_taken_for_a_rollback() {
    let disk = in_doubt();
    let instance = open(&disk);
    assert_eq!(have(&instance, &["first"], 7), [true]);
    instance.close().expect("closed");
    drop(instance);
    disk.remove(&file("first_log.ldf")).expect("removed");
    disk.sync_directory(Path::new(FOLDER)).expect("synced");
    for _ in 0..2 {
        let instance = open(&disk);
        assert_eq!(have(&instance, &["first"], 7), [true], "it needs no log");
        let error = instance.database("second").expect_err("nobody knows").to_sql_error();
        assert_eq!(error.number, number::DATABASE_INACCESSIBLE);
        assert!(error.message.contains("in doubt") && error.message.contains("log of that time is gone"), "{error}");
        instance.close().expect("closed");
    }
}

#[test]
fn a_log_that_fails_before_the_decision_undoes_the_transaction_in_all_others() {
    let (disk, instance) = world();
    let fault = Fault::once(Operation::Write, 0, FaultKind::Error(EIO));
    disk.inject(Fault { path_contains: "second_log".to_owned(), ..fault });
    let failed = commit_in(&instance, &NAMES, 7);
    assert_eq!(number_of(failed), number::DATABASE_SUSPECT);
    assert_eq!(have(&instance, &["first", "third"], 7), [false; 2]);
    assert_eq!(number_of(instance.database("second")), number::DATABASE_SUSPECT);
    drop(instance);
    disk.clear_faults();
    let instance = open(&disk);
    assert_eq!(have(&instance, &["second", "third", "first"], 7), [false; 3]);
}

#[test]
fn a_decision_that_cannot_be_written_leaves_all_databases_to_their_recovery() {
    let (disk, instance) = world();
    let fault = Fault::once(Operation::Write, 0, FaultKind::Error(EIO));
    disk.inject(Fault { path_contains: "first_log".to_owned(), ..fault });
    assert_eq!(number_of(commit_in(&instance, &NAMES, 7)), number::DATABASE_SUSPECT);
    for name in NAMES {
        assert_eq!(number_of(instance.database(name)), number::DATABASE_SUSPECT, "{name}");
    }
    let ctx = begin(&instance);
    instance.end_statement(&ctx, true, &[]).expect("others go on");
    drop(ctx);
    drop(instance);
    disk.clear_faults();
    let instance = open(&disk);
    let found = have(&instance, &["second", "third", "first"], 7);
    assert!(found.iter().all(|has| *has == found[0]), "{found:?}");
}

#[test]
fn tempdb_takes_no_part() {
    let (disk, instance) = world();
    let tempdb = instance.tempdb().expect("tempdb");
    run(&instance, |ctx| tempdb.create_table(ctx, &table_named("t"))).expect("made");
    drop(tempdb);
    commit_in(&instance, &["tempdb", "second"], 7).expect("committed");
    let decider = instance.database("second").expect("it");
    assert_eq!(decider.storage().log().expect("a log").decision_count(), 0);
    drop(decider);
    disk.crash(3);
    drop(instance);
    let instance = open(&disk);
    assert_eq!(have(&instance, &["second"], 7), [true]);
}

#[test]
fn a_coordinator_that_is_dropped_takes_no_decision_with_it() {
    let (disk, instance) = world();
    commit_in(&instance, &NAMES, 7).expect("committed");
    instance.drop_database("first").expect("dropped");
    disk.crash(5);
    drop(instance);
    let instance = open(&disk);
    assert_eq!(have(&instance, &["third", "second"], 7), [true; 2]);
}

/// `first` has decided, and `second` has not been opened since.
#[test]
fn who_has_not_heard_is_recovered_before_the_coordinator_is_dropped() {
    let disk = in_doubt();
    let instance = open(&disk);
    instance.drop_database("first").expect("dropped");
    disk.crash(6);
    drop(instance);
    let instance = open(&disk);
    assert_eq!(have(&instance, &["second", "third"], 7), [true, false]);
}

/// A restore over the coordinator takes its log away, with what it has decided.
#[test]
fn who_has_not_heard_is_recovered_before_the_coordinator_is_overwritten() {
    let disk = in_doubt();
    let instance = open(&disk);
    let first = instance.database("first").expect("recovered");
    back_up(&instance, &first, BackupWhat::Database, "first.bak").expect("backed up");
    drop(first);
    let fault = Fault::once(Operation::Read, 0, FaultKind::Error(EIO));
    disk.inject(Fault { path_contains: "second.mdf".to_owned(), forever: true, ..fault });
    let over = || Restoring::of("first", "first.bak").replace().recovery().run(&instance);
    assert_eq!(number_of(over()), number::RESTORE_UNTOLD);
    disk.clear_faults();
    instance.set_online("second").expect("it can be read again");
    over().expect("restored");
    disk.crash(6);
    drop(instance);
    let instance = open(&disk);
    assert_eq!(have(&instance, &["second", "third"], 7), [true, false]);
}

/// `first` has decided, `second` has not been opened since, and a file cannot be read.
fn in_doubt_without(file: &str) -> Arc<SimulatedDisk> {
    let disk = in_doubt();
    let fault = Fault::once(Operation::Read, 0, FaultKind::Error(EIO));
    disk.inject(Fault { path_contains: file.to_owned(), forever: true, ..fault });
    disk
}

#[test]
fn a_coordinator_is_not_dropped_while_one_cannot_be_told() {
    let disk = in_doubt_without("second.mdf");
    let instance = open(&disk);
    let refused = instance.drop_database("first").expect_err("second cannot be read").to_sql_error();
    assert_eq!(refused.number, number::DATABASE_IN_USE);
    assert!(refused.message.contains("'second'"), "{refused}");
    disk.clear_faults();
    instance.set_online("second").expect("it can be read again");
    assert_eq!(have(&instance, &["second", "first"], 7), [true; 2]);
    instance.drop_database("first").expect("dropped");
}

#[test]
fn nothing_is_presumed_while_the_coordinator_may_be_asked_later() {
    let disk = in_doubt_without("first.mdf");
    let instance = open(&disk);
    instance.change_runtime(|runtime| runtime.in_doubt_resolution = InDoubtResolution::PresumeAbort);
    assert_eq!(number_of(instance.set_online("second")), number::DATABASE_INACCESSIBLE);
    disk.clear_faults();
    instance.set_online("first").expect("it can be read again");
    instance.set_online("second").expect("it asks");
    assert_eq!(have(&instance, &["second", "first"], 7), [true; 2]);
}

/// The remedy if the database that decided is lost for good.
#[test]
fn what_no_database_can_tell_is_presumed_as_the_option_says() {
    for (resolution, is_kept) in [(InDoubtResolution::PresumeCommit, true), (InDoubtResolution::PresumeAbort, false)] {
        let disk = in_doubt();
        disk.remove(&file("first.mdf")).expect("removed");
        disk.sync_directory(Path::new(FOLDER)).expect("synced");
        let instance = open(&disk);
        assert_eq!(number_of(instance.database("second")), number::DATABASE_INACCESSIBLE);
        instance.change_runtime(|runtime| runtime.in_doubt_resolution = resolution);
        let refused = instance.set_online("second").expect_err("first is listed").to_sql_error();
        assert!(refused.message.contains("drop it"), "{refused}");
        instance.drop_database("first").expect("dropped");
        instance.set_online("second").expect("it is presumed");
        assert_eq!(have(&instance, &["second"], 7), [is_kept]);
        instance.close().expect("closed");
        drop(instance);
        let instance = open(&disk);
        assert_eq!(have(&instance, &["second"], 7), [is_kept]);
    }
}
