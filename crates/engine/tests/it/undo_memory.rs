//! Transactions of many rows: their versions are in memory, which is limited. Their undo is in the log.

use std::path::Path;
use std::sync::Arc;

use hobt_base::{PageId, SessionId, number};
use hobt_disk::Disk;
use hobt_engine::{
    DatabaseState, DatabaseUse, EngineError, Instance, InstanceSettings, RowAt, TableWriter, WriteError,
};
use hobt_page::RowImage;
use hobt_txn::StatementContext;

use crate::fixture::{FOLDER, check_extents, create, run, simulated, table, table_named};
use crate::log_full::tree_named;

fn insert(writer: &TableWriter, ctx: &StatementContext, id: i32) -> Result<(), WriteError> {
    let id = id.to_le_bytes();
    let columns = writer.table().columns.len();
    let values = std::iter::once(Some(&id[..])).chain(std::iter::repeat_n(None, columns - 1));
    writer.insert(ctx, 0, &RowImage::new(values)).map(drop)
}

fn writer(database: &DatabaseUse, name: &str) -> TableWriter {
    TableWriter::open(database, &database.snapshot(), table(database, name)).expect("its indexes")
}

fn sql_number(database: &DatabaseUse, error: WriteError) -> i32 {
    let WriteError::Storage(error) = error else { panic!("{error:?}") };
    let error: EngineError = database.storage_error(error);
    error.to_sql_error().number
}

/// Statements of a transaction insert rows one by one until there is no memory for the next one's version. That
/// statement is rolled back, and then the transaction: the memory is free again, and the rows are gone.
#[test]
fn a_transaction_that_outgrows_the_memory_is_error_701_and_can_be_undone() {
    let disk: Arc<dyn Disk> = simulated();
    let (memory, pool) = (24 << 20, 8 << 20);
    let settings =
        InstanceSettings { memory_bytes: Some(memory), pool_bytes: Some(pool), ..InstanceSettings::default() };
    let instance = Instance::open_on(disk, Path::new(FOLDER), settings).expect("the instance opens");
    let database = create(&instance, "d");
    run(&instance, |ctx| database.create_table(ctx, &tree_named("tree"))).expect("made");
    // A version each, and nothing for the undo, nor for each statement. Twice: the memory is there again.
    for round in 0..2 {
        let writer = writer(&database, "tree");
        let before = instance.memory().used();
        let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
        let (mut id, mut kept) = (0, 0);
        let refused = loop {
            let ctx = instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
            let done = (0..1000).try_for_each(|_| {
                id += 1;
                insert(&writer, &ctx, id)
            });
            instance.end_statement(&ctx, done.is_ok(), &[&database]).expect("the statement ends");
            match done {
                Ok(()) => kept += 1000,
                Err(error) => break error,
            }
        };
        assert_eq!(sql_number(&database, refused), number::OUT_OF_MEMORY);
        assert!(instance.memory().used() <= memory, "nothing was taken that was not there");
        let bytes = transaction.undo_bytes() / kept;
        assert!(kept >= 10_000 && (160..180).contains(&bytes), "{kept} rows of {bytes} bytes");
        let rows = || writer.base()[0].hobt().row_count();
        assert_eq!(rows(), kept + round);
        instance.end_transaction(&transaction, false, &[&database]).expect("undone");
        assert_eq!((rows(), database.state()), (round, DatabaseState::Online));
        assert_eq!((transaction.undo_bytes(), instance.memory().used()), (0, before));
        let again = run(&instance, |ctx| {
            insert(&writer, ctx, -1 - i32::try_from(round).expect("two")).expect("there is memory again");
            Ok(())
        });
        again.expect("inserted");
    }
}

/// The rows of a heap that a transaction fills, or empties, have a version for each page, and no more while they are
/// taken back.
#[test]
fn a_heap_that_is_filled_or_emptied_takes_memory_for_its_pages_alone() {
    const ROWS: i32 = if cfg!(debug_assertions) { 60_000 } else { 1_000_000 };
    let disk: Arc<dyn Disk> = simulated();
    let instance = Instance::open_on(disk, Path::new(FOLDER), InstanceSettings::default()).expect("the instance opens");
    let database = create(&instance, "d");
    run(&instance, |ctx| database.create_table(ctx, &table_named("heap"))).expect("made");
    let writer = writer(&database, "heap");
    let heap = writer.base()[0].hobt();
    let pages = || heap.data_pages() + 1;
    for fills in [true, false] {
        let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
        let ctx = instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
        if fills {
            (0..ROWS).for_each(|id| insert(&writer, &ctx, id).expect("inserted"));
        } else {
            for page in heap.runs().iter().flat_map(|run| run.row_pages().map(|number| (run.first.file, number))) {
                let page = PageId::new(page.0, page.1);
                for slot in heap.live_slots(page).expect("its rows") {
                    writer.delete(&ctx, &RowAt::Heap { partition: 0, page, slot }).expect("deleted");
                }
            }
        }
        instance.end_statement(&ctx, true, &[&database]).expect("the statement ends");
        assert_eq!(heap.row_count(), if fills { ROWS as u64 } else { 0 });
        let (bytes, versions) = (transaction.undo_bytes(), database.storage().versions().bytes() as u64);
        assert!(bytes < 300 * pages() && versions < 300 * pages(), "{bytes} and {versions} for {} pages", pages());
        instance.end_transaction(&transaction, !fills, &[&database]).expect("ended");
        assert_eq!(heap.row_count(), 0);
        if fills {
            run(&instance, |ctx| {
                (0..ROWS).for_each(|id| insert(&writer, ctx, id).expect("inserted"));
                Ok(())
            })
            .expect("filled");
        }
    }
    assert!(database.storage().versions().is_empty());
}

