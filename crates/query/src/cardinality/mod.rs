//! How many rows there will be: of a table behind its conditions (`table`), of plans made of such tables (`relation`,
//! with the foreign keys between them, `references`); and the order of joins that follows from it (`join_order`).
//!
//! Estimates come from the tables' statistics (crate `engine`), which inserts and deletes keep. Where a column has
//! none, SQL Server's guesses are taken (Microsoft: "Cardinality estimation"): the more conditions are joined by AND,
//! the less each further one counts.

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{Column, ScalarValue, Statistics};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use hobt_functions::like::{Pattern, PatternRest, escape_character};
use hobt_types::Collation;

mod assumed;
mod join_order;
mod references;
mod relation;
mod table;
mod wanted;

use crate::execute::Correlation;
use crate::wrap::{Kernel, Operation};
pub(crate) use assumed::{Mark, fold_assumed, is_marked, mark_of, marked};
pub(crate) use join_order::JoinOrderRule;
use relation::ColumnRows;
pub(crate) use table::TableKnowledge;
pub(crate) use wanted::wanted_columns;

/// What is expected of a table's rows that are left behind conditions.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LeafEstimate {
    /// How many there are.
    pub(crate) rows: f64,
    /// Of each column that is read, different values among them; `None` where nothing is known of it.
    pub(crate) distinct: Vec<Option<f64>>,
}

impl LeafEstimate {
    /// The same as the executor takes it, of one of so many parts; `row_bytes` is the width of a row.
    pub(crate) fn statistics(&self, schema: &SchemaRef, parts: usize, row_bytes: usize) -> Statistics {
        let rows = self.rows.ceil() as usize / parts.max(1);
        let mut statistics = Statistics::new_unknown(schema);
        // Never exact: a scan reads the pages that it claims to scan, and no rule may answer from the catalog instead.
        statistics.num_rows = Precision::Inexact(rows);
        statistics.total_byte_size = Precision::Inexact(rows.saturating_mul(row_bytes));
        for (column, distinct) in statistics.column_statistics.iter_mut().zip(&self.distinct) {
            if let Some(distinct) = distinct {
                column.distinct_count = Precision::Inexact((distinct.ceil() as usize).min(rows.max(1)));
            }
        }
        statistics
    }
}

/// What a condition leaves of which nothing is known.
pub(crate) const UNKNOWN_CONDITION: f64 = 0.3;

/// What a `LIKE` leaves of which no histogram says more: SQL Server's guess.
const LIKE_CONDITION: f64 = 0.1;

/// The column that an expression is made of, if it is made of one.
fn only_column(expr: &Expr) -> Option<&Column> {
    let mut columns = expr.column_refs().into_iter();
    columns.next().filter(|_| columns.next().is_none())
}

/// What is known of some rows.
pub(crate) trait Knowledge {
    /// Of what an expression makes of them.
    fn expression(&self, expr: &Expr) -> ColumnRows;

    /// The share of them of which a text begins with `beginning`, or is that alone, by a collation; `None` if nothing
    /// is known of it.
    fn share_of_text(&self, text: &Expr, beginning: &str, is_all: bool, collation: Collation) -> Option<f64>;
}

