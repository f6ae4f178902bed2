//! The operators of plans, and what runs them: workers, memory, spills.
//!
//! [`run_query`] drives a physical plan on a group of worker threads of its own ([`WorkerPool`]). [`insert_select`]
//! also writes the rows into a table, [`insert_rows`] writes rows that are in memory, without a plan. What all
//! operators of a statement share is its [`StatementRun`](hobt_table::StatementRun); what all statements share, the
//! [`Executor`].
//!
//! Leaves to others: what a statement means (`hobt-binder`), which operators a plan has (`hobt-planner`), permissions
//! and commit (`hobt-interpreter`).

mod again;
mod aggregate_scan;
mod alike;
mod cancel;
mod cancellable;
mod change;
mod choose;
mod columns;
mod exact_tests;
mod executor;
mod fence;
mod few_groups;
mod file_scan;
mod gather_scan;
mod group_scan;
mod held;
mod index_build;
mod index_join;
mod inputs;
mod insert;
mod join_conditions;
mod join_filter;
mod join_types;
mod keeping;
mod kept;
mod key_codes;
mod leaf_parameters;
mod lock_rows;
mod memory;
mod new_keys;
mod once;
mod one_thread;
mod own_thread;
mod path_rows;
mod places;
mod range_join;
mod rank_limit;
mod role;
mod row_lock;
mod row_locker;
mod row_tests;
mod runner;
mod scan_exec;
mod scan_expression;
mod seek_exec;
mod sort_input;
mod spill;
mod spill_join;
mod spill_window;
mod spool;
mod stop;
mod trace;
mod turn;
mod unordered;
mod unseen_rows;
mod workers;

pub use aggregate_scan::{AggregateScanExec, MakeTests};
pub use alike::Alike;
pub use cancel::CancelExpr;
pub use cancellable::cancellable;
pub use change::{ChangedRows, MergedParts, MergedRows, NewColumns, delete_rows, stored_columns, update_rows};
pub use choose::{ChooseExpr, choosing};
pub use columns::substituted;
pub use exact_tests::exact_tests;
pub use executor::Executor;
pub use fence::FenceExec;
pub use few_groups::{ROWS_OF_GROUP_MIN, grouping_few};
pub use file_scan::FileScanExec;
pub use gather_scan::GatheredScan;
pub use held::{Batches, HeldBatches, IntoBatches};
pub use index_build::IndexBuild;
pub use index_join::ShownIndexJoin;
pub use index_join::ShownLoops;
pub use index_join::{
    IndexJoinExec, Inner, InnerExec, Marks, OuterExec, PortionsCpu, Replaced, RowLoopsExec, Shows, Sought,
};
pub use inputs::replaced;
pub use insert::{
    DirectValue, Inserted, WriteTarget, insert_batches, insert_held, insert_plan, insert_rows, insert_select,
};
pub use join_conditions::{all_conditions, of_nullable};
pub use join_filter::{JoinFilter, KeyTapExec, LeafFilter, Tapped, TopFilter};
pub use kept::{KeptPlan, KeptUse};
pub use leaf_parameters::{LeafParameters, PlanLeaf};
pub use lock_rows::{LockRowsExec, LockRowsSettings};
pub use memory::Cancelled;
pub use memory::{
    MemoryGrant, MemoryRequest, MemoryWish, OperatorMemory, ResourceSemaphore, SemaphoreShown, Sizes, operators_runtime,
};
pub use new_keys::NewKeys;
pub use own_thread::{OwnThread, OwnTime};
pub use range_join::{Bound, RangeJoinExec, ShownRanges, Way, bounds_of};
pub use rank_limit::{RankLimit, RankLimitExec};
pub use role::{Exchange, Join, Passing, Role, is_exchange, role, without_role};
pub use row_lock::{FoundRows, lock_error, snapshot_conflict};
pub use row_tests::RowTest;
pub use runner::{Reader, gathered, is_one_stream, physical_plan, run_query};
pub use scan_exec::ScanExec;
pub use scan_expression::{ScanBelow, scan_below, scan_column, scan_number};
pub use seek_exec::SeekExec;
pub use sort_input::sorting_short_batches;
pub use spill_join::{SPILL_LEVEL, spilling};
pub use spill_window::spilling_windows;
pub use spool::{SpoolExec, SpoolReadExec, connecting_spools};
pub use trace::{Leaf, joined_column, trace};
pub use unordered::{Hides, UnorderedExec};
pub use unseen_rows::UnseenRowsExec;
pub use workers::{WORKER_THREAD, WorkerPool, WorkerReport};
