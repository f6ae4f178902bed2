//! The data space of a table: `ON` of `CREATE TABLE`.

use hobt_base::{FilegroupId, SqlError, errors};
use hobt_catalog::{DataSpace, DatabaseSnapshot, TableColumn, name_equals};

use crate::definition::DataSpaceDefinition;
use crate::error::{EngineError, Result};

/// A resolved data space, with a filegroup for each partition.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) data_space: DataSpace,
    pub(super) filegroups: Vec<FilegroupId>,
}

/// A filegroup by its name. `default` means the default one unless a filegroup has that name.
pub(super) fn filegroup_named(snapshot: &DatabaseSnapshot, name: &str) -> Option<FilegroupId> {
    match snapshot.filegroup(name) {
        Some(filegroup) => Some(filegroup.id),
        None => name_equals(name, "default").then(|| snapshot.default_filegroup()),
    }
}

/// Resolves the data space of a new table.
///
/// # Errors
/// 1921 the filegroup or scheme does not exist, 622 a filegroup without files, 1911 the column does not exist, 7726 the
/// column's type is not that of the partition function.
pub(super) fn resolve(
    snapshot: &DatabaseSnapshot,
    table: &str,
    columns: &[TableColumn],
    definition: &DataSpaceDefinition,
) -> Result<Place> {
    let place = match definition {
        DataSpaceDefinition::Default => in_filegroup(snapshot.default_filegroup()),
        DataSpaceDefinition::Named(name) => {
            let found = filegroup_named(snapshot, name);
            in_filegroup(found.ok_or_else(|| {
                EngineError::Statement(match snapshot.partition_scheme(name) {
                    Some(_) => errors::NO_SPECIFIED_FILEGROUP.with([&name]),
                    None => errors::INVALID_DATA_SPACE.with([&name]),
                })
            })?)
        }
        DataSpaceDefinition::Scheme { scheme, column } => on_scheme(snapshot, table, columns, scheme, column)?,
    };
    for id in &place.filegroups {
        if !snapshot.files.iter().any(|file| file.filegroup == *id) {
            let name = snapshot.filegroup_by_id(*id).map_or("", |filegroup| filegroup.name.as_str());
            return Err(EngineError::Statement(errors::FILEGROUP_WITHOUT_FILES.with([&name])));
        }
    }
    Ok(place)
}

fn in_filegroup(id: FilegroupId) -> Place {
    Place { data_space: DataSpace::Filegroup(id), filegroups: vec![id] }
}

fn on_scheme(
    snapshot: &DatabaseSnapshot,
    table: &str,
    columns: &[TableColumn],
    scheme: &str,
    column: &str,
) -> Result<Place> {
    let found = snapshot
        .partition_scheme(scheme)
        .ok_or_else(|| EngineError::Statement(errors::INVALID_PARTITION_SCHEME.with([&scheme])))?;
    let function = snapshot.partition_function_by_id(found.function).ok_or_else(|| {
        EngineError::from(SqlError::internal(format_args!("partition scheme '{scheme}' has lost its function")))
    })?;
    let place = columns
        .iter()
        .position(|each| name_equals(&each.name, column))
        .ok_or_else(|| EngineError::Statement(errors::NO_SUCH_KEY_COLUMN.with([&column])))?;
    let by = &columns[place];
    if by.sql_type != function.parameter || by.collation != function.collation {
        return Err(EngineError::Statement(errors::PARTITION_COLUMN_TYPE.with([
            &by.name,
            &table,
            &by.sql_type,
            &function.name,
            &function.parameter,
        ])));
    }
    Ok(Place {
        data_space: DataSpace::Scheme { scheme: found.id, column: place },
        filegroups: found.filegroups.clone(),
    })
}
