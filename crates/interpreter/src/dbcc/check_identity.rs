//! `DBCC CHECKIDENT`: reports and sets the next value of an identity column.

use std::sync::Arc;

use hobt_base::{ObjectId, Position, SqlError, errors};
use hobt_catalog::{IdentityColumn, IdentityPosition, Table, TableColumn};
use hobt_engine::DatabaseUse;
use hobt_txn::StatementContext;
use hobt_txn::locks::LockMode;
use hobt_types::Value;

use super::no_such_table;
use crate::dbcc::Maintenance;
use crate::event::Message;
use crate::failure::Failure;
use crate::identities::IdentityState;
use crate::identity::integer_of_type;
use crate::interpreter::Interpreter;
use crate::place::Place;
use crate::system_functions::parse_name;

/// What to do with the current identity value.
#[derive(Clone, Copy)]
enum Action {
    /// `NORESEED`.
    Tell,
    /// Without a value: it is raised to the column's greatest value.
    Correct,
    /// `RESEED, n`.
    Set(i128),
}

impl Maintenance<'_, '_> {
    /// `DBCC CHECKIDENT ('table' [, NORESEED | RESEED [, n]])`.
    ///
    /// # Errors
    /// 2501, 2560, 2583, 7997, those of the table's lock and of a change.
    pub(super) fn check_identity(
        &mut self,
        arguments: &[Value],
        says: bool,
        position: Position,
    ) -> Result<(), Failure> {
        let refuse = |parameter: u8| Failure::from(errors::DBCC_ARGUMENT.with([&parameter]).at(position));
        if !(1..=3).contains(&arguments.len()) {
            return Err(errors::DBCC_ARGUMENT_COUNT.error().at(position).into());
        }
        let (place, table) = self.table_to_check(&arguments[0], position)?;
        let column = table.identity_column();
        let Some((column, identity)) = column.and_then(|column| column.identity.map(|identity| (column, identity)))
        else {
            return Err(errors::NO_IDENTITY_COLUMN.with([&table.name]).at(position).into());
        };
        let action = match (arguments.get(1), arguments.get(2)) {
            (None, _) => Action::Correct,
            (Some(Value::Text(word)), None) if word.eq_ignore_ascii_case("NORESEED") => Action::Tell,
            (Some(Value::Text(word)), None) if word.eq_ignore_ascii_case("RESEED") => Action::Correct,
            (Some(Value::Text(word)), Some(value)) if word.eq_ignore_ascii_case("RESEED") => {
                let value = match value {
                    Value::Int(value) => Some(i128::from(*value)),
                    Value::Decimal(value) => Some(*value),
                    _ => None,
                };
                let value = value.filter(|value| integer_of_type(*value, column).is_ok());
                Action::Set(value.ok_or_else(|| refuse(3))?)
            }
            (Some(Value::Text(word)), Some(_)) if word.eq_ignore_ascii_case("NORESEED") => return Err(refuse(3)),
            _ => return Err(refuse(2)),
        };
        self.batch.know_identity(&place, &table, column)?;
        let last = self.batch.last_identity(&place, column)?;
        let before = match action {
            Action::Tell => self.batch.environment.identities.get((place.database.id(), table.id)),
            _ => self.batch.in_context(&place.database, |this, context| {
                this.maintenance().reseed_locked(context, (&place.database, &table), (column, identity), action, last)
            })?,
        };
        if !says {
            return Ok(());
        }
        let quoted = |value: Option<i128>| value.map_or_else(|| "NULL".to_owned(), |value| value.to_string());
        let current = quoted(before.and_then(|state| state.last));
        let error = match action {
            Action::Set(_) => errors::IDENTITY_RESEEDED.with([&current]),
            _ => errors::IDENTITY_INFORMATION.with([&current, &quoted(last)]),
        };
        self.batch.send_message(Message::of(position.line, error))
    }

