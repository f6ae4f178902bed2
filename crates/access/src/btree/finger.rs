//! Fingers: the leaf of a thread's last search in a tree, so that the next search of a key nearby needs no descent.
//!
//! A change of a row searches its key twice, once to read the row and once to change it, and changes of many rows come
//! in the order of keys. A finger names a leaf, the bounds of its keys, and the tree's *shape*: how many times rows of
//! a leaf have moved to another (`SplitNotes::shape`). The shape is raised while the leaf is held exclusively. So a
//! thread that holds a leaf and finds the shape of its finger has the leaf of all keys between the bounds.
//!
//! Bounds are copied from the pages above only after two searches in a row that end in one leaf: searches of random
//! keys do not pay for them.

use std::cell::RefCell;
use std::ops::Deref;

use hobt_base::PageId;
use hobt_buffer::SharedGuard;
use hobt_page::PageBytes;

use super::BTree;
use super::descent::{Fences, Step, Target};
use crate::AccessError;

/// Trees of which a thread keeps a finger. A statement that visits more of them for each row has no use of fingers.
const FINGERS: usize = 16;

thread_local! {
    static OF_THIS_THREAD: RefCell<Fingers> = RefCell::default();
}

#[derive(Default)]
struct Fingers {
    kept: Vec<Finger>,
    /// How many times a finger has been asked for or noted.
    uses: u64,
}

struct Finger {
    /// Its [`BTree::number`].
    tree: u64,
    leaf: PageId,
    /// The shape for which the bounds are true; `None` without bounds.
    bounds: Option<(u64, Fences)>,
    /// Whether the last two searches ended in one leaf.
    has_stayed: bool,
    /// The number of its last use: the finger that has not been used for longest gives its place to a new one. So what
    /// a thread keeps depends on its searches in the trees that it keeps, and on nothing that it did before: a
    /// simulated run does the same again.
    used: u64,
}

impl Fingers {
    fn of(&mut self, tree: u64) -> Option<&mut Finger> {
        let finger = self.kept.iter_mut().find(|finger| finger.tree == tree)?;
        self.uses += 1;
        finger.used = self.uses;
        Some(finger)
    }

    /// Notes where a search ended: in `leaf`, whose bounds it knows or not.
    fn note(&mut self, tree: u64, leaf: PageId, bounds: Option<(u64, Fences)>) {
        if let Some(finger) = self.of(tree) {
            finger.has_stayed = finger.leaf == leaf;
            finger.leaf = leaf;
            finger.bounds = bounds;
            return;
        }
        self.uses += 1;
        let finger = Finger { tree, leaf, bounds, has_stayed: false, used: self.uses };
        let is_full = self.kept.len() == FINGERS;
        match self.kept.iter_mut().min_by_key(|finger| finger.used).filter(|_| is_full) {
            Some(oldest) => *oldest = finger,
            None => self.kept.push(finger),
        }
    }
}

/// What a thread knows before it searches.
struct Known {
    /// The leaf of the key, if it is that of the last search, and the shape for which that is true.
    leaf: Option<(PageId, u64)>,
    /// Whether the bounds of the next leaf are worth a copy.
    wants_bounds: bool,
}

impl BTree {
    /// The leaf to which a key belongs, held exclusively.
    pub(super) fn write_leaf(&self, key: &[u8]) -> Result<Step<'_>, AccessError> {
        let Known { leaf, wants_bounds } = self.known(key);
        if let Some((id, page)) = leaf.and_then(|leaf| self.held(leaf, |id| self.write(id))) {
            return Ok(Step { id, page });
        }
        let mut bounds = wants_bounds.then(Fences::default);
        let step = self.write_leaf_between(key, bounds.as_mut())?;
        self.note_finger(step.id, bounds);
        Ok(step)
    }

    /// The leaf to which a key belongs, held shared.
    pub(super) fn read_leaf_of(&self, key: &[u8]) -> Result<(PageId, SharedGuard<'_>), AccessError> {
        let Known { leaf, wants_bounds } = self.known(key);
        if let Some(found) = leaf.and_then(|leaf| self.held(leaf, |id| self.read(id))) {
            return Ok(found);
        }
        let mut bounds = wants_bounds.then(Fences::default);
        let (id, page) = self.read_leaf(Target::Key(key), bounds.as_mut(), None)?;
        self.note_finger(id, bounds);
        Ok((id, page))
    }

    /// What this thread knows of the leaf of a key.
    fn known(&self, key: &[u8]) -> Known {
        OF_THIS_THREAD.with_borrow_mut(|fingers| {
            let Some(finger) = fingers.of(self.number) else { return Known { leaf: None, wants_bounds: false } };
            let wants_bounds = finger.has_stayed;
            let bounds = finger.bounds.as_ref().filter(|(_, bounds)| bounds.has(key));
            let leaf = bounds.map(|(shape, _)| (finger.leaf, *shape));
            finger.has_stayed |= leaf.is_some();
            Known { leaf, wants_bounds }
        })
    }

    /// A leaf, latched by `latch`, if no rows of leaves have moved since `shape`.
    fn held<G: Deref<Target = PageBytes>>(
        &self,
        (leaf, shape): (PageId, u64),
        latch: impl FnOnce(PageId) -> Result<G, AccessError>,
    ) -> Option<(PageId, G)> {
        // Until the latch is held, the page stays one of this tree.
        let _stay = self.moves.try_read()?;
        if self.notes.shape() != shape {
            return None;
        }
        // A descent meets the error of a page that cannot be read, or is not a leaf of this tree, again.
        let page = latch(leaf).ok()?;
        (self.notes.shape() == shape && self.level_of(leaf, &page).ok()? == 0).then_some((leaf, page))
    }

    /// Notes the leaf in which a search ended. It is held.
    fn note_finger(&self, leaf: PageId, bounds: Option<Fences>) {
        let bounds = bounds.map(|bounds| (self.notes.shape(), bounds));
        OF_THIS_THREAD.with_borrow_mut(|fingers| fingers.note(self.number, leaf, bounds));
    }
}
