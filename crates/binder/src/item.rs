//! An item of a select list.

use super::bound::BoundExpr;

/// An item of the select list.
pub(super) struct Item {
    pub(super) name: Option<String>,
    pub(super) value: BoundExpr,
}
