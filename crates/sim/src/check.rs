//! Reads the contents of a database back and checks their consistency.

use std::collections::BTreeMap;

use hobt_catalog::{DatabaseSnapshot, IndexKind, Table};
use hobt_engine::{Database, EngineError, Problem};
use hobt_types::Value;

use crate::model::{self, IndexShape, Objects, Shape};
use crate::rows::{OpenTable, function_of};

/// Why a check could not be made, or what it found.
#[derive(Debug)]
pub(crate) enum CheckError {
    /// The database could not be read.
    Engine(EngineError),
    /// It is inconsistent.
    Found(String),
}

impl From<EngineError> for CheckError {
    fn from(error: EngineError) -> CheckError {
        CheckError::Engine(error)
    }
}

/// The users' tables with their rows, and their sequences. The database must not be changed meanwhile.
pub(crate) fn contents(database: &Database) -> Result<Objects, CheckError> {
    let snapshot = database.snapshot();
    snapshot.check().map_err(|error| CheckError::Found(format!("the catalog: {error:?}")))?;
    let mut tables = BTreeMap::new();
    // In an order that is the same in every run.
    let users: BTreeMap<_, _> =
        snapshot.tables.values().filter(|table| !table.is_system).map(|table| (&table.name, table)).collect();
    for table in users.into_values() {
        let found = |text: String| CheckError::Found(format!("table {}: {text}", table.name));
        let open = OpenTable::to_read(database, &snapshot, table)?;
        let (rows, _) = open.read()?;
        let counted: u64 = open.writer().base().iter().map(|store| store.hobt().row_count()).sum();
        if counted != rows.len() as u64 {
            return Err(found(format!("it counts {counted} rows and has {}", rows.len())));
        }
        let differing = open.writer().check_indexes(&|| false).map_err(|error| database.storage_error(error))?;
        if let Some(index) = differing.first() {
            return Err(found(format!("an index differs: {index:?}")));
        }
        tables.insert(table.name.clone(), model::Table { shape: shape_of(&snapshot, table), rows });
    }
    let partitioned = tables.values().filter(|table| table.shape.boundaries.is_some()).count();
    let (functions, schemes) = (snapshot.partition_functions.len(), snapshot.partition_schemes.len());
    if (functions, schemes) != (partitioned, partitioned) {
        let text = format!("{partitioned} partitioned tables, {functions} functions, {schemes} schemes");
        return Err(CheckError::Found(text));
    }
    let sequences = snapshot.sequences.values().map(|sequence| sequence.name.clone()).collect();
    Ok(Objects { tables, sequences })
}

/// The definition of a table in the catalog.
pub(crate) fn shape_of(snapshot: &DatabaseSnapshot, table: &Table) -> Shape {
    let name = |place: usize| table.columns[place].name.clone();
    let indexes = table.indexes.iter().filter(|index| index.kind != IndexKind::Heap).map(|index| {
        let shape = IndexShape {
            is_clustered: index.kind == IndexKind::Clustered,
            is_unique: index.options.is_unique,
            key: index.key.iter().map(|part| name(part.column)).collect(),
            included: index.included.iter().map(|place| name(*place)).collect(),
        };
        (index.name.clone().unwrap_or_default(), shape)
    });
    let boundary = |value: &Value| if let Value::Int(boundary) = value { *boundary } else { i64::MIN };
    let checks = table.constraints.checks.iter().map(|check| (check.head.name.clone(), None));
    let keys = table.constraints.foreign_keys.iter().map(|key| {
        let referenced = snapshot.tables.get(&key.referenced).map_or("", |table| table.name.as_str());
        (key.head.name.clone(), Some(referenced.to_owned()))
    });
    Shape {
        columns: table.columns.iter().map(|column| (column.name.clone(), column.sql_type)).collect(),
        indexes: indexes.collect(),
        boundaries: function_of(snapshot, table).map(|function| function.boundaries.iter().map(boundary).collect()),
        constraints: checks.chain(keys).collect(),
    }
}

/// Checks the whole database, system tables included. After an operation has failed in this life, the copies of a
/// header or of the boot page may differ until the next opening writes them anew.
pub(crate) fn allocation(database: &Database, has_failed: bool) -> Result<(), CheckError> {
    let mut found = database.check()?;
    found.retain(|found| !(has_failed && matches!(found.problem, Problem::Header { .. })));
    if found.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = found.iter().take(5).map(|found| found.to_sql_error(database).to_string()).collect();
    Err(CheckError::Found(format!("{} findings: {}", found.len(), texts.join("; "))))
}
