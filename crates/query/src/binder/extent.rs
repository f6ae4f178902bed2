//! How deep and how large a bound statement may get.
//!
//! The parser limits what nests, but a flat list in the text (operators, joins) is a tree here that is as deep as the
//! list is long, and lists nest in lists, views and common table expressions in each other. DataFusion walks deep trees
//! on a growing stack, but clones, compares, hashes, evaluates and drops them by plain recursion, so their depth is
//! limited: by [`DEPTH_MAX`], which a thread of [`STACK_BYTES`] stands in a build without optimisation; a test holds it
//! to that. What stands once in the text can stand in the plan many times over (`COALESCE`, a common table expression
//! that is used twice), so the number of nodes is limited too.
//!
//! A tree is measured as it grows, before it can be too deep to be dropped: each list that makes a tree deeper is at
//! most [`LIST_MAX`] long, and what it was built on has been measured.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use hobt_base::SqlError;

use super::Binder;
use super::subquery::plan_of;

/// The stack of a thread that binds, plans and runs statements of any depth that is let through. Untouched pages of it
/// cost nothing.
pub const STACK_BYTES: usize = 16 << 20;

/// How many nodes of plans and expressions may lie below each other.
const DEPTH_MAX: usize = 512;
/// How many nodes of plans may. The time that DataFusion takes to plan joins grows with more than the third power of
/// their number, so fewer are let through than a stack could hold.
const PLAN_DEPTH_MAX: usize = 320;
/// How long a list may be that makes the plan or an expression deeper with each entry.
const LIST_MAX: usize = 256;
/// Parts of a text that are bound within each other: the depth that the parser lets through, and that again for the
/// text of views and functions.
const LEVELS_MAX: usize = 320;
/// Nodes of one expression without its constants: SQL Server's limit of identifiers and constants in one.
const EXPRESSION_NODES_MAX: usize = 65_535;
/// Nodes of one plan, without the expressions in it.
const PLAN_NODES_MAX: usize = 65_535;
/// Windows of one select list: as many as it may have columns.
const WINDOWS_MAX: usize = 4096;

/// 8631.
fn too_deep() -> SqlError {
    let text = "Internal error: Server stack limit has been reached. Please look for potentially deep nesting in your \
                query, and try to simplify it.";
    SqlError { severity: 17, ..SqlError::new(8631, text) }
}

/// 8632.
fn expression_too_large() -> SqlError {
    let text = "Internal error: An expression services limit has been reached. Please look for potentially complex \
                expressions in your query, and try to simplify them.";
    SqlError { severity: 17, ..SqlError::new(8632, text) }
}

/// 8623.
fn plan_too_large() -> SqlError {
    let text = "The query processor ran out of internal resources and could not produce a query plan. This is a rare \
                event and only expected for extremely complex queries or queries that reference a very large number of \
                tables or partitions. Please simplify the query.";
    SqlError::new(8623, text)
}

/// Refuses a list that is too long.
///
/// # Errors
/// 8631.
pub(super) fn check_list(length: usize) -> Result<(), SqlError> {
    if length > LIST_MAX { Err(too_deep()) } else { Ok(()) }
}

/// Refuses another window where there are so many already.
///
/// # Errors
/// 8623.
pub(super) fn check_windows(known: usize) -> Result<(), SqlError> {
    if known >= WINDOWS_MAX { Err(plan_too_large()) } else { Ok(()) }
}

/// Refuses an expression that is too deep or too large.
///
/// # Errors
/// 8631, 8632, 8623.
pub(super) fn check_expression(expr: &Expr) -> Result<(), SqlError> {
    Extent::default().expression(expr, 1)
}

/// Refuses a plan that is too deep or too large, with what stands in its expressions.
///
/// # Errors
/// 8631, 8632, 8623.
pub(super) fn check_plan(plan: &LogicalPlan) -> Result<(), SqlError> {
    Extent::default().plan(plan, 1)
}

/// What has been counted so far. The walk keeps its own list of what is to be visited; only subqueries are visited by
/// recursion, which the levels limit.
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
                return Err(too_deep());
            }
            if self.expressions > limit {
                return Err(expression_too_large());
            }
            if let Some(plan) = plan_of(expr) {
                self.plan(plan, depth + 1)?;
            }
            let visited = expr.apply_children(|child| {
                pending.push((child, depth + 1));
                Ok(TreeNodeRecursion::Continue)
            });
            visited.map_err(crate::wrap::sql_error_of)?;
        }
        Ok(())
    }

    fn plan(&mut self, plan: &LogicalPlan, depth: usize) -> Result<(), SqlError> {
        let mut pending = vec![(plan, depth)];
        while let Some((plan, depth)) = pending.pop() {
            self.plans += 1;
            if depth > PLAN_DEPTH_MAX {
                return Err(too_deep());
            }
            if self.plans > PLAN_NODES_MAX {
                return Err(plan_too_large());
            }
            // Rows of constants were measured one by one.
            if !matches!(plan, LogicalPlan::Values(_)) {
                let mut outcome = Ok(());
                let visited = plan.apply_expressions(|expr| {
                    outcome = self.expression(expr, depth + 1);
                    Ok(if outcome.is_ok() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
                });
                visited.map_err(crate::wrap::sql_error_of)?;
                outcome?;
            }
            pending.extend(plan.inputs().into_iter().map(|input| (input, depth + 1)));
        }
        Ok(())
    }
}

impl Binder<'_> {
    /// Binds a part of what is being bound.
    ///
    /// # Errors
    /// 8631 where too many lie within each other, and those of `bind`.
    pub(super) fn within<T>(&self, bind: impl FnOnce() -> Result<T, SqlError>) -> Result<T, SqlError> {
        let level = self.progress.level.get() + 1;
        if level > LEVELS_MAX {
            return Err(too_deep());
        }
        self.progress.level.set(level);
        let bound = bind();
        self.progress.level.set(level - 1);
        bound
    }
}
