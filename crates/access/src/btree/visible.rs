//! What a statement sees of a leaf: its current rows, or with invisible changes undone.
//!
//! A leaf's newest writer tells whether anything on it may be invisible. The versions between its separators tell what.
//! Rows keep their positions when changes are undone. If a row was longer before, there may be no room for the old row:
//! then the leaf is shown as several pages, in the order of keys.

use hobt_base::{PageId, SlotId};
use hobt_buffer::ReadCounts;
use hobt_page::{PageChange, PageDamage, PageHeader, RowPage, apply};
use hobt_txn::{Before, IoCounts, KeyState, PagePiece, RebuiltRows, Snapshot, StatementContext};

use super::descent::{Fences, Target};
use super::{BTree, KeyRange};
use crate::AccessError;
use crate::read_ahead::add_reads;
use crate::visible::{VisiblePage, find_or_rebuild};

impl BTree {
    /// The differences between a leaf and what a snapshot sees, for keys from `low` on and below `high`: the slots in
    /// the order of their keys, each with the earlier state. Not for a leaf that is still as a load built it. The page
    /// may be a copy that is older than the versions.
    ///
    /// # Errors
    /// The page is damaged.
    pub fn corrections(
        &self,
        id: PageId,
        page: &RowPage<'_>,
        (low, high): (&[u8], Option<&[u8]>),
        snapshot: &Snapshot,
    ) -> Result<Vec<(SlotId, Before)>, AccessError> {
        let slot_of = |(position, before)| {
            let slot = page.slot_at(position).map_err(|damage| self.hobt.damaged(id, damage))?;
            Ok((SlotId(u16::try_from(slot).expect("a slot of the page")), before))
        };
        self.changes_of(id, page, (low, high), snapshot)?.into_iter().map(slot_of).collect()
    }

    /// As [`BTree::corrections`], by the positions of the keys.
    fn changes_of(
        &self,
        id: PageId,
        page: &RowPage<'_>,
        (low, high): (&[u8], Option<&[u8]>),
        snapshot: &Snapshot,
    ) -> Result<Vec<(usize, Before)>, AccessError> {
        let mut changes = Vec::new();
        for (key, before) in self.hobt.storage().versions().key_changes(self.hobt.id(), low, high, snapshot)? {
            match self.find_in(id, page, &key)? {
                Ok(position) => changes.push((position, before)),
                // Inserted after this copy of the page was made.
                Err(_) if before == Before::Absent => {}
                Err(_) => return Err(self.damaged(id, "a row that a reader still sees")),
            }
        }
        Ok(changes)
    }

    /// The keys of a range at which a transaction invisible to `snapshot` has changed something, or is about to, and
    /// has not undone it, in order; each with what the snapshot sees. A key at which it sees a row may have another row
    /// by now: that of a later transaction that has taken over the key.
    ///
    /// # Errors
    /// Versions cannot be read, or were given up.
    pub fn unseen_keys(&self, range: &KeyRange, snapshot: &Snapshot) -> Result<Vec<KeyState>, AccessError> {
        let (low, high) = range.bounds();
        Ok(self.hobt.storage().versions().unseen_keys(self.hobt.id(), low, high, snapshot)?)
    }

    /// Whether [`BTree::unseen_keys`] would return any.
    ///
    /// # Errors
    /// As [`BTree::unseen_keys`].
    pub fn has_unseen_keys(&self, range: &KeyRange, snapshot: &Snapshot) -> Result<bool, AccessError> {
        let (low, high) = range.bounds();
        Ok(self.hobt.storage().versions().has_unseen_keys(self.hobt.id(), low, high, snapshot)?)
    }

    /// What a reader sees of a leaf whose keys are from `low` on and below `high`, within these bounds. Without a
    /// `view` it sees all current rows. With `since`, which [`Hobt::retired`](crate::Hobt::retired) was before the leaf
    /// was read, it may see rows of an earlier copy of the leaf, in other positions, and is to use all of them.
    pub(crate) fn visible_leaf(
        &self,
        id: PageId,
        page: &RowPage<'_>,
        bounds: (&[u8], Option<&[u8]>),
        since: Option<u64>,
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
        let name = self.hobt.storage().versions().name_of_page(self.hobt.id(), id);
        let rows = since.map(|since| RebuiltRows { since, bounds });
        find_or_rebuild(view, name, rows, || {
            let changes = self.changes_of(id, page, bounds, view)?;
            let mut pieces = Vec::new();
            if !changes.is_empty() {
                self.take_back(page, 0, &changes, &mut pieces).map_err(|damage| self.hobt.damaged(id, damage))?;
            }
            Ok(pieces)
        })
    }

