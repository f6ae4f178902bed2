//! Statements and transactions: cancellation, memory, counters, undo; snapshots, row versions and locks.
//!
//! Every storage call that can wait, allocate or change a page takes a [`StatementContext`]. A change registers an undo
//! action. If the statement fails or is cancelled, [`StatementContext::roll_back`] runs those actions in reverse order.
//! If it succeeds, [`StatementContext::commit`] runs the deferred actions (freeing a dropped table's extents,
//! publishing loaded pages). A statement that ends neither way, because its thread panicked, is rolled back when the
//! last reference to its context is dropped. Values that must stay until then ([`StatementContext::hold`]: locks, its
//! entry in the list of running transactions) are dropped last.
//!
//! [`locks`] is the lock manager. [`RowLocks`] holds the tables whose rows a statement locks one by one.
//!
//! [`Transactions`] knows which transactions are running and what a reader sees. [`VersionStore`] has the earlier
//! versions of rows.
//!
//! Left to others: which locks a statement needs, and the decision to commit (crate `interpreter`).

mod chain;
mod checkpoint;
mod commit_time;
mod context;
mod decision;
mod global_transaction;
pub mod locks;
mod memory;
mod notes;
mod progress;
mod rebuilt;
mod recovered;
mod row_locks;
mod row_undo;
mod transaction;
mod transaction_table;
mod transactions;
mod undo;
mod undo_error;
mod undo_memory;
mod versions;
mod view;

pub use chain::{
    COMMIT_RECORD, DECISION_RECORD, DelayedDurability, END_RECORD, ENTRY_RECORD, LogChain, LogChains, MARK_RECORD,
    OpenChain, PREPARE_RECORD, TransactionLog, counted_bytes,
};
pub use commit_time::{LogMark, commit_time, decision_in_commit};
pub use context::{EarlierView, IoCounts, StatementContext, StatementContextSettings};
pub use decision::{RecoveredDecision, Settlements, read_commit, read_decision, read_prepare};
pub use global_transaction::{DatabaseGuid, GlobalTransaction};
pub use memory::{MemoryAccount, MemoryBudget, NoRoom, OutOfMemory, VersionsFull};
pub use progress::{Progress, ProgressUnit, time_left};
pub use rebuilt::{PagePiece, Pieces, RebuiltName, RebuiltRows};
pub use recovered::{RECOVERED_SESSION, RecoveredTransaction};
pub use row_locks::{EscalatesTo, RowId, RowLockSettings, RowLocks};
pub use row_undo::UndoRow;
pub use transaction::{Savepoint, Transaction};
pub use transaction_table::{ITEMS_MAX, RecordEffect, TransactionEntry, TransactionState};
pub use transactions::{Running, Snapshot, Transactions};
pub use undo::{UndoRecords, Undone};
pub use undo_error::UndoError;
pub use versions::{
    Before, HeapPage, KeyState, SpaceError, VersionError, VersionExtent, VersionFile, VersionSpace, VersionStore,
};
