//! Pages as a transaction's snapshot sees them, with changes undone, kept for the next scans of the transaction.
//!
//! To undo the changes of a page takes far longer than to read it. What a snapshot sees of some rows never changes,
//! whatever others do to them, so a reader that stays open undoes the changes of a page once, as far as there is
//! memory. That holds until its own transaction changes a row of the database: then it uses none of the pages any more.
//!
//! A page is named by its database, its heap or tree, and its address. [`RebuiltRows`] says which rows it has. Which
//! page has which rows at a moment is left to crate `hobt_access`.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hobt_base::{HobtId, PAGE_SIZE, PageId};
use hobt_instruments::schedule::RwLock;
use hobt_page::PageBytes;

use crate::memory::{MemoryAccount, MemoryBudget};

/// The part of the instance's memory that the pages of all snapshots may take: one in so many bytes.
const SHARE: u64 = 16;
/// They take no memory if less than one in so many bytes is free: it is kept for statements.
const FREE_SHARE: u64 = 8;
/// Bytes of an entry beside its pages and bounds.
const ENTRY_BYTES: u64 = 200;
/// A page that so many scans have not used makes room for others.
const SCANS_UNUSED: u64 = 16;

/// A page, or a part of it, with changes undone.
#[derive(Clone, Debug)]
pub struct PagePiece {
    /// The position of its first row in the leaf that it was made from.
    pub first: usize,
    /// The rows.
    pub page: Box<PageBytes>,
}

/// The pages to read in place of one, in their order.
#[derive(Debug)]
pub enum Pieces {
    /// For this statement.
    Own(Vec<PagePiece>),
    /// For the scans of a transaction.
    Kept(Arc<Rebuilt>),
}

impl Deref for Pieces {
    type Target = [PagePiece];

    fn deref(&self) -> &[PagePiece] {
        match self {
            Pieces::Own(pieces) => pieces,
            Pieces::Kept(rebuilt) => &rebuilt.pieces,
        }
    }
}

impl Pieces {
    /// The pages, copied if others may read them.
    pub fn into_owned(self) -> Vec<PagePiece> {
        match self {
            Pieces::Own(pieces) => pieces,
            Pieces::Kept(rebuilt) => Arc::try_unwrap(rebuilt).map_or_else(|kept| kept.pieces.clone(), |own| own.pieces),
        }
    }
}

/// Names a page among those of all databases.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RebuiltName {
    /// The number of the database's version store.
    pub(crate) store: u64,
    /// The heap or B+tree.
    pub(crate) hobt: HobtId,
    /// The address.
    pub(crate) page: PageId,
}

/// Which rows a page has.
#[derive(Clone, Copy, Debug)]
pub struct RebuiltRows<'a> {
    /// How often pages of the HOBT had gone out of use before the page was read. Another number means other rows.
    pub since: u64,
    /// For a leaf, the keys: from these bytes on, and below those. For a page of a heap, all.
    pub bounds: (&'a [u8], Option<&'a [u8]>),
}

/// What a snapshot sees in place of a page.
#[derive(Debug)]
pub struct Rebuilt {
    since: u64,
    low: Box<[u8]>,
    high: Option<Box<[u8]>>,
    pieces: Vec<PagePiece>,
    /// The last scan that used it.
    used_by: AtomicU64,
}

impl Rebuilt {
    fn new(rows: RebuiltRows<'_>, pieces: Vec<PagePiece>, scan: u64) -> Rebuilt {
        let (low, high) = rows.bounds;
        let (low, high) = (low.into(), high.map(Box::from));
        Rebuilt { since: rows.since, low, high, pieces, used_by: AtomicU64::new(scan) }
    }

    fn is_of(&self, rows: RebuiltRows<'_>) -> bool {
        self.since == rows.since && (&*self.low, self.high.as_deref()) == rows.bounds
    }

    fn bytes(&self) -> u64 {
        let bounds = self.low.len() + self.high.as_ref().map_or(0, |high| high.len());
        (self.pieces.len() * PAGE_SIZE + bounds) as u64 + ENTRY_BYTES
    }
}

/// The memory for the rebuilt pages of all snapshots of an instance.
#[derive(Debug)]
pub(crate) struct RebuiltMemory {
    account: MemoryAccount,
    bytes_max: u64,
}

