//! Definitions: translates the syntax tree to calls of the engine.
//!
//! Every definition runs in a statement context, and the engine undoes it if it fails. The crate `catalog` defines what
//! definitions are, the crate `engine` how they are stored.

mod alter_column;
mod alter_table;
mod constraint;
mod database;
mod index;
mod module;
mod partition;
mod reorganize;
mod second_error;
mod sequence;
pub(crate) mod statistics;
mod table;

use std::sync::Arc;
use std::time::Duration;

use hobt_base::{ObjectId, SqlError, number};
use hobt_engine::{DatabaseUse, EngineError, LockTable};
use hobt_tsql::ast::{Drop, Identifier, ObjectKind, ObjectName};
use hobt_txn::StatementContext;
use hobt_txn::locks::{HeldLock, LockMode, LockOwner, LockResource, Patience};

use super::failure::Failure;
pub(super) use crate::ddl::second_error::what_could_not_be_done;
use crate::interpreter::{Interpreter, Outcome};
use crate::place::Place;
use crate::place::{database_of, lock_resource, place_of};

/// The definitions of a batch: what `CREATE`, `ALTER`, `DROP`, `TRUNCATE` and `UPDATE STATISTICS` do.
pub(crate) struct Definitions<'b, 's> {
    pub(super) batch: &'b mut Interpreter<'s>,
}

impl<'s> Interpreter<'s> {
    /// The definitions of this batch.
    pub(crate) fn definitions(&mut self) -> Definitions<'_, 's> {
        Definitions { batch: self }
    }
}

