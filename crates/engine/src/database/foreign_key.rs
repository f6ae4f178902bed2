//! FOREIGN KEY constraints: their targets, and what must not be dropped while they refer to it.

use std::collections::HashSet;
use std::sync::Arc;

use hobt_base::{ObjectId, errors};
use hobt_catalog::{DatabaseSnapshot, ForeignKey, Index, ReferentialRule, Table, name_equals};
use hobt_txn::StatementContext;

use super::Database;
use super::claim::LockTable;
use super::pending::{Name, Sharing};
use super::table_change::TableChange;
use crate::error::{EngineError, Result};

/// A `FOREIGN KEY` constraint as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignKeyDefinition {
    /// Its name; generated if absent.
    pub name: Option<String>,
    /// The referring columns.
    pub columns: Vec<String>,
    /// The schema and name of the table referred to.
    pub referenced: (String, String),
    /// The columns referred to; those of the primary key if empty.
    pub referenced_columns: Vec<String>,
    /// `ON DELETE`.
    pub on_delete: ReferentialRule,
    /// `ON UPDATE`.
    pub on_update: ReferentialRule,
    /// `NOT FOR REPLICATION`.
    pub not_for_replication: bool,
    /// `WITH NOCHECK`: existing rows are not checked.
    pub is_not_trusted: bool,
}

/// The first foreign key that refers to a table, from any table.
pub(super) fn first_reference_of_any<'s>(snapshot: &'s DatabaseSnapshot, table: &Table) -> Option<&'s ForeignKey> {
    let mut keys = snapshot.tables.values().flat_map(|other| &other.constraints.foreign_keys);
    keys.find(|key| key.referenced == table.id)
}

/// The first foreign key that refers to a table, from another table. With `index`, the first one that refers to that
/// index, from any table.
pub(super) fn first_reference<'s>(
    snapshot: &'s DatabaseSnapshot,
    table: &Table,
    index: Option<&Index>,
) -> Option<(&'s Table, &'s ForeignKey)> {
    let keys = snapshot
        .tables
        .values()
        .flat_map(|other| other.constraints.foreign_keys.iter().map(move |key| (other.as_ref(), key)));
    let mut keys = keys.filter(|(other, key)| {
        key.referenced == table.id
            && match index {
                Some(index) => key.referenced_index == index.id,
                None => other.id != table.id,
            }
    });
    keys.next()
}

/// 3726.
pub(super) fn check_not_referenced(snapshot: &DatabaseSnapshot, table: &Table) -> Result<()> {
    match first_reference(snapshot, table, None) {
        None => Ok(()),
        Some(_) => Err(EngineError::Statement(errors::REFERENCED_TABLE.with([&table.name]))),
    }
}

impl Database {
    /// `ALTER TABLE … ADD … FOREIGN KEY`, and the foreign keys of a new table. The caller checks whether existing rows
    /// satisfy it.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 103, 1767, 1769, 1770, 1773, 1776,
    /// 1778, 1785, 2714, 8139.
    pub fn begin_add_foreign_key(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        definition: &ForeignKeyDefinition,
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        // The referenced table is not dropped or renamed until this change has been committed or undone.
        let (schema, name) = (&definition.referenced.0, &definition.referenced.1);
        if let Some(schema) = self.snapshot_of(ctx).schema_id(schema) {
            let _claimed = self.begin(ctx, vec![(Name::object(schema, name), Sharing::Shared)])?;
        }
        self.begin_table_change(ctx, table, lock, &mut |snapshot, old| {
            let kind = ("FK", definition.name.as_deref(), definition.columns.first().map(String::as_str));
            let mut head = self.constraint_head(snapshot, old, kind)?;
            head.not_for_replication = definition.not_for_replication;
            head.is_not_trusted = definition.is_not_trusted;
            let id = snapshot.schema_id(schema);
            let other = id.and_then(|schema| snapshot.table(schema, name)).filter(|table| !table.is_system);
            let Some(other) = other else {
                return Err(EngineError::Statement(errors::FOREIGN_KEY_TABLE.with([&head.name, &schema, &name])));
            };
            let other: &Table = if other.id == old.id { old } else { other };
            let columns = own_columns(old, definition, &head.name)?;
            let (index, referenced) = referenced_columns(other, definition, &head.name)?;
            if columns.len() != referenced.len() {
                return Err(EngineError::Statement(errors::FOREIGN_KEY_COLUMN_COUNT.with([&old.name])));
            }
            for (own, their) in columns.iter().zip(&referenced) {
                let (own, their) = (&old.columns[*own], &other.columns[*their]);
                if own.sql_type != their.sql_type || own.collation != their.collation {
                    return Err(EngineError::Statement(errors::FOREIGN_KEY_TYPE.with([
                        &other.name,
                        &their.name,
                        &old.name,
                        &own.name,
                        &head.name,
                    ])));
                }
            }
            let id_of = |table: &Table, places: &[usize]| places.iter().map(|&at| table.columns[at].id).collect();
            let key = ForeignKey {
                columns: id_of(old, &columns),
                referenced: other.id,
                referenced_index: index,
                referenced_columns: id_of(other, &referenced),
                on_delete: definition.on_delete,
                on_update: definition.on_update,
                head,
            };
            check_paths(snapshot, old, &key)?;
            let mut new = old.clone();
            new.constraints.foreign_keys.push(key);
            Ok((new, Vec::new()))
        })
    }
}

