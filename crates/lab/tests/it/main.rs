//! The laboratory's integration tests: tiny runs of every experiment, answers of its queries, fixtures, and TPC-H
//! from data to answers.

mod experiments;
mod fixtures;
mod operators;
mod tpch;

use std::path::{Path, PathBuf};

/// A folder below the system's temporary one, removed when dropped.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> TestFolder {
        let path = std::env::temp_dir().join(format!("hobt-lab-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        TestFolder(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}
