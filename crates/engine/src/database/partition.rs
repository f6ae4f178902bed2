//! Partition functions and schemes.

use std::sync::Arc;

use hobt_base::{FilegroupId, SqlError, errors};
use hobt_catalog::{
    DatabaseSnapshot, PartitionFunction, PartitionScheme, SnapshotChange, compare_values, value_to_bytes,
};
use hobt_txn::StatementContext;
use hobt_types::{Collation, MaxLength, SqlType, Value};

use super::Database;
use super::pending::{Name, Sharing};
use super::place::filegroup_named;
use crate::definition::{PartitionFunctionDefinition, PartitionSchemeDefinition, check_name};
use crate::error::{EngineError, Result, cannot_drop, name_is_taken};

/// The maximum number of partitions of a table.
pub(super) const PARTITIONS_MAX: usize = 15_000;

impl Database {
    /// Creates a partition function. Unsorted boundaries are sorted, with a warning.
    ///
    /// # Errors
    /// 2714, 103, 7704 a type without order or bounds, 7705 a value of another type, 7708 equal values, 7719 too many;
    /// a device's error, after which the statement must be rolled back.
    pub fn create_partition_function(
        self: &Arc<Database>,
        ctx: &StatementContext,
        definition: &PartitionFunctionDefinition,
    ) -> Result<(Arc<PartitionFunction>, Vec<SqlError>)> {
        check_name(&definition.name)?;
        let claims = vec![(Name::partition_function(&definition.name), Sharing::Exclusive)];
        let change = self.begin(ctx, claims)?;
        let snapshot = self.snapshot_of(ctx);
        if snapshot.partition_function(&definition.name).is_some() {
            return Err(name_is_taken(&definition.name));
        }
        let collation = definition.parameter.is_text().then(|| definition.collation.unwrap_or(snapshot.collation));
        let (boundaries, warnings) = sorted_boundaries(definition, collation)?;
        let function = Arc::new(PartitionFunction {
            id: self.next_data_space_id(),
            name: definition.name.clone(),
            parameter: definition.parameter,
            collation,
            range_right: definition.range_right,
            boundaries,
        });
        let written = Arc::clone(&function);
        self.write_rows(ctx, |heaps, rows| heaps.insert_partition_function(rows, &written))?;
        change.add(SnapshotChange::AddPartitionFunction(Arc::clone(&function)));
        Ok((function, warnings))
    }

    /// Drops a partition function that no scheme uses.
    ///
    /// # Errors
    /// 3701, 7706; a device's error, after which the statement must be rolled back.
    pub fn drop_partition_function(self: &Arc<Database>, ctx: &StatementContext, name: &str) -> Result<()> {
        let change = self.begin(ctx, vec![(Name::partition_function(name), Sharing::Exclusive)])?;
        let snapshot = self.snapshot_of(ctx);
        let function = snapshot.partition_function(name).ok_or_else(|| cannot_drop("partition function", name))?;
        let function = Arc::clone(function);
        if snapshot.partition_schemes.iter().any(|scheme| scheme.function == function.id) {
            return Err(EngineError::Statement(errors::PARTITION_FUNCTION_IN_USE.with([&name])));
        }
        let id = function.id;
        self.write_rows(ctx, |heaps, rows| heaps.delete_partition_function(rows, id))?;
        change.add(SnapshotChange::RemovePartitionFunction(id));
        Ok(())
    }

    /// Creates a partition scheme. A surplus filegroup is marked NEXT USED, with a message.
    ///
    /// # Errors
    /// 2714, 103, 208 the function or a filegroup does not exist, 7707 too few filegroups; a device's error, after
    /// which the statement must be rolled back.
    pub fn create_partition_scheme(
        self: &Arc<Database>,
        ctx: &StatementContext,
        definition: &PartitionSchemeDefinition,
    ) -> Result<(Arc<PartitionScheme>, Vec<SqlError>)> {
        check_name(&definition.name)?;
        let claims = vec![
            (Name::partition_scheme(&definition.name), Sharing::Exclusive),
            (Name::partition_function(&definition.function), Sharing::Shared),
            (Name::FilegroupsOfSchemes, Sharing::Shared),
        ];
        let change = self.begin(ctx, claims)?;
        let snapshot = self.snapshot_of(ctx);
        let name = &definition.name;
        if snapshot.partition_scheme(name).is_some() || snapshot.filegroup(name).is_some() {
            return Err(name_is_taken(name));
        }
        let function = snapshot.partition_function(&definition.function);
        let function = function.ok_or_else(|| invalid_object(&definition.function))?;
        let mut filegroups = scheme_filegroups(&snapshot, definition, function)?;
        let next_used = filegroups.get(function.partition_count()).copied();
        filegroups.truncate(function.partition_count());
        let scheme = Arc::new(PartitionScheme {
            id: self.next_data_space_id(),
            name: name.clone(),
            function: function.id,
            filegroups,
            next_used,
        });
        let written = Arc::clone(&scheme);
        self.write_rows(ctx, |heaps, rows| heaps.insert_partition_scheme(rows, &written))?;
        let warnings = next_used.map(|id| next_used_message(&snapshot, name, id)).into_iter().collect();
        change.add(SnapshotChange::AddPartitionScheme(Arc::clone(&scheme)));
        Ok((scheme, warnings))
    }

