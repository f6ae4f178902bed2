//! Where recovery begins to read: at the last checkpoint, wherever open transactions began. A checkpoint may lie in the
//! middle of a transaction, of a rollback, or of an undo behind the opening, and a crash in the middle of a checkpoint.
//!
//! A debug build compares what recovery knows of each transaction with what all records of that say, wherever a test
//! recovers.

use std::sync::Arc;

use hobt_base::{SessionId, SplitMix64};
use hobt_engine::{DatabaseUse, Instance, InstanceSettings};
use hobt_log::RecoveryStart;
use hobt_txn::Transaction;

use crate::fixture::{run, table_named, unlocked};
use crate::undo_behind::{
    assert_whole, by_hand, change, changed, contents, crash, indexed, insert, open_with, restart, undo_some, world,
};

fn start_of(database: &DatabaseUse) -> RecoveryStart {
    database.storage().log().expect("a log").log().recovery_start().expect("open")
}

/// Whether recovery would read nothing before the last checkpoint, though an older transaction is open.
fn begins_at_checkpoint(database: &DatabaseUse) -> bool {
    let start = start_of(database);
    start.read_from == start.redo && start.keep < start.redo
}

/// A statement of an open transaction.
fn statement(
    instance: &Instance,
    database: &DatabaseUse,
    transaction: &Arc<Transaction>,
    work: impl FnOnce(&hobt_txn::StatementContext),
) {
    let ctx = instance.statement_of(transaction, SessionId(51), 1, Arc::default());
    work(&ctx);
    instance.end_statement(&ctx, true, &[database]).expect("the statement ends");
}

/// A checkpoint at any place of a transaction: before its changes, between them, in the middle of a rollback to a
/// savepoint and behind it. Recovery begins there, and undoes all.
#[test]
fn a_transaction_that_is_older_than_the_checkpoint_is_undone_whole() {
    for behind in [true, false] {
        for place in 0..5 {
            let (disk, instance, database) = world();
            let before = changed(&database);
            let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
            let checkpoint = |at: u32| {
                if at <= place {
                    database.checkpoint().expect("saved");
                    assert!(at == 0 || begins_at_checkpoint(&database), "{place}: {:?}", start_of(&database));
                }
            };
            checkpoint(0);
            statement(&instance, &database, &transaction, |ctx| change(&database, ctx, "heap"));
            checkpoint(1);
            let savepoint = transaction.set_savepoint();
            statement(&instance, &database, &transaction, |ctx| change(&database, ctx, "tree"));
            checkpoint(2);
            instance.roll_back_to(&transaction, &savepoint, &[&database]).expect("undone");
            checkpoint(3);
            statement(&instance, &database, &transaction, |ctx| insert(&database, ctx, "tree", 5000..5300));
            checkpoint(4);
            crash(&disk, instance, database, vec![transaction]);
            let from = if behind { 0 } else { u64::MAX };
            let instance = open_with(&disk, InstanceSettings { undo_behind_from_bytes: Some(from), ..by_hand() });
            let database = instance.database("d").expect("it opens");
            assert_eq!(database.transactions_undone().len(), usize::from(behind), "{place}");
            assert!(!behind || begins_at_checkpoint(&database), "the opening's own checkpoint");
            database.wait_for_undo().expect("undone");
            assert_eq!(changed(&database), before, "{place}");
            assert_whole(&database);
        }
    }
}

/// What is reserved for an undo behind the opening covers it, wherever the last checkpoint was, and does not grow with
/// the number of openings.
#[test]
fn the_room_of_an_undo_is_as_the_checkpoint_wrote_it_down() {
    let reserved = |database: &DatabaseUse| database.storage().log().expect("a log").open_chains()[0].reserved_bytes;
    let mut first = None;
    for checkpoints in [false, true] {
        let (disk, instance, database) = world();
        let before = changed(&database);
        let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
        statement(&instance, &database, &transaction, |ctx| change(&database, ctx, "heap"));
        statement(&instance, &database, &transaction, |ctx| change(&database, ctx, "tree"));
        if checkpoints {
            database.checkpoint().expect("saved");
        }
        let running = reserved(&database);
        crash(&disk, instance, database, vec![transaction]);
        let mut last = u64::MAX;
        loop {
            let (instance, database) = restart(&disk);
            if database.transactions_undone().is_empty() {
                assert_eq!(changed(&database), before);
                break;
            }
            let now = reserved(&database);
            if last == u64::MAX {
                // What a running transaction has reserved, and a little that is added once.
                assert!(now <= running + (1 << 20), "{now} after {running}");
                let first = *first.get_or_insert(now);
                assert!(now >= first / 2, "{now} of {first}");
            }
            assert!(now <= last.saturating_add(1 << 18), "{now} after {last}");
            last = now;
            undo_some(&database, 400);
            crash(&disk, instance, database, Vec::new());
        }
    }
}

