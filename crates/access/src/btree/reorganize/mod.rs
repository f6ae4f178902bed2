//! `REORGANIZE`: fills leaves up, puts them in the order of their addresses, and gives back the pages that become free.
//!
//! ```text
//!  compact   leaves below one parent, as full as the fill factor says:   [##··][#···][##··] → [####][#···] free
//!  order     the next leaf in the order of keys goes to the next address: swapped with the leaf that is there
//!  give back free pages at the end of the last runs
//! ```
//! Each step is one record: the pages that it changes and the pages that name them. So a crash, or a cancelled walk,
//! leaves a consistent tree, and steps that were made stay. No step is ever undone. Other threads are not kept out.
//! Latches are held for one step, those of the pages above the leaves before those of leaves, and leaves from the left
//! to the right, so that there is no circular wait. Moved rows are noted for running scans, as those of splits are.
//!
//! An emptied leaf is an empty page with the flag [`PageFlags::FREE`], to which no page leads. Only a walk uses it
//! again. Walks of one tree run one after the other. The table's definition must not change meanwhile, and no rows may
//! be loaded.

mod give_back;
mod order;

use std::time::Duration;

use hobt_base::PageId;
use hobt_buffer::ReadCounts;
use hobt_page::{
    INDEX_KEY_BYTES_MAX, PageBytes, PageChange, PageFlags, PageHeader, PageType, RowImage, RowPage, apply,
};
use hobt_txn::{IoCounts, StatementContext};
use hobt_types::shortest_separator;

use super::BTree;
use super::descent::{Fences, Step, Target};
use crate::AccessError;
use crate::change::Part;
use crate::hobt::Operation;
use crate::read_ahead::ReadAhead;

/// The largest group of leaves that is compacted to one leaf fewer.
const GROUP_MAX: usize = 8;
/// The number of leaves that are read ahead.
const AHEAD_LEAVES: usize = 64;
/// A tree is in order if fewer than one in so many leaves are out of place, or free: moving one leaf to its place moves
/// all after it.
const OUT_OF_PLACE: u64 = 20;
/// How long a second walk waits before it checks whether it was cancelled.
const TURN: Duration = Duration::from_millis(50);

/// The result of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reorganized {
    /// Leaves that were merged: their rows are in other leaves.
    pub merged: u64,
    /// Leaves that were moved to another address.
    pub moved: u64,
    /// Pages that no longer belong to the tree.
    pub freed: u64,
}

/// Called with the progress of a walk: steps done, and steps in all.
pub type ShowProgress<'a> = dyn FnMut(u64, u64) + 'a;

/// A walk.
struct Walk<'w> {
    context: &'w StatementContext,
    /// The number of bytes in use up to which a leaf is filled.
    target_bytes: usize,
    done: u64,
    all: u64,
    show: &'w mut ShowProgress<'w>,
    result: Reorganized,
}

impl Walk<'_> {
    fn step(&mut self, leaves: u64) -> Result<(), AccessError> {
        self.done += leaves;
        // Other threads split leaves meanwhile.
        self.all = self.all.max(self.done);
        (self.show)(self.done, self.all);
        if self.context.is_cancelled() { Err(AccessError::Cancelled) } else { Ok(()) }
    }
}

/// The result for two neighbours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pulled {
    /// Nothing was moved: the left one is full.
    Nothing,
    /// Some rows were moved from the right one to the left one.
    Some,
    /// All rows were moved. The right one is free.
    All,
    /// The pages above have changed meanwhile.
    Elsewhere,
}

fn narrow(count: usize) -> u16 {
    u16::try_from(count).expect("fewer than a page has bytes")
}

