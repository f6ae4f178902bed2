//! One `SELECT`. Its clauses are bound in the order in which T-SQL evaluates them: `FROM`, `WHERE`, `GROUP BY`,
//! `HAVING`, windows, the select list, `DISTINCT`, `ORDER BY`, `TOP`.

use std::cell::RefCell;

use datafusion::common::Column;
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator, Projection, SortExpr};
use hobt_base::{Position, SqlError, errors};
use hobt_tsql::ast::{Expression, Query, Select, SelectItem};
use hobt_types::SqlType;

use super::aggregate::is_constant_text;
use super::arithmetic::{binary, operator_of};
use super::assignment::{Assigned, AssignedVariable, RowValues, check_known, reads_assigned};
use super::bound::{BoundExpr, Constant};
use super::comparison::key;
use super::condition::balanced;
use super::convert::implicit;
use super::grouping::has_sets;
use super::hash_join::{all_join_by_hash, no_equations};
use super::query::{empty_row, output_place};
use super::scope::{Names, Scope, SourceName};
use super::stored::Stored;
use super::window::window_plan;
use super::{Binder, Clause, Site, shared};
use crate::body::{Body, BodyColumn, QueryUse};
use crate::collector::Collector;
use crate::item::Item;
use crate::sequence_scope::Wrapped;
use hobt_udf::{has_sort_key, sql_error_of};

/// The most items of a select list.
const ITEMS_MAX: usize = 4096;

/// Refuses a select list that is too long.
fn check_items(count: usize, select: &Select) -> Result<(), SqlError> {
    if count <= ITEMS_MAX {
        return Ok(());
    }
    Err(errors::TOO_MANY_SELECT_ITEMS.with([&ITEMS_MAX]).at(select.span.position))
}

/// A sort key.
enum SortBy {
    /// An output column.
    Output(usize),
    /// An expression over the input of the select list.
    Value(Box<BoundExpr>),
}

