//! The experiments: each repeats a question from one of the texts, and answers it for this machine.

mod ascending;
mod backup;
mod cores;
mod extension;
mod files;
mod hash;
mod inserts;
mod io;
mod latches;
mod limits;
mod list;
mod load;
mod locks;
mod operators;
mod plan;
mod reader;
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
pub use list::{experiment_named, experiments};
pub(crate) use plan::{Plan, Tuning, plan_steps, run_plans};
pub(crate) use scan::{
    FormTables, clustered_plan, ensure_clustered, marks as scan_marks, notes as scan_notes, scan_plans,
};
pub use user::UserExperiment;

/// An experiment.
pub trait Experiment: Sync {
    /// Its name for `hobt lab run`.
    fn name(&self) -> &str;

    /// Its question.
    fn question(&self) -> &str;

    /// Creates its data, measures, and reports. Blocks until it is done.
    ///
    /// # Errors
    /// If the data cannot be created, a statement failed, or a result is inconsistent.
    fn run(&self, lab: &mut Laboratory) -> Result<Report>;

    /// Whether its cases are compared by bytes read per second, because all of them read whole tables. Otherwise a case
    /// that reads fewer bytes would look worse.
    fn compares_rates(&self) -> bool {
        false
    }

    /// A report of it that contains only where it ran.
    fn report(&self, lab: &Laboratory, limits: Limits, settings: Map<String, Value>) -> Report {
        Report {
            experiment: self.name().to_owned(),
            question: self.question().to_owned(),
            machine: lab.machine(),
            occasion: lab.occasion(),
            limits,
            settings,
            compares_rates: self.compares_rates(),
            findings: Vec::new(),
            cases: Vec::new(),
            marks: Vec::new(),
            tables: Vec::new(),
            notes: Vec::new(),
        }
    }
}
