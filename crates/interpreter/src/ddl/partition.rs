//! Partition functions and schemes, and switching of partitions between tables.

use hobt_base::{Position, SqlError, errors, number};
use hobt_catalog::Table;
use hobt_engine::{PartitionFunctionDefinition, PartitionSchemeDefinition, SwitchSide, partitions_in};
use hobt_tsql::ast::{
    AlterPartitionFunction, AlterPartitionScheme, CreatePartitionFunction, CreatePartitionScheme, Expression,
    Identifier, ObjectName, OptionItem, PartitionRange,
};
use hobt_types::{Collation, SqlType, Value};

use crate::ddl::Definitions;
use crate::failure::Failure;
use crate::interpreter::Outcome;
use crate::place::Place;
use hobt_binder::collation_of;

/// The position of the first number that is not a partition of the table.
pub(super) fn wrong_range(table: &Table, partitions: &[PartitionRange], ranges: &[(i64, i64)]) -> Option<Position> {
    let is_wrong = |number: i64| partitions_in(table, &[(number, number)]).is_err();
    partitions.iter().zip(ranges).find_map(|(written, (first, last))| {
        let last_written = written.last.as_ref().unwrap_or(&written.first);
        let wrong = if is_wrong(*first) { &written.first } else { last_written };
        (is_wrong(*first) || is_wrong(*last)).then(|| wrong.position())
    })
}

impl Definitions<'_, '_> {
    pub(crate) fn create_partition_function(&mut self, create: &CreatePartitionFunction) -> Result<Outcome, Failure> {
        let parameter = self.batch.data_type(&create.data_type)?;
        let written = collation_of(parameter, create.collation.as_ref())?;
        let collation = written.or_else(|| parameter.is_text().then(Collation::default));
        let mut boundaries: Vec<Value> = Vec::with_capacity(create.values.len());
        for (index, value) in create.values.iter().enumerate() {
            let converted = self.batch.evaluate(value).and_then(|given| {
                let from = given.sql_type;
                self.batch
                    .convert(given, parameter)
                    .map_err(|_| boundary_type(index, from.name(), parameter.name()).into())
            });
            boundaries.push(converted.map_err(|mut failure| {
                failure.error = failure.error.at(value.position());
                failure
            })?);
        }
        let definition = PartitionFunctionDefinition {
            name: create.name.value.clone(),
            parameter,
            collation,
            range_right: create.range_right,
            boundaries,
        };
        let database = self.batch.database();
        let (_, warnings) = self.batch.in_context(&database, |_, context| {
            let created = database.database().create_partition_function(context, &definition);
            Ok(created.map_err(|error| error.to_sql_error().at(create.values_span.position))?)
        })?;
        self.warn(warnings)?;
        Ok(Outcome::QUIET)
    }

    pub(crate) fn create_partition_scheme(&mut self, create: &CreatePartitionScheme) -> Result<Outcome, Failure> {
        let definition = PartitionSchemeDefinition {
            name: create.name.value.clone(),
            function: create.function.value.clone(),
            filegroups: create.filegroups.iter().map(|filegroup| filegroup.value.clone()).collect(),
            all: create.all,
        };
        let database = self.batch.database();
        let (_, warnings) = self.batch.in_context(&database, |_, context| {
            Ok(database.database().create_partition_scheme(context, &definition).map_err(SqlError::from)?)
        })?;
        self.warn(warnings)?;
        Ok(Outcome::QUIET)
    }

    /// `ALTER PARTITION FUNCTION name () SPLIT | MERGE RANGE (value)`.
    pub(crate) fn alter_partition_function(&mut self, alter: &AlterPartitionFunction) -> Result<Outcome, Failure> {
        let database = self.batch.database();
        let (name, position) = (&alter.name.value, alter.name.position);
        let function = database.snapshot().partition_function(name).cloned();
        let function = function.ok_or_else(|| errors::INVALID_OBJECT.with([&name]).at(position))?;
        let Some(value) = &alter.value else {
            return Err(SqlError::not_supported("SPLIT RANGE () without a value").at(position).into());
        };
        let given = self.batch.evaluate(value)?;
        let from = given.sql_type;
        let value = self
            .batch
            .convert(given, function.parameter)
            .map_err(|_| boundary_type(0, from.name(), function.parameter.name()).at(value.position()))?;
        self.batch.in_context(&database, |this, context| {
            let altered = this.definitions().locking_definitions(context, &database, |lock| {
                database.database().alter_partition_function(context, name, &value, alter.split, lock)
            });
            Ok(altered.map_err(|error| error.to_sql_error().at(position))?)
        })?;
        Ok(Outcome::QUIET)
    }

