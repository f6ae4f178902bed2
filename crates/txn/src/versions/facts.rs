//! What versions are of, and what they say.

use std::sync::Arc;

use hobt_base::{HobtId, PageId};
use hobt_instruments::planted::{self, Bug};
use hobt_page::RowImage;

/// A page while it belongs to a heap: versions of its rows do not apply to rows that another heap has there later. A
/// truncated heap may use its pages again: snapshots from before the truncation are refused with 3961.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HeapPage {
    /// The heap.
    pub hobt: HobtId,
    /// Its page.
    pub page: PageId,
}

/// A tree between two truncations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct TreeName {
    pub(super) hobt: HobtId,
    /// 0 before the first truncation that the store knows of. Every truncation has another number.
    pub(super) truncations: u64,
}

/// A key of a tree with the state of its row before a change.
pub type KeyState = (Arc<[u8]>, Before);

/// The state of a row before a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Before {
    /// No row: it was inserted.
    Absent,
    /// The row, which was deleted. Its values are those that the slot had at that time. If a newer version of the slot
    /// has a row ([`Before::Row`]), the delete was undone before, and the values are that version's.
    Present,
    /// This row, which was replaced by another one.
    Row(Arc<RowImage>),
}

impl Before {
    /// The state of the slot before this change and `newer`, the next one, neither of which is visible.
    pub(super) fn beneath<'a>(&'a self, newer: Option<&'a Before>) -> &'a Before {
        match newer {
            Some(row @ Before::Row(_)) if *self == Before::Present && !planted::has(Bug::PresentHidesRow) => row,
            _ => self,
        }
    }

    /// Bytes that it keeps.
    pub(super) fn row_bytes(&self) -> usize {
        if let Before::Row(row) = self { row.memory_bytes() } else { 0 }
    }
}
