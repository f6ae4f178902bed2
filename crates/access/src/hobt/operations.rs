//! Counts of the operations on a HOBT since it was opened: `sys.dm_db_index_operational_stats`.
//!
//! Writers count beside the number of rows, which they write anyway. A single look-up is not counted: that would be a
//! write shared by all readers.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Hobt;

/// One kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    LeafInsert,
    LeafUpdate,
    LeafDelete,
    LeafGhost,
    LeafAllocation,
    NonleafAllocation,
    RangeScan,
    LeafMerge,
}

/// How often each operation was done since the HOBT was opened. Operations that were undone count too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Operations {
    /// Rows inserted one at a time.
    pub leaf_inserts: u64,
    /// Rows replaced in place.
    pub leaf_updates: u64,
    /// Rows of a heap deleted.
    pub leaf_deletes: u64,
    /// Rows of a tree deleted, which makes them ghosts first.
    pub leaf_ghosts: u64,
    /// Pages for rows that were added one at a time; in a tree, each by a split.
    pub leaf_allocations: u64,
    /// Pages above the leaves, each added by a split.
    pub nonleaf_allocations: u64,
    /// Scans begun, whole or of a range.
    pub range_scans: u64,
    /// Leaves whose rows were moved to the leaf before them.
    pub leaf_merges: u64,
}

/// The counters behind [`Operations`].
#[derive(Debug, Default)]
pub(super) struct OperationCounters([AtomicU64; 8]);

impl Hobt {
    /// The operations since it was opened.
    pub fn operations(&self) -> Operations {
        let count = |operation: Operation| self.operations.0[operation as usize].load(Ordering::Relaxed);
        Operations {
            leaf_inserts: count(Operation::LeafInsert),
            leaf_updates: count(Operation::LeafUpdate),
            leaf_deletes: count(Operation::LeafDelete),
            leaf_ghosts: count(Operation::LeafGhost),
            leaf_allocations: count(Operation::LeafAllocation),
            nonleaf_allocations: count(Operation::NonleafAllocation),
            range_scans: count(Operation::RangeScan),
            leaf_merges: count(Operation::LeafMerge),
        }
    }

    pub(crate) fn note_operations(&self, operation: Operation, count: u64) {
        self.operations.0[operation as usize].fetch_add(count, Ordering::Relaxed);
    }
}
