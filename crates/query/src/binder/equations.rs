//! Equations that become keys of joins.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's rule, but for joins whose keys have NULL equal to NULL (`IS NOT DISTINCT FROM`, subqueries that were
/// made joins): it would put an equation of `WHERE`, in which NULL equals nothing, beside them. There it stays what is
/// looked at behind the keys.
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
