//! Leaves in the order of their addresses.
//!
//! The addresses are those of the tree's runs, one run after the other, without pages above the leaves. The leaves are
//! walked in the order of keys, and the next leaf belongs at the next address. It is swapped with the leaf that is
//! there, whose own turn comes later.

use hobt_base::PageId;
use hobt_buffer::ReadCounts;
use hobt_page::{PageBytes, PageChange, PageDamage, PageFlags, PageHeader, PageType};

use super::super::BTree;
use super::super::descent::{Fences, Step, Target};
use super::{OUT_OF_PLACE, Walk};
use crate::AccessError;
use crate::change::Part;

/// The next addresses for leaves.
pub(super) struct Slots {
    /// The addresses not reached yet, the next one last.
    left: Vec<std::ops::Range<u32>>,
    files: Vec<hobt_base::FileId>,
}

impl Slots {
    fn of(tree: &BTree) -> Slots {
        let runs = tree.hobt.runs();
        let left = runs.iter().rev().map(hobt_page::Run::row_pages).collect();
        Slots { left, files: runs.iter().rev().map(|run| run.first.file).collect() }
    }

    fn peek(&mut self) -> Option<PageId> {
        while self.left.last().is_some_and(std::ops::Range::is_empty) {
            self.left.pop();
            self.files.pop();
        }
        let number = self.left.last()?.start;
        Some(PageId::new(*self.files.last()?, number))
    }

    fn pass(&mut self) {
        if let Some(range) = self.left.last_mut() {
            range.start += 1;
        }
    }

    /// All addresses that were not passed, in order.
    pub(super) fn rest(mut self) -> Vec<PageId> {
        let mut rest = Vec::new();
        while let Some(page) = self.peek() {
            rest.push(page);
            self.pass();
        }
        rest
    }
}

/// A leaf, and the pages that name it.
struct Place {
    leaf: PageId,
    /// The page above it.
    parent: PageId,
    /// The leaf before it.
    previous: Option<PageId>,
    /// The lower bound of the next leaf's keys.
    high: Option<Vec<u8>>,
}

/// The number of leaves, and how many of them do not directly follow the one before.
struct Disorder {
    leaves: u64,
    breaks: u64,
}

impl BTree {
    /// Puts the leaves in order, if too many are out of place, and gives back free pages at the end.
    pub(super) fn order(&self, walk: &mut Walk<'_>) -> Result<(), AccessError> {
        let disorder = self.disorder()?;
        let slots = Slots::of(self);
        let pages: u64 = self.hobt.data_pages();
        let Disorder { leaves, breaks } = disorder;
        // The other pages are above the leaves, a few in a hundred at most, or free.
        let unused = pages.saturating_sub(leaves + self.pages_above()?);
        if (breaks + unused) * OUT_OF_PLACE <= leaves && unused < hobt_base::EXTENT_PAGES.into() {
            return Ok(());
        }
        let rest = self.put_in_order(walk, slots)?;
        walk.result.freed += self.give_back(rest)?;
        Ok(())
    }

    fn disorder(&self) -> Result<Disorder, AccessError> {
        let (mut low, mut last) = (Vec::new(), None::<PageId>);
        let mut disorder = Disorder { leaves: 0, breaks: 0 };
        while let Some((parent, fences)) = self.parent_at(&low)? {
            for leaf in self.leaves_below(parent)?.unwrap_or_default() {
                disorder.leaves += 1;
                let follows =
                    last.is_none_or(|last| last.file == leaf.file && last.number.checked_add(1) == Some(leaf.number));
                disorder.breaks += u64::from(!follows);
                last = Some(leaf);
            }
            match fences.high {
                Some(high) => low = high,
                None => break,
            }
        }
        Ok(disorder)
    }

    /// The number of pages above the leaves.
    fn pages_above(&self) -> Result<u64, AccessError> {
        let (mut count, reads) = (0, ReadCounts::default());
        for level in 1..=u8::MAX {
            let mut low = Vec::new();
            loop {
                let mut fences = Fences::default();
                if self.read_down_to(level, Target::Key(&low), &mut fences, &reads)?.is_none() {
                    return Ok(count);
                }
                count += 1;
                match fences.high {
                    Some(high) => low = high,
                    None => break,
                }
            }
        }
        Ok(count)
    }