/// The number of rows of the transaction that is rolled back: as many as a debug build undoes in a few seconds, and a
/// million in a release build.
const ROWS_UNDONE: i32 = if cfg!(debug_assertions) { 30_000 } else { 1_000_000 };

/// A transaction of many rows is rolled back completely: no row, no extent and no memory is left of it. The database
/// works on, is closed clean, and opens.
#[test]
fn a_rollback_of_many_rows_leaves_nothing() {
    let disk = simulated();
    let open = || {
        let disk: Arc<dyn Disk> = Arc::clone(&disk) as Arc<dyn Disk>;
        let settings = InstanceSettings {
            memory_bytes: Some(1 << 30),
            pool_bytes: Some(if cfg!(debug_assertions) { 4 << 20 } else { 64 << 20 }),
            ..InstanceSettings::default()
        };
        Instance::open_on(disk, Path::new(FOLDER), settings).expect("the instance opens")
    };
    let instance = open();
    let database = create(&instance, "d");
    run(&instance, |ctx| database.create_table(ctx, &table_named("heap"))).expect("made");
    run(&instance, |ctx| database.create_table(ctx, &tree_named("tree"))).expect("made");
    let writers = ["heap", "tree"].map(|name| writer(&database, name));
    for (writer, id) in writers.iter().zip(1..) {
        run(&instance, |ctx| {
            insert(writer, ctx, -id).expect("inserted");
            Ok(())
        })
        .expect("inserted");
    }
    let before = instance.memory().used();
    let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
    for first in (0..ROWS_UNDONE).step_by(10_000) {
        let ctx = instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
        for id in first..first + 10_000 {
            // The order of arrival is not that of the keys.
            writers.iter().for_each(|writer| insert(writer, &ctx, id.reverse_bits() >> 1).expect("inserted"));
        }
        instance.end_statement(&ctx, true, &[&database]).expect("the statement ends");
    }
    let rows = || writers.each_ref().map(|writer| writer.base()[0].hobt().row_count());
    assert_eq!(rows(), [u64::try_from(ROWS_UNDONE).expect("positive") + 1; 2]);
    instance.end_transaction(&transaction, false, &[&database]).expect("undone");
    drop(transaction);
    assert_eq!((rows(), database.state(), instance.memory().used()), ([1; 2], DatabaseState::Online, before));
    assert!(database.storage().versions().is_empty());
    check_extents(&database);
    run(&instance, |ctx| {
        writers.iter().for_each(|writer| insert(writer, ctx, 7).expect("inserted"));
        Ok(())
    })
    .expect("inserted");
    drop((writers, database));
    instance.close().expect("closed");
    let instance = open();
    let database = instance.database("d").expect("it");
    for name in ["heap", "tree"] {
        assert_eq!(writer(&database, name).base()[0].hobt().row_count(), 2);
    }
    check_extents(&database);
}

/// A long-running reader keeps the versions of other transactions, which are accounted. When the account is full, no
/// transaction creates more versions until the reader has ended, and what was changed before stays.
#[test]
fn a_reader_that_is_open_for_long_keeps_only_so_many_versions() {
    let disk: Arc<dyn Disk> = simulated();
    let memory = 24 << 20;
    let settings =
        InstanceSettings { memory_bytes: Some(memory), pool_bytes: Some(8 << 20), ..InstanceSettings::default() };
    let instance = Instance::open_on(disk, Path::new(FOLDER), settings).expect("the instance opens");
    let database = create(&instance, "d");
    run(&instance, |ctx| database.create_table(ctx, &tree_named("tree"))).expect("made");
    let writer = writer(&database, "tree");
    let before = instance.memory().used();
    let reader = instance.begin_transaction(SessionId(52)).expect("begun");
    let snapshot = reader.snapshot().expect("it runs");
    let mut id = 0;
    let refused = loop {
        let ctx = instance.statement_context(SessionId(51), 1, Arc::default()).expect("open");
        let done = (0..1000).try_for_each(|_| {
            id += 1;
            insert(&writer, &ctx, id)
        });
        instance.end_statement(&ctx, done.is_ok(), &[&database]).expect("the statement ends");
        if let Err(error) = done {
            break error;
        }
        assert!(instance.kept_version_bytes() > 0 && id < 1_000_000);
    };
    assert_eq!(sql_number(&database, refused), number::VERSION_STORE_FULL);
    let kept = instance.kept_version_bytes();
    assert!(kept >= memory / 4 && kept < memory / 4 + (1 << 20), "{kept} bytes");
    assert_eq!(instance.memory().used(), before + kept);
    let count = writer.base()[0].hobt().row_count();
    assert!(count > 10_000 && count.is_multiple_of(1000), "{count} rows");
    drop(snapshot);
    instance.end_transaction(&reader, true, &[&database]).expect("ended");
    assert_eq!((instance.kept_version_bytes(), instance.memory().used()), (0, before));
    assert!(database.storage().versions().is_empty());
    let again = run(&instance, |ctx| {
        insert(&writer, ctx, 0).expect("there is room again");
        Ok(())
    });
    again.expect("inserted");
    assert_eq!(writer.base()[0].hobt().row_count(), count + 1);
}
