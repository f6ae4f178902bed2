//! CREATE TABLE and DROP TABLE.

use std::sync::Arc;

use hobt_access::RowStore;
use hobt_base::{HobtId, ObjectId, PAGE_SIZE, SqlError, errors};
use hobt_catalog::{
    ColumnDefault, DatabaseSnapshot, Index, SYS_SCHEMA, SnapshotChange, Table, TableColumn, TableConstraints,
    VirtualColumn,
};
use hobt_page::MAX_COLUMNS;
use hobt_txn::StatementContext;
use hobt_types::SqlType;

use super::claim::LockTable;
use super::pending::{Claim, Name, Sharing};
use super::{Database, place};
use crate::definition::{ColumnDefinition, ComputedDefinition, TableDefinition, check_name};
use crate::error::{EngineError, Result, cannot_drop, name_is_taken};
use hobt_instruments::time_of_day;

/// The maximum row size, as SQL Server counts it.
const ROW_BYTES_MAX: usize = 8060;

/// The id of a schema in which objects can be created.
pub(super) fn schema_id(snapshot: &DatabaseSnapshot, name: &str) -> Result<i32> {
    snapshot
        .schema_id(name)
        .filter(|id| *id != SYS_SCHEMA)
        .ok_or_else(|| EngineError::Statement(errors::SCHEMA_DOES_NOT_EXIST.with([&name])))
}

impl Database {
    /// Creates a table with an empty heap for each partition. Others see it when the statement commits. The statement
    /// itself can use it at once.
    ///
    /// # Errors
    /// 2714, 2705, 1702, 1701, 2760, 1921, 622, 1911, 7726, 103; 1105 or a device's error, after which the statement
    /// must be rolled back.
    pub fn create_table(
        self: &Arc<Database>,
        ctx: &StatementContext,
        definition: &TableDefinition,
    ) -> Result<Arc<Table>> {
        Ok(self.create_table_with_warnings(ctx, definition)?.0)
    }

    /// Like [`Database::create_table`], and also returns warnings (1945).
    ///
    /// # Errors
    /// As [`Database::create_table`].
    pub fn create_table_with_warnings(
        self: &Arc<Database>,
        ctx: &StatementContext,
        definition: &TableDefinition,
    ) -> Result<(Arc<Table>, Vec<SqlError>)> {
        check_name(&definition.name)?;
        let schema = schema_id(&self.snapshot_of(ctx), &definition.schema)?;
        let mut claims: Vec<Claim> =
            vec![(Name::object(schema, &definition.name), Sharing::Exclusive), (Name::Schema(schema), Sharing::Shared)];
        if let crate::DataSpaceDefinition::Scheme { scheme, .. } = &definition.data_space {
            claims.push((Name::partition_scheme(scheme), Sharing::Shared));
        }
        let change = self.begin(ctx, claims)?;
        let snapshot = self.snapshot_of(ctx);
        // The schema may have been dropped while the claim waited.
        schema_id(&snapshot, &definition.schema)?;
        if snapshot.has_object(schema, &definition.name) {
            return Err(name_is_taken(&definition.name));
        }
        let id = self.next_object_id(&snapshot);
        let (columns, virtual_columns) = table_columns(&snapshot, id, definition)?;
        let place = place::resolve(&snapshot, &definition.name, &columns, &definition.data_space)?;
        let table = Table {
            id,
            schema,
            name: definition.name.clone(),
            is_system: false,
            created: time_of_day(),
            rows: Arc::new(Table::row_layout(&columns)),
            columns,
            layout_version: 1,
            indexes: vec![Index::heap(place.data_space, Vec::new())],
            lock_escalation: 0,
            virtual_columns,
            constraints: TableConstraints::default(),
        };
        super::index::check_keys(&definition.name, &definition.indexes)?;
        let (table, warnings) = self.plan_indexes(&snapshot, table, &definition.indexes)?;
        let table = Arc::new(self.create_stores(ctx, &snapshot, table)?);
        let written = Arc::clone(&table);
        self.write_rows(ctx, |heaps, rows| heaps.insert_table(rows, &written))?;
        change.add(SnapshotChange::AddTable(Arc::clone(&table)));
        Ok((table, warnings))
    }

