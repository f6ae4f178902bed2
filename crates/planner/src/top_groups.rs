//! `TOP n … ORDER BY` over groups without aggregates: the grouping keeps only the first groups.
//!
//! ```text
//!   Sort by #1, n rows
//!     Projection   #1 = k
//!       Aggregate  by k     keeps n groups, and that of NULL
//! ```
//! It stands for DataFusion's rule of this kind, which follows the column by its name and takes a window between for an
//! operator that needs no more rows than it gives. Here the column is followed by its place, and only through operators
//! that give each row of their input, or some of its columns. A window is none of these: its values depend on the rows
//! that would be missing.
//!
//! Groups with aggregates are left alone. hobt's do not say that they are the least or the greatest value, which is all
//! that the grouping could keep the best of.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, LimitOptions, topk_types_supported};
use datafusion::physical_plan::sorts::sort::SortExec;
use hobt_operators::{Passing, Role, replaced, role};

use crate::rewrite::rewritten;

type Plan = Arc<dyn ExecutionPlan>;

/// Gives the limits of sorts to groupings below them. It runs after the sorts are placed.
#[derive(Debug, Default)]
pub(crate) struct TopGroupsRule;

impl TopGroupsRule {
    /// The name of DataFusion's rule that it stands for.
    pub(crate) const INSTEAD_OF: &'static str = "LimitAggregation";
}

impl PhysicalOptimizerRule for TopGroupsRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        rewritten(plan, |node| match node.downcast_ref::<SortExec>() {
            Some(sort) => limited(node, sort),
            None => Ok(None),
        })
    }

    crate::named_rule!("hobt_top_groups");
}

/// The sort over groupings that keep the first groups; `None` if there is none to limit.
fn limited(node: &Plan, sort: &SortExec) -> Result<Option<Plan>> {
    let (Some(rows), [key]) = (sort.fetch(), &sort.expr()[..]) else { return Ok(None) };
    let limit = LimitOptions::new_with_order(rows, key.options.descending);
    let Some(fewer) = below(sort.input(), &key.expr, limit)? else { return Ok(None) };
    replaced(node, sort.input(), &fewer).map(Some)
}

/// The plan with its groupings by `key` limited; `None` if there are none.
fn below(plan: &Plan, key: &Arc<dyn PhysicalExpr>, limit: LimitOptions) -> Result<Option<Plan>> {
    if plan.fetch().is_some() {
        return Ok(None);
    }
    let role = role(plan.as_ref());
    if let Role::Group(groups) = role {
        return of_groups(groups, key, limit);
    }
    let passes = matches!(role, Role::Project(_) | Role::Exchange(_) | Role::Sort(_) | Role::Passes(Passing::Yields));
    let Some(key) = role.over_input(key).filter(|_| passes) else { return Ok(None) };
    let input = *plan.children().first().ok_or_else(|| internal_datafusion_err!("{} has no input", plan.name()))?;
    let Some(fewer) = below(input, &key, limit)? else { return Ok(None) };
    replaced(plan, input, &fewer).map(Some)
}

/// A grouping that keeps the first groups, over one that does if both are phases of the same; `None` if it groups by
/// other columns too, or has aggregates.
fn of_groups(groups: &AggregateExec, key: &Arc<dyn PhysicalExpr>, limit: LimitOptions) -> Result<Option<Plan>> {
    let by = groups.group_expr();
    let [(expr, _)] = by.expr() else { return Ok(None) };
    let is_by_key = key.downcast_ref::<Column>().is_some_and(|column| column.index() == 0);
    let data_type = expr.data_type(&groups.input().schema())?;
    let is_plain = is_by_key && !by.has_grouping_set() && groups.aggr_expr().is_empty();
    if !is_plain || !topk_types_supported(&data_type, &data_type) {
        return Ok(None);
    }
    let fewer: Plan = Arc::new(groups.with_new_limit_options(Some(limit)));
    if groups.mode().input_mode() == AggregateInputMode::Raw {
        return Ok(Some(fewer));
    }
    let Some(input) = below(groups.input(), expr, limit)? else { return Ok(Some(fewer)) };
    replaced(&fewer, groups.input(), &input).map(Some)
}
