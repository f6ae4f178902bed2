//! Rows in the order of their keys, leaf by leaf, forward or backward.
//!
//! A cursor keeps the range of keys that is left and holds no latch between two leaves. Each step descends to the leaf
//! of the next key, shows the part of it that is in range, and continues after the leaf's range by the separators above
//! it. These are valid while the leaf is held, so a split between two steps neither hides a row nor shows it twice, in
//! either direction.

use std::ops::{Bound, Range};
use std::sync::Arc;

use hobt_base::PageId;
use hobt_buffer::ReadCounts;
use hobt_page::{PageDamage, RowPage};

use super::BTree;
use super::descent::{Fences, Target};
use super::key::behind_prefix;
use crate::AccessError;

/// The direction of a cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// In the order of the key.
    Forward,
    /// In the reverse order.
    Backward,
}

/// A range of normalised keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyRange {
    /// The smallest byte string in it.
    low: Vec<u8>,
    /// The smallest byte string behind it; `None` if it has no end.
    high: Option<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    pub fn all() -> KeyRange {
        KeyRange { low: Vec::new(), high: None }
    }

    /// The keys between two bounds. Each bound is a key or the key of its first columns, which stands for all keys that
    /// begin with it: they are in the range if the bound is inclusive and are not if it is exclusive.
    pub fn new(from: Bound<&[u8]>, to: Bound<&[u8]>) -> KeyRange {
        let (low, high) = match from {
            Bound::Unbounded => (Some(Vec::new()), None),
            Bound::Included(key) => (Some(key.to_vec()), None::<Vec<u8>>),
            Bound::Excluded(key) => (behind_prefix(key), None),
        };
        let high = match to {
            Bound::Unbounded => high,
            Bound::Included(key) => behind_prefix(key),
            Bound::Excluded(key) => Some(key.to_vec()),
        };
        match low {
            Some(low) => KeyRange { low, high },
            // No key is above the bound.
            None => KeyRange { low: Vec::new(), high: Some(Vec::new()) },
        }
    }

    /// The keys that begin with the key of these columns.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        KeyRange::new(Bound::Included(prefix), Bound::Included(prefix))
    }

    /// The smallest byte string in it, and the smallest behind it, if it has an end.
    pub(crate) fn bounds(&self) -> (&[u8], Option<&[u8]>) {
        (&self.low, self.high.as_deref())
    }

    /// Cuts the range into parts that end before these byte strings, which ascend and are in it, and a last part.
    pub(super) fn cut<'k>(&self, ends: impl Iterator<Item = &'k [u8]>) -> Vec<KeyRange> {
        let mut parts = Vec::new();
        let mut rest = self.clone();
        for end in ends {
            parts.push(KeyRange { high: Some(end.to_vec()), ..rest.clone() });
            rest.low = end.to_vec();
        }
        parts.push(rest);
        parts
    }

    pub(super) fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }
}

/// Whether a range consists of all keys that begin with some bytes.
pub(super) fn is_point(range: &KeyRange) -> bool {
    !range.low.is_empty() && behind_prefix(&range.low) == range.high
}

/// The function to which a cursor shows a leaf: its page, and which positions of its order are in range.
pub type ShowLeaf<'a> = dyn FnMut(PageId, &RowPage<'_>, Range<usize>) -> Result<(), AccessError> + 'a;

/// A leaf that a cursor has reached. It is held shared.
pub(super) struct StepLeaf<'a> {
    pub(super) id: PageId,
    pub(super) page: RowPage<'a>,
    pub(super) positions: Range<usize>,
    /// The bounds of the keys at these positions.
    pub(super) bounds: (&'a [u8], Option<&'a [u8]>),
    /// These are the bounds of the leaf's own keys.
    pub(super) is_whole: bool,
}

/// A scan of a range in order.
#[derive(Debug)]
pub struct Cursor {
    tree: Arc<BTree>,
    /// The range that is left.
    rest: KeyRange,
    direction: Direction,
    is_done: bool,
}

impl Cursor {
    /// A cursor at the beginning of a range, or at its end if it goes backward.
    pub fn new(tree: Arc<BTree>, range: KeyRange, direction: Direction) -> Cursor {
        let is_done = range.is_empty();
        Cursor { tree, rest: range, direction, is_done }
    }

    /// Shows the next leaf that has rows in range: its page, and the positions of its order that are in range. Ghosts
    /// are among them and are to be skipped. If the cursor goes backward, the positions are to be read from the end.
    /// Returns `false` if there is no further leaf. The page is held shared while it is shown: `show` must not wait for
    /// another page.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or what `show` returns. The cursor stays where it was.
    pub fn next_leaf(&mut self, show: &mut ShowLeaf<'_>) -> Result<bool, AccessError> {
        while !self.is_done {
            if self.step(None, &mut |leaf| show(leaf.id, &leaf.page, leaf.positions))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the range is done.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The bounds of the range that is left.
    pub(super) fn rest(&self) -> (&[u8], Option<&[u8]>) {
        (&self.rest.low, self.rest.high.as_deref())
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// Goes over one leaf; returns whether it had rows in range.
    pub(super) fn step(
        &mut self,
        reads: Option<&ReadCounts>,
        show: &mut dyn FnMut(StepLeaf<'_>) -> Result<(), AccessError>,
    ) -> Result<bool, AccessError> {
        let tree = &self.tree;
        let target = match self.direction {
            Direction::Forward => Target::Key(&self.rest.low),
            Direction::Backward => Target::Before(self.rest.high.as_deref()),
        };
        let mut fences = Fences::default();
        let (id, page) = tree.read_leaf(target, Some(&mut fences), reads)?;
        let view = tree.leaf(id, &page)?;
        let from = if self.rest.low <= fences.low { 0 } else { tree.first_at_or_above(id, &view, &self.rest.low)? };
        // A bound behind the leaf's own keys is not searched for.
        let high = self.rest.high.as_deref().filter(|high| fences.high.as_deref().is_none_or(|fence| *high < fence));
        let to = match high {
            Some(high) => tree.first_at_or_above(id, &view, high)?,
            None => view.row_count(),
        };
        let has_rows = from < to;
        if has_rows {
            let low = self.rest.low.as_slice().max(&fences.low);
            let is_whole = self.rest.low <= fences.low && high.is_none();
            let bounds = (low, high.or(fences.high.as_deref()));
            show(StepLeaf { id, page: view, positions: from..to, bounds, is_whole })?;
        }
        drop(page);
        match self.direction {
            Direction::Forward => match fences.high {
                Some(fence) => {
                    self.is_done = high.is_some() || self.rest.high.as_ref() == Some(&fence);
                    self.rest.low = fence;
                }
                None => self.is_done = true,
            },
            Direction::Backward => {
                self.is_done = fences.low <= self.rest.low;
                self.rest.high = Some(fences.low);
            }
        }
        Ok(has_rows)
    }
}

impl BTree {
    /// The first position of a leaf whose key is not below these bytes.
    pub(super) fn first_at_or_above(&self, id: PageId, page: &RowPage<'_>, key: &[u8]) -> Result<usize, AccessError> {
        match self.find_in(id, page, key)? {
            Ok(position) | Err(position) => Ok(position),
        }
    }

    /// Writes the normalised key of a slot of one of its leaves to `out`, replacing its content.
    ///
    /// # Errors
    /// The slot has a value that is not valid for a key column.
    pub fn key_of_slot(&self, page: &RowPage<'_>, slot: usize, out: &mut Vec<u8>) -> Result<(), PageDamage> {
        self.key.of_slot(page, slot, out)
    }
}
