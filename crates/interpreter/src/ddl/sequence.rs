//! `CREATE`, `ALTER` and `DROP SEQUENCE`.

use hobt_base::{SqlError, errors};
use hobt_engine::{SequenceAlteration, SequenceDefinition as Definition};
use hobt_tsql::ast::{Expression, ObjectName, SequenceDefinition, SequenceOption, SequenceOptionKind};
use hobt_types::{SqlType, Value};

use crate::ddl::Definitions;
use crate::failure::Failure;
use crate::interpreter::Outcome;

/// The options written for a sequence, with their numbers evaluated.
#[derive(Default)]
struct Options {
    sql_type: Option<SqlType>,
    start: Option<i128>,
    altered: SequenceAlteration,
}

impl Definitions<'_, '_> {
    pub(crate) fn define_sequence(&mut self, definition: &SequenceDefinition) -> Result<Outcome, Failure> {
        let name = &definition.name;
        let options = self.sequence_options(definition)?;
        let place = self.batch.place(name)?;
        let altered = options.altered;
        if definition.alter {
            self.batch.in_context(&place.database, |this, context| {
                let done = this.definitions().locking_definition(context, &place.database, |lock| {
                    place.database.database().alter_sequence(context, &place.schema, &place.name, &altered, lock)
                });
                Ok(done.map_err(|error| error.to_sql_error().at(name.position()))?)
            })?;
            return Ok(Outcome::QUIET);
        }
        let sequence = Definition {
            schema: place.schema.clone(),
            name: place.name.clone(),
            sql_type: options.sql_type.unwrap_or(SqlType::BigInt),
            start: options.start,
            increment: altered.increment.unwrap_or(1),
            minimum: altered.minimum.flatten(),
            maximum: altered.maximum.flatten(),
            cycles: altered.cycles.unwrap_or(false),
            cache: altered.cache.flatten(),
        };
        self.batch.in_context(&place.database, |_, context| {
            let created = place.database.database().create_sequence(context, &sequence);
            Ok(created.map_err(|error| error.to_sql_error().at(name.position()))?)
        })?;
        Ok(Outcome::QUIET)
    }

    fn sequence_options(&mut self, definition: &SequenceDefinition) -> Result<Options, Failure> {
        let name = &definition.name.name.value;
        let refuse = |option: &SequenceOption, error: SqlError| Err(Failure::from(error.at(option.span.position)));
        if definition.alter && definition.options.is_empty() {
            return Err(errors::ALTER_SEQUENCE_NOTHING.error().at(definition.name.position()).into());
        }
        let mut options = Options::default();
        for option in &definition.options {
            let altered = &mut options.altered;
            match &option.kind {
                SequenceOptionKind::As(_) if definition.alter => {
                    return refuse(option, errors::ALTER_SEQUENCE_TYPE.error());
                }
                SequenceOptionKind::As(data_type) => options.sql_type = Some(self.batch.data_type(data_type)?),
                SequenceOptionKind::Start(_) if definition.alter => {
                    return refuse(option, errors::ALTER_SEQUENCE_START.error());
                }
                SequenceOptionKind::Start(value) => options.start = Some(self.whole_number(value, "START WITH")?),
                SequenceOptionKind::Restart(_) if !definition.alter => {
                    return refuse(option, errors::CREATE_SEQUENCE_RESTART.error());
                }
                SequenceOptionKind::Restart(value) => {
                    let value = value.as_ref().map(|value| self.whole_number(value, "RESTART WITH"));
                    options.altered.restart = Some(value.transpose()?);
                }
                SequenceOptionKind::Increment(value) => {
                    altered.increment = Some(self.whole_number(value, "INCREMENT BY")?);
                }
                SequenceOptionKind::Minimum(value) => {
                    let value = value.as_ref().map(|value| self.whole_number(value, "MINVALUE"));
                    options.altered.minimum = Some(value.transpose()?);
                }
                SequenceOptionKind::Maximum(value) => {
                    let value = value.as_ref().map(|value| self.whole_number(value, "MAXVALUE"));
                    options.altered.maximum = Some(value.transpose()?);
                }
                SequenceOptionKind::Cycle(cycles) => altered.cycles = Some(*cycles),
                SequenceOptionKind::NoCache => altered.cache = Some(Some(0)),
                SequenceOptionKind::Cache(None) => altered.cache = Some(None),
                SequenceOptionKind::Cache(Some(value)) => {
                    let size = self.whole_number(value, "CACHE")?;
                    let Some(size) = i32::try_from(size).ok().filter(|size| *size > 0) else {
                        return refuse(option, errors::SEQUENCE_CACHE.with([name]));
                    };
                    options.altered.cache = Some(Some(size));
                }
            }
        }
        Ok(options)
    }

    fn whole_number(&mut self, value: &Expression, argument: &str) -> Result<i128, Failure> {
        let wrong = || errors::SEQUENCE_ARGUMENT.with([&argument]).at(value.position());
        let given = self.batch.evaluate(value)?;
        let whole = match given.sql_type {
            SqlType::Decimal { scale, .. } => scale == 0,
            other => other.is_integer(),
        };
        match given.value {
            Value::Int(number) if whole => Ok(i128::from(number)),
            Value::Decimal(number) if whole => Ok(number),
            _ => Err(wrong().into()),
        }
    }

    pub(super) fn drop_sequence(&mut self, name: &ObjectName) -> Result<(), Failure> {
        let place = self.batch.place(name)?;
        self.batch.in_context(&place.database, |this, context| {
            let database = place.database.database();
            let dropped = this.definitions().locking_definition(context, &place.database, |lock| {
                database.drop_sequence(context, &place.schema, &place.name, lock)
            });
            dropped.map_err(SqlError::from)?;
            // If the statement fails after this, the drop is undone.
            let snapshot = database.snapshot_of(context);
            let schema = snapshot.schema_id(&place.schema);
            for table in snapshot.tables.values() {
                for default in table.columns.iter().filter_map(|column| column.default.as_ref()) {
                    if Some(table.schema) == schema && names_sequence(&default.definition, &place.name) {
                        return Err(is_referenced(&place.name, &default.name).into());
                    }
                }
            }
            Ok(())
        })
    }
}

/// 3729.
fn is_referenced(name: &str, by: &str) -> SqlError {
    errors::SEQUENCE_IN_USE.with([&name, &by])
}

/// Whether a DEFAULT takes values from a sequence of this name.
fn names_sequence(default: &str, name: &str) -> bool {
    let Ok(parsed) = hobt_tsql::parse_expression(default) else { return false };
    names_sequence_in(&parsed, name)
}

fn names_sequence_in(expression: &Expression, name: &str) -> bool {
    match expression {
        Expression::NextValue { sequence, .. } => hobt_catalog::name_equals(&sequence.name.value, name),
        Expression::Unary { operand, .. } | Expression::Cast { operand, .. } | Expression::Convert { operand, .. } => {
            names_sequence_in(operand, name)
        }
        Expression::Arithmetic { first, rest } => {
            names_sequence_in(first, name) || rest.iter().any(|step| names_sequence_in(&step.operand, name))
        }
        Expression::Function { call } => match &call.arguments {
            hobt_tsql::ast::FunctionArguments::List { values, .. } => {
                values.iter().any(|value| names_sequence_in(value, name))
            }
            _ => false,
        },
        _ => false,
    }
}
