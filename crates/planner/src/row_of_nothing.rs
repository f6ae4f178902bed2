//! Conditions without columns above an aggregate that returns a row for empty input.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Wraps a rule that pushes conditions down. Conditions without columns stay above an aggregate that returns a row for
/// empty input (one without groups, or with grouping sets): `HAVING 1 = 0` leaves nothing. The wrapped rule would take
/// them for conditions on the groups and push them below the aggregate, which would still return its row.
#[derive(Debug)]
pub(super) struct RowOfNothingRule(Arc<dyn OptimizerRule + Send + Sync>);

impl RowOfNothingRule {
    /// Wraps a rule that pushes conditions down.
    pub(super) fn around(pushes: Arc<dyn OptimizerRule + Send + Sync>) -> RowOfNothingRule {
        RowOfNothingRule(pushes)
    }
}

impl OptimizerRule for RowOfNothingRule {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let Some((conditions, aggregate)) = conditions_above(&plan) else { return self.0.rewrite(plan, config) };
        let has_columns = |condition: &&Expr| !condition.column_refs().is_empty();
        let (of_columns, of_none): (Vec<&Expr>, Vec<&Expr>) = conditions.into_iter().partition(has_columns);
        let Some(stays) = conjunction(of_none.into_iter().cloned()) else { return self.0.rewrite(plan, config) };
        let Some(rest) = conjunction(of_columns.into_iter().cloned()) else { return Ok(Transformed::no(plan)) };
        let below = LogicalPlan::Filter(Filter::try_new(rest, Arc::clone(aggregate))?);
        let pushed = self.0.rewrite(below, config)?;
        if !pushed.transformed {
            return Ok(Transformed::no(plan));
        }
        pushed.map_data(|below| Ok(LogicalPlan::Filter(Filter::try_new(stays, Arc::new(below))?)))
    }
}

/// The conditions of the filters directly above an aggregate that returns a row for empty input, and the aggregate.
fn conditions_above(plan: &LogicalPlan) -> Option<(Vec<&Expr>, &Arc<LogicalPlan>)> {
    let LogicalPlan::Filter(filter) = plan else { return None };
    let mut filter = filter;
    let mut conditions = Vec::new();
    loop {
        conditions.extend(split_conjunction(&filter.predicate));
        match &*filter.input {
            LogicalPlan::Filter(below) => filter = below,
            LogicalPlan::Aggregate(aggregate) if has_row_of_nothing(aggregate) => {
                return Some((conditions, &filter.input));
            }
            _ => return None,
        }
    }
}

fn has_row_of_nothing(aggregate: &Aggregate) -> bool {
    let is_set = |group: &Expr| matches!(group, Expr::GroupingSet(_));
    aggregate.group_expr.is_empty() || aggregate.group_expr.iter().any(is_set)
}
