//! The statement context: cancellation, memory, counters, and what undoes a statement that failed; and the locks.
//!
//! Every storage call that can wait, allocate or change a page takes a [`StatementContext`]. A change registers how it
//! is undone; when the statement fails or is cancelled, [`StatementContext::roll_back`] runs those actions in reverse,
//! and when it succeeds [`StatementContext::commit`] runs what was put off until then (freeing a dropped table's
//! extents, publishing loaded pages). A statement that nobody ended, because its thread panicked, is rolled back when
//! the last who has its context drops it. What is to stay until then ([`StatementContext::hold`]: locks, its place
//! among the running) goes last.
//!
//! [`locks`] is the lock manager; [`RowLocks`] says which tables' rows a statement locks one by one.
//!
//! [`Transactions`] says who is running and what a reader sees; [`VersionStore`] has what stood in a row's place
//! before.
//!
//! Leaves to others: which locks a statement needs, and who decides to commit (crate `query`).

mod chain;
mod context;
mod decision;
pub mod locks;
mod memory;
mod notes;
mod progress;
mod row_locks;
mod transaction;
mod transactions;
mod undo_memory;
mod versions;

pub use chain::{
    COMMIT_RECORD, DECISION_RECORD, DelayedDurability, END_RECORD, LogChain, LogChains, OpenChain, PREPARE_RECORD,
    TransactionLog,
};
pub use context::{EarlierView, IoCounts, StatementContext, StatementContextSettings};
pub use decision::{
    DatabaseGuid, GlobalTransaction, RecoveredDecision, Settlements, read_commit, read_decision, read_prepare,
};
pub use memory::{MemoryAccount, MemoryBudget, NoRoom, OutOfMemory, VersionsFull};
pub use progress::Progress;
pub use row_locks::{EscalatesTo, RowId, RowLockSettings, RowLocks};
pub use transaction::{Savepoint, Transaction, UndoError};
pub use transactions::{Running, Snapshot, Transactions};
pub use versions::{Before, HeapPage, VersionStore};
