//! Running plans: workers, scans, inserts.
//!
//! A [`StatementRun`] is a statement while it runs. [`run_query`] drives a physical plan on a group of worker threads
//! of its own ([`WorkerPool`]). [`insert_select`] also does so, and writes the rows into a table. [`insert_rows`]
//! writes rows that are in memory, without a plan.
//!
//! Leaves to others: what a statement means (`binder`), permissions and commit (`interpreter`).

mod again;
mod aggregate_scan;
mod aggregate_scan_rule;
mod cancel;
mod change;
mod expected;
mod explain;
mod extreme_seek;
mod index_build;
mod index_join;
mod inputs;
mod insert;
mod join_conditions;
mod join_filter;
mod join_types;
mod large_top;
mod lock_rows;
mod memory_figures;
mod noted_statistics;
mod once;
mod one_thread;
mod ordered_scan;
mod own_thread;
mod path_rows;
mod pending;
mod places;
mod profile;
mod projection_fence;
mod range_join;
mod row_lock;
mod row_locker;
mod runner;
mod scan_exec;
mod seek_exec;
mod sort_again;
mod spill_join;
mod statement;
mod stop;
mod table_scan;
mod trace;
mod turn;
mod unseen_rows;
mod workers;

pub use aggregate_scan_rule::AggregateScanRule;
pub(crate) use cancel::cancellable;
pub use change::{ChangedRows, HeldBatches, MergedRows, delete_rows, stored_columns, update_rows};
pub(crate) use explain::{Texts, explain, fills_new, memory_wish, outline, shape, spilled_bytes};
pub use explain::{changed_object, changes, running_plan};
pub use extreme_seek::ExtremeSeekRule;
pub use index_build::IndexBuild;
pub(crate) use index_join::believes_few_rows;
pub use index_join::{ForcedLoopRule, ForcedMergeRule, IndexJoinRule};
pub(crate) use insert::insert_plan;
pub use insert::{DirectValue, WriteTarget, insert_batches, insert_held, insert_rows, insert_select};
pub use join_filter::JoinFilterRule;
pub(crate) use large_top::sort_large_tops;
pub use lock_rows::LockRowsExec;
pub(crate) use lock_rows::LockRowsSettings;
pub use memory_figures::MemoryFigures;
pub use ordered_scan::OrderedScanRule;
pub(crate) use own_thread::{OwnThread, OwnTime};
pub use pending::PendingReasons;
pub use profile::{FilterProfile, OperatorProfile, WorkerProfile};
pub use projection_fence::FencedProjectionRule;
pub use range_join::RangeJoinRule;
pub use row_lock::{FoundRows, lock_error, snapshot_conflict};
pub use runner::{Reader, physical_plan, run_query};
pub(crate) use runner::{gathered, is_one_stream};
pub use scan_exec::ScanExec;
pub use seek_exec::SeekExec;
pub use sort_again::SortAgainRule;
pub(crate) use spill_join::spilling;
pub use statement::StatementRun;
pub(crate) use statement::Writing;
pub(crate) use table_scan::Planner;
pub(crate) use unseen_rows::UnseenRowsExec;
pub use workers::{WORKER_THREAD, WorkerPool, WorkerReport};
