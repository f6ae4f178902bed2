//! CHECK and FOREIGN KEY constraints in the rows of system tables.

use hobt_base::{IndexId, ObjectId};
use hobt_txn::StatementContext;

use super::{CheckConstraint, ConstraintHead, ForeignKey, ReferentialRule, TableConstraints};
use crate::error::{CatalogError, damaged};
use crate::heaps::SystemHeaps;
use crate::long_value::{LongValues, ValueClass};
use crate::schema::Table;
use crate::system::{ConstraintRow, ForeignKeyColumnRow, SystemTable, Timestamp};

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