impl RebuiltMemory {
    /// At most `bytes_max` bytes of a budget; a sixteenth of it if absent.
    pub(crate) fn new(budget: &Arc<MemoryBudget>, bytes_max: Option<u64>) -> RebuiltMemory {
        let account = MemoryAccount::new(budget, "Rebuilt pages");
        RebuiltMemory { account, bytes_max: bytes_max.unwrap_or(budget.limit() / SHARE) }
    }

    /// Takes memory; returns `false` if there is none for this.
    fn take(&self, bytes: u64) -> bool {
        let budget = self.account.budget();
        let is_free = budget.used() + bytes <= budget.limit() - budget.limit() / FREE_SHARE;
        is_free && self.account.held() + bytes <= self.bytes_max && self.account.grow(bytes).is_ok()
    }
}

type Pages = HashMap<RebuiltName, Arc<Rebuilt>>;

/// The rebuilt pages of one snapshot.
#[derive(Debug)]
pub(crate) struct RebuiltPages {
    pages: RwLock<Pages>,
    /// The scans that the snapshot has begun. Seeks do not count: thousands of look-ups may come between two scans.
    scans: AtomicU64,
    /// Their number when pages that are not used were last searched for.
    searched: AtomicU64,
    memory: Arc<RebuiltMemory>,
}

impl RebuiltPages {
    pub(crate) fn new(memory: &Arc<RebuiltMemory>) -> RebuiltPages {
        let (pages, scans, searched) = Default::default();
        RebuiltPages { pages, scans, searched, memory: Arc::clone(memory) }
    }

    /// Notes that a scan begins.
    pub(crate) fn begin_scan(&self) {
        self.scans.fetch_add(1, Ordering::Relaxed);
    }

    /// The rows of a page, if they are kept.
    pub(crate) fn get(&self, name: RebuiltName, rows: RebuiltRows<'_>) -> Option<Arc<Rebuilt>> {
        let pages = self.pages.read();
        let found = pages.get(&name).filter(|found| found.is_of(rows))?;
        let scan = self.scans.load(Ordering::Relaxed);
        if found.used_by.load(Ordering::Relaxed) != scan {
            found.used_by.store(scan, Ordering::Relaxed);
        }
        Some(Arc::clone(found))
    }

    /// The rows of a page for this once, kept for later if there is memory.
    pub(crate) fn keep(&self, name: RebuiltName, rows: RebuiltRows<'_>, pieces: Vec<PagePiece>) -> Arc<Rebuilt> {
        let scan = self.scans.load(Ordering::Relaxed);
        let rebuilt = Arc::new(Rebuilt::new(rows, pieces, scan));
        let gone = {
            let mut pages = self.pages.write();
            // A leaf that was split has other bounds than before.
            let mut gone: Vec<Arc<Rebuilt>> = pages.remove(&name).into_iter().collect();
            self.give_back(&gone);
            if self.memory.take(rebuilt.bytes()) {
                pages.insert(name, Arc::clone(&rebuilt));
            } else if self.searched.swap(scan, Ordering::Relaxed) < scan {
                // Of more pages than there is room for, those stay that were there first: if the newest stayed, a scan
                // would find none of those that the last one has left.
                let is_unused = |page: &Arc<Rebuilt>| page.used_by.load(Ordering::Relaxed) + SCANS_UNUSED < scan;
                gone.extend(self.take_out(&mut pages, |_, page| is_unused(page)));
            }
            gone
        };
        // Outside the lock: there may be many.
        drop(gone);
        rebuilt
    }

    /// Drops the pages of a database: none of them is used any more.
    pub(crate) fn forget(&self, store: u64) {
        if !self.pages.read().is_empty() {
            let gone = self.take_out(&mut self.pages.write(), |name, _| name.store == store);
            drop(gone);
        }
    }

    fn take_out(
        &self,
        pages: &mut Pages,
        is_wanted: impl Fn(&RebuiltName, &Arc<Rebuilt>) -> bool,
    ) -> Vec<Arc<Rebuilt>> {
        let taken: Vec<Arc<Rebuilt>> =
            pages.extract_if(|name, page| is_wanted(name, page)).map(|(_, page)| page).collect();
        self.give_back(&taken);
        taken
    }

    fn give_back(&self, pages: &[Arc<Rebuilt>]) {
        self.memory.account.shrink(pages.iter().map(|page| page.bytes()).sum());
    }
}

