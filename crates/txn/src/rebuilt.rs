//! Pages as a transaction's snapshot sees them, with changes undone, kept for the next scans of the transaction.
//!
//! To undo the changes of a page takes far longer than to read it. What a snapshot sees of a page never changes,
//! whatever others do to the page, so a reader that stays open undoes the changes of each page once. That holds until
//! its own transaction changes something in the database: then it uses none of these pages any more.
//!
//! They take a sixteenth of the instance's memory, for all snapshots together, and of what is free at that.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hobt_base::{HobtId, PAGE_SIZE, PageId};
use hobt_instruments::schedule::RwLock;
use hobt_page::PageBytes;

use crate::memory::MemoryAccount;

/// The part of the instance's memory that the pages may take: one in so many bytes.
const SHARE: u64 = 16;
/// They take no memory if less than one in so many bytes is free: it is kept for statements.
const FREE_SHARE: u64 = 8;
/// Bytes of an entry beside its pages and bounds.
const ENTRY_BYTES: u64 = 200;

/// A page, or a part of it, with changes undone.
#[derive(Clone, Debug)]
pub struct PagePiece {
    /// The position in the page of its first row.
    pub first: usize,
    /// The rows.
    pub page: Box<PageBytes>,
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
    /// It was used since the last search for pages that are not.
    is_used: AtomicBool,
}

impl Rebuilt {
    fn new(rows: RebuiltRows<'_>, pieces: Vec<PagePiece>) -> Rebuilt {
        let (low, high) = rows.bounds;
        Rebuilt {
            since: rows.since,
            low: low.into(),
            high: high.map(Box::from),
            pieces,
            is_used: AtomicBool::new(true),
        }
    }

    fn is_of(&self, rows: RebuiltRows<'_>) -> bool {
        self.since == rows.since && (&*self.low, self.high.as_deref()) == rows.bounds
    }

    fn bytes(&self) -> u64 {
        let bounds = self.low.len() + self.high.as_ref().map_or(0, |high| high.len());
        (self.pieces.len() * PAGE_SIZE + bounds) as u64 + ENTRY_BYTES
    }

    /// The pages to read instead, in their order.
    pub fn pieces(&self) -> &[PagePiece] {
        &self.pieces
    }
}

/// The memory for the rebuilt pages of all snapshots of an instance.
#[derive(Debug)]
pub(crate) struct RebuiltMemory {
    account: MemoryAccount,
    bytes_max: u64,
}

impl RebuiltMemory {
    pub(crate) fn new(account: MemoryAccount) -> RebuiltMemory {
        let bytes_max = account.budget().limit() / SHARE;
        RebuiltMemory { account, bytes_max }
    }

    /// Takes memory; returns `false` if there is none for this.
    fn take(&self, bytes: u64) -> bool {
        let budget = self.account.budget();
        let is_free = budget.used() + bytes <= budget.limit() - budget.limit() / FREE_SHARE;
        is_free && self.account.held() + bytes <= self.bytes_max && self.account.grow(bytes).is_ok()
    }
}

/// The rebuilt pages of one snapshot.
#[derive(Debug)]
pub(crate) struct RebuiltPages {
    pages: RwLock<HashMap<RebuiltName, Arc<Rebuilt>>>,
    /// How many pages were not kept since the last search for pages that are not used.
    refused: AtomicU64,
    memory: Arc<RebuiltMemory>,
}

impl RebuiltPages {
    pub(crate) fn new(memory: &Arc<RebuiltMemory>) -> RebuiltPages {
        RebuiltPages { pages: RwLock::default(), refused: AtomicU64::new(0), memory: Arc::clone(memory) }
    }

    /// The rows of a page, if they are kept.
    pub(crate) fn get(&self, name: RebuiltName, rows: RebuiltRows<'_>) -> Option<Arc<Rebuilt>> {
        let pages = self.pages.read();
        let found = pages.get(&name).filter(|found| found.is_of(rows))?;
        if !found.is_used.load(Ordering::Relaxed) {
            found.is_used.store(true, Ordering::Relaxed);
        }
        Some(Arc::clone(found))
    }

