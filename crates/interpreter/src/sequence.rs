//! Sequence values for statements: resolves and locks the names, and takes values.

use std::sync::{Arc, Weak};

use hobt_base::{DatabaseId, Position, SqlError, errors};
use hobt_catalog::Sequence;
use hobt_engine::DatabaseUse;
use hobt_tsql::ast::ObjectName;
use hobt_txn::StatementContext;
use hobt_txn::locks::{LockMode, LockResource};
use hobt_types::{SqlType, TypedValue, Value};

use super::call::{Argument, parse_parameters};
use super::failure::Failure;
use super::frame::Frame;
use super::names::{Names, invalid_object, written};
use super::system_functions::parse_name;
use super::table_locks::{BIND_ATTEMPTS, definition_changed};
use crate::interpreter::Interpreter;
use crate::open_transaction::OpenTransaction;
use crate::place::lock_resource;
use hobt_table::{RunSettings, StatementRun};
use hobt_udf::NextValues;

impl Names<'_> {
    /// The sequence with this name.
    fn sequence(&self, name: &ObjectName) -> Result<(DatabaseUse, Arc<Sequence>), SqlError> {
        let place = self.place(name)?;
        let snapshot = place.database.snapshot();
        let schema = snapshot.schema_id(&place.schema);
        if let Some(sequence) = schema.and_then(|schema| snapshot.sequence(schema, &place.name)) {
            return Ok((place.database, Arc::clone(sequence)));
        }
        if schema.is_some_and(|schema| snapshot.has_object(schema, &place.name)) {
            return Err(errors::NOT_A_SEQUENCE.with([&written(name)]).at(name.position()));
        }
        Err(invalid_object(name))
    }

    /// Like [`Names::sequence`], locked against changes until `run` ends.
    fn locked_sequence(
        &self,
        run: &Arc<StatementRun>,
        name: &ObjectName,
    ) -> Result<(DatabaseUse, Arc<Sequence>), SqlError> {
        for _ in 0..BIND_ATTEMPTS {
            let (database, sequence) = self.sequence(name)?;
            let mut used = self.sequences.borrow_mut();
            let is_it = |(known, locked, id): &(Weak<StatementRun>, Arc<Sequence>, DatabaseId)| {
                *id == database.id() && Arc::ptr_eq(locked, &sequence) && known.as_ptr() == Arc::as_ptr(run)
            };
            if used.locked.iter().any(is_it) {
                return Ok((database, sequence));
            }
            run.uses_database(&database);
            let patience = self.state.options.patience();
            let resource = LockResource::Object(database.id(), sequence.id);
            let owner = run.context.lock_owner();
            let mode = LockMode::SchemaStability;
            let lock = lock_resource(self.environment, self.state, self.cancelled, owner, resource, mode, patience);
            run.hold_locks_for_statement(vec![lock.map_err(|failure| failure.error)?]);
            used.locked.push((Arc::downgrade(run), sequence, database.id()));
        }
        Err(definition_changed())
    }

    /// The values of a sequence, for the rows of a query.
    pub(super) fn values_of_sequence(&self, name: &ObjectName) -> Result<NextValues, SqlError> {
        let run = self.statement()?;
        let (database, sequence) = self.locked_sequence(&run, name)?;
        let (sql_type, increment) = (sequence.sql_type, sequence.increment);
        // One key per sequence, independent of how its name is written.
        let known_as = format!("{}.{}", database.id(), sequence.id);
        let context = Arc::clone(&run.context);
        let take = move |count: u64, take: &mut dyn FnMut(i128, u64)| {
            let taken = database.database().take_sequence_values(&context, &sequence, count, take);
            taken.map_err(SqlError::from)
        };
        Ok(NextValues::new(known_as, sql_type, increment, Arc::new(take)))
    }

    /// The type of a sequence's values.
    pub(super) fn type_of_sequence(&self, name: &ObjectName) -> Result<SqlType, SqlError> {
        self.sequence(name).map(|(_, sequence)| sequence.sql_type)
    }

    /// The value of a sequence for the current row.
    pub(super) fn row_value_of_sequence(&self, name: &ObjectName) -> Result<TypedValue, SqlError> {
        let (database, sequence) = self.sequence(name)?;
        let (key, sql_type) = ((database.id(), sequence.id), sequence.sql_type);
        let known = self.sequences.borrow().row.iter().find(|(known, _)| *known == key).map(|(_, value)| value.clone());
        if let Some(value) = known {
            return Ok(TypedValue { sql_type, value });
        }
        let value = match self.run.get() {
            Some(run) => {
                let (database, sequence) = self.locked_sequence(run, name)?;
                one_value(&database, &sequence, &run.context)?
            }
            None => self.in_own_statement(|this, run| {
                let (database, sequence) = this.locked_sequence(run, name)?;
                one_value(&database, &sequence, &run.context)
            })?,
        };
        self.sequences.borrow_mut().row.push((key, value.clone()));
        Ok(TypedValue { sql_type, value })
    }

    /// Runs `body` in a statement of its own, or of the open transaction if there is one. It changes only the
    /// sequence's position.
    fn in_own_statement<T>(
        &self,
        body: impl FnOnce(&Self, &Arc<StatementRun>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let open = self.state.transaction.as_ref().map(OpenTransaction::transaction);
        let instance = &self.environment.instance;
        let run = StatementRun::new(instance, self.state.id, open, Arc::clone(self.cancelled), RunSettings::default())?;
        let result = body(self, &run);
        run.end(result.is_ok())?;
        result
    }
}

