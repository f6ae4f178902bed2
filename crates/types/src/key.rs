//! Normalised keys: values of an index's columns as bytes whose order is the index's order.
//!
//! ```text
//! key:        the columns, concatenated
//! column:     [00 NULL | 01 value, where it may be NULL] value; all bits flipped where the order is descending
//! integers, decimals, money, dates, times   big-endian, sign bit flipped
//! float, real                               big-endian, sign bit flipped; all bits where it is negative
//! bit, tinyint, uniqueidentifier            its bytes
//! text                                      the collation's sort key ┐ 00 as 01 01, 01 as 01 02,
//! binary                                    without zeros at its end ┘ and 00 after it
//! ```
//! Two keys compare as bytes (`memcmp`, and a prefix before the longer key) as their values do, column by column. No
//! column's bytes are a prefix of another value's, so a later column is never compared with an earlier one. NULL comes
//! before every value, or after every value in descending order. Equal keys are equal values in SQL: text that its
//! collation treats as equal, `-0` and `0`, `0x01` and `0x0100` have one key. So a key cannot be converted back into
//! its value.
//!
//! Values have the form that pages hold (see [`PhysicalType`](crate::PhysicalType)). Values on pages of their own
//! cannot be keys, nor can values of `max` types. The index limits the length of keys.

use std::cmp::Ordering;
use std::fmt;

use hobt_base::compare_bytes;

use crate::{Collation, MaxLength, SqlType};

/// Ends a value of variable length. Below every byte of one.
const END: u8 = 0x00;
/// Precedes a byte that would otherwise be 00 or 01.
const ESCAPE: u8 = 0x01;

/// A column of an index's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyColumn {
    sql_type: SqlType,
    collation: Collation,
    nullable: bool,
    descending: bool,
}

/// Why a value has no key in its column: its page is damaged, or it belongs to another column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// NULL in a column that is NOT NULL.
    Null,
    /// A fixed-length value of another length.
    Width,
    /// Text that is not UTF-8.
    Text,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyError::Null => "NULL in a key column that is NOT NULL",
            KeyError::Width => "a key value of another length than its type's",
            KeyError::Text => "a key value that is not UTF-8",
        })
    }
}

impl std::error::Error for KeyError {}

impl KeyColumn {
    /// A column of this type in an index's key; `None` if no index can have such keys (`max` types). The collation is
    /// used only for text.
    pub fn new(sql_type: SqlType, collation: Collation, nullable: bool, descending: bool) -> Option<KeyColumn> {
        let is_max = matches!(
            sql_type,
            SqlType::VarChar(MaxLength::Max) | SqlType::NVarChar(MaxLength::Max) | SqlType::VarBinary(MaxLength::Max)
        );
        (!is_max).then_some(KeyColumn { sql_type, collation, nullable, descending })
    }

    /// The column's type.
    pub fn sql_type(&self) -> SqlType {
        self.sql_type
    }

    /// The collation of its text.
    pub fn collation(&self) -> Collation {
        self.collation
    }

    /// Whether it may be NULL.
    pub fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// Whether its order is reversed.
    pub fn is_descending(&self) -> bool {
        self.descending
    }

    /// Appends the key of a value, as a page holds it, to `out`.
    ///
    /// # Errors
    /// It is not a value of the column. `out` is then unchanged.
    pub fn encode(&self, value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), KeyError> {
        let start = out.len();
        let Some(bytes) = value else {
            if !self.nullable {
                return Err(KeyError::Null);
            }
            out.push(if self.descending { 0xFF } else { 0x00 });
            return Ok(());
        };
        if self.sql_type.physical().width().is_some_and(|width| width != bytes.len()) {
            return Err(KeyError::Width);
        }
        if self.nullable {
            out.push(0x01);
        }
        let first = out.len();
        match Form::of(self.sql_type) {
            Form::Bytes => out.extend_from_slice(bytes),
            Form::Float => push_float(bytes, out),
            Form::Binary => {
                let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                out.extend_from_slice(&bytes[..end]);
                end_value(out, first);
            }
            Form::Text => {
                let Ok(text) = std::str::from_utf8(bytes) else {
                    out.truncate(start);
                    return Err(KeyError::Text);
                };
                self.collation.sort_key(text, out);
                end_value(out, first);
            }
            Form::Integer => push_integer(bytes, out),
        }
        if self.descending {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(())
    }
}

impl KeyColumn {
    /// The order of a value's key relative to the bytes of a key, if it can be computed without making the value's key:
    /// for numbers and guids in ascending order that cannot be NULL.
    pub fn compare(&self, value: Option<&[u8]>, key: &[u8]) -> Option<Ordering> {
        let bytes = value.filter(|bytes| self.sql_type.physical().width() == Some(bytes.len()))?;
        if self.nullable || self.descending {
            return None;
        }
        match self.sql_type {
            SqlType::Bit | SqlType::TinyInt | SqlType::UniqueIdentifier => Some(compare_bytes(bytes, key)),
            SqlType::SmallInt
            | SqlType::Int
            | SqlType::BigInt
            | SqlType::Date
            | SqlType::Time { .. }
            | SqlType::SmallDateTime
            | SqlType::DateTime
            | SqlType::DateTime2 { .. } => {
                let mut turned = [0; 8];
                let turned = &mut turned[..bytes.len()];
                turned.iter_mut().zip(bytes.iter().rev()).for_each(|(to, from)| *to = *from);
                turned[0] ^= 0x80;
                Some(compare_bytes(turned, key))
            }
            _ => None,
        }
    }

