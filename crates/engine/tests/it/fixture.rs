//! Instances on simulated and real disks, and statements on them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hobt_base::{EXTENT_PAGES, ObjectId, SessionId, SqlError};
use hobt_catalog::{Growth, Table, row_image, value_from_bytes};
use hobt_disk::{Disk, DiskKind, SimulatedConfig, SimulatedDisk};
use hobt_engine::{
    ColumnDefinition, DataSpaceDefinition, Database, DatabaseDefinition, DatabaseUse, EngineError, FileDefinition,
    Instance, InstanceSettings, PartitionFunctionDefinition, PartitionSchemeDefinition, TableDefinition,
};
use hobt_txn::StatementContext;
use hobt_types::{MaxLength, SqlType, Value};

/// The folder of instances on simulated disks.
pub(crate) const FOLDER: &str = "/hobt-test";

pub(crate) fn settings() -> InstanceSettings {
    InstanceSettings { memory_bytes: Some(64 << 20), pool_bytes: Some(8 << 20), ..InstanceSettings::default() }
}

pub(crate) fn simulated() -> Arc<SimulatedDisk> {
    SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory")
}

pub(crate) fn open(disk: &Arc<SimulatedDisk>) -> Arc<Instance> {
    try_open(disk).expect("the instance opens")
}

pub(crate) fn try_open(disk: &Arc<SimulatedDisk>) -> Result<Arc<Instance>, EngineError> {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    Instance::open_on(disk, Path::new(FOLDER), settings())
}

