//! Estimates how much of a tree is in a range of keys, by the positions of its bounds among the entries of the pages
//! from the root down; and divides a range into parts of about equal numbers of leaves.

use hobt_buffer::ReadCounts;

use super::descent::{Fences, Target};
use super::{BTree, KeyRange};
use crate::AccessError;

impl BTree {
    /// The fraction of the tree's rows in a range, from 0 to 1. It is accurate to about a leaf if pages of a level have
    /// about equal numbers of entries. Reads a page of each level for each bound.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub fn estimate(&self, range: &KeyRange) -> Result<f64, AccessError> {
        if range.is_empty() {
            return Ok(0.0);
        }
        let (low, high) = range.bounds();
        let from = if low.is_empty() { 0.0 } else { self.position_of(low)? };
        let to = match high {
            Some(high) => self.position_of(high)?,
            None => 1.0,
        };
        Ok((to - from).clamp(0.0, 1.0))
    }

    /// The fraction of the tree's rows below a key.
    fn position_of(&self, key: &[u8]) -> Result<f64, AccessError> {
        let reads = ReadCounts::default();
        let position = self.find_position(key, &reads);
        self.hobt.leave_uncharged(&reads);
        position
    }

    fn find_position(&self, key: &[u8], reads: &ReadCounts) -> Result<f64, AccessError> {
        let (mut position, mut share) = (0.0, 1.0);
        let mut id = self.root;
        let mut page = self.read_counted(id, Some(reads))?;
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
            let below = self.read_counted(next, Some(reads))?;
            level -= 1;
            self.expect_level(next, &below, level)?;
            (id, page) = (next, below);
        }
        let view = self.leaf(id, &page)?;
        let (Ok(place) | Err(place)) = self.find_in(id, &view, key)?;
        Ok(position + share * place as f64 / view.row_count().max(1) as f64)
    }

    /// Divides a range into up to `count` parts, ascending and disjoint, with about equal numbers of leaves. It is
    /// divided at separators of the pages above the leaves, so a range of few leaves has few parts.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub fn divide(&self, range: &KeyRange, count: usize) -> Result<Vec<KeyRange>, AccessError> {
        let of_level_2 = self.separators(range, 2)?.filter(|keys| keys.len() + 1 >= count);
        let keys = match of_level_2 {
            Some(keys) => keys,
            None => self.separators(range, 1)?.unwrap_or_default(),
        };
        let parts = count.clamp(1, keys.len() + 1);
        let ends = (1..parts).map(|part| keys[part * (keys.len() + 1) / parts - 1].as_slice());
        Ok(range.cut(ends))
    }

    /// The separators of a level that are in a range, ascending; `None` if the tree has no such level.
    fn separators(&self, range: &KeyRange, level: u8) -> Result<Option<Vec<Vec<u8>>>, AccessError> {
        let (low, high) = range.bounds();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut at = low.to_vec();
        loop {
            let (mut fences, reads) = (Fences::default(), ReadCounts::default());
            let found = self.read_down_to(level, Target::Key(&at), &mut fences, &reads);
            self.hobt.leave_uncharged(&reads);
            let found = found?;
            let Some((id, bytes)) = found else { return Ok(None) };
            let page = self.index(id, &bytes)?;
            let is_inside = |key: &[u8]| key > low && high.is_none_or(|high| key < high);
            for index in 0..page.len() {
                let key = page.key(index).map_err(|damage| self.hobt.damaged(id, damage))?;
                // A split may have moved the page's beginning since the last page was read.
                if is_inside(key) && keys.last().is_none_or(|last| last.as_slice() < key) {
                    keys.push(key.to_vec());
                }
            }
            match fences.high {
                Some(fence) if is_inside(&fence) && fence > at => {
                    if keys.last().is_none_or(|last| *last < fence) {
                        keys.push(fence.clone());
                    }
                    at = fence;
                }
                _ => return Ok(Some(keys)),
            }
        }
    }
}
