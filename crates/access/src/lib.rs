//! Allocation, heaps, the parallel scan with its page-range dispenser, and bulk insert.
//!
//! ```text
//! Storage        the data files of a database: which extents are free, proportional fill, growth
//!   Hobt         one heap: its runs of pages, row inserts and deletes, long values, what a bulk load publishes
//!     Loader     builds pages in private memory and writes them straight into runs of its own
//!     BTree      rows in the order of a key, whose pages are a Hobt's; a Cursor shows a range of keys leaf by leaf,
//!                a TreeSeek ranges as a statement sees them
//!     RowStore   the one or the other: where a partition's rows are
//!     Scan       a set of row stores cut into page ranges; workers draw ranges, read them, show each page to a visitor
//! ```
//!
//! A bulk load is invisible until it is published: its runs join the HOBT's list at the end of the statement. A row
//! that is inserted or deleted changes a page under its exclusive latch through [`hobt_page::apply`] and registers the
//! undo with the statement.
//!
//! Leaves to others: SQL types and Arrow arrays (crate `query`), which tables exist (`catalog`), table locks (`txn`).

mod btree;
mod change;
mod check;
mod error;
mod free_extents;
mod hobt;
mod load;
mod log_record;
mod page_set;
mod read_ahead;
mod recovery;
mod row_store;
pub mod scan;
mod storage;
mod visible;

pub use btree::{
    BTree, BTreeError, Cursor, Direction, KeyOfRange, KeyRange, KeysOfRange, Reorganized, SeekLeaf, SeekValues,
    ShowLeaf, ShowProgress, TreeBuilder, TreeDescription, TreeFault, TreeFigures, TreeKey, TreeKeyColumn, TreeSeek,
};
pub use check::{AllocationCheck, Finding};
pub use error::AccessError;
pub use hobt::{Hobt, LargeValues, Operations, ValueReader};
pub use load::{LoadColumn, LoadValues, LoadedRuns, Loader};
pub use recovery::{AskCoordinator, RecoverySummary, recover, recovered_decisions};
pub use row_store::RowStore;
pub use storage::{Allocated, DataFile, DataFileDescription, Storage, StorageSettings};
