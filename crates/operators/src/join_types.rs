//! Properties of kinds of joins, shared by join operators.

use datafusion::common::JoinType;

/// Whether a join outputs rows of its left side by whether they have had a partner: it reads its whole right side
/// first.
pub(crate) fn shows_left_by_partners(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark)
}

/// Every kind of join that an operator may be asked for.
#[cfg(test)]
pub(crate) const JOIN_TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];
