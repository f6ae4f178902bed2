//! CHECK and FOREIGN KEY constraints: writing, reading and checking their rows.

use std::collections::HashSet;

use hobt_base::{IndexId, ObjectId};
use hobt_txn::StatementContext;

use crate::check::{BrokenRule, require};
use crate::error::{CatalogError, damaged};
use crate::heaps::SystemHeaps;
use crate::long_value::{LongValues, ValueClass};
use crate::schema::{DatabaseSnapshot, Table};
use crate::system::{ConstraintRow, ForeignKeyColumnRow, SystemTable, Timestamp};

/// The constraints of a table beyond types and keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableConstraints {
    /// `CHECK`.
    pub checks: Vec<CheckConstraint>,
    /// `FOREIGN KEY`.
    pub foreign_keys: Vec<ForeignKey>,
}

/// What all constraints have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConstraintHead {
    /// Its object id.
    pub id: ObjectId,
    /// Its name.
    pub name: String,
    /// When it was created: 100 ns since 1970-01-01 UTC.
    pub created: i64,
    /// Whether its name was generated.
    pub is_system_named: bool,
    /// `NOCHECK CONSTRAINT`: rows are not checked.
    pub is_disabled: bool,
    /// Whether there may be rows that were not checked.
    pub is_not_trusted: bool,
    /// `NOT FOR REPLICATION`.
    pub not_for_replication: bool,
}

/// A `CHECK` constraint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckConstraint {
    /// What all constraints have in common.
    pub head: ConstraintHead,
    /// The id of the column that it was written at; `None` for a table constraint.
    pub column: Option<i32>,
    /// The condition's text, in parentheses.
    pub definition: String,
}

/// What happens to referring rows when the row referred to is deleted or its key changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum ReferentialRule {
    /// The statement fails.
    #[default]
    NoAction = 0,
    /// They are deleted or changed too.
    Cascade = 1,
    /// Their columns become NULL.
    SetNull = 2,
    /// Their columns get their DEFAULTs.
    SetDefault = 3,
}

impl ReferentialRule {
    const ALL: [ReferentialRule; 4] =
        [ReferentialRule::NoAction, ReferentialRule::Cascade, ReferentialRule::SetNull, ReferentialRule::SetDefault];
}

/// A `FOREIGN KEY` constraint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignKey {
    /// What all constraints have in common.
    pub head: ConstraintHead,
    /// The ids of the referring columns.
    pub columns: Vec<i32>,
    /// The table that they refer to.
    pub referenced: ObjectId,
    /// The unique index there whose key its columns refer to.
    pub referenced_index: IndexId,
    /// The ids of the columns referred to, in the order of `columns`.
    pub referenced_columns: Vec<i32>,
    /// `ON DELETE`.
    pub on_delete: ReferentialRule,
    /// `ON UPDATE`.
    pub on_update: ReferentialRule,
}

const CHECK: u8 = 1;
const FOREIGN_KEY: u8 = 2;

const SYSTEM_NAMED: i32 = 1;
const DISABLED: i32 = 2;
const NOT_TRUSTED: i32 = 4;
const NOT_FOR_REPLICATION: i32 = 8;

impl ConstraintHead {
    fn status(&self) -> i32 {
        let bits = [
            (self.is_system_named, SYSTEM_NAMED),
            (self.is_disabled, DISABLED),
            (self.is_not_trusted, NOT_TRUSTED),
            (self.not_for_replication, NOT_FOR_REPLICATION),
        ];
        bits.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
    }

    fn of_row(row: &ConstraintRow) -> ConstraintHead {
        let has = |bit: i32| row.status & bit != 0;
        ConstraintHead {
            id: ObjectId(row.id),
            name: row.name.clone(),
            created: row.created.0,
            is_system_named: has(SYSTEM_NAMED),
            is_disabled: has(DISABLED),
            is_not_trusted: has(NOT_TRUSTED),
            not_for_replication: has(NOT_FOR_REPLICATION),
        }
    }

    fn row(&self, table: ObjectId, kind: u8) -> ConstraintRow {
        ConstraintRow {
            id: self.id.0,
            table: table.0,
            kind,
            name: self.name.clone(),
            created: Timestamp(self.created),
            status: self.status(),
            column: None,
            referenced: None,
            referenced_index: None,
            on_delete: 0,
            on_update: 0,
        }
    }
}

impl TableConstraints {
    /// The heads of all constraints, of every kind.
    pub fn heads(&self) -> impl Iterator<Item = &ConstraintHead> {
        self.checks.iter().map(|check| &check.head).chain(self.foreign_keys.iter().map(|key| &key.head))
    }

    /// Like [`TableConstraints::heads`], to be changed.
    pub fn heads_mut(&mut self) -> impl Iterator<Item = &mut ConstraintHead> {
        let checks = self.checks.iter_mut().map(|check| &mut check.head);
        checks.chain(self.foreign_keys.iter_mut().map(|key| &mut key.head))
    }
}

