//! `CREATE TABLE`, `DROP TABLE`, `TRUNCATE TABLE`, temporary tables and table variables.

use hobt_base::{SqlError, errors};
use hobt_catalog::IdentityColumn;
use hobt_engine::{ColumnDefinition, DataSpaceDefinition, DatabaseUse, DefaultDefinition, KeyKind, TableDefinition};
use hobt_tsql::ast::{
    self, ColumnKind, ConstraintKind, CreateTable, Expression, ObjectName, PartitionRange, Storage, SwitchOption,
};
use hobt_txn::StatementContext;
use hobt_types::{SqlType, Value};

use super::constraint::{TableParts, computed_column, default_definition};
use crate::ddl::Definitions;
use crate::failure::Failure;
use crate::interpreter::{Interpreter, Outcome};
use crate::place::Place;
use hobt_binder::collation_of;
use hobt_table::temporary_name;

impl Interpreter<'_> {
    /// Whether the temporary table that a name (in lower case) currently means is visible to the caller.
    fn is_of_caller(&self, lower: &str) -> bool {
        let of_caller = self.frame().temporary_of_caller.as_ref().and_then(|tables| tables.get(lower));
        of_caller.is_some() && of_caller == self.state.temporary_tables.get(lower)
    }

    /// Where to create a new table. For a temporary table, also the name under which the session must record it.
    pub(crate) fn new_table_place(&self, name: &ObjectName) -> Result<(Place, Option<String>), SqlError> {
        let mut place = self.place(name)?;
        let written = &name.name.value;
        if !written.starts_with('#') {
            return Ok((place, None));
        }
        if written.starts_with("##") {
            place.name.clone_from(written);
            return Ok((place, None));
        }
        let lower = written.to_lowercase();
        // A procedure may create a table with the name of one of its caller's tables.
        if self.state.temporary_tables.contains_key(&lower) && !self.is_of_caller(&lower) {
            return Err(errors::OBJECT_EXISTS.with([&written]).at(name.position()));
        }
        place.name = temporary_name(written);
        Ok((place, Some(lower)))
    }
}

impl Definitions<'_, '_> {
    pub(crate) fn create_table(&mut self, create: &CreateTable) -> Result<Outcome, Failure> {
        if let Some(option) = create.options.first() {
            let harmless = ["DATA_COMPRESSION"].contains(&option.name.as_str())
                && matches!(&option.value, ast::OptionValue::Word(word) if word.is("NONE"));
            if !harmless {
                return Err(SqlError::not_supported(format!("CREATE TABLE … WITH ({})", option.name)).into());
            }
        }
        let parts = self.columns(&create.definition, &create.name.name.value)?;
        let data_space = data_space(create.storage.as_ref());
        self.new_table(&create.name, parts, data_space)?;
        Ok(Outcome::QUIET)
    }

    /// Creates a table in a statement of its own.
    fn new_table(
        &mut self,
        name: &ObjectName,
        parts: TableParts,
        data_space: DataSpaceDefinition,
    ) -> Result<Place, Failure> {
        let (place, remember) = self.batch.new_table_place(name)?;
        let TableParts { columns, indexes, checks, foreign_keys } = parts;
        // SQL Server ignores foreign keys on temporary tables.
        let foreign_keys = if name.name.value.starts_with('#') { Vec::new() } else { foreign_keys };
        let definition =
            TableDefinition { schema: place.schema.clone(), name: place.name.clone(), columns, data_space, indexes };
        let warnings = self.batch.in_context(&place.database, |this, context| {
            let (_, warnings) = place
                .database
                .database()
                .create_table_with_warnings(context, &definition)
                .map_err(|error| error.to_sql_error().at(name.position()))?;
            this.definitions().add_first_constraints(context, &place, &checks, &foreign_keys)?;
            Ok(warnings)
        })?;
        self.warn(warnings)?;
        if let Some(lower) = remember {
            self.batch.state.temporary_tables.insert(lower, place.name.clone());
        }
        Ok(place)
    }

