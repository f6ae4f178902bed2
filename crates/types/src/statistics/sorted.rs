//! Reads groups of equal rows in the order of their keys, and makes a summary of them that is exact except for its
//! sketches.

use super::gather::value_length;
use super::{GatherColumns, HistogramBuilder, Prefix, Summary, hash_key, histogram_key, histogram_value};
use crate::KeyError;

/// Reads groups in order and makes a [`Summary`] of them.
///
/// A group is all rows, or some, that are equal in all columns. Groups must come in ascending order of the columns'
/// keys, the leading column first. In another order they are still counted, but their different keys too often.
#[derive(Debug)]
pub struct SortedGatherer {
    columns: GatherColumns,
    rows: f64,
    prefixes: Vec<Prefix>,
    /// For each prefix, the rows of its current key.
    current: Vec<f64>,
    /// The current keys of all columns, concatenated; `ends` has the end of each column's.
    key: Vec<u8>,
    ends: Vec<usize>,
    last: Vec<u8>,
    last_ends: Vec<usize>,
    histogram: HistogramBuilder,
    histogram_key: Vec<u8>,
}

impl SortedGatherer {
    /// A gatherer for groups of these columns.
    pub fn new(columns: impl Into<GatherColumns>) -> SortedGatherer {
        let columns = columns.into();
        let count = columns.columns().len();
        SortedGatherer {
            columns,
            rows: 0.0,
            prefixes: vec![Prefix::default(); count],
            current: vec![0.0; count],
            key: Vec::new(),
            ends: Vec::new(),
            last: Vec::new(),
            last_ends: Vec::new(),
            histogram: HistogramBuilder::new(),
            histogram_key: Vec::new(),
        }
    }

    /// Adds `rows` rows with these values, as pages hold them, the leading column first.
    ///
    /// # Errors
    /// A value is not valid for its column. The group is then not counted.
    pub fn add(&mut self, values: &[Option<&[u8]>], rows: f64) -> Result<(), KeyError> {
        self.key.clear();
        self.ends.clear();
        for (column, value) in self.columns.columns().iter().zip(values) {
            column.encode(*value, &mut self.key)?;
            self.ends.push(self.key.len());
        }
        let leading = &self.columns.columns()[0];
        self.histogram_key.clear();
        histogram_key(leading, values[0], &mut self.histogram_key)?;
        let mut bytes = 0;
        for (at, prefix) in self.prefixes.iter_mut().enumerate() {
            let key = &self.key[..self.ends[at]];
            let sql_type = self.columns.columns()[at].sql_type();
            bytes += values[at].map_or(0, |value| value_length(sql_type, value));
            prefix.bytes += bytes as f64 * rows;
            let is_same = self.last_ends.get(at).is_some_and(|end| self.last[..*end] == *key);
            if is_same {
                self.current[at] += rows;
            } else {
                end_key(prefix, &mut self.current[at]);
                self.current[at] = rows;
                prefix.distinct.add(hash_key(key));
            }
        }
        let value = values[0].map(|value| histogram_value(leading, value));
        self.histogram.push(&self.histogram_key, value, rows);
        self.rows += rows;
        std::mem::swap(&mut self.key, &mut self.last);
        std::mem::swap(&mut self.ends, &mut self.last_ends);
        Ok(())
    }

    /// The summary of all rows.
    pub fn finish(mut self) -> Summary {
        for (prefix, current) in self.prefixes.iter_mut().zip(&mut self.current) {
            end_key(prefix, current);
            prefix.counted_rows = self.rows;
            // The sketch has a small error, the count does not.
            prefix.seen_distinct = prefix.distinct.estimate();
            if prefix.seen_distinct > 0.0 {
                prefix.growth = prefix.counted_distinct / prefix.seen_distinct;
            }
        }
        let mut summary = Summary {
            rows: self.rows,
            sampled_rows: self.rows,
            prefixes: self.prefixes,
            histogram: self.histogram.finish(),
        };
        summary.agree();
        summary
    }
}

/// Counts a key after all its rows.
fn end_key(prefix: &mut Prefix, rows: &mut f64) {
    if *rows > 0.0 {
        prefix.counted_distinct += 1.0;
        prefix.counted_once += if *rows <= 1.0 { 1.0 } else { 0.0 };
    }
    *rows = 0.0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collation, KeyColumn, SqlType};

    fn int_column() -> KeyColumn {
        KeyColumn::new(SqlType::Int, Collation::default(), true, false).expect("an int has keys")
    }

    #[test]
    fn groups_in_order_are_counted_exactly() {
        let mut gatherer = SortedGatherer::new(GatherColumns::new(vec![int_column(), int_column()]));
        for first in 0..1000_i32 {
            for second in 0..3_i32 {
                let (first, second) = (first.to_le_bytes(), second.to_le_bytes());
                gatherer.add(&[Some(&first), Some(&second)], 2.0).expect("ints");
            }
        }
        let summary = gatherer.finish();
        assert_eq!(summary.rows, 6000.0);
        assert_eq!(summary.distinct(1).round(), 1000.0);
        assert_eq!(summary.distinct(2).round(), 3000.0);
        assert_eq!(summary.prefixes[0].counted_once, 0.0);
        assert_eq!(summary.average_bytes(2), 8.0);
        assert_eq!(summary.histogram.rows().round(), 6000.0);
    }

    #[test]
    fn rows_of_one_leading_value_and_null_are_steps() {
        let mut gatherer = SortedGatherer::new(GatherColumns::new(vec![int_column()]));
        gatherer.add(&[None], 5.0).expect("NULL");
        gatherer.add(&[Some(&7_i32.to_le_bytes())], 9.0).expect("an int");
        let summary = gatherer.finish();
        let steps: Vec<_> =
            summary.histogram.steps().iter().map(|step| (step.value.is_some(), step.equal_rows)).collect();
        assert_eq!(steps, [(false, 5.0), (true, 9.0)]);
    }
}
