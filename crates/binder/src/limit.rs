//! `ORDER BY`, `TOP`, `OFFSET … FETCH`.

use datafusion::common::{Column, ScalarValue};
use datafusion::functions_window::{rank, row_number};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Filter, Limit, LogicalPlan, Operator, Projection, Sort, SortExpr, WindowFunctionDefinition,
};
use hobt_base::{SqlError, errors};
use hobt_functions::aggregate::AggregateKind;
use hobt_tsql::ast::{Expression, Offset, Top};
use hobt_types::{Collation, SqlType, Value};

use super::bound::{BoundExpr, BoundQuery};
use super::convert::implicit;
use super::from::is_constant;
use super::scope::{Names, Scope};
use super::window::{ranking, window_plan};
use super::{Binder, Clause, Site, shared};
use crate::aggregate_call::wrapped;
use hobt_table::{PERCENT_PARTS, RowLimit};
use hobt_udf::sql_error_of;

/// The kind of a row count.
#[derive(Clone, Copy)]
enum Counts {
    Top,
    Skipped,
    Fetched,
}

/// A row count in DataFusion's form.
fn rows(count: i64) -> Option<Box<Expr>> {
    Some(Box::new(Expr::Literal(ScalarValue::Int64(Some(count)), None)))
}

impl Binder<'_> {
    /// The limit of the `TOP` of a statement that changes rows.
    ///
    /// # Errors
    /// Errors 127, 1031, 1060 and those of its expression.
    pub fn bind_row_limit(&self, top: &Top) -> Result<RowLimit, SqlError> {
        self.row_limit(top, &Names::default())
    }

    /// A query limited by `TOP`, if there is one.
    ///
    /// # Errors
    /// As [`Binder::bind_row_limit`].
    pub fn limited(&self, query: BoundQuery, top: Option<&Top>) -> Result<BoundQuery, SqlError> {
        let Some(top) = top else { return Ok(query) };
        let columns: Vec<Expr> = query.plan.schema().columns().into_iter().map(Expr::Column).collect();
        let limited = self.top(query.plan, top, Vec::new(), &Names::default())?;
        let plan = LogicalPlan::Projection(Projection::try_new(columns, shared(limited)).map_err(sql_error_of)?);
        Ok(BoundQuery { plan, ..query })
    }

    /// The limit of a `TOP`.
    ///
    /// # Errors
    /// Those of its number.
    pub(super) fn row_limit(&self, top: &Top, names: &Names<'_>) -> Result<RowLimit, SqlError> {
        Ok(match top.percent {
            true => RowLimit::Percent(self.percentage(&top.count, names)?),
            false => RowLimit::Rows(u64::try_from(self.row_count(&top.count, Counts::Top, names)?).unwrap_or(0)),
        })
    }

    /// The plan with its rows sorted.
    pub(super) fn sorted(&self, plan: LogicalPlan, order: Vec<SortExpr>) -> Result<LogicalPlan, SqlError> {
        if order.is_empty() {
            return Ok(plan);
        }
        Ok(LogicalPlan::Sort(Sort { expr: order, input: shared(plan), fetch: None }))
    }

    /// `OFFSET … FETCH` over sorted rows.
    pub(super) fn offset(
        &self,
        plan: LogicalPlan,
        offset: &Offset,
        names: &Names<'_>,
    ) -> Result<LogicalPlan, SqlError> {
        let skip = self.row_count(&offset.skip, Counts::Skipped, names)?;
        let fetch = offset.fetch.as_ref().map(|fetch| self.row_count(fetch, Counts::Fetched, names)).transpose()?;
        Ok(LogicalPlan::Limit(Limit { skip: rows(skip), fetch: fetch.and_then(rows), input: shared(plan) }))
    }

    /// `TOP` over rows that are not yet sorted; the result is sorted.
    pub(super) fn top(
        &self,
        plan: LogicalPlan,
        top: &Top,
        order: Vec<SortExpr>,
        names: &Names<'_>,
    ) -> Result<LogicalPlan, SqlError> {
        if !top.percent && !top.with_ties {
            let count = self.row_count(&top.count, Counts::Top, names)?;
            let sorted = self.sorted(plan, order)?;
            return Ok(LogicalPlan::Limit(Limit { skip: None, fetch: rows(count), input: shared(sorted) }));
        }
        if top.with_ties && order.is_empty() {
            return Err(errors::WITH_TIES_WITHOUT_ORDER.error().at(top.count.position()));
        }
        let rank = match top.with_ties {
            true => rank::rank_udwf(),
            false => row_number::row_number_udwf(),
        };
        let place = Column::new_unqualified(self.fresh("place"));
        let mut windows =
            vec![(ranking(WindowFunctionDefinition::WindowUDF(rank), vec![], order.clone()), place.clone())];
        let limit = if top.percent {
            let total = Column::new_unqualified(self.fresh("total"));
            let (count, _) = wrapped(AggregateKind::CountBig, SqlType::Int, Collation::default())?;
            let one = Expr::Literal(ScalarValue::Int32(Some(1)), None);
            let count = ranking(WindowFunctionDefinition::AggregateUDF(count.into()), vec![one], vec![]);
            windows.push((count, total.clone()));
            percent_of(total, self.percentage(&top.count, names)?)
        } else {
            let count = u64::try_from(self.row_count(&top.count, Counts::Top, names)?).unwrap_or(0);
            Expr::Literal(ScalarValue::UInt64(Some(count)), None)
        };
        let ranked = window_plan(plan, windows)?;
        let inside = Expr::BinaryExpr(BinaryExpr::new(Box::new(Expr::Column(place)), Operator::LtEq, Box::new(limit)));
        let kept = LogicalPlan::Filter(Filter::try_new(inside, shared(ranked)).map_err(sql_error_of)?);
        self.sorted(kept, order)
    }

    /// The number in a `TOP`, `OFFSET` or `FETCH`.
    fn row_count(&self, expression: &Expression, what: Counts, names: &Names<'_>) -> Result<i64, SqlError> {
        let position = expression.position();
        let bound = self.known_number(expression, SqlType::BigInt, names)?;
        let entry = match (self.evaluate(&bound).map_err(|error| error.at(position))?, what) {
            (Value::Int(count @ 1..), _) => return Ok(count),
            (Value::Int(0), Counts::Top | Counts::Skipped) => return Ok(0),
            (Value::Int(_), Counts::Top) => errors::NEGATIVE_ROW_COUNT,
            (Value::Int(_), Counts::Skipped) => errors::OFFSET_NEGATIVE,
            (Value::Int(_), Counts::Fetched) => errors::FETCH_COUNT,
            _ => errors::ROW_COUNT_TYPE,
        };
        Err(entry.error().at(position))
    }

    /// A number that is constant for the whole query: of constants, variables, and parameters of the enclosing
    /// function.
    fn known_number(
        &self,
        expression: &Expression,
        sql_type: SqlType,
        names: &Names<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let (scope, names) = (Scope::default(), Names { outer: None, ..names.clone() });
        let site = Site { scope: &scope, names: &names, clause: Clause::Scalar, collector: None };
        let bound = implicit(self.expression(expression, site)?, sql_type)?;
        if bound.literal.is_none() && !is_constant(&bound.expr) {
            return Err(SqlError::not_supported("A row count that is not known before the query runs")
                .at(expression.position()));
        }
        Ok(bound)
    }

    fn percentage(&self, expression: &Expression, names: &Names<'_>) -> Result<f64, SqlError> {
        let position = expression.position();
        let bound = self.known_number(expression, SqlType::Float, names)?;
        match self.evaluate(&bound).map_err(|error| error.at(position))? {
            Value::Float(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
            _ => Err(errors::PERCENT_RANGE.error().at(position)),
        }
    }
}

/// The number of rows that are `percent` of `total`, rounded up. Computed with integers, in millionths of a percent.
fn percent_of(total: Column, percent: f64) -> Expr {
    use datafusion::logical_expr::expr::Cast;
    let integer = |value: i64| Box::new(Expr::Literal(ScalarValue::Int64(Some(value)), None));
    let scale = 100_000_000;
    let share = (percent * PERCENT_PARTS).round() as i64;
    let product = BinaryExpr::new(Box::new(Expr::Column(total)), Operator::Multiply, integer(share));
    let padded = BinaryExpr::new(Box::new(Expr::BinaryExpr(product)), Operator::Plus, integer(scale - 1));
    let quotient = BinaryExpr::new(Box::new(Expr::BinaryExpr(padded)), Operator::Divide, integer(scale));
    Expr::Cast(Cast::new(Box::new(Expr::BinaryExpr(quotient)), arrow::datatypes::DataType::UInt64))
}
