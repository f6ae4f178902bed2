//! Properties of a statement that follow from its kind: its name, what it changes, and the session states that it runs
//! in.

use hobt_base::{SqlError, errors, number};
use hobt_tsql::ast::{
    Backup, CommonTableExpression, ObjectKind, Query, QueryBody, Statement, StatementKind, TableSource, TargetName,
};

use super::event::Message;
use super::program::Step;
use super::query::into_of;

/// The name of a statement that writes a file.
const EXTERNAL_TABLE_AS: &str = "CREATE EXTERNAL TABLE AS SELECT";

/// The statement's name in `sys.dm_exec_requests.command` and in errors.
pub(super) fn command(kind: &StatementKind) -> &'static str {
    match kind {
        StatementKind::Select(_) => "SELECT",
        StatementKind::Insert(_) => "INSERT",
        StatementKind::Update(_) => "UPDATE",
        StatementKind::Delete(_) => "DELETE",
        StatementKind::Merge(_) => "MERGE",
        StatementKind::BulkInsert(bulk) if bulk.is_copy => "COPY INTO",
        StatementKind::BulkInsert(_) => "BULK INSERT",
        StatementKind::TruncateTable { .. } => "TRUNCATE TABLE",
        StatementKind::CreateTable(_) => "CREATE TABLE",
        StatementKind::AlterTable(_) => "ALTER TABLE",
        StatementKind::CreateIndex(_) => "CREATE INDEX",
        StatementKind::AlterIndex(_) => "ALTER INDEX",
        StatementKind::DropIndex(_) => "DROP INDEX",
        StatementKind::Drop(_) => "DROP",
        StatementKind::CreatePartitionFunction(_) => "CREATE PARTITION FUNCTION",
        StatementKind::AlterPartitionFunction(_) => "ALTER PARTITION FUNCTION",
        StatementKind::CreatePartitionScheme(_) => "CREATE PARTITION SCHEME",
        StatementKind::AlterPartitionScheme(_) => "ALTER PARTITION SCHEME",
        StatementKind::Sequence(definition) if definition.alter => "ALTER SEQUENCE",
        StatementKind::Sequence(_) => "CREATE SEQUENCE",
        StatementKind::CreateDatabase(_) => "CREATE DATABASE",
        StatementKind::AlterDatabase(_) => "ALTER DATABASE",
        StatementKind::Use { .. } => "USE",
        StatementKind::CreateExternalTable(create) if create.query.is_some() => EXTERNAL_TABLE_AS,
        StatementKind::CreateExternalTable(_) => "CREATE EXTERNAL TABLE",
        StatementKind::CreateExternalFileFormat(_) => "CREATE EXTERNAL FILE FORMAT",
        StatementKind::CreateView(_) => "CREATE VIEW",
        StatementKind::CreateFunction(_) => "CREATE FUNCTION",
        StatementKind::CreateProcedure(_) => "CREATE PROCEDURE",
        StatementKind::CreateSchema { .. } => "CREATE SCHEMA",
        StatementKind::CreateStatistics(_) => "CREATE STATISTICS",
        StatementKind::UpdateStatistics(_) => "UPDATE STATISTICS",
        StatementKind::Declare { .. } => "DECLARE",
        StatementKind::SetVariable { .. } => "ASSIGNMENT",
        StatementKind::SetOption(_) => "SET OPTION ON",
        StatementKind::If { .. } => "CONDITIONAL",
        StatementKind::While { .. } => "WHILE",
        StatementKind::Block { .. } => "BEGIN",
        StatementKind::TryCatch { .. } => "BEGIN TRY",
        StatementKind::Break => "BREAK",
        StatementKind::Continue => "CONTINUE",
        StatementKind::Return { .. } => "RETURN",
        StatementKind::Goto { .. } | StatementKind::Label { .. } => "GOTO",
        StatementKind::Throw { .. } => "THROW",
        StatementKind::RaisError(_) => "RAISERROR",
        StatementKind::Print { .. } => "PRINT",
        StatementKind::WaitFor { .. } => "WAITFOR",
        StatementKind::Execute(_) => "EXECUTE",
        StatementKind::BeginTransaction { .. } => "BEGIN TRANSACTION",
        StatementKind::Commit { .. } => "COMMIT TRANSACTION",
        StatementKind::Rollback { .. } => "ROLLBACK TRANSACTION",
        StatementKind::SaveTransaction { .. } => "SAVE TRANSACTION",
        StatementKind::Dbcc(_) => "DBCC",
        StatementKind::Checkpoint { .. } => "CHECKPOINT",
        StatementKind::Kill { .. } => "KILL",
        StatementKind::Backup(backup) if backup.restore => "RESTORE",
        StatementKind::Backup(_) => "BACKUP",
        StatementKind::AlterServerConfiguration(_) => "ALTER SERVER CONFIGURATION",
        StatementKind::Reconfigure { .. } => "RECONFIGURE",
    }
}

