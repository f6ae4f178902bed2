//! Ranges of keys in order, as a statement sees them.
//!
//! A [`TreeSeek`] walks a [`Cursor`] over one range after the other and takes a copy of each leaf, with invisible
//! changes undone, so that no latch is held while its rows are read. The next leaves are read ahead meanwhile: one at
//! first, then ever more, as far as the range reaches.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_base::PageId;
use hobt_buffer::ReadCounts;
use hobt_page::{PageBytes, PageDamage, RowPage, ValuePointer};
use hobt_txn::{IoCounts, Snapshot, StatementContext};

use super::cursor::StepLeaf;
use super::descent::{Fences, Target};
use super::{BTree, Cursor, Direction, KeyRange};
use crate::hobt::Operation;
use crate::read_ahead::{ReadAhead, add_reads};
use crate::scan::ScanSettings;
use crate::visible::VisiblePage;
use crate::{AccessError, LargeValues, ValueReader};

/// The maximum number of leaves that are read ahead at once.
const AHEAD_LEAVES_MAX: usize = 32;

/// Shows the rows of ranges of keys in order.
pub struct TreeSeek {
    tree: Arc<BTree>,
    ranges: VecDeque<KeyRange>,
    direction: Direction,
    cursor: Option<Cursor>,
    /// Whether the cursor has reached a leaf.
    has_begun: bool,
    context: Arc<StatementContext>,
    view: Option<Arc<Snapshot>>,
    /// How often pages of the tree had gone out of use when the seek began.
    since: u64,
    counts: Arc<IoCounts>,
    reads_ahead: bool,
    ahead: Option<ReadAhead>,
    /// The number of leaves that were last read ahead at once, and how many of them are not reached yet.
    window: usize,
    asked: usize,
    /// Copies of a leaf's rows that were not shown yet. The first one is the current leaf.
    parts: VecDeque<Part>,
    /// A buffer for the next copy.
    spare: Option<Box<PageBytes>>,
    /// The number of ranges begun.
    begun: u64,
}

/// A copy of a leaf, or of a part of it.
struct Part {
    id: PageId,
    page: Box<PageBytes>,
    positions: Range<usize>,
}

impl std::fmt::Debug for TreeSeek {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TreeSeek").field("tree", &self.tree).field("direction", &self.direction).finish_non_exhaustive()
    }
}

impl Drop for TreeSeek {
    fn drop(&mut self) {
        // Once for each seek and not for each range: many ranges are short.
        self.tree.hobt.note_operations(Operation::RangeScan, self.begun);
    }
}

/// A leaf as a statement sees it, and which of its rows are in range.
#[derive(Clone, Debug)]
pub struct SeekLeaf<'a> {
    /// The leaf's address.
    pub id: PageId,
    /// A copy of the leaf.
    pub page: RowPage<'a>,
    /// The positions in the page's order that are in range, ghosts included.
    pub positions: Range<usize>,
    direction: Direction,
}

impl SeekLeaf<'_> {
    /// Adds the slots of the live rows in range to `slots`, in the direction of the seek.
    ///
    /// # Errors
    /// The order names a slot that is not in use.
    pub fn append_live(&self, slots: &mut Vec<usize>) -> Result<(), PageDamage> {
        let begin = slots.len();
        slots.reserve(self.positions.len());
        for position in self.positions.clone() {
            let slot = self.page.slot_at(position)?;
            if !self.page.is_deleted(slot) {
                slots.push(slot);
            }
        }
        if self.direction == Direction::Backward {
            slots[begin..].reverse();
        }
        Ok(())
    }
}

/// Access to values of a seek's rows that are on pages of their own.
#[derive(Clone, Copy, Debug)]
pub struct SeekValues<'a> {
    seek: &'a TreeSeek,
}

impl LargeValues for SeekValues<'_> {
    fn fetch(&self, pointer: &ValuePointer) -> Result<Vec<u8>, AccessError> {
        let (context, counts) = (&*self.seek.context, &*self.seek.counts);
        let uncommitted_since = self.seek.view.is_none().then_some(self.seek.since);
        let reader = ValueReader { context, counts, uncommitted_since };
        self.seek.tree.hobt.large_value(pointer, Some(reader))
    }

    fn damaged(&self, page: PageId, damage: PageDamage) -> AccessError {
        self.seek.tree.hobt.damaged(page, damage)
    }
}

