//! What is in a database, read back and held against itself.

use std::collections::BTreeMap;

use hobt_access::AllocationCheck;
use hobt_engine::{Database, EngineError};

use crate::model::Tables;
use crate::rows::{hobt_of, read};

/// Why a check could not be made, or what it found.
#[derive(Debug)]
pub(crate) enum CheckError {
    /// The database could not be read.
    Engine(EngineError),
    /// It contradicts itself.
    Found(String),
}

impl From<EngineError> for CheckError {
    fn from(error: EngineError) -> CheckError {
        CheckError::Engine(error)
    }
}

/// The users' tables with their rows. Nothing may be changing the database.
pub(crate) fn contents(database: &Database) -> Result<Tables, CheckError> {
    let snapshot = database.snapshot();
    snapshot.check().map_err(|error| CheckError::Found(format!("the catalog: {error:?}")))?;
    let mut tables = Tables::new();
    // In an order that does not change from run to run.
    let users: BTreeMap<_, _> =
        snapshot.tables.values().filter(|table| !table.is_system).map(|table| (&table.name, table)).collect();
    for table in users.into_values() {
        let hobt = hobt_of(database, table)?;
        let (rows, _) = read(database, &hobt)?;
        let counted = hobt.row_count();
        if counted != rows.len() as u64 {
            return Err(CheckError::Found(format!(
                "table {} counts {counted} rows and has {}",
                table.name,
                rows.len()
            )));
        }
        tables.insert(table.name.clone(), rows);
    }
    Ok(tables)
}

/// Whether allocation, run lists, pages and counts of all tables agree, the system's too.
pub(crate) fn allocation(database: &Database) -> Result<(), CheckError> {
    let failed = |error| CheckError::Engine(database.storage_error(error));
    let mut check = AllocationCheck::new(database.storage()).map_err(failed)?;
    let snapshot = database.snapshot();
    let mut hobts: Vec<_> =
        snapshot.tables.values().flat_map(|table| &table.indexes).flat_map(|index| &index.partitions).collect();
    hobts.sort_unstable_by_key(|partition| partition.hobt);
    for partition in hobts {
        check.add_hobt(&*database.hobt_to_read(partition.hobt)?).map_err(failed)?;
    }
    let findings = check.finish();
    if findings.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = findings.iter().take(5).map(ToString::to_string).collect();
    Err(CheckError::Found(format!("{} findings: {}", findings.len(), texts.join("; "))))
}