/// Whether a statement of this kind never changes a table's or database's definition, and never leaves the session's
/// database.
pub(super) fn leaves_tables_alone(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::Select(_)
            | StatementKind::Insert(_)
            | StatementKind::Update(_)
            | StatementKind::Delete(_)
            | StatementKind::Merge(_)
            | StatementKind::Declare { .. }
            | StatementKind::SetVariable { .. }
            | StatementKind::SetOption(_)
            | StatementKind::Print { .. }
            | StatementKind::Throw { .. }
            | StatementKind::RaisError(_)
            | StatementKind::WaitFor { .. }
            | StatementKind::Execute(_)
            | StatementKind::BeginTransaction { .. }
            | StatementKind::Commit { .. }
            | StatementKind::Rollback { .. }
            | StatementKind::SaveTransaction { .. }
    )
}

/// Whether `SET STATISTICS TIME` reports the statement and `sys.dm_exec_requests` shows it.
pub(super) fn is_timed(statement: &Statement) -> bool {
    !matches!(
        statement.kind,
        StatementKind::Declare { .. }
            | StatementKind::SetVariable { .. }
            | StatementKind::SetOption(_)
            | StatementKind::Print { .. }
            | StatementKind::RaisError(_)
            | StatementKind::Throw { .. }
    )
}

/// 3621: SQL Server sends it after the error of a statement that changed data and was undone. Errors found before the
/// statement ran undid nothing.
pub(super) fn terminated(step: Step<'_>, error: &SqlError) -> Option<Message> {
    let Step::Run(statement) = step else { return None };
    let changes = match &statement.kind {
        StatementKind::Insert(_) | StatementKind::Update(_) | StatementKind::Delete(_) | StatementKind::Merge(_) => {
            true
        }
        StatementKind::Select(select) => into_of(&select.query).is_some(),
        // Of definitions, only those that read the rows.
        StatementKind::CreateIndex(_) | StatementKind::AlterTable(_) | StatementKind::AlterIndex(_) => {
            error.number == number::DUPLICATE_KEY_BUILD || error.number == number::KEY_TOO_LONG
        }
        _ => false,
    };
    let ran = matches!(
        error.number,
        number::OVERFLOW_SMALL
            | number::OVERFLOW_FLOAT
            | number::INSUFFICIENT_SPACE
            | number::ROW_TOO_LARGE
            | number::SUBQUERY_MORE_THAN_ONE
            | number::NULL_NOT_ALLOWED
            | number::DATE_ADD_OVERFLOW
            | number::DATEDIFF_OVERFLOW
            | number::INVALID_LENGTH_OF
            | number::INVALID_LENGTH_PARAMETER
            | number::FILEGROUP_FULL
            | number::LOCK_TIMEOUT
            | number::TRUNCATION
            | number::INVALID_FLOAT_OPERATION
            | number::OVERFLOW
            | number::DIVIDE_BY_ZERO
            | number::SEQUENCE_EXHAUSTED
            | number::CONSTRAINT_VIOLATION
            | number::DUPLICATE_KEY_INDEX
            | number::DUPLICATE_KEY_BUILD
            | number::DUPLICATE_KEY_CONSTRAINT
            | number::KEY_TOO_LONG
    );
    let line = statement.span.position.line;
    (changes && ran).then(|| Message::of(line, errors::STATEMENT_TERMINATED.error()))
}