    /// Walks the leaves. Returns the addresses that were not needed.
    fn put_in_order(&self, walk: &mut Walk<'_>, mut slots: Slots) -> Result<Vec<PageId>, AccessError> {
        let mut low = Vec::new();
        while let Some(place) = self.place_of(&low)? {
            let target = loop {
                match slots.peek() {
                    Some(page) if self.is_above_leaves(page)? => slots.pass(),
                    other => break other,
                }
            };
            // No address is left: other threads have split leaves off meanwhile.
            let Some(target) = target else { break };
            if place.leaf == target {
                slots.pass();
            } else {
                let key = self.first_key(target)?;
                if self.hobt.storage().in_one_piece(|| self.move_leaf(walk, (&low, &place), target, key.as_deref()))? {
                    walk.result.moved += 1;
                }
                // If it could not move, because other threads changed the tree, the next leaf is no worse off.
                slots.pass();
            }
            walk.step(1)?;
            match place.high {
                Some(high) => low = high,
                None => break,
            }
        }
        Ok(slots.rest())
    }

    fn is_above_leaves(&self, id: PageId) -> Result<bool, AccessError> {
        Ok(self.level_of(id, &*self.read(id)?)? > 0)
    }

    /// The first key of a leaf; `None` if it has no rows or is free.
    fn first_key(&self, id: PageId) -> Result<Option<Vec<u8>>, AccessError> {
        let bytes = self.read(id)?;
        if !self.is_leaf(id, &bytes)? {
            return Ok(None);
        }
        let page = self.leaf(id, &bytes)?;
        if page.row_count() == 0 {
            return Ok(None);
        }
        let mut key = Vec::new();
        let found = page.slot_at(0).and_then(|slot| self.key.of_slot(&page, slot, &mut key));
        found.map(|()| Some(key)).map_err(|damage| self.hobt.damaged(id, damage))
    }

    /// The leaf to which a key belongs; `None` if the root is the only leaf.
    fn place_of(&self, key: &[u8]) -> Result<Option<Place>, AccessError> {
        let (mut fences, reads) = (Fences::default(), ReadCounts::default());
        let (leaf, parent, mut previous, high) = {
            let Some((id, bytes)) = self.read_down_to(1, Target::Key(key), &mut fences, &reads)? else {
                return Ok(None);
            };
            let page = self.index(id, &bytes)?;
            let find = || {
                let index = page.child_index(key)?;
                let previous = if index > 0 { Some(page.child(index - 1)?) } else { None };
                let high = if index < page.len() { Some(page.key(index)?.to_vec()) } else { fences.high.clone() };
                Ok::<_, PageDamage>((page.child(index)?, id, previous, high))
            };
            find().map_err(|damage| self.hobt.damaged(id, damage))?
        };
        if previous.is_none() && !fences.low.is_empty() {
            previous = Some(self.read_leaf(Target::Before(Some(&fences.low)), None, None)?.0);
        }
        Ok(Some(Place { leaf, parent, previous, high }))
    }

    /// Moves the leaf of `low` to another address. If the page there is a leaf, to which `key` belongs, it moves to the
    /// leaf's old address. Returns `false`, with nothing changed, if the tree has changed meanwhile.
    fn move_leaf(
        &self,
        walk: &Walk<'_>,
        (low, place): (&[u8], &Place),
        target: PageId,
        key: Option<&[u8]>,
    ) -> Result<bool, AccessError> {
        let _moves = self.moves.write();
        let other = match key {
            // A leaf that had its turn stays.
            Some(key) if key <= low => return Ok(false),
            Some(key) => self.place_of(key)?.filter(|other| other.leaf == target),
            None => None,
        };
        // Pages above the leaves first: a thread that waits for a leaf holds at most its parent.
        let mut parents = vec![Step { id: place.parent, page: self.write(place.parent)? }];
        if let Some(other) = other.as_ref().filter(|other| other.parent != place.parent) {
            parents.push(Step { id: other.parent, page: self.write(other.parent)? });
        }
        // From the left to the right: a thread that holds a leaf and needs the next key waits for the next leaf.
        let before_target = other.as_ref().and_then(|other| other.previous);
        let mut leaves: Vec<Step<'_>> = Vec::with_capacity(4);
        for id in [place.previous, Some(place.leaf), before_target, Some(target)].into_iter().flatten() {
            if leaves.iter().all(|step| step.id != id) {
                leaves.push(Step { id, page: self.write(id)? });
            }
        }
        // The two leaves first, then the leaves before them.
        leaves.sort_by_key(|step| (step.id != place.leaf, step.id != target));
        let Some(changes) = self.changes_of_move(place, target, other.as_ref(), &parents, &leaves)? else {
            return Ok(false);
        };
        for step in &leaves {
            self.begin_change(walk.context, step)?;
        }
        self.given_up.settle_to_move(place.leaf)?;
        self.given_up.settle_to_move(target)?;
        let mut parts = Vec::with_capacity(changes.len());
        for (step, changes) in parents.iter_mut().chain(&mut leaves).zip(changes) {
            if !changes.is_empty() {
                parts.push(Part { id: step.id, page: &mut step.page, changes });
            }
        }
        if self.hobt.storage().change_together(self.hobt.identity(), &mut parts, None)?.is_none() {
            return Ok(false);
        }
        self.notes.note_split(place.leaf);
        self.notes.note_split(target);
        Ok(true)
    }

