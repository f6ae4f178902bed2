//! Joins that a hint forces into nested loops without an index to seek in: each row is compared with each. Also notes
//! properties of the plan that are lost once its sides are repartitioned and its sorts are placed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::{Field, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, NullEquality, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, IsNullExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

use super::rule::IndexJoinRule;
use crate::source::JoinWay;

/// Replaces hash joins by nested loops if a hint forces loops and no index serves the join. It runs before the rows of
/// a join's sides are repartitioned, because loops need another partitioning.
#[derive(Debug)]
pub struct ForcedLoopRule {
    way: JoinWay,
    had_sorts: Arc<AtomicBool>,
}

impl ForcedLoopRule {
    /// The rule that runs before `indexes` for the same plan.
    pub fn before(indexes: &IndexJoinRule) -> ForcedLoopRule {
        ForcedLoopRule { way: indexes.way, had_sorts: Arc::clone(&indexes.had_sorts) }
    }
}

impl PhysicalOptimizerRule for ForcedLoopRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let has_sorts = plan.exists(|node| Ok(node.is::<SortExec>() || node.is::<SortPreservingMergeExec>()))?;
        self.had_sorts.store(has_sorts, Ordering::Relaxed);
        let indexes = IndexJoinRule::new(self.way);
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            // `NOT IN` with NULLs and a further condition is left to DataFusion.
            let is_known = !join.null_aware || join.filter().is_none();
            if !is_known || !indexes.forces_loops(join) || (!join.null_aware && indexes.has_candidate(join)?) {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(Arc::new(loops(join)?) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "hobt_forced_loop"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The join as nested loops.
fn loops(join: &HashJoinExec) -> Result<NestedLoopJoinExec> {
    let projection = join.projection.as_ref().map(|projection| projection.to_vec());
    let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    NestedLoopJoinExec::try_new(left, right, all_conditions(join)?, join.join_type(), projection)
}

/// All conditions that a joining pair of rows fulfils: the equations, and the join's filter.
pub(super) fn all_conditions(join: &HashJoinExec) -> Result<Option<JoinFilter>> {
    let mut filter = Conditions::of(join);
    let operator = match join.null_equality() {
        NullEquality::NullEqualsNothing => Operator::Eq,
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
    };
    for (left, right) in join.on() {
        let left = filter.expression(left, JoinSide::Left, join.left())?;
        let right = filter.expression(right, JoinSide::Right, join.right())?;
        let equal: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(Arc::clone(&left), operator, Arc::clone(&right)));
        filter.and(match join.null_aware {
            false => equal,
            // A row that may be equal, as far as is known, excludes the other.
            true => {
                let unknown = [left, right].map(|side| Arc::new(IsNullExpr::new(side)) as Arc<dyn PhysicalExpr>);
                unknown.into_iter().fold(equal, |any, one| Arc::new(BinaryExpr::new(any, Operator::Or, one)))
            }
        });
    }
    Ok(filter.done())
}

/// Conditions over columns of both sides.
struct Conditions {
    columns: Vec<ColumnIndex>,
    fields: Vec<Field>,
    all: Option<Arc<dyn PhysicalExpr>>,
}

impl Conditions {
    /// The conditions of a join beside its equations.
    fn of(join: &HashJoinExec) -> Conditions {
        let Some(filter) = join.filter() else {
            return Conditions { columns: Vec::new(), fields: Vec::new(), all: None };
        };
        let fields = filter.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        Conditions { columns: filter.column_indices().to_vec(), fields, all: Some(Arc::clone(filter.expression())) }
    }

    /// Rewrites an expression over one side to one over the columns of the conditions.
    fn expression(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        side: JoinSide,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = plan.schema();
        Arc::clone(expr)
            .transform_up(|node| {
                let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
                let index = column.index();
                let known = self.columns.iter().position(|known| known.index == index && known.side == side);
                let at = known.unwrap_or_else(|| {
                    self.columns.push(ColumnIndex { index, side });
                    self.fields.push(schema.field(index).clone());
                    self.columns.len() - 1
                });
                Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>))
            })
            .data()
    }

    fn and(&mut self, condition: Arc<dyn PhysicalExpr>) {
        self.all = Some(match self.all.take() {
            Some(all) => Arc::new(BinaryExpr::new(all, Operator::And, condition)),
            None => condition,
        });
    }

    fn done(self) -> Option<JoinFilter> {
        Some(JoinFilter::new(self.all?, self.columns, Arc::new(Schema::new(self.fields))))
    }
}