/// Whether success of the statement sets `@@ERROR` to zero. `DECLARE` without a value does not run.
pub(super) fn sets_error(statement: &Statement) -> bool {
    !matches!(statement.kind, StatementKind::Declare { .. })
}

/// Whether the statement takes effect even if `SET NOEXEC` is on.
pub(super) fn runs_under_noexec(statement: &Statement) -> bool {
    matches!(statement.kind, StatementKind::SetOption(_) | StatementKind::Use { .. })
}

/// Whether a statement makes changes that a transaction must be able to roll back.
pub(super) fn is_write(kind: &StatementKind) -> bool {
    match kind {
        StatementKind::Select(select) => into_of(&select.query).is_some(),
        StatementKind::Insert(_) | StatementKind::Update(_) | StatementKind::Delete(_) | StatementKind::Merge(_) => {
            true
        }
        kind => is_definition(kind),
    }
}

/// Whether a statement changes definitions, or empties a table.
fn is_definition(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::TruncateTable { .. }
            | StatementKind::CreateTable(_)
            | StatementKind::AlterTable(_)
            | StatementKind::CreateIndex(_)
            | StatementKind::AlterIndex(_)
            | StatementKind::DropIndex(_)
            | StatementKind::Drop(_)
            | StatementKind::CreatePartitionFunction(_)
            | StatementKind::AlterPartitionFunction(_)
            | StatementKind::CreatePartitionScheme(_)
            | StatementKind::AlterPartitionScheme(_)
            | StatementKind::Sequence(_)
            | StatementKind::CreateDatabase(_)
            | StatementKind::AlterDatabase(_)
            | StatementKind::CreateExternalTable(_)
            | StatementKind::CreateExternalFileFormat(_)
            | StatementKind::CreateView(_)
            | StatementKind::CreateFunction(_)
            | StatementKind::CreateProcedure(_)
            | StatementKind::CreateSchema { .. }
            | StatementKind::CreateStatistics(_)
    )
}

/// Whether the statement begins a transaction under `SET IMPLICIT_TRANSACTIONS ON`, by the list on Microsoft's page. A
/// `SELECT` without tables does not.
pub(super) fn begins_transaction(kind: &StatementKind) -> bool {
    match kind {
        StatementKind::BeginTransaction { .. } => true,
        StatementKind::Select(select) => into_of(&select.query).is_some() || reads_tables(&select.query),
        kind => is_write(kind),
    }
}

fn reads_tables(query: &Query) -> bool {
    let body_reads = |body: &QueryBody| {
        let mut body = body;
        loop {
            body = match body {
                QueryBody::Select(select) => return !select.from.is_empty(),
                QueryBody::SetOperation { first, .. } => first,
            };
        }
    };
    !query.with.is_empty() || body_reads(&query.body)
}

/// Whether a statement changes the definition of existing tables, which a transaction under `SNAPSHOT` must not do. The
/// list is from SQL Server's manual.
pub(super) fn changes_what_is_read(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::AlterTable(_)
            | StatementKind::CreateIndex(_)
            | StatementKind::AlterIndex(_)
            | StatementKind::DropIndex(_)
            | StatementKind::AlterPartitionFunction(_)
            | StatementKind::AlterPartitionScheme(_)
    )
}

