//! Keeps grouping and sort columns that a key of another table only seems to determine.
//!
//! DataFusion gives the key of an aggregate's input the aggregate's whole row as what it determines. Over a join this
//! is wrong: the key of a grouped derived table says nothing of the other side's columns. A second GROUP BY, or an
//! ORDER BY, over such an aggregate then loses columns, and with them groups.
//!
//! So the two rules that remove columns by keys see no key wherever such an aggregate stands below. A key whose columns
//! do determine the row, as a primary key's in `GROUP BY id, name`, still shortens the grouping.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{FunctionalDependencies, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// A rule that removes columns by keys, made safe for keys that DataFusion makes too wide.
#[derive(Debug)]
pub(crate) struct SoundKeysRule {
    removes: Arc<dyn OptimizerRule + Send + Sync>,
}

impl SoundKeysRule {
    /// The names of the rules that remove columns by keys.
    pub(crate) const NAMES: [&'static str; 2] = ["optimize_projections", "eliminate_duplicated_expr"];

    /// Wraps the rule `removes`.
    pub(crate) fn around(removes: Arc<dyn OptimizerRule + Send + Sync>) -> SoundKeysRule {
        SoundKeysRule { removes }
    }
}

impl OptimizerRule for SoundKeysRule {
    fn name(&self) -> &str {
        self.removes.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.removes.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if self.removes.apply_order().is_some() {
            // Called for one node: a sort keeps its columns, which costs a comparison and no more.
            let keeps = matches!(&plan, LogicalPlan::Sort(sort) if has_wide_key(&sort.input)?);
            return match keeps {
                true => Ok(Transformed::no(plan)),
                false => self.removes.rewrite(plan, config),
            };
        }
        if !has_wide_key(&plan)? {
            return self.removes.rewrite(plan, config);
        }
        let fenced = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(aggregate) if has_wide_key(&aggregate.input)? => {
                let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
                let fenced =
                    Aggregate::try_new_with_schema(Arc::new(without_keys(input)?), group_expr, aggr_expr, schema)?;
                Ok(Transformed::yes(LogicalPlan::Aggregate(fenced)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        self.removes.rewrite(fenced.data, config)
    }
}

/// `input` below a projection that passes every column and knows no key. The rule that follows removes it.
fn without_keys(input: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let schema = input.schema().as_ref().clone().with_functional_dependencies(FunctionalDependencies::empty())?;
    let columns = schema.columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new_with_schema(columns, input, Arc::new(schema))?))
}

/// Whether `plan` has an aggregate with a key that is too wide.
fn has_wide_key(plan: &LogicalPlan) -> Result<bool> {
    let mut wide = false;
    plan.apply_with_subqueries(|node| {
        wide |= matches!(node, LogicalPlan::Aggregate(aggregate) if claims_too_much(aggregate));
        Ok(if wide { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(wide)
}

/// Whether fewer than all grouping columns are a key of `aggregate`'s result although they do not determine every
/// column that it groups by.
fn claims_too_much(aggregate: &Aggregate) -> bool {
    let input = aggregate.input.schema();
    let columns = |expr: &Expr| -> Option<Vec<usize>> {
        expr.column_refs().into_iter().map(|column| input.maybe_index_of_column(column)).collect()
    };
    let Some(grouping) = aggregate.group_expr.iter().map(columns).collect::<Option<Vec<_>>>() else { return true };
    aggregate.schema.functional_dependencies().iter().any(|key| {
        if key.source_indices.len() >= grouping.len() {
            return false;
        }
        let sources: Vec<usize> =
            key.source_indices.iter().filter_map(|index| grouping.get(*index)).flatten().copied().collect();
        let determined = |column: &usize| {
            sources.contains(column)
                || input.functional_dependencies().iter().any(|held| {
                    held.source_indices.iter().all(|source| sources.contains(source))
                        && held.target_indices.contains(column)
                })
        };
        !grouping.iter().flatten().all(determined)
    })
}
