//! `ALTER TABLE … ADD`, `DROP` and `ALTER COLUMN`, and `sp_rename`.
//!
//! If the layout of rows changes, a query over the old storage fills the new one, including all indexes.

use std::sync::Arc;

use hobt_base::{Position, SqlError, errors};
use hobt_catalog::{Table, name_equals};
use hobt_engine::{ColumnAlteration, TableChange, is_stored_alike};
use hobt_tsql::ast::{ColumnDefinition, ConstraintKind, DataType, Identifier};
use hobt_types::Value;

use super::alter_table::Altering;
use super::constraint::{not_deterministic, rule_column};
use super::index::Begin;
use crate::call::{Argument, parse_parameters};
use crate::ddl::Definitions;
use crate::event::Message;
use crate::failure::Failure;
use crate::frame::Frame;
use crate::names::written;
use crate::stored_table::store_of;
use crate::system_functions::parse_name;
use hobt_binder::{BindOptions, Binder, collation_of, rule_columns};
use hobt_table::TableRead;

impl Definitions<'_, '_> {
    pub(super) fn add_columns(
        &mut self,
        altering: &mut Altering<'_>,
        written: &[ColumnDefinition],
    ) -> Result<(), Failure> {
        let table = self.table_of(altering)?;
        let mut columns = Vec::with_capacity(written.len());
        for column in written {
            columns.push(self.column(column, &table.name)?);
        }
        let mut known = rule_columns(&table)?;
        known.iter_mut().for_each(|column| column.is_stored = true);
        for column in &columns {
            known.push(rule_column(column, true)?);
        }
        for (column, ast) in columns.iter_mut().zip(written) {
            let hobt_tsql::ast::ColumnKind::Computed { value, persisted } = &ast.kind else { continue };
            let computed = self.checked(|binder| binder.bind_computed((&table.name, &column.name), &known, value))?;
            if *persisted && !computed.is_deterministic {
                return Err(not_deterministic(&column.name, &table.name).at(ast.name.position).into());
            }
            column.sql_type = computed.sql_type;
            column.collation = computed.collation;
            column.nullable = ast.nullable.unwrap_or(*persisted || computed.nullable);
        }
        let rows =
            TableRead::new(altering.place.database.clone(), Arc::clone(&table), Arc::clone(altering.run), false, false);
        let has_rows = rows.row_count() > 0;
        for (column, ast) in columns.iter().zip(written).filter(|_| has_rows) {
            if column.identity.is_some() {
                let what = "a new IDENTITY column of a table that has rows";
                return Err(SqlError::not_supported(what).at(ast.name.position).into());
            }
            if !column.nullable && column.default.is_none() && column.computed.is_none() {
                return Err(errors::ADD_NOT_NULL_COLUMN.with([&column.name, &table.name]).at(ast.name.position).into());
            }
        }
        let with_values = |column: &ColumnDefinition| {
            column
                .constraints
                .iter()
                .any(|constraint| matches!(constraint.kind, ConstraintKind::Default { with_values: true, .. }))
        };
        let filled: Vec<String> = columns
            .iter()
            .zip(written)
            .filter(|(column, ast)| !column.nullable || with_values(ast))
            .map(|(column, _)| column.name.clone())
            .collect();
        let database = Arc::clone(altering.place.database.database());
        let begin: &Begin<'_> = &|context, table, lock| database.begin_add_columns(context, table, &columns, lock);
        self.rewrite_with(altering, altering.position, begin, &filled, None)
    }

    pub(super) fn drop_column(
        &mut self,
        altering: &mut Altering<'_>,
        name: &Identifier,
        if_exists: bool,
    ) -> Result<(), Failure> {
        let table = self.table_of(altering)?;
        let is_there = table.column_named(&name.value).is_some() || table.virtual_column_named(&name.value).is_some();
        if if_exists && !is_there {
            return Ok(());
        }
        self.check_unread(&table, &name.value, name.position)?;
        let database = Arc::clone(altering.place.database.database());
        let begin: &Begin<'_> = &|context, table, lock| database.begin_drop_column(context, table, &name.value, lock);
        self.rewrite_with(altering, name.position, begin, &[], Some(name))?;
        if table.column_named(&name.value).is_some_and(|place| table.columns[place].identity.is_some()) {
            self.batch.forget_identity(&altering.run.context, altering.place.database.id(), table.id);
        }
        Ok(())
    }

