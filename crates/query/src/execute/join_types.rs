//! All kinds of joins, for tests of operators that join.

use datafusion::common::JoinType;

/// Every kind that an operator may be asked for.
pub(in crate::execute) const JOIN_TYPES: [JoinType; 10] = [
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
