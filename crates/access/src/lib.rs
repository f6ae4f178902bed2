//! Storage access: extent allocation, heaps, B+trees, parallel scans and bulk loads.
//!
//! ```text
//! Storage        the data files of a database: which extents are free, proportional fill, growth
//!   Hobt         one heap: its runs of pages, row inserts and deletes, large values, publication of bulk loads
//!     Loader     builds pages in private memory and writes them straight into runs of its own
//!     BTree      rows in the order of a key, on the pages of a Hobt; a Cursor shows a range of keys leaf by leaf,
//!                a TreeSeek shows ranges as a statement sees them
//!     RowStore   a heap or a B+tree: where a partition's rows are
//!     Scan       a set of row stores cut into page ranges; workers draw ranges, read them, show each page to a visitor
//! ```
//!
//! A bulk load is invisible until it is published: at the end of the statement its runs join the HOBT's list. An insert
//! or delete of one row changes a page under its exclusive latch through [`hobt_page::apply`], and logs its undo with
//! it.
//!
//! Left to others: SQL types and Arrow arrays (crate `table`), the existing tables (`catalog`), table locks (`txn`).

mod btree;
mod change;
mod check;
mod error;
mod free_extents;
mod hobt;
mod left_open;
mod load;
mod log_record;
mod page_set;
mod read_ahead;
mod recovery;
mod redo;
mod rolled_pages;
mod row_store;
pub mod scan;
mod storage;
mod undo;
mod visible;

pub use btree::{
    BTree, BTreeError, Cursor, Direction, KeyOfRange, KeyRange, KeysOfRange, Reorganized, SeekLeaf, SeekValues,
    ShowLeaf, ShowProgress, TreeBuilder, TreeDescription, TreeFault, TreeFigures, TreeKey, TreeKeyColumn, TreeSeek,
};
pub use check::{AllocationCheck, Finding};
pub use error::AccessError;
pub use hobt::{Hobt, LargeValues, Operations, ValueReader};
pub use left_open::OpenTransaction;
pub use load::{LoadColumn, LoadValues, LoadedRuns, Loader};
pub use log_record::runs_loaded_by;
pub use recovery::{
    AskCoordinator, RecoveryPhase, RecoverySummary, ReportProgress, recover, recover_to_open, recovered_decisions,
};
pub use rolled_pages::RolledPages;
pub use row_store::RowStore;
pub use storage::deal::{FileShare, Fill};
pub use storage::{Allocated, CopyWatch, DataFile, DataFileDescription, Storage, StorageSettings, WrittenRun};