    pub(super) fn alter_column(
        &mut self,
        altering: &mut Altering<'_>,
        name: &Identifier,
        (data_type, collation, nullable): (&DataType, Option<&Identifier>, Option<bool>),
    ) -> Result<(), Failure> {
        let table = self.table_of(altering)?;
        let sql_type = self.batch.data_type(data_type)?;
        let collation = collation_of(sql_type, collation)?;
        let known = table.column_named(&name.value).map(|place| &table.columns[place]);
        let is_key = table.indexes.iter().any(|index| {
            index.constraint.is_some_and(|constraint| constraint.is_primary)
                && index.key.iter().any(|part| name_equals(&table.columns[part.column].name, &name.value))
        });
        let by_default = !is_key && self.is_nullable_by_default(data_type);
        let alteration = ColumnAlteration { sql_type, nullable: nullable.unwrap_or(by_default), collation };
        let is_retyped = known.is_some_and(|known| !is_stored_alike(known.sql_type, sql_type));
        if is_retyped {
            self.check_unread(&table, &name.value, name.position)?;
        }
        let is_collated = known.is_some_and(|known| collation.is_some() && known.collation != collation);
        let database = Arc::clone(altering.place.database.database());
        let begin: &Begin<'_> =
            &|context, table, lock| database.begin_alter_column(context, table, &name.value, alteration, lock);
        self.rewrite_with(altering, name.position, begin, &[], (is_retyped || is_collated).then_some(name))
    }

    /// Rejects a change of a column that an expression of its table reads.
    ///
    /// # Errors
    /// 5074.
    fn check_unread(&self, table: &Table, column: &str, position: Position) -> Result<(), Failure> {
        let readers = self.checked(|binder| binder.readers_of(table, column))?;
        match readers.first() {
            None => Ok(()),
            Some((kind, name)) => Err(errors::COLUMN_NEEDED.with([&kind, &name, &column]).at(position).into()),
        }
    }

    /// Makes one change of the definition. If there is new storage, the rows are copied into it. In existing rows, the
    /// new columns named in `filled` receive their DEFAULT. Statistics on the column `freed` are dropped.
    fn rewrite_with(
        &mut self,
        altering: &mut Altering<'_>,
        position: Position,
        begin: &Begin<'_>,
        filled: &[String],
        freed: Option<&Identifier>,
    ) -> Result<(), Failure> {
        let (run, place) = (altering.run, altering.place);
        let warnings = self.change_within(run, place, position, begin, |this, changed| {
            if let Some(column) = freed {
                this.free_of_statistics(altering, changed, column)?;
            }
            this.rewrite(altering, changed, filled)
        })?;
        altering.warnings.extend(warnings);
        Ok(())
    }

    fn rewrite(&mut self, altering: &Altering<'_>, changed: &TableChange, filled: &[String]) -> Result<(), Failure> {
        let (run, database) = (altering.run, &altering.place.database);
        let (old, new) = (changed.old(), changed.new_table());
        if changed.to_build().is_empty() {
            return Ok(());
        }
        let names = self.batch.names(run);
        let binder = Binder::new(&names, BindOptions::default());
        let rows = TableRead::new(database.clone(), Arc::clone(old), Arc::clone(run), false, false);
        let fills = |id: i32| {
            let column = new.columns.iter().find(|column| column.id == id);
            column.is_some_and(|column| filled.iter().any(|name| name_equals(name, &column.name)))
        };
        let query = binder.bind_rewrite(rows, new, &fills).map_err(Failure::of_binding)?;
        let mut rules = binder.bind_row_rules(new).map_err(Failure::of_binding)?;
        drop(binder);
        drop(names);
        // The existing rows satisfied the checks before.
        rules.checks.clear();
        let target = store_of(database.clone(), Arc::clone(new))?.written_by("UPDATE").ruled_by(rules, None);
        self.batch.insert_query(run, BindOptions::default(), &|_| Ok(query.clone()), &target, true)?;
        Ok(())
    }

