//! The laboratory: experiments, their data, their reports.
//!
//! An [`Experiment`] makes its data in a [`Laboratory`] (an instance in a folder), measures statements cold and warm
//! beside the machine's measured [`limits`], and gives a [`Report`] that is a table, a JSON object and a page.
//!
//! ```text
//!  data ──► Laboratory ──► measure (one statement: time, CPU, waits, reads) ──► Case ──► Report ──► text, JSON, HTML
//!                 ▲                                                              ▲
//!           experiment/*: plans (statement × settings), run in turn         limits: disk, memory
//! ```
//!
//! Leaves to others: the command line (crate `hobt`), what a statement does (`hobt-session` and below).

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
pub use progress::Progress;
pub use report::{Case, Grid, Mark, Report, compare, terminal_width};
pub use run::{DEFAULT_FOLDER, RunPlaces, run_experiment};
pub use size::{PartSize, PathPart, SizeAnswer, SizePlan, core_rate_from_report, measure_rates};

/// The disk of this name; `auto` for a name that is none.
pub fn disk_kind(name: &str) -> hobt_disk::DiskKind {
    hobt_disk::DiskKind::from_name(name).unwrap_or_default()
}
