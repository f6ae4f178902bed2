//! Query expressions: common table expressions, a body and an order.

use datafusion::common::Column;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan, Projection, SortExpr};
use hobt_base::{Position, SqlError, errors};
use hobt_tsql::ast::{Expression, Literal, OrderItem, Query, QueryBody};

use super::assignment::Assignments;
use super::bound::{BoundExpr, Constant};
use super::comparison::key;
use super::extent::check_plan;
use super::scope::{Cte, Names, SourceName, same_name};
use super::stored::Stored;
use super::{Binder, shared, with_cte};
use crate::body::{Body, BodyColumn, QueryUse};
use hobt_udf::sql_error_of;

impl Body {
    /// A body whose rows fill no variable and no table.
    pub(super) fn of(plan: LogicalPlan, columns: Vec<BodyColumn>) -> Body {
        Body {
            plan,
            columns,
            is_single_row: false,
            into: None,
            assignments: Assignments::default(),
            assigns: None,
            stored: Stored::Computed,
            sources: Vec::new(),
        }
    }
}

impl Binder<'_> {
    /// Binds a query expression.
    pub(super) fn query(&self, query: &Query, names: &Names<'_>, usage: QueryUse) -> Result<Body, SqlError> {
        let body = self.within(|| self.any_query(query, names, usage))?;
        check_plan(&body.plan).map_err(|error| error.at(query.span.position))?;
        Ok(body)
    }

    fn any_query(&self, query: &Query, names: &Names<'_>, usage: QueryUse) -> Result<Body, SqlError> {
        let mut names = names.clone();
        for definition in &query.with {
            let before = names.ctes.clone();
            let cte = Cte { definition: definition.clone(), before: before.clone(), work_table: None };
            names.ctes = with_cte(before, cte);
        }
        let is_nested = usage != QueryUse::Statement;
        match &query.body {
            QueryBody::Select(select) => {
                if is_nested && !query.order_by.is_empty() && select.top.is_none() && query.offset.is_none() {
                    return Err(errors::ORDER_BY_NOT_ALLOWED.error().at(query.span.position));
                }
                self.select(select, &names, query, usage)
            }
            QueryBody::SetOperation { first, rest } => {
                if is_nested && !query.order_by.is_empty() && query.offset.is_none() {
                    return Err(errors::ORDER_BY_NOT_ALLOWED.error().at(query.span.position));
                }
                names.places = false;
                let body = self.refusing_next_values(errors::NEXT_VALUE_WITH_DISTINCT, || {
                    self.set_operation(first, rest, &names, query.span.position)
                })?;
                self.order_outputs(body, query, &names)
            }
        }
    }

    /// The operand of a set operator.
    pub(super) fn operand(&self, body: &QueryBody, names: &Names<'_>, position: Position) -> Result<Body, SqlError> {
        match body {
            QueryBody::Select(select) => {
                let plain = Query {
                    with: vec![],
                    body: QueryBody::Select(select.clone()),
                    order_by: vec![],
                    offset: None,
                    span: select.span,
                };
                self.select(select, names, &plain, QueryUse::Operand)
            }
            QueryBody::SetOperation { first, rest } => self.set_operation(first, rest, names, position),
        }
    }

    /// Sorts and limits the rows of a set operation. Its `ORDER BY` can only name output columns, by the names that the
    /// first side gives them or by the source columns that they are there.
    fn order_outputs(&self, mut body: Body, query: &Query, names: &Names<'_>) -> Result<Body, SqlError> {
        if query.order_by.is_empty() && query.offset.is_none() {
            return Ok(body);
        }
        let mut order = Vec::with_capacity(query.order_by.len());
        for item in &query.order_by {
            let place = output_place(item, &body.columns)?;
            let place = place
                .or_else(|| source_place(item, &body.sources))
                .ok_or_else(|| errors::ORDER_BY_OF_SET_OPERATION.error().at(item.value.position()))?;
            let bound = body.columns[place].bound(item.value.position());
            order.push(SortExpr::new(key(&bound), !item.descending, !item.descending));
        }
        body.plan = self.sorted(body.plan, order)?;
        if let Some(offset) = &query.offset {
            body.plan = self.offset(body.plan, offset, names)?;
        }
        Ok(body)
    }

    /// A query of one row with one expression.
    pub(super) fn one_row(&self, bound: BoundExpr) -> Result<Body, SqlError> {
        let name = self.fresh("value");
        let projection =
            Projection::try_new(vec![bound.expr.alias(&name)], shared(empty_row())).map_err(sql_error_of)?;
        let column = BodyColumn {
            name: None,
            column: Column::new_unqualified(name),
            sql_type: bound.sql_type,
            nullable: bound.nullable,
            collation: bound.collation,
            untyped_null: bound.constant == Constant::Null,
            literal: bound.literal,
        };
        Ok(Body::of(LogicalPlan::Projection(projection), vec![column]))
    }
}

/// One row without columns.
pub(super) fn empty_row() -> LogicalPlan {
    LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema: std::sync::Arc::new(datafusion::common::DFSchema::empty()),
    })
}

/// The output column that an `ORDER BY` item names as a column of a source of the first side: `t.c`.
fn source_place(item: &OrderItem, sources: &[Option<SourceName>]) -> Option<usize> {
    let Expression::Column { name } = &item.value else { return None };
    sources.iter().position(|source| source.as_ref().is_some_and(|source| source.is_named(name)))
}

/// The output column that an `ORDER BY` item names by position or by alias; `None` if it is an expression.
///
/// # Errors
/// 108 for a position out of range; 209 for an alias of several columns.
pub(super) fn output_place(item: &OrderItem, columns: &[BodyColumn]) -> Result<Option<usize>, SqlError> {
    match &item.value {
        Expression::Literal { value: Literal::Integer(position), span } => {
            let place = usize::try_from(*position).ok().and_then(|position| position.checked_sub(1));
            place
                .filter(|place| *place < columns.len())
                .map(Some)
                .ok_or_else(|| errors::ORDER_BY_POSITION.with([&position]).at(span.position))
        }
        Expression::Column { name } if name.qualifier.is_none() => {
            let is_named =
                |column: &BodyColumn| column.name.as_deref().is_some_and(|known| same_name(known, &name.name.value));
            let place = columns.iter().position(is_named);
            if let Some(place) = place {
                let others = columns[place + 1..].iter().filter(|column| is_named(column));
                // A column that occurs twice is not ambiguous.
                if others.clone().any(|other| other.column != columns[place].column) {
                    return Err(errors::AMBIGUOUS_COLUMN.with([&name.name.value]).at(name.position()));
                }
            }
            Ok(place)
        }
        _ => Ok(None),
    }
}
