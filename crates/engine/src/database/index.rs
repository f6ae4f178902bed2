//! The definitions of a table's indexes, and their empty storage.
//!
//! Definitions are checked here and become [`Index`]es without partitions. [`Database::create_stores`] creates a heap
//! or a tree for each of their partitions. Filling them is in `table_change`.

use std::sync::Arc;

use hobt_access::{BTree, Hobt, RowStore, TreeDescription};
use hobt_base::{FilegroupId, IndexId, PartitionNumber, SqlError, errors};
use hobt_catalog::{
    DataSpace, DatabaseSnapshot, Index, IndexKeyColumn, IndexKind, IndexUsage, KEY_COLUMNS_MAX, KeyConstraint,
    Partition, Table, name_equals,
};
use hobt_txn::StatementContext;
use hobt_types::{Collation, KeyColumn, SqlType};

use super::{Database, StoreShape, place};
use crate::definition::{DataSpaceDefinition, IndexDefinition, KeyKind, check_name};
use crate::error::{EngineError, Result, name_is_taken};
use hobt_instruments::time_of_day;

/// The longest key of a clustered index, in bytes as SQL Server counts them.
const CLUSTERED_KEY_BYTES_MAX: usize = 900;
/// The longest key of a nonclustered index.
const KEY_BYTES_MAX: usize = 1700;

/// The longest key that a kind of index allows, in bytes as SQL Server counts them.
pub fn key_bytes_max(kind: IndexKind) -> usize {
    match kind {
        IndexKind::Clustered => CLUSTERED_KEY_BYTES_MAX,
        IndexKind::Heap | IndexKind::Nonclustered => KEY_BYTES_MAX,
    }
}

fn is_variable(sql_type: SqlType) -> bool {
    matches!(sql_type, SqlType::VarChar(_) | SqlType::NVarChar(_) | SqlType::VarBinary(_))
}

/// The maximum size of a key value in bytes.
fn most_bytes(sql_type: SqlType) -> usize {
    usize::from(sql_type.max_length_bytes().unsigned_abs())
}

/// Whether a row's key can be longer than the index allows.
pub fn may_exceed_key_bytes(table: &Table, index: &Index) -> bool {
    let types = index.key.iter().map(|part| table.columns[part.column].sql_type);
    types.map(most_bytes).sum::<usize>() > key_bytes_max(index.kind)
}

/// The size of a key value in bytes as SQL Server counts them, from its stored bytes: one per character of `varchar`,
/// two per character of `nvarchar`, or four outside the first 65,536.
pub fn key_value_bytes(sql_type: SqlType, stored: Option<&[u8]>) -> usize {
    if !is_variable(sql_type) {
        return most_bytes(sql_type);
    }
    let bytes = stored.unwrap_or_default();
    // In UTF-8 each character has one byte that is not a continuation byte. Characters of four bytes need a pair in
    // UTF-16.
    let characters = || bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
    let pairs = || bytes.iter().filter(|byte| **byte >= 0xF0).count();
    match sql_type {
        SqlType::VarChar(_) => characters(),
        SqlType::NVarChar(_) => 2 * (characters() + pairs()),
        _ => bytes.len(),
    }
}

/// 1913.
fn index_exists(name: &str, table: &str) -> EngineError {
    EngineError::Statement(errors::INDEX_EXISTS.with([&name, &table]))
}

/// The filegroup of each partition of an object in a data space.
fn filegroups_of(snapshot: &DatabaseSnapshot, space: &DataSpace) -> Result<Vec<FilegroupId>> {
    match space {
        DataSpace::Filegroup(filegroup) => Ok(vec![*filegroup]),
        DataSpace::Scheme { scheme, .. } => {
            let scheme = snapshot.partition_scheme_by_id(*scheme);
            let missing = || EngineError::from(SqlError::internal("a partition scheme is gone"));
            Ok(scheme.ok_or_else(missing)?.filegroups.clone())
        }
    }
}

