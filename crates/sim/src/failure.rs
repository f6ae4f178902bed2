//! The report of a failing seed, for this simulator and for the other one (crate `hobt-interleave`).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// The number of failures that are printed in full.
const FAILURES_SHOWN: usize = 5;

/// A violation.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that shows it.
    pub seed: u64,
    /// What it is.
    pub text: String,
    /// What was run before it, as far as it was kept.
    pub log: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.log {
            writeln!(f, "    {line}")?;
        }
        write!(f, "seed {}: {}", self.seed, self.text)
    }
}

impl std::error::Error for Failure {}

/// Runs `act`, and reports a panic as a violation.
///
/// # Errors
/// What `act` returns, or `a panic: ` and its text.
pub fn caught<T>(act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}

/// Prints how many seeds failed, and the first of them in full. Returns the exit code for a simulator's program.
pub fn conclude(failures: &[Failure]) -> ExitCode {
    println!("failures            {}", failures.len());
    for failure in failures.iter().take(FAILURES_SHOWN) {
        println!("\n{failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
