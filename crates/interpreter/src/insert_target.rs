//! The target table of an `INSERT`, and the columns that the statement fills.

use std::sync::Arc;

use hobt_base::{SqlError, errors};
use hobt_catalog::{Table, TableColumn};
use hobt_engine::DatabaseUse;
use hobt_operators::WriteTarget;

use super::place::Place;
use super::stored_table::store_of;

/// The target of an `INSERT`.
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) table: Arc<Table>,
    /// The positions of the listed columns in the table, in the order of the list.
    pub(crate) listed: Vec<usize>,
    /// The listed columns, for the binder.
    pub(crate) columns: hobt_binder::InsertTarget,
    /// Whether the statement lists its columns.
    pub(crate) is_explicit: bool,
    /// The target as the statement names it.
    pub(crate) written: String,
    pub(crate) is_variable: bool,
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
    pub(crate) fn wrong_width(&self, width: usize) -> SqlError {
        let columns = &self.table.columns;
        if width == columns.len() && columns.iter().any(|column| column.identity.is_some()) {
            return errors::IDENTITY_WITHOUT_LIST.with([&self.written]);
        }
        column_count()
    }
}

/// 213.
pub(super) fn column_count() -> SqlError {
    errors::INSERT_COLUMN_COUNT.error()
}
