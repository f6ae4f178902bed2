//! Computed columns and `CHECK` constraints: expressions over the columns of one table.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use hobt_base::{Position, SqlError, errors};
use hobt_catalog::Table;
use hobt_functions::{Volatility, carrier, is_call_deterministic, is_conversion_deterministic};
use hobt_tsql::ast::{Condition, Expression};
use hobt_types::{Collation, SqlType};

use super::assignment::physical;
use super::bound::{BoundExpr, BoundQuery, ExprCollation, ResultColumn};
use super::convert::implicit;
use super::scope::{Names, Scope, ScopeColumn, ScopeTable, same_name};
use super::stored::Stored;
use super::{Binder, Clause, Site, shared};
use crate::SourceColumn;
use crate::sequence_scope::InDefault;
use hobt_table::{CheckRule, ComputedRule, RowRules, TableRead};
use hobt_udf::{Kernel, Operation, sql_error_of};

/// A column of a table that is to be created or changed.
#[derive(Clone, Debug)]
pub struct RuleColumn {
    /// The column as a source of values.
    pub column: SourceColumn,
    /// Its expression, if it is computed. A computed column that is not stored is replaced by its expression.
    pub computed: Option<Expression>,
    /// Whether its values are stored.
    pub is_stored: bool,
}

/// The type and properties of a computed column.
#[derive(Clone, Debug)]
pub struct ComputedType {
    /// The type of its values.
    pub sql_type: SqlType,
    /// Whether they can be NULL.
    pub nullable: bool,
    /// The collation of text.
    pub collation: Option<Collation>,
    /// Whether equal rows always have equal values.
    pub is_deterministic: bool,
}

/// The columns of one table, under internal names made from their indexes.
pub(super) struct RowScope {
    pub(super) scope: Scope,
    /// The internal column of each, and the expression that replaces it if it is not stored.
    replaced: Vec<(Column, Expr)>,
    schema: DFSchema,
}

/// The internal name of a column in expressions over a row of one table, made from its index.
pub fn column_of_row(place: usize) -> Column {
    Column::new_unqualified(format!("column_{place}"))
}

/// Error 1046 if the expression has a subquery.
pub(super) fn no_subquery(bound: &Expr, position: Position) -> Result<(), SqlError> {
    if !crate::subquery_expr::has_subquery(bound) {
        return Ok(());
    }
    Err(errors::SUBQUERY_NOT_ALLOWED.error().at(position))
}

