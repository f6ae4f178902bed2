//! A log without room: what is refused, and that everything begun can still be undone.

use std::path::Path;
use std::sync::Arc;

use hobt_base::{SessionId, SqlError, number};
use hobt_catalog::Growth;
use hobt_disk::{Disk, SimulatedDisk};
use hobt_engine::{
    ColumnDefinition, DataSpaceDefinition, DatabaseDefinition, DatabaseState, DatabaseUse, EngineError, FileDefinition,
    IndexDefinition, Instance, InstanceSettings, RowAt, RowUpdate, TableDefinition, TableWriter, WriteError,
};
use hobt_page::RowImage;
use hobt_txn::StatementContext;
use hobt_types::{MaxLength, SqlType};

use crate::fixture::{FOLDER, begin_as, open, run, simulated, small_file, table};

/// `CREATE TABLE dbo.<name> (id int NOT NULL, v varbinary(4000)); CREATE UNIQUE CLUSTERED INDEX c ON <name> (id)`.
pub(crate) fn tree_named(name: &str) -> TableDefinition {
    TableDefinition {
        schema: "dbo".to_owned(),
        name: name.to_owned(),
        columns: vec![
            ColumnDefinition::new("id", SqlType::Int, false),
            ColumnDefinition::new("v", SqlType::VarBinary(MaxLength::Limited(4000)), true),
        ],
        data_space: DataSpaceDefinition::Default,
        indexes: vec![IndexDefinition {
            name: Some("c".to_owned()),
            is_clustered: Some(true),
            columns: vec![("id".to_owned(), false)],
            included: Vec::new(),
            data_space: DataSpaceDefinition::Default,
            constraint: None,
            options: hobt_catalog::IndexOptions { is_unique: true, ..Default::default() },
            drops_existing: false,
        }],
    }
}

/// A database with two trees whose log has a fixed size of 8 MiB.
fn with_small_log(disk: &Arc<SimulatedDisk>) -> (Arc<Instance>, DatabaseUse) {
    with_log(disk, Growth::None)
}

/// Like [`with_small_log`], in an instance with these settings.
pub(crate) fn with_small_log_as(disk: &Arc<SimulatedDisk>, settings: InstanceSettings) -> (Arc<Instance>, DatabaseUse) {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    let instance = Instance::open_on(disk, Path::new(FOLDER), settings).expect("the instance opens");
    with_log_in(instance, Growth::None)
}

/// A database with two trees whose log begins with 8 MiB.
fn with_log(disk: &Arc<SimulatedDisk>, growth: Growth) -> (Arc<Instance>, DatabaseUse) {
    with_log_in(open(disk), growth)
}

fn with_log_in(instance: Arc<Instance>, growth: Growth) -> (Arc<Instance>, DatabaseUse) {
    let log = FileDefinition {
        name: Some("small".to_owned()),
        size_pages: Some(1024),
        growth: Some(growth),
        ..FileDefinition::default()
    };
    let definition = DatabaseDefinition {
        name: "d".to_owned(),
        primary: vec![small_file("d")],
        log: vec![log],
        ..DatabaseDefinition::default()
    };
    let database = instance.create_database(&definition).expect("made").database;
    for name in ["t", "filler"] {
        run(&instance, |ctx| database.create_table(ctx, &tree_named(name))).expect("made");
    }
    (instance, database)
}

pub(crate) fn image(id: i32, bytes: usize) -> RowImage {
    let (id, value) = (id.to_le_bytes(), vec![7; bytes]);
    RowImage::new([Some(&id[..]), Some(&value[..])])
}

pub(crate) fn writer(database: &DatabaseUse, name: &str) -> TableWriter {
    TableWriter::open(database, &database.snapshot(), table(database, name)).expect("its indexes")
}

