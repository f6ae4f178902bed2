//! Waits for pages by the heap or tree that they belong to: `sys.dm_db_index_operational_stats`.
//!
//! Whose a page is, its header says once the wait is over. Only who has waited comes here, so a lock and a hash table
//! are cheap beside that.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hobt_base::{DatabaseId, HobtId};
use hobt_page::{PageBytes, PageHeader, PageType};
use parking_lot::Mutex;

/// Heaps and trees that are counted at the same time. Beyond, all begin again from 0: those that are gone are mostly
/// told of before ([`crate::BufferPool::forget_waits`]).
const HOBTS_MAX: usize = 1 << 16;

/// How often was waited, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WaitTotal {
    /// Waits.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub ns: u64,
}

impl WaitTotal {
    pub(crate) fn add(&mut self, count: u64, time: Duration) {
        self.count += count;
        self.ns += u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
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

/// The waits of all.
#[derive(Debug, Default)]
pub(crate) struct PageWaits(Mutex<HashMap<(DatabaseId, HobtId), HobtPageWaits>>);

impl PageWaits {
    pub(crate) fn of(&self, database: DatabaseId, hobt: HobtId) -> HobtPageWaits {
        self.0.lock().get(&(database, hobt)).copied().unwrap_or_default()
    }

    pub(crate) fn add_io(&self, database: DatabaseId, hobt: HobtId, time: Duration) {
        let mut all = self.0.lock();
        if all.len() == HOBTS_MAX && !all.contains_key(&(database, hobt)) {
            all.clear();
        }
        all.entry((database, hobt)).or_default().io.add(1, time);
    }

    pub(crate) fn forget(&self, is_gone: impl Fn(DatabaseId, HobtId) -> bool) {
        self.0.lock().retain(|(database, hobt), _| !is_gone(*database, *hobt));
    }
}

/// The waits for pages of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileWaits {
    pub(crate) all: Arc<PageWaits>,
    pub(crate) database: DatabaseId,
}

impl FileWaits {
    /// Notes that `page`, which the caller holds, was waited for.
    pub(crate) fn note(&self, page: &PageBytes, latch: WaitTotal, io: WaitTotal) {
        let Ok(header) = PageHeader::read(page) else { return };
        if header.hobt == HobtId(0) {
            return;
        }
        let is_above = header.page_type == PageType::Index;
        let mut all = self.all.0.lock();
        if all.len() == HOBTS_MAX && !all.contains_key(&(self.database, header.hobt)) {
            all.clear();
        }
        let waits = all.entry((self.database, header.hobt)).or_default();
        for (of_all, of_tree, more) in
            [(&mut waits.latch, &mut waits.tree_latch, latch), (&mut waits.io, &mut waits.tree_io, io)]
        {
            for total in [Some(of_all), is_above.then_some(of_tree)].into_iter().flatten() {
                total.count += more.count;
                total.ns += more.ns;
            }
        }
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
        assert_eq!(waits.all.0.lock().len(), 1, "pages of nobody are not counted");
        assert_eq!(waits.all.of(DatabaseId(6), hobt), HobtPageWaits::default());
        waits.all.forget(|database, gone| database == DatabaseId(5) && gone == hobt);
        assert_eq!(waits.all.0.lock().len(), 0);
    }
}