    /// Drops a table and returns its id. Its extents are free when the statement has committed.
    ///
    /// # Errors
    /// 3701, 3705 if it is not a table, 2801 it was recreated again and again; what `lock` returns; a device's error,
    /// after which the statement must be rolled back.
    pub fn drop_table(
        self: &Arc<Database>,
        ctx: &StatementContext,
        schema: &str,
        name: &str,
        lock: &mut LockTable<'_>,
    ) -> Result<ObjectId> {
        let schema = self.snapshot_of(ctx).schema_id(schema).ok_or_else(|| cannot_drop("table", name))?;
        let (change, table) = self.claim_locked(ctx, schema, name, lock, &|snapshot| {
            if let Some(module) = snapshot.module(schema, name) {
                return super::module::wrong_kind("TABLE", module);
            }
            cannot_drop("table", name)
        })?;
        super::foreign_key::check_not_referenced(&self.snapshot_of(ctx), &table)?;
        let stores = self.stores_of(&table)?;
        let id = table.id;
        let has_identity = table.identity_column().is_some();
        let is_shown = !self.shown_counts.read().is_empty();
        self.write_rows(ctx, |system, rows| {
            if is_shown {
                system.delete_shown_counts(rows, id)?;
            }
            if has_identity {
                system.set_identity_position(rows, id, None)?;
            }
            system.delete_all_statistics(rows, id)?;
            system.delete_table(rows, id)
        })?;
        self.drop_stores(ctx, &stores)?;
        change.add(SnapshotChange::RemoveTable(id));
        Ok(id)
    }

    /// Frees the storage of stores when the statement commits.
    pub(super) fn drop_stores(self: &Arc<Database>, ctx: &StatementContext, stores: &[RowStore]) -> Result<()> {
        // In this order: they cannot be found any more, they cannot be changed any more, their extents are free.
        let ids: Vec<HobtId> = stores.iter().map(|store| store.hobt().id()).collect();
        let database = Arc::clone(self);
        ctx.on_commit(move || {
            database.stores.write().retain(|id, _| !ids.contains(id));
            database.shown_counts.write().retain(|id, _| !ids.contains(id));
            database.forget_waits(|hobt| ids.contains(&hobt));
            Ok(())
        });
        for store in stores {
            store.hobt().drop_storage(ctx).map_err(|error| self.storage_error(error))?;
        }
        Ok(())
    }

    /// The heaps and trees of all partitions of a table, opened.
    pub(super) fn stores_of(&self, table: &Table) -> Result<Vec<RowStore>> {
        table.indexes.iter().flat_map(|index| &index.partitions).map(|partition| self.store(partition.hobt)).collect()
    }
}

fn table_columns(
    snapshot: &DatabaseSnapshot,
    table: ObjectId,
    definition: &TableDefinition,
) -> Result<(Vec<TableColumn>, Vec<VirtualColumn>)> {
    let name = &definition.name;
    let columns = &definition.columns;
    if columns.is_empty() {
        return Err(EngineError::Statement(errors::TABLE_WITHOUT_COLUMNS.with([&name])));
    }
    if let Some(first_too_many) = columns.get(MAX_COLUMNS) {
        return Err(too_many_columns("CREATE TABLE", &first_too_many.name, name));
    }
    let mut seen = std::collections::HashSet::new();
    for column in columns {
        check_name(&column.name)?;
        if !seen.insert(column.name.to_lowercase()) {
            return Err(EngineError::Statement(errors::DUPLICATE_COLUMN.with([&column.name, &name])));
        }
    }
    if columns.iter().filter(|column| column.identity.is_some()).count() > 1 {
        return Err(identity_twice(name));
    }
    check_row_size(definition)?;
    let mut stored = Vec::with_capacity(columns.len());
    let mut virtual_columns = Vec::new();
    for (column, id) in columns.iter().zip(1..) {
        let made = table_column(snapshot, table, &definition.name, column, id)?;
        match (&column.computed, made.computed.clone()) {
            (Some(ComputedDefinition { is_persisted: false, .. }), Some(definition)) => {
                virtual_columns.push(VirtualColumn {
                    id,
                    name: made.name,
                    sql_type: made.sql_type,
                    nullable: made.nullable,
                    collation: made.collation,
                    definition,
                });
            }
            _ => stored.push(made),
        }
    }
    if stored.is_empty() {
        return Err(EngineError::Statement(errors::ONLY_COMPUTED_COLUMNS.with([&name])));
    }
    Ok((stored, virtual_columns))
}

