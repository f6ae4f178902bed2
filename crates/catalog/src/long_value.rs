//! Values longer than a row, cut into pieces, each a row of `sysobjvalues`.

use std::collections::HashMap;

use hobt_txn::StatementContext;

use crate::error::{CatalogError, damaged};
use crate::heaps::SystemHeaps;
use crate::system::{SystemTable, ValueRow};

/// What a value belongs to. The numbers are stored on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub(crate) enum ValueClass {
    /// The text of a module.
    Module = 1,
    /// The expression of a DEFAULT constraint; `sub_id` is the column.
    Default = 2,
    /// A boundary of a partition function as pages store it; `sub_id` is its place, from 0.
    Boundary = 3,
    /// The expression of a computed column; `sub_id` is the column.
    Computed = 4,
    /// The condition of a CHECK constraint; the object is the table, `sub_id` the constraint.
    Check = 5,
    /// The position of the table's identity column, if it was reseeded.
    Identity = 6,
    /// The condition of a filtered statistics object; the object is the table, `sub_id` the statistics.
    StatisticsFilter = 7,
    /// Counts shown for the partitions of an index, relative to the actual ones; `sub_id` is the index.
    ShownCounts = 9,
    /// An entry of the history of backups; in `master` only.
    History = 10,
}

/// The size of a piece in bytes: with the row's other columns it fits a page.
const PIECE_BYTES: usize = 7000;

/// The key of a value: class, object, part.
type Key = (u8, i32, i32);

impl SystemHeaps {
    /// Writes a value in pieces.
    pub(crate) fn insert_long(
        &self,
        ctx: &StatementContext,
        class: ValueClass,
        id: i32,
        sub_id: i32,
        value: Option<&[u8]>,
    ) -> Result<(), CatalogError> {
        let row = |piece, value| ValueRow { class: class as u8, id, sub_id, piece, value };
        match value {
            None => self.insert(ctx, &row(0, None)),
            Some([]) => self.insert(ctx, &row(0, Some(Vec::new()))),
            Some(bytes) => {
                for (piece, bytes) in (0..).zip(bytes.chunks(PIECE_BYTES)) {
                    self.insert(ctx, &row(piece, Some(bytes.to_vec())))?;
                }
                Ok(())
            }
        }
    }

    /// Deletes all values of an object.
    pub(crate) fn delete_long(&self, ctx: &StatementContext, class: ValueClass, id: i32) -> Result<(), CatalogError> {
        self.delete(ctx, |row: &ValueRow| row.class == class as u8 && row.id == id).map(|_| ())
    }

    /// Deletes one value of an object.
    pub(crate) fn delete_long_part(
        &self,
        ctx: &StatementContext,
        class: ValueClass,
        id: i32,
        sub_id: i32,
    ) -> Result<(), CatalogError> {
        let is_it = |row: &ValueRow| row.class == class as u8 && row.id == id && row.sub_id == sub_id;
        self.delete(ctx, is_it).map(|_| ())
    }
}

/// All long values of a database but the history of backups, assembled from their pieces.
#[derive(Debug)]
pub(crate) struct LongValues {
    values: HashMap<Key, Option<Vec<u8>>>,
}

impl LongValues {
    pub(crate) fn read(heaps: &SystemHeaps) -> Result<LongValues, CatalogError> {
        let mut rows = Vec::new();
        heaps.visit(&mut |row: ValueRow, _, _| {
            // They grow with every backup, and belong to no object.
            if row.class != ValueClass::History as u8 {
                rows.push(row);
            }
        })?;
        LongValues::assemble(rows)
    }

    pub(crate) fn assemble(mut rows: Vec<ValueRow>) -> Result<LongValues, CatalogError> {
        rows.sort_by_key(|row| (row.class, row.id, row.sub_id, row.piece));
        let mut values: HashMap<Key, Option<Vec<u8>>> = HashMap::new();
        let mut next = (None, 0);
        for row in rows {
            let key = (row.class, row.id, row.sub_id);
            if next.0 != Some(key) {
                next = (Some(key), 0);
            }
            if row.piece != next.1 {
                let what = format!("piece {} of value {key:?} is missing or there twice", next.1);
                return Err(damaged(SystemTable::Values, what));
            }
            next.1 += 1;
            match (values.get_mut(&key), row.value) {
                (None, value) => {
                    values.insert(key, value);
                }
                (Some(Some(start)), Some(piece)) => start.extend_from_slice(&piece),
                _ => return Err(damaged(SystemTable::Values, format!("value {key:?} is NULL and has pieces"))),
            }
        }
        Ok(LongValues { values })
    }

    /// Takes a value out. The outer `None` means that there is no value, the inner one NULL.
    pub(crate) fn take(&mut self, class: ValueClass, id: i32, sub_id: i32) -> Option<Option<Vec<u8>>> {
        self.values.remove(&(class as u8, id, sub_id))
    }

    /// Takes a text out.
    pub(crate) fn take_text(&mut self, class: ValueClass, id: i32, sub_id: i32) -> Result<String, CatalogError> {
        let bytes = self.take(class, id, sub_id).flatten();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.ok_or_else(|| damaged(SystemTable::Values, format!("object {id}, part {sub_id} has no text")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sub_id: i32, piece: i32, value: Option<&[u8]>) -> ValueRow {
        ValueRow { class: 1, id: 7, sub_id, piece, value: value.map(<[u8]>::to_vec) }
    }

    #[test]
    fn pieces_come_together_in_any_order() {
        let rows = vec![row(0, 1, Some(b"cd")), row(1, 0, None), row(0, 0, Some(b"ab"))];
        let mut values = LongValues::assemble(rows).expect("whole");
        assert_eq!(values.take_text(ValueClass::Module, 7, 0).expect("text"), "abcd");
        assert_eq!(values.take(ValueClass::Module, 7, 1), Some(None));
        assert_eq!(values.take(ValueClass::Module, 7, 2), None);
    }

    #[test]
    fn a_missing_or_doubled_piece_is_damage() {
        for rows in [
            vec![row(0, 1, Some(b"x"))],
            vec![row(0, 0, Some(b"x")), row(0, 0, Some(b"x"))],
            vec![row(0, 0, Some(b"x")), row(0, 2, Some(b"x"))],
            vec![row(0, 0, None), row(0, 1, Some(b"x"))],
        ] {
            assert!(LongValues::assemble(rows).is_err());
        }
    }
}