/// The power fails at any write of a checkpoint: recovery begins at this one or at the one before.
#[test]
fn a_power_failure_at_any_write_of_a_checkpoint_leaves_one_to_begin_at() {
    let mut ends = [0, 0];
    for cut in 1.. {
        let (disk, instance, database) = world();
        let before = changed(&database);
        let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
        statement(&instance, &database, &transaction, |ctx| change(&database, ctx, "heap"));
        database.checkpoint().expect("saved");
        statement(&instance, &database, &transaction, |ctx| change(&database, ctx, "tree"));
        database.flush_log().expect("durable");
        let earlier = start_of(&database);
        disk.crash_at(disk.changes() + cut, cut);
        let is_saved = database.checkpoint().is_ok();
        disk.crash(cut);
        drop((transaction, database, instance));
        disk.power_on();
        let instance = open_with(&disk, InstanceSettings { undo_behind_from_bytes: Some(u64::MAX), ..by_hand() });
        let database = instance.database("d").expect("it opens");
        assert_eq!(changed(&database), before, "{cut}");
        assert_whole(&database);
        assert!(start_of(&database).redo > earlier.redo);
        ends[usize::from(is_saved)] += 1;
        if is_saved {
            break;
        }
    }
    assert!(ends[0] > 10, "{ends:?}");
}

/// A world of transactions with changes of rows and of definitions, savepoints and rollbacks, and checkpoints at any
/// place, one of which a crash may cut off. Committed is what was committed, and nothing else.
#[test]
fn checkpoints_at_any_place_leave_to_recovery_what_it_has_to_know() {
    let mut read_from_checkpoint = 0;
    for seed in 0..60 {
        read_from_checkpoint += u32::from(random_world(seed));
    }
    assert!(read_from_checkpoint > 20, "{read_from_checkpoint}");
}

/// Returns whether recovery began at a checkpoint that is younger than an open transaction.
fn random_world(seed: u64) -> bool {
    let mut random = SplitMix64::new(seed);
    let (disk, instance, database) = world();
    let names = ["heap", "tree", "other"];
    let before = names.map(|name| contents(&database, name));
    let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
    let (mut savepoint, mut changed) = (None, Vec::new());
    for step in 0..12 {
        let ids = 10_000 + step * 1000;
        let name = names[random.below(3) as usize];
        match random.below(8) {
            0 | 1 => database.checkpoint().expect("saved"),
            2 => statement(&instance, &database, &transaction, |ctx| insert(&database, ctx, name, ids..ids + 150)),
            3 if !changed.contains(&name) => {
                changed.push(name);
                statement(&instance, &database, &transaction, |ctx| change(&database, ctx, name));
            }
            4 => savepoint = Some(transaction.set_savepoint()),
            5 => {
                if let Some(place) = savepoint.take() {
                    instance.roll_back_to(&transaction, &place, &[&database]).expect("undone");
                }
            }
            6 if seed.is_multiple_of(2) => {
                statement(&instance, &database, &transaction, |ctx| {
                    database.create_table(ctx, &indexed(&format!("made{step}"), true)).expect("made");
                });
            }
            _ => {
                // Another transaction, which commits.
                run(&instance, |ctx| database.create_table(ctx, &table_named(&format!("kept{step}")))).expect("made");
                run(&instance, |ctx| {
                    insert(&database, ctx, &format!("kept{step}"), 0..50);
                    Ok(())
                })
                .expect("inserted");
                if random.below(2) == 0 {
                    let name = format!("kept{step}");
                    run(&instance, |ctx| database.drop_table(ctx, "dbo", &name, &mut unlocked)).expect("dropped");
                }
            }
        }
    }
    let begins = begins_at_checkpoint(&database);
    database.flush_log().expect("durable");
    if random.below(2) == 0 {
        disk.crash_at(disk.changes() + random.below(60), seed);
        let _cut = database.checkpoint();
    }
    disk.crash(seed);
    drop((transaction, database, instance));
    disk.power_on();
    let (_instance, database) = restart(&disk);
    database.wait_for_undo().expect("undone");
    assert_eq!(names.map(|name| contents(&database, name)), before, "{seed}");
    let tables = database.snapshot().tables.values().filter(|table| table.name.starts_with("made")).count();
    assert_eq!(tables, 0, "{seed}");
    assert_whole(&database);
    begins
}

/// A log that is long enough for several workers: each page is what it was, whatever was changed in which order.
#[test]
fn a_long_log_is_redone_by_several_workers_as_by_one() {
    let (disk, instance, database) = world();
    let mut random = SplitMix64::new(7);
    let redo_bytes = |database: &DatabaseUse| {
        let log = database.storage().log().expect("a log").log();
        log.end().0 - start_of(database).redo.0
    };
    let mut ids = 10_000;
    while redo_bytes(&database) < 9 << 20 {
        for name in ["heap", "tree", "other"] {
            run(&instance, |ctx| {
                insert(&database, ctx, name, ids..ids + 400);
                Ok(())
            })
            .expect("inserted");
            ids += 400;
        }
        if random.below(4) == 0 {
            // Structure: pages that split, and runs that are given back.
            let name = format!("t{ids}");
            run(&instance, |ctx| database.create_table(ctx, &indexed(&name, true))).expect("made");
            run(&instance, |ctx| {
                insert(&database, ctx, &name, 0..200);
                Ok(())
            })
            .expect("inserted");
            if random.below(2) == 0 {
                run(&instance, |ctx| database.drop_table(ctx, "dbo", &name, &mut unlocked)).expect("dropped");
            }
        }
    }
    let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
    let before = ["heap", "tree", "other"].map(|name| contents(&database, name));
    statement(&instance, &database, &transaction, |ctx| change(&database, ctx, "tree"));
    crash(&disk, instance, database, vec![transaction]);
    let (_instance, database) = restart(&disk);
    database.wait_for_undo().expect("undone");
    assert_eq!(["heap", "tree", "other"].map(|name| contents(&database, name)), before);
    assert_whole(&database);
}
