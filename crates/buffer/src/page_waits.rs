//! Waits for pages by the heap or tree that they belong to: `sys.dm_db_index_operational_stats`.
//!
//! The header says which heap or tree a page belongs to, and can be read once the wait is over. Only threads that have
//! waited record here, so a lock and a hash table are cheap beside the wait.

use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use hobt_base::{DatabaseId, HobtId};
use hobt_instruments::{PerHobt, nanoseconds};
use hobt_page::{PageBytes, PageHeader, PageType};

/// A number of waits and their total time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WaitTotal {
    /// Waits.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub ns: u64,
}

impl WaitTotal {
    /// One wait.
    pub(crate) fn one(time: Duration) -> WaitTotal {
        WaitTotal { count: 1, ns: nanoseconds(time) }
    }
}

impl AddAssign for WaitTotal {
    fn add_assign(&mut self, more: WaitTotal) {
        self.count += more.count;
        self.ns += more.ns;
    }
}

/// Waits for the pages of one heap or tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HobtPageWaits {
    /// For other holders of a page.
    pub latch: WaitTotal,
    /// For the disk.
    pub io: WaitTotal,
    /// Those of `latch` for pages above the leaves.
    pub tree_latch: WaitTotal,
    /// Those of `io` for pages above the leaves.
    pub tree_io: WaitTotal,
}

/// The waits for pages of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileWaits {
    pub(crate) all: Arc<PerHobt<HobtPageWaits>>,
    pub(crate) database: DatabaseId,
}

impl FileWaits {
    /// Records a wait for `page`, which the caller holds.
    pub(crate) fn note(&self, page: &PageBytes, latch: WaitTotal, io: WaitTotal) {
        let Ok(header) = PageHeader::read(page) else { return };
        if header.hobt == HobtId(0) {
            return;
        }
        let is_above = header.page_type == PageType::Index;
        self.all.change(self.database, header.hobt, |waits| {
            waits.latch += latch;
            waits.io += io;
            if is_above {
                waits.tree_latch += latch;
                waits.tree_io += io;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use hobt_base::{FileId, PAGE_SIZE, PageId};
    use hobt_page::{PageChange, apply};

    use super::*;

    fn page(page_type: PageType, hobt: HobtId) -> Box<PageBytes> {
        let mut page = Box::new([0; PAGE_SIZE]);
        let header = PageHeader::new(page_type, PageId::new(FileId(1), 9), 7, hobt);
        apply(&mut page, None, &PageChange::Format { header }).expect("an empty page").expect("has room");
        page
    }

    #[test]
    fn waits_are_those_of_the_hobt_that_the_page_names() {
        let waits = FileWaits { all: Arc::default(), database: DatabaseId(5) };
        let one = |ns| WaitTotal { count: 1, ns };
        let (none, hobt) = (WaitTotal::default(), HobtId(1 << 16));
        waits.note(&page(PageType::Index, hobt), one(10), none);
        waits.note(&page(PageType::LargeValue, hobt), one(5), one(100));
        waits.note(&page(PageType::AllocationMap, HobtId(0)), one(1), one(1));
        waits.note(&[0xFF; PAGE_SIZE], one(1), one(1));
        let of = waits.all.of(DatabaseId(5), hobt);
        let latch = WaitTotal { count: 2, ns: 15 };
        assert_eq!(of, HobtPageWaits { latch, io: one(100), tree_latch: one(10), tree_io: none });
        for nobody in [HobtId(0), HobtId(u64::MAX)] {
            assert_eq!(
                waits.all.of(DatabaseId(5), nobody),
                HobtPageWaits::default(),
                "pages of nobody are not counted"
            );
        }
        assert_eq!(waits.all.of(DatabaseId(6), hobt), HobtPageWaits::default());
    }
}
