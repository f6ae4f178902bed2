//! Splits: a page's upper part moves to a new page, and its parent gets an entry for the new page.
//!
//! One split is one record: the new page's image, what the old one keeps, the parent's entry, and the entry in the run
//! list that makes the new page the tree's. So after a crash a split is complete or not begun, and no page is lost. A
//! parent without room is split first, as a separate step that leaves the tree consistent. Then the descent begins
//! anew.
//!
//! ```text
//! the root is full:       root                 root              it never moves: its content goes to a new page,
//!                      ┌────────┐            ┌──────┐            and the next step splits that one
//!                      │ a … z  │     →      │ ·    │
//!                      └────────┘            └┬─────┘
//!                                          ┌──┴─────┐
//!                                          │ a … z  │
//!                                          └────────┘
//! ```
//! `hobt_page::RowPage::split` and `IndexPage::split` decide where a page is split.

use std::sync::Arc;

use hobt_base::PageId;
use hobt_page::{
    INDEX_KEY_BYTES_MAX, IndexPage, LeafSplit, PageBytes, PageChange, PageDamage, PageFlags, PageHeader, PageType,
    RowImage, RowPage, apply,
};
use hobt_txn::{LogChain, StatementContext};
use hobt_types::shortest_separator;

use super::BTree;
use super::descent::Step;
use crate::AccessError;
use crate::change::Part;
use crate::hobt::Operation;
use crate::storage::Purpose;

/// The row for which a leaf is split: one to insert, or one that replaces the row with its key.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) key: &'a [u8],
    pub(super) row: &'a RowImage,
}

/// Where the room for a split comes from.
#[derive(Clone, Copy)]
struct Room<'a> {
    purpose: Purpose,
    /// The chain that has reserved room in the log for it.
    chain: Option<&'a Arc<LogChain>>,
}

/// How many entries of a leaf stay, and the key from which on rows move to the right.
#[derive(PartialEq, Eq, Debug)]
struct LeafCut {
    kept: usize,
    separator: Vec<u8>,
}

fn narrow(count: usize) -> u16 {
    u16::try_from(count).expect("fewer than a page has bytes")
}

impl BTree {
    /// Makes one split towards room for a row in the leaf at the path's end. The record uses the room that `chain` has
    /// reserved, if there is one. An undo has no `context`, and is never the first to change a leaf. Returns `false`,
    /// with nothing done, if the path does not begin high enough.
    ///
    /// # Errors
    /// The row does not fit a page, the filegroup or the log is full, or a page is damaged.
    pub(super) fn split(
        &self,
        mut path: Vec<Step<'_>>,
        wanted: Wanted<'_>,
        chain: Option<&Arc<LogChain>>,
        context: Option<&StatementContext>,
    ) -> Result<bool, AccessError> {
        let room = Room { purpose: if context.is_some() { Purpose::Work } else { Purpose::Undo }, chain };
        let leaf = path.last().expect("a path ends in a leaf");
        let view = self.leaf(leaf.id, &leaf.page)?;
        let LeafCut { kept, mut separator } = self.cut_leaf(leaf.id, &view, wanted)?;
        let mut at = path.len() - 1;
        let mut kept_entries = None;
        loop {
            if at == 0 {
                if path[0].id != self.root {
                    return Ok(false);
                }
                self.push_down(&mut path[0], room)?;
                self.notes.note_split(self.root);
                self.hobt.note_operations(Operation::NonleafAllocation, 1);
                return Ok(true);
            }
            let parent = &path[at - 1];
            let page = self.index(parent.id, &parent.page)?;
            if page.free_bytes() >= IndexPage::entry_size(separator.len()) {
                break;
            }
            let cut = page.child_index(&separator).and_then(|position| page.split(position, separator.len()));
            let cut = cut.map_err(|damage| self.hobt.damaged(parent.id, damage))?;
            (kept_entries, separator) = (Some(cut.kept), cut.separator);
            at -= 1;
        }
        let (above, below) = path.split_at_mut(at);
        let (parent, left) = (above.last_mut().expect("it was looked at"), &mut below[0]);
        match kept_entries {
            Some(kept) => {
                self.split_index(parent, left, kept, &separator, room)?;
                self.hobt.note_operations(Operation::NonleafAllocation, 1);
            }
            None => {
                if let Some(context) = context {
                    self.begin_change(context, left)?;
                }
                self.split_leaf(parent, left, kept, &separator, wanted.row, room)?;
                self.notes.note_split(left.id);
                self.hobt.note_operations(Operation::LeafAllocation, 1);
            }
        }
        Ok(true)
    }

