//! Columns of tables: adding, dropping, altering and renaming them.
//!
//! A change of the row layout gives the table new storage, which the caller fills. A change of names does not.

use std::sync::Arc;

use hobt_base::errors;
use hobt_catalog::{
    DataSpace, DatabaseSnapshot, SnapshotChange, Statistics, StatisticsOrigin, Table, TableColumn, VirtualColumn,
    name_equals,
};
use hobt_page::MAX_COLUMNS;
use hobt_txn::StatementContext;
use hobt_types::{Collation, MaxLength, SqlType};

use super::Database;
use super::claim::LockTable;
use super::pending::{Name, Sharing};
use super::table::{identity_twice, table_column, too_many_columns};
use super::table_change::TableChange;
use crate::definition::{ColumnDefinition, check_name};
use crate::error::{EngineError, Result, no_such_object};

/// What `ALTER COLUMN` specifies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnAlteration {
    /// Its type.
    pub sql_type: SqlType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The collation of text; if absent, the current one, or the database's.
    pub collation: Option<Collation>,
}

/// 2705.
fn column_twice(table: &str, column: &str) -> EngineError {
    EngineError::Statement(errors::DUPLICATE_COLUMN.with([&column, &table]))
}

/// 5074.
fn is_needed(kind: &str, name: &str, column: &str) -> EngineError {
    EngineError::Statement(errors::COLUMN_NEEDED.with([&kind, &name, &column]))
}

/// 4924.
fn no_such_column(action: &str, table: &str, column: &str) -> EngineError {
    EngineError::Statement(errors::ALTER_NO_SUCH_COLUMN.with([&action, &column, &table]))
}

/// Whether all values of one type have the same stored form in another type.
pub fn is_stored_alike(from: SqlType, to: SqlType) -> bool {
    let grows = |from: MaxLength, to: MaxLength| match (from, to) {
        (_, MaxLength::Max) => true,
        (MaxLength::Limited(from), MaxLength::Limited(to)) => from <= to,
        (MaxLength::Max, MaxLength::Limited(_)) => false,
    };
    let same = match (from, to) {
        (SqlType::VarChar(from), SqlType::VarChar(to))
        | (SqlType::NVarChar(from), SqlType::NVarChar(to))
        | (SqlType::VarBinary(from), SqlType::VarBinary(to)) => grows(from, to),
        _ => from == to,
    };
    same && from.physical() == to.physical()
}

/// The table without storage, which is to be created anew.
fn relaid(mut table: Table) -> Result<Table> {
    table.layout_version += 1;
    let mut indexes = std::mem::take(&mut table.indexes);
    indexes.iter_mut().for_each(|index| index.partitions.clear());
    let table = table.with_indexes(indexes);
    if table.rows.page_layout(1).is_none() {
        return Err(EngineError::Statement(errors::ROW_DOES_NOT_FIT_PAGE.with([&table.name])));
    }
    Ok(table)
}

/// Refuses if an index, a constraint or the like prevents that a column is dropped, or gets another type (`alters`).
fn check_not_needed(snapshot: &DatabaseSnapshot, table: &Table, place: usize, alters: bool) -> Result<()> {
    let column = &table.columns[place];
    for index in &table.indexes {
        let is_key = index.key.iter().any(|part| part.column == place) || index.included.contains(&place);
        let is_space = matches!(&index.data_space, DataSpace::Scheme { column, .. } if *column == place);
        if is_key || is_space {
            let name = index.name.as_deref().unwrap_or(&table.name);
            let kind = if index.name.is_some() { "index" } else { "partitioned table" };
            return Err(is_needed(kind, name, &column.name));
        }
    }
    for key in &table.constraints.foreign_keys {
        if key.columns.contains(&column.id) {
            return Err(is_needed("object", &key.head.name, &column.name));
        }
    }
    let is_of_user = |each: &&Arc<Statistics>| each.origin == StatisticsOrigin::User && !each.auto_drop;
    let statistics = snapshot.statistics_of(table);
    if let Some(one) = statistics.iter().filter(is_of_user).find(|each| each.columns.contains(&column.id)) {
        return Err(is_needed("statistics", &one.name, &column.name));
    }
    match &column.default {
        Some(default) if !alters => Err(is_needed("object", &default.name, &column.name)),
        _ => Ok(()),
    }
}

