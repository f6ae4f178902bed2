//! `ALTER TABLE`: adds, drops, disables and enables constraints.
//!
//! One statement applies all of its changes or none. Columns are handled by `alter_column`, indexes by `index`.

use std::sync::Arc;

use hobt_base::{Position, SqlError, errors};
use hobt_catalog::{ForeignKey, Table, name_equals};
use hobt_engine::{DatabaseUse, TableChange};
use hobt_tsql::ast::{
    AlterTable, AlterTableAction, AlterTableDrop, Constraint, ConstraintKind, Expression, Identifier, OptionItem,
    OptionValue,
};

use super::constraint::default_definition;
use super::table::default_of_identity;
use crate::ddl::Definitions;
use crate::failure::Failure;
use crate::interpreter::Outcome;
use crate::place::Place;
use crate::query::one_stream;
use crate::stored_table::store_of;
use hobt_binder::all_rows;
use hobt_binder::{BindOptions, Binder, rule_columns};
use hobt_table::{StatementRun, TableRead};

/// An `ALTER TABLE` in progress.
pub(super) struct Altering<'a> {
    pub(super) run: &'a Arc<StatementRun>,
    pub(super) place: &'a Place,
    pub(super) position: Position,
    pub(super) warnings: Vec<SqlError>,
}

impl Definitions<'_, '_> {
    pub(crate) fn alter_table(&mut self, alter: &AlterTable) -> Result<Outcome, Failure> {
        let place = self.batch.place(&alter.name)?;
        let position = alter.name.position();
        if place.database.snapshot().schema_id(&place.schema).is_none_or(|schema| {
            place.database.snapshot().table(schema, &place.name).is_none_or(|table| table.is_system)
        }) {
            return Err(errors::SWITCH_NO_TABLE.with([&crate::names::written(&alter.name)]).at(position).into());
        }
        if let AlterTableAction::Rebuild { partition, options } = &alter.action {
            let which = hobt_engine::IndexSelector::Base;
            self.rebuild(&place, &which, partition.as_ref(), options, position)?;
            return Ok(Outcome::QUIET);
        }
        if let AlterTableAction::Switch { source_partition, target, target_partition, options } = &alter.action {
            self.switch_partition(&place, source_partition.as_ref(), target, target_partition.as_ref(), options)?;
            return Ok(Outcome::QUIET);
        }
        let run = self.batch.new_run(None)?;
        let warnings = self.batch.in_run(&run, |this| {
            let mut altering = Altering { run: &run, place: &place, position, warnings: Vec::new() };
            this.definitions().alter(&mut altering, &alter.action)?;
            Ok(altering.warnings)
        })?;
        self.warn(warnings)?;
        Ok(Outcome::QUIET)
    }

    fn alter(&mut self, altering: &mut Altering<'_>, action: &AlterTableAction) -> Result<(), Failure> {
        match action {
            AlterTableAction::Add { check, columns, constraints } => {
                if let Some(index) = columns.iter().flat_map(|column| &column.indexes).next() {
                    let text = "ALTER TABLE … ADD … INDEX: use CREATE INDEX when the column is there. The clause";
                    return Err(SqlError::not_supported(text).at(index.name.position).into());
                }
                if !columns.is_empty() {
                    self.add_columns(altering, columns)?;
                }
                let of_columns = columns.iter().flat_map(|column| {
                    column.constraints.iter().map(|constraint| (constraint, Some(column.name.value.as_str())))
                });
                for (constraint, column) in of_columns {
                    if !matches!(constraint.kind, ConstraintKind::Default { .. }) {
                        self.add_constraint(altering, constraint, column, *check)?;
                    }
                }
                for constraint in constraints {
                    self.add_constraint(altering, constraint, None, *check)?;
                }
                Ok(())
            }
            AlterTableAction::Drop { items } => items.iter().try_for_each(|item| self.alter_table_drop(altering, item)),
            AlterTableAction::EnableConstraints { check, enable, names } => {
                self.enable_constraints(altering, names, *enable, *check == Some(true))
            }
            AlterTableAction::Set { options } => self.set_table_options(altering, options),
            AlterTableAction::AlterColumn { name, data_type, collation, nullable } => {
                self.alter_column(altering, name, (data_type, collation.as_ref(), *nullable))
            }
            AlterTableAction::Switch { .. } | AlterTableAction::Rebuild { .. } => {
                Err(SqlError::internal("a rebuild or switch is a statement of its own").into())
            }
        }
    }