    /// Shows the visible rows from `low` on and below `high`, as far as they are in one leaf, as pages that have only
    /// these rows. Returns the key from which to continue, if there may be more. No latch is held while they are shown.
    pub(crate) fn show_between(
        &self,
        (low, high): (&[u8], Option<&[u8]>),
        view: Option<&Snapshot>,
        reads: &ReadCounts,
        show: &mut dyn FnMut(PageId, &RowPage<'_>) -> Result<(), AccessError>,
    ) -> Result<Option<Vec<u8>>, AccessError> {
        let mut fences = Fences::default();
        let (id, guard) = self.read_leaf(Target::Key(low), Some(&mut fences), Some(reads))?;
        let mut copy = Box::new(*guard);
        let rows = self.hobt.row_layout();
        let damaged = |damage| self.hobt.damaged(id, damage);
        let next = fences.high.filter(|fence| high.is_none_or(|high| fence.as_slice() < high));
        let page = self.leaf(id, &copy)?;
        let from = if fences.low.as_slice() < low { self.first_at_or_above(id, &page, low)? } else { 0 };
        let to = match high.filter(|_| next.is_none()) {
            Some(high) => self.first_at_or_above(id, &page, high)?,
            None => page.row_count(),
        };
        if from > 0 || to < page.row_count() {
            let writer = PageHeader::newest_writer_of(&copy);
            let narrow = |position: usize| u16::try_from(position).expect("a position of the page");
            let kept =
                PageChange::KeepRows { from: narrow(from), to: narrow(to.max(from)), drop_deleted: false, writer };
            apply(&mut copy, Some(rows), &kept).map_err(damaged)?;
        }
        let page = self.leaf(id, &copy)?;
        let seen = self.visible_leaf(id, &page, (low, next.as_deref().or(high)), None, view)?;
        drop(guard);
        match seen {
            VisiblePage::AsItStands => show(id, &page)?,
            VisiblePage::Nothing => {}
            VisiblePage::Otherwise(pieces) => {
                pieces.iter().try_for_each(|piece| show(id, &RowPage::open(&piece.page, rows).map_err(damaged)?))?;
            }
        }
        Ok(next)
    }

    /// Adds `page`, whose first row has position `first` in the leaf, with `changes` undone; as two or more pages if
    /// there is too little room on one.
    fn take_back(
        &self,
        page: &RowPage<'_>,
        first: usize,
        changes: &[(usize, Before)],
        pieces: &mut Vec<PagePiece>,
    ) -> Result<(), PageDamage> {
        let rows = self.hobt.row_layout();
        let writer = PageHeader::newest_writer_of(page.bytes());
        let mut copy = Box::new(*page.bytes());
        let mut has_room = true;
        for (position, before) in changes {
            let index = page.slot_at(position - first)?;
            let slot = SlotId(u16::try_from(index).expect("a slot of the page"));
            let deleted = *before == Before::Absent;
            if page.is_deleted(index) != deleted {
                apply(&mut copy, Some(rows), &PageChange::SetDeleted { slot, deleted, writer })?;
            }
            if let Before::Row(row) = before {
                let change = PageChange::ReplaceRow { slot, row: (**row).clone(), writer };
                has_room = apply(&mut copy, Some(rows), &change)?.is_some();
                if !has_room {
                    break;
                }
            }
        }
        if has_room {
            pieces.push(PagePiece { first, page: copy });
            return Ok(());
        }
        let count = page.row_count();
        if count < 2 {
            return Err(PageDamage::Structure { rule: "room for a row that stood there before" });
        }
        let middle = count / 2;
        for (from, to) in [(0, middle), (middle, count)] {
            let mut half = Box::new(*page.bytes());
            let narrow = |position: usize| u16::try_from(position).expect("a position of the page");
            let kept = PageChange::KeepRows { from: narrow(from), to: narrow(to), drop_deleted: false, writer };
            apply(&mut half, Some(rows), &kept)?;
            let begin = changes.partition_point(|(position, _)| *position < first + from);
            let end = changes.partition_point(|(position, _)| *position < first + to);
            self.take_back(&RowPage::open(&half, rows)?, first + from, &changes[begin..end], pieces)?;
        }
        Ok(())
    }

    /// Shows the row with a key as a statement sees it: a page that has it, and its slot. The page is the leaf, held
    /// shared meanwhile, or a copy with changes undone. Returns `None` if the statement does not see the row. If it
    /// `reads_uncommitted`, it sees the current row.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub fn find_visible<R>(
        &self,
        key: &[u8],
        (context, reads_uncommitted): (&StatementContext, bool),
        counts: &IoCounts,
        show: impl FnOnce(PageId, &RowPage<'_>, SlotId) -> R,
    ) -> Result<Option<R>, AccessError> {
        let view = context.view().filter(|_| !reads_uncommitted);
        let reads = ReadCounts::default();
        let found = self.read_leaf(Target::Key(key), None, Some(&reads));
        add_reads(counts, &reads);
        let (id, guard) = found?;
        let page = self.leaf(id, &guard)?;
        let Ok(position) = self.find_in(id, &page, key)? else { return Ok(None) };
        let damaged = |damage| self.hobt.damaged(id, damage);
        // The key followed by a zero byte is the next byte string: there is nothing between.
        let behind: Vec<u8> = key.iter().copied().chain([0]).collect();
        let show_at = |page: &RowPage<'_>, position: usize| {
            let slot = page.slot_at(position).map_err(damaged)?;
            let slot_id = SlotId(u16::try_from(slot).expect("a slot of the page"));
            Ok((!page.is_deleted(slot)).then(|| show(id, page, slot_id)))
        };
        match self.visible_leaf(id, &page, (key, Some(&behind)), None, view.as_deref())? {
            VisiblePage::AsItStands => show_at(&page, position),
            VisiblePage::Nothing => Ok(None),
            VisiblePage::Otherwise(pieces) => {
                let piece = pieces.iter().rfind(|piece| piece.first <= position).expect("the first begins at 0");
                show_at(&RowPage::open(&piece.page, self.hobt.row_layout()).map_err(damaged)?, position - piece.first)
            }
        }
    }
}
