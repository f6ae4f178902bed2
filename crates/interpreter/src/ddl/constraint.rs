//! Constraints and computed columns: checks at definition time.

use hobt_base::{SqlError, errors};
use hobt_catalog::ReferentialRule;
use hobt_engine::{CheckDefinition, ColumnDefinition, ComputedDefinition, ForeignKeyDefinition, IndexDefinition};
use hobt_tsql::ast::{self, Condition, Constraint, ConstraintKind, Expression, Literal, ReferentialAction};
use hobt_txn::StatementContext;
use hobt_types::SqlType;

use super::index::Begin;
use crate::ddl::Definitions;
use crate::failure::Failure;
use crate::place::Place;
use hobt_binder::{BindOptions, Binder, RuleColumn, SourceColumn};

/// The parts of a `CREATE TABLE`.
pub(super) struct TableParts {
    pub(super) columns: Vec<ColumnDefinition>,
    pub(super) indexes: Vec<IndexDefinition>,
    pub(super) checks: Vec<CheckDefinition>,
    pub(super) foreign_keys: Vec<ForeignKeyDefinition>,
}

impl Definitions<'_, '_> {
    /// Binds a part of a definition in a statement that reads nothing.
    pub(super) fn checked<T>(&self, bind: impl FnOnce(&Binder<'_>) -> Result<T, SqlError>) -> Result<T, Failure> {
        let run = self.batch.new_run(None)?;
        let names = self.batch.names(&run);
        let bound = bind(&Binder::new(&names, BindOptions::default()));
        let ended = run.end(true);
        let bound = bound.map_err(Failure::of_binding)?;
        ended?;
        Ok(bound)
    }

    /// Rejects an invalid DEFAULT.
    ///
    /// # Errors
    /// 128, 206, 257, 302, 1046, and those of its names.
    pub(super) fn check_default(&self, value: &Expression, sql_type: SqlType) -> Result<(), Failure> {
        self.checked(|binder| binder.check_default(value, sql_type))
    }

    /// Sets the types of computed columns from their expressions. `columns` are those of `written`, in order.
    ///
    /// # Errors
    /// 1759, 4936 and those of the expressions.
    pub(super) fn computed_types(
        &self,
        written: &[ast::ColumnDefinition],
        columns: &mut [ColumnDefinition],
        table: &str,
    ) -> Result<(), Failure> {
        for place in 0..columns.len() {
            let ast::ColumnKind::Computed { value, persisted } = &written[place].kind else { continue };
            let known = before_computing(columns)?;
            let name = columns[place].name.clone();
            let computed = self.checked(|binder| binder.bind_computed((table, &name), &known, value))?;
            let column = &mut columns[place];
            if *persisted && !computed.is_deterministic {
                return Err(not_deterministic(&name, table).at(written[place].name.position).into());
            }
            column.sql_type = computed.sql_type;
            column.collation = computed.collation;
            column.nullable = written[place].nullable.unwrap_or(*persisted || computed.nullable);
        }
        Ok(())
    }

    /// The `CHECK` constraints in a table's definition.
    pub(super) fn checks(
        &self,
        definition: &ast::TableDefinition,
        columns: &[ColumnDefinition],
        table: &str,
    ) -> Result<Vec<CheckDefinition>, Failure> {
        let known = with_computed(columns)?;
        let mut checks = Vec::new();
        for column in &definition.columns {
            for constraint in &column.constraints {
                checks.extend(self.check_definition(constraint, &known, table, Some(&column.name.value))?);
            }
        }
        for constraint in &definition.constraints {
            checks.extend(self.check_definition(constraint, &known, table, None)?);
        }
        Ok(checks)
    }

    /// A `CHECK` constraint. `None` for a constraint of another kind.
    pub(super) fn check_definition(
        &self,
        constraint: &Constraint,
        columns: &[RuleColumn],
        table: &str,
        of_column: Option<&str>,
    ) -> Result<Option<CheckDefinition>, Failure> {
        let ConstraintKind::Check { condition, not_for_replication } = &constraint.kind else { return Ok(None) };
        self.checked(|binder| {
            let checked = binder.check_check(table, columns, condition, of_column);
            checked.map_err(|error| error.at(constraint.span.position))
        })?;
        Ok(Some(CheckDefinition {
            name: constraint.name.as_ref().map(|name| name.value.clone()),
            column: of_column.map(str::to_owned),
            definition: condition_definition(condition),
            not_for_replication: *not_for_replication,
            is_not_trusted: false,
        }))
    }

    /// A `FOREIGN KEY` constraint. `None` for a constraint of another kind.
    ///
    /// # Errors
    /// 1763 for a table in another database.
    pub(super) fn foreign_key_definition(
        &self,
        constraint: &Constraint,
        of_column: Option<&str>,
    ) -> Result<Option<ForeignKeyDefinition>, Failure> {
        let ConstraintKind::ForeignKey { columns, table, referenced, on_delete, on_update, not_for_replication } =
            &constraint.kind
        else {
            return Ok(None);
        };
        let name = constraint.name.as_ref().map(|name| name.value.clone());
        let place = self.batch.place(table)?;
        if place.database.id() != self.batch.database().id() {
            return Err(errors::FOREIGN_KEY_CROSS_DATABASE
                .with([&name.unwrap_or_default()])
                .at(constraint.span.position)
                .into());
        }
        let values = |names: &[ast::Identifier]| names.iter().map(|name| name.value.clone()).collect::<Vec<_>>();
        let rule = |action: &Option<ReferentialAction>| match action {
            None | Some(ReferentialAction::NoAction) => ReferentialRule::NoAction,
            Some(ReferentialAction::Cascade) => ReferentialRule::Cascade,
            Some(ReferentialAction::SetNull) => ReferentialRule::SetNull,
            Some(ReferentialAction::SetDefault) => ReferentialRule::SetDefault,
        };
        Ok(Some(ForeignKeyDefinition {
            name,
            columns: match of_column {
                Some(column) if columns.is_empty() => vec![column.to_owned()],
                _ => values(columns),
            },
            referenced: (place.schema, place.name),
            referenced_columns: values(referenced),
            on_delete: rule(on_delete),
            on_update: rule(on_update),
            not_for_replication: *not_for_replication,
            is_not_trusted: false,
        }))
    }

    /// The foreign keys in a table's definition.
    pub(super) fn foreign_keys(&self, definition: &ast::TableDefinition) -> Result<Vec<ForeignKeyDefinition>, Failure> {
        let mut keys = Vec::new();
        for column in &definition.columns {
            for constraint in &column.constraints {
                keys.extend(self.foreign_key_definition(constraint, Some(&column.name.value))?);
            }
        }
        for constraint in &definition.constraints {
            keys.extend(self.foreign_key_definition(constraint, None)?);
        }
        Ok(keys)
    }

    /// Adds the checks and foreign keys of a table that the same statement has created.
    pub(super) fn add_first_constraints(
        &mut self,
        context: &StatementContext,
        place: &Place,
        checks: &[CheckDefinition],
        foreign_keys: &[ForeignKeyDefinition],
    ) -> Result<(), Failure> {
        let database = place.database.database();
        let change = |begin: &Begin<'_>| {
            let table = (place.schema.as_str(), place.name.as_str());
            let changed = self.locking_definition(context, &place.database, |lock| begin(context, table, lock));
            database.finish_table_change(context, changed.map_err(SqlError::from)?).map_err(SqlError::from)
        };
        for key in foreign_keys {
            change(&|context, table, lock| database.begin_add_foreign_key(context, table, key, lock))?;
        }
        if !checks.is_empty() {
            change(&|context, table, lock| database.begin_add_checks(context, table, checks, lock))?;
        }
        Ok(())
    }
}

