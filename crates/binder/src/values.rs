//! `VALUES` as a source of rows.

use arrow::datatypes::Field;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Values};
use hobt_base::{SqlError, errors};
use hobt_functions::carrier;
use hobt_tsql::ast::Expression;

use super::bound::BoundExpr;
use super::convert::unify;
use super::query::empty_row;
use super::scope::{Names, Scope};
use super::set_operation::union;
use super::{Binder, Clause, Site, shared};
use crate::body::{Body, BodyColumn};
use hobt_udf::sql_error_of;

/// The number of values in each row.
///
/// # Errors
/// 10709 if rows differ.
pub(super) fn width(rows: &[Vec<Expression>]) -> Result<usize, SqlError> {
    let width = rows.first().map_or(0, Vec::len);
    match rows.iter().find(|row| row.len() != width) {
        Some(row) => {
            Err(errors::VALUES_COLUMN_COUNT.error().at(row.first().map(Expression::position).unwrap_or_default()))
        }
        None => Ok(width),
    }
}

/// Rows of expressions without columns.
pub(super) fn constant_rows(fields: Vec<Field>, values: Vec<Vec<Expr>>) -> Result<LogicalPlan, SqlError> {
    let schema = DFSchema::from_unqualified_fields(fields.into(), Default::default()).map_err(sql_error_of)?;
    Ok(LogicalPlan::Values(Values { schema: schema.into(), values }))
}

impl Binder<'_> {
    /// `VALUES (…), (…)`, each column of the common type of its values.
    pub(super) fn values(&self, rows: &[Vec<Expression>], names: &Names<'_>) -> Result<Body, SqlError> {
        let nothing = Scope::default();
        let site = Site { scope: &nothing, names, clause: Clause::Select, collector: None };
        let width = width(rows)?;
        let mut columns = Vec::with_capacity(width);
        let mut exprs: Vec<Vec<Expr>> = rows.iter().map(|_| Vec::with_capacity(width)).collect();
        for place in 0..width {
            let bound: Vec<BoundExpr> =
                rows.iter().map(|row| self.expression(&row[place], site)).collect::<Result<_, _>>()?;
            let untyped_null = bound.iter().all(BoundExpr::is_untyped_null);
            let nullable = bound.iter().any(|value| value.nullable);
            let (bound, sql_type) = unify(bound, "VALUES")?;
            let collation = bound[0].collation;
            for (row, value) in exprs.iter_mut().zip(bound) {
                row.push(value.expr);
            }
            let column = Column::new_unqualified(self.fresh("value"));
            columns.push(BodyColumn { name: None, column, sql_type, nullable, collation, untyped_null, literal: None });
        }
        let plain =
            exprs.iter().flatten().all(|value| !value.contains_outer() && !crate::subquery_expr::has_subquery(value));
        let plan = if plain {
            let fields = columns.iter().map(|column| Field::new(&column.column.name, carrier(column.sql_type), true));
            constant_rows(fields.collect(), exprs)?
        } else {
            let rows = exprs.into_iter().map(|row| {
                let named = row.into_iter().zip(&columns).map(|(value, column)| value.alias(&column.column.name));
                Projection::try_new(named.collect(), shared(empty_row()))
                    .map(LogicalPlan::Projection)
                    .map_err(sql_error_of)
            });
            let mut rows: Vec<LogicalPlan> = rows.collect::<Result<_, _>>()?;
            if rows.len() == 1 { rows.remove(0) } else { union(rows)? }
        };
        Ok(Body::of(plan, columns))
    }
}
