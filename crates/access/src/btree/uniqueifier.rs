//! The hidden column that makes the keys of a nonunique clustered index differ.

use std::sync::Arc;

use hobt_page::RowImage;

use super::{BTree, BTreeError, Cursor, Direction, KeyRange};
use crate::AccessError;

impl BTree {
    /// The number that makes the key of a row differ from all others of the tree. It is the key's last column, an
    /// ascending `int`: one more than the greatest number among rows whose other key columns are equal, or 0 if there
    /// are none. The row's own value in that column is ignored. Ghosts count, because an undo may revive them. Another
    /// transaction may take the number before it is used.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or a value of the row is not valid for its column. Or there is no greater
    /// number (error 666).
    pub fn next_uniqueifier(self: &Arc<BTree>, row: &RowImage) -> Result<i32, BTreeError> {
        let columns = self.key.columns();
        let (last, columns) = columns.split_last().expect("a key has columns");
        let values: Vec<Option<&[u8]>> = columns.iter().map(|part| row.value(part.column)).collect();
        let mut prefix = Vec::new();
        self.key.encode_prefix(&values, &mut prefix).map_err(|_| self.not_a_key())?;
        let mut cursor = Cursor::new(Arc::clone(self), KeyRange::prefix(&prefix), Direction::Backward);
        let mut greatest: Option<i32> = None;
        cursor.next_leaf(&mut |id, page, positions| {
            let read = || {
                let slot = page.slot_at(positions.end - 1)?;
                Ok(page.value(last.column, slot)?.and_then(|bytes| bytes.try_into().ok()).map(i32::from_le_bytes))
            };
            greatest = read().map_err(|damage| self.hobt.damaged(id, damage))?;
            Ok(())
        })?;
        greatest.map_or(Some(0), |greatest| greatest.checked_add(1)).ok_or_else(|| {
            let what = "the greatest uniqueifier of a key is in use; build the index anew (error 666)";
            AccessError::Closed(what.to_owned()).into()
        })
    }
}
