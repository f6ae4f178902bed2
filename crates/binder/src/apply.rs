//! `CROSS APPLY` and `OUTER APPLY`.
//!
//! A right side that does not read the left one is joined in the ordinary way. A `SELECT` without `FROM` and a `VALUES`
//! list become columns of the left side's rows. Anything else is a lateral join, which DataFusion turns into an
//! ordinary one if it can.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, ScalarValue};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{BinaryExpr, EmptyRelation, Expr, Filter, LogicalPlan, Operator, Projection};
use hobt_base::SqlError;
use hobt_tsql::ast::{Expression, JoinKind, JoinStep, TableSource};

use super::bound::BoundExpr;
use super::convert::unify;
use super::from::join;
use super::scope::{Names, Outer, Scope, ScopeColumn};
use super::table_function::unnest;
use super::unnest::is_beyond_engine;
use super::{Binder, Clause, Site, shared};
use crate::body::{Body, BodyColumn};
use crate::subquery_expr::subquery_of;
use hobt_udf::sql_error_of;

impl Binder<'_> {
    /// `left APPLY right`
    pub(super) fn apply(
        &self,
        left: LogicalPlan,
        left_scope: Scope,
        step: &JoinStep,
        names: &Names<'_>,
    ) -> Result<(LogicalPlan, Scope), SqlError> {
        let is_outer = step.kind == JoinKind::OuterApply;
        let outer = Outer { scope: &left_scope, parent: names.outer };
        let inner = Names { outer: Some(&outer), places: false, ..names.clone() };
        if let TableSource::Values { rows, alias, .. } = &step.source
            && let Some((plan, body)) = self.apply_values(&left, &left_scope, rows, &inner)?
        {
            let (_, right_scope) = self.derived(body, alias)?;
            return Ok((plan, both(left_scope, right_scope, false, step)?));
        }
        let (right, right_scope) = self.source(&step.source, &inner)?;
        let join_type = if is_outer { JoinType::Left } else { JoinType::Inner };
        let reads_left = right.all_out_ref_exprs().iter().any(|outer| match outer {
            Expr::OuterReferenceColumn(_, column) => left_scope.columns().any(|known| known.column == *column),
            _ => false,
        });
        let always = is_outer.then(|| Expr::Literal(ScalarValue::Boolean(Some(true)), None));
        let plan = if !reads_left {
            join(left, right, join_type, always)?
        } else if let Some(layers) = layers_of(&right, is_outer) {
            self.add_columns(left, &left_scope, layers, is_outer)?
        } else if is_beyond_engine(&right, false) {
            self.unnest(left, &right, join_type)?.ok_or_else(|| SqlError::internal("an APPLY that reads nothing"))?
        } else {
            let columns = left.schema().columns().into_iter().chain(right.schema().columns());
            let columns = columns.map(Expr::Column).collect();
            let lateral = join(left, LogicalPlan::Subquery(subquery_of(right)), join_type, always)?;
            // The join may add columns that it needs to its output, under names that it may use again; this projection
            // drops them.
            LogicalPlan::Projection(Projection::try_new(columns, shared(lateral)).map_err(sql_error_of)?)
        };
        Ok((plan, both(left_scope, right_scope, is_outer, step)?))
    }

    /// `APPLY (VALUES (…), (…))` over the left side's columns: each left row is repeated for each row of the list.
    fn apply_values(
        &self,
        left: &LogicalPlan,
        left_scope: &Scope,
        rows: &[Vec<Expression>],
        names: &Names<'_>,
    ) -> Result<Option<(LogicalPlan, Body)>, SqlError> {
        let nothing = Scope::default();
        let site = Site { scope: &nothing, names, clause: Clause::Select, collector: None };
        let width = super::values::width(rows)?;
        let mut bound: Vec<Vec<BoundExpr>> = (0..width).map(|_| Vec::with_capacity(rows.len())).collect();
        for row in rows {
            for (column, value) in bound.iter_mut().zip(row) {
                column.push(self.expression(value, site)?);
            }
        }
        if !bound.iter().flatten().any(|value| value.expr.contains_outer()) {
            return Ok(None);
        }
        let ordinal = self.fresh("row");
        let numbers = (1..=rows.len()).map(|number| {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            vec![Expr::Literal(ScalarValue::Int64(Some(number)), None)]
        });
        let fields = vec![arrow::datatypes::Field::new(&ordinal, arrow::datatypes::DataType::Int64, false)];
        let list = super::values::constant_rows(fields, numbers.collect())?;
        let product = join(left.clone(), list, JoinType::Inner, None)?;
        let mut exprs: Vec<Expr> = left.schema().columns().into_iter().map(Expr::Column).collect();
        let mut columns = Vec::with_capacity(width);
        for values in bound {
            let nullable = values.iter().any(|value| value.nullable);
            let (values, sql_type) = unify(values, "VALUES")?;
            let collation = values[0].collation;
            let mut branches = Vec::with_capacity(values.len());
            for (place, value) in values.into_iter().enumerate() {
                let number = i64::try_from(place + 1).unwrap_or(i64::MAX);
                let number = Expr::Literal(ScalarValue::Int64(Some(number)), None);
                let is_row = BinaryExpr::new(
                    Box::new(Expr::Column(Column::new_unqualified(&ordinal))),
                    Operator::Eq,
                    Box::new(number),
                );
                branches.push((Box::new(Expr::BinaryExpr(is_row)), Box::new(localize(value.expr, left_scope)?)));
            }
            let name = self.fresh("value");
            exprs.push(Expr::Case(Case::new(None, branches, None)).alias(&name));
            columns.push(BodyColumn {
                name: None,
                column: Column::new_unqualified(name),
                sql_type,
                nullable,
                collation,
                untyped_null: false,
                literal: None,
            });
        }
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, shared(product)).map_err(sql_error_of)?);
        Ok(Some((plan.clone(), Body::of(plan, columns))))
    }

    /// Moves the nodes above a single row to the left side.
    fn add_columns(
        &self,
        left: LogicalPlan,
        left_scope: &Scope,
        layers: Vec<&LogicalPlan>,
        is_outer: bool,
    ) -> Result<LogicalPlan, SqlError> {
        let own: Vec<Expr> = left.schema().columns().into_iter().map(Expr::Column).collect();
        let mut plan = left;
        for layer in layers.into_iter().rev() {
            plan = match layer {
                LogicalPlan::Projection(layer) => {
                    let mut exprs = own.clone();
                    for expr in &layer.expr {
                        exprs.push(localize(expr.clone(), left_scope)?);
                    }
                    LogicalPlan::Projection(Projection::try_new(exprs, shared(plan)).map_err(sql_error_of)?)
                }
                LogicalPlan::Unnest(layer) => unnest(plan, layer.exec_columns.clone(), is_outer)?,
                LogicalPlan::Filter(layer) => {
                    let condition = localize(layer.predicate.clone(), left_scope)?;
                    LogicalPlan::Filter(Filter::try_new(condition, shared(plan)).map_err(sql_error_of)?)
                }
                _ => return Err(SqlError::internal("a layer of another kind")),
            };
        }
        Ok(plan)
    }
}