    fn add_constraint(
        &mut self,
        altering: &mut Altering<'_>,
        constraint: &Constraint,
        of_column: Option<&str>,
        check: Option<bool>,
    ) -> Result<(), Failure> {
        let position = constraint.span.position;
        match &constraint.kind {
            ConstraintKind::Key { .. } => {
                let definition = self.key_definition(constraint, of_column)?;
                let database = Arc::clone(altering.place.database.database());
                self.alter_with(altering, position, &|context, table, lock| {
                    database.begin_create_index(context, table, &definition, lock)
                })
            }
            ConstraintKind::Check { .. } => {
                let table = self.table_of(altering)?;
                let columns = rule_columns(&table)?;
                let Some(mut definition) = self.check_definition(constraint, &columns, &table.name, of_column)? else {
                    return Ok(());
                };
                definition.is_not_trusted = check == Some(false);
                let checks = [definition];
                let database = Arc::clone(altering.place.database.database());
                self.alter_with(altering, position, &|context, table, lock| {
                    database.begin_add_checks(context, table, &checks, lock)
                })
            }
            ConstraintKind::Default { value, column: Some(column), .. } => {
                let name = constraint.name.as_ref().map(|name| name.value.clone());
                self.add_default(altering, name, column, value)
            }
            ConstraintKind::Default { .. } => Err(errors::DEFAULT_WITHOUT_COLUMN.error().at(position).into()),
            ConstraintKind::ForeignKey { .. } => {
                let Some(mut definition) = self.foreign_key_definition(constraint, of_column)? else { return Ok(()) };
                definition.is_not_trusted = check == Some(false);
                let database = Arc::clone(altering.place.database.database());
                self.alter_with(altering, position, &|context, table, lock| {
                    database.begin_add_foreign_key(context, table, &definition, lock)
                })
            }
        }
    }

    fn add_default(
        &mut self,
        altering: &mut Altering<'_>,
        name: Option<String>,
        column: &Identifier,
        value: &Expression,
    ) -> Result<(), Failure> {
        let table = self.table_of(altering)?;
        let place = table
            .column_named(&column.value)
            .ok_or_else(|| errors::DEFAULT_NOT_ALLOWED.with([&column.value, &table.name]).at(column.position))?;
        let refuse = |error: SqlError| Err(Failure::from(error.at(column.position)));
        let known = &table.columns[place];
        if known.computed.is_some() {
            return refuse(errors::DEFAULT_NOT_ALLOWED.with([&column.value, &table.name]));
        }
        if known.identity.is_some() {
            return Err(default_of_identity(&column.value, &table.name).at(column.position).into());
        }
        if known.default.is_some() {
            return refuse(errors::DEFAULT_EXISTS.error());
        }
        self.check_default(value, known.sql_type)?;
        let definition = default_definition(value);
        let database = Arc::clone(altering.place.database.database());
        self.alter_with(altering, column.position, &|context, table, lock| {
            database.begin_add_default(context, table, &column.value, name.as_deref(), &definition, lock)
        })
    }

    fn alter_table_drop(&mut self, altering: &mut Altering<'_>, item: &AlterTableDrop) -> Result<(), Failure> {
        match item {
            AlterTableDrop::Column { name, if_exists } => self.drop_column(altering, name, *if_exists),
            AlterTableDrop::Constraint { name, if_exists, .. } => {
                let table = self.table_of(altering)?;
                let is_key = table.index_named(&name.value).is_some_and(|index| index.constraint.is_some());
                let is_there = is_key
                    || table.constraints.heads().any(|head| name_equals(&head.name, &name.value))
                    || table.defaults().any(|default| name_equals(&default.name, &name.value));
                if *if_exists && !is_there {
                    return Ok(());
                }
                let database = Arc::clone(altering.place.database.database());
                self.alter_with(altering, name.position, &|context, table, lock| match is_key {
                    true => database.begin_drop_index(context, table, &name.value, true, lock),
                    false => database.begin_drop_constraint(context, table, &name.value, lock),
                })
            }
        }
    }

    fn enable_constraints(
        &mut self,
        altering: &mut Altering<'_>,
        names: &[Identifier],
        enable: bool,
        is_checked: bool,
    ) -> Result<(), Failure> {
        let names: Vec<String> = names.iter().map(|name| name.value.clone()).collect();
        let database = Arc::clone(altering.place.database.database());
        self.alter_with(altering, altering.position, &|context, table, lock| {
            database.begin_enable_constraints(context, table, &names, (enable, is_checked), lock)
        })
    }

