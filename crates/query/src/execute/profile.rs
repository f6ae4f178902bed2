//! Rows by worker of each operator that keeps count: what `sys.dm_exec_query_profiles` shows.

use std::sync::atomic::{AtomicU64, Ordering};

/// One operator of a running or finished statement.
#[derive(Debug)]
pub struct OperatorProfile {
    /// The operator's name, as SQL Server calls it: `Table Scan`.
    pub operator: &'static str,
    /// The table it works on.
    pub table: String,
    rows: Vec<AtomicU64>,
    grants: Vec<AtomicU64>,
}

impl OperatorProfile {
    /// An operator with `workers` workers that have done nothing yet.
    pub fn new(operator: &'static str, table: String, workers: usize) -> OperatorProfile {
        let zeros = || (0..workers).map(|_| AtomicU64::new(0)).collect();
        OperatorProfile { operator, table, rows: zeros(), grants: zeros() }
    }

    /// Sets what a worker has done so far.
    pub fn set(&self, worker: usize, rows: u64, grants: u64) {
        self.rows[worker].store(rows, Ordering::Relaxed);
        self.grants[worker].store(grants, Ordering::Relaxed);
    }

    /// Rows of each worker.
    pub fn rows(&self) -> Vec<u64> {
        self.rows.iter().map(|rows| rows.load(Ordering::Relaxed)).collect()
    }

    /// Page ranges that each worker took.
    pub fn grants(&self) -> Vec<u64> {
        self.grants.iter().map(|grants| grants.load(Ordering::Relaxed)).collect()
    }
}
