//! How much of a tree lies in a range of keys, by where its bounds are among the entries of the pages on the way to them.

use super::{BTree, KeyRange};
use crate::AccessError;

impl BTree {
    /// The part of the tree's rows that a range has, from 0 to 1: right to about a leaf where pages of a level have about
    /// as many entries. Reads a page of each level for each bound.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub fn estimate(&self, range: &KeyRange) -> Result<f64, AccessError> {
        let (low, high) = range.bounds();
        if high.is_some_and(|high| high <= low) {
            return Ok(0.0);
        }
        let from = if low.is_empty() { 0.0 } else { self.position_of(low)? };
        let to = match high {
            Some(high) => self.position_of(high)?,
            None => 1.0,
        };
        Ok((to - from).clamp(0.0, 1.0))
    }

    /// Which part of the tree's rows is below a key.
    fn position_of(&self, key: &[u8]) -> Result<f64, AccessError> {
        let (mut position, mut share) = (0.0, 1.0);
        let mut id = self.root;
        let mut page = self.read(id)?;
        let mut level = self.level_of(id, &page)?;
        while level > 0 {
            let index = self.index(id, &page)?;
            let find = || {
                let child = index.child_index(key)?;
                Ok((child, index.len() + 1, index.child(child)?))
            };
            let (child, children, next) = find().map_err(|damage| self.hobt.damaged(id, damage))?;
            share /= children as f64;
            position += share * child as f64;
            let below = self.read(next)?;
            level -= 1;
            self.expect_level(next, &below, level)?;
            (id, page) = (next, below);
        }
        let view = self.leaf(id, &page)?;
        let (Ok(place) | Err(place)) = self.find_in(id, &view, key)?;
        Ok(position + share * place as f64 / view.row_count().max(1) as f64)
    }
}
