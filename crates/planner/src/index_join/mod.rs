//! Which joins look up their inner table by an index.

mod few_rows;
mod forced;
mod merge;
mod range_loops;
mod rule;
pub use few_rows::believes_few_rows;
pub use forced::ForcedLoopRule;
pub use merge::ForcedMergeRule;
pub use rule::IndexJoinRule;
