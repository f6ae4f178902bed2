//! Queries from their text to their rows, over tables in memory.

mod errors;
mod features;
mod formulas;
mod golden;
mod tpch;
// Of the binder's tests: a test module that two crates have.
#[path = "../../../binder/src/tests/stored.rs"]
mod stored;
mod world;
