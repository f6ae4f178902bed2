//! The laboratory: experiments, their data, their reports.
//!
//! An [`Experiment`] creates its data in a [`Laboratory`] (an instance in a folder), measures statements cold and warm,
//! and compares them with the machine's measured [`limits`]. The result is a [`Report`]: a table, a JSON object and a
//! page.
//!
//! ```text
//!  data ──► Laboratory ──► measure (one statement: time, CPU, waits, reads) ──► Case ──► Report ──► text, JSON, HTML
//!                 ▲                                                              ▲
//!           experiment/*: plans (statement × settings), run in turn         limits: disk, memory
//! ```
//!
//! The command line is in the crate `cli`, the execution of statements in `hobt-session` and below.

pub mod connection;
pub mod data;
mod demo;
mod error;
mod experiment;
mod figures;
mod fixtures;
mod folder;
mod laboratory;
pub mod limits;
mod machine;
mod measure;
mod occasion;
mod progress;
mod report;
mod run;
mod size;

pub use demo::{DEMO_FOLDER, DemoOptions, DemoResult, run_demo};
pub use error::{LabError, Result};
pub use experiment::{Experiment, UserExperiment, experiment_named, experiments};
pub use figures::{MedianInterval, median};
pub use fixtures::{FIXTURE_DATABASE, FixtureOptions, make_fixtures};
pub use folder::DataFolder;
pub use laboratory::{Build, DATABASE, Laboratory, RunOptions};
pub use machine::Machine;
pub use occasion::Occasion;
pub use progress::Progress;
pub use report::{Case, Grid, Mark, Report, compare, terminal_width};
pub use run::{DEFAULT_FOLDER, RunPlaces, run_experiment};
pub use size::{PartSize, PathPart, SizeAnswer, SizePlan, core_rate_from_report, measure_rates};

/// The disk with this name; `auto` for an unknown name.
pub fn disk_kind(name: &str) -> hobt_disk::DiskKind {
    hobt_disk::DiskKind::from_name(name).unwrap_or_default()
}