impl Binder<'_> {
    pub(super) fn row_scope(&self, table: &str, columns: &[RuleColumn]) -> Result<RowScope, SqlError> {
        let known = |(place, column): (usize, &RuleColumn)| ScopeColumn {
            name: Some(column.column.name.clone()),
            column: column_of_row(place),
            sql_type: column.column.sql_type,
            nullable: column.column.nullable,
            collation: ExprCollation::of_column(column.column.collation),
            literal: None,
        };
        let all: Vec<ScopeColumn> = columns.iter().enumerate().map(known).collect();
        let scope = Scope { tables: vec![ScopeTable::new(Some(table.to_owned()), None, all)] };
        let fields: Vec<Field> = columns
            .iter()
            .enumerate()
            .map(|(place, column)| Field::new(column_of_row(place).name, carrier(column.column.sql_type), true))
            .collect();
        let schema = DFSchema::try_from(Arc::new(Schema::new(fields))).map_err(sql_error_of)?;
        let mut rows = RowScope { scope, replaced: Vec::new(), schema };
        for (place, column) in columns.iter().enumerate().filter(|(_, column)| !column.is_stored) {
            let Some(expression) = &column.computed else { continue };
            let value = self.row_value(&rows, expression)?;
            let value = implicit(value, column.column.sql_type)?;
            rows.replaced.push((column_of_row(place), value.expr));
        }
        Ok(rows)
    }

    pub(super) fn row_value(&self, rows: &RowScope, expression: &Expression) -> Result<BoundExpr, SqlError> {
        let names = Names::default();
        let site = Site { scope: &rows.scope, names: &names, clause: Clause::Select, collector: None };
        let bound = self.refusing_next_values(errors::NEXT_VALUE_NOT_ALLOWED, || {
            self.unfolded(|| self.expression(expression, site))
        })?;
        no_subquery(&bound.expr, expression.position())?;
        Ok(bound)
    }

    pub(super) fn row_condition(&self, rows: &RowScope, condition: &Condition) -> Result<Expr, SqlError> {
        let names = Names::default();
        let site = Site { scope: &rows.scope, names: &names, clause: Clause::Select, collector: None };
        let bound = self.refusing_next_values(errors::NEXT_VALUE_NOT_ALLOWED, || {
            self.unfolded(|| self.condition(condition, site))
        })?;
        no_subquery(&bound, Position::default())?;
        Ok(bound)
    }

    /// The enabled rules of a table's rows.
    ///
    /// # Errors
    /// Those of the expressions, which were bound when they were defined.
    pub fn bind_row_rules(&self, table: &Table) -> Result<RowRules, SqlError> {
        let columns = rule_columns(table)?;
        let rows = self.row_scope(&table.name, &columns)?;
        let mut rules = RowRules { schema: Arc::clone(rows.schema.inner()), computed: Vec::new(), checks: Vec::new() };
        // Columns that are not stored come after the stored ones, and are in no batch.
        let stored: Vec<usize> = (0..table.columns.len()).collect();
        rules.schema = Arc::new(rules.schema.project(&stored).map_err(|error| SqlError::internal(error.to_string()))?);
        let schema = DFSchema::try_from(Arc::clone(&rules.schema)).map_err(sql_error_of)?;
        for (place, column) in columns.iter().enumerate().filter(|(_, column)| column.is_stored) {
            let Some(expression) = &column.computed else { continue };
            let value = implicit(self.row_value(&rows, expression)?, column.column.sql_type)?;
            rules.computed.push(ComputedRule { column: place, value: physical(value.expr, &schema)? });
        }
        for check in table.constraints.checks.iter().filter(|check| !check.head.is_disabled) {
            let condition = parse_condition(&check.definition)?;
            let bound = replace(self.row_condition(&rows, &condition)?, &rows.replaced)?;
            let reads = places_read(&bound);
            let name = check.head.name.clone();
            rules.checks.push(CheckRule { name, condition: physical(bound, &schema)?, reads });
        }
        Ok(rules)
    }

    /// The type of a computed column that is to be defined.
    ///
    /// # Errors
    /// Those of the expression; 1046; 1759 if it reads another computed column.
    pub fn bind_computed(
        &self,
        (table, name): (&str, &str),
        columns: &[RuleColumn],
        expression: &Expression,
    ) -> Result<ComputedType, SqlError> {
        let before = self.progress.is_cacheable.replace(true);
        let rows = self.row_scope(table, columns)?;
        let bound = self.row_value(&rows, expression);
        let is_cacheable = self.progress.is_cacheable.replace(before);
        let bound = bound?;
        let computed = places_read(&bound.expr).into_iter().find(|place| columns[*place].computed.is_some());
        if let Some(place) = computed {
            return Err(errors::COMPUTED_OF_COMPUTED
                .with([&columns[place].column.name, &table])
                .at(expression.position()));
        }
        if bound.is_untyped_null() {
            return Err(errors::COMPUTED_WITHOUT_TYPE.with([&name, &table]).at(expression.position()));
        }
        let is_text = bound.sql_type.is_text();
        Ok(ComputedType {
            sql_type: bound.sql_type,
            nullable: bound.nullable,
            collation: is_text.then_some(bound.collation.collation),
            is_deterministic: is_cacheable && !is_volatile(&bound.expr)?,
        })
    }

    /// Checks that a `CHECK` constraint is valid.
    ///
    /// # Errors
    /// Those of the condition; 1046; 8141 for a check of a column that reads other columns.
    pub fn check_check(
        &self,
        table: &str,
        columns: &[RuleColumn],
        condition: &Condition,
        of_column: Option<&str>,
    ) -> Result<(), SqlError> {
        let rows = self.row_scope(table, columns)?;
        let bound = self.row_condition(&rows, condition)?;
        if let Some(column) = of_column {
            let is_other = |place: usize| !same_name(&columns[place].column.name, column);
            if places_read(&bound).into_iter().any(is_other) {
                return Err(errors::COLUMN_CHECK_REFERENCES.with([&column, &table]));
            }
        }
        physical(replace(bound, &rows.replaced)?, &rows.schema).map(|_| ())
    }

    /// The constraints and computed columns of a table whose expressions read a column, as messages name them.
    ///
    /// # Errors
    /// Those of the expressions, which were bound when they were defined.
    pub fn readers_of(&self, table: &Table, column: &str) -> Result<Vec<(&'static str, String)>, SqlError> {
        let mut columns = rule_columns(table)?;
        // No column is replaced by its expression, so a reader of a computed column counts only as a reader of that
        // column.
        columns.iter_mut().for_each(|column| column.is_stored = true);
        let rows = self.row_scope(&table.name, &columns)?;
        let is_it = |place: usize| same_name(&columns[place].column.name, column);
        let mut readers = Vec::new();
        for known in &columns {
            let Some(expression) = &known.computed else { continue };
            if places_read(&self.row_value(&rows, expression)?.expr).into_iter().any(is_it) {
                readers.push(("column", known.column.name.clone()));
            }
        }
        for check in &table.constraints.checks {
            let condition = parse_condition(&check.definition)?;
            if places_read(&self.row_condition(&rows, &condition)?).into_iter().any(is_it) {
                readers.push(("object", check.head.name.clone()));
            }
        }
        Ok(readers)
    }

    /// Whether a condition on the rows of a table reads a column.
    ///
    /// # Errors
    /// Those of the condition, which was bound when it was defined.
    pub fn condition_reads(&self, table: &Table, condition: &str, column: &str) -> Result<bool, SqlError> {
        let mut columns = rule_columns(table)?;
        columns.iter_mut().for_each(|column| column.is_stored = true);
        let rows = self.row_scope(&table.name, &columns)?;
        let bound = self.row_condition(&rows, &parse_condition(condition)?)?;
        Ok(places_read(&bound).into_iter().any(|place| same_name(&columns[place].column.name, column)))
    }

    /// The rows of a table in the form of another definition. Columns that both have are converted. New columns get
    /// their DEFAULT if `fills` is true for their id, and NULL otherwise.
    ///
    /// # Errors
    /// 206, 257 and those of the defaults.
    pub fn bind_rewrite(
        &self,
        table: Arc<TableRead>,
        new: &Table,
        fills: &dyn Fn(i32) -> bool,
    ) -> Result<BoundQuery, SqlError> {
        let old = Arc::clone(table.table());
        let sources: Vec<SourceColumn> =
            rule_columns(&old)?.into_iter().filter(|column| column.is_stored).map(|column| column.column).collect();
        let (plan, scope) = self.scan(table, &sources, "rewritten_rows", None)?;
        let bind = || {
            let mut values = Vec::with_capacity(new.columns.len());
            for column in &new.columns {
                let before = old.columns.iter().find(|known| known.id == column.id);
                let value = match (before, &column.default) {
                    _ if column.computed.is_some() => BoundExpr::null(Position::default())?,
                    (Some(before), _) => {
                        let is_it = |known: &&ScopeColumn| {
                            known.name.as_deref().is_some_and(|name| same_name(name, &before.name))
                        };
                        let known = scope.columns().find(is_it);
                        known
                            .ok_or_else(|| SqlError::internal("a column that its table lost"))?
                            .bound(Position::default())
                    }
                    (None, Some(default)) if fills(column.id) => {
                        let default = hobt_tsql::parse_expression(&default.definition)?;
                        self.within_default(InDefault::Bound, || self.bind_scalar(&default))?
                    }
                    _ => BoundExpr::null(Position::default())?,
                };
                values.push(self.assign(value, column.sql_type)?);
            }
            Ok(values)
        };
        let (values, next_values) = self.collecting_next_values(bind)?;
        let plan = self.with_next_values(plan, next_values)?;
        let mut exprs = Vec::with_capacity(values.len());
        let mut columns = Vec::with_capacity(values.len());
        for (value, column) in values.into_iter().zip(&new.columns) {
            exprs.push(value.expr.alias(self.fresh(&column.name)));
            columns.push(ResultColumn {
                name: Some(column.name.clone()),
                sql_type: column.sql_type,
                nullable: true,
                collation: column.collation,
            });
        }
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, shared(plan)).map_err(sql_error_of)?);
        Ok(BoundQuery { plan, columns, into: None, is_cacheable: false })
    }

    /// The rows of a table, with its computed columns that are not stored.
    pub(super) fn with_virtual_columns(
        &self,
        plan: LogicalPlan,
        mut source: ScopeTable,
        table: &TableRead,
    ) -> Result<(LogicalPlan, ScopeTable), SqlError> {
        let table = table.table();
        if table.virtual_columns.is_empty() {
            return Ok((plan, source));
        }
        let schema = plan.schema().as_ref().clone();
        let mut exprs: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
        let stored = std::mem::take(&mut source.columns);
        let mut columns: Vec<(i32, ScopeColumn, Option<usize>)> = Vec::with_capacity(stored.len());
        for (place, (column, definition)) in stored.iter().zip(&table.columns).enumerate() {
            columns.push((definition.id, column.clone(), Some(place)));
        }
        let scope = Scope { tables: vec![ScopeTable::new(source.name.clone(), None, stored)] };
        let rows = RowScope { scope, replaced: Vec::new(), schema };
        for column in &table.virtual_columns {
            let expression = hobt_tsql::parse_expression(&column.definition)?;
            let value = implicit(self.row_value(&rows, &expression)?, column.sql_type)?;
            let internal = self.fresh(&column.name);
            exprs.push(value.expr.alias(&internal));
            let shown = ScopeColumn {
                name: Some(column.name.clone()),
                column: Column::new_unqualified(internal),
                sql_type: column.sql_type,
                nullable: column.nullable,
                collation: ExprCollation::of_column(column.collation),
                literal: None,
            };
            columns.push((column.id, shown, None));
        }
        columns.sort_by_key(|(id, ..)| *id);
        if let Stored::Rows(rows) = &mut source.stored {
            rows.shown = columns.iter().map(|(_, _, place)| *place).collect();
        }
        source.columns = columns.into_iter().map(|(_, column, _)| column).collect();
        let plan = Projection::try_new(exprs, shared(plan)).map_err(sql_error_of)?;
        Ok((LogicalPlan::Projection(plan), source))
    }
}

