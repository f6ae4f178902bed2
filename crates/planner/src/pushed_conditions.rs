//! Normalises conditions before DataFusion's rule pushes them down and combines them.
//!
//! That rule keeps the strictest of several conditions on one column. It assumes that each has the form `column
//! operator constant`, and combines conditions of other forms incorrectly. They do occur: the simplifier leaves join
//! conditions as written, and conditions that are pushed through a projection get their constants there.
//!
//! ```text
//!   c = 5 AND 5 = c             two equations that differ: false
//!   c <= 7 AND 7 > c            one bound twice, of which the first is kept: c <= 7
//!   c > NULL AND c > 5          NULL is the least of all values: c > 5
//! ```
//!
//! So the conditions that the rule processes are turned around first. What the simplifier normalises anyway is left to
//! it.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Wraps a rule that pushes conditions down, and first turns conditions with their constant on the left around.
#[derive(Debug)]
pub(super) struct PushedConditionsRule {
    pushes: Arc<dyn OptimizerRule + Send + Sync>,
}

impl PushedConditionsRule {
    /// Wraps a rule that pushes conditions down.
    pub(super) fn around(pushes: Arc<dyn OptimizerRule + Send + Sync>) -> PushedConditionsRule {
        PushedConditionsRule { pushes }
    }
}

impl OptimizerRule for PushedConditionsRule {
    fn name(&self) -> &str {
        self.pushes.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.pushes.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let turned = turned_plan(plan);
        let changed = turned.transformed;
        let mut pushed = self.pushes.rewrite(turned.data, config)?;
        pushed.transformed |= changed;
        Ok(pushed)
    }
}

/// Turns the conditions of a join, or of filters directly above each other, which the rule merges.
fn turned_plan(plan: LogicalPlan) -> Transformed<LogicalPlan> {
    match plan {
        LogicalPlan::Join(mut join) => {
            let changed = join.filter.as_mut().is_some_and(turn);
            Transformed::new_transformed(LogicalPlan::Join(join), changed)
        }
        LogicalPlan::Filter(mut filter) => {
            let mut changed = turn(&mut filter.predicate);
            if matches!(*filter.input, LogicalPlan::Filter(_) | LogicalPlan::Join(_)) {
                let below = turned_plan(Arc::unwrap_or_clone(filter.input));
                changed |= below.transformed;
                filter.input = Arc::new(below.data);
            }
            Transformed::new_transformed(LogicalPlan::Filter(filter), changed)
        }
        other => Transformed::no(other),
    }
}

/// Turns the conjuncts of a condition; returns `false` if there is none to turn.
fn turn(condition: &mut Expr) -> bool {
    if !split_conjunction(condition).into_iter().any(|conjunct| turned(conjunct).is_some()) {
        return false;
    }
    let conjuncts = split_conjunction_owned(std::mem::take(condition)).into_iter();
    let all = conjunction(conjuncts.map(|conjunct| turned(&conjunct).unwrap_or(conjunct)));
    *condition = all.unwrap_or(Expr::Literal(ScalarValue::Boolean(Some(true)), None));
    true
}

/// `column operator constant` instead of `constant operator column`, and NULL for a comparison with NULL.
fn turned(conjunct: &Expr) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = conjunct else { return None };
    let swapped = op.swap().filter(|_| op.returns_null_on_null())?;
    let is_null = |side: &Expr| matches!(side, Expr::Literal(value, _) if value.is_null());
    if is_null(left) || is_null(right) {
        return Some(Expr::Literal(ScalarValue::Boolean(None), None));
    }
    let is_constant = |side: &Expr| matches!(side, Expr::Literal(..));
    (is_constant(left) && !is_constant(right))
        .then(|| Expr::BinaryExpr(BinaryExpr::new(right.clone(), swapped, left.clone())))
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    fn after(mut condition: Expr) -> String {
        turn(&mut condition);
        condition.to_string()
    }

    #[test]
    fn a_constant_comes_to_stand_on_the_right_with_its_operator_turned() {
        assert_eq!(after(lit(7).eq(col("c"))), "c = Int32(7)");
        assert_eq!(after(lit(7).not_eq(col("c"))), "c != Int32(7)");
        assert_eq!(after(lit(7).lt(col("c")).and(lit(9).gt_eq(col("c")))), "c > Int32(7) AND c <= Int32(9)");
        assert_eq!(after(lit(7).gt(col("c") + lit(1))), "c + Int32(1) < Int32(7)");
    }

    #[test]
    fn what_is_compared_with_null_is_null() {
        let null = || Expr::Literal(ScalarValue::Int32(None), None);
        assert_eq!(after(col("c").gt(null()).and(col("c").gt(lit(5)))), "Boolean(NULL) AND c > Int32(5)");
        assert_eq!(after(null().eq(col("c"))), "Boolean(NULL)");
    }

    #[test]
    fn anything_else_stays_as_it_is() {
        for condition in [
            col("c").eq(lit(7)),
            col("c").eq(col("d")),
            lit(7).eq(col("c")).or(lit(8).eq(col("c"))),
            Expr::Literal(ScalarValue::Int32(None), None) + col("c"),
            Expr::IsNull(Box::new(col("c"))),
        ] {
            let mut same = condition.clone();
            assert!(!turn(&mut same), "{condition}");
            assert_eq!(same, condition);
        }
    }

    #[test]
    fn filters_above_each_other_and_above_a_join_are_turned_together() {
        let row = LogicalPlan::EmptyRelation(datafusion::logical_expr::EmptyRelation {
            produce_one_row: true,
            schema: Arc::new(datafusion::common::DFSchema::empty()),
        });
        let condition = || lit(7).lt(lit(1) + lit(2));
        let filter = |input| {
            let filter = datafusion::logical_expr::Filter::try_new(condition(), Arc::new(input));
            LogicalPlan::Filter(filter.expect("a condition"))
        };
        let turned = turned_plan(filter(filter(row)));
        assert!(turned.transformed);
        let LogicalPlan::Filter(upper) = turned.data else { panic!("a filter") };
        let LogicalPlan::Filter(lower) = &*upper.input else { panic!("a filter") };
        assert_eq!(upper.predicate.to_string(), "Int32(1) + Int32(2) > Int32(7)");
        assert_eq!(lower.predicate, upper.predicate);
    }
}
