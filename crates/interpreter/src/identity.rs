//! Identity columns: generated values, and `SET IDENTITY_INSERT`, under which statements supply them.
//!
//! The next value is kept in memory. After a start it is derived from the values in the table. If `DBCC CHECKIDENT` has
//! reseeded the table, that is not possible. Then the catalog stores the position, one block of values ahead, so some
//! values are skipped after a start, as in SQL Server after a crash. Generated values are never returned: a statement
//! that is rolled back leaves a gap. A reseeding is undone with its transaction.

use std::sync::Arc;

use hobt_base::{DatabaseId, ObjectId, SqlError, errors};
use hobt_catalog::{IdentityPosition, Table, TableColumn};
use hobt_engine::DatabaseUse;
use hobt_functions::array_value;
use hobt_tsql::ast::ObjectName;
use hobt_txn::StatementContext;
use hobt_types::{SqlType, Value};

use super::failure::Failure;
use super::names::written;
use crate::identities::IdentityState;
use crate::insert_target::Target;
use crate::interpreter::Interpreter;
use crate::place::Place;
use hobt_table::StatementRun;
use hobt_udf::NextValues;

impl Interpreter<'_> {
    /// `SET IDENTITY_INSERT`: for one table of a session at a time.
    ///
    /// # Errors
    /// 1088, 8106, 8107.
    pub(super) fn set_identity_insert(&mut self, name: &ObjectName, on: bool) -> Result<(), Failure> {
        let place = self.place(name)?;
        let snapshot = place.database.snapshot();
        let table = snapshot.schema_id(&place.schema).and_then(|schema| snapshot.table(schema, &place.name));
        let table = table.ok_or_else(|| errors::NO_SUCH_OBJECT.with([&written(name)]).at(name.position()))?;
        if table.identity_column().is_none() {
            return Err(errors::NO_IDENTITY_PROPERTY.with([&written(name)]).at(name.position()).into());
        }
        let key = (place.database.id(), table.id);
        let other = self.state.identity_insert.filter(|known| *known != key);
        match (on, other.and_then(|other| self.name_of(other))) {
            (true, Some(other)) => {
                return Err(errors::IDENTITY_INSERT_TWICE.with([&other, &written(name)]).at(name.position()).into());
            }
            (true, None) => self.state.identity_insert = Some(key),
            (false, _) if other.is_none() => self.state.identity_insert = None,
            (false, _) => {}
        }
        Ok(())
    }

    /// `database.schema.table`. `None` if the table was dropped.
    fn name_of(&self, (database, table): (DatabaseId, ObjectId)) -> Option<String> {
        let database = self.environment.instance.database_by_id(database).ok()?;
        let snapshot = database.snapshot();
        let table = snapshot.tables.get(&table)?;
        let schema = snapshot.schema_by_id(table.schema)?;
        Some(format!("{}.{}.{}", database.name(), schema.name, table.name))
    }

    /// Whether statements supply the values of a table's identity column.
    pub(super) fn inserts_identity(&self, database: &DatabaseUse, table: &Table) -> bool {
        self.state.identity_insert == Some((database.id(), table.id))
    }

    /// Raises an error if the statement must supply the value.
    ///
    /// # Errors
    /// 545.
    pub(super) fn check_implicit_identity(&self, database: &DatabaseUse, table: &Table) -> Result<(), SqlError> {
        if !self.inserts_identity(database, table) {
            return Ok(());
        }
        Err(errors::IDENTITY_VALUE_MISSING.with([&table.name]))
    }

    /// The next value of an identity column. Takes `count` values. The table is locked against other sessions.
    ///
    /// After a start, the position comes from the table's greatest value (the least if the increment is negative), or
    /// from the catalog if the table was reseeded.
    pub(super) fn next_identity(
        &mut self,
        run: &Arc<StatementRun>,
        target: &Target,
        column: &TableColumn,
        count: u64,
    ) -> Result<i128, Failure> {
        let Some(identity) = column.identity else { return Ok(0) };
        self.know_identity(&target.place, &target.table, column)?;
        let database = target.place.database.database();
        let identities = &self.environment.identities;
        Ok(identities.take_noted(&run.context, database, target.table.id, identity.increment, count)?)
    }

    /// The values of an identity column for the rows of a query. They are taken as the rows arrive, so other sessions
    /// may take values in between.
    pub(super) fn identity_values(
        &mut self,
        run: &Arc<StatementRun>,
        target: &Target,
        column: &TableColumn,
    ) -> Result<NextValues, Failure> {
        self.know_identity(&target.place, &target.table, column)?;
        let increment = column.identity.map_or(1, |identity| identity.increment);
        let identities = Arc::clone(&self.environment.identities);
        let (context, database) = (Arc::clone(&run.context), Arc::clone(target.place.database.database()));
        let (table, of_type) = (target.table.id, column.clone());
        let take = move |count: u64, hand_over: &mut dyn FnMut(i128, u64)| {
            let first = identities.take_noted(&context, &database, table, increment, count)?;
            integer_of_type(first + i128::from(increment) * i128::from(count.saturating_sub(1)), &of_type)?;
            hand_over(first, count);
            Ok(())
        };
        Ok(NextValues::new(column.name.clone(), column.sql_type, i128::from(increment), Arc::new(take)))
    }

    /// Determines the position of an identity column, unless it is known.
    pub(super) fn know_identity(&mut self, place: &Place, table: &Table, column: &TableColumn) -> Result<(), Failure> {
        let Some(identity) = column.identity else { return Ok(()) };
        let key = (place.database.id(), table.id);
        if self.environment.identities.get(key).is_some() {
            return Ok(());
        }
        let increment = i128::from(identity.increment);
        let position = place.database.database().identity_position(table.id).map_err(SqlError::from)?;
        let state = match position {
            Some(IdentityPosition { next, used }) => {
                IdentityState { next, last: used.then(|| next - increment), noted: Some(next), is_uncommitted: false }
            }
            None => {
                let last = self.last_identity(place, column)?;
                let next = last.map_or(i128::from(identity.seed), |last| last + increment);
                IdentityState { next, last, noted: None, is_uncommitted: false }
            }
        };
        // Another session may have determined it in the meantime.
        self.environment.identities.states.lock().entry(key).or_insert(state);
        Ok(())
    }

    /// Called when a table is truncated or dropped. The column starts again at its seed, or continues where it was if
    /// this is undone. No other session inserts until the transaction ends.
    pub(super) fn forget_identity(&self, context: &StatementContext, database: DatabaseId, table: ObjectId) {
        self.environment.identities.put(context, (database, table), None);
    }

    /// Called after a statement that supplied identity values. The next value follows the greatest one, computed by
    /// `greatest` (the least if the increment is negative).
    pub(super) fn reseed(
        &mut self,
        run: &Arc<StatementRun>,
        target: &Target,
        greatest: impl FnOnce(&mut Self, &TableColumn) -> Result<Option<i128>, Failure>,
    ) -> Result<(), Failure> {
        let Some((_, column)) = target.explicit_identity() else { return Ok(()) };
        let Some(identity) = column.identity else { return Ok(()) };
        let key = (target.place.database.id(), target.table.id);
        let identities = Arc::clone(&self.environment.identities);
        if identities.get(key).is_none() {
            // The rows will provide the position. If the catalog stores it, it must be updated.
            let place = &target.place;
            if place.database.database().identity_position(target.table.id).map_err(SqlError::from)?.is_none() {
                return Ok(());
            }
            self.know_identity(place, &target.table, column)?;
        }
        let (is_rising, increment) = (identity.increment > 0, i128::from(identity.increment));
        let Some(last) = greatest(self, column)? else { return Ok(()) };
        let is_behind_noted = {
            let mut states = identities.states.lock();
            let Some(state) = states.get_mut(&key) else { return Ok(()) };
            let next = last + increment;
            if if is_rising { next > state.next } else { next < state.next } {
                (state.next, state.last) = (next, Some(last));
            }
            !state.is_noted(state.next, is_rising)
        };
        if is_behind_noted {
            let database = target.place.database.database();
            identities.note_ahead(&run.context, database, key, identity.increment, 0)?;
        }
        Ok(())
    }

    /// The greatest value in an identity column (the least if the increment is negative).
    pub(super) fn last_identity(&mut self, place: &Place, column: &TableColumn) -> Result<Option<i128>, Failure> {
        let is_rising = column.identity.is_none_or(|identity| identity.increment > 0);
        let aggregate = if is_rising { "MAX" } else { "MIN" };
        let quote = |name: &str| format!("[{}]", name.replace(']', "]]"));
        let text = format!(
            "SELECT {aggregate}({}) FROM {}.{}.{} WITH (NOLOCK)",
            quote(&column.name),
            quote(place.database.name()),
            quote(&place.schema),
            quote(&place.name)
        );
        let batch = hobt_tsql::parse_batch(&text)?;
        let Some(hobt_tsql::ast::StatementKind::Select(select)) = batch.statements.first().map(|first| &first.kind)
        else {
            return Err(SqlError::internal("the query for the last identity value is none").into());
        };
        let mut last = Value::Null;
        let sql_type = column.sql_type;
        let reader = self.new_run(None)?;
        self.run_bound(
            &reader,
            |binder| binder.bind_query(&select.query),
            |_, _| Ok(()),
            |_, batch| {
                if batch.num_rows() > 0 {
                    last = array_value(batch.column(0).as_ref(), 0, sql_type)?;
                }
                Ok(())
            },
        )?;
        Ok(identity_of(&last))
    }

    pub(super) fn note_identity(&mut self, value: i128) {
        self.state.identity = Value::Decimal(value);
        self.frame_mut().scope_identity = Value::Decimal(value);
    }
}

/// The integer in a value of an identity column.
pub(super) fn identity_of(value: &Value) -> Option<i128> {
    match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Decimal(value) => Some(*value),
        _ => None,
    }
}

/// Converts an identity value to its column's type.
///
/// # Errors
/// 8115.
pub(super) fn integer_of_type(value: i128, column: &TableColumn) -> Result<Value, SqlError> {
    let fits = match column.sql_type {
        SqlType::TinyInt => u8::try_from(value).is_ok(),
        SqlType::SmallInt => i16::try_from(value).is_ok(),
        SqlType::Int => i32::try_from(value).is_ok(),
        SqlType::Decimal { precision, .. } => value.unsigned_abs() < 10_u128.pow(u32::from(precision)),
        _ => i64::try_from(value).is_ok(),
    };
    if !fits {
        return Err(errors::OVERFLOW.with([&"IDENTITY", &column.sql_type.name()]));
    }
    Ok(match column.sql_type {
        SqlType::Decimal { .. } => Value::Decimal(value),
        _ => Value::Int(i64::try_from(value).unwrap_or(i64::MAX)),
    })
}
