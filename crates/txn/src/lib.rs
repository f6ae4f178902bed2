//! The statement context: cancellation, memory, counters, and what undoes a statement that failed.
//!
//! Every storage call that can wait, allocate or change a page takes a [`StatementContext`]. A change registers how it
//! is undone; when the statement fails or is cancelled, [`StatementContext::roll_back`] runs those actions in reverse,
//! and when it succeeds [`StatementContext::commit`] runs what was put off until then (freeing a dropped table's
//! extents, publishing loaded pages). A statement that nobody ended, because its thread panicked, is rolled back when the
//! last who has its context drops it. What is to stay until then ([`StatementContext::hold`]: locks, its place among the
//! running) goes last.
//!
//! Leaves to others: row versions and locks below the table (not there yet); who decides to commit (crate `query`).

mod context;
mod lock;
pub mod locks;
mod memory;

pub use context::{IoCounts, StatementContext, StatementContextSettings, UndoError};
pub use lock::{LockError, LockMode, ObjectLock, ObjectLocks, Patience};
pub use memory::{MemoryAccount, MemoryBudget, OutOfMemory};
