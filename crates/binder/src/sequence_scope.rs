//! How `NEXT VALUE FOR` is bound in a part of a statement.

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use hobt_base::Entry;
use hobt_udf::NextValues;

/// What to do with a `NEXT VALUE FOR`.
#[derive(Debug)]
pub(super) enum SequenceScope {
    /// It becomes a column.
    Collect(Vec<NextValueColumn>),
    /// It is computed in place: in a row that a `MERGE` inserts, independently of the other rows.
    Inline,
    /// It is refused with this error.
    Refuse(Entry<0>),
}

/// A sequence that a query names, and the column with its values.
#[derive(Debug)]
pub(super) struct NextValueColumn {
    pub(super) values: NextValues,
    /// The number of the row in the order of `OVER`; `None` if there is no order.
    pub(super) number: Option<Expr>,
    pub(super) column: Column,
}

/// How far the query around a wrapped `INSERT` is bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Wrapped {
    /// There is no wrapped query.
    #[default]
    No,
    /// The wrapping query is bound next.
    Outside,
    /// Its only source is bound next: the statement's own query.
    Inside,
}

/// Whether a column's DEFAULT is being bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum InDefault {
    /// No.
    #[default]
    No,
    /// One that is to be defined.
    Checked,
    /// One whose value is needed.
    Bound,
}