impl Database {
    /// The table with additional indexes, and warnings. Indexes without partitions are to be created and filled. A
    /// clustered index replaces the heap, and all others are then rebuilt.
    pub(super) fn plan_indexes(
        &self,
        snapshot: &DatabaseSnapshot,
        mut table: Table,
        definitions: &[IndexDefinition],
    ) -> Result<(Table, Vec<SqlError>)> {
        let mut warnings = Vec::new();
        // The clustered index first: it determines what the rows of the others refer to.
        let takes_base = |table: &Table, definition: &IndexDefinition| {
            let is_primary = definition.constraint == Some(KeyKind::Primary);
            definition.is_clustered.unwrap_or(is_primary && !table.is_clustered())
        };
        let explicit = definitions.iter().any(|definition| definition.is_clustered == Some(true));
        let wants_base = |table: &Table, definition: &IndexDefinition| match definition.is_clustered {
            None if explicit => false,
            _ => takes_base(table, definition),
        };
        let base: Vec<bool> = definitions.iter().map(|definition| wants_base(&table, definition)).collect();
        let order = (0..definitions.len()).filter(|&at| base[at]).chain((0..definitions.len()).filter(|&at| !base[at]));
        for at in order {
            let index = self.plan_index(snapshot, &table, &definitions[at], base[at], &mut warnings)?;
            let mut indexes = std::mem::take(&mut table.indexes);
            if index.kind == IndexKind::Clustered {
                indexes[0] = index;
                for other in &mut indexes[1..] {
                    other.partitions.clear();
                }
            } else {
                indexes.push(index);
            }
            table = table.with_indexes(indexes);
        }
        Ok((table, warnings))
    }

    fn plan_index(
        &self,
        snapshot: &DatabaseSnapshot,
        table: &Table,
        definition: &IndexDefinition,
        is_clustered: bool,
        warnings: &mut Vec<SqlError>,
    ) -> Result<Index> {
        let constraint = definition.constraint.map(|kind| KeyConstraint {
            id: self.next_object_id(snapshot),
            is_primary: kind == KeyKind::Primary,
            is_system_named: definition.name.is_none(),
        });
        let name = match (&definition.name, constraint) {
            (Some(name), _) => name.clone(),
            (None, Some(constraint)) => made_up_name(&table.name, constraint),
            (None, None) => String::new(),
        };
        check_name(&name)?;
        if table.index_named(&name).is_some() {
            return Err(index_exists(&name, &table.name));
        }
        if constraint.is_some() && snapshot.has_object(table.schema, &name) {
            return Err(name_is_taken(&name));
        }
        check_kind(table, definition, is_clustered)?;
        if definition.options.ignores_duplicates && !definition.options.is_unique && constraint.is_none() {
            return Err(EngineError::Statement(errors::IGNORED_NOT_UNIQUE.error()));
        }
        let key = key_columns(table, definition, &name)?;
        let included = included_columns(table, definition, is_clustered, &key)?;
        check_key_bytes(table, &name, &key, is_clustered, warnings)?;
        let data_space = match &definition.data_space {
            DataSpaceDefinition::Default => table.base_index().data_space.clone(),
            other => place::resolve(snapshot, &table.name, &table.columns, other)?.data_space,
        };
        let mut options = definition.options;
        options.is_unique |= constraint.is_some();
        if let DataSpace::Scheme { column, .. } = data_space
            && options.is_unique
            && key.iter().all(|part| part.column != column)
        {
            return Err(EngineError::Statement(
                errors::PARTITION_COLUMN_NOT_IN_KEY.with([&table.columns[column].name, &name]),
            ));
        }
        // Statistics that belong to no index have numbers too.
        let statistics = snapshot.statistics_of(table);
        let taken = statistics.iter().map(|each| each.id).chain(table.indexes.iter().map(|index| index.id.0));
        let next = taken.max().unwrap_or(0).max(1) + 1;
        Ok(Index {
            id: IndexId(if is_clustered { 1 } else { next }),
            name: Some(name),
            kind: if is_clustered { IndexKind::Clustered } else { IndexKind::Nonclustered },
            data_space,
            partitions: Vec::new(),
            key,
            included,
            constraint,
            options,
            usage: IndexUsage::default(),
        })
    }

