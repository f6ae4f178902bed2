//! Resolved names of objects, and the locks of what they name.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_base::{SqlError, errors};
use hobt_engine::DatabaseUse;
use hobt_operators::lock_error;
use hobt_tsql::ast::{Identifier, ObjectName};
use hobt_txn::locks::{HeldLock, LockMode, LockOwner, LockResource, Patience};

use super::environment::Environment;
use super::failure::Failure;
use super::state::SessionState;

/// A resolved name: the database, the schema's name and the object's name.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) database: DatabaseUse,
    pub(super) schema: String,
    pub(super) name: String,
}

/// The place of a name of up to three parts. Names without a database are resolved in `current`.
pub(super) fn place_of(
    environment: &Environment,
    current: &DatabaseUse,
    state: &SessionState,
    name: &ObjectName,
) -> Result<Place, SqlError> {
    if let Some(server) = &name.server {
        return Err(errors::UNKNOWN_SERVER.with([&server.value]).at(server.position));
    }
    if name.name.value.starts_with('#') {
        return Ok(Place {
            database: environment.instance.tempdb().map_err(SqlError::from)?.seen_by(state.viewer()),
            schema: "dbo".to_owned(),
            name: stored_name(&state.temporary_tables, &name.name.value),
        });
    }
    let database = match &name.database {
        Some(database) => database_of(environment, database)?.seen_by(state.viewer()),
        None => current.clone(),
    };
    let schema = name.schema.as_ref().map_or_else(|| "dbo".to_owned(), |schema| schema.value.clone());
    Ok(Place { database, schema, name: name.name.value.clone() })
}

/// The name in `tempdb` of the temporary table that a session calls `written`. A global one keeps its own name.
pub(super) fn stored_name(temporary_tables: &HashMap<String, String>, written: &str) -> String {
    let lower = written.to_lowercase();
    temporary_tables.get(&lower).cloned().unwrap_or(lower)
}

pub(super) fn database_of(environment: &Environment, name: &Identifier) -> Result<DatabaseUse, SqlError> {
    environment.instance.database(&name.value).map_err(|error| error.to_sql_error().at(name.position))
}

/// Locks a resource for its owner until the lock is dropped. Waits as long as `patience` allows.
pub(super) fn lock_resource(
    environment: &Environment,
    state: &SessionState,
    cancelled: &AtomicBool,
    owner: &Arc<LockOwner>,
    resource: LockResource,
    mode: LockMode,
    patience: Patience,
) -> Result<HeldLock, Failure> {
    let locks = environment.instance.locks();
    let taken = locks.hold(owner, resource, mode, patience, &|| cancelled.load(Ordering::Relaxed));
    Ok(taken.map_err(|error| lock_error(state.id, error))?)
}
