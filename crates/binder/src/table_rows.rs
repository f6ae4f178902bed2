//! Queries of all rows of a table, for statements that check them or copy them elsewhere.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr};
use hobt_base::SqlError;
use hobt_catalog::{IndexKeyColumn, Table};
use hobt_table::TableRead;
use hobt_udf::{column_order, sql_error_of};

use crate::bound::{BoundQuery, ResultColumn};

/// The name of the table in these queries.
const SOURCE: &str = "source";

/// All rows of a table, with all of its columns.
///
/// # Errors
/// An internal error if there is no such plan.
pub fn all_rows(table: &Arc<TableRead>) -> Result<BoundQuery, SqlError> {
    let plan = LogicalPlanBuilder::scan(SOURCE, Arc::clone(table) as _, None).and_then(LogicalPlanBuilder::build);
    let columns: Vec<usize> = (0..table.table().columns.len()).collect();
    Ok(query_of(plan.map_err(sql_error_of)?, table.table(), &columns))
}

/// The columns `read` of all rows, and behind them the rows' positions, in the order of an index with the key `key`;
/// rows with equal keys in the order of their positions.
///
/// # Errors
/// An internal error if the table is read without positions.
pub fn rows_by_key(table: &Arc<TableRead>, key: &[IndexKeyColumn], read: &[usize]) -> Result<BoundQuery, SqlError> {
    let place = table.place_column().ok_or_else(|| SqlError::internal("a table without positions"))?;
    let (definition, schema) = (table.table(), table.schema());
    let column = |place: usize| Column::new(Some(SOURCE), schema.field(place).name());
    let order = key
        .iter()
        .map(|part| column_order(column(part.column), &definition.columns[part.column], part.is_descending))
        .chain([SortExpr { expr: Expr::Column(column(place)), asc: true, nulls_first: true }]);
    let shown = read.iter().copied().chain([place]);
    let plan = LogicalPlanBuilder::scan(SOURCE, Arc::clone(table) as _, None)
        .and_then(|plan| plan.sort(order.collect::<Vec<_>>()))
        .and_then(|plan| plan.project(shown.map(|place| Expr::Column(column(place)))))
        .and_then(LogicalPlanBuilder::build)
        .map_err(sql_error_of)?;
    Ok(query_of(plan, definition, read))
}

/// A query of a plan that returns some of a table's columns.
fn query_of(plan: LogicalPlan, table: &Table, columns: &[usize]) -> BoundQuery {
    let columns = columns.iter().map(|&place| {
        let column = &table.columns[place];
        ResultColumn {
            name: Some(column.name.clone()),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: column.collation,
        }
    });
    BoundQuery { plan, columns: columns.collect(), into: None, is_cacheable: false }
}