    /// `sp_rename`: a table, a column, an index or a constraint.
    ///
    /// # Errors
    /// 15225, 15248, 15335, 15336.
    pub(crate) fn sp_rename(&mut self, arguments: &[Argument<'_>], position: Position) -> Result<i32, Failure> {
        let parameters = "@objname nvarchar(1035), @newname nvarchar(128), @objtype varchar(13) = NULL";
        let parameters = parse_parameters(parameters)?;
        let mut frame = Frame::new(None, false);
        self.batch.bind_parameters(&parameters, "sp_rename", arguments, &mut frame, position)?;
        let given = |name: &str| match frame.get(name).map(|given| given.value.clone()) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        };
        let (Some(old_name), Some(new_name)) = (given("@objname"), given("@newname")) else {
            return Err(errors::RENAME_NULL.error().at(position).into());
        };
        let kind = given("@objtype").map(|kind| kind.trim().to_uppercase());
        let database = self.batch.database();
        let missing = || {
            errors::RENAME_NO_SUCH_ITEM
                .with([&old_name, &database.name(), &kind.as_deref().unwrap_or("(null)")])
                .at(position)
        };
        let name = parse_name(&old_name).ok_or_else(missing)?;
        match kind.as_deref() {
            None | Some("OBJECT") => self.rename_object(&name, &new_name, &missing, position)?,
            Some(kind @ ("COLUMN" | "INDEX")) => {
                let Some(table) = &name.schema else {
                    return Err(errors::RENAME_AMBIGUOUS.with([&kind]).at(position).into());
                };
                let of = hobt_tsql::ast::ObjectName {
                    server: None,
                    database: name.server.clone(),
                    schema: name.database.clone(),
                    name: table.clone(),
                };
                self.rename_part(&of, (&name.name.value, &new_name), kind == "COLUMN", &missing, position)?;
            }
            Some(other) => {
                return Err(SqlError::not_supported(format!("sp_rename of a {other}")).at(position).into());
            }
        }
        self.batch.send_message(Message::of(position.line, errors::RENAME_CAUTION.error()))?;
        Ok(0)
    }

    fn rename_object(
        &mut self,
        name: &hobt_tsql::ast::ObjectName,
        new_name: &str,
        missing: &dyn Fn() -> SqlError,
        position: Position,
    ) -> Result<(), Failure> {
        let place = self.batch.place(name)?;
        let snapshot = place.database.snapshot();
        let schema = snapshot.schema_id(&place.schema).ok_or_else(missing)?;
        if snapshot.table(schema, &place.name).is_none_or(|table| table.is_system) {
            // A constraint is found by its own name, independent of its table.
            let has_it = |table: &&Arc<Table>| {
                table.schema == schema
                    && (table.constraints.heads().any(|head| name_equals(&head.name, &place.name))
                        || table.defaults().any(|default| name_equals(&default.name, &place.name))
                        || table.index_named(&place.name).is_some_and(|index| index.constraint.is_some()))
            };
            let table = snapshot.tables.values().find(has_it).ok_or_else(missing)?;
            let of = super::Place { name: table.name.clone(), ..place.clone() };
            let database = Arc::clone(place.database.database());
            return self.change_definition(&of, position, None, &|context, table, lock| {
                database.begin_rename_part(context, table, (&place.name, new_name), lock)
            });
        }
        self.batch.in_context(&place.database, |this, context| {
            let renamed = this.definitions().locking_definition(context, &place.database, |lock| {
                place.database.database().rename_table(context, (&place.schema, &place.name), new_name, lock)
            });
            Ok(renamed.map_err(|error| error.to_sql_error().at(position))?)
        })
    }

    fn rename_part(
        &mut self,
        table: &hobt_tsql::ast::ObjectName,
        names: (&str, &str),
        is_column: bool,
        missing: &dyn Fn() -> SqlError,
        position: Position,
    ) -> Result<(), Failure> {
        let place = self.batch.place(table)?;
        let snapshot = place.database.snapshot();
        let found = snapshot.schema_id(&place.schema).and_then(|schema| snapshot.table(schema, &place.name));
        let found = Arc::clone(found.filter(|table| !table.is_system).ok_or_else(missing)?);
        let has_column = found.column_named(names.0).is_some() || found.virtual_column_named(names.0).is_some();
        if (is_column && !has_column) || (!is_column && found.index_named(names.0).is_none()) {
            return Err(missing().into());
        }
        let readers = match is_column {
            true => self.checked(|binder| binder.readers_of(&found, names.0))?,
            false => Vec::new(),
        };
        let is_filtered = is_column && self.is_read_by_filters(&found, &snapshot.statistics_of(&found), names.0)?;
        if is_filtered || !readers.is_empty() {
            return Err(errors::RENAME_DEPENDENCIES.with([&written(table), &names.0]).at(position).into());
        }
        let database = Arc::clone(place.database.database());
        self.change_definition(&place, position, None, &|context, table, lock| match is_column {
            true => database.begin_rename_column(context, table, names, lock),
            false => database.begin_rename_part(context, table, names, lock),
        })
    }
}