    /// The rows of a page for this once, kept for later if there is memory.
    pub(crate) fn keep(&self, name: RebuiltName, rows: RebuiltRows<'_>, pieces: Vec<PagePiece>) -> Arc<Rebuilt> {
        let rebuilt = Arc::new(Rebuilt::new(rows, pieces));
        let mut pages = self.pages.write();
        // A leaf that was split has other bounds than before.
        if let Some(old) = pages.remove(&name) {
            self.memory.account.shrink(old.bytes());
        }
        if self.memory.take(rebuilt.bytes()) {
            pages.insert(name, Arc::clone(&rebuilt));
        } else if self.refused.fetch_add(1, Ordering::Relaxed) >= 2 * pages.len() as u64 {
            // Scans in turn over more than there is room for leave what is there: half of the pages found is better
            // than all of them replaced in turn. What no scan wants any more goes.
            self.refused.store(0, Ordering::Relaxed);
            pages.retain(|_, page| {
                let is_used = page.is_used.swap(false, Ordering::Relaxed);
                if !is_used {
                    self.memory.account.shrink(page.bytes());
                }
                is_used
            });
        }
        rebuilt
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
    use crate::MemoryBudget;

    fn name(number: u32) -> RebuiltName {
        RebuiltName { store: 1, hobt: HobtId(7), page: PageId::new(FileId(1), number) }
    }

    fn pieces() -> Vec<PagePiece> {
        vec![PagePiece { first: 0, page: Box::new([0; PAGE_SIZE]) }]
    }

    const ROWS: RebuiltRows<'_> = RebuiltRows { since: 3, bounds: (b"b", Some(b"d")) };

    fn memory(bytes: u64) -> (Arc<MemoryBudget>, Arc<RebuiltMemory>) {
        let budget = MemoryBudget::new(bytes);
        let memory = RebuiltMemory::new(MemoryAccount::new(&budget, "Rebuilt pages"));
        (budget, Arc::new(memory))
    }

    #[test]
    fn a_page_is_found_by_all_that_names_its_rows() {
        let (budget, memory) = memory(1 << 30);
        let pages = RebuiltPages::new(&memory);
        assert!(pages.get(name(1), ROWS).is_none());
        pages.keep(name(1), ROWS, pieces());
        assert_eq!(pages.get(name(1), ROWS).map(|found| found.pieces().len()), Some(1));
        let others = [
            RebuiltRows { since: 4, ..ROWS },
            RebuiltRows { bounds: (b"a", Some(b"d")), ..ROWS },
            RebuiltRows { bounds: (b"b", Some(b"c")), ..ROWS },
            RebuiltRows { bounds: (b"b", None), ..ROWS },
        ];
        assert!(others.iter().all(|other| pages.get(name(1), *other).is_none()), "these are other rows");
        assert!(pages.get(RebuiltName { store: 2, ..name(1) }, ROWS).is_none(), "a page of another database");
        pages.keep(name(1), others[2], pieces());
        assert!(pages.get(name(1), others[2]).is_some() && pages.get(name(1), ROWS).is_none(), "it was replaced");
        drop(pages);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn memory_is_bounded_and_goes_to_the_pages_in_use() {
        // A sixteenth has room for four pages.
        let (budget, memory) = memory(16 * 4 * (PAGE_SIZE as u64 + 300));
        let pages = RebuiltPages::new(&memory);
        (0..6).for_each(|number| drop(pages.keep(name(number), ROWS, pieces())));
        let kept = |from: u32, to: u32| (from..to).filter(|number| pages.get(name(*number), ROWS).is_some()).count();
        assert_eq!((kept(0, 4), kept(4, 6)), (4, 0));
        assert!(budget.used() <= budget.limit() / SHARE);
        // Only two of them are used any more, and there is room for others.
        for round in 0..40 {
            assert_eq!(kept(0, 2), 2, "what is in use stays, in round {round}");
            drop(pages.keep(name(10 + round % 2), ROWS, pieces()));
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
