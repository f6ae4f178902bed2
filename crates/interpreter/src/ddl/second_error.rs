//! The second error of a definition: after the cause, SQL Server reports what could not be done because of it.

use hobt_base::{SqlError, errors, number};
use hobt_tsql::ast::{AlterTable, AlterTableAction, AlterTableDrop, CreateTable, Identifier, StatementKind};

/// The second error, about what the statement could not do because of `error`. `None` if `error` already says it.
pub(crate) fn what_could_not_be_done(statement: &StatementKind, error: &SqlError) -> Option<SqlError> {
    match statement {
        StatementKind::CreateTable(create) => of_create_table(create, error),
        StatementKind::AlterTable(alter) => of_alter_table(alter, error),
        StatementKind::CreateDatabase(create) if create.attach.is_none() => {
            is_of_file(error).then(|| errors::DATABASE_NOT_CREATED.error())
        }
        StatementKind::Backup(backup) => {
            let what = format!("{} {}", if backup.restore { "RESTORE" } else { "BACKUP" }, backup.what.value);
            Some(errors::BACKUP_TERMINATED.with([&what.to_uppercase()]))
        }
        _ => None,
    }
}

fn is_of_file(error: &SqlError) -> bool {
    matches!(
        error.number,
        number::FILE_ACTIVATION | number::CANNOT_CREATE_FILE | number::FILE_EXISTS | number::FILE_OF_ANOTHER_DATABASE
    )
}

fn of_create_table(create: &CreateTable, error: &SqlError) -> Option<SqlError> {
    // The name already in use may be the table's own.
    let is_of_table =
        error.number == number::OBJECT_EXISTS && error.message.contains(&format!("'{}'", create.name.name.value));
    (is_of_constraint(error) && !is_of_table).then(constraint_not_created)
}

fn of_alter_table(alter: &AlterTable, error: &SqlError) -> Option<SqlError> {
    let not_accessible = |what: &str, column: &Identifier| errors::COLUMN_ACCESSED.with([&what, &column.value]);
    match (&alter.action, error.number) {
        (AlterTableAction::Add { .. }, _) => is_of_constraint(error).then(constraint_not_created),
        (AlterTableAction::AlterColumn { name, .. }, number::COLUMN_NEEDED) => Some(not_accessible("ALTER", name)),
        (AlterTableAction::Drop { items }, number::COLUMN_NEEDED) => {
            let columns = || {
                items.iter().filter_map(|item| match item {
                    AlterTableDrop::Column { name, .. } => Some(name),
                    AlterTableDrop::Constraint { .. } => None,
                })
            };
            let is_named = |name: &&Identifier| error.message.contains(&format!("column '{}'", name.value));
            columns().find(is_named).or_else(|| columns().next()).map(|name| not_accessible("DROP", name))
        }
        (AlterTableAction::Drop { .. }, number::NO_SUCH_CONSTRAINT | number::REFERENCED_KEY) => {
            Some(errors::CONSTRAINT_NOT_DROPPED.error())
        }
        _ => None,
    }
}

/// Whether an error rejects a constraint or an index of a table's definition.
fn is_of_constraint(error: &SqlError) -> bool {
    matches!(
        error.number,
        number::FOREIGN_KEY_TABLE
            | number::FOREIGN_KEY_COLUMN
            | number::FOREIGN_KEY_REFERENCED_COLUMN
            | number::FOREIGN_KEY_NO_PRIMARY_KEY
            | number::FOREIGN_KEY_NO_CANDIDATE
            | number::FOREIGN_KEY_TYPE
            | number::FOREIGN_KEY_CASCADE_PATHS
            | number::OBJECT_EXISTS
            | number::INDEX_EXISTS
            | number::CLUSTERED_EXISTS
            | number::PRIMARY_KEY_EXISTS
            | number::PRIMARY_KEY_NULLABLE
            | number::NO_SUCH_KEY_COLUMN
            | number::KEY_COLUMN_TWICE
            | number::KEY_COLUMN_TYPE
            | number::KEY_TOO_LONG_DEFINITION
            | number::KEY_TOO_LONG
            | number::DUPLICATE_KEY_BUILD
    )
}

/// 1750.
fn constraint_not_created() -> SqlError {
    errors::CONSTRAINT_NOT_CREATED.error()
}
