//! The order of an index, for building one.

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, SortExpr};
use hobt_base::Position;
use hobt_catalog::TableColumn;
use hobt_types::SqlType;

use super::bound::{BoundExpr, ExprCollation};
use super::comparison::{has_key, key};

/// Whether values of a type compare by a sort key rather than directly.
pub fn has_sort_key(sql_type: SqlType) -> bool {
    has_key(sql_type)
}

/// The order of a column's values in an index: by the collation, NULL first, and reversed if it is descending.
pub fn column_order(column: Column, definition: &TableColumn, is_descending: bool) -> SortExpr {
    let bound = BoundExpr::new(Expr::Column(column), definition.sql_type, definition.nullable, Position::default());
    let bound = match definition.collation {
        Some(_) => bound.with_collation(ExprCollation::of_column(definition.collation)),
        None => bound,
    };
    SortExpr { expr: key(&bound), asc: !is_descending, nulls_first: !is_descending }
}