    /// Creates the table of a table variable. Returns its name in `tempdb`.
    pub(crate) fn create_table_variable(&mut self, definition: &ast::TableDefinition) -> Result<String, Failure> {
        let TableParts { columns, indexes, checks, .. } = self.columns(definition, "@")?;
        let name = temporary_name("#");
        let database = self.batch.environment.instance.tempdb().map_err(SqlError::from)?;
        let table = TableDefinition {
            schema: "dbo".to_owned(),
            name: name.clone(),
            columns,
            data_space: DataSpaceDefinition::Default,
            indexes,
        };
        let place = Place { database: database.clone(), schema: "dbo".to_owned(), name: name.clone() };
        self.batch.in_context_apart(&database, |this, context| {
            database.database().create_table(context, &table).map_err(SqlError::from)?;
            this.definitions().add_first_constraints(context, &place, &checks, &[])
        })?;
        Ok(name)
    }

    /// Drops the tables that end with the topmost frame: those of its table variables, and, unless it is a session's
    /// own batch, the temporary tables created in it.
    pub(crate) fn drop_tables_of_frame(&mut self) -> Result<(), SqlError> {
        let of_variables = std::mem::take(&mut self.batch.frame_mut().tables).into_values();
        // A table that a rollback may still change is kept until the transaction ends.
        let is_changed =
            |name: &String| self.batch.state.transaction.as_ref().is_some_and(|open| open.has_changed_in_tempdb(name));
        let (mut names, variables): (Vec<String>, Vec<String>) = of_variables.partition(is_changed);
        if let Some(of_caller) = self.batch.frame_mut().temporary_of_caller.take() {
            let here = std::mem::take(&mut self.batch.state.temporary_tables);
            names.extend(
                here.into_iter().filter(|(name, stored)| of_caller.get(name) != Some(stored)).map(|(_, it)| it),
            );
            self.batch.state.temporary_tables = of_caller;
        }
        let tempdb = self.batch.environment.instance.tempdb().map_err(SqlError::from)?;
        let dropped = match variables.is_empty() {
            true => Ok(()),
            false => self.batch.in_context_apart(&tempdb, |this, context| {
                this.definitions().drop_tables(&tempdb, context, &variables)
            }),
        };
        self.drop_tables_of_calls(&names)?;
        dropped.map_err(|failure| failure.error)
    }

    /// Drops those of the named `tempdb` tables that exist. If the transaction is rolled back, they reappear although
    /// no name refers to them, so they are dropped again.
    pub(crate) fn drop_tables_of_calls(&mut self, names: &[String]) -> Result<(), SqlError> {
        if names.is_empty() {
            return Ok(());
        }
        let tempdb =
            self.batch.environment.instance.tempdb().map_err(SqlError::from)?.seen_by(self.batch.state.viewer());
        let snapshot = tempdb.snapshot();
        let schema = snapshot.schema_id("dbo");
        let is_there = |name: &&String| schema.is_some_and(|schema| snapshot.table(schema, name).is_some());
        let names: Vec<String> = names.iter().filter(is_there).cloned().collect();
        if let Some(open) = &mut self.batch.state.transaction {
            open.drops_with_call(&names);
        }
        let dropped =
            self.batch.in_context(&tempdb, |this, context| this.definitions().drop_tables(&tempdb, context, &names));
        dropped.map_err(|failure| failure.error)
    }

    fn drop_tables(&self, tempdb: &DatabaseUse, context: &StatementContext, names: &[String]) -> Result<(), Failure> {
        for name in names {
            self.drop_found_table(tempdb, context, ("dbo", name))?;
        }
        Ok(())
    }

    fn drop_found_table(
        &self,
        database: &DatabaseUse,
        context: &StatementContext,
        (schema, name): (&str, &str),
    ) -> Result<(), Failure> {
        let dropped = self
            .locking_definition(context, database, |lock| database.database().drop_table(context, schema, name, lock));
        self.batch.forget_identity(context, database.id(), dropped.map_err(SqlError::from)?);
        Ok(())
    }

    pub(super) fn drop_table(&mut self, name: &ObjectName) -> Result<(), Failure> {
        let place = self.batch.place(name)?;
        self.batch.in_context(&place.database, |this, context| {
            this.definitions().drop_found_table(&place.database, context, (&place.schema, &place.name))
        })?;
        self.forget_temporary_table(&name.name.value.to_lowercase());
        Ok(())
    }

