//! Shows the rows of a page that a worker has read, as the statement sees them.
//!
//! If a leaf was split since the scan began, some of its rows are on other pages. The scan knows the leaf's key range
//! at its beginning, so the rows are looked up by key, in one leaf or in many, whatever splits meanwhile. If the
//! visitor has enough before all of them are shown, the worker continues from that key at the next call.

use std::sync::Arc;

use hobt_base::PageId;
use hobt_buffer::ReadCounts;
use hobt_page::{PageBytes, PageDamage, RowPage};

use super::dispenser::PageRange;
use super::worker::{Work, Worker};
use super::{NextPage, ShownPage};
use crate::AccessError;
use crate::read_ahead::add_reads;
use crate::visible::VisiblePage;

/// The result of showing a page.
#[must_use]
#[derive(Clone, Copy)]
pub(super) enum Shown {
    /// All visible rows were shown.
    All,
    /// Nothing was shown: some of its rows have moved to other pages since the scan began.
    IsSplit,
    /// Nothing was shown: the page may have gone out of use since the scan's list was made.
    MayBeRetired,
}

impl Worker {
    /// Shows a page that is held or is the worker's own copy.
    pub(super) fn show(
        &mut self,
        range: &PageRange,
        number: u32,
        bytes: &PageBytes,
        work: &mut Work<'_>,
        next: Option<&NextPage<'_>>,
    ) -> Result<Shown, AccessError> {
        let scan = &self.scan;
        if scan.is_split(range, number) {
            return Ok(Shown::IsSplit);
        }
        let id = PageId::new(scan.files[range.file].id(), number);
        let partition = &scan.partitions[range.partition];
        let hobt = partition.store.hobt();
        let opened = RowPage::open(bytes, &scan.rows).and_then(|page| {
            let is_own = page.hobt() == hobt.id();
            if is_own { Ok(page) } else { Err(PageDamage::Structure { rule: "a page of another HOBT" }) }
        });
        // A sound leaf that was not split is the one of the list: what takes pages from a tree marks them as split.
        let is_leaf = partition.leaves.is_some() && opened.is_ok();
        if !is_leaf && scan.may_be_retired(range) {
            return Ok(Shown::MayBeRetired);
        }
        let page = opened.map_err(|damage| scan.damaged(range, number, damage))?;
        let seen = match (partition.store.tree(), &partition.leaves) {
            (Some(tree), Some(leaves)) => {
                let bounds = leaves.bounds(range.leaf_of(number));
                tree.visible_leaf(id, &page, bounds, Some(range.since), scan.view.as_deref())?
            }
            _ => hobt.visible_page(id, &page, range.since, scan.view.as_deref())?,
        };
        match seen {
            VisiblePage::AsItStands => give(&mut self.rows_by_worker, range.partition, (id, &page), work, next)?,
            VisiblePage::Nothing => {}
            VisiblePage::Otherwise(pieces) => {
                for piece in &*pieces {
                    let page = RowPage::open(&piece.page, &scan.rows);
                    let page = page.map_err(|damage| scan.damaged(range, number, damage))?;
                    give(&mut self.rows_by_worker, range.partition, (id, &page), work, None)?;
                }
            }
        }
        Ok(Shown::All)
    }

    /// Continues with a page whose rows were shown in part at the last call; returns whether there is one.
    pub(super) fn resume(&mut self, range: &PageRange, number: u32, work: &mut Work<'_>) -> Result<bool, AccessError> {
        if self.resumes.is_empty() {
            return Ok(false);
        }
        let Some(from) = self.resumes.remove(&(range.file, number)) else { return Ok(false) };
        self.show_by_keys(range, number, Some(from), work)?;
        Ok(true)
    }

