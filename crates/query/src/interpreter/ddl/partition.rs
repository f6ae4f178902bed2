//! Partition functions and schemes.

use hobt_base::{SqlError, number};
use hobt_engine::{PartitionFunctionDefinition, PartitionSchemeDefinition};
use hobt_tsql::ast::{CreatePartitionFunction, CreatePartitionScheme, Identifier};
use hobt_types::{Collation, Value};

use super::super::failure::Failure;
use super::super::run::{Interpreter, Outcome};

impl Interpreter<'_> {
    pub(in super::super) fn create_partition_function(
        &mut self,
        create: &CreatePartitionFunction,
    ) -> Result<Outcome, Failure> {
        let parameter = self.data_type(&create.data_type)?;
        let collation = match &create.collation {
            Some(name) => Some(Collation::from_name(&name.value).ok_or_else(|| {
                SqlError::new(number::INVALID_COLLATION, format!("Invalid collation '{}'.", name.value))
                    .at(name.position)
            })?),
            None if parameter.is_text() => Some(Collation::default()),
            None => None,
        };
        let mut boundaries: Vec<Value> = Vec::with_capacity(create.values.len());
        for (index, value) in create.values.iter().enumerate() {
            let converted = self.evaluate(value).and_then(|given| {
                let from = given.sql_type;
                self.convert(given, parameter).map_err(|_| boundary_type(index, from.name(), parameter.name()).into())
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
        let database = self.database();
        let (_, warnings) = self.in_context(&database, |_, context| {
            let created = database.database().create_partition_function(context, &definition);
            Ok(created.map_err(|error| error.to_sql_error().at(create.values_span.position))?)
        })?;
        self.warn(warnings)?;
        Ok(Outcome::QUIET)
    }

    pub(in super::super) fn create_partition_scheme(
        &mut self,
        create: &CreatePartitionScheme,
    ) -> Result<Outcome, Failure> {
        let definition = PartitionSchemeDefinition {
            name: create.name.value.clone(),
            function: create.function.value.clone(),
            filegroups: create.filegroups.iter().map(|filegroup| filegroup.value.clone()).collect(),
            all: create.all,
        };
        let database = self.database();
        let (_, warnings) = self.in_context(&database, |_, context| {
            Ok(database.database().create_partition_scheme(context, &definition).map_err(SqlError::from)?)
        })?;
        self.warn(warnings)?;
        Ok(Outcome::QUIET)
    }

    pub(super) fn drop_partition_function(&mut self, name: &Identifier) -> Result<(), Failure> {
        let database = self.database();
        self.in_context(&database, |_, context| {
            Ok(database.database().drop_partition_function(context, &name.value).map_err(SqlError::from)?)
        })
    }

    pub(super) fn drop_partition_scheme(&mut self, name: &Identifier) -> Result<(), Failure> {
        let database = self.database();
        self.in_context(&database, |_, context| {
            Ok(database.database().drop_partition_scheme(context, &name.value).map_err(SqlError::from)?)
        })
    }
}

/// 7705: the value at `index` (from 0) does not convert.
fn boundary_type(index: usize, from: &str, to: &str) -> SqlError {
    let text = format!(
        "Could not implicitly convert range values type specified at ordinal {} to partition function parameter type \
         ({from} to {to}).",
        index + 1
    );
    SqlError::new(number::INVALID_PARTITION_FUNCTION, text)
}