    fn cut_leaf(&self, id: PageId, view: &RowPage<'_>, wanted: Wanted<'_>) -> Result<LeafCut, AccessError> {
        let damaged = |damage| self.hobt.damaged(id, damage);
        let key = wanted.key;
        let position = self.find_in(id, view, key)?;
        let place = match position {
            Ok(position) | Err(position) => position,
        };
        let count = view.row_count();
        let is_new = position.is_err();
        if count == usize::from(!is_new) {
            // There is no other row to move out.
            return Err(AccessError::RowTooLarge { bytes: wanted.row.byte_count() });
        }
        let LeafSplit { mut kept, is_right } = view.split(place, wanted.row).map_err(damaged)?;
        if !is_new {
            // The row replaces an existing one: each half gets at least one row.
            kept = kept.clamp(1, count - 1);
        }
        let key_at = |position: usize| {
            let mut key = Vec::new();
            view.slot_at(position).and_then(|slot| self.key.of_slot(view, slot, &mut key)).map_err(damaged)?;
            Ok::<_, AccessError>(key)
        };
        let is_new_at_cut = is_new && place == kept;
        let left = if is_new_at_cut && !is_right { key.to_vec() } else { key_at(kept - 1)? };
        let right = if is_new_at_cut && is_right { key.to_vec() } else { key_at(kept)? };
        let separator = shortest_separator(&left, &right).filter(|separator| separator.len() <= INDEX_KEY_BYTES_MAX);
        let separator = separator.ok_or_else(|| self.damaged(id, "the order of a leaf's keys"))?;
        Ok(LeafCut { kept, separator: separator.to_vec() })
    }

    /// The parent's entry for a new page.
    fn entry(&self, parent: &Step<'_>, separator: &[u8], child: PageId) -> Result<PageChange, AccessError> {
        let page = self.index(parent.id, &parent.page)?;
        let position = page.child_index(separator).map_err(|damage| self.hobt.damaged(parent.id, damage))?;
        Ok(PageChange::InsertEntry { position: narrow(position), key: separator.to_vec(), child })
    }

    fn split_leaf(
        &self,
        parent: &mut Step<'_>,
        left: &mut Step<'_>,
        kept: usize,
        separator: &[u8],
        row: &RowImage,
        room: Room<'_>,
    ) -> Result<(), AccessError> {
        let damaged = |damage| self.hobt.damaged(left.id, damage);
        let before = PageHeader::read(&left.page).map_err(damaged)?;
        let (count, writer) = (before.row_count, before.newest_writer);
        let kept = narrow(kept);
        let rows = self.hobt.row_layout();
        let mut copy = Box::new(*left.page);
        if kept < count {
            let change = PageChange::KeepRows { from: kept, to: count, drop_deleted: false, writer };
            apply(&mut copy, Some(rows), &change).map_err(damaged)?;
        }
        let capacity = rows.capacity_for(row.variable_bytes(rows)).max(1);
        self.with_new_page(parent, left, separator, room, |id| {
            let mut left_changes = vec![PageChange::SetHeader { header: PageHeader { next: id, ..before } }];
            let right_change = if kept == count {
                // Ascending keys: the left page keeps all rows, and the right one is empty.
                PageChange::Format { header: PageHeader { page: id, capacity, flags: PageFlags::default(), ..before } }
            } else {
                left_changes.push(PageChange::KeepRows { from: 0, to: kept, drop_deleted: false, writer });
                moved_to(copy, id).map_err(|damage| self.hobt.damaged(id, damage))?
            };
            Ok((left_changes, right_change))
        })
    }

