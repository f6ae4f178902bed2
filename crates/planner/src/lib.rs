//! The planner: makes the running plan of a bound one.
//!
//! DataFusion's optimiser and physical planner do most of it. This crate has the session that configures them, the
//! rules that are added to theirs (join order, index joins, range joins, filters of joins, orders that an index gives),
//! the scans of tables, the estimates of a physical plan's rows, and what is shown of a plan.
//!
//! Leaves to others: types and names (`hobt-binder`), how a table's rows are estimated (`hobt-table`), running
//! (`hobt-operators`).

/// The name of a physical rule, and that it keeps the schema.
macro_rules! named_rule {
    ($name:literal) => {
        fn name(&self) -> &'static str {
            $name
        }

        fn schema_check(&self) -> bool {
            true
        }
    };
}
pub(crate) use named_rule;

mod aggregate_scan;
mod bare_window;
mod distinct_aggregates;
mod eager_group;
mod empty_subquery;
mod equations;
mod expected;
mod explain;
mod extreme_seek;
mod group_keys;
mod index_join;
mod join_filter;
mod join_order;
mod kept_query;
mod large_top;
mod lateral;
mod one_phase;
mod ordered_scan;
mod plan_rows;
mod prepare;
mod projection_fence;
mod pushed_conditions;
mod range_join;
mod rank_limit;
mod rewrite;
mod row_of_nothing;
mod session;
mod sort_again;
mod spools;
mod table_scan;
#[cfg(test)]
mod tests;
mod top_filter;
mod top_groups;
mod transferred_conditions;
mod untrue;
pub use aggregate_scan::AggregateScanRule;
pub use explain::{
    Texts, changed_object, changes, explain, fills_new, memory_wish, outline, running_plan, shape, spilled_bytes,
};
pub use extreme_seek::ExtremeSeekRule;
pub use index_join::{ForcedLoopRule, ForcedMergeRule, IndexJoinRule, believes_few_rows};
pub use join_filter::JoinFilterRule;
pub use join_order::JoinOrderRule;
pub use kept_query::KeptQuery;
pub use large_top::sort_large_tops;
pub use ordered_scan::OrderedScanRule;
pub use prepare::{FinishPlan, PhysicalPlan, Planned, Planning, Prepared};
pub use projection_fence::FencedProjectionRule;
pub use range_join::RangeJoinRule;
pub use session::{optimize, session_config, session_state};
pub use sort_again::SortAgainRule;
pub use table_scan::Planner;