impl Binder<'_> {
    /// Binds a `SELECT` with the `ORDER BY` of its query.
    pub(super) fn select(
        &self,
        select: &Select,
        names: &Names<'_>,
        query: &Query,
        usage: QueryUse,
    ) -> Result<Body, SqlError> {
        // The statement's own query has been bound and checked as written before it was wrapped.
        let is_wrapped = self.progress.wrapped.get() == Wrapped::Inside;
        let names_sequences = self.enter_select(usage);
        let (mut plan, scope) = match select.from.as_slice() {
            [] => (empty_row(), Scope::default()),
            from => self.from(from, names)?,
        };
        let places = names.places;
        let names = &Names { windows: &select.windows, places: false, ..names.clone() };
        let collector = RefCell::new(Collector::default());
        let site = Site { scope: &scope, names, clause: Clause::Where, collector: None };
        let predicate = select.condition.as_ref().map(|condition| self.condition(condition, site)).transpose()?;
        if self.options.wants_equations && !all_join_by_hash(&plan, predicate.as_ref()) {
            return Err(no_equations().at(select.span.position));
        }
        if let Some(predicate) = predicate {
            plan = self.filter(plan, predicate)?;
        }
        let has_sets = select.group_by.as_ref().is_some_and(has_sets);
        let scope = if has_sets { scope.without_literals() } else { scope };
        let site = Site { scope: &scope, names, clause: Clause::Select, collector: Some(&collector) };
        let variables = self.assigned_variables(select)?;
        let assigned = Assigned { variables: &variables, in_subquery: false };
        let item_names = Names { assigned: (!variables.is_empty()).then_some(assigned), ..names.clone() };
        let (mut items, next_values) = self.items_with_next_values(names_sequences, || {
            self.items(select, Site { names: &item_names, ..site }, usage, &variables)
        })?;
        let sources = match usage {
            QueryUse::Operand => items.iter().map(|item| source_of(item, &scope)).collect(),
            _ => Vec::new(),
        };
        let is_limited = select.top.is_some() || query.offset.is_some();
        if !is_wrapped {
            self.check_next_values(&next_values, select.distinct, is_limited, !query.order_by.is_empty())
                .map_err(|error| error.at(select.span.position))?;
        }
        let having = select
            .having
            .as_ref()
            .map(|having| self.condition(having, site.with_clause(Clause::Having)))
            .transpose()?;
        let mut order = self.order_of(query, &items, site.with_clause(Clause::OrderBy))?;
        let mut collector = collector.take();
        let is_grouped = select.group_by.is_some() || having.is_some() || !collector.aggregates.is_empty();
        if is_grouped {
            let aggregates = std::mem::take(&mut collector.aggregates);
            let groupings = std::mem::take(&mut collector.groupings);
            let group_by = select.group_by.as_ref();
            let groups = self.aggregation(plan, group_by, aggregates, groupings, site.with_clause(Clause::GroupBy))?;
            plan = groups.plan.clone();
            if let Some(having) = having {
                let having = groups.rewrite(having, &scope, Clause::Having, query.span.position)?;
                plan = self.filter(plan, having)?;
            }
            for item in &mut items {
                let position = item.value.position;
                let expr = std::mem::take(&mut item.value.expr);
                item.value.expr = groups.rewrite(expr, &scope, Clause::Select, position)?;
                if groups.has_sets {
                    item.value.nullable = true;
                    item.value.literal = None;
                }
            }
            for (sort, _) in &mut order {
                if let SortBy::Value(value) = sort {
                    let expr = std::mem::take(&mut value.expr);
                    value.expr = groups.rewrite(expr, &scope, Clause::OrderBy, value.position)?;
                }
            }
            for (window, _) in &mut collector.windows {
                let expr = std::mem::take(window);
                *window = groups.rewrite(expr, &scope, Clause::Select, query.span.position)?;
            }
        } else if let Some((_, _, position)) = collector.groupings.first() {
            return Err(errors::GROUPING_WITHOUT_GROUP_BY.error().at(*position));
        }
        if let Some((window, _)) = collector.windows.iter().find(|(window, _)| reads_assigned(window)) {
            let bound = BoundExpr::new(window.clone(), SqlType::Int, true, query.span.position);
            check_known(&bound)?;
        }
        plan = window_plan(plan, std::mem::take(&mut collector.windows))?;
        plan = self.with_next_values(plan, next_values)?;
        let is_single_row = is_grouped && select.group_by.is_none();
        let mut row_values = match variables.is_empty() {
            true => RowValues::default(),
            false => self.take_row_values(&mut items)?,
        };
        if !row_values.is_empty() {
            let sorts = order.iter().any(|(sort, _)| matches!(sort, SortBy::Output(place) if row_values.has(*place)));
            if select.distinct || sorts {
                let what = "DISTINCT, or ORDER BY a value, of what is assigned row by row,";
                return Err(SqlError::not_supported(what).at(select.span.position));
            }
        }
        let mut parts = std::mem::take(&mut row_values.parts);
        let stored = match places {
            true => self.stored_through(&scope, &items, is_grouped || select.distinct, &mut parts),
            false => Stored::Computed,
        };
        let (plan, columns) = self.output(plan, items, parts, order, (select, query), names)?;
        let into = select.into.clone();
        let assigns = (!variables.is_empty()).then_some(select.span.position);
        let assignments = self.assignments(select, variables, row_values, &columns);
        Ok(Body { plan, columns, is_single_row, into, assignments, assigns, stored, sources })
    }

    /// The rows for which a condition is true. In a subquery, expressions that are compared with columns of the
    /// enclosing query first become columns: DataFusion can move only columns out of a correlated filter below an
    /// aggregate.
    pub(super) fn filter(&self, plan: LogicalPlan, predicate: Expr) -> Result<LogicalPlan, SqlError> {
        let (plan, mut predicates) = self.unnest_scalars(plan, vec![predicate])?;
        let Some(predicate) = predicates.pop() else { return Ok(plan) };
        if !predicate.contains_outer() {
            return Ok(LogicalPlan::Filter(Filter::try_new(predicate, shared(plan)).map_err(sql_error_of)?));
        }
        let own: Vec<Column> = plan.schema().columns();
        let mut hoisted: Vec<Expr> = Vec::new();
        let mut conjuncts = Vec::new();
        for conjunct in datafusion::logical_expr::utils::split_conjunction_owned(predicate) {
            conjuncts.push(match conjunct {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                    let (left, right) = match (left.contains_outer(), right.contains_outer()) {
                        (true, false) => (*left, self.hoist(*right, &mut hoisted)),
                        (false, true) => (self.hoist(*left, &mut hoisted), *right),
                        _ => (*left, *right),
                    };
                    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), Operator::Eq, Box::new(right)))
                }
                other => other,
            });
        }
        let plan = if hoisted.is_empty() {
            plan
        } else {
            let all = own.into_iter().map(Expr::Column).chain(hoisted).collect();
            LogicalPlan::Projection(Projection::try_new(all, shared(plan)).map_err(sql_error_of)?)
        };
        let Some(predicate) = balanced(conjuncts, Operator::And) else { return Ok(plan) };
        Ok(LogicalPlan::Filter(Filter::try_new(predicate, shared(plan)).map_err(sql_error_of)?))
    }

    /// Replaces an expression by a column that is added to `hoisted`, unless it is a column or a constant already.
    fn hoist(&self, expr: Expr, hoisted: &mut Vec<Expr>) -> Expr {
        if matches!(expr, Expr::Column(_)) || !expr.any_column_refs() || crate::subquery_expr::has_subquery(&expr) {
            return expr;
        }
        let name = self.fresh("key");
        hoisted.push(expr.alias(&name));
        Expr::Column(Column::new_unqualified(name))
    }

    /// The items of the select list, with `*` expanded.
    fn items(
        &self,
        select: &Select,
        site: Site<'_>,
        usage: QueryUse,
        variables: &[AssignedVariable],
    ) -> Result<Vec<Item>, SqlError> {
        let mut items = Vec::with_capacity(select.items.len());
        check_items(select.items.len(), select)?;
        for item in &select.items {
            match item {
                SelectItem::Wildcard { qualifier, span } => {
                    if site.scope.tables.is_empty() && usage == QueryUse::Exists {
                        items.push(Item { name: None, value: BoundExpr::null(span.position)? });
                        continue;
                    }
                    self.wildcard(qualifier.as_ref(), span.position, site, &mut items)?;
                }
                SelectItem::Value { value, alias } => {
                    let bound = self.expression(value, site)?;
                    let name = match (alias, value) {
                        (Some(alias), _) => Some(alias.value.clone()),
                        (None, Expression::Column { name }) => Some(name.name.value.clone()),
                        _ => None,
                    };
                    items.push(Item { name, value: bound });
                }
                SelectItem::Assign { variable, operator, value } => {
                    let mut bound = self.expression(value, site)?;
                    let known = variables.iter().find(|known| known.is(variable));
                    let known = known.ok_or_else(|| SqlError::internal("an assignment to an unknown variable"))?;
                    if let Some(operator) = operator.arithmetic() {
                        let current = known.placeholder(variable.position);
                        bound = binary(current, operator_of(operator), bound, variable.position)?;
                    }
                    items.push(Item { name: None, value: implicit(bound, known.sql_type())? });
                }
            }
        }
        check_items(items.len(), select)?;
        let assigns = select.items.iter().filter(|item| matches!(item, SelectItem::Assign { .. })).count();
        if assigns > 0 && assigns != items.len() {
            return Err(errors::ASSIGNMENT_WITH_RETRIEVAL.error().at(select.span.position));
        }
        Ok(items)
    }

    fn wildcard(
        &self,
        qualifier: Option<&hobt_tsql::ast::ObjectName>,
        position: Position,
        site: Site<'_>,
        items: &mut Vec<Item>,
    ) -> Result<(), SqlError> {
        if site.scope.tables.is_empty() {
            return Err(errors::STAR_WITHOUT_TABLE.error().at(position));
        }
        let mut found = false;
        for table in &site.scope.tables {
            if qualifier.is_some_and(|qualifier| !table.answers_to(qualifier)) {
                continue;
            }
            found = true;
            for column in &table.columns {
                items.push(Item { name: column.name.clone(), value: column.bound(position) });
            }
        }
        match qualifier {
            Some(qualifier) if !found => Err(errors::COLUMN_PREFIX.with([&qualifier.name.value]).at(position)),
            _ => Ok(()),
        }
    }

    /// The sort keys.
    fn order_of(&self, query: &Query, items: &[Item], site: Site<'_>) -> Result<Vec<(SortBy, bool)>, SqlError> {
        // Items with the same name are one column if they are the same expression.
        let mut outputs: Vec<BodyColumn> = Vec::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            let same = items[..place].iter().position(|known| known.value.expr == item.value.expr).unwrap_or(place);
            outputs.push(BodyColumn {
                name: item.name.clone(),
                column: Column::new_unqualified(same.to_string()),
                sql_type: item.value.sql_type,
                nullable: item.value.nullable,
                collation: item.value.collation,
                untyped_null: false,
                literal: None,
            });
        }
        let mut order = Vec::with_capacity(query.order_by.len());
        for item in &query.order_by {
            let sort = match output_place(item, &outputs)? {
                Some(place) => SortBy::Output(place),
                None => {
                    let value = self.expression(&item.value, site)?;
                    if is_constant_text(&item.value) {
                        let place = order.len() + 1;
                        return Err(errors::ORDER_BY_CONSTANT.with([&place]).at(item.value.position()));
                    }
                    match items.iter().position(|known| known.value.expr == value.expr && same_collation(known, &value))
                    {
                        Some(place) => SortBy::Output(place),
                        None => SortBy::Value(Box::new(value)),
                    }
                }
            };
            order.push((sort, item.descending));
        }
        Ok(order)
    }

    /// The select list over its input, with duplicates removed, sorted and limited. The columns of `parts` follow its
    /// own.
    fn output(
        &self,
        plan: LogicalPlan,
        items: Vec<Item>,
        parts: Vec<(Expr, String)>,
        order: Vec<(SortBy, bool)>,
        (select, query): (&Select, &Query),
        names: &Names<'_>,
    ) -> Result<(LogicalPlan, Vec<BodyColumn>), SqlError> {
        let mut exprs = Vec::with_capacity(items.len());
        let mut columns = Vec::with_capacity(items.len());
        for item in &items {
            let name = self.fresh(item.name.as_deref().unwrap_or("expr"));
            exprs.push(item.value.expr.clone().alias(&name));
            columns.push(BodyColumn {
                name: item.name.clone(),
                column: Column::new_unqualified(name),
                sql_type: item.value.sql_type,
                nullable: item.value.nullable,
                collation: item.value.collation,
                untyped_null: item.value.constant == Constant::Null,
                literal: item.value.literal.clone(),
            });
        }
        let mut kept: Vec<Column> = columns.iter().map(|column| column.column.clone()).collect();
        for (part, name) in parts {
            exprs.push(part.alias(&name));
            kept.push(Column::new_unqualified(name));
        }
        let visible = exprs.len();
        let mut sorts: Vec<SortExpr> = Vec::with_capacity(order.len());
        let mut late: Vec<Expr> = Vec::new();
        for (sort, descending) in order {
            let by = match sort {
                SortBy::Output(place) if !has_sort_key(columns[place].sql_type) => {
                    Expr::Column(columns[place].column.clone())
                }
                SortBy::Output(place) => {
                    let name = self.fresh("key");
                    if select.distinct {
                        late.push(key(&columns[place].bound(query.span.position)).alias(&name));
                    } else {
                        exprs.push(key(&items[place].value).alias(&name));
                    }
                    Expr::Column(Column::new_unqualified(name))
                }
                SortBy::Value(value) if select.distinct => {
                    return Err(errors::ORDER_BY_OF_DISTINCT.error().at(value.position));
                }
                SortBy::Value(value) => {
                    let name = self.fresh("key");
                    exprs.push(key(&value).alias(&name));
                    Expr::Column(Column::new_unqualified(name))
                }
            };
            sorts.push(SortExpr::new(by, !descending, !descending));
        }
        let (plan, exprs) = self.unnest_scalars(plan, exprs)?;
        let mut has_hidden = exprs.len() > visible || !late.is_empty();
        let mut plan = LogicalPlan::Projection(Projection::try_new(exprs, shared(plan)).map_err(sql_error_of)?);
        if select.distinct {
            plan = self.distinct(plan, &columns)?;
            if !late.is_empty() {
                let all = columns.iter().map(|column| Expr::Column(column.column.clone())).chain(late).collect();
                plan = LogicalPlan::Projection(Projection::try_new(all, shared(plan)).map_err(sql_error_of)?);
            }
        }
        plan = match &select.top {
            Some(top) => {
                if query.offset.is_some() {
                    return Err(errors::TOP_AND_OFFSET.error().at(top.count.position()));
                }
                has_hidden |= top.percent || top.with_ties;
                self.top(plan, top, sorts, names)?
            }
            None => self.sorted(plan, sorts)?,
        };
        if let Some(offset) = &query.offset {
            plan = self.offset(plan, offset, names)?;
        }
        if has_hidden {
            let all = kept.into_iter().map(Expr::Column).collect();
            plan = LogicalPlan::Projection(Projection::try_new(all, shared(plan)).map_err(sql_error_of)?);
        }
        Ok((plan, columns))
    }
}

/// The source column that an item is; `None` if it is not a column.
fn source_of(item: &Item, scope: &Scope) -> Option<SourceName> {
    let Expr::Column(column) = &item.value.expr else { return None };
    scope.source_name(column)
}

fn same_collation(item: &Item, value: &BoundExpr) -> bool {
    !value.sql_type.is_text() || item.value.collation.collation == value.collation.collation
}