impl BTree {
    /// Fills leaves up to `fill_factor` percent (0 and 100 leave no room), puts them in the order of their addresses,
    /// and gives back pages that become free. For a statement whose changes readers know of. Blocks on reads and
    /// latches. Each step is short, and is not undone.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, the log is full, or the statement was cancelled. The tree is consistent,
    /// and the steps that were made stay.
    pub fn reorganize(
        &self,
        context: &StatementContext,
        fill_factor: u8,
        show: &mut ShowProgress<'_>,
    ) -> Result<Reorganized, AccessError> {
        let _turn = loop {
            if let Some(turn) = self.reorganizing.try_lock_for(TURN) {
                break turn;
            }
            if context.is_cancelled() {
                return Err(AccessError::Cancelled);
            }
        };
        let percent = if fill_factor == 0 { 100 } else { usize::from(fill_factor.min(100)) };
        let target_bytes = hobt_base::PAGE_SIZE * percent / 100;
        // Each leaf is visited twice.
        let all = 2 * self.leaf_pages()?;
        let mut show = |done, all| show(done, all);
        let mut walk = Walk { context, target_bytes, done: 0, all, show: &mut show, result: Reorganized::default() };
        let before = walk.all / 2;
        self.compact(&mut walk)?;
        walk.done = before;
        self.order(&mut walk)?;
        (walk.show)(walk.all, walk.all);
        Ok(walk.result)
    }

    /// The page of level 1 to which a key belongs, and the upper bound of its keys; `None` if the root is the only
    /// leaf.
    fn parent_at(&self, key: &[u8]) -> Result<Option<(PageId, Fences)>, AccessError> {
        let mut fences = Fences::default();
        let found = self.read_down_to(1, Target::Key(key), &mut fences, &ReadCounts::default())?;
        Ok(found.map(|(id, _)| (id, fences)))
    }

    fn compact(&self, walk: &mut Walk<'_>) -> Result<(), AccessError> {
        let mut low = Vec::new();
        while let Some((parent, fences)) = self.parent_at(&low)? {
            self.compact_below(walk, parent)?;
            match fences.high {
                Some(high) => low = high,
                None => break,
            }
        }
        Ok(())
    }

    /// The children of a page of level 1; `None` if it is not one any more.
    fn leaves_below(&self, parent: PageId) -> Result<Option<Vec<PageId>>, AccessError> {
        let bytes = self.read(parent)?;
        if self.level_of(parent, &bytes)? != 1 {
            return Ok(None);
        }
        let page = self.index(parent, &bytes)?;
        let children: Result<Vec<PageId>, _> = (0..=page.len()).map(|index| page.child(index)).collect();
        children.map(Some).map_err(|damage| self.hobt.damaged(parent, damage))
    }

    /// Walks the leaves below a page. Neighbours whose rows fit fewer leaves are merged.
    fn compact_below(&self, walk: &mut Walk<'_>, parent: PageId) -> Result<(), AccessError> {
        let (ahead, counts) = (ReadAhead::new(self.hobt.storage().pool()), IoCounts::default());
        let mut sizes: Vec<(PageId, usize)> = Vec::new();
        let (mut at, mut read_to) = (0, 0);
        loop {
            let Some(leaves) = self.leaves_below(parent)? else { return Ok(()) };
            if at + 1 >= leaves.len() {
                return walk.step(1);
            }
            if at + GROUP_MAX > read_to && read_to < leaves.len() {
                let end = (read_to + AHEAD_LEAVES).min(leaves.len());
                ahead.start(self.hobt.storage(), &leaves[read_to..end], &counts);
                ahead.settle();
                read_to = end;
            }
            let (mut bytes, mut group) = (0, 0);
            for (count, &leaf) in (1..).zip(&leaves[at..(at + GROUP_MAX).min(leaves.len())]) {
                let known = sizes.iter().find(|(id, _)| *id == leaf).map(|(_, size)| *size);
                bytes += match known {
                    Some(size) => size,
                    None => {
                        let size = self.leaf_size(walk, leaf)?;
                        sizes.push((leaf, size));
                        size
                    }
                };
                // Up to one row of each leaf may not fit.
                let slack = bytes / count / 64;
                if count > 1 && bytes + slack * count <= (count - 1) * walk.target_bytes {
                    group = count;
                    break;
                }
            }
            if group == 0 {
                sizes.retain(|(id, _)| *id != leaves[at]);
                at += 1;
                walk.step(1)?;
                continue;
            }
            sizes.retain(|(id, _)| !leaves[at..at + group].contains(id));
            if !self.compact_group(walk, parent, at, group)? {
                at += 1;
                walk.step(1)?;
            }
        }
    }

