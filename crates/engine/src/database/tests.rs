//! Tests that need a database's internals: races of names and heaps, and a change of `master` that fails.

use std::path::Path;
use std::sync::Arc;

use hobt_access::{AccessError, Hobt, RowStore};
use hobt_base::{PageId, SessionId, number};
use hobt_catalog::{CatalogError, DatabaseRow, Timestamp};
use hobt_disk::{Disk, SimulatedConfig, SimulatedDisk};
use hobt_page::PageDamage;
use hobt_txn::UndoError;
use hobt_types::SqlType;

use crate::{
    ColumnDefinition, DataSpaceDefinition, DatabaseDefinition, DatabaseUse, EngineError, Instance, InstanceSettings,
    TableDefinition,
};

fn open(disk: &Arc<SimulatedDisk>) -> Result<Arc<Instance>, EngineError> {
    let settings =
        InstanceSettings { memory_bytes: Some(64 << 20), pool_bytes: Some(8 << 20), ..InstanceSettings::default() };
    Instance::open_on(Arc::clone(disk) as Arc<dyn Disk>, Path::new("/hobt-database"), settings)
}

fn simulated() -> Arc<SimulatedDisk> {
    SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory")
}

/// An instance with a database, and the definition of a table to be created in it.
fn shop() -> (Arc<Instance>, DatabaseUse, TableDefinition) {
    let instance = open(&simulated()).expect("it opens");
    let definition = DatabaseDefinition { name: "shop".to_owned(), ..DatabaseDefinition::default() };
    let database = instance.create_database(&definition).expect("made").database;
    let table = TableDefinition {
        schema: "dbo".to_owned(),
        name: "t".to_owned(),
        columns: vec![ColumnDefinition::new("id", SqlType::Int, false)],
        data_space: DataSpaceDefinition::Default,
        indexes: Vec::new(),
    };
    (instance, database, table)
}

fn number_of<T>(result: Result<T, EngineError>) -> i32 {
    result.err().expect("an error").to_sql_error().number
}

#[test]
fn a_change_of_master_that_cannot_be_undone_is_not_saved_as_clean() {
    let disk = simulated();
    let instance = open(&disk).expect("it opens");
    let master = instance.master().expect("master");
    let row = DatabaseRow {
        id: 77,
        name: "half".to_owned(),
        guid: [7; 16],
        created: Timestamp(0),
        isolation: 0,
        is_offline: false,
    };
    let failed = master.change_and_save(|heaps, ctx| {
        heaps.insert(ctx, &row)?;
        ctx.on_undo(|| Err(UndoError("a test says so".to_owned())));
        Err(CatalogError::Access(AccessError::Cancelled))
    });
    assert_eq!(number_of(failed), number::CANCELED, "why it failed");
    assert_eq!(number_of(instance.master()), number::DATABASE_SUSPECT);
    drop(master);
    instance.close().expect("closed");
    let again = open(&disk).expect("recovered");
    let (rows, _) = again.master().expect("master").listed_databases().expect("its rows");
    assert!(rows.iter().all(|row| row.id != 77), "{rows:?}");
}

#[test]
fn a_heap_that_was_opened_while_its_table_was_dropped_is_not_kept() {
    let (instance, database, table) = shop();
    let statement = || instance.statement_context(SessionId(51), 1, Arc::default()).expect("it is open");
    let ctx = statement();
    let made = database.create_table(&ctx, &table).expect("made");
    instance.end_statement(&ctx, true, &[]).expect("committed");
    let partition = &made.base_index().partitions[0];
    let (id, rows) = (partition.hobt, Arc::clone(&made.rows));
    let read = || Hobt::open(database.storage(), id, partition.filegroup, Arc::clone(&rows), 1, partition.run_list);
    let read = || read().map(RowStore::Heap);
    let kept = database.store_to_read(id).expect("a heap");
    let again = database.keep_opened(id, read()).expect("the table is there");
    assert!(Arc::ptr_eq(kept.hobt(), again.hobt()), "all use the one that came first");
    // As a view does it, which takes no lock: the snapshot from before the drop, the list of open heaps from after it.
    let late = read();
    let ctx = statement();
    database.drop_table(&ctx, "dbo", "t", &mut |_| Ok(())).expect("dropped");
    instance.end_statement(&ctx, true, &[]).expect("committed");
    assert_eq!(number_of(database.keep_opened(id, late)), number::INVALID_OBJECT);
    let damage = PageDamage::Structure { rule: "the page is another's by now" };
    let torn = Err(AccessError::Damaged { file: String::new(), page: PageId::default(), damage });
    assert_eq!(number_of(database.keep_opened(id, torn)), number::INVALID_OBJECT, "no damage is reported");
    assert!(database.stores.read().is_empty());
}

/// Which table a name refers to is certain only while the name is claimed. No statement waits for a table with its name
/// claimed.
#[test]
fn a_table_that_is_dropped_is_the_one_that_is_locked() {
    let (instance, database, table) = shop();
    let statement = || instance.statement_context(SessionId(51), 1, Arc::default()).expect("it is open");
    let make = || {
        let ctx = statement();
        let made = database.create_table(&ctx, &table).expect("made").id;
        instance.end_statement(&ctx, true, &[]).expect("committed");
        made
    };
    for truncates in [true, false] {
        let first = make();
        let mut locked = Vec::new();
        let mut second = None;
        let ctx = statement();
        let mut lock = |id| {
            locked.push(id);
            if second.is_none() {
                // The previous lock holder drops the table and creates another one.
                let other = statement();
                database.drop_table(&other, "dbo", "t", &mut |_| Ok(())).expect("dropped");
                instance.end_statement(&other, true, &[]).expect("committed");
                second = Some(make());
            }
            Ok(())
        };
        let done = match truncates {
            true => database.truncate_table(&ctx, "dbo", "T", &mut lock),
            false => database.drop_table(&ctx, "dbo", "T", &mut lock),
        };
        let second = second.expect("made");
        assert_eq!(done.expect("the table is there"), second);
        assert_eq!(locked, [first, second]);
        instance.end_statement(&ctx, true, &[]).expect("committed");
        assert_eq!(database.snapshot().table(1, "t").is_some(), truncates);
        if truncates {
            let ctx = statement();
            database.drop_table(&ctx, "dbo", "t", &mut |_| Ok(())).expect("dropped");
            instance.end_statement(&ctx, true, &[]).expect("committed");
        }
    }
    // If the table is another one each time it is locked, the statement fails.
    make();
    let ctx = statement();
    let done = database.drop_table(&ctx, "dbo", "t", &mut |_| {
        let other = statement();
        database.drop_table(&other, "dbo", "t", &mut |_| Ok(())).expect("dropped");
        instance.end_statement(&other, true, &[]).expect("committed");
        make();
        Ok(())
    });
    assert_eq!(number_of(done), number::DEFINITION_CHANGED);
}