impl Interpreter<'_> {
    /// Runs `body`, which changes `database`, in a statement context of the open transaction, if there is one. If it
    /// succeeds, its changes are kept. If it fails, all of them are undone.
    pub(super) fn in_context<R>(
        &mut self,
        database: &DatabaseUse,
        body: impl FnOnce(&mut Self, &Arc<StatementContext>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let Some(open) = &self.state.transaction else { return self.in_context_apart(database, body) };
        open.uses_database(database);
        let (instance, cancelled) = (Arc::clone(&self.environment.instance), Arc::clone(&self.cancelled));
        let context = instance.statement_of(open.transaction(), self.state.id, 1, cancelled);
        self.end_context(database, &context, body)
    }

    /// Like [`Interpreter::in_context`], but outside the open transaction: for changes that a rollback does not undo.
    fn in_context_apart<R>(
        &mut self,
        database: &DatabaseUse,
        body: impl FnOnce(&mut Self, &Arc<StatementContext>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let cancelled = Arc::clone(&self.cancelled);
        let context = self.environment.instance.statement_context(self.state.id, 1, cancelled);
        self.end_context(database, &context.map_err(SqlError::from)?, body)
    }

    fn end_context<R>(
        &mut self,
        database: &DatabaseUse,
        context: &Arc<StatementContext>,
        body: impl FnOnce(&mut Self, &Arc<StatementContext>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let instance = Arc::clone(&self.environment.instance);
        let result = body(self, context);
        instance.end_statement(context, result.is_ok(), &[&**database.database()]).map_err(SqlError::from)?;
        result
    }

    /// Locks an object for a statement until the lock is dropped. Waits up to `SET LOCK_TIMEOUT`.
    pub(super) fn lock(
        &self,
        context: &StatementContext,
        database: &DatabaseUse,
        object: ObjectId,
        mode: LockMode,
    ) -> Result<HeldLock, Failure> {
        self.lock_for(context.lock_owner(), database, object, mode, self.state.options.lock_timeout)
    }

    /// Like [`Interpreter::lock`], for any owner, and waits no longer than `timeout`.
    pub(super) fn lock_for(
        &self,
        owner: &Arc<LockOwner>,
        database: &DatabaseUse,
        object: ObjectId,
        mode: LockMode,
        timeout: Option<Duration>,
    ) -> Result<HeldLock, Failure> {
        let patience = Patience { timeout, ..self.state.options.patience() };
        let resource = LockResource::Object(database.id(), object);
        lock_resource(self.environment, self.state, &self.cancelled, owner, resource, mode, patience)
    }

    /// Resolves a name of up to three parts: temporary tables are in `tempdb`, names without a schema in `dbo`.
    ///
    /// # Errors
    /// 911 for an unknown database, 7202 for a name with a server.
    pub(super) fn place(&self, name: &ObjectName) -> Result<Place, SqlError> {
        place_of(self.environment, &self.database(), self.state, name)
    }
}

impl Definitions<'_, '_> {
    /// The database with this name.
    pub(super) fn database_named(&self, name: &Identifier) -> Result<DatabaseUse, SqlError> {
        Ok(database_of(self.batch.environment, name)?.seen_by(self.batch.state.viewer()))
    }

    /// Runs an engine call that changes, drops or empties a table or another object. When the call has resolved the
    /// name, it requests a `SchemaModification` lock, which the context holds until after the change.
    fn locking_definition<R>(
        &self,
        context: &StatementContext,
        database: &DatabaseUse,
        change: impl FnOnce(&mut LockTable<'_>) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let mut held = None;
        let changed = change(&mut |object| {
            // If called again, the name means another object by now.
            held = None;
            let taken = self.batch.lock(context, database, object, LockMode::SchemaModification);
            held = Some(taken.map_err(|failure| failure.error)?);
            Ok(())
        })?;
        context.hold(held);
        Ok(changed)
    }

    /// Like [`Definitions::locking_definition`], for several tables: all locks are held together.
    fn locking_definitions<R>(
        &self,
        context: &StatementContext,
        database: &DatabaseUse,
        change: impl FnOnce(&mut LockTable<'_>) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let mut held = Vec::new();
        let changed = change(&mut |table| {
            let taken = self.batch.lock(context, database, table, LockMode::SchemaModification);
            held.push(taken.map_err(|failure| failure.error)?);
            Ok(())
        })?;
        context.hold(held);
        Ok(changed)
    }

    pub(super) fn drop_objects(&mut self, drop: &Drop) -> Result<Outcome, Failure> {
        for name in &drop.names {
            let dropped = match drop.kind {
                ObjectKind::Table => self.drop_table(name),
                ObjectKind::View
                | ObjectKind::Function
                | ObjectKind::Procedure
                | ObjectKind::ExternalTable
                | ObjectKind::ExternalFileFormat => self.drop_module(drop.kind, name),
                ObjectKind::Database => self.drop_database(&name.name),
                ObjectKind::Schema => self.drop_schema(&name.name),
                ObjectKind::PartitionFunction => self.drop_partition_function(&name.name),
                ObjectKind::PartitionScheme => self.drop_partition_scheme(&name.name),
                ObjectKind::Statistics => self.drop_statistics(name),
                ObjectKind::Sequence => self.drop_sequence(name),
                ObjectKind::Synonym => Err(SqlError::not_supported("DROP SYNONYM").into()),
                ObjectKind::Trigger => Err(SqlError::not_supported("DROP TRIGGER").into()),
                ObjectKind::Type => Err(SqlError::not_supported("DROP TYPE").into()),
            };
            match dropped {
                Err(failure) if drop.if_exists && failure.error.number == number::DROP_DOES_NOT_EXIST => {}
                other => other.map_err(|failure| at(failure, name))?,
            }
        }
        Ok(Outcome::QUIET)
    }

    pub(super) fn drop_schema(&mut self, name: &Identifier) -> Result<(), Failure> {
        let database = self.batch.database();
        self.batch.in_context(&database, |_, context| {
            Ok(database.database().drop_schema(context, &name.value).map_err(SqlError::from)?)
        })
    }

    pub(super) fn create_schema(&mut self, name: &Identifier) -> Result<Outcome, Failure> {
        let database = self.batch.database();
        self.batch.in_context(&database, |_, context| {
            Ok(database.database().create_schema(context, &name.value).map_err(SqlError::from)?)
        })?;
        Ok(Outcome::QUIET)
    }

    /// Sends the engine's warnings, whose severity is 10.
    pub(super) fn warn(&mut self, warnings: Vec<SqlError>) -> Result<(), Failure> {
        for warning in warnings {
            debug_assert_eq!(warning.severity, 10, "{warning}");
            let line = warning.position.unwrap_or_default().line;
            self.batch.send_message(super::Message::of(line, warning))?;
        }
        Ok(())
    }
}

/// The failure, with the position of its object's name.
fn at(mut failure: Failure, name: &ObjectName) -> Failure {
    if !failure.reported && failure.error.number != number::CANCELED {
        failure.error = failure.error.at(name.position());
    }
    failure
}