    /// Does the remaining work for a page that is no longer held.
    pub(super) fn finish_page(
        &mut self,
        shown: Shown,
        range: &PageRange,
        number: u32,
        work: &mut Work<'_>,
    ) -> Result<(), AccessError> {
        match shown {
            Shown::All => Ok(()),
            Shown::IsSplit => self.show_by_keys(range, number, None, work),
            Shown::MayBeRetired => self.show_anew(range, number, work),
        }
    }

    /// Shows a page of the scan's list if it is in use now. An undo gives back the pages that its transaction has
    /// added: such a page is free, with older rows of the table perhaps, another HOBT's, or the table's again.
    pub(super) fn show_anew(&mut self, range: &PageRange, number: u32, work: &mut Work<'_>) -> Result<(), AccessError> {
        // The worker's own loads first: from here on it waits for pages and latches.
        self.settle()?;
        let scan = Arc::clone(&self.scan);
        let file = Arc::clone(&scan.files[range.file]);
        let hobt = scan.partitions[range.partition].store.hobt();
        // A leaf that was split, or given back with its tree, is shown by key wherever its rows are now.
        while !scan.is_split(range, number)
            && let Some(since) = hobt.in_use(PageId::new(file.id(), number), 1)
        {
            let range = PageRange { since, ..*range };
            let guard = match self.read_through_pool(&file, number) {
                Ok(guard) => guard,
                Err(_) if scan.may_be_retired(&range) => continue,
                Err(error) => return Err(error),
            };
            let shown = self.show(&range, number, &guard, work, None)?;
            drop(guard);
            match shown {
                Shown::All => return Ok(()),
                Shown::IsSplit | Shown::MayBeRetired => {}
            }
        }
        if scan.is_split(range, number) { self.show_by_keys(range, number, None, work) } else { Ok(()) }
    }

    /// How many pages of a range have been shown whole when the visitor had enough at `number`.
    pub(super) fn pages_until(&self, range: &PageRange, number: u32) -> u32 {
        let is_whole = !self.resumes.contains_key(&(range.file, number));
        number + u32::from(is_whole) - range.first
    }

    /// Shows the rows of a page of the scan's list by key: from `from` on, which is one of its keys, or all.
    pub(super) fn show_by_keys(
        &mut self,
        range: &PageRange,
        number: u32,
        from: Option<Vec<u8>>,
        work: &mut Work<'_>,
    ) -> Result<(), AccessError> {
        // The worker's own loads first: from here on it waits for pages and latches.
        self.settle()?;
        let scan = Arc::clone(&self.scan);
        let partition = &scan.partitions[range.partition];
        let (Some(leaves), Some(tree)) = (&partition.leaves, partition.store.tree()) else {
            unreachable!("a heap's pages are not split");
        };
        let (low, high) = leaves.bounds(range.leaf_of(number));
        let mut low = from.unwrap_or_else(|| low.to_vec());
        loop {
            if scan.context.is_cancelled() {
                return Err(AccessError::Cancelled);
            }
            let reads = ReadCounts::default();
            let view = scan.view.as_deref();
            let next = tree.show_between((&low, high), view, &reads, &mut |id, page| {
                give(&mut self.rows_by_worker, range.partition, (id, page), work, None)
            });
            add_reads(&scan.counts, &reads);
            match next? {
                Some(next) => low = next,
                None => return Ok(()),
            }
            if work.is_done() {
                self.resumes.insert((range.file, number), low);
                return Ok(());
            }
        }
    }
}

/// Shows a page that is already as the statement sees it, and counts its rows.
fn give(
    rows: &mut u64,
    partition: usize,
    (id, page): (PageId, &RowPage<'_>),
    work: &mut Work<'_>,
    next: Option<&NextPage<'_>>,
) -> Result<(), AccessError> {
    *rows += (page.row_count() - page.deleted_count()) as u64;
    match work {
        Work::Visit(visitor) => visitor.visit(ShownPage { partition, id, page, next }),
        Work::Count(counts) => {
            counts.add_page(page);
            Ok(())
        }
    }
}