    /// Fills the leaves of a group from the left; returns whether one became free.
    fn compact_group(
        &self,
        walk: &mut Walk<'_>,
        parent: PageId,
        first: usize,
        mut count: usize,
    ) -> Result<bool, AccessError> {
        let (mut at, mut is_free) = (first, false);
        while at + 1 < first + count {
            match self.pull(walk, parent, at)? {
                Pulled::Nothing | Pulled::Some => at += 1,
                Pulled::All => {
                    count -= 1;
                    is_free = true;
                    walk.result.merged += 1;
                    self.hobt.note_operations(Operation::LeafMerge, 1);
                    walk.step(1)?;
                }
                Pulled::Elsewhere => return Ok(is_free),
            }
        }
        Ok(is_free)
    }

    /// The bytes in use of a leaf, after removing ghosts that are no longer needed; more than a page has if the page is
    /// not a leaf of the tree any more.
    fn leaf_size(&self, walk: &Walk<'_>, id: PageId) -> Result<usize, AccessError> {
        {
            let page = self.read(id)?;
            if !self.is_leaf(id, &page)? {
                return Ok(2 * hobt_base::PAGE_SIZE);
            }
            let view = self.leaf(id, &page)?;
            if view.deleted_count() == 0 {
                return Ok(used_bytes(&view));
            }
        }
        let mut step = Step { id, page: self.write(id)? };
        if !self.is_leaf(id, &step.page)? {
            return Ok(2 * hobt_base::PAGE_SIZE);
        }
        self.hobt.storage().in_one_piece(|| self.drop_seen_ghosts(walk.context, &mut step))?;
        Ok(used_bytes(&self.leaf(id, &step.page)?))
    }

    /// Whether a page is a leaf of the tree, and neither free nor above the leaves.
    fn is_leaf(&self, id: PageId, page: &PageBytes) -> Result<bool, AccessError> {
        let header = PageHeader::read(page).map_err(|damage| self.hobt.damaged(id, damage))?;
        Ok(self.level_of(id, page)? == 0 && !header.flags.contains(PageFlags::FREE))
    }

    /// The header of a free page.
    fn free_header(&self, id: PageId) -> PageHeader {
        let capacity = self.hobt.row_layout().capacity_for(0).max(1);
        let flags = PageFlags::ORDERED.with(PageFlags::FREE);
        PageHeader { capacity, flags, ..self.header(PageType::Row, id) }
    }

    /// Moves rows from the child after `index` of a page of level 1 to the child at `index`, as many as it takes.
    fn pull(&self, walk: &Walk<'_>, parent: PageId, index: usize) -> Result<Pulled, AccessError> {
        let _moves = self.moves.write();
        self.hobt.storage().in_one_piece(|| {
            let mut above = Step { id: parent, page: self.write(parent)? };
            if self.level_of(parent, &above.page)? != 1 {
                return Ok(Pulled::Elsewhere);
            }
            let page = self.index(parent, &above.page)?;
            if index >= page.len() {
                return Ok(Pulled::Elsewhere);
            }
            let damaged = |damage| self.hobt.damaged(parent, damage);
            let (left, right) = (page.child(index).map_err(damaged)?, page.child(index + 1).map_err(damaged)?);
            let mut left = Step { id: left, page: self.write(left)? };
            let mut right = Step { id: right, page: self.write(right)? };
            self.expect_level(left.id, &left.page, 0)?;
            self.expect_level(right.id, &right.page, 0)?;
            self.begin_change(walk.context, &left)?;
            self.begin_change(walk.context, &right)?;
            self.given_up.settle_to_move(left.id)?;
            self.given_up.settle_to_move(right.id)?;
            self.pull_rows(walk, &mut above, index, &mut left, &mut right)
        })
    }

