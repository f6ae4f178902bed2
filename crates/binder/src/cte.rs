//! Common table expressions. Each reference is bound anew, so that it has internal names of its own.
//!
//! A recursive one becomes DataFusion's recursive query over a work table. A column counts the recursion, so that it
//! ends with error 530 instead of running forever.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection};
use hobt_base::{Position, SqlError, errors};
use hobt_functions::carrier;
use hobt_tsql::ast::{Identifier, Query, QueryBody, SetOperationStep, SetOperator, TableSource};
use hobt_types::SqlType;

use super::convert::implicit;
use super::scope::{Cte, CteList, Names, Scope, ScopeColumn, ScopeTable, same_name};
use super::{Binder, shared, with_cte};
use crate::body::{Body, BodyColumn, QueryUse};
use hobt_udf::{Kernel, Operation, sql_error_of};

/// The common table expression with the name `name`.
fn find<'l>(ctes: &'l CteList, name: &str) -> Option<&'l Cte> {
    let mut node = ctes.as_ref();
    while let Some(here) = node {
        if same_name(&here.cte.definition.name.value, name) {
            return Some(&here.cte);
        }
        node = here.next.as_ref();
    }
    None
}

impl Binder<'_> {
    /// The rows of a common table expression under an alias; `None` if the name is not one.
    pub(super) fn common_table(
        &self,
        name: &Identifier,
        alias: &Identifier,
        names: &Names<'_>,
    ) -> Result<Option<(LogicalPlan, Scope)>, SqlError> {
        let Some(cte) = find(&names.ctes, &name.value) else { return Ok(None) };
        if let Some(work_table) = &cte.work_table {
            return self.work_table(work_table, alias).map(Some);
        }
        let definition = &cte.definition;
        let at = |error: SqlError| error.at(definition.name.position);
        let inner = Names { outer: None, ctes: cte.before.clone(), ..names.clone() };
        if let Some((anchor, step)) = recursive_members(definition.query.clone(), &name.value) {
            let inner = Names { places: false, ..inner };
            let body = self.enter(&name.value, || self.recursive(cte, &anchor, &step, &inner))?;
            return self.named_rows(body, &alias.value, &definition.columns).map(Some).map_err(at);
        }
        let body = self.enter(&name.value, || self.query(&definition.query, &inner, QueryUse::Nested))?;
        let (plan, mut scope) = self.named_rows(body, &name.value, &definition.columns).map_err(at)?;
        scope.tables[0].name = Some(alias.value.clone());
        Ok(Some((plan, scope)))
    }

    /// A reference of the recursive member to the rows of the previous step.
    fn work_table(&self, work_table: &ScopeTable, alias: &Identifier) -> Result<(LogicalPlan, Scope), SqlError> {
        let name = work_table.name.clone().unwrap_or_default();
        let schema = work_schema(&work_table.columns);
        let reference = TableReference::bare(name.clone());
        let source = provider_as_source(Arc::new(CteWorkTable::new(&name, schema)));
        let scan = LogicalPlanBuilder::scan(reference.clone(), source, None).and_then(|scan| scan.build());
        let scan = scan.map_err(sql_error_of)?;
        let mut exprs = Vec::with_capacity(work_table.columns.len());
        let mut columns = Vec::with_capacity(work_table.columns.len());
        for column in &work_table.columns {
            let internal = self.fresh(column.name.as_deref().unwrap_or("level"));
            let from = Column::new(Some(reference.clone()), &column.column.name);
            exprs.push(Expr::Column(from).alias(&internal));
            columns.push(ScopeColumn { column: Column::new_unqualified(internal), ..column.clone() });
        }
        let plan = Projection::try_new(exprs, shared(scan)).map_err(sql_error_of)?;
        let table = ScopeTable::new(Some(alias.value.clone()), None, columns);
        Ok((LogicalPlan::Projection(plan), Scope { tables: vec![table] }))
    }

    /// `anchor UNION ALL recursive`
    fn recursive(
        &self,
        cte: &Cte,
        anchor: &Query,
        step: &SetOperationStep,
        names: &Names<'_>,
    ) -> Result<Body, SqlError> {
        let definition = &cte.definition;
        let position = step.span.position;
        let anchor = self.query(anchor, names, QueryUse::Nested)?;
        let (anchor_scope_plan, scope) = self
            .named_rows(anchor, &definition.name.value, &definition.columns)
            .map_err(|error| error.at(definition.name.position))?;
        let mut columns = scope.tables.into_iter().next().map(|table| table.columns).unwrap_or_default();
        for column in &mut columns {
            column.pad();
        }
        let level = ScopeColumn {
            name: None,
            column: Column::new_unqualified(self.fresh("level")),
            sql_type: SqlType::Int,
            nullable: true,
            collation: Default::default(),
            literal: None,
        };
        let mut static_exprs: Vec<Expr> = columns.iter().map(|column| Expr::Column(column.column.clone())).collect();
        let zero = Expr::Literal(ScalarValue::Int32(Some(0)), None);
        static_exprs.push(zero.alias(&level.column.name));
        let static_term = Projection::try_new(static_exprs, shared(anchor_scope_plan)).map_err(sql_error_of)?;
        columns.push(level);
        let name = self.fresh("work");
        let work_table = ScopeTable::new(Some(name.clone()), None, columns);
        let recursion =
            Cte { definition: definition.clone(), before: cte.before.clone(), work_table: Some(work_table.clone()) };
        let inner = Names { ctes: with_cte(cte.before.clone(), recursion), ..names.clone() };
        let step = self.recursive_member(&step.operand, &work_table, &inner, position)?;
        let plan = LogicalPlanBuilder::from(LogicalPlan::Projection(static_term))
            .to_recursive_query(name, step, false)
            .and_then(|query| query.build())
            .map_err(sql_error_of)?;
        let qualified = plan.schema().columns();
        let mut exprs = Vec::new();
        let mut outputs = Vec::new();
        for (column, from) in work_table.columns.iter().zip(qualified) {
            if column.name.is_none() {
                continue;
            }
            let internal = self.fresh(column.name.as_deref().unwrap_or("expr"));
            exprs.push(Expr::Column(from).alias(&internal));
            outputs.push(BodyColumn {
                name: column.name.clone(),
                column: Column::new_unqualified(internal),
                sql_type: column.sql_type,
                nullable: true,
                collation: column.collation,
                untyped_null: false,
                literal: None,
            });
        }
        let plan = Projection::try_new(exprs, shared(plan)).map_err(sql_error_of)?;
        Ok(Body::of(LogicalPlan::Projection(plan), outputs))
    }

    /// The recursive member, with the anchor's types and names and a count of its level.
    fn recursive_member(
        &self,
        member: &QueryBody,
        work_table: &ScopeTable,
        names: &Names<'_>,
        position: Position,
    ) -> Result<LogicalPlan, SqlError> {
        let QueryBody::Select(select) = member else {
            return Err(SqlError::not_supported("A recursive member that is a set operation").at(position));
        };
        let level = work_table.columns.last().ok_or_else(|| SqlError::internal("a work table without a level"))?;
        let wanted = work_table.columns.len() - 1;
        let (plan, bound, last_level) = self.recursive_rows(select, names, wanted, position)?;
        let mut exprs = Vec::with_capacity(work_table.columns.len());
        for (bound, column) in bound.into_iter().zip(&work_table.columns) {
            if bound.sql_type != column.sql_type && !bound.is_untyped_null() {
                let name = column.name.as_deref().unwrap_or_default();
                return Err(errors::RECURSIVE_TYPES.with([&name]).at(position));
            }
            exprs.push(implicit(bound, column.sql_type)?.expr.alias(&column.column.name));
        }
        let limit = self.options.max_recursion;
        let evaluate: hobt_udf::RowFunction = Arc::new(move |values| match values {
            [hobt_types::Value::Int(level)] if limit > 0 && *level >= i64::from(limit) => {
                Err(errors::RECURSION_EXHAUSTED.with([&limit]))
            }
            [hobt_types::Value::Int(level)] => Ok(hobt_types::Value::Int(level + 1)),
            _ => Ok(hobt_types::Value::Null),
        });
        let next = Operation::Rows {
            name: "next_level".into(),
            arguments: vec![SqlType::Int],
            result: SqlType::Int,
            evaluate,
        };
        exprs.push(Kernel::call(next, vec![last_level], position).alias(&level.column.name));
        let plan = Projection::try_new(exprs, shared(plan)).map_err(sql_error_of)?;
        Ok(LogicalPlan::Projection(plan))
    }

    /// The rows of the recursive member: its input, the values of its select list, and the level of its input.
    fn recursive_rows(
        &self,
        select: &hobt_tsql::ast::Select,
        names: &Names<'_>,
        wanted: usize,
        position: Position,
    ) -> Result<(LogicalPlan, Vec<super::bound::BoundExpr>, Expr), SqlError> {
        let plain = select.group_by.is_none() && select.having.is_none() && !select.distinct && select.top.is_none();
        if !plain {
            return Err(errors::RECURSIVE_GROUPED.error().at(position));
        }
        let (mut plan, scope) = self.from(&select.from, names)?;
        let site = super::Site { scope: &scope, names, clause: super::Clause::Where, collector: None };
        if let Some(condition) = &select.condition {
            let predicate = self.condition(condition, site)?;
            plan = self.filter(plan, predicate)?;
        }
        let levels: Vec<&ScopeColumn> = scope.columns().filter(|column| column.name.is_none()).collect();
        let [level] = levels.as_slice() else {
            return Err(errors::RECURSIVE_TWICE.error().at(position));
        };
        let mut bound = Vec::with_capacity(wanted);
        for item in &select.items {
            match item {
                hobt_tsql::ast::SelectItem::Value { value, .. } => {
                    bound.push(self.expression(value, site.with_clause(super::Clause::Select))?);
                }
                hobt_tsql::ast::SelectItem::Wildcard { qualifier, span } => {
                    for table in &scope.tables {
                        if qualifier.as_ref().is_none_or(|qualifier| table.answers_to(qualifier)) {
                            let named = table.columns.iter().filter(|column| column.name.is_some());
                            bound.extend(named.map(|column| column.bound(span.position)));
                        }
                    }
                }
                hobt_tsql::ast::SelectItem::Assign { variable, .. } => {
                    return Err(errors::ASSIGNMENT_WITH_RETRIEVAL.error().at(variable.position));
                }
            }
        }
        if bound.len() != wanted {
            return Err(hobt_base::errors::SET_OPERATION_COLUMNS.error().at(position));
        }
        let level = Expr::Column(level.column.clone());
        Ok((plan, bound, level))
    }
}