/// 2744.
pub(super) fn identity_twice(table: &str) -> EngineError {
    EngineError::Statement(errors::IDENTITY_TWICE.with([&table]))
}

/// Builds a column of a table, with the id that it gets.
pub(super) fn table_column(
    snapshot: &DatabaseSnapshot,
    table: ObjectId,
    table_name: &str,
    column: &ColumnDefinition,
    id: i32,
) -> Result<TableColumn> {
    if column.identity.is_some_and(|identity| identity.increment == 0) {
        return Err(EngineError::Statement(errors::IDENTITY_INCREMENT_ZERO.with([&column.name])));
    }
    let default = match &column.default {
        None => None,
        Some(default) => {
            let name = match &default.name {
                Some(name) => name.clone(),
                None => made_up_name(table_name, &column.name, table, id),
            };
            check_name(&name)?;
            Some(ColumnDefault { name, definition: default.definition.clone() })
        }
    };
    Ok(TableColumn {
        id,
        name: column.name.clone(),
        sql_type: column.sql_type,
        nullable: column.nullable,
        collation: column.sql_type.is_text().then(|| column.collation.unwrap_or(snapshot.collation)),
        default,
        identity: column.identity,
        is_rowguid: column.is_rowguid,
        computed: column.computed.as_ref().map(|computed| computed.definition.clone()),
    })
}

/// `DF__table____colum__0E391C95`, as SQL Server generates names.
fn made_up_name(table: &str, column: &str, id: ObjectId, column_id: i32) -> String {
    let start =
        |text: &str, length: usize| -> String { text.chars().chain(std::iter::repeat('_')).take(length).collect() };
    let hash = id.0.cast_unsigned().wrapping_add(column_id.cast_unsigned());
    format!("DF__{}__{}__{hash:08X}", start(table, 9), start(column, 5))
}

/// Checks that the fixed-length part of a row fits SQL Server's limit, and this database's.
fn check_row_size(definition: &TableDefinition) -> Result<()> {
    let is_stored = |column: &&ColumnDefinition| column.computed.as_ref().is_none_or(|computed| computed.is_persisted);
    let columns: Vec<&ColumnDefinition> = definition.columns.iter().filter(is_stored).collect();
    let fixed = |sql_type: SqlType| match sql_type {
        SqlType::VarChar(_) | SqlType::NVarChar(_) | SqlType::VarBinary(_) => 0,
        _ => usize::from(sql_type.max_length_bytes().unsigned_abs()),
    };
    let overhead = 6 + columns.len().div_ceil(8);
    let bytes = overhead + columns.iter().map(|column| fixed(column.sql_type)).sum::<usize>();
    let layout = hobt_page::RowLayout::new(
        columns
            .iter()
            .map(|column| hobt_page::ColumnLayout { physical: column.sql_type.physical(), nullable: column.nullable })
            .collect(),
    );
    // Padded text is stored as UTF-8, one byte for each space.
    let padding: usize = columns
        .iter()
        .map(|column| match column.sql_type {
            SqlType::Char(length) | SqlType::NChar(length) | SqlType::Binary(length) => usize::from(length),
            _ => 0,
        })
        .sum();
    let in_page = layout.page_bytes_bound(1, padding);
    if bytes <= ROW_BYTES_MAX && in_page <= PAGE_SIZE {
        return Ok(());
    }
    Err(EngineError::Statement(errors::ROW_TOO_LARGE_DEFINITION.with([
        &definition.name,
        &bytes.max(in_page),
        &overhead,
        &ROW_BYTES_MAX,
    ])))
}

/// 1702 for a statement that makes or changes a table.
pub(super) fn too_many_columns(statement: &str, column: &str, table: &str) -> EngineError {
    EngineError::Statement(errors::TOO_MANY_COLUMNS.with([&statement, &column, &table, &MAX_COLUMNS]))
}