/// 4936.
pub(super) fn not_deterministic(column: &str, table: &str) -> SqlError {
    errors::NOT_DETERMINISTIC.with([&column, &table])
}

/// A computed column whose type is not known yet.
pub(super) fn computed_column(
    column: &ast::ColumnDefinition,
    value: &Expression,
    is_persisted: bool,
) -> ColumnDefinition {
    let definition = format!("({value})");
    ColumnDefinition {
        computed: Some(ComputedDefinition { definition, is_persisted }),
        ..ColumnDefinition::new(column.name.value.clone(), SqlType::Int, true)
    }
}

/// A column of a definition, as expressions read it.
pub(super) fn rule_column(column: &ColumnDefinition, is_stored: bool) -> Result<RuleColumn, SqlError> {
    let computed = column.computed.as_ref().map(|computed| hobt_tsql::parse_expression(&computed.definition));
    Ok(RuleColumn {
        column: SourceColumn {
            name: column.name.clone(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: column.sql_type.is_text().then(|| column.collation.unwrap_or_default()),
        },
        computed: computed.transpose()?,
        is_stored,
    })
}

/// Columns while the types of the computed ones are being determined: none is replaced by its expression.
fn before_computing(columns: &[ColumnDefinition]) -> Result<Vec<RuleColumn>, SqlError> {
    columns.iter().map(|column| rule_column(column, true)).collect()
}

/// Columns with their types.
pub(super) fn with_computed(columns: &[ColumnDefinition]) -> Result<Vec<RuleColumn>, SqlError> {
    let is_stored = |column: &ColumnDefinition| column.computed.as_ref().is_none_or(|computed| computed.is_persisted);
    columns.iter().map(|column| rule_column(column, is_stored(column))).collect()
}

/// The text of a condition as the catalog stores and shows it.
pub(super) fn condition_definition(condition: &Condition) -> String {
    format!("({condition})")
}

/// The text of a DEFAULT as the catalog stores and shows it: in parentheses, numbers in two pairs of them.
pub(super) fn default_definition(value: &Expression) -> String {
    let number = match value {
        Expression::Unary { operand, .. } => operand,
        other => other,
    };
    let is_text = |literal: &Literal| matches!(literal, Literal::String { .. } | Literal::Null);
    match number {
        Expression::Literal { value: literal, .. } if !is_text(literal) => format!("(({value}))"),
        _ => format!("({value})"),
    }
}