    /// 2501.
    pub(super) fn table_to_check(&self, name: &Value, position: Position) -> Result<(Place, Arc<Table>), Failure> {
        let named = |name: &str| -> Result<Option<(Place, Arc<Table>)>, SqlError> {
            let Some(name) = parse_name(name) else { return Ok(None) };
            let place = self.batch.place(&name)?;
            let snapshot = place.database.snapshot();
            let schema = snapshot.schema_id(&place.schema);
            let table = schema.and_then(|schema| snapshot.table(schema, &place.name)).map(Arc::clone);
            Ok(table.map(|table| (place, table)))
        };
        let (found, written) = match name {
            Value::Text(name) => (named(name)?, name.clone()),
            Value::Int(id) => (self.place_of_id(*id), id.to_string()),
            _ => (None, String::new()),
        };
        found.ok_or_else(|| no_such_table(&written).at(position).into())
    }

    /// A table of the current database by its object id.
    fn place_of_id(&self, id: i64) -> Option<(Place, Arc<Table>)> {
        let database = self.batch.database();
        let snapshot = database.snapshot();
        let table = Arc::clone(snapshot.tables.get(&ObjectId(i32::try_from(id).ok()?))?);
        let schema = snapshot.schema_by_id(table.schema)?.name.clone();
        let name = table.name.clone();
        Some((Place { database, schema, name }, table))
    }

    /// Sets the position of an identity column. No other session uses the table until the transaction ends. Returns the
    /// previous position.
    fn reseed_locked(
        &mut self,
        context: &StatementContext,
        (database, table): (&DatabaseUse, &Arc<Table>),
        (column, identity): (&TableColumn, IdentityColumn),
        action: Action,
        last: Option<i128>,
    ) -> Result<Option<IdentityState>, Failure> {
        context.hold(self.batch.lock(context, database, table.id, LockMode::SchemaModification)?);
        let snapshot = database.database().snapshot_of(context);
        let is_there = snapshot.tables.get(&table.id).is_some_and(|now| now.column_named(&column.name).is_some());
        if !is_there {
            return Err(no_such_table(&table.name).into());
        }
        let key = (database.id(), table.id);
        let identities = Arc::clone(&self.batch.environment.identities);
        // If the table was truncated in the meantime, the position is no longer known.
        let before = identities.get(key);
        let increment = i128::from(identity.increment);
        let had_value = before.is_some_and(|state| state.last.is_some());
        let (next, current) = match action {
            Action::Set(value) if had_value => (value + increment, Some(value)),
            Action::Set(value) => (value, None),
            Action::Tell | Action::Correct => {
                let current = before.and_then(|state| state.last);
                let is_behind = |last: &i128| {
                    current.is_none_or(|current| if increment > 0 { current < *last } else { current > *last })
                };
                let Some(last) = last.filter(is_behind) else { return Ok(before) };
                (last + increment, Some(last))
            }
        };
        let position = IdentityPosition { next, used: current.is_some() };
        database.database().set_identity_position(context, table.id, Some(position)).map_err(SqlError::from)?;
        let state = IdentityState { next, last: current, noted: Some(next), is_uncommitted: true };
        identities.put(context, key, Some(state));
        Ok(before)
    }
}

impl Interpreter<'_> {
    /// Makes the identity column of a truncated table start again at its seed. No other session inserts until the
    /// table's lock is released.
    pub(crate) fn start_identity_anew(
        &self,
        context: &StatementContext,
        database: &DatabaseUse,
        table: ObjectId,
    ) -> Result<(), Failure> {
        let snapshot = database.database().snapshot_of(context);
        let has_identity = |table: &Arc<Table>| table.identity_column().is_some();
        if !snapshot.tables.get(&table).is_some_and(has_identity) {
            return Ok(());
        }
        if database.database().identity_position(table).map_err(SqlError::from)?.is_some() {
            database.database().set_identity_position(context, table, None).map_err(SqlError::from)?;
        }
        self.forget_identity(context, database.id(), table);
        Ok(())
    }
}
