//! Sort keys: what text and `varbinary` compare by, and the order of a column in an index.

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, SortExpr};
use hobt_base::Position;
use hobt_catalog::TableColumn;
use hobt_types::SqlType;

use super::{Kernel, Operation};

/// Whether values of the type can be equal without being identical, so that they compare by a sort key.
pub fn has_sort_key(sql_type: SqlType) -> bool {
    sql_type.is_text() || matches!(sql_type, SqlType::VarBinary(_))
}

/// The order of a column's values in an index: by the collation, NULL first, and reversed if it is descending.
pub fn column_order(column: Column, definition: &TableColumn, is_descending: bool) -> SortExpr {
    let key = match definition.sql_type {
        SqlType::VarBinary(_) => Some(Operation::BinaryKey),
        sql_type if sql_type.is_text() => Some(Operation::SortKey(definition.collation.unwrap_or_default())),
        _ => None,
    };
    let value = Expr::Column(column);
    let expr = match key {
        Some(operation) => Kernel::call(operation, vec![value], Position::default()),
        None => value,
    };
    SortExpr { expr, asc: !is_descending, nulls_first: !is_descending }
}
