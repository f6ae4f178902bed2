//! Room that deleted rows of the system tables have left.
//!
//! A heap puts rows at its end and does not use the room of deleted ones again. System tables change for as long as a
//! database lives: each update of statistics deletes the rows of the old ones. So a heap that has grown to twice what
//! it was is looked at, and written anew if less than half of it is in use.

use std::sync::atomic::Ordering;

use hobt_base::EXTENT_PAGES;
use hobt_instruments::rank::RankedGuard;
use hobt_instruments::schedule::RwLockWriteGuard;
use hobt_txn::StatementContext;

use crate::error::CatalogError;
use crate::heaps::{SystemHeap, SystemHeaps};
use crate::system::SystemTable;

/// While it exists, no row of a system table is read.
#[derive(Debug)]
pub struct WithoutReaders<'a> {
    _readers: RankedGuard<RwLockWriteGuard<'a, ()>>,
}

impl SystemHeaps {
    /// The tables whose heaps have more than twice the pages that they had when they were last [left](Self::leave), or
    /// more than two extents. Costs a latch for each system table.
    pub fn grown(&self) -> Vec<SystemTable> {
        let settled = |heap: &SystemHeap| heap.settled_pages.load(Ordering::Relaxed).max(u64::from(EXTENT_PAGES));
        let grown = self.heaps.iter().filter(|heap| heap.hobt.used_pages() > 2 * settled(heap));
        grown.map(|heap| heap.table).collect()
    }

    /// Whether less than half of a heap is in use. Reads all of it.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub fn is_sparse(&self, table: SystemTable) -> Result<bool, CatalogError> {
        let heap = self.heap(table);
        let pages = heap.used_pages();
        // In thousandths of pages.
        let mut used = 0;
        heap.for_each_page(&mut |_, page| {
            let live = (0..page.row_count()).filter(|&slot| !page.is_deleted(slot)).count();
            used += 1000 * live as u64 / (page.row_count() as u64).max(1);
            Ok(())
        })?;
        Ok(used < 500 * pages)
    }

    /// Waits until no row of a system table is read, and keeps it so. To be held until a [compaction's](Self::compact)
    /// transaction has ended: before that the rows are missing, or there twice.
    pub fn without_readers(&self) -> WithoutReaders<'_> {
        WithoutReaders { _readers: self.readers.write() }
    }

    /// Removes all rows of a table and inserts them again. The pages that are not used any more are free when the
    /// statement's transaction, which does nothing else, has committed. No other transaction may have changed rows of
    /// the table and still be open: its undo would not find them.
    ///
    /// # Errors
    /// As of any insert; the statement's roll-back undoes it.
    pub fn compact(
        &self,
        _alone: &WithoutReaders<'_>,
        ctx: &StatementContext,
        table: SystemTable,
    ) -> Result<(), CatalogError> {
        let heap = self.heap(table);
        // Rows of system tables have no values on pages of their own.
        let mut rows = Vec::new();
        heap.for_each_row(&mut |page, slot, view| {
            rows.push(view.row_image(slot).map_err(|damage| heap.damaged(page, damage))?);
            Ok(())
        })?;
        heap.truncate(ctx)?;
        rows.iter().try_for_each(|row| heap.insert(ctx, row).map(drop))?;
        Ok(())
    }

    /// Notes that a heap is as small as it gets for now: it has to double before it is [grown](Self::grown) again.
    pub fn leave(&self, table: SystemTable) {
        let heap = self.system_heap(table);
        heap.settled_pages.store(heap.hobt.used_pages(), Ordering::Relaxed);
    }
}