impl SystemHeaps {
    /// Writes the rows of a table's constraints.
    pub(crate) fn insert_constraints(&self, ctx: &StatementContext, table: &Table) -> Result<(), CatalogError> {
        for check in &table.constraints.checks {
            let row = ConstraintRow { column: check.column, ..check.head.row(table.id, CHECK) };
            self.insert(ctx, &row)?;
            let text = check.definition.as_bytes();
            self.insert_long(ctx, ValueClass::Check, table.id.0, check.head.id.0, Some(text))?;
        }
        for key in &table.constraints.foreign_keys {
            let row = ConstraintRow {
                referenced: Some(key.referenced.0),
                referenced_index: Some(key.referenced_index.0),
                on_delete: key.on_delete as u8,
                on_update: key.on_update as u8,
                ..key.head.row(table.id, FOREIGN_KEY)
            };
            self.insert(ctx, &row)?;
            for ((column, referenced), place) in key.columns.iter().zip(&key.referenced_columns).zip(1..) {
                let (table, constraint) = (table.id.0, key.head.id.0);
                let row = ForeignKeyColumnRow { table, constraint, place, column: *column, referenced: *referenced };
                self.insert(ctx, &row)?;
            }
        }
        Ok(())
    }

    /// Deletes the rows of a table's constraints.
    pub(crate) fn delete_constraints(&self, ctx: &StatementContext, table: ObjectId) -> Result<(), CatalogError> {
        if self.delete(ctx, |row: &ConstraintRow| row.table == table.0)? > 0 {
            self.delete(ctx, |row: &ForeignKeyColumnRow| row.table == table.0)?;
            self.delete_long(ctx, ValueClass::Check, table.0)?;
        }
        Ok(())
    }
}

/// Builds the constraints of a table from their rows.
pub(crate) fn load_constraints(
    mut rows: Vec<ConstraintRow>,
    mut columns: Vec<ForeignKeyColumnRow>,
    long: &mut LongValues,
) -> Result<TableConstraints, CatalogError> {
    let table = SystemTable::Constraints;
    rows.sort_by_key(|row| row.id);
    columns.sort_by_key(|row| (row.constraint, row.place));
    let mut constraints = TableConstraints::default();
    for row in rows {
        let head = ConstraintHead::of_row(&row);
        let wrong = |what: &str| damaged(table, format!("constraint '{}' {what}", row.name));
        match row.kind {
            CHECK => {
                let definition = long.take_text(ValueClass::Check, row.table, row.id)?;
                constraints.checks.push(CheckConstraint { head, column: row.column, definition });
            }
            FOREIGN_KEY => {
                let rule = |number: u8| ReferentialRule::ALL.get(usize::from(number)).copied();
                let own: Vec<&ForeignKeyColumnRow> =
                    columns.iter().filter(|column| column.constraint == row.id).collect();
                constraints.foreign_keys.push(ForeignKey {
                    head,
                    columns: own.iter().map(|column| column.column).collect(),
                    referenced: ObjectId(row.referenced.ok_or_else(|| wrong("refers to no table"))?),
                    referenced_index: IndexId(row.referenced_index.ok_or_else(|| wrong("refers to no index"))?),
                    referenced_columns: own.iter().map(|column| column.referenced).collect(),
                    on_delete: rule(row.on_delete).ok_or_else(|| wrong("has no rule of that number"))?,
                    on_update: rule(row.on_update).ok_or_else(|| wrong("has no rule of that number"))?,
                });
            }
            _ => return Err(wrong("is of no known kind")),
        }
    }
    Ok(constraints)
}

impl DatabaseSnapshot {
    /// Checks the rules for a table's constraints and computed columns.
    pub(crate) fn check_constraints(&self, table: &Table) -> Result<(), BrokenRule> {
        let name = &table.name;
        let ids: HashSet<i32> = table.columns.iter().map(|column| column.id).collect();
        let virtual_ids: HashSet<i32> = table.virtual_columns.iter().map(|column| column.id).collect();
        require(ids.is_disjoint(&virtual_ids), name, "a column's id is its own")?;
        for key in &table.constraints.foreign_keys {
            let other = self.tables.get(&key.referenced);
            let found = other.is_some_and(|other| {
                key.referenced_columns.iter().all(|id| other.columns.iter().any(|column| column.id == *id))
            });
            let own = key.columns.iter().all(|id| ids.contains(id));
            let same = key.columns.len() == key.referenced_columns.len() && !key.columns.is_empty();
            require(found && own && same, name, "a foreign key's columns exist")?;
        }
        for check in &table.constraints.checks {
            let known = check.column.is_none_or(|id| ids.contains(&id) || virtual_ids.contains(&id));
            require(known, name, "a check's column exists")?;
        }
        Ok(())
    }
}
