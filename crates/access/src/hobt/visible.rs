//! What a statement sees of a heap's pages: [18](../../../../docs/design/0018-row-versions.md).

use hobt_base::{HobtId, PageId, SlotId};
use hobt_instruments::planted::{self, Bug};
use hobt_page::{PageChange, PageDamage, PageHeader, RowPage, apply};
use hobt_txn::{Before, HeapPage, IoCounts, PagePiece, RebuiltRows, Snapshot, StatementContext};

use super::Hobt;
use crate::AccessError;
use crate::visible::{VisiblePage, find_or_rebuild};

impl Hobt {
    /// What a reader sees of a page that was in use while [`Hobt::retired`] was `since`. Without a `view` it sees all
    /// current rows.
    pub(crate) fn visible_page(
        &self,
        id: PageId,
        page: &RowPage<'_>,
        since: u64,
        view: Option<&Snapshot>,
    ) -> Result<VisiblePage, AccessError> {
        let Some(view) = view else { return Ok(VisiblePage::AsItStands) };
        let writer = PageHeader::newest_writer_of(page.bytes());
        if writer < view.horizon() {
            return Ok(VisiblePage::AsItStands);
        }
        if PageHeader::is_bulk(page.bytes()) {
            return Ok(if view.sees(writer) { VisiblePage::AsItStands } else { VisiblePage::Nothing });
        }
        let versions = self.storage.versions();
        let rows = RebuiltRows { since, bounds: (&[], None) };
        find_or_rebuild(view, versions.name_of_page(self.owner_of_versions(), id), Some(rows), || {
            let changes = versions.changes(self.at(id), view)?;
            let is_changed = !changes.is_empty();
            is_changed.then(|| self.take_back(id, page, changes)).into_iter().collect()
        })
    }

    /// Names a page of this heap in the version store.
    pub fn at(&self, page: PageId) -> HeapPage {
        HeapPage { hobt: self.owner_of_versions(), page }
    }

    fn owner_of_versions(&self) -> HobtId {
        if planted::has(Bug::VersionsOfAnyHeap) { HobtId(0) } else { self.id() }
    }

    /// The RIDs of this heap's rows that a transaction invisible to `snapshot` has changed, or is about to change,
    /// without those whose change was undone. With `inserts_only`, only the inserted rows.
    ///
    /// # Errors
    /// Versions cannot be read, or were given up.
    pub fn unseen_rows(&self, snapshot: &Snapshot, inserts_only: bool) -> Result<Vec<(PageId, SlotId)>, AccessError> {
        let versions = self.storage.versions();
        Ok(versions.unseen_rows(self.owner_of_versions(), snapshot, inserts_only, &self.row_page_test())?)
    }

    /// Whether [`Hobt::unseen_rows`] would return any.
    ///
    /// # Errors
    /// As [`Hobt::unseen_rows`].
    pub fn has_unseen_rows(&self, snapshot: &Snapshot) -> Result<bool, AccessError> {
        let versions = self.storage.versions();
        Ok(versions.has_unseen_rows(self.owner_of_versions(), snapshot, &self.row_page_test())?)
    }

    /// A test whether a page holds rows of this heap at this moment.
    fn row_page_test(&self) -> impl Fn(PageId) -> bool + use<> {
        let mut pages: Vec<_> = self.runs().into_iter().map(|run| (run.first.file, run.row_pages())).collect();
        pages.sort_unstable_by_key(|(file, pages)| (*file, pages.start));
        move |page| {
            let behind = pages.partition_point(|(file, pages)| (*file, pages.start) <= (page.file, page.number));
            let run = behind.checked_sub(1).map(|at| &pages[at]);
            run.is_some_and(|(file, pages)| *file == page.file && pages.contains(&page.number))
        }
    }

    /// A copy of a page with changes undone.
    fn take_back(
        &self,
        id: PageId,
        page: &RowPage<'_>,
        changes: Vec<(SlotId, Before)>,
    ) -> Result<PagePiece, AccessError> {
        let rows = self.row_layout();
        let writer = PageHeader::newest_writer_of(page.bytes());
        let mut copy = Box::new(*page.bytes());
        let damaged = |damage| self.damaged(id, damage);
        // A version may be newer than this copy of the page.
        for (slot, before) in changes.into_iter().filter(|(slot, _)| usize::from(slot.0) < page.row_count()) {
            let deleted = before == Before::Absent;
            if page.is_deleted(usize::from(slot.0)) != deleted {
                let change = PageChange::SetDeleted { slot, deleted, writer };
                apply(&mut copy, Some(rows), &change).map_err(damaged)?;
            }
            if let Before::Row(row) = before {
                // It is no longer than the current row.
                let change = PageChange::ReplaceRow { slot, row: (*row).clone(), writer };
                let put = apply(&mut copy, Some(rows), &change).map_err(damaged)?;
                put.ok_or_else(|| damaged(PageDamage::Structure { rule: "room for a row that stood there before" }))?;
            }
        }
        Ok(PagePiece { first: 0, page: copy })
    }

    /// Shows a row by RID as a statement sees it: a page that has it, and its slot. The page is the heap's, held shared
    /// meanwhile, or a copy with changes undone. Returns `None` if the statement does not see the row. If it
    /// `reads_uncommitted`, it sees the current row.
    ///
    /// # Errors
    /// The page is damaged or cannot be read.
    pub fn row_visible<R>(
        &self,
        (id, slot): (PageId, SlotId),
        (context, reads_uncommitted): (&StatementContext, bool),
        counts: &IoCounts,
        show: impl FnOnce(PageId, &RowPage<'_>, SlotId) -> R,
    ) -> Result<Option<R>, AccessError> {
        let view = context.view().filter(|_| !reads_uncommitted);
        let live = |page: &RowPage<'_>| usize::from(slot.0) < page.row_count() && !page.is_deleted(slot.0.into());
        let shown = self.with_row_page(id, Some(counts), |page| {
            let writer = PageHeader::newest_writer_of(page.bytes());
            let Some(view) = view.filter(|view| writer >= view.horizon()) else {
                return Ok(live(page).then(|| show(id, page, slot)));
            };
            if PageHeader::is_bulk(page.bytes()) {
                return Ok((view.sees(writer) && live(page)).then(|| show(id, page, slot)));
            }
            let Some(before) = self.storage.versions().change(self.at(id), slot, &view)? else {
                return Ok(live(page).then(|| show(id, page, slot)));
            };
            let piece = self.take_back(id, page, vec![(slot, before)])?;
            let page = RowPage::open(&piece.page, self.row_layout()).map_err(|damage| self.damaged(id, damage))?;
            Ok(live(&page).then(|| show(id, &page, slot)))
        })?;
        Ok(shown.flatten())
    }
}
