//! The experiments: each asks a question that a text asked before, and answers it for this machine.

mod ascending;
mod cores;
mod hash;
mod inserts;
mod io;
mod latches;
mod limits;
mod locks;
mod plan;
mod scan;
mod star;
mod together;
mod tpch;
mod updates;
mod user;

use serde_json::{Map, Value};

use crate::error::Result;
use crate::laboratory::Laboratory;
use crate::limits::Limits;
use crate::report::Report;
pub(crate) use plan::{Plan, Tuning, plan_steps, run_plans};
pub(crate) use scan::{
    FormTables, clustered_plan, ensure_clustered, marks as scan_marks, notes as scan_notes, scan_plans,
};
pub use user::UserExperiment;

/// An experiment.
pub trait Experiment: Sync {
    /// What `hobt lab run` calls it.
    fn name(&self) -> &str;

    /// What it asks.
    fn question(&self) -> &str;

    /// Makes its data, measures, and reports. Blocks for as long as that takes.
    ///
    /// # Errors
    /// The data cannot be made, a statement failed, a result contradicts itself.
    fn run(&self, lab: &mut Laboratory) -> Result<Report>;

    /// Whether its cases are measured by the bytes that they read in a second: all look at whole tables. A case that
    /// gets by with fewer would be the worse one.
    fn compares_rates(&self) -> bool {
        false
    }

    /// A report of it in which nothing stands yet but where it ran.
    fn report(&self, lab: &Laboratory, limits: Limits, settings: Map<String, Value>) -> Report {
        Report {
            experiment: self.name().to_owned(),
            question: self.question().to_owned(),
            machine: lab.machine(),
            limits,
            settings,
            compares_rates: self.compares_rates(),
            cases: Vec::new(),
            marks: Vec::new(),
            tables: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// The experiments that come with hobt.
pub fn experiments() -> [&'static dyn Experiment; 12] {
    [
        &scan::ScanExperiment,
        &cores::CoresExperiment,
        &io::IoExperiment,
        &inserts::InsertsExperiment,
        &updates::UpdatesExperiment,
        &star::StarExperiment,
        &tpch::TpchExperiment,
        &ascending::AscendingExperiment,
        &locks::LocksExperiment,
        &latches::LatchesExperiment,
        &hash::HashExperiment,
        &limits::LimitsExperiment,
    ]
}

/// The experiment of this name, in any letters.
pub fn experiment_named(name: &str) -> Option<&'static dyn Experiment> {
    experiments().into_iter().find(|experiment| experiment.name().eq_ignore_ascii_case(name))
}
