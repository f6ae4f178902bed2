//! Lateral joins whose right side no longer reads the left one.
//!
//! The simplifier may remove everything that a subquery reads from outside (`b.k = a.k AND 1 = 0`). DataFusion's rule
//! does not convert such a lateral join, and no operator can execute one.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::{Join, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Converts lateral joins into ordinary joins, including those that read nothing from outside.
#[derive(Debug)]
pub(super) struct LateralRule {
    joins: Arc<dyn OptimizerRule + Send + Sync>,
}

impl LateralRule {
    /// Wraps DataFusion's rule; `joins` converts the lateral joins that do read something from outside.
    pub(super) fn around(joins: Arc<dyn OptimizerRule + Send + Sync>) -> LateralRule {
        LateralRule { joins }
    }
}

impl OptimizerRule for LateralRule {
    fn name(&self) -> &str {
        self.joins.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.joins.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = plan else { return self.joins.rewrite(plan, config) };
        match &*join.right {
            LogicalPlan::Subquery(right) if !reads_outside(&right.subquery)? => {
                let right = Arc::clone(&right.subquery);
                Ok(Transformed::yes(LogicalPlan::Join(Join { right, ..join })))
            }
            _ => self.joins.rewrite(LogicalPlan::Join(join), config),
        }
    }
}

/// Whether a plan, or a subquery in it, reads a column of an enclosing query.
pub(crate) fn reads_outside(plan: &LogicalPlan) -> Result<bool> {
    let visit = |node: &LogicalPlan| match node.contains_outer_reference() {
        true => Ok(TreeNodeRecursion::Stop),
        false => Ok(TreeNodeRecursion::Continue),
    };
    Ok(plan.apply_with_subqueries(visit)? == TreeNodeRecursion::Stop)
}

#[cfg(test)]
mod tests {
    use datafusion::common::{JoinType, Spans};
    use datafusion::logical_expr::{LogicalPlanBuilder, Subquery, col, lit, out_ref_col};
    use datafusion::optimizer::OptimizerContext;
    use datafusion::optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;

    use super::*;

    fn rows(name: &str) -> LogicalPlanBuilder {
        let row = LogicalPlanBuilder::values(vec![vec![lit(1)]]).expect("values");
        row.project([col("column1").alias(name)]).expect("a column")
    }

    /// A lateral join of `a` with the rows of `b` for which a condition holds.
    fn lateral(condition: datafusion::logical_expr::Expr) -> LogicalPlan {
        let right = rows("b").filter(condition).and_then(LogicalPlanBuilder::build).expect("a plan");
        let outer_ref_columns = vec![out_ref_col(arrow::datatypes::DataType::Int32, "a")];
        let right = Subquery { subquery: Arc::new(right), outer_ref_columns, spans: Spans::new() };
        let join = rows("a").join_on(LogicalPlan::Subquery(right), JoinType::Left, [lit(true)]);
        join.and_then(LogicalPlanBuilder::build).expect("a join")
    }

    fn is_ordinary(plan: LogicalPlan) -> bool {
        let rule = LateralRule::around(Arc::new(DecorrelateLateralJoin::new()));
        let plan = rule.rewrite(plan, &OptimizerContext::new()).expect("a plan");
        matches!(&plan.data, LogicalPlan::Join(join) if plan.transformed && !matches!(*join.right, LogicalPlan::Subquery(_)))
    }

    #[test]
    fn a_lateral_join_becomes_an_ordinary_one_whether_or_not_it_reads_the_left_side() {
        assert!(is_ordinary(lateral(col("b").eq(out_ref_col(arrow::datatypes::DataType::Int32, "a")))));
        assert!(is_ordinary(lateral(lit(false))));
    }
}
