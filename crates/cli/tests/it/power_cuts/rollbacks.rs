//! A rollback that begins during one checkpoint and lasts until the third, with a power failure somewhere in it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hobt::SqlError;
use hobt_base::SplitMix64;

use super::World;
use crate::client;

/// The initial number of rows. It is doubled if the rollback was too short for three checkpoints.
const ROWS: i64 = 1_200;
const ROWS_MAX: i64 = 38_400;

const CUTS: u64 = 4;

const SUMS: &str =
    "SELECT CONCAT(COUNT(*), ' ', SUM(CAST(id AS bigint)), ' ', SUM(v), ' ', SUM(LEN(s)), ' ', MAX(s)) FROM ";

/// Fills the tables and changes them in a transaction, which is left open. Returns their contents before it.
fn change(world: &World, session: &mut hobt::Session, rows: i64) -> Vec<Vec<Vec<String>>> {
    for (table, key) in [("tree", " PRIMARY KEY"), ("heap", "")] {
        client::ok(
            session,
            &format!(
                "DROP TABLE IF EXISTS {table}; \
                 CREATE TABLE {table} (id int NOT NULL{key}, v int NOT NULL, s varchar(300) NOT NULL); \
                 CREATE INDEX by_v ON {table} (v); \
                 INSERT {table} SELECT value, value % 100, REPLICATE('a', 150) FROM GENERATE_SERIES(1, {rows})"
            ),
        );
    }
    let before = ["tree", "heap"].map(|table| client::ok(session, &format!("{SUMS}{table}")));
    client::ok(session, "BEGIN TRANSACTION");
    for table in ["tree", "heap"] {
        client::ok(
            session,
            &format!(
                "UPDATE {table} SET v = -v - 1, s = REPLICATE('b', 200); DELETE {table} WHERE id % 4 = 0; \
                 INSERT {table} SELECT value + {rows}, -1, 'new' FROM GENERATE_SERIES(1, {rows})"
            ),
        );
    }
    drop(world.session());
    before.to_vec()
}

/// Runs checkpoints one after the other, until they are stopped or one fails. Returns that error. A separate page is
/// changed before each, so that every checkpoint has work to do.
fn checkpoints(world: &World, (begun, ended): (&AtomicU64, &AtomicU64), stop: &AtomicBool) -> Option<SqlError> {
    let (mut checkpointer, mut touch) = (world.session(), world.session());
    while !stop.load(Ordering::SeqCst) {
        if let Some(error) = client::answer(&mut touch, "UPDATE touched SET n = n + 1").1 {
            return Some(error);
        }
        begun.fetch_add(1, Ordering::SeqCst);
        let failed = client::answer(&mut checkpointer, "CHECKPOINT").1;
        ended.fetch_add(1, Ordering::SeqCst);
        if failed.is_some() {
            return failed;
        }
    }
    None
}

/// Rolls back during checkpoints, one after the other. If `cut` is given, the disk's power fails at that operation
/// after the beginning. Returns how many checkpoints ran during the rollback, and the number of operations. Nothing may
/// fail while there is power.
fn roll_back(world: &World, mut session: hobt::Session, cut: Option<(u64, u64)>) -> (u64, u64) {
    let (begun, ended, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let (checkpoint_failed, undone, counts) = std::thread::scope(|scope| {
        let checkpointer = scope.spawn(|| checkpoints(world, (&begun, &ended), &stop));
        // Begin in the middle of a checkpoint, as far as that can be observed.
        while begun.load(Ordering::SeqCst) == ended.load(Ordering::SeqCst) && !checkpointer.is_finished() {
            std::hint::spin_loop();
        }
        let (first, changes) = (begun.load(Ordering::SeqCst), world.disk.changes());
        if let Some((reach, seed)) = cut {
            world.disk.crash_at(changes + 1 + reach, seed);
        }
        let undone = client::answer(&mut session, "ROLLBACK").1;
        let under_way = begun.load(Ordering::SeqCst) - first + 1;
        let changes = world.disk.changes() - changes;
        // Assertions come after the scope, which would otherwise wait for the checkpoints.
        stop.store(true, Ordering::SeqCst);
        (checkpointer.join().expect("no panic"), undone, (under_way, changes))
    });
    let is_off = world.disk.is_off();
    assert!(undone.is_none() || is_off, "ROLLBACK: {undone:?}");
    assert!(checkpoint_failed.is_none() || is_off, "beside it: {checkpoint_failed:?}");
    counts
}

#[test]
fn a_rollback_over_three_checkpoints_leaves_nothing_of_its_transaction() {
    let mut world = World::new();
    client::ok(&mut world.session(), "CREATE TABLE touched (n int NOT NULL); INSERT touched VALUES (0)");
    let mut rows = ROWS;
    // The necessary length of a rollback is determined without a power cut.
    let operations = loop {
        let mut session = world.session();
        let before = change(&world, &mut session, rows);
        let (checkpoints, operations) = roll_back(&world, session, None);
        let mut session = world.session();
        let after = ["tree", "heap"].map(|table| client::ok(&mut session, &format!("{SUMS}{table}")));
        assert_eq!(after, *before);
        if checkpoints >= 3 {
            break operations;
        }
        rows *= 2;
        assert!(rows <= ROWS_MAX, "no rollback lasts for three checkpoints");
    };
    client::ok(&mut world.session(), "DBCC CHECKDB WITH NO_INFOMSGS");
    println!("{rows} rows, {operations} operations");
    let mut cut_off = 0;
    for seed in 1..=CUTS {
        let mut random = SplitMix64::new(seed);
        let mut session = world.session();
        let before = change(&world, &mut session, rows);
        let reach = random.below(operations);
        roll_back(&world, session, Some((reach, random.next_u64())));
        cut_off += u64::from(world.disk.is_off());
        world.lose_power(random.next_u64());
        let story = format!("seed {seed}, a cut behind {reach} of {operations} operations");
        world.start_again(&story);
        let mut session = world.session();
        for (table, before) in ["tree", "heap"].iter().zip(&before) {
            assert_eq!(client::ok(&mut session, &format!("{SUMS}{table}")), *before, "{story}: {table}");
            let of_index = format!("SELECT COUNT(*) FROM {table} WITH (INDEX (by_v)) WHERE v < 0");
            assert_eq!(client::number(&mut session, &of_index), 0, "{story}: {table}");
        }
    }
    assert!(cut_off > 0, "the power failed in no rollback");
}
