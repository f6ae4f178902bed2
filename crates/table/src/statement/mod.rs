//! The data that all operators of one statement share.

mod memory_figures;
mod noted_statistics;
mod pending;
mod profile;
mod run;
mod steps;
pub use memory_figures::MemoryFigures;
pub use pending::PendingReasons;
pub use profile::{FilterCounts, FilterProfile, OperatorProfile, WorkerClock, WorkerProfile};
pub use run::{RunSettings, Running, StatementRun, Writing};
pub use steps::{PlanRows, Writes};
