//! Identity columns: generated values, and `SET IDENTITY_INSERT`, under which statements supply them.
//!
//! The next value is kept in memory. After a start it is derived from the values in the table. If `DBCC CHECKIDENT` has
//! reseeded the table, that is not possible. Then the catalog stores the position, one block of values ahead, so some
//! values are skipped after a start, as in SQL Server after a crash. Generated values are never returned: a statement
//! that is rolled back leaves a gap. A reseeding is undone with its transaction.

use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::{DatabaseId, ObjectId, SqlError, number};
use hobt_catalog::{IdentityPosition, Table, TableColumn};
use hobt_engine::{Database, DatabaseUse};
use hobt_functions::array_value;
use hobt_sync::schedule::Mutex;
use hobt_tsql::ast::ObjectName;
use hobt_txn::StatementContext;
use hobt_types::{SqlType, Value};

use super::ddl::Place;
use super::failure::Failure;
use super::insert::Target;
use super::names::written;
use super::run::Interpreter;
use hobt_table::StatementRun;
use hobt_udf::NextValues;

/// The number of values by which the catalog is ahead of a reseeded table, equal to SQL Server's cache size.
const NOTED_AHEAD: u64 = 1000;

pub(super) type IdentityKey = (DatabaseId, ObjectId);

/// The position of an identity column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IdentityState {
    /// The next value.
    pub(super) next: i128,
    /// SQL Server's current identity value: the last one generated or set. `None` before the first.
    pub(super) last: Option<i128>,
    /// For a reseeded table: the position in the catalog. Values from there on must not be generated yet.
    pub(super) noted: Option<i128>,
    /// Whether the transaction that reseeded it is open. No other session uses the table meanwhile.
    pub(super) is_uncommitted: bool,
}

impl IdentityState {
    /// Whether the values before `behind` would count as used after a crash.
    fn is_noted(&self, behind: i128, is_rising: bool) -> bool {
        self.noted.is_none_or(|noted| if is_rising { behind <= noted } else { behind >= noted })
    }
}

/// The result of a request for values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// The first of the values.
    From(i128),
    /// No values: the catalog must be moved ahead first.
    Unnoted,
}

/// The identity columns that values were requested for.
#[derive(Default)]
pub(super) struct Identities {
    states: Mutex<HashMap<IdentityKey, IdentityState>>,
    /// Serialises updates of the catalog's positions.
    noting: Mutex<()>,
}

impl Identities {
    pub(super) fn get(&self, key: IdentityKey) -> Option<IdentityState> {
        self.states.lock().get(&key).copied()
    }

    /// Takes values. `None` if the table's next value has not been determined yet.
    pub(super) fn take(&self, key: IdentityKey, increment: i64, count: u64) -> Option<Taken> {
        let mut states = self.states.lock();
        let state = states.get_mut(&key)?;
        let (first, increment) = (state.next, i128::from(increment));
        let behind = first + increment * i128::from(count);
        if !state.is_noted(behind, increment > 0) {
            return Some(Taken::Unnoted);
        }
        if count > 0 {
            (state.next, state.last) = (behind, Some(behind - increment));
        }
        Some(Taken::From(first))
    }

    /// Takes values of a table whose position is known. If the catalog stores the position, it is first moved ahead of
    /// them.
    fn take_noted(
        self: &Arc<Self>,
        ctx: &StatementContext,
        database: &Arc<Database>,
        table: ObjectId,
        increment: i64,
        count: u64,
    ) -> Result<i128, SqlError> {
        let key = (database.id(), table);
        loop {
            match self.take(key, increment, count) {
                Some(Taken::From(first)) => return Ok(first),
                // Other sessions may have taken the values that the catalog was moved ahead of.
                Some(Taken::Unnoted) => self.note_ahead(ctx, database, key, increment, count)?,
                None => return Err(SqlError::internal("an identity column of which nobody knows where it is")),
            }
        }
    }

