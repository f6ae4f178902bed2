//! The expression of a constant.

use hobt_base::{Position, SqlError};
use hobt_tsql::ast::Literal;
use hobt_types::TypedValue;

use super::bound::{BoundExpr, Constant};
use hobt_table::literal_value;

/// The expression of a constant.
///
/// # Errors
/// As [`literal_value`].
pub(super) fn bind_literal(literal: &Literal, position: Position) -> Result<BoundExpr, SqlError> {
    let TypedValue { value, sql_type } = match literal {
        Literal::Null => return BoundExpr::null(position),
        other => literal_value(other, position)?,
    };
    let mut bound = BoundExpr::literal(value, sql_type, position)?;
    if matches!(literal, Literal::Integer(_)) {
        bound.constant = Constant::Integer;
    }
    Ok(bound)
}
