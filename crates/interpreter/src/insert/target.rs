//! The target table of an `INSERT`, and the columns that the statement fills.

use std::sync::Arc;

use hobt_base::{SqlError, number};
use hobt_catalog::{DatabaseSnapshot, Table, TableColumn};
use hobt_engine::DatabaseUse;
use hobt_tsql::ast::{Identifier, Insert, TargetName};

use crate::changed_table::store_of;
use crate::ddl::Place;
use crate::failure::Failure;
use crate::names::{invalid_object, written};
use crate::run::Interpreter;
use hobt_binder::{TargetColumn, cannot_be_modified};
use hobt_operators::WriteTarget;

/// The target of an `INSERT`.
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) table: Arc<Table>,
    /// The positions of the listed columns in the table, in the order of the list.
    listed: Vec<usize>,
    /// The listed columns, for the binder.
    columns: hobt_binder::InsertTarget,
    /// Whether the statement lists its columns.
    pub(super) is_explicit: bool,
    /// The target as the statement names it.
    written: String,
    is_variable: bool,
}

impl Target {
    /// A table as a target without listed columns.
    pub(crate) fn of_table(database: DatabaseUse, table: Arc<Table>) -> Target {
        let schema = database.snapshot().schema_by_id(table.schema).map_or("dbo", |schema| &schema.name).to_owned();
        let place = Place { database, schema, name: table.name.clone() };
        let columns = hobt_binder::InsertTarget { table: table.name.clone(), columns: Vec::new() };
        let written = table.name.clone();
        Target { place, table, listed: Vec::new(), columns, is_explicit: false, written, is_variable: false }
    }

    /// The columns that the statement fills.
    pub(crate) fn columns(&self) -> &hobt_binder::InsertTarget {
        &self.columns
    }

    /// The positions of the columns that the statement fills, in the order of its list.
    pub(crate) fn listed(&self) -> &[usize] {
        &self.listed
    }

    /// Whether it is a table variable.
    pub(crate) fn is_variable(&self) -> bool {
        self.is_variable
    }

    /// The identity column, if the statement supplies its values.
    pub(crate) fn explicit_identity(&self) -> Option<(usize, &TableColumn)> {
        let place = self.listed.iter().copied().find(|&place| self.table.columns[place].identity.is_some())?;
        Some((place, &self.table.columns[place]))
    }

    /// The table and its database.
    pub(crate) fn table(&self) -> (DatabaseUse, Arc<Table>) {
        (self.place.database.clone(), Arc::clone(&self.table))
    }

    /// The heaps of the table.
    pub(crate) fn store(&self) -> Result<WriteTarget, SqlError> {
        let store = store_of(self.place.database.clone(), Arc::clone(&self.table))?;
        Ok(match self.is_variable {
            true => store.called(self.written.clone()),
            false => store,
        })
    }

    /// The error for a wrong number of values if the statement lists no columns.
    pub(super) fn wrong_width(&self, width: usize) -> SqlError {
        let columns = &self.table.columns;
        if width == columns.len() && columns.iter().any(|column| column.identity.is_some()) {
            let text = format!(
                "An explicit value for the identity column in table '{}' can only be specified when a column list is used and \
                 IDENTITY_INSERT is ON.",
                self.written
            );
            return SqlError::new(number::IDENTITY_WITHOUT_LIST, text);
        }
        column_count()
    }
}

impl Interpreter<'_> {
    /// The table that an `INSERT` names, and the columns that it lists.
    ///
    /// # Errors
    /// 208 for an unknown table; 259 for a system table; 207, 264, 271; 544 for an identity column that must not be
    /// listed; 1087.
    pub(crate) fn insert_target(&self, insert: &Insert) -> Result<Target, Failure> {
        let place = match &insert.target.name {
            TargetName::Object(name) => self.place(name).map_err(|error| match error.number {
                number::DATABASE_DOES_NOT_EXIST => invalid_object(name),
                _ => error,
            })?,
            TargetName::Variable(variable) => {
                let name = self.frame().tables.get(&variable.value.to_lowercase()).cloned().ok_or_else(|| {
                    let text = format!("Must declare the table variable \"{}\".", variable.value);
                    Failure::of_batch(SqlError::new(number::UNDECLARED_TABLE_VARIABLE, text).at(variable.position))
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
            let text = "Ad hoc updates to system catalogs are not allowed.";
            return Err(SqlError::new(number::SYSTEM_TABLE_UPDATE, text).at(insert.target.span.position).into());
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
        if schema.is_some_and(|schema| snapshot.module(schema, &place.name).is_some()) {
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
        let place = table.column_named(&name.value).ok_or_else(|| {
            SqlError::new(number::INVALID_COLUMN, format!("Invalid column name '{}'.", name.value)).at(name.position)
        })?;
        if places.contains(&place) {
            let text = format!(
                "The column name '{}' is specified more than once in the SET clause or column list of an INSERT. A column \
                 cannot be assigned more than one value in the same clause.",
                name.value
            );
            return Err(SqlError::new(number::COLUMN_TWICE, text).at(name.position));
        }
        if table.columns[place].identity.is_some() && !inserts_identity {
            let text = format!(
                "Cannot insert explicit value for identity column in table '{}' when IDENTITY_INSERT is set to OFF.",
                table.name
            );
            return Err(SqlError::new(number::IDENTITY_INSERT_OFF, text).at(name.position));
        }
        places.push(place);
    }
    Ok(places)
}

/// 213.
pub(super) fn column_count() -> SqlError {
    SqlError::new(
        number::INSERT_COLUMN_COUNT,
        "Column name or number of supplied values does not match table definition.",
    )
}
