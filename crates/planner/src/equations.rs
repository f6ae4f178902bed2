//! Equations that become keys of joins.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's rule that extracts join keys, except for joins whose keys treat NULL as equal to NULL (those of `IS NOT
/// DISTINCT FROM`, and subqueries turned into joins). There it would add an equation of `WHERE`, for which NULL equals
/// nothing, to those keys. For such joins the equation remains a filter after the keys.
#[derive(Debug, Default)]
pub(super) struct EquationsRule(ExtractEquijoinPredicate);

impl OptimizerRule for EquationsRule {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Join(join) if !join.on.is_empty() && join.null_equality == NullEquality::NullEqualsNull => {
                Ok(Transformed::no(plan))
            }
            _ => self.0.rewrite(plan, config),
        }
    }
}