fn one_value(database: &DatabaseUse, sequence: &Arc<Sequence>, context: &StatementContext) -> Result<Value, SqlError> {
    let mut value = None;
    let taken = database.database().take_sequence_values(context, sequence, 1, &mut |first, _| value = Some(first));
    taken.map_err(SqlError::from)?;
    let value = value.ok_or_else(|| SqlError::internal("a sequence gave no value"))?;
    value_of(value, sequence.sql_type)
}

/// A number in a sequence's type.
fn value_of(number: i128, sql_type: SqlType) -> Result<Value, SqlError> {
    Ok(match sql_type {
        SqlType::Decimal { .. } => Value::Decimal(number),
        _ => {
            Value::Int(i64::try_from(number).map_err(|_| SqlError::internal("a sequence's value is none of its type"))?)
        }
    })
}

/// The parameters of `sp_sequence_get_range`. Those that are `sql_variant` in SQL Server are numbers here.
const RANGE_PARAMETERS: &str = "@sequence_name nvarchar(776), @range_size bigint, \
    @range_first_value decimal(38, 0) = NULL OUTPUT, @range_last_value decimal(38, 0) = NULL OUTPUT, \
    @range_cycle_count int = NULL OUTPUT, @sequence_increment decimal(38, 0) = NULL OUTPUT, \
    @sequence_min_value decimal(38, 0) = NULL OUTPUT, @sequence_max_value decimal(38, 0) = NULL OUTPUT";

impl Interpreter<'_> {
    /// `sp_sequence_get_range`: takes consecutive values.
    ///
    /// # Errors
    /// 201, 208, 11726, 11728, 11732; 11708 for a size below 1.
    pub(super) fn sp_sequence_get_range(
        &mut self,
        arguments: &[Argument<'_>],
        position: Position,
    ) -> Result<i32, Failure> {
        let parameters = parse_parameters(RANGE_PARAMETERS)?;
        let mut frame = Frame::new(None, false);
        self.bind_parameters(&parameters, "sp_sequence_get_range", arguments, &mut frame, position)?;
        let given = |name: &str| frame.get(name).map_or(Value::Null, |given| given.value.clone());
        let name = match given("@sequence_name") {
            Value::Text(name) => parse_name(&name),
            _ => None,
        };
        let name = name.ok_or_else(|| errors::SEQUENCE_NAME_NULL.error().at(position))?;
        let size = match given("@range_size") {
            Value::Int(size) => u64::try_from(size).ok().filter(|size| *size > 0),
            _ => None,
        };
        let size = size.ok_or_else(|| errors::SEQUENCE_ARGUMENT.with([&"@range_size"]).at(position))?;
        let (range, sequence) = self.names_alone().in_own_statement(|names, run| {
            let (database, sequence) = names.locked_sequence(run, &name)?;
            let range = database.database().take_sequence_range(&run.context, &sequence, size);
            Ok((range.map_err(SqlError::from)?, sequence))
        })?;
        for (name, value) in [
            ("@range_first_value", Value::Decimal(range.first)),
            ("@range_last_value", Value::Decimal(range.last)),
            (
                "@range_cycle_count",
                Value::Int(i64::try_from(range.cycles).unwrap_or(i64::MAX).min(i64::from(i32::MAX))),
            ),
            ("@sequence_increment", Value::Decimal(sequence.increment)),
            ("@sequence_min_value", Value::Decimal(sequence.minimum)),
            ("@sequence_max_value", Value::Decimal(sequence.maximum)),
        ] {
            frame.set(name, value)?;
        }
        self.return_outputs(&parameters, arguments, &frame)?;
        Ok(0)
    }
}