    /// Removes the name of a dropped temporary table, also for callers if it was theirs. The name then has its meaning
    /// in the caller.
    fn forget_temporary_table(&mut self, lower: &str) {
        let Some(gone) = self.batch.state.temporary_tables.remove(lower) else { return };
        let mut depth = self.batch.frames.len() - 1;
        for (place, frame) in self.batch.frames.iter_mut().enumerate().rev() {
            let Some(tables) = frame.temporary_of_caller.as_mut() else { continue };
            if tables.get(lower) == Some(&gone) {
                tables.remove(lower);
                depth = place - 1;
            }
        }
        if let Some(open) = &mut self.batch.state.transaction {
            open.drops_temporary_table(lower, &gone, depth);
        }
        let of_caller = self.batch.frame().temporary_of_caller.as_ref().and_then(|tables| tables.get(lower)).cloned();
        if let Some(stored) = of_caller {
            self.batch.state.temporary_tables.insert(lower.to_owned(), stored);
        }
    }

    pub(crate) fn truncate_table(
        &mut self,
        name: &ObjectName,
        partitions: &[PartitionRange],
    ) -> Result<Outcome, Failure> {
        let place = self.batch.place(name)?;
        if !partitions.is_empty() {
            self.truncate_partitions(&place, partitions, name.position())?;
            return Ok(Outcome::QUIET);
        }
        self.batch.in_context(&place.database, |this, context| {
            let truncated = this.definitions().locking_definition(context, &place.database, |lock| {
                place.database.database().truncate_table(context, &place.schema, &place.name, lock)
            });
            let table = truncated.map_err(|error| error.to_sql_error().at(name.position()))?;
            this.start_identity_anew(context, &place.database, table)
        })?;
        Ok(Outcome::QUIET)
    }

    /// The columns, keys and checks of a `CREATE TABLE` or table variable.
    pub(super) fn columns(&mut self, definition: &ast::TableDefinition, table: &str) -> Result<TableParts, Failure> {
        let mut columns = Vec::with_capacity(definition.columns.len());
        let mut indexes = Vec::new();
        for column in &definition.columns {
            columns.push(self.column(column, table)?);
            for constraint in &column.constraints {
                if matches!(constraint.kind, ConstraintKind::Key { .. }) {
                    indexes.push(self.key_definition(constraint, Some(&column.name.value))?);
                }
            }
            for index in &column.indexes {
                indexes.push(self.index_definition(index, Some(&column.name.value))?);
            }
        }
        for constraint in &definition.constraints {
            if matches!(constraint.kind, ConstraintKind::Key { .. }) {
                indexes.push(self.key_definition(constraint, None)?);
            }
        }
        for index in &definition.indexes {
            indexes.push(self.index_definition(index, None)?);
        }
        // The columns of a primary key are always NOT NULL.
        let primary = indexes.iter().find(|index| index.constraint == Some(KeyKind::Primary));
        for (name, _) in primary.iter().flat_map(|index| &index.columns) {
            let is_key = |column: &&ast::ColumnDefinition| column.name.is(name);
            let written = definition.columns.iter().find(is_key).and_then(|column| column.nullable);
            let column = columns.iter_mut().find(|column| hobt_catalog::name_equals(&column.name, name));
            if let (Some(column), true) = (column, written != Some(true)) {
                column.nullable = false;
            }
        }
        self.computed_types(&definition.columns, &mut columns, table)?;
        let checks = self.checks(definition, &columns, table)?;
        let foreign_keys = self.foreign_keys(definition)?;
        Ok(TableParts { columns, indexes, checks, foreign_keys })
    }

