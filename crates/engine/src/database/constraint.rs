//! Constraints of tables: adding, dropping, disabling and enabling them.

use std::sync::Arc;

use hobt_base::errors;
use hobt_catalog::{CheckConstraint, ColumnDefault, ConstraintHead, DatabaseSnapshot, Table, name_equals};
use hobt_txn::StatementContext;

use super::Database;
use super::claim::LockTable;
use super::table_change::TableChange;
use crate::definition::check_name;
use crate::error::{EngineError, Result, name_is_taken};
use hobt_instruments::time_of_day;

/// A `CHECK` constraint, with a condition that was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckDefinition {
    /// Its name; generated if absent.
    pub name: Option<String>,
    /// The column that it was written at.
    pub column: Option<String>,
    /// The condition's text, in parentheses.
    pub definition: String,
    /// `NOT FOR REPLICATION`.
    pub not_for_replication: bool,
    /// `WITH NOCHECK`: existing rows are not checked.
    pub is_not_trusted: bool,
}

/// 3728.
pub(super) fn no_such_constraint(name: &str) -> EngineError {
    EngineError::Statement(errors::NO_SUCH_CONSTRAINT.with([&name]))
}

/// `CK__table__column__0E391C95`, as SQL Server generates names.
fn made_up_name(kind: &str, table: &str, column: Option<&str>, id: hobt_base::ObjectId) -> String {
    let start =
        |text: &str, length: usize| -> String { text.chars().chain(std::iter::repeat('_')).take(length).collect() };
    let column = column.map(|column| format!("{}__", start(column, 5))).unwrap_or_default();
    format!("{kind}__{}__{column}{:08X}", start(table, 9), id.0)
}

impl Database {
    /// The part that all constraints have in common.
    ///
    /// # Errors
    /// 103, 2714.
    pub(super) fn constraint_head(
        &self,
        snapshot: &DatabaseSnapshot,
        table: &Table,
        (kind, name, column): (&str, Option<&str>, Option<&str>),
    ) -> Result<ConstraintHead> {
        let id = self.next_object_id(snapshot);
        if let Some(name) = name {
            check_name(name)?;
            let is_own = table.constraints.heads().any(|head| name_equals(&head.name, name));
            if is_own || snapshot.has_object(table.schema, name) || name_equals(&table.name, name) {
                return Err(name_is_taken(name));
            }
        }
        Ok(ConstraintHead {
            id,
            name: name.map_or_else(|| made_up_name(kind, &table.name, column, id), str::to_owned),
            created: time_of_day(),
            is_system_named: name.is_none(),
            is_disabled: false,
            is_not_trusted: false,
            not_for_replication: false,
        })
    }

    /// `ALTER TABLE … ADD CONSTRAINT … CHECK`, and the checks of a new table. The caller checks whether existing rows
    /// satisfy them.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 103, 2714.
    pub fn begin_add_checks(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        checks: &[CheckDefinition],
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |snapshot, old| {
            let mut new = old.clone();
            for check in checks {
                let kind = ("CK", check.name.as_deref(), check.column.as_deref());
                let mut head = self.constraint_head(snapshot, &new, kind)?;
                head.is_not_trusted = check.is_not_trusted;
                head.not_for_replication = check.not_for_replication;
                let column = check.column.as_deref().and_then(|name| column_id(&new, name));
                new.constraints.checks.push(CheckConstraint { head, column, definition: check.definition.clone() });
            }
            Ok((new, Vec::new()))
        })
    }

    /// `ALTER TABLE … ADD DEFAULT … FOR column`.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 103, 207, 2714.
    pub fn begin_add_default(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        column: &str,
        name: Option<&str>,
        definition: &str,
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |snapshot, old| {
            let mut new = old.clone();
            let head = self.constraint_head(snapshot, &new, ("DF", name, Some(column)))?;
            let place = new
                .column_named(column)
                .ok_or_else(|| EngineError::Statement(errors::INVALID_COLUMN.with([&column])))?;
            let definition = definition.to_owned();
            new.columns[place].default = Some(ColumnDefault { name: head.name, definition });
            Ok((new, Vec::new()))
        })
    }

    /// `ALTER TABLE … SET (LOCK_ESCALATION = …)`: 0 TABLE, 1 DISABLE, 2 AUTO.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns.
    pub fn begin_set_lock_escalation(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        escalation: u8,
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        let set =
            |_: &DatabaseSnapshot, old: &Table| Ok((Table { lock_escalation: escalation, ..old.clone() }, Vec::new()));
        self.begin_table_change(ctx, table, lock, &mut { set })
    }

    /// `ALTER TABLE … DROP CONSTRAINT` of a check, a foreign key or a default.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 3728.
    pub fn begin_drop_constraint(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        name: &str,
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |_, old| {
            let mut new = old.clone();
            let is_it = |other: &str| name_equals(other, name);
            new.constraints.checks.retain(|check| !is_it(&check.head.name));
            new.constraints.foreign_keys.retain(|key| !is_it(&key.head.name));
            let mut found = new.constraints != old.constraints;
            for column in &mut new.columns {
                if column.default.as_ref().is_some_and(|default| is_it(&default.name)) {
                    column.default = None;
                    found = true;
                }
            }
            if found { Ok((new, Vec::new())) } else { Err(no_such_constraint(name)) }
        })
    }

    /// `ALTER TABLE … CHECK | NOCHECK CONSTRAINT`; an empty `names` means all. With `is_trusted` the caller checks
    /// whether the existing rows satisfy them.
    ///
    /// # Errors
    /// As of any change of a definition: 1088, 2801, 1105, what `lock` returns; 4917.
    pub fn begin_enable_constraints(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: (&str, &str),
        names: &[String],
        (enable, is_trusted): (bool, bool),
        lock: &mut LockTable<'_>,
    ) -> Result<TableChange> {
        self.begin_table_change(ctx, table, lock, &mut |_, old| {
            let mut new = old.clone();
            for name in names {
                if !new.constraints.heads().any(|head| name_equals(&head.name, name)) {
                    return Err(EngineError::Statement(errors::NO_CONSTRAINT.with([&name])));
                }
            }
            for head in new.constraints.heads_mut() {
                if names.is_empty() || names.iter().any(|name| name_equals(&head.name, name)) {
                    // A constraint that was disabled is not trusted until existing rows are checked.
                    head.is_not_trusted =
                        if enable { !is_trusted && (head.is_disabled || head.is_not_trusted) } else { true };
                    head.is_disabled = !enable;
                }
            }
            Ok((new, Vec::new()))
        })
    }
}

/// The id of a column, stored or not.
pub(super) fn column_id(table: &Table, name: &str) -> Option<i32> {
    let stored = table.column_named(name).map(|place| table.columns[place].id);
    stored.or_else(|| table.virtual_column_named(name).map(|column| column.id))
}
