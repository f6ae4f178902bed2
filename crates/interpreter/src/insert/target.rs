//! The target table of an `INSERT`, and the columns that the statement fills.

use std::sync::Arc;

use hobt_base::{SqlError, errors, number};
use hobt_catalog::{DatabaseSnapshot, ModuleKind, Table};
use hobt_tsql::ast::{Identifier, Insert, TargetName};

use crate::failure::Failure;
use crate::insert_target::Target;
use crate::interpreter::Interpreter;
use crate::names::{invalid_object, written};
use crate::place::Place;
use hobt_binder::{TargetColumn, cannot_be_modified};

impl Interpreter<'_> {
    /// The table that an `INSERT` names, and the columns that it lists.
    ///
    /// # Errors
    /// 208 for an unknown table; 46519 for an external one; 259 for a system table; 207, 264, 271; 544 for an identity
    /// column that must not be listed; 1087.
    pub(crate) fn insert_target(&self, insert: &Insert) -> Result<Target, Failure> {
        let place = match &insert.target.name {
            TargetName::Object(name) => self.place(name).map_err(|error| match error.number {
                number::DATABASE_DOES_NOT_EXIST => invalid_object(name),
                _ => error,
            })?,
            TargetName::Variable(variable) => {
                let name = self.frame().tables.get(&variable.value.to_lowercase()).cloned().ok_or_else(|| {
                    Failure::of_batch(errors::UNDECLARED_TABLE_VARIABLE.with([&variable.value]).at(variable.position))
                })?;
                let database = self.environment.instance.tempdb().map_err(SqlError::from)?;
                Place { database, schema: "dbo".to_owned(), name }
            }
        };
        let snapshot = place.database.snapshot();
        let schema = snapshot.schema_id(&place.schema);
        let Some(table) = schema.and_then(|schema| snapshot.table(schema, &place.name)) else {
            return Err(Failure::of_binding(self.no_such_target(&snapshot, schema, &place, &insert.target.name)));
        };
        if table.is_system {
            return Err(errors::SYSTEM_TABLE_UPDATE.error().at(insert.target.span.position).into());
        }
        let is_explicit = !insert.columns.is_empty();
        let listed = match is_explicit {
            true => listed_columns(table, &insert.columns, self.inserts_identity(&place.database, table))
                .map_err(Failure::of_binding)?,
            false => {
                let is_given = |place: &usize| {
                    let column = &table.columns[*place];
                    column.identity.is_none() && column.computed.is_none()
                };
                (0..table.columns.len()).filter(is_given).collect()
            }
        };
        let column = |&place: &usize| TargetColumn {
            name: table.columns[place].name.clone(),
            sql_type: table.columns[place].sql_type,
        };
        let columns =
            hobt_binder::InsertTarget { table: table.name.clone(), columns: listed.iter().map(column).collect() };
        let (written, is_variable) = match &insert.target.name {
            TargetName::Object(name) => (written(name), false),
            TargetName::Variable(variable) => (variable.value.clone(), true),
        };
        Ok(Target { place, table: Arc::clone(table), listed, columns, is_explicit, written, is_variable })
    }

    fn no_such_target(
        &self,
        snapshot: &DatabaseSnapshot,
        schema: Option<i32>,
        place: &Place,
        name: &TargetName,
    ) -> SqlError {
        let TargetName::Object(name) = name else { return SqlError::internal("a table variable without a table") };
        let module = schema.and_then(|schema| snapshot.module(schema, &place.name));
        if module.is_some_and(|module| module.kind == ModuleKind::ExternalTable) {
            return errors::EXTERNAL_NOT_SUPPORTED.with([&"DML Operations"]).at(name.position());
        }
        if module.is_some_and(|module| module.kind.is_program()) {
            return SqlError::not_supported("INSERT into a view").at(name.position());
        }
        invalid_object(name)
    }
}

/// The positions of the listed columns.
fn listed_columns(table: &Table, names: &[Identifier], inserts_identity: bool) -> Result<Vec<usize>, SqlError> {
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        if table.is_computed(&name.value) {
            return Err(cannot_be_modified(&name.value).at(name.position));
        }
        let place = table
            .column_named(&name.value)
            .ok_or_else(|| errors::INVALID_COLUMN.with([&name.value]).at(name.position))?;
        if places.contains(&place) {
            return Err(errors::COLUMN_TWICE.with([&name.value]).at(name.position));
        }
        if table.columns[place].identity.is_some() && !inserts_identity {
            return Err(errors::IDENTITY_INSERT_OFF.with([&table.name]).at(name.position));
        }
        places.push(place);
    }
    Ok(places)
}
