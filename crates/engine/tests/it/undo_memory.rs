//! Transactions of many rows: what takes them back is in memory, and there is an end to that.

use std::path::Path;
use std::sync::Arc;

use hobt_base::{SessionId, number};
use hobt_disk::Disk;
use hobt_engine::{DatabaseState, DatabaseUse, EngineError, Instance, InstanceSettings, TableWriter, WriteError};
use hobt_page::RowImage;
use hobt_txn::StatementContext;

use crate::fixture::{FOLDER, create, run, simulated, table, table_named};
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

/// Statements of a transaction insert rows one by one until there is no memory for the next one's undo. That statement is
/// undone, and then all: the memory is back, and the rows are gone.
#[test]
fn a_transaction_that_outgrows_the_memory_is_error_701_and_can_be_undone() {
    let disk: Arc<dyn Disk> = simulated();
    let (memory, pool) = (24 << 20, 8 << 20);
    let settings =
        InstanceSettings { memory_bytes: Some(memory), pool_bytes: Some(pool), ..InstanceSettings::default() };
    let instance = Instance::open_on(disk, Path::new(FOLDER), settings).expect("the instance opens");
    let database = create(&instance, "d");
    run(&instance, |ctx| database.create_table(ctx, &table_named("heap"))).expect("made");
    run(&instance, |ctx| database.create_table(ctx, &tree_named("tree"))).expect("made");
    for (name, bytes_min) in [("heap", 100), ("tree", 200)] {
        let writer = writer(&database, name);
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
        assert!(kept >= 10_000 && bytes >= bytes_min && bytes < 1000, "{name}: {kept} rows of {bytes} bytes");
        let rows = || writer.base()[0].hobt().row_count();
        assert_eq!(rows(), kept);
        instance.end_transaction(&transaction, false, &[&database]).expect("undone");
        assert_eq!((rows(), database.state()), (0, DatabaseState::Online));
        assert_eq!((transaction.undo_bytes(), instance.memory().used()), (0, before));
        let again = run(&instance, |ctx| {
            insert(&writer, ctx, 1).expect("there is memory again");
            Ok(())
        });
        again.expect("inserted");
    }
}