impl TreeSeek {
    /// A seek over `ranges`, in this order, each in `direction`. Its snapshot is taken here.
    pub fn new(
        tree: Arc<BTree>,
        ranges: impl IntoIterator<Item = KeyRange>,
        direction: Direction,
        settings: ScanSettings,
        context: Arc<StatementContext>,
        counts: Arc<IoCounts>,
    ) -> TreeSeek {
        let view = context.view().filter(|_| !settings.reads_uncommitted);
        let since = tree.hobt.retired();
        tree.hobt.charge_reads(&counts);
        TreeSeek {
            tree,
            ranges: ranges.into_iter().collect(),
            direction,
            cursor: None,
            has_begun: false,
            context,
            view,
            since,
            counts,
            reads_ahead: settings.read_ahead,
            ahead: None,
            window: 0,
            asked: 0,
            parts: VecDeque::new(),
            spare: None,
            begun: 0,
        }
    }

    /// Adds a range after those that are left. The snapshot stays.
    pub fn add_range(&mut self, range: KeyRange) {
        self.ranges.push_back(range);
    }

    /// The tree.
    pub fn tree(&self) -> &Arc<BTree> {
        &self.tree
    }

    /// Goes to the next leaf that has rows in range, ghosts included; `false` if there is none. Blocks on reads and
    /// latches.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or the statement was cancelled.
    pub fn advance(&mut self) -> Result<bool, AccessError> {
        if let Some(shown) = self.parts.pop_front() {
            self.spare = Some(shown.page);
        }
        while self.parts.is_empty() {
            if !self.read_leaf()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The leaf that [`TreeSeek::advance`] went to.
    ///
    /// # Panics
    /// If there is none.
    pub fn leaf(&self) -> SeekLeaf<'_> {
        let part = self.parts.front().expect("a leaf was found");
        let page = RowPage::open(&part.page, self.tree.hobt.row_layout()).expect("it was opened before");
        SeekLeaf { id: part.id, page, positions: part.positions.clone(), direction: self.direction }
    }

    /// Access to values that are on pages of their own.
    pub fn large_values(&self) -> SeekValues<'_> {
        SeekValues { seek: self }
    }

    /// Copies the visible rows of the next leaf; `false` if there is no leaf left.
    fn read_leaf(&mut self) -> Result<bool, AccessError> {
        if self.context.is_cancelled() {
            return Err(AccessError::Cancelled);
        }
        if self.cursor.as_ref().is_none_or(Cursor::is_done) {
            let Some(range) = self.ranges.pop_front() else { return Ok(false) };
            self.cursor = Some(Cursor::new(Arc::clone(&self.tree), range, self.direction));
            (self.has_begun, self.window, self.asked) = (false, 0, 0);
            self.begun += 1;
        }
        if let Some(ahead) = &self.ahead {
            ahead.settle();
        }
        let cursor = self.cursor.as_mut().expect("made above");
        if cursor.is_done() {
            return Ok(true);
        }
        let reads = ReadCounts::default();
        let (tree, parts, spare) = (&*self.tree, &mut self.parts, &mut self.spare);
        let view = self.view.as_deref().map(|view| (view, self.since));
        let stepped = cursor
            .step(Some(&reads), &mut |leaf| tree.take_parts(&leaf, view, spare, &mut |part| parts.push_back(part)));
        if self.has_begun {
            // Accesses to the pages above count only at the beginning of a range.
            reads.logical.store(1, Ordering::Relaxed);
        }
        add_reads(&self.counts, &reads);
        stepped?;
        if self.direction == Direction::Backward {
            self.parts.make_contiguous().reverse();
        }
        self.has_begun = true;
        self.asked = self.asked.saturating_sub(1);
        if self.reads_ahead && self.asked == 0 {
            self.read_ahead()?;
        }
        Ok(true)
    }

