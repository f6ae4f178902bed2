//! A filegroup without room: what is refused, and that what was begun can still be undone.

use std::sync::Arc;

use hobt_base::{SessionId, number};
use hobt_catalog::Growth;
use hobt_disk::{SimulatedConfig, SimulatedDisk};
use hobt_engine::{DatabaseDefinition, DatabaseState, DatabaseUse, FileDefinition, Instance, RowUpdate};
use hobt_txn::StatementContext;

use crate::fixture::{begin_as, check_extents, open, run, simulated, small_file};
use crate::log_full::{image, insert, places, tree_named, writer};

const ROWS: i32 = 60;

/// A database of two trees, of which `t` has full leaves with gaps between their keys.
fn with_full_leaves(disk: &Arc<SimulatedDisk>, growth: Growth, log_pages: u32) -> (Arc<Instance>, DatabaseUse) {
    let instance = open(disk);
    let log = FileDefinition {
        name: Some("log".to_owned()),
        size_pages: Some(log_pages),
        growth: Some(Growth::None),
        ..FileDefinition::default()
    };
    let definition = DatabaseDefinition {
        name: "d".to_owned(),
        primary: vec![FileDefinition { growth: Some(growth), ..small_file("d") }],
        log: vec![log],
        ..DatabaseDefinition::default()
    };
    let database = instance.create_database(&definition).expect("made").database;
    for name in ["t", "filler"] {
        run(&instance, |ctx| database.create_table(ctx, &tree_named(name))).expect("made");
    }
    for id in 0..ROWS {
        run(&instance, |ctx| insert(&database, ctx, "t", id * 100, 1900)).expect("inserted");
    }
    instance.checkpoint().expect("a checkpoint");
    (instance, database)
}

/// A statement that has made all rows of `t` shorter, whose room other statements have taken.
fn shortened(instance: &Instance, database: &DatabaseUse) -> Arc<StatementContext> {
    let shorter = begin_as(instance, SessionId(51), Arc::default());
    let updates: Vec<RowUpdate> = places(database, "t")
        .into_iter()
        .zip(0..)
        .map(|((at, _), id)| RowUpdate { at, partition: 0, row: image(id * 100, 10) })
        .collect();
    writer(database, "t").update(&shorter, &updates, &mut || false).expect("shorter rows have room");
    for id in 0..ROWS {
        for more in 1..4 {
            run(instance, |ctx| insert(database, ctx, "t", id * 100 + more, 600)).expect("inserted");
        }
    }
    shorter
}

/// Inserts rows from a key on until there is no room; returns the error's number.
fn fill(database: &DatabaseUse, filler: &StatementContext, from: i32) -> i32 {
    let mut errors = [(from, 3000), (from + 1_000_000, 1)].into_iter().map(|(first, bytes)| {
        let full = (first..first + 100_000).find_map(|id| insert(database, filler, "filler", id, bytes).err());
        full.expect("the files are small").to_sql_error().number
    });
    let first = errors.next();
    assert_eq!(first, errors.next());
    first.expect("two tries")
}

fn file_pages(database: &DatabaseUse) -> u32 {
    database.storage().files().iter().map(|file| file.size_pages()).sum()
}

fn is_as_it_was(database: &DatabaseUse) {
    assert_eq!(database.state(), DatabaseState::Online);
    let sizes: Vec<usize> = places(database, "t").into_iter().map(|(_, bytes)| bytes).collect();
    let rows = usize::try_from(ROWS).expect("a few");
    assert_eq!(sizes.iter().filter(|bytes| **bytes == 1900).count(), rows, "{sizes:?}");
    assert_eq!(sizes.len(), rows * 4);
    check_extents(database);
}

/// The rows get their old values back, although the filegroup is full and its file may not grow. For this purpose alone
/// it does grow.
#[test]
fn rows_that_got_shorter_are_undone_although_the_filegroup_is_full() {
    let disk = simulated();
    let (instance, database) = with_full_leaves(&disk, Growth::None, 8192);
    let shorter = shortened(&instance, &database);
    let filler = begin_as(&instance, SessionId(52), Arc::default());
    assert_eq!(fill(&database, &filler, 0), number::FILEGROUP_FULL);
    let before = file_pages(&database);
    instance.end_statement(&shorter, false, &[&database]).expect("undone");
    assert!(file_pages(&database) > before, "no room was left in the file");
    is_as_it_was(&database);
    assert_eq!(fill(&database, &filler, 2_000_000), number::FILEGROUP_FULL, "it grows for nothing else");
    instance.end_statement(&filler, true, &[&database]).expect("committed");
    drop(database);
    instance.close().expect("closed");
    let instance = open(&disk);
    is_as_it_was(&instance.database("d").expect("it is found"));
    instance.close().expect("closed");
}

