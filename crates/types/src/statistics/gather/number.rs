//! The fast path for a single column of numbers. Most statistics are of one, and most rows of a load use it.
//!
//! Its key is the byte for "not NULL" and the number's bytes in reverse order with the sign flipped, as
//! [`KeyColumn::encode`] makes it. So the number alone decides whether the row equals the one before and where it is in
//! the order, and the key needs no buffer.

use super::{Gatherer, stretch_number, value_length};
use crate::key::Form;
use crate::statistics::hash_key;
use crate::{KeyColumn, KeyError};

/// Room for the longest such key.
const KEY_ROOM: usize = 16;

/// A column of numbers of up to eight bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberColumn {
    width: usize,
    /// Bytes of a value as SQL Server counts them.
    length: u64,
    /// The value of the row before; `None` is NULL.
    last: Option<u64>,
    is_last_known: bool,
}

impl NumberColumn {
    pub(super) fn new(column: &KeyColumn) -> Option<NumberColumn> {
        let is_number = Form::of(column.sql_type()) == Form::Integer;
        let width = column.sql_type().physical().width().filter(|width| is_number && (1..=8).contains(width))?;
        let length = value_length(column.sql_type(), &[]) as u64;
        Some(NumberColumn { width, length, last: None, is_last_known: false })
    }

    /// The number's key without its first byte, followed by zeros, as a number.
    #[inline]
    fn turned(&self, value: &[u8]) -> Result<u64, KeyError> {
        if value.len() != self.width {
            return Err(KeyError::Width);
        }
        let number = if let Ok(four) = <[u8; 4]>::try_from(value) {
            u64::from(u32::from_le_bytes(four)) << 32
        } else if let Ok(eight) = <[u8; 8]>::try_from(value) {
            u64::from_le_bytes(eight)
        } else {
            let mut bytes = [0; 8];
            bytes[8 - self.width..].copy_from_slice(value);
            u64::from_le_bytes(bytes)
        };
        Ok(number ^ 1 << 63)
    }

    /// The next row counts as different from the one before.
    pub(super) fn forget_last(&mut self) {
        self.is_last_known = false;
    }

    #[inline]
    fn key(&self, turned: Option<u64>) -> ([u8; KEY_ROOM], usize) {
        let Some(turned) = turned else { return ([0; KEY_ROOM], 1) };
        // Shifted together, not stored as a byte and bytes: hashing would wait for two stores before one load.
        let key = u128::from(turned.swap_bytes()) << 8 | 0x01;
        (key.to_le_bytes(), 1 + self.width)
    }
}

impl Gatherer {
    #[inline]
    pub(super) fn add_number(&mut self, mut column: NumberColumn, value: Option<&[u8]>) -> Result<(), KeyError> {
        let turned = value.map(|value| column.turned(value)).transpose()?;
        self.see(&mut column, turned, value);
        self.number = Some(column);
        Ok(())
    }

    /// Adds many numbers. Values that are not valid for the column are left out.
    pub(super) fn add_numbers<'v>(&mut self, mut column: NumberColumn, values: impl Iterator<Item = Option<&'v [u8]>>) {
        for value in values {
            if let Ok(turned) = value.map(|value| column.turned(value)).transpose() {
                self.see(&mut column, turned, value);
            }
        }
        self.number = Some(column);
    }

    #[inline(always)]
    fn see(&mut self, column: &mut NumberColumn, turned: Option<u64>, value: Option<&[u8]>) {
        let is_new = column.last != turned || !column.is_last_known;
        (column.last, column.is_last_known) = (turned, true);
        self.rows += 1;
        self.prefixes[0].bytes += value.map_or(0, |_| column.length);
        self.nulls += u64::from(value.is_none());
        if is_new {
            let (key, length) = column.key(turned);
            let hash = hash_key(&key[..length]);
            self.prefixes[0].distinct.add(hash);
            if let Some(units) = &mut self.units {
                units.counts[0].add(hash, units.current);
            }
            self.last.hashes[0] = hash;
            self.sample.row_changes();
            if let (Some(number), Some(value)) = (turned, value) {
                stretch_number(&mut self.extremes, number, &key[..length], value);
            }
        }
        if self.sample.wants_row() {
            let (key, length) = column.key(turned);
            self.sample.add(&key[..length], value, &self.last.hashes);
        }
    }
}