/// A table's columns, the stored ones first.
///
/// # Errors
/// If a stored definition does not parse.
pub fn rule_columns(table: &Table) -> Result<Vec<RuleColumn>, SqlError> {
    let mut columns = Vec::with_capacity(table.columns.len() + table.virtual_columns.len());
    for column in &table.columns {
        let computed = column.computed.as_deref().map(hobt_tsql::parse_expression).transpose()?;
        let column = SourceColumn {
            name: column.name.clone(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: column.collation,
        };
        columns.push(RuleColumn { column, computed, is_stored: true });
    }
    for column in &table.virtual_columns {
        let computed = Some(hobt_tsql::parse_expression(&column.definition)?);
        let column = SourceColumn {
            name: column.name.clone(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: column.collation,
        };
        columns.push(RuleColumn { column, computed, is_stored: false });
    }
    Ok(columns)
}

/// Parses a condition stored in the catalog.
///
/// # Errors
/// If the text is not a condition.
fn parse_condition(text: &str) -> Result<Condition, SqlError> {
    let mut batch = hobt_tsql::parse_batch(&format!("IF {text} RETURN"))?;
    match batch.statements.pop().map(|statement| statement.kind) {
        Some(hobt_tsql::ast::StatementKind::If { mut branches, .. }) if branches.len() == 1 => {
            Ok(branches.remove(0).condition)
        }
        _ => Err(SqlError::internal("a constraint's text is no condition")),
    }
}

fn replace(expr: Expr, replaced: &[(Column, Expr)]) -> Result<Expr, SqlError> {
    if replaced.is_empty() {
        return Ok(expr);
    }
    let other = |node: Expr| match &node {
        Expr::Column(column) => match replaced.iter().find(|(known, _)| known == column) {
            Some((_, value)) => Ok(Transformed::new(value.clone(), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(node)),
        },
        _ => Ok(Transformed::no(node)),
    };
    expr.transform_down(other).map(|done| done.data).map_err(sql_error_of)
}

/// The indexes of the columns that an expression reads.
fn places_read(expr: &Expr) -> Vec<usize> {
    let place = |column: &Column| column.name.strip_prefix("column_").and_then(|place| place.parse().ok());
    let mut places: Vec<usize> = expr.column_refs().into_iter().filter_map(place).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Whether an expression may have different values for the same row at another time or in another session.
fn is_volatile(expr: &Expr) -> Result<bool, SqlError> {
    let found = expr.exists(|node| {
        let Some((kernel, operands)) = kernel_of(node) else { return Ok(false) };
        Ok(match kernel.operation() {
            Operation::Function { def, .. } if def.volatility != Volatility::Immutable => true,
            Operation::Function { def, .. } if def.name == "ISDATE" => !operands.first().is_some_and(says_style),
            Operation::Function { def, arguments, result, date_part, .. } => {
                !is_call_deterministic(def, arguments, *result, *date_part)
            }
            Operation::Rows { .. } | Operation::NextValue(_) => true,
            Operation::Cast { from, to, style, .. } => !is_conversion_deterministic(*from, *to, *style),
            Operation::Binary { left, right, result, .. } => {
                [left, right].into_iter().any(|operand| !is_conversion_deterministic(*operand, *result, None))
            }
            _ => false,
        })
    });
    found.map_err(sql_error_of)
}

/// The operation at the top of an expression, and its operands.
fn kernel_of(expr: &Expr) -> Option<(&Kernel, &[Expr])> {
    let Expr::ScalarFunction(function) = expr else { return None };
    Some((function.func.inner().downcast_ref::<Kernel>()?, &function.args))
}

/// Whether a value is a `CONVERT` with a style that makes `ISDATE` of it deterministic, according to its documentation.
fn says_style(expr: &Expr) -> bool {
    let Some((kernel, _)) = kernel_of(expr) else { return false };
    matches!(kernel.operation(), Operation::Cast { style: Some(style), .. } if ![0, 9, 100, 109].contains(style))
}
