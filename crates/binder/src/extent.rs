//! Limits the depth and size of a bound statement.
//!
//! The parser limits nesting, but a flat list in the text (operators, joins) becomes a tree as deep as the list is
//! long, and lists nest in lists, and views and common table expressions in each other. DataFusion walks deep trees on
//! a growing stack, but clones, compares, hashes, evaluates and drops them by plain recursion. So their depth is
//! limited by [`DEPTH_MAX`], which a thread with [`STACK_BYTES`] of stack can handle in a build without optimisation; a
//! test verifies this. A part of the text can occur in the plan many times (`COALESCE`, a common table expression that
//! is used twice), so the number of nodes is limited too.
//!
//! A tree is measured as it grows, before it becomes too deep to be dropped: each list that makes a tree deeper has at
//! most [`LIST_MAX`] entries, and the tree that it is added to has been measured.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use hobt_base::{SqlError, errors};

use super::Binder;
use crate::subquery_expr::plan_of;

/// The stack size of a thread that binds, plans and runs statements of any allowed depth. Untouched pages of it cost
/// nothing.
pub const STACK_BYTES: usize = 16 << 20;

/// The greatest depth of nodes of plans and expressions.
const DEPTH_MAX: usize = 512;
/// The greatest depth of nodes of plans. The time that DataFusion takes to plan joins grows with more than the third
/// power of their number, so the limit is lower than the stack would allow.
const PLAN_DEPTH_MAX: usize = 320;
/// The most entries of a list of which each entry makes the plan or an expression deeper.
const LIST_MAX: usize = 256;
/// The greatest nesting of parts that are bound: the parser's limit, twice, because views and functions have texts of
/// their own.
const LEVELS_MAX: usize = 320;
/// The most nodes of one expression, without its constants: SQL Server's limit of identifiers and constants in one.
const EXPRESSION_NODES_MAX: usize = 65_535;
/// The most nodes of one plan, without the expressions in it.
const PLAN_NODES_MAX: usize = 65_535;
/// The most windows of one select list: as many as it may have columns.
const WINDOWS_MAX: usize = 4096;

/// Refuses a list that is too long.
///
/// # Errors
/// 8631.
pub(super) fn check_list(length: usize) -> Result<(), SqlError> {
    if length > LIST_MAX { Err(errors::STATEMENT_TOO_DEEP.error()) } else { Ok(()) }
}

/// Refuses another window if there are too many already.
///
/// # Errors
/// Error 8623.
pub(super) fn check_windows(known: usize) -> Result<(), SqlError> {
    if known >= WINDOWS_MAX { Err(errors::PLAN_TOO_LARGE.error()) } else { Ok(()) }
}

/// Refuses an expression that is too deep or too large.
///
/// # Errors
/// 8631, 8632, 8623.
pub(super) fn check_expression(expr: &Expr) -> Result<(), SqlError> {
    Extent::default().expression(expr, 1)
}

/// Refuses a plan that is too deep or too large, including its expressions.
///
/// # Errors
/// Errors 8631, 8632, 8623.
pub(super) fn check_plan(plan: &LogicalPlan) -> Result<(), SqlError> {
    Extent::default().plan(plan, 1)
}

/// The counts so far. The walk keeps a list of nodes to visit; only subqueries are visited by recursion, which the
/// nesting limit bounds.
#[derive(Default)]
struct Extent {
    expressions: usize,
    plans: usize,
}

impl Extent {
    fn expression(&mut self, expr: &Expr, depth: usize) -> Result<(), SqlError> {
        let mut pending = vec![(expr, depth)];
        let limit = self.expressions + EXPRESSION_NODES_MAX;
        while let Some((expr, depth)) = pending.pop() {
            self.expressions += usize::from(!matches!(expr, Expr::Literal(..)));
            if depth > DEPTH_MAX {
                return Err(errors::STATEMENT_TOO_DEEP.error());
            }
            if self.expressions > limit {
                return Err(errors::EXPRESSION_TOO_LARGE.error());
            }
            if let Some(plan) = plan_of(expr) {
                self.plan(plan, depth + 1)?;
            }
            let visited = expr.apply_children(|child| {
                pending.push((child, depth + 1));
                Ok(TreeNodeRecursion::Continue)
            });
            visited.map_err(hobt_udf::sql_error_of)?;
        }
        Ok(())
    }

    fn plan(&mut self, plan: &LogicalPlan, depth: usize) -> Result<(), SqlError> {
        let mut pending = vec![(plan, depth)];
        while let Some((plan, depth)) = pending.pop() {
            self.plans += 1;
            if depth > PLAN_DEPTH_MAX {
                return Err(errors::STATEMENT_TOO_DEEP.error());
            }
            if self.plans > PLAN_NODES_MAX {
                return Err(errors::PLAN_TOO_LARGE.error());
            }
            // Rows of constants have been measured one by one.
            if !matches!(plan, LogicalPlan::Values(_)) {
                let mut outcome = Ok(());
                let visited = plan.apply_expressions(|expr| {
                    outcome = self.expression(expr, depth + 1);
                    Ok(if outcome.is_ok() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
                });
                visited.map_err(hobt_udf::sql_error_of)?;
                outcome?;
            }
            pending.extend(plan.inputs().into_iter().map(|input| (input, depth + 1)));
        }
        Ok(())
    }
}

impl Binder<'_> {
    /// Runs `bind` for a nested part of the statement.
    ///
    /// # Errors
    /// 8631 if the nesting is too deep; the errors of `bind`.
    pub(super) fn within<T>(&self, bind: impl FnOnce() -> Result<T, SqlError>) -> Result<T, SqlError> {
        let level = self.progress.level.get() + 1;
        if level > LEVELS_MAX {
            return Err(errors::STATEMENT_TOO_DEEP.error());
        }
        self.progress.level.set(level);
        let bound = bind();
        self.progress.level.set(level - 1);
        bound
    }
}