impl Drop for RebuiltPages {
    fn drop(&mut self) {
        let bytes: u64 = self.pages.get_mut().values().map(|page| page.bytes()).sum();
        self.memory.account.shrink(bytes);
    }
}

#[cfg(test)]
mod tests {
    use hobt_base::FileId;

    use super::*;

    fn name(number: u32) -> RebuiltName {
        RebuiltName { store: 1, hobt: HobtId(7), page: PageId::new(FileId(1), number) }
    }

    fn pieces() -> Vec<PagePiece> {
        vec![PagePiece { first: 0, page: Box::new([0; PAGE_SIZE]) }]
    }

    const ROWS: RebuiltRows<'_> = RebuiltRows { since: 3, bounds: (b"b", Some(b"d")) };

    fn pages(memory_bytes: u64) -> (Arc<MemoryBudget>, RebuiltPages) {
        let budget = MemoryBudget::new(memory_bytes);
        let pages = RebuiltPages::new(&Arc::new(RebuiltMemory::new(&budget, None)));
        (budget, pages)
    }

    #[test]
    fn a_page_is_found_by_all_that_names_its_rows() {
        let (budget, pages) = pages(1 << 30);
        assert!(pages.get(name(1), ROWS).is_none());
        pages.keep(name(1), ROWS, pieces());
        assert_eq!(pages.get(name(1), ROWS).map(|found| found.pieces.len()), Some(1));
        let others = [
            RebuiltRows { since: 4, ..ROWS },
            RebuiltRows { bounds: (b"a", Some(b"d")), ..ROWS },
            RebuiltRows { bounds: (b"b", Some(b"c")), ..ROWS },
            RebuiltRows { bounds: (b"b", None), ..ROWS },
        ];
        assert!(others.iter().all(|other| pages.get(name(1), *other).is_none()), "these are other rows");
        let of_other = RebuiltName { store: 2, ..name(1) };
        assert!(pages.get(of_other, ROWS).is_none(), "a page of another database");
        pages.keep(name(1), others[2], pieces());
        assert!(pages.get(name(1), others[2]).is_some() && pages.get(name(1), ROWS).is_none(), "it was replaced");
        pages.keep(of_other, ROWS, pieces());
        pages.forget(1);
        assert!(pages.get(name(1), others[2]).is_none() && pages.get(of_other, ROWS).is_some());
        drop(pages);
        assert_eq!(budget.used(), 0);
    }

    /// Memory of which a sixteenth has room for `count` pages.
    fn room(count: u64) -> u64 {
        16 * count * (PAGE_SIZE as u64 + 300)
    }

    #[test]
    fn a_scan_of_more_than_there_is_room_for_finds_a_part() {
        let (budget, pages) = pages(room(10));
        for scan in 0..100 {
            pages.begin_scan();
            let mut found = 0;
            for number in 0..200 {
                match pages.get(name(number), ROWS) {
                    Some(_) => found += 1,
                    None => drop(pages.keep(name(number), ROWS, pieces())),
                }
            }
            assert_eq!(found, if scan == 0 { 0 } else { 10 }, "scan {scan}");
            assert!(budget.used() <= budget.limit() / SHARE);
        }
    }

    #[test]
    fn pages_that_no_scan_uses_make_room() {
        let (budget, pages) = pages(room(4));
        (0..4).for_each(|number| drop(pages.keep(name(number), ROWS, pieces())));
        let kept = |from: u32, to: u32| (from..to).filter(|number| pages.get(name(*number), ROWS).is_some()).count();
        for _ in 0..2 * SCANS_UNUSED {
            pages.begin_scan();
            assert_eq!(kept(0, 2), 2, "what is in use stays");
            (10..12).for_each(|number| drop(pages.keep(name(number), ROWS, pieces())));
        }
        assert_eq!((kept(0, 2), kept(2, 4), kept(10, 12)), (2, 0, 2));
        let statements = MemoryAccount::new(&budget, "Statements");
        statements.overdraw(budget.limit() / 8 * 7);
        drop(pages.keep(name(0), ROWS, pieces()));
        assert_eq!(kept(0, 1), 0, "statements need the memory");
        drop((pages, statements));
        assert_eq!(budget.used(), 0);
    }
}