    /// The changes of each of the pages, parents first; `None` if the pages have changed meanwhile.
    fn changes_of_move(
        &self,
        place: &Place,
        target: PageId,
        other: Option<&Place>,
        parents: &[Step<'_>],
        leaves: &[Step<'_>],
    ) -> Result<Option<Vec<Vec<PageChange>>>, AccessError> {
        let mut changes: Vec<Vec<PageChange>> = Vec::with_capacity(parents.len() + leaves.len());
        for step in parents {
            if self.level_of(step.id, &step.page)? != 1 {
                return Ok(None);
            }
            let mut own = Vec::new();
            if step.id == place.parent {
                let Some(change) = self.child_changes(step, place.leaf, target)? else { return Ok(None) };
                own.extend(change);
            }
            if other.is_some_and(|other| other.parent == step.id) {
                let Some(change) = self.child_changes(step, target, place.leaf)? else { return Ok(None) };
                own.extend(change);
            }
            changes.push(own);
        }
        let mut headers = Vec::with_capacity(leaves.len());
        for step in leaves {
            let header = PageHeader::read(&step.page).map_err(|damage| self.hobt.damaged(step.id, damage))?;
            if header.page_type != PageType::Row || header.hobt != self.hobt.id() {
                return Ok(None);
            }
            headers.push(header);
        }
        let (from, to) = (&headers[0], &headers[1]);
        let is_free = to.flags.contains(PageFlags::FREE);
        // The leaf before this one stays. Neighbours may have been split meanwhile.
        let is_behind = from.next == target;
        if from.flags.contains(PageFlags::FREE)
            || is_free != other.is_none()
            || place.previous == Some(target)
            || is_behind != other.is_some_and(|other| other.previous == Some(place.leaf))
        {
            return Ok(None);
        }
        let next = if is_behind { place.leaf } else { from.next };
        changes.push(match other {
            Some(_) => vec![moved(&leaves[1].page, to, place.leaf, to.next)],
            None => vec![PageChange::Format { header: self.free_header(place.leaf) }],
        });
        changes.push(vec![moved(&leaves[0].page, from, target, next)]);
        for (step, header) in leaves.iter().zip(&headers).skip(2) {
            // The leaf before each of them: its next leaf has moved to the other's address.
            let next = match header.next {
                next if next == place.leaf && place.previous == Some(step.id) => target,
                next if next == target && other.is_some_and(|other| other.previous == Some(step.id)) => place.leaf,
                _ => return Ok(None),
            };
            changes.push(vec![PageChange::SetHeader { header: PageHeader { next, ..*header } }]);
        }
        Ok(Some(changes))
    }

    /// The changes that make a page of level 1 name `to` in place of its child `from`; `None` if `from` is not its
    /// child.
    pub(super) fn child_changes(
        &self,
        step: &Step<'_>,
        from: PageId,
        to: PageId,
    ) -> Result<Option<Vec<PageChange>>, AccessError> {
        let page = self.index(step.id, &step.page)?;
        if page.leftmost() == from {
            return Ok(Some(vec![PageChange::SetLeftmost { child: to }]));
        }
        for index in 0..page.len() {
            let (key, child) = page.entry(index).map_err(|damage| self.hobt.damaged(step.id, damage))?;
            if child == from {
                let position = super::narrow(index);
                let put = PageChange::InsertEntry { position, key: key.to_vec(), child: to };
                return Ok(Some(vec![PageChange::RemoveEntry { position }, put]));
            }
        }
        Ok(None)
    }
}

/// A leaf at another address.
fn moved(bytes: &PageBytes, header: &PageHeader, id: PageId, next: PageId) -> PageChange {
    let mut bytes = Box::new(*bytes);
    let flags = header.flags.without(PageFlags::BULK);
    PageHeader { page: id, next, flags, ..*header }.write(&mut bytes);
    PageChange::Image { bytes }
}