    fn pull_rows(
        &self,
        walk: &Walk<'_>,
        above: &mut Step<'_>,
        index: usize,
        left: &mut Step<'_>,
        right: &mut Step<'_>,
    ) -> Result<Pulled, AccessError> {
        let of_left = |damage| self.hobt.damaged(left.id, damage);
        let of_right = |damage| self.hobt.damaged(right.id, damage);
        let (mut header, behind) =
            (PageHeader::read(&left.page).map_err(of_left)?, PageHeader::read(&right.page).map_err(of_right)?);
        let source = self.leaf(right.id, &right.page)?;
        let count = source.row_count();
        let writer = header.newest_writer.max(behind.newest_writer);
        let mut copy = Box::new(*left.page);
        let taken = self.append_rows(&mut copy, &source, writer, walk.target_bytes).map_err(of_right)?;
        if taken == 0 && count > 0 {
            return Ok(Pulled::Nothing);
        }
        header = PageHeader { newest_writer: writer, ..PageHeader::read(&copy).map_err(of_left)? };
        header.flags = header.flags.without(PageFlags::BULK);
        let position = narrow(index);
        let mut entry = vec![PageChange::RemoveEntry { position }];
        let right_changes = if taken == count {
            header.next = behind.next;
            vec![PageChange::Format { header: self.free_header(right.id) }]
        } else {
            let key_at = |page: &RowPage<'_>, position: usize| {
                let mut key = Vec::new();
                page.slot_at(position).and_then(|slot| self.key.of_slot(page, slot, &mut key)).map(|()| key)
            };
            let last = self.leaf(left.id, &copy)?;
            let last = key_at(&last, last.row_count() - 1).map_err(of_left)?;
            let first = key_at(&source, taken).map_err(of_right)?;
            let separator = shortest_separator(&last, &first).filter(|key| key.len() <= INDEX_KEY_BYTES_MAX);
            let key = separator.ok_or_else(|| self.damaged(right.id, "the order of a leaf's keys"))?.to_vec();
            entry.push(PageChange::InsertEntry { position, key, child: right.id });
            let (from, to) = (narrow(taken), narrow(count));
            vec![PageChange::KeepRows { from, to, drop_deleted: false, writer: behind.newest_writer }]
        };
        header.write(&mut copy);
        let mut parts = [
            Part { id: left.id, page: &mut left.page, changes: vec![PageChange::Image { bytes: copy }] },
            Part { id: right.id, page: &mut right.page, changes: right_changes },
            Part { id: above.id, page: &mut above.page, changes: entry },
        ];
        // The page above may have no room for a longer separator.
        let made = self.hobt.storage().change_together(self.hobt.identity(), &mut parts, None)?;
        if made.is_none() {
            return Ok(Pulled::Nothing);
        }
        self.notes.note_split(left.id);
        self.notes.note_split(right.id);
        Ok(if taken == count { Pulled::All } else { Pulled::Some })
    }

    /// Appends the first rows of `source` to a page, as long as it has at most `bytes_max` bytes in use. Returns how
    /// many.
    fn append_rows(
        &self,
        page: &mut PageBytes,
        source: &RowPage<'_>,
        writer: hobt_base::Stamp,
        bytes_max: usize,
    ) -> Result<usize, hobt_page::PageDamage> {
        let rows = self.hobt.row_layout();
        let (mut count, mut variable) = {
            let view = RowPage::open(page, rows)?;
            (view.row_count(), variable_bytes(&view))
        };
        for position in 0..source.row_count() {
            let slot = source.slot_at(position)?;
            let row: RowImage = source.row_image(slot)?;
            variable += row.variable_bytes(rows);
            if rows.page_bytes_bound(count + 1, variable) > bytes_max {
                return Ok(position);
            }
            let change = PageChange::InsertRow { position: narrow(count), row, writer };
            if apply(page, Some(rows), &change)?.is_none() {
                return Ok(position);
            }
            count += 1;
            if source.is_deleted(slot) {
                let slot = RowPage::open(page, rows)?.slot_at(count - 1)?;
                let slot = hobt_base::SlotId(narrow(slot));
                apply(page, Some(rows), &PageChange::SetDeleted { slot, deleted: true, writer })?;
            }
        }
        Ok(source.row_count())
    }
}

fn variable_bytes(page: &RowPage<'_>) -> usize {
    let rows = page.row_layout();
    let variable = (0..rows.columns().len()).filter(|&column| rows.variable_rank(column).is_some());
    variable.map(|column| page.variable_used(column)).sum()
}

/// The bytes in use of a leaf, as counted in [`super::TreeFigures`].
fn used_bytes(page: &RowPage<'_>) -> usize {
    page.row_layout().page_bytes_bound(page.row_count(), variable_bytes(page)).min(hobt_base::PAGE_SIZE)
}
