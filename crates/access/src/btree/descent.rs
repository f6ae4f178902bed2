//! The descent from the root to a leaf.
//!
//! Latches are coupled: a child is latched before its parent is released, from the root down and never up. So no thread
//! meets a page between the halves of a split, and there is no circular wait. A change of a row holds only the leaf,
//! exclusively. A split holds exclusively the pages that it changes, from the highest one on.

use hobt_base::PageId;
use hobt_buffer::{ExclusiveGuard, ReadCounts, SharedGuard};
use hobt_page::{INDEX_KEY_BYTES_MAX, IndexPage, PageBytes, PageDamage};

use super::BTree;
use crate::AccessError;

/// The leaf to find.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'k> {
    /// The leaf to which this key belongs.
    Key(&'k [u8]),
    /// The leaf with the last key below this one; with the very last key for `None`.
    Before(Option<&'k [u8]>),
}

/// The bounds of a leaf's keys: from `low` on, where empty means from the first key on, and below `high`, if there is
/// an upper bound.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Fences {
    pub(super) low: Vec<u8>,
    pub(super) high: Option<Vec<u8>>,
}

impl Fences {
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.high.as_deref().is_none_or(|high| key < high)
    }
}

/// A page of a path that is held exclusively.
pub(super) struct Step<'t> {
    pub(super) id: PageId,
    pub(super) page: ExclusiveGuard<'t>,
}

/// The child with the last key below `key`: how many separators are below it.
pub(super) fn child_before(page: &IndexPage<'_>, key: &[u8]) -> Result<usize, PageDamage> {
    let (mut low, mut high) = (0, page.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if page.key(middle)? < key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

impl BTree {
    /// The child of a page at which a descent continues.
    fn child(
        &self,
        id: PageId,
        bytes: &PageBytes,
        target: Target<'_>,
        fences: Option<&mut Fences>,
    ) -> Result<PageId, AccessError> {
        let page = self.index(id, bytes)?;
        let find = || {
            let index = match target {
                Target::Key(key) => page.child_index(key)?,
                Target::Before(Some(key)) => child_before(&page, key)?,
                Target::Before(None) => page.len(),
            };
            if let Some(fences) = fences {
                if index > 0 {
                    fences.low = page.key(index - 1)?.to_vec();
                }
                if index < page.len() {
                    fences.high = Some(page.key(index)?.to_vec());
                }
            }
            page.child(index)
        };
        let child = find().map_err(|damage| self.hobt.damaged(id, damage))?;
        // The thread that holds the page would wait for its own latch.
        if child == id { Err(self.damaged(id, "a page of a tree that leads to itself")) } else { Ok(child) }
    }

    /// The leaf, held shared.
    pub(super) fn read_leaf(
        &self,
        target: Target<'_>,
        fences: Option<&mut Fences>,
        reads: Option<&ReadCounts>,
    ) -> Result<(PageId, SharedGuard<'_>), AccessError> {
        Ok(self.descend(0, target, fences, reads)?.expect("a tree has leaves"))
    }

    /// The page of a level on the path to the leaf, held shared; `None` if the tree is not that high.
    pub(super) fn read_down_to(
        &self,
        level: u8,
        target: Target<'_>,
        fences: &mut Fences,
        reads: &ReadCounts,
    ) -> Result<Option<(PageId, SharedGuard<'_>)>, AccessError> {
        self.descend(level, target, Some(fences), Some(reads))
    }

    fn descend(
        &self,
        wanted: u8,
        target: Target<'_>,
        mut fences: Option<&mut Fences>,
        reads: Option<&ReadCounts>,
    ) -> Result<Option<(PageId, SharedGuard<'_>)>, AccessError> {
        let mut id = self.root;
        let mut page = self.read_counted(id, reads)?;
        let mut level = self.level_of(id, &page)?;
        if level < wanted {
            return Ok(None);
        }
        while level > wanted {
            let child = self.child(id, &page, target, fences.as_deref_mut())?;
            let next = self.read_counted(child, reads)?;
            level -= 1;
            self.expect_level(child, &next, level)?;
            (id, page) = (child, next);
        }
        Ok(Some((id, page)))
    }

    /// The leaf to which a key belongs, held exclusively. `fences` gets the bounds of the leaf's keys.
    pub(super) fn write_leaf_between(
        &self,
        key: &[u8],
        mut fences: Option<&mut Fences>,
    ) -> Result<Step<'_>, AccessError> {
        loop {
            let mut id = self.root;
            let mut page = self.read(id)?;
            let mut level = self.level_of(id, &page)?;
            if level == 0 {
                drop(page);
                let page = self.write(id)?;
                if self.level_of(id, &page)? == 0 {
                    return Ok(Step { id, page });
                }
                // The root has become a page above the leaves meanwhile.
                continue;
            }
            loop {
                let child = self.child(id, &page, Target::Key(key), fences.as_deref_mut())?;
                level -= 1;
                if level == 0 {
                    let leaf = self.write(child)?;
                    self.expect_level(child, &leaf, 0)?;
                    return Ok(Step { id: child, page: leaf });
                }
                let next = self.read(child)?;
                self.expect_level(child, &next, level)?;
                (id, page) = (child, next);
            }
        }
    }

    /// The leaf to which a key belongs, last, and the page above it: all that most splits change. The root is held only
    /// shared, and only during the descent. `None` for a tree whose root is one of the two.
    pub(super) fn write_lower_path(&self, key: &[u8]) -> Result<Option<Vec<Step<'_>>>, AccessError> {
        let mut id = self.root;
        let mut page = self.read(id)?;
        let mut level = self.level_of(id, &page)?;
        while level > 1 {
            let child = self.child(id, &page, Target::Key(key), None)?;
            level -= 1;
            if level == 1 {
                let above = self.write(child)?;
                drop(page);
                self.expect_level(child, &above, 1)?;
                let leaf = self.child(child, &above, Target::Key(key), None)?;
                let page = self.write(leaf)?;
                self.expect_level(leaf, &page, 0)?;
                return Ok(Some(vec![Step { id: child, page: above }, Step { id: leaf, page }]));
            }
            let next = self.read(child)?;
            self.expect_level(child, &next, level)?;
            (id, page) = (child, next);
        }
        Ok(None)
    }

    /// The leaf to which a key belongs, last, and before it the pages above it that a split of it may change: either
    /// the first of them is the root, or it has room for any separator.
    pub(super) fn write_path(&self, key: &[u8]) -> Result<Vec<Step<'_>>, AccessError> {
        let root = self.write(self.root)?;
        let mut level = self.level_of(self.root, &root)?;
        let mut path = vec![Step { id: self.root, page: root }];
        while level > 0 {
            let step = path.last().expect("the root at least");
            let child = self.child(step.id, &step.page, Target::Key(key), None)?;
            if path.iter().any(|step| step.id == child) {
                return Err(self.damaged(child, "a page of a tree that leads to one above it"));
            }
            let page = self.write(child)?;
            level -= 1;
            self.expect_level(child, &page, level)?;
            let has_room =
                level > 0 && self.index(child, &page)?.free_bytes() >= IndexPage::entry_size(INDEX_KEY_BYTES_MAX);
            if has_room {
                path.clear();
            }
            path.push(Step { id: child, page });
        }
        Ok(path)
    }
}
