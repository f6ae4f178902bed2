//! What tests of several crates share: the driver of fuzz targets, an allocator that counts, golden files.
//!
//! No program depends on it; other crates name it under `[dev-dependencies]`.

mod allocations;
mod fuzz;
mod golden;

pub use allocations::allocated_at_most;
pub use bolero;
pub use fuzz::{FuzzTarget, ITERATIONS, check_corpus};
pub use golden::{check_golden, is_blessed};