    fn split_index(
        &self,
        parent: &mut Step<'_>,
        left: &mut Step<'_>,
        kept: usize,
        separator: &[u8],
        room: Room<'_>,
    ) -> Result<(), AccessError> {
        let count = self.index(left.id, &left.page)?.len();
        let mut copy = Box::new(*left.page);
        let (from, to) = (narrow(kept + 1), narrow(count));
        apply(&mut copy, None, &PageChange::KeepEntries { from, to })
            .map_err(|damage| self.hobt.damaged(left.id, damage))?;
        self.with_new_page(parent, left, separator, room, |id| {
            let kept = PageChange::KeepEntries { from: 0, to: narrow(kept) };
            Ok((vec![kept], moved_to(copy, id).map_err(|damage| self.hobt.damaged(id, damage))?))
        })
    }

    /// Takes a page for the right half and makes the changes of the left page and of the new one that `divide` returns.
    fn with_new_page(
        &self,
        parent: &mut Step<'_>,
        left: &mut Step<'_>,
        separator: &[u8],
        room: Room<'_>,
        divide: impl FnOnce(PageId) -> Result<(Vec<PageChange>, PageChange), AccessError>,
    ) -> Result<(), AccessError> {
        let made = self.hobt.take_page(room.purpose, room.chain, |id, list| {
            let entry = self.entry(parent, separator, id)?;
            let (left_changes, right_change) = divide(id)?;
            let mut right = self.create_page(id)?;
            self.given_up.copy(left.id, id);
            let mut parts = [
                list,
                Part { id, page: &mut right, changes: vec![right_change] },
                Part { id: left.id, page: &mut left.page, changes: left_changes },
                Part { id: parent.id, page: &mut parent.page, changes: vec![entry] },
            ];
            let made = self.hobt.storage().change_together(self.hobt.identity(), &mut parts, room.chain)?;
            Ok(made.is_some())
        })?;
        assert!(made, "what a split divides had room before, and the parent was asked");
        Ok(())
    }

    /// Moves the root's content to a new page, which becomes its only child.
    fn push_down(&self, root: &mut Step<'_>, room: Room<'_>) -> Result<(), AccessError> {
        let before = PageHeader::read(&root.page).map_err(|damage| self.hobt.damaged(root.id, damage))?;
        let level =
            before.level.checked_add(1).ok_or_else(|| self.damaged(root.id, "the level of a page of a tree"))?;
        let made = self.hobt.take_page(room.purpose, room.chain, |id, list| {
            let moved = moved_to(Box::new(*root.page), id).map_err(|damage| self.hobt.damaged(root.id, damage))?;
            let header = PageHeader { level, ..self.header(PageType::Index, root.id) };
            let above = vec![PageChange::Format { header }, PageChange::SetLeftmost { child: id }];
            let mut child = self.create_page(id)?;
            self.given_up.copy(root.id, id);
            let mut parts = [
                list,
                Part { id, page: &mut child, changes: vec![moved] },
                Part { id: root.id, page: &mut root.page, changes: above },
            ];
            let made = self.hobt.storage().change_together(self.hobt.identity(), &mut parts, room.chain)?;
            Ok(made.is_some())
        })?;
        assert!(made, "a page that is made anew has room");
        Ok(())
    }
}

/// A page's content with another page's address.
fn moved_to(mut bytes: Box<PageBytes>, id: PageId) -> Result<PageChange, PageDamage> {
    let header = PageHeader::read(&bytes)?;
    PageHeader { page: id, flags: header.flags.without(PageFlags::BULK), ..header }.write(&mut bytes);
    Ok(PageChange::Image { bytes })
}