/// The sources of both sides.
fn both(mut left: Scope, right: Scope, padded: bool, step: &JoinStep) -> Result<Scope, SqlError> {
    let count = left.tables.len();
    left.extend(right).map_err(|error| error.at(step.span.position))?;
    for table in left.tables.iter_mut().skip(count) {
        if padded {
            table.columns.iter_mut().for_each(ScopeColumn::pad);
        }
    }
    Ok(left)
}

/// The nodes above the single row of a query without `FROM`, from the outside in; `None` for any other query. With
/// `OUTER APPLY` there must be no filter, because it would remove rows that must be kept.
fn layers_of(plan: &LogicalPlan, is_outer: bool) -> Option<Vec<&LogicalPlan>> {
    let mut layers = Vec::new();
    let mut node = plan;
    loop {
        match node {
            LogicalPlan::Projection(projection) => {
                if projection.expr.iter().any(crate::subquery_expr::has_subquery) {
                    return None;
                }
                layers.push(node);
                node = &projection.input;
            }
            LogicalPlan::Unnest(unnest) => {
                layers.push(node);
                node = &unnest.input;
            }
            LogicalPlan::Filter(filter) if !is_outer && !crate::subquery_expr::has_subquery(&filter.predicate) => {
                layers.push(node);
                node = &filter.input;
            }
            LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }) if !layers.is_empty() => {
                return Some(layers);
            }
            _ => return None,
        }
    }
}

/// An expression of a subquery, rewritten to read its outer columns directly.
fn localize(expr: Expr, scope: &Scope) -> Result<Expr, SqlError> {
    expr.transform_down(|node| match node {
        Expr::OuterReferenceColumn(_, column) if scope.columns().any(|known| known.column == column) => {
            Ok(Transformed::yes(Expr::Column(column)))
        }
        other => Ok(Transformed::no(other)),
    })
    .map(|transformed| transformed.data)
    .map_err(sql_error_of)
}