    /// `ALTER PARTITION SCHEME name NEXT USED [filegroup]`.
    pub(crate) fn alter_partition_scheme(&mut self, alter: &AlterPartitionScheme) -> Result<Outcome, Failure> {
        let database = self.batch.database();
        let filegroup = alter.filegroup.as_ref().map(|filegroup| filegroup.value.as_str());
        self.batch.in_context(&database, |_, context| {
            let altered = database.database().alter_partition_scheme(context, &alter.name.value, filegroup);
            Ok(altered.map_err(|error| error.to_sql_error().at(alter.name.position))?)
        })?;
        Ok(Outcome::QUIET)
    }

    /// `ALTER TABLE source SWITCH [PARTITION x] TO target [PARTITION y]`.
    pub(super) fn switch_partition(
        &mut self,
        source: &Place,
        source_partition: Option<&Expression>,
        target: &ObjectName,
        target_partition: Option<&Expression>,
        options: &[OptionItem],
    ) -> Result<(), Failure> {
        let position = target.position();
        if let Some(option) = options.iter().find(|option| option.name != "WAIT_AT_LOW_PRIORITY") {
            let text = format!("the option {} of SWITCH", option.name);
            return Err(SqlError::not_supported(text).at(option.span.position).into());
        }
        let place = self.batch.place(target)?;
        let (database, other) = (source.database.clone(), place.database.clone());
        if database.id() != other.id() {
            return Err(errors::SWITCH_OTHER_DATABASE
                .with([&source.name, &database.name(), &place.name, &other.name()])
                .at(position)
                .into());
        }
        let from = SwitchSide {
            schema: source.schema.clone(),
            name: source.name.clone(),
            partition: self.partition_number(source_partition)?,
        };
        let to =
            SwitchSide { schema: place.schema, name: place.name, partition: self.partition_number(target_partition)? };
        self.batch.in_context(&database, |this, context| {
            let switched = this.definitions().locking_definitions(context, &database, |lock| {
                database.database().switch_partition(context, &from, &to, lock)
            });
            Ok(switched.map_err(|error| error.to_sql_error().at(position))?)
        })
    }

    fn partition_number(&mut self, number: Option<&Expression>) -> Result<Option<i64>, Failure> {
        let Some(number) = number else { return Ok(None) };
        match self.batch.evaluate_as(number, SqlType::BigInt)? {
            Value::Int(number) => Ok(Some(number)),
            _ => Ok(Some(0)),
        }
    }

    /// The ranges after `PARTITIONS`: their first and last partitions, from 1.
    pub(super) fn partition_ranges(&mut self, partitions: &[PartitionRange]) -> Result<Vec<(i64, i64)>, Failure> {
        let mut ranges = Vec::with_capacity(partitions.len());
        for range in partitions {
            let first = self.partition_number(Some(&range.first))?.unwrap_or(0);
            let last = self.partition_number(range.last.as_ref())?.unwrap_or(first);
            ranges.push((first, last));
        }
        Ok(ranges)
    }

    /// `TRUNCATE TABLE … WITH (PARTITIONS (…))`.
    pub(super) fn truncate_partitions(
        &mut self,
        place: &Place,
        partitions: &[PartitionRange],
        position: Position,
    ) -> Result<(), Failure> {
        let ranges = self.partition_ranges(partitions)?;
        self.batch.in_context(&place.database, |this, context| {
            let truncated = this.definitions().locking_definition(context, &place.database, |lock| {
                let table = (place.schema.as_str(), place.name.as_str());
                place.database.database().truncate_partitions(context, table, &ranges, lock)
            });
            truncated.map_err(|error| {
                let error = error.to_sql_error();
                let wrong = || {
                    let snapshot = place.database.snapshot();
                    let table = snapshot.table(snapshot.schema_id(&place.schema)?, &place.name)?;
                    wrong_range(table, partitions, &ranges)
                };
                let is_of_range = error.number == number::NO_SUCH_PARTITION;
                error.at(is_of_range.then(wrong).flatten().unwrap_or(position))
            })?;
            Ok(())
        })
    }

    pub(super) fn drop_partition_function(&mut self, name: &Identifier) -> Result<(), Failure> {
        let database = self.batch.database();
        self.batch.in_context(&database, |_, context| {
            Ok(database.database().drop_partition_function(context, &name.value).map_err(SqlError::from)?)
        })
    }

    pub(super) fn drop_partition_scheme(&mut self, name: &Identifier) -> Result<(), Failure> {
        let database = self.batch.database();
        self.batch.in_context(&database, |_, context| {
            Ok(database.database().drop_partition_scheme(context, &name.value).map_err(SqlError::from)?)
        })
    }
}

/// 7705: the value at `index` (from 0) cannot be converted.
fn boundary_type(index: usize, from: &str, to: &str) -> SqlError {
    errors::BOUNDARY_TYPE.with([&(index + 1), &from, &to])
}
