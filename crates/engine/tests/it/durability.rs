//! Commits that return before they are durable.

use std::path::Path;
use std::sync::Arc;

use hobt_base::{SessionId, number};
use hobt_disk::{Disk, SimulatedDisk};
use hobt_engine::{Database, DatabaseUse, DelayedDurability, Instance, InstanceSettings, RecoveryModel};

use crate::fixture::{
    FOLDER, check_extents, create, insert, number_of, open, row, rows, run, settings, simulated, table, table_named,
};

/// An instance in which nothing happens by itself.
fn open_by_hand(disk: &Arc<SimulatedDisk>) -> Arc<Instance> {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    let settings = InstanceSettings { checkpoints_by_hand: true, ..settings() };
    Instance::open_on(disk, Path::new(FOLDER), settings).expect("the instance opens")
}

fn with_table(instance: &Instance, name: &str, delays: DelayedDurability) -> DatabaseUse {
    let database = create(instance, name);
    instance.set_options(&database, |options| options.delayed_durability = delays).expect("set");
    run(instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    database.flush_log().expect("durable");
    database
}

/// Inserts a row in a transaction that asks for its durability to be delayed, or does not.
fn commit(instance: &Instance, databases: &[&Arc<Database>], id: i64, asks: bool) {
    let transaction = instance.begin_transaction(SessionId(51)).expect("open");
    for database in databases {
        let ctx = instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
        insert(database, &ctx, &table(database, "t"), 0, std::iter::once(row(id))).expect("inserted");
        instance.end_statement(&ctx, true, &[database]).expect("ended");
    }
    if asks {
        transaction.delay_durability();
    }
    let databases: Vec<&Database> = databases.iter().map(|database| &***database).collect();
    instance.end_transaction(&transaction, true, &databases).expect("committed");
}

/// Cuts the power and reads how many of the rows 0, 1, 2, … are there.
fn rows_after_crash(disk: &Arc<SimulatedDisk>, instance: Arc<Instance>, name: &str, seed: u64) -> usize {
    disk.crash(seed);
    drop(instance);
    disk.power_on();
    let instance = open_by_hand(disk);
    let database = instance.database(name).expect("recovered");
    check_extents(&database);
    let found = rows(&database, &table(&database, "t")).expect("rows");
    let expected: Vec<_> = (0..).map(row).take(found.len()).collect();
    assert_eq!(found, expected, "seed {seed}: what is lost is the end");
    found.len()
}

fn flushes(database: &Database) -> u64 {
    database.storage().log().expect("a log").log().statistics().flushes
}

#[test]
fn what_was_acknowledged_and_not_flushed_is_lost_from_its_end_alone() {
    let mut lost = 0;
    for seed in 0..12 {
        let disk = simulated();
        let instance = open_by_hand(&disk);
        let database = with_table(&instance, "lazy", DelayedDurability::Forced);
        let before = flushes(&database);
        for id in 0..10 {
            commit(&instance, &[&database], id, false);
        }
        assert_eq!(flushes(&database), before, "nobody waited for a flush");
        if seed % 3 == 0 {
            database.flush_log().expect("flushed");
        }
        for id in 10..15 {
            commit(&instance, &[&database], id, false);
        }
        if seed % 3 == 1 {
            // Pages must not be ahead of the log.
            database.storage().flush().expect("written");
        }
        drop(database);
        let found = rows_after_crash(&disk, instance, "lazy", seed);
        assert!(seed % 3 != 0 || found >= 10, "seed {seed}: {found}");
        lost += 15 - found;
    }
    assert!(lost > 0, "a crash does lose some of them");
}

#[test]
fn a_commit_that_waits_makes_those_before_it_durable() {
    for (delays, asks) in [(DelayedDurability::Allowed, false), (DelayedDurability::Disabled, true)] {
        let disk = simulated();
        let instance = open_by_hand(&disk);
        let database = with_table(&instance, "lazy", delays);
        for id in 0..5 {
            commit(&instance, &[&database], id, true);
        }
        commit(&instance, &[&database], 5, asks);
        drop(database);
        assert_eq!(rows_after_crash(&disk, instance, "lazy", 1), 6);
    }
}

#[test]
fn a_transaction_over_several_databases_is_never_delayed() {
    let disk = simulated();
    let instance = open_by_hand(&disk);
    let one = with_table(&instance, "one", DelayedDurability::Forced);
    let other = with_table(&instance, "other", DelayedDurability::Forced);
    commit(&instance, &[&one], 0, true);
    commit(&instance, &[&one, &other], 1, true);
    drop((one, other));
    assert_eq!(rows_after_crash(&disk, instance, "one", 5), 2);
}

#[test]
fn delayed_commits_are_flushed_when_there_is_much_of_them() {
    let disk = simulated();
    let instance = open_by_hand(&disk);
    let database = with_table(&instance, "lazy", DelayedDurability::Forced);
    let log = Arc::clone(database.storage().log().expect("a log").log());
    let before = flushes(&database);
    for id in 0..1500 {
        commit(&instance, &[&database], id, false);
        let waiting = log.end().0 - log.durable().0;
        assert!(waiting < 80 << 10, "{waiting} bytes wait");
    }
    let flushed = flushes(&database) - before;
    assert!((1..150).contains(&flushed), "{flushed} flushes of 1500 commits");
}

#[test]
fn a_delayed_commit_is_flushed_in_the_background() {
    let disk = simulated();
    let instance = open(&disk);
    let database = with_table(&instance, "lazy", DelayedDurability::Forced);
    let log = Arc::clone(database.storage().log().expect("a log").log());
    for id in 0..3 {
        commit(&instance, &[&database], id, false);
        while log.durable() < log.end() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn options_outlive_restarts_and_crashes_and_are_listed_without_opening() {
    let disk = simulated();
    let instance = open_by_hand(&disk);
    let database = create(&instance, "shop");
    let set = instance.set_options(&database, |options| {
        options.delayed_durability = DelayedDurability::Allowed;
        options.recovery_model = RecoveryModel::BulkLogged;
    });
    set.expect("set");
    let expected = database.options();
    drop(database);
    disk.crash(2);
    drop(instance);
    for _ in 0..2 {
        let instance = open_by_hand(&disk);
        let listed = instance.databases().into_iter().find(|listed| listed.name == "shop").expect("listed");
        assert_eq!(listed.options, expected);
        assert_eq!(instance.database("shop").expect("it").options(), expected);
        instance.close().expect("closed");
    }
    let instance = open_by_hand(&disk);
    let master = instance.master().expect("master");
    let refused = instance.set_options(&master, |options| options.recovery_model = RecoveryModel::Full);
    assert_eq!(number_of(refused), number::OPTION_OF_DATABASE);
}
