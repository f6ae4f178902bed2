//! Where to split a full leaf of a B+tree. The split itself produces two pages that each keep some of the rows
//! ([`crate::PageChange::KeepRows`]).

use crate::{PageDamage, RowImage, RowPage};

/// Where to split a leaf to insert a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeafSplit {
    /// Positions below this stay in the left page; the others move to the right one.
    pub kept: usize,
    /// Whether the new row goes into the right page, at its position less `kept`.
    pub is_right: bool,
}

impl RowPage<'_> {
    /// Where to split this ordered page to insert `row` at `position`: in halves of bytes, including the new row. For a
    /// row after all others the left page stays full and the right one begins with the row, so that ascending keys
    /// leave full pages behind.
    ///
    /// If fewer than four rows fit a page, the new one may still have no room in its half. That half is then split in
    /// turn. Neither half is empty once it has the row, if the page is not.
    ///
    /// # Errors
    /// The order or the end offsets contradict the page.
    ///
    /// # Panics
    /// If there is no such position.
    pub fn split(&self, position: usize, row: &RowImage) -> Result<LeafSplit, PageDamage> {
        let count = self.row_count();
        assert!(position <= count, "a position of the page");
        if position == count {
            return Ok(LeafSplit { kept: count, is_right: true });
        }
        let rows = self.row_layout();
        let row_bytes = rows.fixed_row_bytes() + 1;
        let mut sizes = Vec::with_capacity(count);
        for slot in self.order() {
            let slot = slot?;
            let mut bytes = row_bytes;
            for column in (0..rows.columns().len()).filter(|&column| rows.variable_rank(column).is_some()) {
                bytes += self.stored(column, slot)?.byte_count();
            }
            sizes.push(bytes);
        }
        let added = row_bytes + row.variable_bytes(rows);
        let (mut left, mut right) = (0, sizes.iter().sum::<usize>());
        let mut best = (usize::MAX, LeafSplit { kept: 0, is_right: false });
        for kept in 0..=count {
            for is_right in [false, true] {
                let belongs = if is_right { kept <= position } else { position <= kept };
                let is_empty = if is_right { kept == 0 } else { kept == count };
                let larger = if is_right { left.max(right + added) } else { (left + added).max(right) };
                if belongs && !is_empty && larger < best.0 {
                    best = (larger, LeafSplit { kept, is_right });
                }
            }
            if let Some(size) = sizes.get(kept) {
                left += size;
                right -= size;
            }
        }
        Ok(best.1)
    }
}
