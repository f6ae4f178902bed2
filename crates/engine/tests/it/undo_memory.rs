//! Transactions of many rows: their undo is in the log, and versions for which there is no memory are on disk.

use std::path::Path;
use std::sync::Arc;

use hobt_access::{KeyRange, RowStore};
use hobt_base::{PageId, SessionId, number};
use hobt_disk::Disk;
use hobt_engine::{DatabaseState, DatabaseUse, Instance, InstanceSettings, RowAt, TableWriter, WriteError};
use hobt_page::RowImage;
use hobt_txn::{Before, StatementContext, VersionExtent};

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

/// An instance with 24 MB of memory, a third of it in the pool, whose versions go to disk from 2 MB on.
fn small_instance() -> (Arc<Instance>, DatabaseUse) {
    small_instance_on(simulated())
}

fn small_instance_on(disk: Arc<dyn Disk>) -> (Arc<Instance>, DatabaseUse) {
    let (memory, pool) = (24 << 20, 8 << 20);
    let settings =
        InstanceSettings { memory_bytes: Some(memory), pool_bytes: Some(pool), ..InstanceSettings::default() };
    let instance = Instance::open_on(disk, Path::new(FOLDER), settings).expect("the instance opens");
    let database = create(&instance, "d");
    run(&instance, |ctx| database.create_table(ctx, &tree_named("tree"))).expect("made");
    (instance, database)
}

/// Versions on disk are of no transaction any more: memory and disk are as before them.
fn assert_no_versions(instance: &Instance, database: &DatabaseUse, memory: u64) {
    assert_eq!(database.storage().versions().extent(), VersionExtent::default());
    assert_eq!((instance.version_bytes(), instance.memory().used(), instance.spills().size_bytes()), (0, memory, 0));
}

/// Statements of a transaction insert more rows than there is memory for their versions: these go to disk. A rollback
/// takes back all of them.
#[test]
fn a_transaction_that_outgrows_the_memory_puts_its_versions_on_disk() {
    const ROWS: i32 = if cfg!(debug_assertions) { 60_000 } else { 1_000_000 };
    let (instance, database) = small_instance();
    let writer = writer(&database, "tree");
    let before = instance.memory().used();
    let rows = || writer.base()[0].hobt().row_count();
    // Twice: the room is there again.
    for _ in 0..2 {
        let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
        for first in (0..ROWS).step_by(1000) {
            let ctx = instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
            // The order of arrival is not that of the keys.
            (first..first + 1000).for_each(|id| insert(&writer, &ctx, id.reverse_bits() >> 1).expect("inserted"));
            instance.end_statement(&ctx, true, &[&database]).expect("the statement ends");
            assert!(instance.version_bytes() < 4 << 20, "{} bytes", instance.version_bytes());
        }
        let bytes = transaction.undo_bytes();
        assert!(bytes < 1 << 20 && rows() == u64::try_from(ROWS).expect("positive"), "{bytes} bytes, {} rows", rows());
        let (_, disk) = database.storage().versions().usage();
        assert!(disk > 1 << 18 && instance.spills().size_bytes() == disk, "{disk} bytes");
        // A statement that fails is undone by versions on disk, too.
        let ctx = instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
        insert(&writer, &ctx, -1).expect("inserted");
        assert!(matches!(insert(&writer, &ctx, 1 << 29), Err(WriteError::Duplicate { .. })));
        instance.end_statement(&ctx, false, &[&database]).expect("undone");
        instance.end_transaction(&transaction, false, &[&database]).expect("undone");
        assert_eq!((rows(), database.state()), (0, DatabaseState::Online));
        assert_no_versions(&instance, &database, before);
    }
}