    /// Replaces or removes a state. If the statement is undone, the previous state is restored.
    pub(super) fn put(self: &Arc<Self>, ctx: &StatementContext, key: IdentityKey, state: Option<IdentityState>) {
        let mut states = self.states.lock();
        let before = match state {
            Some(state) => states.insert(key, state),
            None => states.remove(&key),
        };
        drop(states);
        let identities = Arc::clone(self);
        ctx.on_undo(move || {
            let mut states = identities.states.lock();
            states.remove(&key);
            states.extend(before.map(|before| (key, before)));
            Ok(())
        });
        let identities = Arc::clone(self);
        ctx.on_commit(move || {
            if let Some(state) = identities.states.lock().get_mut(&key) {
                state.is_uncommitted = false;
            }
            Ok(())
        });
    }

    /// Moves the catalog's position ahead of `count` values and one more block.
    fn note_ahead(
        self: &Arc<Self>,
        ctx: &StatementContext,
        database: &Arc<Database>,
        key: IdentityKey,
        increment: i64,
        count: u64,
    ) -> Result<(), SqlError> {
        let _alone = self.noting.lock();
        let Some(state) = self.get(key) else { return Ok(()) };
        let Some(before) = state.noted else { return Ok(()) };
        let noted = state.next + i128::from(increment) * (i128::from(count) + i128::from(NOTED_AHEAD));
        let position = IdentityPosition { next: noted, used: true };
        if state.is_uncommitted {
            database.set_identity_position(ctx, key.1, Some(position))?;
            let identities = Arc::clone(self);
            ctx.on_undo(move || {
                identities.states.lock().entry(key).and_modify(|state| state.noted = Some(before));
                Ok(())
            });
        } else {
            database.note_identity_position(key.1, position)?;
        }
        self.states.lock().entry(key).and_modify(|state| state.noted = Some(noted));
        Ok(())
    }
}

impl Interpreter<'_> {
    /// `SET IDENTITY_INSERT`: for one table of a session at a time.
    ///
    /// # Errors
    /// 1088, 8106, 8107.
    pub(super) fn set_identity_insert(&mut self, name: &ObjectName, on: bool) -> Result<(), Failure> {
        let place = self.place(name)?;
        let snapshot = place.database.snapshot();
        let table = snapshot.schema_id(&place.schema).and_then(|schema| snapshot.table(schema, &place.name));
        let table = table.ok_or_else(|| {
            let text = format!(
                "Cannot find the object \"{}\" because it does not exist or you do not have permissions.",
                written(name)
            );
            SqlError::new(1088, text).at(name.position())
        })?;
        if table.identity_column().is_none() {
            let text =
                format!("Table '{}' does not have the identity property. Cannot perform SET operation.", written(name));
            return Err(SqlError::new(8106, text).at(name.position()).into());
        }
        let key = (place.database.id(), table.id);
        let other = self.state.identity_insert.filter(|known| *known != key);
        match (on, other.and_then(|other| self.name_of(other))) {
            (true, Some(other)) => {
                let text = format!(
                    "IDENTITY_INSERT is already ON for table '{other}'. Cannot perform SET operation for table '{}'.",
                    written(name)
                );
                return Err(SqlError::new(8107, text).at(name.position()).into());
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
        let text = format!(
            "Explicit value must be specified for identity column in table '{}' either when IDENTITY_INSERT is set to ON or \
             when a replication user is inserting into a NOT FOR REPLICATION identity column.",
            table.name
        );
        Err(SqlError::new(545, text))
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
        let text = format!("Arithmetic overflow error converting IDENTITY to data type {}.", column.sql_type.name());
        return Err(SqlError::new(number::OVERFLOW, text));
    }
    Ok(match column.sql_type {
        SqlType::Decimal { .. } => Value::Decimal(value),
        _ => Value::Int(i64::try_from(value).unwrap_or(i64::MAX)),
    })
}