/// The error for a statement that cannot be rolled back and so must not run in a transaction.
pub(super) fn forbidden_in_transaction(kind: &StatementKind) -> Option<SqlError> {
    let (error, name) = match kind {
        StatementKind::CreateDatabase(_) => (errors::NOT_IN_TRANSACTION, "CREATE DATABASE"),
        StatementKind::AlterDatabase(_) => (errors::NOT_IN_TRANSACTION, "ALTER DATABASE"),
        // A rollback would have to remove the file, and could fail to.
        StatementKind::CreateExternalTable(create) if create.query.is_some() => {
            (errors::NOT_IN_TRANSACTION, EXTERNAL_TABLE_AS)
        }
        StatementKind::Drop(drop) if drop.kind == ObjectKind::Database => {
            (errors::NOT_IN_USER_TRANSACTION, "DROP DATABASE")
        }
        StatementKind::Backup(backup) if !changes_nothing(backup) => {
            return Some(errors::BACKUP_IN_TRANSACTION.error());
        }
        StatementKind::Reconfigure { .. } => (errors::NOT_IN_USER_TRANSACTION, "CONFIG"),
        _ => return None,
    };
    Some(error.with([&name]))
}

/// Whether the statement only reads backups: `RESTORE FILELISTONLY` and the like.
fn changes_nothing(backup: &Backup) -> bool {
    let is_of_database = ["DATABASE", "LOG"].iter().any(|what| backup.what.value.eq_ignore_ascii_case(what));
    backup.restore && !is_of_database
}

/// Whether a statement changes a table variable: by its name, by an alias in its `FROM`, or by the name of a query over
/// it. If this is not detected, the change becomes a part of the transaction.
pub(super) fn changes_variable(kind: &StatementKind) -> bool {
    let changes = |name: &TargetName, with: &[CommonTableExpression], from: &[TableSource]| match name {
        TargetName::Variable(_) => true,
        TargetName::Object(name) if name.schema.is_none() => {
            let name = &name.name.value;
            let common = with.iter().find(|common| common.name.is(name));
            common.is_some_and(|common| reads_variable(&common.query))
                || from.iter().any(|source| is_variable_called(source, name))
        }
        TargetName::Object(_) => false,
    };
    match kind {
        StatementKind::Insert(insert) => changes(&insert.target.name, &insert.with, &[]),
        StatementKind::Update(update) => changes(&update.target.name, &update.with, &update.from),
        StatementKind::Delete(delete) => changes(&delete.target.name, &delete.with, &delete.from),
        StatementKind::Merge(merge) => changes(&merge.target.name, &merge.with, &[]),
        _ => false,
    }
}

fn is_variable_called(source: &TableSource, name: &str) -> bool {
    match source {
        TableSource::Variable { alias: Some(alias), .. } => alias.name.is(name),
        TableSource::Derived { query, alias, .. } => alias.name.is(name) && reads_variable(query),
        TableSource::Joined { first, rest } => {
            is_variable_called(first, name) || rest.iter().any(|step| is_variable_called(&step.source, name))
        }
        _ => false,
    }
}

/// Whether a query reads a single table variable.
fn reads_variable(query: &Query) -> bool {
    let QueryBody::Select(select) = &query.body else { return false };
    select.from.iter().any(|source| match source {
        TableSource::Variable { .. } => true,
        TableSource::Derived { query, .. } => reads_variable(query),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_insert_says_that_it_was_terminated() {
        let says = |text: &str, error: SqlError| {
            let batch = hobt_tsql::parse_batch(text).expect("a batch that parses");
            terminated(Step::Run(&batch.statements[0]), &error).map(|message| message.severity)
        };
        assert_eq!(says("INSERT t VALUES (NULL)", errors::NULL_NOT_ALLOWED.with([&"", &"", &""])), Some(0));
        assert_eq!(says("SELECT 1 / 0 AS a INTO t", errors::DIVIDE_BY_ZERO.error()), Some(0));
        assert_eq!(says("SELECT 1 / 0", errors::DIVIDE_BY_ZERO.error()), None);
        assert_eq!(says("INSERT t VALUES (1)", errors::INVALID_OBJECT.with([&""])), None);
    }
}