/// As [`rows_that_got_shorter_are_undone_although_the_filegroup_is_full`], but the file may grow, which is logged, and
/// the log is full.
#[test]
fn rows_that_got_shorter_are_undone_although_a_file_has_to_grow_and_the_log_is_full() {
    let disk = simulated();
    let (instance, database) = with_full_leaves(&disk, Growth::Pages(8), 2048);
    let shorter = shortened(&instance, &database);
    let filler = begin_as(&instance, SessionId(52), Arc::default());
    assert_eq!(fill(&database, &filler, 0), number::LOG_FULL);
    let before = file_pages(&database);
    instance.end_statement(&shorter, false, &[&database]).expect("undone");
    assert!(file_pages(&database) > before, "no room was left in the file");
    is_as_it_was(&database);
    instance.end_statement(&filler, false, &[&database]).expect("undone");
    drop(database);
    instance.close().expect("closed");
}

/// Freed room that no statement has taken needs no reservation in the log: a small log is enough to make many rows
/// shorter.
#[test]
fn rows_get_shorter_in_a_log_that_could_not_hold_the_splits_of_all_their_leaves() {
    let disk = simulated();
    let (instance, database) = with_full_leaves(&disk, Growth::Pages(8), 256);
    let shorter = begin_as(&instance, SessionId(51), Arc::default());
    let all = places(&database, "t").into_iter().zip(0..);
    let updates: Vec<RowUpdate> =
        all.map(|((at, _), id)| RowUpdate { at, partition: 0, row: image(id * 100, 10) }).collect();
    writer(&database, "t").update(&shorter, &updates, &mut || false).expect("the log has room for what is written");
    // A statement that takes it needs room for the splits.
    let refused = (0..ROWS).find_map(|id| {
        (1..4).find_map(|more| {
            let ctx = begin_as(&instance, SessionId(52), Arc::default());
            let done = insert(&database, &ctx, "t", id * 100 + more, 600);
            instance.end_statement(&ctx, done.is_ok(), &[&database]).expect("ended");
            done.err()
        })
    });
    assert_eq!(refused.expect("the log is small").to_sql_error().number, number::LOG_FULL);
    instance.end_statement(&shorter, false, &[&database]).expect("undone");
    let sizes: Vec<usize> = places(&database, "t").into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(sizes.iter().filter(|bytes| **bytes == 1900).count(), usize::try_from(ROWS).expect("a few"));
    assert_eq!(database.state(), DatabaseState::Online);
    check_extents(&database);
    drop(database);
    instance.close().expect("closed");
}

/// A growth step of 64 MiB does not fit the disk: what the disk has left is used before the filegroup is full.
#[test]
fn a_file_grows_by_what_the_disk_has_where_that_is_less_than_its_step() {
    const CAPACITY: u64 = 64 << 20;
    let config = SimulatedConfig { capacity_bytes: CAPACITY, ..SimulatedConfig::default() };
    let disk = SimulatedDisk::start(config).expect("a disk in memory");
    let (instance, database) = with_full_leaves(&disk, Growth::Pages(8192), 2048);
    let before = file_pages(&database);
    let mut from = 0;
    let refused = loop {
        let filler = begin_as(&instance, SessionId(52), Arc::default());
        let failed = (from..from + 200).find_map(|id| insert(&database, &filler, "filler", id, 3000).err());
        instance.end_statement(&filler, failed.is_none(), &[&database]).expect("ended");
        instance.checkpoint().expect("a checkpoint");
        match failed {
            Some(error) => break error.to_sql_error().number,
            None => from += 200,
        }
    };
    assert_eq!(refused, number::FILEGROUP_FULL);
    let grown = u64::from(file_pages(&database) - before) * hobt_base::PAGE_SIZE as u64;
    assert!(grown > CAPACITY / 4, "it grew by {grown} bytes");
    check_extents(&database);
    drop(database);
    instance.close().expect("closed");
}
