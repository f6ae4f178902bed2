//! Keeps projections where they are: above merge joins, and above filters that know an equation of an expression.
//!
//! DataFusion's merge join lets a projection through to its sides and keeps the places of its further condition's
//! columns, which then are those of others. It also takes a column behind those of the left side for one of the right
//! side, where a semi join may have no such.
//!
//! A filter that takes a projection in forgets of an equation `e + 1 = id` what it says of `e + 1`, and a sort by the
//! one is no longer one by the other. Sorts were chosen before, when it was: whatever wants their order finds it
//! missing.
//!
//! So each of these has a fence about it while projections are pushed down. What is not read has been left out long
//! before, in the logical plan.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use super::inputs::{passes_on, without_expressions};

/// A rule that may push projections down, for plans with merge joins and any filters too.
#[derive(Debug)]
pub struct FencedProjectionRule {
    pushes: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl FencedProjectionRule {
    /// The rule, and what must not take a projection in as it is.
    pub fn around(pushes: Arc<dyn PhysicalOptimizerRule + Send + Sync>) -> FencedProjectionRule {
        FencedProjectionRule { pushes }
    }
}

impl PhysicalOptimizerRule for FencedProjectionRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let fenced = plan.transform_up(|node| match is_fenced(&node) {
            true => Ok(Transformed::yes(Arc::new(FenceExec { fenced: node }) as Arc<dyn ExecutionPlan>)),
            false => Ok(Transformed::no(node)),
        })?;
        let pushed = self.pushes.optimize(fenced.data, config)?;
        if !fenced.transformed {
            return Ok(pushed);
        }
        let bare = pushed.transform_up(|node| match node.downcast_ref::<FenceExec>() {
            Some(fence) => Ok(Transformed::yes(Arc::clone(&fence.fenced))),
            None => Ok(Transformed::no(node)),
        });
        bare.data()
    }

    fn name(&self) -> &str {
        self.pushes.name()
    }

    fn schema_check(&self) -> bool {
        self.pushes.schema_check()
    }
}

fn is_fenced(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<SortMergeJoinExec>()
        || node.downcast_ref::<FilterExec>().is_some_and(|filter| equates_expression(filter.predicate()))
}

/// Whether a condition says that an expression, which is no column, equals something that is no constant.
fn equates_expression(condition: &Arc<dyn PhysicalExpr>) -> bool {
    split_conjunction(condition).into_iter().any(|part| {
        part.downcast_ref::<BinaryExpr>().is_some_and(|compared| {
            let sides = [compared.left(), compared.right()];
            *compared.op() == Operator::Eq
                && !sides.into_iter().any(|side| side.is::<Literal>())
                && !sides.into_iter().all(|side| side.is::<Column>())
        })
    })
}

/// Stands above what is fenced, and swaps places with no projection.
#[derive(Debug)]
struct FenceExec {
    fenced: Arc<dyn ExecutionPlan>,
}

impl FenceExec {
    fn over(&self, fenced: Arc<dyn ExecutionPlan>) -> FenceExec {
        FenceExec { fenced }
    }
}

impl DisplayAs for FenceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FenceExec")
    }
}

impl ExecutionPlan for FenceExec {
    fn name(&self) -> &'static str {
        "FenceExec"
    }

    passes_on!(fenced);
    without_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.fenced.execute(partition, context)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::physical_expr::expressions::{binary, col, lit};

    use super::*;

    #[test]
    fn only_an_equation_of_an_expression_with_no_constant_keeps_projections_out() {
        use arrow::datatypes::{DataType, Field, Schema};
        let schema = Schema::new(["a", "b"].map(|name| Field::new(name, DataType::Int32, true)).to_vec());
        let column = |name| col(name, &schema).expect("a column");
        let of = |left, op, right| binary(left, op, right, &schema).expect("an expression");
        let sum = || of(column("a"), Operator::Plus, lit(1));
        let equation = of(sum(), Operator::Eq, column("b"));
        assert!(equates_expression(&equation));
        assert!(equates_expression(&of(of(column("a"), Operator::Gt, lit(1)), Operator::And, equation.clone())));
        for other in [
            of(column("a"), Operator::Eq, column("b")),
            of(sum(), Operator::Eq, lit(1)),
            of(sum(), Operator::Lt, column("b")),
            of(column("a"), Operator::Eq, lit(1)),
        ] {
            assert!(!equates_expression(&other), "{other}");
        }
    }
}