/// A folder on the real disk, removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("hobt-engine-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    pub(crate) fn open(&self) -> Arc<Instance> {
        self.try_open().expect("the instance opens")
    }

    pub(crate) fn try_open(&self) -> Result<Arc<Instance>, EngineError> {
        Instance::open(&self.0, InstanceSettings { disk: DiskKind::Threads, ..settings() })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn database_named(name: &str) -> DatabaseDefinition {
    DatabaseDefinition { name: name.to_owned(), ..DatabaseDefinition::default() }
}

/// A small file that grows in small steps.
pub(crate) fn small_file(name: &str) -> FileDefinition {
    FileDefinition {
        name: Some(name.to_owned()),
        size_pages: Some(256),
        growth: Some(Growth::Pages(64)),
        ..FileDefinition::default()
    }
}

pub(crate) fn create(instance: &Instance, name: &str) -> DatabaseUse {
    let definition = DatabaseDefinition { primary: vec![small_file(name)], ..database_named(name) };
    instance.create_database(&definition).expect("the database is made").database
}

pub(crate) fn number_of<T>(result: Result<T, EngineError>) -> i32 {
    result.err().expect("an error").to_sql_error().number
}

/// A statement of session 51.
pub(crate) fn begin(instance: &Instance) -> Arc<StatementContext> {
    begin_as(instance, SessionId(51), Arc::default())
}

pub(crate) fn begin_as(instance: &Instance, session: SessionId, cancelled: Arc<AtomicBool>) -> Arc<StatementContext> {
    instance.statement_context(session, 1, cancelled).expect("the instance is open")
}

/// Takes the lock of a table that no other session uses.
pub(crate) fn unlocked(_table: ObjectId) -> Result<(), SqlError> {
    Ok(())
}

/// Runs a statement, and commits or rolls it back by its result.
pub(crate) fn run<T>(
    instance: &Instance,
    statement: impl FnOnce(&StatementContext) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let ctx = instance.statement_context(SessionId(51), 1, Arc::default())?;
    let done = statement(&ctx);
    instance.end_statement(&ctx, done.is_ok(), &[]).expect("the statement ends");
    done
}

/// `CREATE TABLE dbo.<name> (id int NOT NULL, text nvarchar(100), amount decimal(20,2))`.
pub(crate) fn table_named(name: &str) -> TableDefinition {
    TableDefinition {
        schema: "dbo".to_owned(),
        name: name.to_owned(),
        columns: vec![
            ColumnDefinition::new("id", SqlType::Int, false),
            ColumnDefinition::new("text", SqlType::NVarChar(MaxLength::Limited(100)), true),
            ColumnDefinition::new("amount", SqlType::Decimal { precision: 20, scale: 2 }, true),
        ],
        data_space: DataSpaceDefinition::Default,
        indexes: Vec::new(),
    }
}

/// The partition function `pf` of an int and its scheme `ps`, with a filegroup for each partition.
pub(crate) fn create_partitions(
    database: &DatabaseUse,
    ctx: &StatementContext,
    boundaries: Vec<Value>,
    filegroups: &[&str],
) -> Result<(), EngineError> {
    let function = PartitionFunctionDefinition {
        name: "pf".to_owned(),
        parameter: SqlType::Int,
        collation: None,
        range_right: true,
        boundaries,
    };
    database.create_partition_function(ctx, &function)?;
    let filegroups = filegroups.iter().map(|&name| name.to_owned()).collect();
    let scheme = PartitionSchemeDefinition { name: "ps".to_owned(), function: function.name, filegroups, all: false };
    database.create_partition_scheme(ctx, &scheme).map(drop)
}

pub(crate) fn row(id: i64) -> Vec<Value> {
    let text = if id % 3 == 0 { Value::Null } else { Value::Text(format!("row {id}")) };
    vec![Value::Int(id), text, Value::Decimal(i128::from(id) * 100)]
}

/// Inserts rows into the partition that `partition` returns.
pub(crate) fn insert(
    database: &Database,
    ctx: &StatementContext,
    table: &Table,
    partition: usize,
    rows: impl Iterator<Item = Vec<Value>>,
) -> Result<(), EngineError> {
    let hobt = database.hobt(table.base_index().partitions[partition].hobt)?;
    for values in rows {
        let image = row_image(table.columns.iter().map(|column| column.sql_type), &values).expect("typed values");
        hobt.insert(ctx, &image).map_err(|error| database.storage_error(error))?;
    }
    Ok(())
}

/// All rows of a table, partition by partition.
pub(crate) fn rows(database: &Database, table: &Table) -> Result<Vec<Vec<Value>>, EngineError> {
    let mut all = Vec::new();
    for partition in &table.base_index().partitions {
        let hobt = database.hobt_to_read(partition.hobt)?;
        let read = hobt.for_each_row(&mut |_, slot, page| {
            let value = |(place, column): (usize, &hobt_catalog::TableColumn)| {
                value_from_bytes(column.sql_type, page.value(place, slot).expect("offsets")).expect("a value")
            };
            all.push(table.columns.iter().enumerate().map(value).collect());
            Ok(())
        });
        read.map_err(|error| database.storage_error(error))?;
    }
    Ok(all)
}

pub(crate) fn table(database: &Database, name: &str) -> Arc<Table> {
    Arc::clone(database.snapshot().table(1, name).expect("the table exists"))
}

/// Every extent that is allocated belongs to a heap of the catalog: nothing leaks, nothing is used twice.
pub(crate) fn check_extents(database: &Database) {
    let snapshot = database.snapshot();
    snapshot.check().expect("a sound snapshot");
    let mut extents = std::collections::HashSet::new();
    for partition in snapshot.tables.values().flat_map(|table| &table.indexes).flat_map(|index| &index.partitions) {
        for run in database.hobt_to_read(partition.hobt).expect("a heap").runs() {
            for number in (run.first.number..run.first.number + run.page_count).step_by(EXTENT_PAGES as usize) {
                assert!(extents.insert((run.first.file, number)), "extent {number} is used twice");
            }
        }
    }
    let allocated: u32 =
        database.storage().files().iter().map(|file| file.size_pages() / EXTENT_PAGES - file.free_extents() - 1).sum();
    assert_eq!(allocated as usize, extents.len(), "extents that no heap has are allocated");
}