/// `tempdb` has no log. What undoes its rows goes to disk, and savepoints and rollbacks find it there, in the order of
/// the changes.
#[test]
fn what_undoes_rows_of_tempdb_goes_to_disk_and_is_found_there() {
    const ROWS: i32 = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let (instance, _) = small_instance();
    let tempdb = instance.tempdb().expect("tempdb");
    run(&instance, |ctx| tempdb.create_table(ctx, &tree_named("tree"))).expect("made");
    run(&instance, |ctx| tempdb.create_table(ctx, &table_named("heap"))).expect("made");
    let writers = ["tree", "heap"].map(|name| writer(&tempdb, name));
    let counts = || writers.each_ref().map(|writer| writer.base()[0].hobt().row_count());
    let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
    let fill = |from: i32, to: i32| {
        for first in (from..to).step_by(1000) {
            let ctx = instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
            for id in first..first + 1000 {
                writers.iter().for_each(|writer| insert(writer, &ctx, id.reverse_bits() >> 1).expect("inserted"));
            }
            instance.end_statement(&ctx, true, &[&tempdb]).expect("the statement ends");
        }
    };
    let half = u64::try_from(ROWS / 2).expect("positive");
    fill(0, ROWS / 2);
    let savepoint = transaction.savepoint();
    for _ in 0..2 {
        fill(ROWS / 2, ROWS);
        assert_eq!(counts(), [2 * half; 2]);
        let (bytes, disk) = (transaction.undo_bytes(), instance.spills().size_bytes());
        assert!(bytes < 3 << 20 && disk > 1 << 20, "{bytes} bytes of memory, {disk} of disk");
        instance.roll_back_to(&transaction, &savepoint, &[&tempdb]).expect("undone");
        assert_eq!(counts(), [half; 2]);
    }
    instance.end_transaction(&transaction, false, &[&tempdb]).expect("undone");
    assert_eq!((counts(), tempdb.state()), ([0; 2], DatabaseState::Online));
    assert_eq!(instance.spills().size_bytes(), 0);
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
        let extent = database.storage().versions().extent();
        assert_eq!(extent.versions, usize::try_from(ROWS).expect("positive"));
        let bytes = extent.memory_bytes as u64 + transaction.undo_bytes();
        assert!(bytes < 300 * pages(), "{bytes} bytes for {} pages", pages());
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

/// A reader that is open for long keeps the versions of other transactions. Most of them are on disk. They go at once
/// when the reader ends.
#[test]
fn a_reader_that_is_open_for_long_keeps_versions_on_disk() {
    const ROWS: i32 = if cfg!(debug_assertions) { 60_000 } else { 1_000_000 };
    let (instance, database) = small_instance();
    let writer = writer(&database, "tree");
    let before = instance.memory().used();
    let reader = instance.begin_transaction(SessionId(52)).expect("begun");
    let snapshot = reader.snapshot(false).expect("it runs");
    for first in (0..ROWS).step_by(100) {
        let ctx = instance.statement_context(SessionId(51), 1, Arc::default()).expect("open");
        (first..first + 100).for_each(|id| insert(&writer, &ctx, id).expect("inserted"));
        instance.end_statement(&ctx, true, &[&database]).expect("the statement ends");
        assert!(instance.version_bytes() < 4 << 20, "{} bytes", instance.version_bytes());
    }
    assert!(instance.spills().size_bytes() > 1 << 18, "{} bytes", instance.spills().size_bytes());
    let RowStore::Tree(tree) = &writer.base()[0] else { unreachable!("it is one") };
    let unseen = tree.unseen_keys(&KeyRange::all(), &snapshot).expect("readable");
    assert!(unseen.len() == ROWS as usize && unseen.iter().all(|(_, before)| *before == Before::Absent));
    let later = instance.begin_transaction(SessionId(53)).expect("begun");
    assert!(!tree.has_unseen_keys(&KeyRange::all(), &later.snapshot(false).expect("it runs")).expect("readable"));
    instance.end_transaction(&later, true, &[&database]).expect("ended");
    drop(snapshot);
    instance.end_transaction(&reader, true, &[&database]).expect("ended");
    assert_no_versions(&instance, &database, before);
}

/// When the disk has no room for more versions, the oldest reader is given up: it fails with error 3958, and the writer
/// goes on.
#[test]
fn a_full_disk_ends_the_oldest_reader() {
    let disk = simulated();
    let (instance, database) = small_instance_on(Arc::clone(&disk) as Arc<dyn Disk>);
    let writer = writer(&database, "tree");
    let change = |id: i32| {
        run(&instance, |ctx| {
            insert(&writer, ctx, id).expect("there is room in the file");
            Ok(())
        })
        .expect("inserted");
    };
    // The files grow before the disk is full.
    (0..20_000).for_each(change);
    let reader = instance.begin_transaction(SessionId(52)).expect("begun");
    let snapshot = reader.snapshot(false).expect("it runs");
    disk.leave_free(Some(0));
    let RowStore::Tree(tree) = &writer.base()[0] else { unreachable!("it is one") };
    let error = (20_000..100_000).find_map(|id| {
        if id % 500 == 0 {
            // The log has no room to grow either.
            database.checkpoint().expect("it needs no room on disk");
        }
        change(id);
        tree.has_unseen_keys(&KeyRange::all(), &snapshot).err()
    });
    let error = database.storage_error(error.expect("given up")).to_sql_error();
    assert_eq!(error.number, number::VERSION_GIVEN_UP);
    disk.leave_free(None);
    drop(snapshot);
    instance.end_transaction(&reader, false, &[&database]).expect("ended");
    assert_eq!(database.storage().versions().extent(), VersionExtent::default());
}
