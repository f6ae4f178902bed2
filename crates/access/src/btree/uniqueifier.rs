//! The hidden column that makes the keys of a nonunique clustered index differ.

use std::sync::Arc;

use hobt_page::RowImage;
use hobt_txn::StatementContext;

use super::rows::Ghost;
use super::{BTree, BTreeError, Cursor, Direction, KeyRange};
use crate::AccessError;

impl BTree {
    /// Inserts a row whose `column` is the tree's uniqueifier, an `int` that ends the key: it becomes 0, or, where a row with
    /// that key is there, one more than the greatest of rows with the same key but for it; which one. What the row has there
    /// does not count. Undone with the statement; blocks as [`BTree::insert`].
    ///
    /// # Errors
    /// As [`BTree::insert`], but never `Duplicate`; and there is no greater number (error 666).
    ///
    /// # Panics
    /// As [`BTree::insert`], or the key does not end in `column`.
    pub fn insert_uniquified(
        self: &Arc<BTree>,
        context: &StatementContext,
        row: &RowImage,
        column: usize,
    ) -> Result<i32, BTreeError> {
        let last = self.key.columns().last().expect("a key has columns");
        assert!(last.column == column && !last.key.is_descending(), "the key ends in its uniqueifier");
        let above = |greatest: i32| {
            greatest.checked_add(1).ok_or_else(|| {
                let what = "the greatest uniqueifier of a key is in use; build the index anew (error 666)";
                AccessError::Closed(what.to_owned())
            })
        };
        let rows = self.hobt.row_layout();
        let mut number = 0;
        if !rows.fits_in_row(row.variable_bytes(rows)) {
            // Its long values are written only once, where it is likely to stay.
            number = self.greatest_uniqueifier(row, column)?.map_or(Ok(0), above)?;
        }
        loop {
            let bytes = number.to_le_bytes();
            let value = |index: usize| if index == column { Some(&bytes[..]) } else { row.value(index) };
            let numbered = RowImage::new((0..row.column_count()).map(value));
            // A ghost may be somebody's who brings it back; its number is not used again while it is there.
            match self.insert_beside(context, &numbered, Ghost::Kept) {
                Ok(()) => return Ok(number),
                Err(BTreeError::Duplicate) => {}
                Err(error) => return Err(error),
            }
            let greatest = self.greatest_uniqueifier(&numbered, column)?.unwrap_or(number);
            number = above(greatest.max(number))?;
        }
    }

    /// The greatest number of rows, ghosts included, whose key is that of `row` but for the number.
    fn greatest_uniqueifier(self: &Arc<BTree>, row: &RowImage, column: usize) -> Result<Option<i32>, BTreeError> {
        let columns = self.key.columns();
        let values: Vec<Option<&[u8]>> =
            columns[..columns.len() - 1].iter().map(|part| row.value(part.column)).collect();
        let mut prefix = Vec::new();
        self.key.encode_prefix(&values, &mut prefix).expect("a row of this tree, whose values are of their types");
        let mut cursor = Cursor::new(Arc::clone(self), KeyRange::prefix(&prefix), Direction::Backward);
        let mut greatest = None;
        cursor.next_leaf(&mut |id, page, positions| {
            let read = || {
                let slot = page.slot_at(positions.end - 1)?;
                Ok(page.value(column, slot)?.and_then(|bytes| bytes.try_into().ok()).map(i32::from_le_bytes))
            };
            greatest = read().map_err(|damage| self.hobt.damaged(id, damage))?;
            Ok(())
        })?;
        Ok(greatest)
    }
}
