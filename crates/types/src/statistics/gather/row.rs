//! The row before, to which the next one is compared, so that work for equal columns is not repeated.

use super::columns::value_length;
use crate::{KeyColumn, KeyError};

/// The row before, to which the next one is compared.
#[derive(Clone, Debug, Default)]
pub(super) struct LastRow {
    pub(super) is_known: bool,
    pub(super) columns: Vec<LastColumn>,
    /// The columns' values, concatenated.
    pub(super) values: Vec<u8>,
    /// Their keys, concatenated.
    pub(super) key: Vec<u8>,
    /// The hash of each prefix of the key.
    pub(super) hashes: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastColumn {
    pub(super) value_end: usize,
    pub(super) key_end: usize,
    /// Bytes of the values as SQL Server counts them.
    pub(super) length_end: usize,
    pub(super) is_null: bool,
}

impl LastRow {
    /// The next row counts as different from the one before.
    pub(super) fn forget(&mut self) {
        self.is_known = false;
    }

    /// How many of the first columns have the values of the row before.
    pub(super) fn equal_columns(&self, values: &[Option<&[u8]>]) -> usize {
        if !self.is_known {
            return 0;
        }
        let mut start = 0;
        for (at, (column, value)) in self.columns.iter().zip(values).enumerate() {
            let is_equal = match value {
                None => column.is_null,
                Some(bytes) => !column.is_null && self.values[start..column.value_end] == **bytes,
            };
            if !is_equal {
                return at;
            }
            start = column.value_end;
        }
        self.columns.len()
    }

    /// Stores a row's values, from column `from` on.
    pub(super) fn take(
        &mut self,
        columns: &[KeyColumn],
        values: &[Option<&[u8]>],
        from: usize,
    ) -> Result<(), KeyError> {
        self.is_known = false;
        let before = from.checked_sub(1).map_or(LastColumn::default(), |at| self.columns[at]);
        self.values.truncate(before.value_end);
        self.key.truncate(before.key_end);
        self.columns.truncate(from);
        let mut length = before.length_end;
        for (column, value) in columns[from..].iter().zip(&values[from..]) {
            column.encode(*value, &mut self.key)?;
            self.values.extend_from_slice(value.unwrap_or(&[]));
            length += value.map_or(0, |value| value_length(column.sql_type(), value));
            self.columns.push(LastColumn {
                value_end: self.values.len(),
                key_end: self.key.len(),
                length_end: length,
                is_null: value.is_none(),
            });
        }
        self.is_known = true;
        Ok(())
    }
}