/// What a condition leaves of rows, of which `known` says what it can.
pub(crate) fn share_by(condition: &Expr, known: &dyn Knowledge) -> f64 {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (left_known, right_known) = (known.expression(left), known.expression(right));
            let one = 1.0 / left_known.distinct.max(right_known.distinct).max(1.0);
            match op {
                Operator::Eq => one,
                Operator::NotEq => (1.0 - one) * (1.0 - left_known.null_share) * (1.0 - right_known.null_share),
                Operator::And => together(vec![share_by(left, known), share_by(right, known)]),
                Operator::Or => {
                    let (left, right) = (share_by(left, known), share_by(right, known));
                    left + right - left * right
                }
                _ => UNKNOWN_CONDITION,
            }
        }
        Expr::ScalarFunction(call) => match call.func.inner().downcast_ref::<Kernel>().map(Kernel::operation) {
            Some(Operation::Junction { all: true }) => {
                together(call.args.iter().map(|part| share_by(part, known)).collect())
            }
            Some(Operation::Junction { all: false }) => {
                1.0 - call.args.iter().map(|part| 1.0 - share_by(part, known)).product::<f64>()
            }
            Some(Operation::Like(collation)) => share_by_like(&call.args, *collation, known),
            _ => UNKNOWN_CONDITION,
        },
        Expr::Not(inner) => 1.0 - share_by(inner, known),
        Expr::Literal(value, _) if value.is_null() => 0.0,
        Expr::IsNull(inner) => known.expression(inner).null_share,
        Expr::IsNotNull(inner) => 1.0 - known.expression(inner).null_share,
        Expr::InList(list) => {
            let share = (list.list.len() as f64 / known.expression(&list.expr).distinct.max(1.0)).min(1.0);
            if list.negated { 1.0 - share } else { share }
        }
        _ => UNKNOWN_CONDITION,
    }
}

/// What `text LIKE pattern [ESCAPE character]` leaves.
fn share_by_like(args: &[Expr], collation: Collation, known: &dyn Knowledge) -> f64 {
    let text_of = |value: &ScalarValue| value.try_as_str().flatten().map(str::to_owned);
    let literal = |expr: &Expr| match (expr, mark_of(expr)) {
        (_, Some(Mark::Unknown)) => None,
        (_, Some(Mark::Value(assumed))) => text_of(&assumed),
        (Expr::Literal(value, _), None) => text_of(value),
        _ => None,
    };
    let [text, pattern, escape @ ..] = args else { return LIKE_CONDITION };
    let Some(pattern) = literal(pattern) else { return LIKE_CONDITION };
    let escape = escape.first().map(|escape| literal(escape).and_then(|escape| escape_character(&escape).ok()));
    // Of an escape that is none nothing is known but that it fails.
    let Some(escape) = escape.map_or(Some(None), |escape| escape.map(Some)) else { return LIKE_CONDITION };
    let (beginning, rest) = Pattern::new(&pattern, escape, collation).prefix();
    let begins = |is_all: bool| known.share_of_text(text, &beginning, is_all, collation);
    match rest {
        PatternRest::Nothing => begins(true).unwrap_or_else(|| 1.0 / known.expression(text).distinct.max(1.0)),
        PatternRest::AnyText if beginning.is_empty() => 1.0 - known.expression(text).null_share,
        PatternRest::AnyText => begins(false).unwrap_or(LIKE_CONDITION),
        PatternRest::More if beginning.is_empty() => LIKE_CONDITION,
        PatternRest::More => together(begins(false).into_iter().chain([LIKE_CONDITION]).collect()),
    }
}

/// What several conditions leave together: the strictest counts whole, each further one by half as much in the
/// exponent, and those behind the fourth not at all, since conditions on one table are seldom independent.
pub(crate) fn together(mut selectivities: Vec<f64>) -> f64 {
    selectivities.sort_by(f64::total_cmp);
    let exponents = [1.0, 0.5, 0.25, 0.125];
    selectivities
        .iter()
        .zip(exponents)
        .map(|(selectivity, exponent)| selectivity.clamp(0.0, 1.0).powf(exponent))
        .product()
}

/// The same under a hint.
pub(crate) fn together_by(correlation: Correlation, selectivities: Vec<f64>) -> f64 {
    let each = selectivities.iter().map(|selectivity| selectivity.clamp(0.0, 1.0));
    match correlation {
        Correlation::Partial => together(selectivities),
        Correlation::None => each.product(),
        Correlation::Full => each.fold(1.0, f64::min),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_conditions_count_ever_less() {
        assert_eq!(together(Vec::new()), 1.0);
        assert_eq!(together(vec![0.01]), 0.01);
        assert!((together(vec![0.25, 0.01]) - 0.005).abs() < 1e-12);
        assert_eq!(together(vec![0.5, 0.5, 0.5, 0.5]), together(vec![0.5; 9]));
    }
}