    /// Drops a partition scheme that no table uses.
    ///
    /// # Errors
    /// 3701, 7717; a device's error, after which the statement must be rolled back.
    pub fn drop_partition_scheme(self: &Arc<Database>, ctx: &StatementContext, name: &str) -> Result<()> {
        let change = self.begin(ctx, vec![(Name::partition_scheme(name), Sharing::Exclusive)])?;
        let snapshot = self.snapshot_of(ctx);
        let scheme = snapshot.partition_scheme(name).ok_or_else(|| cannot_drop("partition scheme", name))?;
        let scheme = Arc::clone(scheme);
        let id = scheme.id;
        let uses = |space: &hobt_catalog::DataSpace| matches!(space, hobt_catalog::DataSpace::Scheme { scheme, .. } if *scheme == id);
        let mut indexes = snapshot.tables.values().flat_map(|table| &table.indexes);
        if indexes.any(|index| uses(&index.data_space)) {
            return Err(EngineError::Statement(errors::PARTITION_SCHEME_IN_USE.with([&name])));
        }
        self.write_rows(ctx, |heaps, rows| heaps.delete_partition_scheme(rows, id))?;
        change.add(SnapshotChange::RemovePartitionScheme(id));
        Ok(())
    }
}

/// 208.
pub(super) fn invalid_object(name: &str) -> EngineError {
    EngineError::Statement(errors::INVALID_OBJECT.with([&name]))
}

/// 7705.
pub(super) fn value_is_of(function: &PartitionFunction, value: &Value) -> Result<()> {
    value_to_bytes(function.parameter, value)
        .map(|_| ())
        .map_err(|_| EngineError::Statement(errors::INVALID_PARTITION_FUNCTION.with([&1])))
}

/// Checks and sorts boundary values. Ordinals in messages count from 1, in the order as written.
fn sorted_boundaries(
    definition: &PartitionFunctionDefinition,
    collation: Option<Collation>,
) -> Result<(Vec<Value>, Vec<SqlError>)> {
    let (name, parameter) = (&definition.name, definition.parameter);
    let unbounded = matches!(
        parameter,
        SqlType::VarChar(MaxLength::Max) | SqlType::NVarChar(MaxLength::Max) | SqlType::VarBinary(MaxLength::Max)
    );
    if unbounded {
        return Err(EngineError::Statement(errors::PARTITION_TYPE.with([&parameter])));
    }
    if definition.boundaries.len() >= PARTITIONS_MAX {
        return Err(EngineError::Statement(errors::TOO_MANY_PARTITIONS.with([&PARTITIONS_MAX])));
    }
    for (value, ordinal) in definition.boundaries.iter().zip(1..) {
        if value_to_bytes(parameter, value).is_err() {
            return Err(EngineError::Statement(errors::INVALID_PARTITION_FUNCTION.with([&ordinal])));
        }
    }
    let mut numbered: Vec<(&Value, usize)> = definition.boundaries.iter().zip(1..).collect();
    numbered.sort_by(|left, right| compare_values(collation, left.0, right.0));
    for pair in numbered.windows(2) {
        if compare_values(collation, pair[0].0, pair[1].0).is_eq() {
            return Err(EngineError::Statement(errors::PARTITION_VALUES_DUPLICATE.with([&pair[0].1, &pair[1].1])));
        }
    }
    let mut warnings = Vec::new();
    if !numbered.iter().map(|(_, ordinal)| *ordinal).is_sorted() {
        warnings.push(errors::PARTITION_VALUES_SORTED.with([&name, &name]));
    }
    Ok((numbered.into_iter().map(|(value, _)| value.clone()).collect(), warnings))
}

fn scheme_filegroups(
    snapshot: &DatabaseSnapshot,
    definition: &PartitionSchemeDefinition,
    function: &PartitionFunction,
) -> Result<Vec<FilegroupId>> {
    let mut filegroups = Vec::with_capacity(definition.filegroups.len());
    for name in &definition.filegroups {
        filegroups.push(filegroup_named(snapshot, name).ok_or_else(|| invalid_object(name))?);
    }
    let needed = function.partition_count();
    if definition.all
        && let [only] = filegroups[..]
    {
        return Ok(vec![only; needed]);
    }
    if definition.all || filegroups.len() < needed {
        let error = match definition.all {
            true => errors::SCHEME_ALL_TO.with([&definition.name]),
            false => errors::PARTITION_SCHEME_FILEGROUPS.with([&function.name, &definition.name]),
        };
        return Err(EngineError::Statement(error));
    }
    Ok(filegroups)
}

/// A message of severity 0 without a number.
fn next_used_message(snapshot: &DatabaseSnapshot, scheme: &str, id: FilegroupId) -> SqlError {
    let name = snapshot.filegroup_by_id(id).map_or("", |filegroup| filegroup.name.as_str());
    errors::NEXT_USED_FILEGROUP.with([&scheme, &name, &scheme])
}