    /// Starts to read the next leaves.
    fn read_ahead(&mut self) -> Result<(), AccessError> {
        let cursor = self.cursor.as_ref().expect("a leaf was read");
        if cursor.is_done() {
            return Ok(());
        }
        self.window = (2 * self.window).clamp(1, AHEAD_LEAVES_MAX);
        let leaves = self.tree.next_leaves(cursor, self.window)?;
        self.asked = leaves.len();
        let storage = self.tree.hobt.storage();
        let is_there = |id: &PageId| {
            self.tree.file(*id).is_ok_and(|file| file.pool_file().state_snapshot(id.number, 1).all_resident())
        };
        if leaves.iter().all(is_there) {
            return Ok(());
        }
        let ahead = self.ahead.get_or_insert_with(|| ReadAhead::new(storage.pool()));
        ahead.start(storage, &leaves, &self.counts);
        Ok(())
    }
}

impl BTree {
    /// Takes copies of the visible rows of a leaf, in the order of keys. A view comes with
    /// [`Hobt::retired`](crate::Hobt::retired) of when the seek began.
    fn take_parts(
        &self,
        leaf: &StepLeaf<'_>,
        view: Option<(&Snapshot, u64)>,
        spare: &mut Option<Box<PageBytes>>,
        take: &mut dyn FnMut(Part),
    ) -> Result<(), AccessError> {
        let id = leaf.id;
        let since = view.filter(|_| leaf.is_whole).map(|(_, since)| since);
        match self.visible_leaf(id, &leaf.page, leaf.bounds, since, view.map(|(view, _)| view))? {
            VisiblePage::AsItStands => {
                let page = match spare.take() {
                    Some(mut page) => {
                        page.copy_from_slice(leaf.page.bytes());
                        page
                    }
                    None => Box::new(*leaf.page.bytes()),
                };
                take(Part { id, page, positions: leaf.positions.clone() });
            }
            VisiblePage::Nothing => {}
            VisiblePage::Otherwise(pieces) => {
                for piece in pieces.into_owned() {
                    let count = RowPage::open(&piece.page, self.hobt.row_layout());
                    let count = count.map_err(|damage| self.hobt.damaged(id, damage))?.row_count();
                    let clip = |position: usize| position.saturating_sub(piece.first).min(count);
                    let in_range = clip(leaf.positions.start)..clip(leaf.positions.end);
                    let positions = if leaf.is_whole { 0..count } else { in_range };
                    if !positions.is_empty() {
                        take(Part { id, page: piece.page, positions });
                    }
                }
            }
        }
        Ok(())
    }

    /// The next leaves of a cursor, as far as one page of level 1 names them.
    fn next_leaves(&self, cursor: &Cursor, count: usize) -> Result<Vec<PageId>, AccessError> {
        let (low, high) = cursor.rest();
        let target = match cursor.direction() {
            Direction::Forward => Target::Key(low),
            Direction::Backward => Target::Before(high),
        };
        let reads = ReadCounts::default();
        let Some((id, bytes)) = self.read_down_to(1, target, &mut Fences::default(), &reads)? else {
            return Ok(Vec::new());
        };
        let page = self.index(id, &bytes)?;
        let list = || {
            let mut leaves = Vec::with_capacity(count);
            match cursor.direction() {
                Direction::Forward => {
                    for index in page.child_index(low)?..=page.len() {
                        let is_behind =
                            index > 0 && high.is_some_and(|high| page.key(index - 1).is_ok_and(|key| key >= high));
                        if leaves.len() == count || is_behind {
                            break;
                        }
                        leaves.push(page.child(index)?);
                    }
                }
                Direction::Backward => {
                    let last = match high {
                        Some(high) => super::descent::child_before(&page, high)?,
                        None => page.len(),
                    };
                    for index in (0..=last).rev() {
                        if leaves.len() == count {
                            break;
                        }
                        leaves.push(page.child(index)?);
                        if index > 0 && page.key(index - 1)? <= low {
                            break;
                        }
                    }
                    // Neighbours are read together in the order of their addresses.
                    leaves.reverse();
                }
            }
            Ok(leaves)
        };
        list().map_err(|damage| self.hobt.damaged(id, damage))
    }
}
