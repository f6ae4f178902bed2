//! Identity columns: the values that they give out, and `SET IDENTITY_INSERT`, under which statements give them.
//!
//! The next value lives in memory; after a start those that the table has say where to go on. Nothing takes a value back:
//! a statement that is undone leaves a gap.

use std::sync::Arc;

use hobt_base::{DatabaseId, ObjectId, SqlError, number};
use hobt_catalog::{Table, TableColumn};
use hobt_engine::DatabaseUse;
use hobt_functions::array_value;
use hobt_tsql::ast::ObjectName;
use hobt_txn::StatementContext;
use hobt_types::{SqlType, Value};

use super::failure::Failure;
use super::insert::Target;
use super::names::written;
use super::run::Interpreter;
use crate::execute::StatementRun;

impl Interpreter<'_> {
    /// `SET IDENTITY_INSERT`: one table of a session at a time.
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
        if !table.columns.iter().any(|column| column.identity.is_some()) {
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

    /// `database.schema.table`; `None` for a table that was dropped.
    fn name_of(&self, (database, table): (DatabaseId, ObjectId)) -> Option<String> {
        let database = self.environment.instance.database_by_id(database).ok()?;
        let snapshot = database.snapshot();
        let table = snapshot.tables.get(&table)?;
        let schema = snapshot.schema_by_id(table.schema)?;
        Some(format!("{}.{}.{}", database.name(), schema.name, table.name))
    }

    /// Whether statements give the values of a table's identity column.
    pub(super) fn inserts_identity(&self, database: &DatabaseUse, table: &Table) -> bool {
        self.state.identity_insert == Some((database.id(), table.id))
    }

    /// Refuses to give out a value where the statement has to.
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

    /// The next value of an identity column; `count` values are taken. The table is locked against others.
    ///
    /// After a start the greatest value (the least, when the step is negative) of the table tells where to go on.
    pub(super) fn next_identity(
        &mut self,
        run: &Arc<StatementRun>,
        target: &Target,
        column: &TableColumn,
        count: u64,
    ) -> Result<i128, Failure> {
        let Some(identity) = column.identity else { return Ok(0) };
        let key = (target.place.database.id(), target.table.id);
        let step = i128::from(identity.increment) * i128::from(count);
        let take = |next: &mut i128| std::mem::replace(next, *next + step);
        if let Some(next) = self.environment.executor.identities.lock().get_mut(&key) {
            return Ok(take(next));
        }
        let aggregate = if identity.increment > 0 { "MAX" } else { "MIN" };
        let last = self.last_identity(run, target, column, aggregate)?;
        let first = last.map_or(i128::from(identity.seed), |last| last + i128::from(identity.increment));
        // Another session may have found it meanwhile.
        Ok(take(self.environment.executor.identities.lock().entry(key).or_insert(first)))
    }

    /// A table is emptied or dropped: it starts again at its seed, or, where that is undone, goes on where it was. Nobody else
    /// inserts before the transaction has ended.
    pub(super) fn forget_identity(&self, context: &StatementContext, database: DatabaseId, table: ObjectId) {
        let (key, executor) = ((database, table), Arc::clone(&self.environment.executor));
        let before = executor.identities.lock().remove(&key);
        context.on_undo(move || {
            let mut identities = executor.identities.lock();
            match before {
                Some(next) => identities.insert(key, next),
                // The rows that are there again say where to go on.
                None => identities.remove(&key),
            };
            Ok(())
        });
    }

    /// After a statement that gave an identity column its values: the next one goes on behind the greatest.
    pub(super) fn reseed(&mut self, run: &Arc<StatementRun>, target: &Target) -> Result<(), Failure> {
        let Some((_, column)) = target.explicit_identity() else { return Ok(()) };
        let Some(identity) = column.identity else { return Ok(()) };
        let key = (target.place.database.id(), target.table.id);
        if !self.environment.executor.identities.lock().contains_key(&key) {
            return Ok(());
        }
        let (is_rising, increment) = (identity.increment > 0, i128::from(identity.increment));
        let last = self.last_identity(run, target, column, if is_rising { "MAX" } else { "MIN" })?;
        if let (Some(last), Some(next)) = (last, self.environment.executor.identities.lock().get_mut(&key)) {
            *next = if is_rising { (*next).max(last + increment) } else { (*next).min(last + increment) };
        }
        Ok(())
    }

    fn last_identity(
        &mut self,
        run: &Arc<StatementRun>,
        target: &Target,
        column: &TableColumn,
        aggregate: &str,
    ) -> Result<Option<i128>, Failure> {
        let quote = |name: &str| format!("[{}]", name.replace(']', "]]"));
        let text = format!(
            "SELECT {aggregate}({}) FROM {}.{}.{} WITH (NOLOCK)",
            quote(&column.name),
            quote(target.place.database.name()),
            quote(&target.place.schema),
            quote(&target.place.name)
        );
        let batch = hobt_tsql::parse_batch(&text)?;
        let Some(hobt_tsql::ast::StatementKind::Select(select)) = batch.statements.first().map(|first| &first.kind)
        else {
            return Err(SqlError::internal("the query for the last identity value is none").into());
        };
        let mut last = Value::Null;
        let sql_type = column.sql_type;
        let reader = self.new_run(None)?;
        let _same_statement = run;
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
        Ok(match last {
            Value::Int(last) => Some(i128::from(last)),
            Value::Decimal(last) => Some(last),
            _ => None,
        })
    }

    pub(super) fn note_identity(&mut self, value: i128) {
        self.state.identity = Value::Decimal(value);
        self.frame_mut().scope_identity = Value::Decimal(value);
    }
}

/// An identity value in its column's type.
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
