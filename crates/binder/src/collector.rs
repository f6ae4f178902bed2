//! What the clauses of a `SELECT` collect for its groups and windows.

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use hobt_base::Position;
use hobt_types::SqlType;

/// The aggregates, groupings and windows in the clauses of a `SELECT`.
#[derive(Debug, Default)]
pub(super) struct Collector {
    /// Aggregates with the columns that stand for them.
    pub(super) aggregates: Vec<(Expr, Column)>,
    /// `GROUPING(x)`: the expression, and the column that stands for it.
    pub(super) groupings: Vec<(Expr, Column, Position)>,
    /// Windows with the columns that stand for them.
    pub(super) windows: Vec<(Expr, Column)>,
    /// The types of the aggregates' columns.
    pub(super) types: Vec<(Column, SqlType)>,
}
