//! Joins that a hint forces into merging: both sides come in the order of the joined columns, from an index or a sort.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;

use super::rule::IndexJoinRule;
use hobt_operators::{Hides, UnorderedExec, of_nullable};
use hobt_table::no_plan_for_hints;
use hobt_udf::external;

/// Replaces hash joins by merge joins where a hint forces it. It runs before the rows of a join's sides are
/// repartitioned and sorted: what a merge needs of that is added afterwards.
#[derive(Debug)]
pub struct ForcedMergeRule {
    indexes: IndexJoinRule,
}

impl ForcedMergeRule {
    /// The rule that runs before `indexes` for the same plan.
    pub fn before(indexes: &IndexJoinRule) -> ForcedMergeRule {
        ForcedMergeRule { indexes: IndexJoinRule::new(indexes.way) }
    }
}

impl PhysicalOptimizerRule for ForcedMergeRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>().filter(|join| self.indexes.forces_merge(join)) else {
                return Ok(Transformed::no(node));
            };
            // `NOT IN` with NULLs needs all rows of the other side at once.
            if join.null_aware {
                let way_out = "Take MERGE JOIN away, or write NOT EXISTS in the place of NOT IN: NULLs on either side are compared \
                               with all rows of the other.";
                return Err(external(no_plan_for_hints(way_out)));
            }
            merged(join).map(Transformed::yes)
        })
        .data()
    }

    crate::named_rule!("hobt_forced_merge");
}

/// The join as a merge join.
fn merged(join: &HashJoinExec) -> Result<Arc<dyn ExecutionPlan>> {
    // The order of indexes: ascending, NULL first.
    let order = vec![SortOptions { descending: false, nulls_first: true }; join.on().len()];
    let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    let (on, filter) = (join.on().to_vec(), join.filter().map(of_nullable));
    let columns = left.schema().fields().len();
    let made = SortMergeJoinExec::try_new(left, right, on, filter, *join.join_type(), order, join.null_equality())?;
    // Not by hiding the order of a side, as for hash joins (`untrue`): both sides need theirs.
    let made: Arc<dyn ExecutionPlan> = Arc::new(UnorderedExec::new(Arc::new(made), Hides::MixedOrder(columns)));
    let Some(kept) = &join.projection else { return Ok(made) };
    let schema = made.schema();
    let column = |at: &usize| ProjectionExpr {
        expr: Arc::new(Column::new(schema.field(*at).name(), *at)),
        alias: schema.field(*at).name().clone(),
    };
    let columns: Vec<ProjectionExpr> = kept.iter().map(column).collect();
    Ok(Arc::new(ProjectionExec::try_new(columns, made)?))
}
