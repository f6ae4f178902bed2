//! Which part of the interpreter runs which statement.

use hobt_base::{SqlError, number};
use hobt_tsql::ast::{Statement, StatementKind};

use super::direct::Learned;
use super::event::Message;
use super::failure::Failure;
use super::program::Step;
use super::run::{Interpreter, Outcome};
use super::transaction::changes_variable;

impl Interpreter<'_> {
    /// Runs one statement that is neither a block nor a jump. `caught_here`: whether a `CATCH` of this very batch or
    /// procedure takes its errors.
    pub(super) fn statement(
        &mut self,
        statement: &Statement,
        caught_here: bool,
        learned: &mut Learned,
    ) -> Result<Outcome, Failure> {
        let outer = std::mem::replace(&mut self.changes_variable, changes_variable(&statement.kind));
        let outcome = self.statement_alone(statement, caught_here, learned);
        self.changes_variable = outer;
        outcome
    }

    fn statement_alone(
        &mut self,
        statement: &Statement,
        caught_here: bool,
        learned: &mut Learned,
    ) -> Result<Outcome, Failure> {
        let position = statement.span.position;
        self.enter_transaction(&statement.kind, position)?;
        if !leaves_tables_alone(&statement.kind) {
            self.statements.forget();
        }
        if is_timed(statement) {
            self.note_command(command(&statement.kind));
        }
        match &statement.kind {
            StatementKind::Select(select) => self.select(select, learned),
            StatementKind::Insert(insert) => self.insert(insert, caught_here, learned),
            StatementKind::Update(update) => self.update(update, learned),
            StatementKind::Delete(delete) => self.delete(delete, learned),
            StatementKind::Merge(merge) => self.merge(merge),
            StatementKind::Declare { declarations } => self.declare(declarations),
            StatementKind::SetVariable { variable, operator, value } => {
                self.set_variable(variable, *operator, value, learned)
            }
            StatementKind::SetOption(option) => self.set_option(option, position),
            StatementKind::Use { database } => self.use_database(database, position),
            StatementKind::Print { value } => self.print(value, position),
            StatementKind::Throw { error } => self.throw(error.as_deref(), position),
            StatementKind::RaisError(raise) => self.raiserror(raise, position),
            StatementKind::WaitFor { until, value } => self.wait_for(*until, value, position),
            StatementKind::Execute(call) => self.execute(call, caught_here),
            StatementKind::Dbcc(dbcc) => self.dbcc(dbcc, position),
            StatementKind::Checkpoint { .. } => self.checkpoint(),
            StatementKind::Kill { session, status_only } => self.kill(session, *status_only, position),
            StatementKind::AlterServerConfiguration(configuration) => self.alter_server(configuration),
            StatementKind::Reconfigure { .. } => Ok(Outcome::QUIET),
            StatementKind::CreateTable(create) => self.create_table(create),
            StatementKind::CreateIndex(create) => self.create_index(create),
            StatementKind::AlterIndex(alter) => self.alter_index(alter),
            StatementKind::DropIndex(drop) => self.drop_indexes(drop),
            StatementKind::AlterTable(alter) => self.alter_table(alter),
            StatementKind::TruncateTable { name, partitions } => self.truncate_table(name, partitions),
            StatementKind::Drop(drop) => self.drop_objects(drop),
            StatementKind::CreatePartitionFunction(create) => self.create_partition_function(create),
            StatementKind::CreatePartitionScheme(create) => self.create_partition_scheme(create),
            StatementKind::AlterPartitionFunction(alter) => self.alter_partition_function(alter),
            StatementKind::AlterPartitionScheme(alter) => self.alter_partition_scheme(alter),
            StatementKind::Sequence(definition) => self.define_sequence(definition),
            StatementKind::CreateDatabase(create) => self.create_database(create),
            StatementKind::AlterDatabase(alter) => self.alter_database(alter),
            StatementKind::CreateView(create) => self.create_view(create, statement),
            StatementKind::CreateFunction(create) => self.create_function(create, statement),
            StatementKind::CreateProcedure(create) => self.create_procedure(create, statement),
            StatementKind::CreateSchema { name, .. } => self.create_schema(name),
            StatementKind::BeginTransaction { name } => self.begin_transaction(name.as_ref(), position),
            StatementKind::Commit { delayed_durability, .. } => {
                self.commit_transaction(*delayed_durability == Some(true), position)
            }
            StatementKind::Rollback { name } => self.rollback_transaction(name.as_ref(), position),
            StatementKind::SaveTransaction { name } => self.save_transaction(name, position),
            other => Err(SqlError::not_supported(format!("{} ", command(other)).trim_end()).at(position).into()),
        }
    }
}