    /// The bounds of the keys of all texts that begin with `prefix` in the column's collation: the first is included,
    /// the second is above them. `None` for a column in descending order.
    pub fn encode_prefix(&self, prefix: &str) -> Option<(Vec<u8>, Vec<u8>)> {
        if self.descending {
            return None;
        }
        let mut low = Vec::new();
        if self.nullable {
            low.push(0x01);
        }
        let first = low.len();
        self.collation.sort_key_prefix(prefix, &mut low);
        escape(&mut low, first);
        let mut high = low.clone();
        while high.pop_if(|byte| *byte == 0xFF).is_some() {}
        *high.last_mut()? += 1;
        Some((low, high))
    }

    /// Appends the key of a text or binary value, given the bytes by which it compares: its sort key in the column's
    /// collation, or the binary value without zeros at its end.
    pub fn encode_compared(&self, compared: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        if self.nullable {
            out.push(0x01);
        }
        let first = out.len();
        out.extend_from_slice(compared);
        end_value(out, first);
        if self.descending {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

/// How a type's values are encoded as keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// The bytes that the page holds.
    Bytes,
    Float,
    Binary,
    Text,
    /// Integers, of any unit.
    Integer,
}

impl Form {
    #[inline]
    pub(crate) const fn of(sql_type: SqlType) -> Form {
        match sql_type {
            SqlType::Bit | SqlType::TinyInt | SqlType::UniqueIdentifier => Form::Bytes,
            SqlType::Real | SqlType::Float => Form::Float,
            SqlType::Binary(_) | SqlType::VarBinary(_) => Form::Binary,
            SqlType::Char(_) | SqlType::VarChar(_) | SqlType::NChar(_) | SqlType::NVarChar(_) => Form::Text,
            SqlType::SmallInt
            | SqlType::Int
            | SqlType::BigInt
            | SqlType::Decimal { .. }
            | SqlType::SmallMoney
            | SqlType::Money
            | SqlType::Date
            | SqlType::Time { .. }
            | SqlType::SmallDateTime
            | SqlType::DateTime
            | SqlType::DateTime2 { .. } => Form::Integer,
        }
    }
}

/// Appends a signed integer whose bytes are little-endian. The common lengths need no loop.
#[inline]
fn push_integer(bytes: &[u8], out: &mut Vec<u8>) {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        out.extend_from_slice(&(u32::from_le_bytes(four) ^ 1 << 31).to_be_bytes());
    } else if let Ok(eight) = <[u8; 8]>::try_from(bytes) {
        out.extend_from_slice(&(u64::from_le_bytes(eight) ^ 1 << 63).to_be_bytes());
    } else {
        let first = out.len();
        out.extend(bytes.iter().rev());
        out[first] ^= 0x80;
    }
}

/// Appends an IEEE 754 number whose bytes are little-endian.
fn push_float(bytes: &[u8], out: &mut Vec<u8>) {
    let first = out.len();
    out.extend(bytes.iter().rev());
    let number = &mut out[first..];
    let is_negative = number[0] & 0x80 != 0;
    let is_zero = number[0] & 0x7F == 0 && number[1..].iter().all(|byte| *byte == 0);
    if is_negative && !is_zero {
        number.iter_mut().for_each(|byte| *byte = !*byte);
    } else {
        number[0] |= 0x80;
    }
}

/// Escapes the bytes from `first` on, and appends the end.
fn end_value(out: &mut Vec<u8>, first: usize) {
    escape(out, first);
    out.push(END);
}

/// Escapes the bytes from `first` on. The keys of most texts have none to escape.
fn escape(out: &mut Vec<u8>, first: usize) {
    let escapes = out[first..].iter().filter(|byte| **byte <= ESCAPE).count();
    if escapes == 0 {
        return;
    }
    // From the back, so that no byte is overwritten before it is moved.
    let mut from = out.len();
    out.resize(from + escapes, 0);
    let mut to = out.len();
    while from < to {
        from -= 1;
        let byte = out[from];
        if byte <= ESCAPE {
            out[to - 1] = byte + 1;
            out[to - 2] = ESCAPE;
            to -= 2;
        } else {
            out[to - 1] = byte;
            to -= 1;
        }
    }
}

/// The shortest key that separates two neighbours: above `left` and not above `right`, of which it is a prefix. `None`
/// if `left` is not below `right`.
pub fn shortest_separator<'a>(left: &[u8], right: &'a [u8]) -> Option<&'a [u8]> {
    if left >= right {
        return None;
    }
    let common = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    // As `left` is below it, `right` continues after the common beginning.
    Some(&right[..=common])
}

#[cfg(test)]
mod tests;
