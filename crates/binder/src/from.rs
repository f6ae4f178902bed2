//! `FROM`: sources and joins.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, JoinType, NullEquality, TableReference};
use datafusion::logical_expr::{Expr, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder, Projection, TableScan};
use hobt_base::{Position, SqlError, errors};
use hobt_functions::convert_value;
use hobt_tsql::ast::{
    Expression, FileSource, Identifier, JoinHint, JoinKind, JoinStep, NamedTable, ObjectName, TableAlias, TableSample,
    TableSource,
};
use hobt_types::{SqlType, TypedValue, Value};

use super::bound::ExprCollation;
use super::data_type::{TypePlace, sql_type};
use super::extent::{check_list, check_plan};
use super::hash_join::joins_by_hash;
use super::hints::join_way;
use super::resolver::{Resolved, ScanHints, SourceColumn};
use super::scope::{Names, Scope, ScopeColumn, ScopeTable, same_name};
use super::stored::Stored;
use super::{Binder, Clause, Site, shared};
use crate::body::{Body, QueryUse};
use hobt_table::{FileRead, JoinWay, ScanSample, TableRead, no_plan_for_hints};
use hobt_udf::sql_error_of;

impl Binder<'_> {
    /// The cross product of the sources between commas.
    pub(super) fn from(&self, sources: &[TableSource], names: &Names<'_>) -> Result<(LogicalPlan, Scope), SqlError> {
        let Some(first) = sources.first() else { return Err(SqlError::internal("FROM without a source")) };
        let at = |error: SqlError| error.at(first.position());
        check_list(sources.len()).map_err(at)?;
        let mut result: Option<(LogicalPlan, Scope)> = None;
        for source in sources {
            let (plan, scope) = self.source(source, names)?;
            result = Some(match result {
                None => (plan, scope),
                Some((left, mut all)) => {
                    all.extend(scope).map_err(|error| error.at(source.position()))?;
                    (join(left, plan, JoinType::Inner, None)?, all)
                }
            });
        }
        let Some((plan, scope)) = result else { return Err(SqlError::internal("FROM without a source")) };
        check_plan(&plan).map_err(at)?;
        Ok((plan, scope))
    }

    /// Binds one source.
    pub(super) fn source(&self, source: &TableSource, names: &Names<'_>) -> Result<(LogicalPlan, Scope), SqlError> {
        self.within(|| self.any_source(source, names))
    }

    fn any_source(&self, source: &TableSource, names: &Names<'_>) -> Result<(LogicalPlan, Scope), SqlError> {
        match source {
            TableSource::Table(table) => self.named_table(table, names),
            TableSource::Derived { query, alias, .. } => {
                let inner = Names { outer: names.outer, ..names.clone() };
                let body = self.query(query, &inner, QueryUse::Nested)?;
                self.derived(body, alias)
            }
            TableSource::Values { rows, alias, .. } => {
                let body = self.values(rows, names)?;
                self.derived(body, alias)
            }
            TableSource::Function { name, arguments, alias, span } => {
                self.function_source(name, arguments, alias.as_ref(), span.position, names)
            }
            TableSource::Files(files) => self.files(files),
            TableSource::Variable { name, alias } => {
                let hints = ScanHints { places: names.places, ..ScanHints::default() };
                let resolved = self.resolver.resolve_variable_table(name, &hints);
                let resolved = resolved.map_err(|error| error.at(name.position))?;
                let alias = alias.as_ref().map_or(name.value.as_str(), |alias| alias.name.value.as_str());
                let Resolved::Table { source, columns } = resolved else {
                    return Err(SqlError::internal("a table variable that is no table"));
                };
                self.scan(source, &columns, alias, None)
            }
            TableSource::Joined { first, rest } => {
                check_list(rest.len() + 1)?;
                let (mut plan, mut scope) = self.source(first, names)?;
                for step in rest {
                    (plan, scope) = self.join_step(plan, scope, step, names)?;
                }
                check_plan(&plan)?;
                Ok((plan, scope))
            }
        }
    }

    fn files(&self, files: &FileSource) -> Result<(LogicalPlan, Scope), SqlError> {
        let position = files.span.position;
        let mut columns = Vec::with_capacity(files.columns.len());
        for column in &files.columns {
            let sql_type =
                sql_type(&column.data_type, TypePlace::Declaration).map_err(|error| error.at(column.name.position))?;
            columns.push(sql_type);
        }
        let resolved = self.resolver.resolve_files(files, &columns).map_err(|error| error.at(position))?;
        let Resolved::Table { source, columns } = resolved else {
            return Err(SqlError::internal("files that are no rows"));
        };
        let shown = files.alias.as_ref().map_or("OPENROWSET", |alias| alias.name.value.as_str());
        let list = files.alias.as_ref().map_or(&[][..], |alias| alias.columns.as_slice());
        if !list.is_empty() && list.len() != columns.len() {
            let entry = match columns.len() > list.len() {
                true => errors::TOO_MANY_COLUMNS_FOR_LIST,
                false => errors::TOO_FEW_COLUMNS_FOR_LIST,
            };
            return Err(entry.with([&shown]).at(position));
        }
        let (plan, mut scope) = self.scan(source, &columns, shown, None)?;
        for (column, name) in scope.tables[0].columns.iter_mut().zip(list) {
            column.name = Some(name.value.clone());
        }
        Ok((plan, scope))
    }

    fn named_table(&self, table: &NamedTable, names: &Names<'_>) -> Result<(LogicalPlan, Scope), SqlError> {
        let alias = table.alias.as_ref().unwrap_or(&table.name.name);
        if let Some(simple) = table.name.as_simple()
            && let Some(found) = self.common_table(simple, alias, names)?
        {
            check_sampled(table, false)?;
            return Ok(found);
        }
        let position = table.span.position;
        let sample = table.sample.as_ref().map(|sample| self.scan_sample(sample, table)).transpose()?;
        let hints = ScanHints { hints: &table.hints, places: names.places, sample };
        let resolved = self.resolver.resolve(&table.name, &hints).map_err(|error| error.at(position))?;
        let is_table = matches!(&resolved, Resolved::Table { source, .. } if source.is::<TableRead>());
        check_sampled(table, is_table)?;
        let full = table.alias.is_none().then(|| table.name.clone());
        self.resolved(resolved, &table.name, (alias, full), names.places, position)
    }

    /// The sample that `TABLESAMPLE` asks for.
    ///
    /// # Errors
    /// 476 and 477 for an invalid amount or seed; those of the expressions.
    fn scan_sample(&self, sample: &TableSample, table: &NamedTable) -> Result<ScanSample, SqlError> {
        let number_of = |expression: &Expression, to: SqlType| {
            let bound = self.bind_scalar(expression)?;
            let value = self.evaluate(&bound)?;
            convert_value(&value, bound.sql_type, to).map_err(|error| error.at(expression.position()))
        };
        let wrong_rows = || errors::SAMPLE_ROWS.with([&table.name.name.value]).at(sample.amount.position());
        let seed = match &sample.repeatable {
            None => None,
            Some(seed) => match number_of(seed, SqlType::BigInt)? {
                Value::Int(seed) if seed > 0 => Some(seed),
                _ => return Err(wrong_rows()),
            },
        };
        let Value::Float(amount) = number_of(&sample.amount, SqlType::Float)? else { return Err(wrong_rows()) };
        if sample.rows && amount <= 0.0 {
            return Err(wrong_rows());
        }
        if !sample.rows && !(0.0..=100.0).contains(&amount) {
            return Err(errors::TABLE_SAMPLE_PERCENT
                .with([&amount, &table.name.name.value])
                .at(sample.amount.position()));
        }
        Ok(ScanSample { amount, is_rows: sample.rows, seed })
    }

    fn resolved(
        &self,
        resolved: Resolved,
        name: &ObjectName,
        (alias, full): (&Identifier, Option<ObjectName>),
        places: bool,
        position: Position,
    ) -> Result<(LogicalPlan, Scope), SqlError> {
        match resolved {
            Resolved::Table { source, columns } => self.scan(source, &columns, &alias.value, full),
            Resolved::View { definition, database } => {
                let body =
                    self.in_database(database.as_ref(), |binder| binder.view(&definition, &name.name.value, places))?;
                let (plan, mut scope) = self.named_rows(body, &alias.value, &[])?;
                scope.tables[0].full = full;
                Ok((plan, scope))
            }
            Resolved::InlineFunction { .. } => {
                Err(errors::PARAMETERS_NOT_SUPPLIED.with([&name.name.value]).at(position))
            }
        }
    }

    /// A scan, with its columns under unique internal names.
    pub(super) fn scan(
        &self,
        rows: Arc<dyn datafusion::logical_expr::TableSource>,
        columns: &[SourceColumn],
        alias: &str,
        full: Option<ObjectName>,
    ) -> Result<(LogicalPlan, Scope), SqlError> {
        let table = TableReference::bare(self.fresh(alias));
        let schema = rows.schema();
        let place = (schema.fields().len() == columns.len() + 1).then(|| schema.field(columns.len()).name().clone());
        if schema.fields().len() != columns.len() && place.is_none() {
            return Err(SqlError::internal(format!("the columns of {alias} do not match its rows")));
        }
        let plan = LogicalPlanBuilder::scan(table.clone(), Arc::clone(&rows), None).map_err(sql_error_of)?;
        let mut exprs = Vec::with_capacity(columns.len() + 1);
        let mut scope = Vec::with_capacity(columns.len());
        for (source, field) in columns.iter().zip(schema.fields()) {
            let internal = self.fresh(&source.name);
            exprs.push(Expr::Column(Column::new(Some(table.clone()), field.name())).alias(&internal));
            scope.push(ScopeColumn {
                name: Some(source.name.clone()),
                column: Column::new_unqualified(internal),
                sql_type: source.sql_type,
                nullable: source.nullable,
                collation: ExprCollation::of_column(source.collation),
                literal: None,
            });
        }
        let mut source = ScopeTable::new(Some(alias.to_string()), full, scope);
        source.stored = match place {
            None if rows.is::<FileRead>() => Stored::Files,
            None => Stored::System,
            Some(place) => {
                let internal = self.fresh("place");
                exprs.push(Expr::Column(Column::new(Some(table), place)).alias(&internal));
                let stored =
                    TableRead::of(&rows).ok_or_else(|| SqlError::internal("a row's position in no stored table"))?;
                Stored::of_table(stored, Column::new_unqualified(internal), &source.columns)
            }
        };
        let plan = plan.build().map_err(sql_error_of)?;
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, shared(plan)).map_err(sql_error_of)?);
        let (plan, source) = match rows.downcast_ref::<TableRead>() {
            Some(table) => self.with_virtual_columns(plan, source, table)?,
            None => (plan, source),
        };
        Ok((plan, Scope { tables: vec![source] }))
    }

    /// The rows of a query under an alias.
    pub(super) fn derived(&self, body: Body, alias: &TableAlias) -> Result<(LogicalPlan, Scope), SqlError> {
        self.named_rows(body, &alias.name.value, &alias.columns).map_err(|error| error.at(alias.name.position))
    }

    /// The rows of a query under a name. Its columns have the names of the list, if there is one.
    ///
    /// # Errors
    /// Errors 8155, 8156, 8158, 8159.
    pub(super) fn named_rows(
        &self,
        body: Body,
        name: &str,
        list: &[Identifier],
    ) -> Result<(LogicalPlan, Scope), SqlError> {
        if !list.is_empty() && list.len() != body.columns.len() {
            return Err(match body.columns.len() > list.len() {
                true => errors::TOO_MANY_COLUMNS_FOR_LIST.with([&name]),
                false => errors::TOO_FEW_COLUMNS_FOR_LIST.with([&name]),
            });
        }
        let mut columns: Vec<ScopeColumn> = Vec::with_capacity(body.columns.len());
        for (place, column) in body.columns.iter().enumerate() {
            let known = list.get(place).map(|name| name.value.clone()).or_else(|| column.name.clone());
            let Some(known) = known else {
                return Err(errors::NO_COLUMN_NAME.with([&(place + 1), &name]));
            };
            if columns.iter().any(|other| other.name.as_deref().is_some_and(|other| same_name(other, &known))) {
                return Err(errors::DUPLICATE_COLUMN_SELECT.with([&known, &name]));
            }
            columns.push(ScopeColumn {
                name: Some(known),
                column: column.column.clone(),
                sql_type: column.sql_type,
                nullable: column.nullable,
                collation: column.source_collation(),
                literal: column.literal.clone(),
            });
        }
        let table = ScopeTable { stored: body.stored, ..ScopeTable::new(Some(name.to_string()), None, columns) };
        Ok((body.plan, Scope { tables: vec![table] }))
    }

    /// A table-valued function: an inline one is expanded, any other is resolved by the session.
    pub(super) fn function_source(
        &self,
        name: &ObjectName,
        arguments: &[Expression],
        alias: Option<&TableAlias>,
        position: Position,
        names: &Names<'_>,
    ) -> Result<(LogicalPlan, Scope), SqlError> {
        let nothing = Scope::default();
        let site = Site { scope: &nothing, names, clause: Clause::Scalar, collector: None };
        let mut bound = Vec::with_capacity(arguments.len());
        for argument in arguments {
            bound.push(match argument {
                Expression::Default { .. } => None,
                other => Some(self.expression(other, site)?),
            });
        }
        if let Some(body) = self.built_in_rows(name, &bound, position)? {
            let shown = alias.map_or(name.name.value.as_str(), |alias| alias.name.value.as_str());
            let list = alias.map_or(&[][..], |alias| alias.columns.as_slice());
            return self.named_rows(body, shown, list).map_err(|error| error.at(position));
        }
        let mut constants = Vec::with_capacity(bound.len());
        for argument in &bound {
            constants.push(match argument {
                Some(bound) if bound.literal.is_some() || is_constant(&bound.expr) => {
                    Some(TypedValue { sql_type: bound.sql_type, value: self.evaluate(bound)? })
                }
                _ => None,
            });
        }
        let resolved = self.resolver.resolve_function(name, &constants).map_err(|error| error.at(position))?;
        let shown = alias.map_or(name.name.value.as_str(), |alias| alias.name.value.as_str());
        let list = alias.map_or(&[][..], |alias| alias.columns.as_slice());
        match resolved {
            Resolved::Table { source, columns } => {
                let full = alias.is_none().then(|| name.clone());
                let (plan, mut scope) = self.scan(source, &columns, shown, full)?;
                for (column, name) in scope.tables[0].columns.iter_mut().zip(list) {
                    column.name = Some(name.value.clone());
                }
                Ok((plan, scope))
            }
            Resolved::InlineFunction { definition, database } => {
                let body = self.in_database(database.as_ref(), |binder| {
                    binder.inline_function(&definition, &name.name.value, bound)
                });
                let body = body.map_err(|error| error.at(position))?;
                self.named_rows(body, shown, list).map_err(|error| error.at(position))
            }
            Resolved::View { .. } => Err(errors::NOT_A_TABLE_FUNCTION.with([&name.name.value]).at(position)),
        }
    }

    fn join_step(
        &self,
        left: LogicalPlan,
        left_scope: Scope,
        step: &JoinStep,
        names: &Names<'_>,
    ) -> Result<(LogicalPlan, Scope), SqlError> {
        let position = step.span.position;
        let way = step.hint.map(join_way).transpose().map_err(|error| error.at(position))?;
        self.options.permitted_joins.check(way.unwrap_or_default()).map_err(|error| error.at(position))?;
        if matches!(step.kind, JoinKind::CrossApply | JoinKind::OuterApply) {
            return self.apply(left, left_scope, step, names);
        }
        let (right, right_scope) = self.source(&step.source, names)?;
        let right = match way {
            Some(way) => joined_by(right, way, step)?,
            None => right,
        };
        let left_count = left_scope.tables.len();
        let mut scope = left_scope;
        scope.extend(right_scope).map_err(|error| error.at(position))?;
        let join_type = match step.kind {
            JoinKind::Left => JoinType::Left,
            JoinKind::Right => JoinType::Right,
            JoinKind::Full => JoinType::Full,
            _ => JoinType::Inner,
        };
        let site = Site { scope: &scope, names, clause: Clause::On, collector: None };
        let on = step.on.as_ref().map(|on| self.condition(on, site)).transpose()?;
        if matches!(step.hint, Some(JoinHint::Hash | JoinHint::Merge)) && !joins_by_hash(&left, &right, on.as_ref()) {
            let way_out = "Take HASH or MERGE away before JOIN, or give its ON an equation between the two sides.";
            return Err(no_plan_for_hints(way_out).at(position));
        }
        let plan = match on {
            Some(on)
                if join_type == JoinType::Inner && (crate::subquery_expr::has_subquery(&on) || on.contains_outer()) =>
            {
                let product = join(left, right, JoinType::Inner, None)?;
                self.filter(product, on)?
            }
            on => join(left, right, join_type, on)?,
        };
        for (place, table) in scope.tables.iter_mut().enumerate() {
            let is_left = place < left_count;
            let padded = match join_type {
                JoinType::Left => !is_left,
                JoinType::Right => is_left,
                JoinType::Full => true,
                _ => false,
            };
            if padded {
                table.columns.iter_mut().for_each(ScopeColumn::pad);
            }
        }
        Ok((plan, scope))
    }
}