impl Database {
    /// `ALTER TABLE … ADD` of columns, including computed ones. The table gets new storage unless none of them is
    /// stored.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 103, 1701, 1702, 2705, 2744.
    pub fn begin_add_columns(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        columns: &[ColumnDefinition],
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |snapshot, old| {
            let mut new = old.clone();
            for column in columns {
                check_name(&column.name)?;
                if new.column_named(&column.name).is_some() || new.virtual_column_named(&column.name).is_some() {
                    return Err(column_twice(&old.name, &column.name));
                }
                if column.identity.is_some() && new.identity_column().is_some() {
                    return Err(identity_twice(&old.name));
                }
                let made = table_column(snapshot, old.id, &old.name, column, new.next_column_id())?;
                match &column.computed {
                    Some(computed) if !computed.is_persisted => new.virtual_columns.push(VirtualColumn {
                        id: made.id,
                        name: made.name,
                        sql_type: made.sql_type,
                        nullable: made.nullable,
                        collation: made.collation,
                        definition: computed.definition.clone(),
                    }),
                    _ => new.columns.push(made),
                }
                // As CREATE TABLE counts them.
                if new.columns.len() + new.virtual_columns.len() > MAX_COLUMNS {
                    return Err(too_many_columns("ALTER TABLE", &column.name, &old.name));
                }
            }
            let is_relaid = new.columns.len() > old.columns.len();
            Ok((if is_relaid { relaid(new)? } else { new }, Vec::new()))
        })
    }

    /// `ALTER TABLE … DROP COLUMN`. The caller has checked that no expression uses the column any more.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 4923, 4924, 5074.
    pub fn begin_drop_column(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        column: &str,
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |snapshot, old| {
            let mut new = old.clone();
            if new.virtual_column_named(column).is_some() {
                new.virtual_columns.retain(|known| !name_equals(&known.name, column));
                return Ok((new, Vec::new()));
            }
            let place = old.column_named(column).ok_or_else(|| no_such_column("DROP COLUMN", &old.name, column))?;
            if old.columns.len() == 1 {
                return Err(EngineError::Statement(errors::ONLY_COLUMN.with([&column, &old.name])));
            }
            check_not_needed(snapshot, old, place, false)?;
            let id = old.columns[place].id;
            for other in snapshot.tables.values() {
                for key in &other.constraints.foreign_keys {
                    if key.referenced == old.id && key.referenced_columns.contains(&id) {
                        return Err(is_needed("object", &key.head.name, column));
                    }
                }
            }
            new.columns.remove(place);
            let shift = |column: &mut usize| *column -= usize::from(*column > place);
            for index in &mut new.indexes {
                index.key.iter_mut().for_each(|part| shift(&mut part.column));
                index.included.iter_mut().for_each(shift);
                if let DataSpace::Scheme { column, .. } = &mut index.data_space {
                    shift(column);
                }
            }
            Ok((relaid(new)?, Vec::new()))
        })
    }

    /// `ALTER TABLE … ALTER COLUMN`. The table gets new storage unless its rows can stay as they are.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 4924, 4928, 5074.
    pub fn begin_alter_column(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        column: &str,
        alteration: ColumnAlteration,
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |snapshot, old| {
            let cannot = |why: &str| EngineError::Statement(errors::CANNOT_ALTER_COLUMN.with([&column, &why]));
            if old.virtual_column_named(column).is_some() {
                return Err(cannot("COMPUTED"));
            }
            let place = old.column_named(column).ok_or_else(|| no_such_column("ALTER COLUMN", &old.name, column))?;
            let known = &old.columns[place];
            if known.computed.is_some() {
                return Err(cannot("COMPUTED"));
            }
            let is_alike = is_stored_alike(known.sql_type, alteration.sql_type);
            let of_text = known.collation.unwrap_or(snapshot.collation);
            let collation = alteration.sql_type.is_text().then(|| alteration.collation.unwrap_or(of_text));
            let becomes_nullable = alteration.nullable && !known.nullable;
            let is_primary = |index: &&hobt_catalog::Index| {
                index.constraint.is_some_and(|constraint| constraint.is_primary)
                    && index.key.iter().any(|part| part.column == place)
            };
            if let Some(index) = old.indexes.iter().find(is_primary).filter(|_| becomes_nullable) {
                return Err(is_needed("object", index.name.as_deref().unwrap_or_default(), column));
            }
            if !is_alike || (known.collation.is_some() && collation != known.collation) {
                check_not_needed(snapshot, old, place, true)?;
            }
            let mut new = old.clone();
            let changed = TableColumn {
                sql_type: alteration.sql_type,
                nullable: alteration.nullable,
                collation,
                ..known.clone()
            };
            let is_relaid = !is_alike || changed.nullable != known.nullable;
            new.columns[place] = changed;
            Ok((if is_relaid { relaid(new)? } else { new }, Vec::new()))
        })
    }

    /// `sp_rename` of a column. The caller has checked that no expression uses the column.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 103, 207, 15335.
    pub fn begin_rename_column(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        (old_name, new_name): (&str, &str),
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |_, old| {
            check_name(new_name)?;
            let mut new = old.clone();
            let is_other = |name: &str| name_equals(name, new_name) && !name_equals(name, old_name);
            if old.columns.iter().any(|column| is_other(&column.name))
                || old.virtual_columns.iter().any(|column| is_other(&column.name))
            {
                return Err(already_in_use(new_name, "COLUMN"));
            }
            let stored = new.columns.iter_mut().map(|column| &mut column.name);
            let mut names = stored.chain(new.virtual_columns.iter_mut().map(|column| &mut column.name));
            let name = names
                .find(|name| name_equals(name, old_name))
                .ok_or_else(|| EngineError::Statement(errors::INVALID_COLUMN.with([&old_name])))?;
            new_name.clone_into(name);
            Ok((new, Vec::new()))
        })
    }

    /// `sp_rename` of an index or a constraint of a table.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 103, 2714, 3728, 15335.
    pub fn begin_rename_part(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        (old_name, new_name): (&str, &str),
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |snapshot, old| {
            check_name(new_name)?;
            let mut new = old.clone();
            if !name_equals(old_name, new_name) && old.index_named(new_name).is_some() {
                return Err(already_in_use(new_name, "INDEX"));
            }
            let mut is_constraint = false;
            let mut is_found = false;
            for index in &mut new.indexes {
                if index.name.as_deref().is_some_and(|name| name_equals(name, old_name)) {
                    index.name = Some(new_name.to_owned());
                    is_constraint |= index.constraint.is_some();
                    is_found = true;
                }
            }
            let heads = new.constraints.heads_mut().map(|head| &mut head.name);
            let defaults = new.columns.iter_mut().filter_map(|column| column.default.as_mut());
            for name in heads.chain(defaults.map(|default| &mut default.name)) {
                if name_equals(name, old_name) {
                    new_name.clone_into(name);
                    is_constraint = true;
                    is_found = true;
                }
            }
            if !is_found {
                return Err(super::constraint::no_such_constraint(old_name));
            }
            if is_constraint && !name_equals(old_name, new_name) && snapshot.has_object(old.schema, new_name) {
                return Err(already_in_use(new_name, "OBJECT"));
            }
            Ok((new, Vec::new()))
        })
    }

    /// `sp_rename` of a table.
    ///
    /// # Errors
    /// 1088, 2801, 103, 15335; what `lock` returns; a device's error, after which the statement must be rolled back.
    pub fn rename_table(
        self: &Arc<Database>,
        ctx: &StatementContext,
        (schema, old_name): (&str, &str),
        new_name: &str,
        lock: &mut LockTable<'_>,
    ) -> Result<()> {
        check_name(new_name)?;
        let missing = || EngineError::Statement(no_such_object(old_name));
        let schema = self.snapshot_of(ctx).schema_id(schema).ok_or_else(missing)?;
        let (change, old) = self.claim_locked(ctx, schema, old_name, lock, &|_| missing())?;
        let other = self.begin(ctx, vec![(Name::object(schema, new_name), Sharing::Exclusive)])?;
        let snapshot = self.snapshot_of(ctx);
        if snapshot.has_object(schema, new_name) && !name_equals(old_name, new_name) {
            other.release();
            return Err(already_in_use(new_name, "OBJECT"));
        }
        let new = Arc::new(Table { name: new_name.to_owned(), ..(*old).clone() });
        let written = Arc::clone(&new);
        self.write_rows(ctx, |system, rows| {
            system.delete_table(rows, written.id)?;
            system.insert_table(rows, &written)
        })?;
        change.add(SnapshotChange::AddTable(new));
        Ok(())
    }
}

/// 15335.
fn already_in_use(name: &str, kind: &str) -> EngineError {
    EngineError::Statement(errors::NAME_IN_USE.with([&name, &kind]))
}
