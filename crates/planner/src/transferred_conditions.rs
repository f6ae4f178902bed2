//! Keeps conditions that can fail from being transferred to the other side of an equation.
//!
//! DataFusion's rule that pushes conditions down also infers new ones: `a.k = b.k AND f(b.k)` gives `f(a.k)`, which it
//! tests on all rows of `a`, with or without a partner. `f` may be defined only for values of `b.k`: a `bit` fits into
//! `decimal(3, 2)`, a `tinyint` does not; a divisor that is never 0 in `b` may be 0 in `a`. The rule sees neither,
//! because both columns have one carrier.
//!
//! So while it runs, equations whose columns such conditions read are hidden from it. Conditions that fail for no value
//! (comparisons, ranges, lists, keys of text) are inferred as before.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, ExprSchemable, Join, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use hobt_udf::{Kernel, Operation};

/// Wraps a rule that pushes conditions down and infers others.
#[derive(Debug)]
pub(super) struct TransferredConditionsRule {
    pushes: Arc<dyn OptimizerRule + Send + Sync>,
}

impl TransferredConditionsRule {
    /// Wraps the rule `pushes`.
    pub(super) fn around(pushes: Arc<dyn OptimizerRule + Send + Sync>) -> TransferredConditionsRule {
        TransferredConditionsRule { pushes }
    }
}

impl OptimizerRule for TransferredConditionsRule {
    fn name(&self) -> &str {
        self.pushes.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.pushes.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let Some(hidden) = hide(&plan)? else { return self.pushes.rewrite(plan, config) };
        let equations = join_of(&hidden).map(|join| join.on.len());
        let mut pushed = self.pushes.rewrite(hidden, config)?;
        // The rule keeps the join's equations as they are, or drops the join with them.
        if let (Some(known), Some(join)) = (join_of(&plan), join_of_mut(&mut pushed.data))
            && equations == Some(join.on.len())
        {
            join.on = known.on.clone();
        }
        Ok(pushed)
    }
}

/// The join below the filters at the top of a plan.
fn join_of(plan: &LogicalPlan) -> Option<&Join> {
    match plan {
        LogicalPlan::Join(join) => Some(join),
        LogicalPlan::Filter(filter) => join_of(&filter.input),
        _ => None,
    }
}

fn join_of_mut(plan: &mut LogicalPlan) -> Option<&mut Join> {
    match plan {
        LogicalPlan::Join(join) => Some(join),
        LogicalPlan::Filter(filter) => join_of_mut(Arc::make_mut(&mut filter.input)),
        _ => None,
    }
}

/// The plan with the equations hidden that may not transfer conditions; `None` if there are none.
fn hide(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let Some(join) = join_of(plan).filter(|join| !join.on.is_empty()) else { return Ok(None) };
    let mut conditions: Vec<&Expr> = join.filter.iter().collect();
    let mut above = plan;
    while let LogicalPlan::Filter(filter) = above {
        conditions.push(&filter.predicate);
        above = &filter.input;
    }
    let conjuncts = conditions.into_iter().flat_map(split_conjunction);
    let bound: HashSet<&Column> =
        conjuncts.filter(|conjunct| can_fail(conjunct, join)).flat_map(Expr::column_refs).collect();
    let is_bound = |side: &Expr| side.try_as_col().is_some_and(|column| bound.contains(column));
    if !join.on.iter().any(|(left, right)| is_bound(left) || is_bound(right)) {
        return Ok(None);
    }
    let on = join.on.iter().cloned().map(|(left, right)| match is_bound(&left) || is_bound(&right) {
        // The rule transfers conditions between plain columns only.
        true => (hidden(left), hidden(right)),
        false => (left, right),
    });
    let on = on.collect();
    let mut made = plan.clone();
    if let Some(join) = join_of_mut(&mut made) {
        join.on = on;
    }
    Ok(Some(made))
}

fn hidden(side: Expr) -> Expr {
    match &side {
        Expr::Column(column) => {
            let name = column.name.clone();
            side.alias(name)
        }
        _ => side,
    }
}

/// Whether a condition may fail for some value of its columns' carriers.
fn can_fail(condition: &Expr, join: &Join) -> bool {
    let mut fails = false;
    let walked = condition.apply(|node| {
        fails |= match node {
            Expr::Column(_)
            | Expr::Literal(..)
            | Expr::Alias(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
            | Expr::Between(_)
            | Expr::InList(_)
            | Expr::Case(_) => false,
            Expr::BinaryExpr(binary) => {
                !(binary.op.supports_propagation()
                    || matches!(
                        binary.op,
                        Operator::NotEq
                            | Operator::And
                            | Operator::Or
                            | Operator::IsDistinctFrom
                            | Operator::IsNotDistinctFrom
                    ))
            }
            Expr::Cast(cast) => {
                let of = |side: &LogicalPlan| cast.expr.get_type(side.schema()).ok();
                let from = of(&join.left).or_else(|| of(&join.right));
                !from.is_some_and(|from| widens(&from, cast.field.data_type()))
            }
            Expr::ScalarFunction(call) => {
                let kernel = call.func.inner().downcast_ref::<Kernel>();
                !kernel.is_some_and(|kernel| {
                    matches!(
                        kernel.operation(),
                        Operation::SortKey(_)
                            | Operation::BinaryKey
                            | Operation::Like(_)
                            | Operation::Nullable(_)
                            | Operation::Junction { .. }
                    )
                })
            }
            _ => true,
        };
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    fails || walked.is_err()
}

/// Whether each value of a type has one of the other.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType as D;
    let digits = |of: &DataType| match of {
        D::UInt8 => Some(3),
        D::Int16 => Some(5),
        D::Int32 => Some(10),
        D::Int64 => Some(19),
        _ => None,
    };
    match (from, to) {
        (from, to) if from == to => true,
        (D::UInt8, D::Int16 | D::Int32 | D::Int64) | (D::Int16, D::Int32 | D::Int64) | (D::Int32, D::Int64) => true,
        (D::UInt8 | D::Int16 | D::Int32 | D::Int64, D::Float32 | D::Float64) | (D::Float32, D::Float64) => true,
        (D::Decimal128(precision, scale), D::Decimal128(wider, finer)) => {
            finer >= scale && i16::from(*wider) - i16::from(*finer) >= i16::from(*precision) - i16::from(*scale)
        }
        (from, D::Decimal128(precision, scale)) => {
            digits(from).is_some_and(|digits| i16::from(*precision) - i16::from(*scale) >= digits)
        }
        _ => false,
    }
}