    pub(super) fn column(&mut self, column: &ast::ColumnDefinition, table: &str) -> Result<ColumnDefinition, Failure> {
        let position = column.name.position;
        let sql_type = match &column.kind {
            ColumnKind::Typed(data_type) => self.batch.data_type(data_type)?,
            // Its type is that of its expression, which is bound once all columns are known.
            ColumnKind::Computed { value, persisted } => return Ok(computed_column(column, value, *persisted)),
        };
        if column.sparse {
            return Err(SqlError::not_supported("A SPARSE column").at(position).into());
        }
        let identity = match &column.identity {
            Some(identity) => Some(self.identity(identity, column, sql_type, table)?),
            None => None,
        };
        let mut default = None;
        for constraint in &column.constraints {
            match &constraint.kind {
                ConstraintKind::Default { value, .. } => {
                    if identity.is_some() {
                        return Err(default_of_identity(&column.name.value, table).at(position).into());
                    }
                    self.check_default(value, sql_type)?;
                    if default.is_some() {
                        return Err(errors::DEFAULT_TWICE.with([&column.name.value, &table]).at(position).into());
                    }
                    let name = constraint.name.as_ref().map(|name| name.value.clone());
                    default = Some(DefaultDefinition { name, definition: default_definition(value) });
                }
                // Handled for the whole table: see `columns`.
                ConstraintKind::Key { .. } | ConstraintKind::Check { .. } | ConstraintKind::ForeignKey { .. } => {}
            }
        }
        let collation = collation_of(sql_type, column.collation.as_ref())?;
        let nullable = match (column.nullable, &column.kind) {
            (Some(written), _) => written,
            (None, ColumnKind::Typed(data_type)) => identity.is_none() && self.is_nullable_by_default(data_type),
            (None, ColumnKind::Computed { .. }) => true,
        };
        Ok(ColumnDefinition {
            name: column.name.value.clone(),
            sql_type,
            nullable,
            collation,
            default,
            identity,
            is_rowguid: column.rowguidcol,
            computed: None,
        })
    }

    /// Whether a column accepts NULL if nothing is written. A type derived from another one decides this itself:
    /// `sysname` does not.
    pub(super) fn is_nullable_by_default(&self, data_type: &ast::DataType) -> bool {
        let name = &data_type.name.name;
        !name.is("sysname") && self.batch.state.options.switch(SwitchOption::AnsiNullDefaultOn)
    }

    fn identity(
        &mut self,
        identity: &ast::IdentityDefinition,
        column: &ast::ColumnDefinition,
        sql_type: SqlType,
        table: &str,
    ) -> Result<IdentityColumn, Failure> {
        let whole = match sql_type {
            SqlType::Decimal { scale, .. } => scale == 0,
            SqlType::Bit => false,
            other => other.is_integer(),
        };
        if !whole || column.nullable == Some(true) {
            return Err(errors::IDENTITY_TYPE.with([&column.name.value]).at(column.name.position).into());
        }
        let Some((seed, increment)) = &identity.seed_increment else {
            return Ok(IdentityColumn { seed: 1, increment: 1 });
        };
        let (seed, increment) = (self.constant_integer(seed)?, self.constant_integer(increment)?);
        if increment == 0 {
            return Err(errors::IDENTITY_INCREMENT.with([&column.name.value, &table]).at(column.name.position).into());
        }
        Ok(IdentityColumn { seed, increment })
    }

    fn constant_integer(&mut self, value: &Expression) -> Result<i64, Failure> {
        match self.batch.evaluate_as(value, SqlType::BigInt)? {
            Value::Int(value) => Ok(value),
            _ => Err(errors::IDENTITY_PROPERTY.error().into()),
        }
    }
}

/// 1754.
pub(super) fn default_of_identity(column: &str, table: &str) -> SqlError {
    errors::DEFAULT_OF_IDENTITY.with([&table, &column])
}

/// The data space named by a table's `ON`.
pub(crate) fn data_space(storage: Option<&Storage>) -> DataSpaceDefinition {
    match storage {
        None => DataSpaceDefinition::Default,
        Some(Storage { name, column: Some(column) }) => {
            DataSpaceDefinition::Scheme { scheme: name.value.clone(), column: column.value.clone() }
        }
        Some(Storage { name, column: None }) if name.is("default") => DataSpaceDefinition::Default,
        Some(Storage { name, column: None }) => DataSpaceDefinition::Named(name.value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_differ_and_fit() {
        let (one, other) = (temporary_name("#t"), temporary_name("#t"));
        assert_ne!(one, other);
        assert_eq!(one.len(), 128);
    }
}
