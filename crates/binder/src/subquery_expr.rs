//! Subqueries inside expressions.

use super::shared;
use datafusion::common::Spans;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

/// Whether an expression contains a subquery.
pub(super) fn has_subquery(expr: &Expr) -> bool {
    let found = expr.exists(|node| Ok(plan_of(node).is_some()));
    found.unwrap_or(false)
}

/// The plan of a subquery expression; `None` for any other expression.
pub(super) fn plan_of(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(&subquery.subquery),
        Expr::Exists(exists) => Some(&exists.subquery.subquery),
        Expr::InSubquery(within) => Some(&within.subquery.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery.subquery),
        _ => None,
    }
}

/// Whether a plan reads columns of an enclosing query.
pub(super) fn is_correlated(plan: &LogicalPlan) -> bool {
    !plan.all_out_ref_exprs().is_empty()
}

/// A plan as a subquery.
pub(super) fn subquery_of(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: shared(plan), outer_ref_columns, spans: Spans::new() }
}
