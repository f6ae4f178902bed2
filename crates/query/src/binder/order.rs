//! The order of an index, for who builds one.

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, SortExpr};
use hobt_base::Position;
use hobt_catalog::TableColumn;

use super::bound::{BoundExpr, ExprCollation};
use super::comparison::key;

/// The order of a column's values as an index has it: by the collation, NULL first, all of it reversed where the order is
/// descending.
pub fn column_order(column: Column, definition: &TableColumn, is_descending: bool) -> SortExpr {
    let bound = BoundExpr::new(Expr::Column(column), definition.sql_type, definition.nullable, Position::default());
    let bound = match definition.collation {
        Some(_) => bound.with_collation(ExprCollation::of_column(definition.collation)),
        None => bound,
    };
    SortExpr { expr: key(&bound), asc: !is_descending, nulls_first: !is_descending }
}