    /// Creates an empty heap or tree for each partition of the table's indexes that has none. They are dropped if the
    /// statement is undone.
    pub(super) fn create_stores(
        self: &Arc<Database>,
        ctx: &StatementContext,
        snapshot: &DatabaseSnapshot,
        mut table: Table,
    ) -> Result<Table> {
        for at in 0..table.indexes.len() {
            let index = &table.indexes[at];
            if !index.partitions.is_empty() || index.options.is_disabled {
                continue;
            }
            let mut partitions = Vec::new();
            for (filegroup, number) in filegroups_of(snapshot, &index.data_space)?.into_iter().zip(1..) {
                partitions.push(self.create_store(ctx, &table, index, filegroup, PartitionNumber(number))?);
            }
            table.indexes[at].partitions = partitions;
        }
        Ok(table)
    }

    /// Creates an empty heap or tree for one partition of an index. It is dropped if the statement is undone.
    pub(super) fn create_store(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: &Table,
        index: &Index,
        filegroup: FilegroupId,
        number: PartitionNumber,
    ) -> Result<Partition> {
        let id = self.next_hobt_id();
        let made = match self.store_shape(table, index, filegroup) {
            StoreShape::Heap { rows, layout_version } => {
                Hobt::create(&self.storage, id, filegroup, rows, layout_version, ctx).map(RowStore::Heap)
            }
            StoreShape::Tree(shape) => {
                BTree::create(&self.storage, &TreeDescription { id, ..shape }, ctx).map(RowStore::Tree)
            }
        };
        let made = made.map_err(|error| self.storage_error(error))?;
        let partition = Partition { number, hobt: id, filegroup, run_list: made.hobt().run_list() };
        self.stores.write().insert(id, made);
        let database = Arc::clone(self);
        ctx.on_undo(move || {
            database.stores.write().remove(&id);
            Ok(())
        });
        Ok(partition)
    }
}

/// Refuses duplicates that a `CREATE TABLE` cannot have.
///
/// # Errors
/// 8110 a second primary key, 8112 a second clustered one.
pub(super) fn check_keys(table: &str, definitions: &[IndexDefinition]) -> Result<()> {
    let is_primary = |definition: &&IndexDefinition| definition.constraint == Some(KeyKind::Primary);
    if definitions.iter().filter(is_primary).count() > 1 {
        return Err(EngineError::Statement(errors::PRIMARY_KEY_TWICE.with([&table])));
    }
    if definitions.iter().filter(|definition| definition.is_clustered == Some(true)).count() > 1 {
        return Err(EngineError::Statement(errors::CLUSTERED_TWICE.with([&table])));
    }
    Ok(())
}

/// 1902, 1779.
fn check_kind(table: &Table, definition: &IndexDefinition, is_clustered: bool) -> Result<()> {
    let base = table.base_index();
    if is_clustered && base.kind == IndexKind::Clustered {
        return Err(EngineError::Statement(
            errors::CLUSTERED_EXISTS.with([&table.name, &base.name.as_deref().unwrap_or("")]),
        ));
    }
    let is_primary = |index: &Index| index.constraint.is_some_and(|constraint| constraint.is_primary);
    if definition.constraint == Some(KeyKind::Primary) && table.indexes.iter().any(is_primary) {
        return Err(EngineError::Statement(errors::PRIMARY_KEY_EXISTS.with([&table.name])));
    }
    Ok(())
}

/// 1911.
fn column_named(table: &Table, name: &str) -> Result<usize> {
    table.column_named(name).ok_or_else(|| EngineError::Statement(errors::NO_SUCH_KEY_COLUMN.with([&name])))
}

/// 1909.
fn column_twice(name: &str) -> EngineError {
    EngineError::Statement(errors::KEY_COLUMN_TWICE.with([&name]))
}