fn storage(database: &DatabaseUse, error: WriteError) -> EngineError {
    match error {
        WriteError::Storage(error) => database.storage_error(error),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn insert(
    database: &DatabaseUse,
    ctx: &StatementContext,
    name: &str,
    id: i32,
    bytes: usize,
) -> Result<(), EngineError> {
    let inserted = writer(database, name).insert(ctx, 0, &image(id, bytes));
    inserted.map(drop).map_err(|error| storage(database, error))
}

/// The locations of all rows, and their lengths in bytes.
pub(crate) fn places(database: &DatabaseUse, name: &str) -> Vec<(RowAt, usize)> {
    let mut places = Vec::new();
    let read = writer(database, name).for_each_row(0, &mut |at, row| {
        places.push((at.clone(), row.value(1).map_or(0, <[u8]>::len)));
        true
    });
    read.expect("readable");
    places
}

/// Rows of a tree get shorter, other rows take their room, and another transaction fills the log. There is still room
/// to restore the rows, for which nearly every leaf has to be split.
#[test]
fn rows_that_got_shorter_are_undone_although_the_log_is_full() {
    let disk = simulated();
    let (instance, database) = with_small_log(&disk);
    // Full leaves, in the order of their keys, with gaps between these.
    for id in 0..20 {
        run(&instance, |ctx| insert(&database, ctx, "t", id * 100, 1900)).expect("inserted");
    }
    instance.checkpoint().expect("a checkpoint");
    let before = places(&database, "t");
    let shorter = begin_as(&instance, SessionId(51), Arc::default());
    let updates: Vec<RowUpdate> = before
        .iter()
        .zip(0..)
        .map(|((at, _), id)| RowUpdate { at: at.clone(), partition: 0, row: image(id * 100, 10) })
        .collect();
    let updated = writer(&database, "t").update(&shorter, &updates, &mut || false);
    updated.expect("there is room in the log for this and for its undo");
    for id in 0..20 {
        for more in 1..4 {
            run(&instance, |ctx| insert(&database, ctx, "t", id * 100 + more, 600)).expect("inserted");
        }
    }
    // Other transactions can reserve as long as the log has room.
    let filler = begin_as(&instance, SessionId(52), Arc::default());
    for (first, bytes) in [(0, 3000), (1_000_000, 1)] {
        let full = (first..first + 100_000).find_map(|id| insert(&database, &filler, "filler", id, bytes).err());
        assert_eq!(full.expect("8 MiB are full").to_sql_error().number, number::LOG_FULL);
    }
    instance.end_statement(&shorter, false, &[&database]).expect("undone");
    assert_eq!(database.state(), DatabaseState::Online);
    instance.end_statement(&filler, false, &[&database]).expect("undone");
    assert_eq!(database.state(), DatabaseState::Online);
    let sizes: Vec<usize> = places(&database, "t").into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(sizes.iter().filter(|bytes| **bytes == 1900).count(), 20, "{sizes:?}");
    assert_eq!(sizes.len(), 20 * 4);
    // The log accepts records again once its beginning is not needed any more.
    instance.checkpoint().expect("a checkpoint");
    run(&instance, |ctx| insert(&database, ctx, "t", 7, 100)).expect("inserted");
    drop(database);
    instance.close().expect("closed");
}

/// One statement alone needs more room for its undo than the log has: no other transaction holds segments, and a
/// checkpoint does not help.
#[test]
fn a_statement_that_fills_the_log_by_itself_is_told_that_a_transaction_does() {
    let disk = simulated();
    let (instance, database) = with_small_log(&disk);
    for id in 0..600 {
        run(&instance, |ctx| insert(&database, ctx, "t", id, 1900)).expect("inserted");
        if id % 100 == 99 {
            instance.checkpoint().expect("a checkpoint");
        }
    }
    let updates: Vec<RowUpdate> = places(&database, "t")
        .into_iter()
        .zip(0..)
        .map(|((at, _), id)| RowUpdate { at, partition: 0, row: image(id, 10) })
        .collect();
    let updated = run(&instance, |ctx| {
        let updated = writer(&database, "t").update(ctx, &updates, &mut || false);
        updated.map(drop).map_err(|error| storage(&database, error))
    });
    let error = updated.expect_err("its undo may split each leaf").to_sql_error();
    assert_eq!(error.number, number::LOG_FULL);
    assert!(
        error.message.contains("'ACTIVE_TRANSACTION'") && error.message.contains("fewer rows"),
        "{}",
        error.message
    );
    assert!(places(&database, "t").iter().all(|(_, bytes)| *bytes == 1900));
    drop(database);
    instance.close().expect("closed");
}

/// Hundreds of transactions of one row each, and one that takes the rest of the log. Then all but that one commit, one
/// after the other, with a checkpoint in between that the log did not ask for, and the power fails.
#[test]
fn hundreds_of_transactions_end_in_a_full_log_and_recovery_has_room() {
    for ends_before_crash in [true, false] {
        let disk = simulated();
        let (instance, database) = with_small_log(&disk);
        // The record that ends each of them, and an image for its undo after a checkpoint, are reserved.
        let mut open_ones = Vec::new();
        for session in 0..2000 {
            let ctx = begin_as(&instance, SessionId(100 + session), Arc::default());
            let done = insert(&database, &ctx, "t", session, 10);
            if let Err(error) = done {
                assert_eq!(error.to_sql_error().number, number::LOG_FULL);
                instance.end_statement(&ctx, false, &[&database]).expect("it ends");
                break;
            }
            open_ones.push(ctx);
        }
        let count = open_ones.len();
        assert!((200..2000).contains(&count), "{count} transactions");
        instance.end_statement(&open_ones.pop().expect("some"), false, &[&database]).expect("undone");
        let filler = begin_as(&instance, SessionId(52), Arc::default());
        for (first, bytes) in [(0, 3000), (1_000_000, 1)] {
            let full = (first..first + 100_000).find_map(|id| insert(&database, &filler, "filler", id, bytes).err());
            assert_eq!(full.expect("8 MiB are full").to_sql_error().number, number::LOG_FULL);
        }
        // The checkpoint frees nothing, but it works.
        instance.checkpoint().expect("a checkpoint in a full log");
        assert_eq!(database.state(), DatabaseState::Online);
        if ends_before_crash {
            for (place, ctx) in open_ones.drain(..).enumerate() {
                instance.end_statement(&ctx, place % 3 != 0, &[&database]).expect("it ends");
            }
            assert_eq!(database.state(), DatabaseState::Online);
        }
        disk.crash(9);
        std::mem::forget((open_ones, filler));
        drop((database, instance));
        let instance = open(&disk);
        let database = instance.database("d").expect("recovery has room");
        assert_eq!(places(&database, "filler").len(), 0);
        let committed = (0..count - 1).filter(|place| place % 3 != 0).count();
        assert_eq!(places(&database, "t").len(), if ends_before_crash { committed } else { 0 });
        let more =
            FileDefinition { name: Some("more".to_owned()), size_pages: Some(1024), ..FileDefinition::default() };
        instance.add_log_files(&database, &[more]).expect("added");
        run(&instance, |ctx| insert(&database, ctx, "t", 5000, 100)).expect("inserted");
        drop(database);
        instance.close().expect("closed");
    }
}

/// Commits rows of `bytes` bytes one by one, and calls `committed` with their number so far. Returns that number and
/// the error of the first row that is refused.
fn commit_until_refused(
    (instance, database): (&Instance, &DatabaseUse),
    bytes: usize,
    committed: impl Fn(usize),
) -> (usize, SqlError) {
    for id in 0..100_000 {
        let ctx = begin_as(instance, SessionId(53), Arc::default());
        let done = insert(database, &ctx, "t", id, bytes);
        instance.end_statement(&ctx, done.is_ok(), &[database]).expect("it ends");
        if let Err(error) = done {
            return (id as usize, error.to_sql_error());
        }
        committed(id as usize + 1);
    }
    panic!("a log that does not grow is full some time");
}

/// Single rows commit while a transaction prevents the log from being freed, up to the last that has room. The
/// automatic checkpoints do not make the database SUSPECT.
#[test]
fn checkpoints_in_a_log_that_is_nearly_full_leave_the_database_online() {
    let disk = simulated();
    let (instance, database) = with_small_log(&disk);
    let filler = begin_as(&instance, SessionId(52), Arc::default());
    for id in 0..1200 {
        insert(&database, &filler, "filler", id, 1).expect("there is room");
    }
    let (_, refused) = commit_until_refused((&instance, &database), 10, |committed| {
        if committed % 10 == 0 {
            instance.checkpoint().expect("as the one that begins by itself");
        }
    });
    assert_eq!(refused.number, number::LOG_FULL);
    for _ in 0..50 {
        // As often as an operator may try.
        if let Err(error) = instance.checkpoint() {
            assert_eq!(error.to_sql_error().number, number::LOG_FULL);
        }
    }
    assert_eq!(database.state(), DatabaseState::Online);
    instance.end_statement(&filler, false, &[&database]).expect("undone");
    instance.checkpoint().expect("a checkpoint");
    run(&instance, |ctx| insert(&database, ctx, "t", 1 << 20, 100)).expect("the log takes something again");
    drop(filler);
    drop(database);
    instance.close().expect("closed");
}

/// A log that may grow finds no room on the disk, while a transaction prevents it from being freed. The next row is
/// refused, the database stays as it is, and a start finds what had committed.
#[test]
fn a_log_that_cannot_grow_on_a_full_disk_refuses_what_is_new_and_nothing_else() {
    let disk = simulated();
    let (instance, database) = with_log(&disk, Growth::Pages(128));
    run(&instance, |ctx| insert(&database, ctx, "t", -1, 10)).expect("there is room");
    let filler = begin_as(&instance, SessionId(52), Arc::default());
    insert(&database, &filler, "filler", 0, 1).expect("there is room");
    // It grows once, and then not again.
    disk.leave_free(Some(1 << 20));
    let (committed, refused) = commit_until_refused((&instance, &database), 3000, |_| {});
    assert!([number::LOG_FULL, number::FILEGROUP_FULL].contains(&refused.number), "{refused}");
    assert_eq!(database.state(), DatabaseState::Online);
    instance.end_statement(&filler, false, &[&database]).expect("undone");
    disk.crash(11);
    drop((filler, database, instance));
    disk.leave_free(None);
    let instance = open(&disk);
    let database = instance.database("d").expect("it is recovered");
    assert_eq!(places(&database, "t").len(), committed + 1);
    assert_eq!(places(&database, "filler").len(), 0);
}