impl Interpreter<'_> {
    /// Tells the list of sessions which kind of statement runs, where it does not know.
    fn note_command(&mut self, command: &'static str) {
        self.state.progress.set(0, 0);
        let noted = (command, self.state.database.id());
        if self.noted == Some(noted) {
            return;
        }
        self.environment.sessions.statement_begins(self.state.id, command, self.state.database.name());
        self.noted = Some(noted);
    }
}

/// The statement's name, as `sys.dm_exec_requests.command` shows it and as errors name it.
pub(super) fn command(kind: &StatementKind) -> &'static str {
    match kind {
        StatementKind::Select(_) => "SELECT",
        StatementKind::Insert(_) => "INSERT",
        StatementKind::Update(_) => "UPDATE",
        StatementKind::Delete(_) => "DELETE",
        StatementKind::Merge(_) => "MERGE",
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

/// Whether no statement of this kind changes what a table or database is, or leaves the session's database.
fn leaves_tables_alone(kind: &StatementKind) -> bool {
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

/// 3621: what SQL Server says behind the error of a statement that changed data and was undone. Errors found before it
/// ran undid nothing.
pub(super) fn terminated(step: Step<'_>, error: &SqlError) -> Option<Message> {
    let Step::Run(statement) = step else { return None };
    let changes = match &statement.kind {
        StatementKind::Insert(_) | StatementKind::Update(_) | StatementKind::Delete(_) | StatementKind::Merge(_) => {
            true
        }
        StatementKind::Select(select) => super::query::into_of(&select.query).is_some(),
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
            | number::DUPLICATE_KEY_CONSTRAINT
            | number::KEY_TOO_LONG
    );
    let line = statement.span.position.line;
    (changes && ran).then(|| Message {
        severity: 0,
        ..Message::numbered(number::STATEMENT_TERMINATED, line, "The statement has been terminated.")
    })
}

/// Whether success of the statement makes `@@ERROR` zero; `DECLARE` without a value does not run.
pub(super) fn sets_error(statement: &Statement) -> bool {
    !matches!(statement.kind, StatementKind::Declare { .. })
}

/// Whether the statement takes effect although `SET NOEXEC` is on.
pub(super) fn runs_under_noexec(statement: &Statement) -> bool {
    matches!(statement.kind, StatementKind::SetOption(_) | StatementKind::Use { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_insert_says_that_it_was_terminated() {
        let says = |text: &str, number: i32| {
            let batch = hobt_tsql::parse_batch(text).expect("a batch that parses");
            terminated(Step::Run(&batch.statements[0]), &SqlError::new(number, "")).map(|message| message.severity)
        };
        assert_eq!(says("INSERT t VALUES (NULL)", number::NULL_NOT_ALLOWED), Some(0));
        assert_eq!(says("SELECT 1 / 0 AS a INTO t", number::DIVIDE_BY_ZERO), Some(0));
        assert_eq!(says("SELECT 1 / 0", number::DIVIDE_BY_ZERO), None);
        assert_eq!(says("INSERT t VALUES (1)", number::INVALID_OBJECT), None);
    }
}