fn key_columns(table: &Table, definition: &IndexDefinition, name: &str) -> Result<Vec<IndexKeyColumn>> {
    if definition.columns.len() > KEY_COLUMNS_MAX {
        return Err(EngineError::Statement(errors::TOO_MANY_KEY_COLUMNS.with([
            &name,
            &table.name,
            &definition.columns.len(),
            &KEY_COLUMNS_MAX,
        ])));
    }
    let mut key: Vec<IndexKeyColumn> = Vec::with_capacity(definition.columns.len());
    for (column, is_descending) in &definition.columns {
        let place = column_named(table, column)?;
        if key.iter().any(|part| part.column == place) {
            return Err(column_twice(column));
        }
        let found = &table.columns[place];
        if KeyColumn::new(found.sql_type, Collation::default(), true, false).is_none() {
            return Err(EngineError::Statement(errors::KEY_COLUMN_TYPE.with([&found.name, &table.name])));
        }
        if found.nullable && definition.constraint == Some(KeyKind::Primary) {
            return Err(EngineError::Statement(errors::PRIMARY_KEY_NULLABLE.with([&table.name])));
        }
        key.push(IndexKeyColumn { column: place, is_descending: *is_descending });
    }
    Ok(key)
}

fn included_columns(
    table: &Table,
    definition: &IndexDefinition,
    is_clustered: bool,
    key: &[IndexKeyColumn],
) -> Result<Vec<usize>> {
    if is_clustered && !definition.included.is_empty() {
        return Err(EngineError::Statement(errors::INCLUDED_IN_CLUSTERED.error()));
    }
    let mut included: Vec<usize> = Vec::with_capacity(definition.included.len());
    for column in &definition.included {
        let place = column_named(table, column)?;
        if included.contains(&place) || key.iter().any(|part| part.column == place) {
            return Err(column_twice(column));
        }
        included.push(place);
    }
    Ok(included)
}

/// 1944, and the warning 1945.
fn check_key_bytes(
    table: &Table,
    name: &str,
    key: &[IndexKeyColumn],
    is_clustered: bool,
    warnings: &mut Vec<SqlError>,
) -> Result<()> {
    let types = || key.iter().map(|part| table.columns[part.column].sql_type);
    let least: usize = types().filter(|sql_type| !is_variable(*sql_type)).map(most_bytes).sum();
    let most: usize = types().map(most_bytes).sum();
    let (kind, limit) = match is_clustered {
        true => ("a clustered", key_bytes_max(IndexKind::Clustered)),
        false => ("a nonclustered", key_bytes_max(IndexKind::Nonclustered)),
    };
    if least > limit {
        return Err(EngineError::Statement(errors::KEY_TOO_LONG_DEFINITION.with([&name, &least, &kind, &limit])));
    }
    if most > limit {
        warnings.push(errors::KEY_TOO_LONG_WARNING.with([&kind, &limit, &name, &most]));
    }
    Ok(())
}

/// `PK__table___3213E83F5070F446`, as SQL Server generates names.
fn made_up_name(table: &str, constraint: KeyConstraint) -> String {
    let start: String = table.chars().chain(std::iter::repeat('_')).take(8).collect();
    let kind = if constraint.is_primary { "PK" } else { "UQ" };
    let mixed = hobt_base::SplitMix64::new(time_of_day().cast_unsigned()).next_u64() as u32;
    format!("{kind}__{start}__{mixed:08X}{:08X}", constraint.id.0)
}

/// An index of a table by its name.
///
/// # Errors
/// 7999 there is none of this name.
pub(super) fn index_named<'t>(table: &'t Table, name: &str) -> Result<&'t Index> {
    table
        .indexes
        .iter()
        .find(|index| index.name.as_deref().is_some_and(|own| name_equals(own, name)))
        .ok_or_else(|| EngineError::Statement(errors::NO_SUCH_INDEX.with([&name, &table.name])))
}

#[cfg(test)]
mod tests {
    use hobt_types::MaxLength;

    use super::*;

    #[test]
    fn keys_are_counted_as_sql_server_counts_them() {
        let text = Some("aé€😀".as_bytes());
        assert_eq!(key_value_bytes(SqlType::VarChar(MaxLength::Limited(10)), text), 4);
        assert_eq!(key_value_bytes(SqlType::NVarChar(MaxLength::Limited(10)), text), 10);
        assert_eq!(key_value_bytes(SqlType::VarBinary(MaxLength::Limited(10)), Some(&[0xF0; 3])), 3);
        assert_eq!(key_value_bytes(SqlType::NVarChar(MaxLength::Limited(10)), None), 0);
        assert_eq!(key_value_bytes(SqlType::NChar(10), Some(b"a")), 20);
        assert_eq!(key_value_bytes(SqlType::Int, None), 4);
    }
}