/// Marks a source with the join method of a hint.
///
/// # Errors
/// 8622 for `LOOP` if rows of the source without a partner must be returned; "not supported" for `LOOP` and `MERGE` if
/// the source is not a single table.
fn joined_by(source: LogicalPlan, way: JoinWay, step: &JoinStep) -> Result<LogicalPlan, SqlError> {
    if way == JoinWay::Loop && matches!(step.kind, JoinKind::Right | JoinKind::Full) {
        let way_out =
            "Take LOOP away before JOIN, or write it as a LEFT JOIN: loops look up rows for those of the left side.";
        return Err(no_plan_for_hints(way_out).at(step.span.position));
    }
    let (mut is_table, mut is_single) = (false, true);
    let marked = source.transform_down(|node| {
        is_single &= node.inputs().len() < 2;
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Some(table) = scan.source.downcast_ref::<TableRead>() else { return Ok(Transformed::no(node)) };
        is_table = true;
        let source = table.joined(way);
        Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan.clone() })))
    });
    let marked = marked.data().map_err(sql_error_of)?;
    if matches!(way, JoinWay::Loop | JoinWay::Merge) && !(is_table && is_single) {
        let name = if way == JoinWay::Loop { "LOOP" } else { "MERGE" };
        let text = format!("The hint {name} JOIN before anything but a table, or a query of one table");
        return Err(SqlError::not_supported(text).at(step.span.position));
    }
    Ok(marked)
}

/// Whether an expression has neither columns nor subqueries.
pub(super) fn is_constant(expr: &Expr) -> bool {
    !expr.any_column_refs() && !expr.contains_outer() && !crate::subquery_expr::has_subquery(expr)
}

/// A join on a condition; without a condition, a cross product.
pub(super) fn join(
    left: LogicalPlan,
    right: LogicalPlan,
    join_type: JoinType,
    on: Option<Expr>,
) -> Result<LogicalPlan, SqlError> {
    let join = Join::try_new(
        shared(left),
        shared(right),
        vec![],
        on,
        join_type,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    );
    Ok(LogicalPlan::Join(join.map_err(sql_error_of)?))
}

/// Error 494.
fn check_sampled(table: &NamedTable, is_table: bool) -> Result<(), SqlError> {
    if table.sample.is_none() || is_table {
        return Ok(());
    }
    Err(errors::SAMPLE_NO_TABLE.error().at(table.span.position))
}
