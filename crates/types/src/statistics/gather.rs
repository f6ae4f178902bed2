//! Sees rows and makes a summary of them.

use std::sync::Arc;

use super::{HistogramBuilder, Prefix, Summary, hash_key};
use crate::{KeyColumn, KeyError};

/// Bytes of a value that a histogram's key and step hold.
pub const HISTOGRAM_VALUE_BYTES_MAX: usize = 400;

/// The columns of a statistics object: their keys may be NULL and ascend, whatever an index says.
#[derive(Clone, Debug)]
pub struct GatherColumns(Arc<[KeyColumn]>);

impl GatherColumns {
    /// These columns, the leading one first.
    pub fn new(columns: Vec<KeyColumn>) -> GatherColumns {
        GatherColumns(columns.iter().map(|column| ascending(*column)).collect())
    }

    /// The columns as keys are made of them.
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

/// The part of a value that a histogram knows: its first 400 bytes, of text without half a character at the end.
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

/// Appends the key by which a histogram knows a value: that of [`histogram_value`]. What is asked of a histogram has
/// its key from here.
///
/// # Errors
/// It is no value of the column.
pub fn histogram_key(column: &KeyColumn, value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), KeyError> {
    ascending(*column).encode(value.map(|value| histogram_value(column, value)), out)
}

/// Sees rows and makes a [`Summary`] of them.
#[derive(Clone, Debug)]
pub struct Gatherer {
    columns: GatherColumns,
    rows: u64,
    prefixes: Vec<Prefix>,
    seen: std::collections::BTreeMap<Vec<u8>, (Option<Vec<u8>>, f64)>,
}

impl Gatherer {
    /// For rows of these columns.
    pub fn new(columns: impl Into<GatherColumns>) -> Gatherer {
        let columns = columns.into();
        let prefixes = vec![Prefix::default(); columns.0.len()];
        Gatherer { columns, rows: 0, prefixes, seen: Default::default() }
    }

    /// Sees one row: its values as pages hold them, the leading column first.
    ///
    /// # Errors
    /// One is no value of its column; the row is then not counted.
    pub fn add(&mut self, values: &[Option<&[u8]>]) -> Result<(), KeyError> {
        let mut key = Vec::new();
        let mut bytes = 0;
        for ((column, prefix), value) in self.columns.0.iter().zip(&mut self.prefixes).zip(values) {
            column.encode(*value, &mut key)?;
            bytes += value.map_or(0, <[u8]>::len);
            prefix.distinct.add(hash_key(&key));
            prefix.bytes += bytes as f64;
        }
        let mut first = Vec::new();
        histogram_key(&self.columns.0[0], values[0], &mut first)?;
        let value = values[0].map(|value| histogram_value(&self.columns.0[0], value).to_vec());
        self.seen.entry(first).or_insert((value, 0.0)).1 += 1.0;
        self.rows += 1;
        Ok(())
    }

    /// Rows seen.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes in all that another of the same columns has seen.
    pub fn merge(&mut self, other: Gatherer) {
        for (our, their) in self.prefixes.iter_mut().zip(&other.prefixes) {
            our.distinct.merge(&their.distinct);
            our.bytes += their.bytes;
        }
        for (key, (value, rows)) in other.seen {
            self.seen.entry(key).or_insert((value, 0.0)).1 += rows;
        }
        self.rows += other.rows;
    }

    /// The summary of the rows so far.
    pub fn summary(&mut self) -> Summary {
        let mut builder = HistogramBuilder::new();
        for (key, (value, rows)) in &self.seen {
            builder.push(key, value.as_deref(), *rows);
        }
        let rows = self.rows as f64;
        Summary { rows, sampled_rows: rows, prefixes: self.prefixes.clone(), histogram: builder.finish() }
    }

    /// The summary of all rows.
    pub fn finish(mut self) -> Summary {
        self.summary()
    }
}
