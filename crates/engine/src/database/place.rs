//! The data space of a table: `ON` of `CREATE TABLE`.

use hobt_base::{FilegroupId, number};
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
                let text = if snapshot.partition_scheme(name).is_some() {
                    format!("Invalid filegroup '{name}' specified. It is a partition scheme: name the column it takes.")
                } else {
                    format!("Invalid filegroup '{name}' specified.")
                };
                EngineError::statement(number::INVALID_DATA_SPACE, text)
            })?)
        }
        DataSpaceDefinition::Scheme { scheme, column } => on_scheme(snapshot, table, columns, scheme, column)?,
    };
    for id in &place.filegroups {
        if !snapshot.files.iter().any(|file| file.filegroup == *id) {
            let name = snapshot.filegroup_by_id(*id).map_or("", |filegroup| filegroup.name.as_str());
            let text = format!(
                "The filegroup \"{name}\" has no files assigned to it. Tables, indexes, and large object columns \
                 cannot be populated on this filegroup until a file is added."
            );
            return Err(EngineError::statement(number::FILEGROUP_WITHOUT_FILES, text));
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
    let found = snapshot.partition_scheme(scheme).ok_or_else(|| {
        EngineError::statement(number::INVALID_DATA_SPACE, format!("Invalid partition scheme '{scheme}' specified."))
    })?;
    let function = snapshot.partition_function_by_id(found.function).ok_or_else(|| {
        EngineError::statement(number::INTERNAL, format!("partition scheme '{scheme}' has lost its function"))
    })?;
    let place = columns.iter().position(|each| name_equals(&each.name, column)).ok_or_else(|| {
        EngineError::statement(
            number::NO_SUCH_KEY_COLUMN,
            format!("Column name '{column}' does not exist in the target table or view."),
        )
    })?;
    let by = &columns[place];
    if by.sql_type != function.parameter || by.collation != function.collation {
        let text = format!(
            "Partition column '{}' of table '{table}' has data type {} which is different from the partition function \
             '{}' parameter data type {}.",
            by.name, by.sql_type, function.name, function.parameter
        );
        return Err(EngineError::statement(number::PARTITION_COLUMN_TYPE, text));
    }
    Ok(Place {
        data_space: DataSpace::Scheme { scheme: found.id, column: place },
        filegroups: found.filegroups.clone(),
    })
}
