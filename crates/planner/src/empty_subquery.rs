//! Conditions with subqueries that have no rows.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Replaces `IN` and `EXISTS` with a subquery that is known to have no rows: by false, or by true under `NOT`, even if
/// the value is NULL. DataFusion's rule that turns subqueries into joins needs the plan's first column, and a plan
/// without rows has lost its columns.
#[derive(Debug)]
pub(super) struct EmptySubqueryRule;

impl OptimizerRule for EmptySubqueryRule {
    fn name(&self) -> &'static str {
        "empty_subquery"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let known = expr.transform_up(|node| {
                Ok(match &node {
                    Expr::InSubquery(within) if has_no_rows(&within.subquery.subquery) => {
                        Transformed::yes(lit(within.negated))
                    }
                    Expr::Exists(exists) if has_no_rows(&exists.subquery.subquery) => {
                        Transformed::yes(lit(exists.negated))
                    }
                    _ => Transformed::no(node),
                })
            })?;
            Ok(known.update_data(|expr| name.restore(expr)))
        })
    }
}

fn has_no_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::EmptyRelation(empty) => !empty.produce_one_row,
        LogicalPlan::Projection(projection) => has_no_rows(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_no_rows(&alias.input),
        LogicalPlan::Filter(filter) => has_no_rows(&filter.input),
        LogicalPlan::Sort(sort) => has_no_rows(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => has_no_rows(input),
        _ => false,
    }
}
