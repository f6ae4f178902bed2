//! The columns of statistics, and their values' form in a histogram.

use std::sync::Arc;

use crate::{KeyColumn, KeyError, SqlType};

/// The most bytes of a value that a histogram's key and step hold.
pub const HISTOGRAM_VALUE_BYTES_MAX: usize = 400;

/// The columns of a statistics object. Their keys are nullable and ascending, whatever an index declares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatherColumns(Arc<[KeyColumn]>);

impl GatherColumns {
    /// These columns, the leading one first.
    pub fn new(columns: Vec<KeyColumn>) -> GatherColumns {
        GatherColumns(columns.iter().map(|column| ascending(*column)).collect())
    }

    /// The columns in the form of which keys are made.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.0
    }
}

impl From<Arc<[KeyColumn]>> for GatherColumns {
    fn from(columns: Arc<[KeyColumn]>) -> GatherColumns {
        if columns.iter().all(|column| column.is_nullable() && !column.is_descending()) {
            return GatherColumns(columns);
        }
        GatherColumns::new(columns.to_vec())
    }
}

fn ascending(column: KeyColumn) -> KeyColumn {
    KeyColumn::new(column.sql_type(), column.collation(), true, false).unwrap_or(column)
}

/// Bytes of a value as SQL Server's `DATALENGTH` counts them: pages hold text as UTF-8, but `DATALENGTH` counts UTF-16
/// or a code page with one byte a character.
pub(in super::super) fn value_length(sql_type: SqlType, value: &[u8]) -> usize {
    let characters = |first: fn(u8) -> bool| value.iter().filter(|byte| first(**byte)).count();
    // Without continuation bytes. Characters of four bytes are two UTF-16 units.
    let all = || characters(|byte| byte & 0xC0 != 0x80);
    match sql_type {
        SqlType::NChar(_) | SqlType::NVarChar(_) => 2 * (all() + characters(|byte| byte >= 0xF0)),
        SqlType::Char(_) | SqlType::VarChar(_) => all(),
        SqlType::Binary(_) | SqlType::VarBinary(_) => value.len(),
        _ => usize::try_from(sql_type.max_length_bytes()).unwrap_or(value.len()),
    }
}

/// The part of a value that a histogram holds: its first 400 bytes. Text is not cut within a character.
pub fn histogram_value<'a>(column: &KeyColumn, value: &'a [u8]) -> &'a [u8] {
    if value.len() <= HISTOGRAM_VALUE_BYTES_MAX {
        return value;
    }
    let mut end = HISTOGRAM_VALUE_BYTES_MAX;
    if column.sql_type().is_text() {
        while end > 0 && value[end] & 0xC0 == 0x80 {
            end -= 1;
        }
    }
    &value[..end]
}

/// Appends the key of a value in a histogram: that of [`histogram_value`]. Keys for lookups in a histogram must come
/// from here.
///
/// # Errors
/// It is not a value of the column.
pub fn histogram_key(column: &KeyColumn, value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), KeyError> {
    ascending(*column).encode(value.map(|value| histogram_value(column, value)), out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MaxLength;

    #[test]
    fn lengths_are_those_of_datalength() {
        let text = "aé€😀".as_bytes();
        assert_eq!(value_length(SqlType::NVarChar(MaxLength::Max), text), 10);
        assert_eq!(value_length(SqlType::VarChar(MaxLength::Limited(9)), text), 4);
        assert_eq!(value_length(SqlType::VarBinary(MaxLength::Limited(99)), text), text.len());
        assert_eq!(value_length(SqlType::Date, &[0; 4]), 3);
        assert_eq!(value_length(SqlType::Decimal { precision: 9, scale: 2 }, &[0; 4]), 5);
    }
}
