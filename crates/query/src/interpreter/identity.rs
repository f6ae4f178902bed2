//! `SET IDENTITY_INSERT`: statements give the values of a table's identity column themselves.

use hobt_base::{DatabaseId, ObjectId, SqlError};
use hobt_catalog::Table;
use hobt_engine::DatabaseUse;
use hobt_tsql::ast::ObjectName;

use super::failure::Failure;
use super::names::written;
use super::run::Interpreter;

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
}
