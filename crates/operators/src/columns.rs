//! Expressions and the columns that they are made of.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::WindowExpr;

type Expr = Arc<dyn PhysicalExpr>;

/// `expr` with each column replaced; `None` if one has no definition.
pub fn substituted(expr: &Expr, definition: &dyn Fn(usize) -> Option<Expr>) -> Option<Expr> {
    let mut is_whole = true;
    let replaced = Arc::clone(expr).transform_up(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        match definition(column.index()) {
            Some(definition) => Ok(Transformed::yes(definition)),
            None => {
                is_whole = false;
                Ok(Transformed::no(node))
            }
        }
    });
    replaced.data().ok().filter(|_| is_whole)
}

/// Whether each of these windows treats only rows with one value of `expr` together.
pub(super) fn is_of_all_partitions(expr: &Expr, windows: &[Arc<dyn WindowExpr>]) -> bool {
    let columns = collect_columns(expr);
    windows.iter().all(|window| {
        let is_key = |column: &Column| {
            let keys = window.partition_by().iter();
            keys.filter_map(|key| key.downcast_ref::<Column>()).any(|key| key.index() == column.index())
        };
        columns.iter().all(is_key)
    })
}
