//! Dispatch of statements to the parts of the interpreter.

use hobt_base::SqlError;
use hobt_tsql::ast::{Statement, StatementKind};

use super::ddl::what_could_not_be_done;
use super::failure::Failure;
use super::statement_kind::{command, is_timed, leaves_tables_alone};
use crate::direct::learned::Learned;
use crate::interpreter::{Interpreter, Outcome};

impl Interpreter<'_> {
    /// Runs one statement that is neither a block nor a jump. `caught_here`: whether a `CATCH` of this batch or
    /// procedure handles its errors.
    pub(super) fn statement(
        &mut self,
        statement: &Statement,
        caught_here: bool,
        learned: &mut Learned,
    ) -> Result<Outcome, Failure> {
        self.dispatch(statement, caught_here, learned).map_err(|failure| told_twice(statement, failure))
    }

    fn dispatch(
        &mut self,
        statement: &Statement,
        caught_here: bool,
        learned: &mut Learned,
    ) -> Result<Outcome, Failure> {
        let position = statement.span.position;
        self.transactions().enter_transaction(&statement.kind, position)?;
        if !leaves_tables_alone(&statement.kind) {
            self.statements.forget();
        }
        if is_timed(statement) {
            self.note_command(command(&statement.kind));
        }
        self.check_not_external(&statement.kind)?;
        match &statement.kind {
            StatementKind::Select(select) => self.select(select, learned),
            StatementKind::Insert(insert) => self.insert(insert, caught_here, learned),
            StatementKind::Update(update) => self.update(update, learned),
            StatementKind::Delete(delete) => self.delete(delete, learned),
            StatementKind::Merge(merge) => self.merge(merge),
            StatementKind::BulkInsert(bulk) => self.bulk_insert(bulk, statement.span),
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
            StatementKind::Dbcc(dbcc) => self.maintenance().dbcc(dbcc, position),
            StatementKind::Backup(backup) => self.maintenance().back_up_or_restore(backup, position),
            StatementKind::Checkpoint { .. } => self.maintenance().checkpoint(),
            StatementKind::Kill { session, status_only } => self.kill(session, *status_only, position),
            StatementKind::AlterServerConfiguration(configuration) => self.alter_server(configuration, position),
            StatementKind::Reconfigure { .. } => Ok(Outcome::QUIET),
            StatementKind::CreateTable(create) => self.definitions().create_table(create),
            StatementKind::CreateIndex(create) => self.definitions().create_index(create),
            StatementKind::AlterIndex(alter) => self.definitions().alter_index(alter),
            StatementKind::DropIndex(drop) => self.definitions().drop_indexes(drop),
            StatementKind::CreateStatistics(create) => self.definitions().create_statistics(create),
            StatementKind::UpdateStatistics(update) => self.definitions().update_statistics(update),
            StatementKind::AlterTable(alter) => self.definitions().alter_table(alter),
            StatementKind::TruncateTable { name, partitions } => self.definitions().truncate_table(name, partitions),
            StatementKind::Drop(drop) => self.definitions().drop_objects(drop),
            StatementKind::CreatePartitionFunction(create) => self.definitions().create_partition_function(create),
            StatementKind::CreatePartitionScheme(create) => self.definitions().create_partition_scheme(create),
            StatementKind::AlterPartitionFunction(alter) => self.definitions().alter_partition_function(alter),
            StatementKind::AlterPartitionScheme(alter) => self.definitions().alter_partition_scheme(alter),
            StatementKind::Sequence(definition) => self.definitions().define_sequence(definition),
            StatementKind::CreateDatabase(create) => self.definitions().create_database(create),
            StatementKind::AlterDatabase(alter) => self.definitions().alter_database(alter),
            StatementKind::CreateExternalTable(create) => self.create_external_table(create),
            StatementKind::CreateExternalFileFormat(create) => self.create_file_format(create),
            StatementKind::CreateView(create) => self.definitions().create_view(create, statement),
            StatementKind::CreateFunction(create) => self.definitions().create_function(create, statement),
            StatementKind::CreateProcedure(create) => self.definitions().create_procedure(create, statement),
            StatementKind::CreateSchema { name, .. } => self.definitions().create_schema(name),
            StatementKind::BeginTransaction { name, mark } => {
                self.transactions().begin_transaction(name.as_ref(), mark.as_deref(), position)
            }
            StatementKind::Commit { delayed_durability, .. } => {
                self.transactions().commit_transaction(*delayed_durability == Some(true), position)
            }
            StatementKind::Rollback { name } => self.transactions().rollback_transaction(name.as_ref(), position),
            StatementKind::SaveTransaction { name } => self.transactions().save_transaction(name, position),
            other => Err(SqlError::not_supported(command(other)).at(position).into()),
        }
    }

    /// Reports the kind of the running statement to the list of sessions, unless it is already known there.
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

/// A definition's failure, followed by the second error that SQL Server reports after the first.
fn told_twice(statement: &Statement, failure: Failure) -> Failure {
    if failure.cause.is_some() {
        return failure;
    }
    let Some(second) = what_could_not_be_done(&statement.kind, &failure.error) else { return failure };
    let position = failure.error.position.unwrap_or(statement.span.position);
    let first = failure.error.clone().at(position);
    Failure { error: first, ..failure }.followed_by(second.at(position))
}