fn work_schema(columns: &[ScopeColumn]) -> Arc<Schema> {
    let fields = columns.iter().map(|column| {
        let data_type = if column.name.is_none() { DataType::Int32 } else { carrier(column.sql_type) };
        Field::new(&column.column.name, data_type, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Splits `anchor UNION ALL recursive` if the last member reads the expression itself; `None` otherwise.
fn recursive_members(query: Query, name: &str) -> Option<(Query, SetOperationStep)> {
    let QueryBody::SetOperation { first, mut rest } = query.body else { return None };
    let last = rest.pop()?;
    if last.operator != SetOperator::UnionAll || !body_reads(&last.operand, name) {
        return None;
    }
    let body = if rest.is_empty() { *first } else { QueryBody::SetOperation { first, rest } };
    Some((Query { with: vec![], body, order_by: vec![], offset: None, span: query.span }, last))
}

fn body_reads(body: &QueryBody, name: &str) -> bool {
    match body {
        QueryBody::Select(select) => select.from.iter().any(|source| source_reads(source, name)),
        QueryBody::SetOperation { first, rest } => {
            body_reads(first, name) || rest.iter().any(|step| body_reads(&step.operand, name))
        }
    }
}

fn source_reads(source: &TableSource, name: &str) -> bool {
    match source {
        TableSource::Table(table) => table.name.as_simple().is_some_and(|simple| same_name(&simple.value, name)),
        TableSource::Derived { query, .. } => body_reads(&query.body, name),
        TableSource::Joined { first, rest } => {
            source_reads(first, name) || rest.iter().any(|step| source_reads(&step.source, name))
        }
        _ => false,
    }
}