    fn set_table_options(&mut self, altering: &mut Altering<'_>, options: &[OptionItem]) -> Result<(), Failure> {
        for option in options {
            let escalation = match (option.name.as_str(), &option.value) {
                ("LOCK_ESCALATION", OptionValue::Word(word)) if word.is("TABLE") => 0,
                ("LOCK_ESCALATION", OptionValue::Word(word)) if word.is("DISABLE") => 1,
                ("LOCK_ESCALATION", OptionValue::Word(word)) if word.is("AUTO") => 2,
                ("LOCK_ESCALATION", OptionValue::Word(word)) => {
                    return Err(errors::SYNTAX.with([&word.value]).at(word.position).into());
                }
                _ => {
                    let what = format!("ALTER TABLE … SET ({})", option.name);
                    return Err(SqlError::not_supported(what).at(option.span.position).into());
                }
            };
            let database = Arc::clone(altering.place.database.database());
            self.alter_with(altering, option.span.position, &|context, table, lock| {
                database.begin_set_lock_escalation(context, table, escalation, lock)
            })?;
        }
        Ok(())
    }

    /// The table with the changes that the statement has made so far.
    pub(super) fn table_of(&self, altering: &Altering<'_>) -> Result<Arc<Table>, Failure> {
        let Place { database, schema, name } = altering.place;
        let snapshot = database.database().snapshot_of(&altering.run.context);
        let table = snapshot.schema_id(schema).and_then(|schema| snapshot.table(schema, name));
        Ok(Arc::clone(table.ok_or_else(|| SqlError::internal("a table that is gone although it was there"))?))
    }

    /// Makes one change of the definition, builds what it needs, and checks the rows against new trusted constraints.
    fn alter_with(
        &mut self,
        altering: &mut Altering<'_>,
        position: Position,
        begin: &super::index::Begin<'_>,
    ) -> Result<(), Failure> {
        let (run, place) = (altering.run, altering.place);
        let warnings = self.change_within(run, place, position, begin, |this, changed| {
            this.build(run, &place.database, changed)?;
            this.hold_against_checks(run, &place.database, changed)?;
            this.hold_against_keys(run, &place.database, changed)
        })?;
        altering.warnings.extend(warnings);
        Ok(())
    }

    /// Rejects a change if existing rows violate its new checks.
    ///
    /// # Errors
    /// 547.
    pub(super) fn hold_against_checks(
        &mut self,
        run: &Arc<StatementRun>,
        database: &DatabaseUse,
        changed: &TableChange,
    ) -> Result<(), Failure> {
        let (old, new) = (changed.old(), changed.new_table());
        let was_trusted = |id| {
            old.constraints
                .checks
                .iter()
                .any(|check| check.head.id == id && !check.head.is_not_trusted && !check.head.is_disabled)
        };
        let mut asked = Table::clone(new);
        asked
            .constraints
            .checks
            .retain(|check| !check.head.is_not_trusted && !check.head.is_disabled && !was_trusted(check.head.id));
        if asked.constraints.checks.is_empty() {
            return Ok(());
        }
        let names = self.batch.names(run);
        let binder = Binder::new(&names, BindOptions::default());
        let mut rules = binder.bind_row_rules(&asked).map_err(Failure::of_binding)?;
        drop(binder);
        drop(names);
        rules.computed.clear();
        let target = store_of(database.clone(), Arc::clone(new))?.written_by("ALTER TABLE").ruled_by(rules, None);
        let rows = TableRead::new(database.clone(), Arc::clone(old), Arc::clone(run), false, false);
        let query = all_rows(&rows)?;
        let prepared = self.batch.prepare(run, BindOptions::default(), &|_| Ok(query.clone()), &one_stream)?;
        self.batch.run_prepared(run, prepared, &mut |batch| target.held_against_checks(&batch))?;
        Ok(())
    }

    /// Rejects a change if existing rows violate its new foreign keys.
    ///
    /// # Errors
    /// 547.
    fn hold_against_keys(
        &mut self,
        run: &Arc<StatementRun>,
        database: &DatabaseUse,
        changed: &TableChange,
    ) -> Result<(), Failure> {
        let (old, new) = (changed.old(), changed.new_table());
        let is_held = |key: &&ForeignKey| !key.head.is_not_trusted && !key.head.is_disabled;
        for key in new.constraints.foreign_keys.iter().filter(is_held) {
            let before = old.constraints.foreign_keys.iter().filter(is_held);
            if before.into_iter().any(|before| before.head.id == key.head.id) {
                continue;
            }
            let target = store_of(database.clone(), Arc::clone(new))?.written_by("ALTER TABLE");
            let rows = TableRead::new(database.clone(), Arc::clone(old), Arc::clone(run), false, false);
            self.batch.hold_all_rows(run, &target, rows, key)?;
        }
        Ok(())
    }
}
