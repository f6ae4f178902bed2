//! Subqueries in expressions and conditions.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, BinaryExpr, Expr, Filter, Limit, LogicalPlan, Operator, Projection,
};
use hobt_base::{Position, SqlError, errors};
use hobt_functions::aggregate::AggregateKind;
use hobt_functions::carrier;
use hobt_tsql::ast::{ComparisonOperator, Expression, Quantifier, Query};
use hobt_types::{Collation, SqlType};

use super::assignment::Assigned;
use super::bound::BoundExpr;
use super::comparison::{comparable, engine_operator};
use super::condition::balanced;
use super::scope::{Names, Outer, Scope, ScopeColumn};
use super::unnest::{aggregates_all, is_beyond_engine};
use super::{Binder, Clause, Site, shared};
use crate::aggregate_call::{plain_call, wrapped};
use crate::body::{Body, QueryUse};
use crate::subquery_expr::{is_correlated, subquery_of};
use hobt_udf::{Kernel, Operation, SingleValue, sql_error_of};

/// The expression as seen from inside a subquery: its columns become outer references.
fn as_outer(expr: Expr, sql_type_of: &dyn Fn(&Column) -> Option<SqlType>) -> Result<Expr, SqlError> {
    expr.transform_down(|node| match node {
        Expr::Column(column) => {
            let Some(sql_type) = sql_type_of(&column) else { return Ok(Transformed::no(Expr::Column(column))) };
            let field = arrow::datatypes::Field::new(&column.name, carrier(sql_type), true);
            let outer = Expr::OuterReferenceColumn(field.into(), column);
            Ok(Transformed::new(outer, true, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    })
    .map(|transformed| transformed.data)
    .map_err(sql_error_of)
}

/// Whether `NOT IN` can be a join on only the equation of both values. DataFusion's null-aware join supports one
/// equation of columns. It is used for any whose columns, correlating ones included, may be NULL, and checks only
/// columns: another expression may be NULL too. A value chosen by conditions may become NULL for every row during
/// planning, and then no column is left to check.
fn is_one_equation(left: &Expr, plan: &LogicalPlan, nullable: (bool, bool), (scope, top): (&Scope, bool)) -> bool {
    let columns = left.column_refs();
    let is_null_seen = || {
        let is_nullable = |column: &ScopeColumn| column.nullable && columns.contains(&column.column);
        // A column that no source has is an aggregate's.
        let is_aggregate = nullable.0 && matches!(left, Expr::Column(_));
        plan.schema().field(0).is_nullable() || scope.columns().any(is_nullable) || is_aggregate
    };
    let is_chosen = || left.exists(|part| Ok(matches!(part, Expr::Case(_)))).unwrap_or(true);
    let knows_null = top && !columns.is_empty() && !is_chosen() && is_null_seen();
    !is_correlated(plan) && (nullable == (false, false) || knows_null)
}

/// Whether a plan combines rows: the result of `DISTINCT` or a set operation.
fn is_set(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => plan.inputs().into_iter().any(is_set),
        LogicalPlan::Distinct(_) | LogicalPlan::Union(_) => true,
        _ => false,
    }
}

/// Whether a subquery's condition is allowed here, because DataFusion turns it into a join.
fn joins_here(site: Site<'_>) -> bool {
    matches!(site.clause, Clause::Where | Clause::Having | Clause::On)
}

impl Binder<'_> {
    /// Binds a query inside an expression.
    fn inner_query(&self, query: &Query, site: Site<'_>, usage: QueryUse) -> Result<Body, SqlError> {
        let outer = Outer { scope: site.scope, parent: site.names.outer };
        let assigned = site.names.assigned.map(|assigned| Assigned { in_subquery: true, ..assigned });
        let names = Names { outer: Some(&outer), assigned, places: false, ..site.names.clone() };
        if site.clause == Clause::GroupBy {
            return Err(errors::AGGREGATE_IN_GROUP_BY.error().at(query.span.position));
        }
        self.progress.applied.set(self.progress.applied.get() + 1);
        let body = self.query(query, &names, usage);
        self.progress.applied.set(self.progress.applied.get() - 1);
        body
    }

    /// Binds a query that must return exactly one column.
    fn one_column(&self, query: &Query, site: Site<'_>) -> Result<Body, SqlError> {
        let body = self.inner_query(query, site, QueryUse::Nested)?;
        if body.columns.len() != 1 {
            return Err(errors::SUBQUERY_ONE_EXPRESSION.error().at(query.span.position));
        }
        Ok(body)
    }

    /// `(SELECT x …)` as a value; more than one row is error 512 at run time.
    pub(super) fn scalar_subquery(
        &self,
        query: &Query,
        position: Position,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let body = self.one_column(query, site)?;
        let column = body.columns[0].clone();
        let plan = if !is_correlated(&body.plan) && !column.nullable {
            // Without rows the value is NULL, which the column's nullability does not tell DataFusion. Even an
            // aggregate over all rows may have no row: HAVING, TOP and OFFSET can remove it.
            let name = self.fresh("single");
            let operation = Operation::Nullable(column.sql_type);
            let value = Kernel::call(operation, vec![Expr::Column(column.column.clone())], position).alias(name);
            LogicalPlan::Projection(Projection::try_new(vec![value], shared(body.plan)).map_err(sql_error_of)?)
        } else if is_correlated(&body.plan) && !body.is_single_row {
            let single = AggregateUDF::new_from_impl(SingleValue::default());
            let name = self.fresh("single");
            let value = plain_call(single, vec![Expr::Column(column.column.clone())]).alias(name);
            LogicalPlan::Aggregate(Aggregate::try_new(shared(body.plan), vec![], vec![value]).map_err(sql_error_of)?)
        } else {
            body.plan
        };
        let expr = Expr::ScalarSubquery(subquery_of(plan));
        Ok(BoundExpr::new(expr, column.sql_type, true, position).with_collation(column.collation))
    }

    /// `[NOT] EXISTS (SELECT …)`
    pub(super) fn exists(&self, query: &Query, negated: bool, _: Position, site: Site<'_>) -> Result<Expr, SqlError> {
        let body = self.inner_query(query, site, QueryUse::Exists)?;
        self.exists_of(body.plan, negated, site)
    }

    fn exists_of(&self, plan: LogicalPlan, negated: bool, site: Site<'_>) -> Result<Expr, SqlError> {
        if joins_here(site) && !is_beyond_engine(&plan, true) && !aggregates_all(&plan) {
            return Ok(Expr::Exists(Exists::new(subquery_of(plan), negated)));
        }
        // Where no join is possible (a select list), rows are counted; if there is no correlation, one row is enough.
        let plan = match is_correlated(&plan) {
            true => plan,
            false => {
                let one = Some(Box::new(Expr::Literal(ScalarValue::Int64(Some(1)), None)));
                LogicalPlan::Limit(Limit { skip: None, fetch: one, input: shared(plan) })
            }
        };
        let (count, result) = wrapped(AggregateKind::CountBig, SqlType::Int, Collation::default())?;
        let one = Expr::Literal(ScalarValue::Int32(Some(1)), None);
        let count = plain_call(count, vec![one]).alias(self.fresh("rows"));
        let counted = Aggregate::try_new(shared(plan), vec![], vec![count]).map_err(sql_error_of)?;
        let count = Expr::ScalarSubquery(subquery_of(LogicalPlan::Aggregate(counted)));
        let zero = super::bound::scalar_of(&hobt_types::Value::Int(0), result)?;
        let operator = if negated { Operator::Eq } else { Operator::Gt };
        Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(count), operator, Box::new(Expr::Literal(zero, None)))))
    }

    /// `x [NOT] IN (SELECT y …)`
    pub(super) fn in_query(
        &self,
        operand: &Expression,
        query: &Query,
        negated: bool,
        top: bool,
        position: Position,
        site: Site<'_>,
    ) -> Result<Expr, SqlError> {
        let operand = self.expression(operand, site)?;
        let body = self.one_column(query, site)?;
        let column = body.columns[0].bound(position);
        let nullable = (operand.nullable, column.nullable);
        let (left, right) = comparable(operand, column, "equal to").map_err(|error| error.at(position))?;
        let (plan, right) = self.project_one(body.plan, right)?;
        // Inside other conditions, DataFusion adds a column twice that the subquery both selects and correlates on, or
        // selects once for each value. It does not find an operand that belongs to a further enclosing query.
        let can_join = joins_here(site)
            && !is_beyond_engine(&plan, true)
            && (top || !(is_correlated(&plan) || is_set(&plan)))
            && !left.contains_outer();
        if can_join && (!negated || is_one_equation(&left, &plan, nullable, (site.scope, top))) {
            return Ok(Expr::InSubquery(InSubquery::new(Box::new(left), subquery_of(plan), negated)));
        }
        // The rows that make `NOT IN` not true: equal ones, and NULL on either side.
        let left = self.seen_from_inside(left, site)?;
        let mut matches =
            vec![Expr::BinaryExpr(BinaryExpr::new(Box::new(left.clone()), Operator::Eq, Box::new(right.clone())))];
        if negated && nullable.0 {
            matches.push(Expr::IsNull(Box::new(left)));
        }
        if negated && nullable.1 {
            matches.push(Expr::IsNull(Box::new(right)));
        }
        let Some(predicate) = balanced(matches, Operator::Or) else {
            return Err(SqlError::internal("IN without a comparison"));
        };
        let plan = LogicalPlan::Filter(Filter::try_new(predicate, shared(plan)).map_err(sql_error_of)?);
        self.exists_of(plan, negated, site)
    }

    /// `x op ANY (SELECT y …)`, `x op ALL (SELECT y …)`.
    pub(super) fn quantified(
        &self,
        left: &Expression,
        (operator, quantifier, negated): (ComparisonOperator, Quantifier, bool),
        query: &Query,
        position: Position,
        site: Site<'_>,
    ) -> Result<Expr, SqlError> {
        let left = self.expression(left, site)?;
        let body = self.one_column(query, site)?;
        let column = body.columns[0].bound(position);
        let (left, right) = comparable(left, column, "comparison").map_err(|error| error.at(position))?;
        let (plan, right) = self.project_one(body.plan, right)?;
        let left = self.seen_from_inside(left, site)?;
        // NOT (x < ANY …) is x >= ALL …, and conversely.
        let is_any = (quantifier == Quantifier::Any) != negated;
        let comparison =
            Expr::BinaryExpr(BinaryExpr::new(Box::new(left), engine_operator(operator, negated), Box::new(right)));
        let predicate = if is_any { comparison } else { Expr::IsNotTrue(Box::new(comparison)) };
        let plan = LogicalPlan::Filter(Filter::try_new(predicate, shared(plan)).map_err(sql_error_of)?);
        self.exists_of(plan, !is_any, site)
    }

    /// A plan that computes one expression over another plan, and the column with its value.
    fn project_one(&self, plan: LogicalPlan, expr: Expr) -> Result<(LogicalPlan, Expr), SqlError> {
        if matches!(expr, Expr::Column(_)) {
            return Ok((plan, expr));
        }
        let name = self.fresh("item");
        let projection = Projection::try_new(vec![expr.alias(&name)], shared(plan)).map_err(sql_error_of)?;
        Ok((LogicalPlan::Projection(projection), Expr::Column(Column::new_unqualified(name))))
    }

    fn seen_from_inside(&self, expr: Expr, site: Site<'_>) -> Result<Expr, SqlError> {
        as_outer(expr, &|column| {
            let own = site.scope.columns().find(|known| known.column == *column).map(|known| known.sql_type);
            own.or_else(|| {
                let collector = site.collector?.borrow();
                collector.types.iter().find(|(known, _)| known == column).map(|(_, sql_type)| *sql_type)
            })
        })
    }
}
