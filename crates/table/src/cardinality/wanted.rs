//! The columns of an optimised plan whose statistics would help its estimates: those of its conditions, equations and
//! groups.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::share::only_column;
use crate::TableRead;

/// A column of a table that a plan reads.
#[derive(Clone)]
pub struct WantedColumn {
    table: Arc<TableRead>,
    /// Its index in the table.
    pub column: usize,
}

impl fmt::Debug for WantedColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.table.table().name;
        write!(f, "{name}, column {}", self.column)
    }
}

impl WantedColumn {
    /// The column with index `column` of a table.
    pub fn new(table: Arc<TableRead>, column: usize) -> WantedColumn {
        WantedColumn { table, column }
    }

    /// The table.
    pub fn heap(&self) -> &Arc<TableRead> {
        &self.table
    }
}

/// The table columns that a plan's conditions, equations and groups use, each once.
pub fn wanted_columns(plan: &LogicalPlan) -> Vec<WantedColumn> {
    let mut found: Vec<WantedColumn> = Vec::new();
    let walked = plan.apply(|node| {
        match node {
            LogicalPlan::TableScan(scan) => note(node, scan.filters.iter(), &mut found),
            LogicalPlan::Filter(filter) => note(&filter.input, [&filter.predicate].into_iter(), &mut found),
            LogicalPlan::Join(join) => {
                note(&join.left, join.on.iter().map(|(left, _)| left), &mut found);
                note(&join.right, join.on.iter().map(|(_, right)| right), &mut found);
            }
            LogicalPlan::Aggregate(aggregate) => note(&aggregate.input, aggregate.group_expr.iter(), &mut found),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    // The closure never returns an error.
    let _visited = walked;
    found
}

fn note<'e>(below: &LogicalPlan, exprs: impl Iterator<Item = &'e Expr>, found: &mut Vec<WantedColumn>) {
    for column in exprs.flat_map(Expr::column_refs) {
        let Some(wanted) = origin(below, column, only_column) else { continue };
        let id = |wanted: &WantedColumn| (wanted.table.database().id(), wanted.table.table().id);
        let is_known = found.iter().any(|known| known.column == wanted.column && id(known) == id(&wanted));
        if !is_known {
            found.push(wanted);
        }
    }
}

/// The table column that a column of a plan comes from. `column_of` gives the one column that an expression stands for.
pub(super) fn origin(
    plan: &LogicalPlan,
    column: &Column,
    column_of: fn(&Expr) -> Option<&Column>,
) -> Option<WantedColumn> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let table = TableRead::of(&scan.source)?;
            let column = table.schema().index_of(&column.name).ok()?;
            (column < table.table().columns.len()).then_some(WantedColumn { table, column })
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let at = plan.schema().maybe_index_of_column(column)?;
            origin(&alias.input, &alias.input.schema().columns()[at], column_of)
        }
        LogicalPlan::Projection(projection) => {
            let at = plan.schema().maybe_index_of_column(column)?;
            origin(&projection.input, column_of(&projection.expr[at])?, column_of)
        }
        LogicalPlan::Join(join) => {
            let sides = [&join.left, &join.right];
            let side = sides.into_iter().find(|side| side.schema().maybe_index_of_column(column).is_some())?;
            origin(side, column, column_of)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let at = plan.schema().maybe_index_of_column(column)?;
            origin(&aggregate.input, column_of(aggregate.group_expr.get(at)?)?, column_of)
        }
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => {
            origin(plan.inputs().first()?, column, column_of)
        }
        _ => None,
    }
}
