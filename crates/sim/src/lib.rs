//! The simulator: instances on an in-memory disk that loses its power, and checks that nothing is lost.
//!
//! One seed decides everything: what is done (`script.rs`, `statement.rs`), at which disk operation the power fails,
//! what that leaves of the writes in progress, and whether it fails again during recovery (`simulation.rs`). A model in
//! memory (`model.rs`) knows of each commit whether it was acknowledged. After each start everything is read back:
//!
//! ```text
//!   script ──► instance ──► simulated disk ──✂──► what a power failure leaves
//!      │                                                      │ start, recovery (cut off again, some times)
//!      └──► model: acknowledged │ in doubt │ undone  ◄── compare ──┘
//! ```
//!
//! * what was acknowledged is there, and nothing else. A commit in progress when the power failed is there completely
//!   or not at all, in all databases that its transaction changed. Of the commits acknowledged with delayed durability,
//!   the last ones may be gone;
//! * the catalog lists exactly the tables, and `master` exactly the databases;
//! * the row counts are right, and [`hobt_engine::Database::check`] finds nothing;
//! * nothing panics, and without a crash nothing fails.
//!
//! Everything runs on the caller's thread, so the same seed does the same disk operations in the same order
//! ([`Report::trace`]). With [`Options::faults`] operations fail instead of the power.
//!
//! Not here: several threads at once, SQL, real devices (the tests of crate `cli` kill real processes).

mod build;
mod check;
mod definitions;
pub mod failure;
mod model;
mod partitions;
mod rows;
mod script;
mod sequences;
mod simulation;
mod statement;

use hobt_disk::{Fault, Operation};

pub use failure::Failure;
pub use simulation::OPERATIONS;

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The maximum number of script steps between two starts of the instance.
    pub steps: u64,
    /// The maximum number of starts of the instance.
    pub lives: u64,
    /// Operations that fail, counted from the first step on. With faults the power does not fail.
    pub faults: Vec<Fault>,
    /// Operations that do nothing and report success, counted from the first step on.
    pub lies: Vec<Fault>,
    /// Whether the power fails.
    pub crashes: bool,
    /// Whether what a crash has left open is undone behind the opening, in steps between which the power may fail and
    /// the instance be closed.
    pub undoes_behind: bool,
    /// Whether the instance has a buffer pool extension.
    pub is_extended: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            steps: 40,
            lives: 4,
            faults: Vec::new(),
            lies: Vec::new(),
            crashes: true,
            undoes_behind: false,
            is_extended: false,
        }
    }
}

/// The results of a simulation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// A checksum of all disk operations and all results: equal for equal seeds.
    pub trace: u64,
    /// Power failures while the script ran.
    pub crashes: u64,
    /// Power failures while the instance started.
    pub crashes_in_recovery: u64,
    /// Commits that were acknowledged.
    pub commits: u64,
    /// Those that changed more than one database.
    pub commits_across: u64,
    /// Those that were acknowledged before they had to be durable.
    pub commits_delayed: u64,
    /// Data files that were removed.
    pub files_removed: u64,
    /// Commits in progress when the power failed or an operation failed.
    pub doubtful: u64,
    /// Statements.
    pub statements: u64,
    /// Statements that failed because a disk operation failed.
    pub errors: u64,
    /// Pages that came from the buffer pool extension.
    pub pages_from_extension: u64,
    /// Starts of the instance.
    pub starts: u64,
    /// Undos behind an opening that a power failure or a close has interrupted.
    pub undos_interrupted: u64,
    /// Rows that were read back and compared.
    pub rows_checked: u64,
    /// Disk operations of each kind of [`OPERATIONS`] from the first step on.
    pub operations: [u64; OPERATIONS.len()],
}

impl Report {
    /// The number of operations of one kind.
    pub fn operations_of(&self, operation: Operation) -> u64 {
        OPERATIONS.iter().zip(self.operations).find(|(kind, _)| **kind == operation).map_or(0, |(_, count)| count)
    }

    /// Adds the counts of another report; the trace is not changed.
    pub fn add(&mut self, other: &Report) {
        self.crashes += other.crashes;
        self.crashes_in_recovery += other.crashes_in_recovery;
        self.commits += other.commits;
        self.commits_across += other.commits_across;
        self.commits_delayed += other.commits_delayed;
        self.files_removed += other.files_removed;
        self.doubtful += other.doubtful;
        self.statements += other.statements;
        self.errors += other.errors;
        self.pages_from_extension += other.pages_from_extension;
        self.starts += other.starts;
        self.undos_interrupted += other.undos_interrupted;
        self.rows_checked += other.rows_checked;
        for (sum, count) in self.operations.iter_mut().zip(other.operations) {
            *sum += count;
        }
    }
}

/// Runs the world of a seed.
///
/// # Errors
/// A violation was found; a panic counts as one.
pub fn simulate(seed: u64, options: &Options) -> Result<Report, Failure> {
    let mut simulation = simulation::Simulation::new(seed, options);
    let outcome = failure::caught(|| simulation.run());
    outcome.map_err(|text| Failure { seed, text, log: simulation.take_events() })
}