fn own_columns(table: &Table, definition: &ForeignKeyDefinition, key: &str) -> Result<Vec<usize>> {
    let place = |name: &String| {
        table
            .column_named(name)
            .ok_or_else(|| EngineError::Statement(errors::FOREIGN_KEY_COLUMN.with([&key, &name, &table.name])))
    };
    definition.columns.iter().map(place).collect()
}

/// The unique index referred to, and its columns in the order of the foreign key.
fn referenced_columns(
    table: &Table,
    definition: &ForeignKeyDefinition,
    key: &str,
) -> Result<(hobt_base::IndexId, Vec<usize>)> {
    if definition.referenced_columns.is_empty() {
        let is_primary = |index: &&Index| index.constraint.is_some_and(|constraint| constraint.is_primary);
        return match table.indexes.iter().find(is_primary) {
            Some(index) => Ok((index.id, index.key.iter().map(|part| part.column).collect())),
            None => Err(EngineError::Statement(errors::FOREIGN_KEY_NO_PRIMARY_KEY.with([&key, &table.name]))),
        };
    }
    let mut places = Vec::with_capacity(definition.referenced_columns.len());
    for name in &definition.referenced_columns {
        places.push(table.column_named(name).ok_or_else(|| {
            EngineError::Statement(errors::FOREIGN_KEY_REFERENCED_COLUMN.with([&key, &name, &table.name]))
        })?);
    }
    let matches = |index: &&Index| {
        let columns: HashSet<usize> = index.key.iter().map(|part| part.column).collect();
        index.options.is_unique
            && !index.options.is_disabled
            && columns.len() == places.len()
            && places.iter().all(|place| columns.contains(place))
    };
    match table.indexes.iter().find(matches) {
        Some(index) => Ok((index.id, places)),
        None => Err(EngineError::Statement(errors::FOREIGN_KEY_NO_CANDIDATE.with([&table.name, &key]))),
    }
}

/// Refuses a key through which a cascading change could reach a table on two paths, or return to its origin.
///
/// # Errors
/// 1785.
fn check_paths(snapshot: &DatabaseSnapshot, table: &Table, key: &ForeignKey) -> Result<()> {
    let rules: [fn(&ForeignKey) -> ReferentialRule; 2] = [|key| key.on_delete, |key| key.on_update];
    for rule in rules {
        if rule(key) == ReferentialRule::NoAction {
            continue;
        }
        let mut edges: Vec<(ObjectId, ObjectId)> = Vec::new();
        for child in snapshot.tables.values() {
            let acting = child.constraints.foreign_keys.iter().filter(|key| rule(key) != ReferentialRule::NoAction);
            edges.extend(acting.map(|key| (key.referenced, child.id)));
        }
        let below = |from: ObjectId| reached(&edges, from, false);
        let above = |from: ObjectId| reached(&edges, from, true);
        let descendants = below(table.id);
        let is_cycle = descendants.contains(&key.referenced);
        let is_second_way =
            above(key.referenced).into_iter().any(|ancestor| !below(ancestor).is_disjoint(&descendants));
        if is_cycle || is_second_way {
            return Err(EngineError::Statement(errors::FOREIGN_KEY_CASCADE_PATHS.with([&key.head.name, &table.name])));
        }
    }
    Ok(())
}

/// The tables that can be reached from a table, itself included; `backwards` follows the edges in reverse.
fn reached(edges: &[(ObjectId, ObjectId)], from: ObjectId, backwards: bool) -> HashSet<ObjectId> {
    let mut found = HashSet::from([from]);
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for (parent, child) in edges {
            let (start, end) = if backwards { (child, parent) } else { (parent, child) };
            if *start == at && found.insert(*end) {
                open.push(*end);
            }
        }
    }
    found
}

/// 3725.
pub(super) fn check_index_not_referenced(snapshot: &DatabaseSnapshot, table: &Table, name: &str) -> Result<()> {
    let index = table.indexes.iter().find(|index| index.name.as_deref().is_some_and(|own| name_equals(own, name)));
    let found = index.and_then(|index| first_reference(snapshot, table, Some(index)));
    match found {
        None => Ok(()),
        Some((other, key)) => {
            Err(EngineError::Statement(errors::REFERENCED_KEY.with([&name, &other.name, &key.head.name])))
        }
    }
}
