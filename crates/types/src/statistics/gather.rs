//! Reads rows and summarises them.
//!
//! The cost of each row is small. Its key is made once, each prefix of it is hashed into a sketch, and its position in
//! the order decides whether it is a new least or greatest value. If the first columns of a row equal those of the row
//! before, even this is skipped for them. A single column of numbers has a [faster path](number). Frequent values come
//! from a [sample](sample), which holds all rows while there are few. Rows of sampled pages are scaled up to the table
//! by counts of the [units](units) in which values occur.

mod columns;
mod number;
mod row;
mod sample;
mod units;

use hobt_base::compare_bytes;

use self::number::NumberColumn;
use self::row::LastRow;
use self::sample::{Row, Sample};
use self::units::Units;
use super::histogram::number_at;
use super::{DistinctSketch, Histogram, HistogramBuilder, Prefix, Summary, hash_key};
use crate::KeyError;

pub(super) use columns::value_length;
pub use columns::{GatherColumns, HISTOGRAM_VALUE_BYTES_MAX, histogram_key, histogram_value};

/// The most rows from which the histogram is made, by default.
const SAMPLE_ROWS_MAX: usize = 1 << 17;

/// Reads rows and makes a [`Summary`] of them.
///
/// Rows, NULLs, bytes, and the least and the greatest value are exact, however many rows there are.
#[derive(Clone, Debug)]
pub struct Gatherer {
    columns: GatherColumns,
    rows: u64,
    /// Rows with NULL in the leading column.
    nulls: u64,
    prefixes: Vec<Seen>,
    /// Used if the only column is a number.
    number: Option<NumberColumn>,
    last: LastRow,
    extremes: Option<[Extreme; 2]>,
    sample: Sample,
    /// Used if the rows are those of a sample of pages.
    units: Option<Units>,
    /// The leading column's key for the histogram, if the value is too long for it and is cut.
    cut_key: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    distinct: DistinctSketch,
    bytes: u64,
}

/// The least or the greatest value that is not NULL.
#[derive(Clone, Debug)]
struct Extreme {
    number: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Extreme {
    fn set(&mut self, number: u64, key: &[u8], value: &[u8]) {
        self.number = number;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.value.clear();
        self.value.extend_from_slice(value);
    }
}

impl Gatherer {
    /// A gatherer for rows of these columns, of which there must be at least one.
    ///
    /// # Panics
    /// When there are no columns.
    pub fn new(columns: impl Into<GatherColumns>) -> Gatherer {
        Gatherer::with_sample(columns, SAMPLE_ROWS_MAX)
    }

    /// Like [`Gatherer::new`], with a limit for the rows from which the histogram is made (131,072 there). Each row of
    /// an int costs some 45 bytes, and some 100 ns of [`Gatherer::summary`].
    ///
    /// # Panics
    /// When there are no columns.
    pub fn with_sample(columns: impl Into<GatherColumns>, sample_rows_max: usize) -> Gatherer {
        let columns = columns.into();
        let count = columns.columns().len();
        assert!(count > 0, "statistics are of a column at least");
        Gatherer {
            number: if count == 1 { NumberColumn::new(&columns.columns()[0]) } else { None },
            columns,
            rows: 0,
            nulls: 0,
            prefixes: vec![Seen::default(); count],
            last: LastRow { hashes: vec![0; count], ..LastRow::default() },
            extremes: None,
            sample: Sample::new(count, sample_rows_max),
            units: None,
            cut_key: Vec::new(),
        }
    }

    /// Adds one row: its values as pages hold them, the leading column first.
    ///
    /// # Errors
    /// A value is not valid for its column. The row is then not counted.
    ///
    /// # Panics
    /// When there are fewer values than columns.
    #[inline]
    pub fn add(&mut self, values: &[Option<&[u8]>]) -> Result<(), KeyError> {
        match self.number {
            Some(column) => self.add_number(column, values[0]),
            None => self.add_row(values),
        }
    }

    /// Adds many rows of one column. Values that are not valid for it are left out.
    ///
    /// # Panics
    /// When there is more than one column.
    pub fn add_column<'v>(&mut self, values: impl Iterator<Item = Option<&'v [u8]>>) {
        assert_eq!(self.prefixes.len(), 1, "one column");
        match self.number {
            Some(column) => self.add_numbers(column, values),
            None => values.for_each(|value| {
                let _left_out = self.add_row(&[value]);
            }),
        }
    }

    fn add_row(&mut self, values: &[Option<&[u8]>]) -> Result<(), KeyError> {
        let equal = self.last.equal_columns(values);
        if equal < self.prefixes.len() {
            self.last.take(self.columns.columns(), values, equal)?;
            for at in equal..self.prefixes.len() {
                let hash = hash_key(&self.last.key[..self.last.columns[at].key_end]);
                self.prefixes[at].distinct.add(hash);
                if let Some(units) = &mut self.units {
                    units.counts[at].add(hash, units.current);
                }
                self.last.hashes[at] = hash;
            }
            self.sample.row_changes();
        }
        self.rows += 1;
        for (prefix, column) in self.prefixes.iter_mut().zip(&self.last.columns) {
            prefix.bytes += column.length_end as u64;
        }
        let Some(value) = values[0] else {
            self.nulls += 1;
            if self.sample.wants_row() {
                self.sample.add(&self.last.key[..self.last.columns[0].key_end], None, &self.last.hashes);
            }
            return Ok(());
        };
        let (mut key, mut shown) = (&self.last.key[..self.last.columns[0].key_end], value);
        if value.len() > HISTOGRAM_VALUE_BYTES_MAX {
            let column = &self.columns.columns()[0];
            shown = histogram_value(column, value);
            if equal == 0 {
                self.cut_key.clear();
                column.encode(Some(shown), &mut self.cut_key)?;
            }
            key = &self.cut_key;
        }
        if equal == 0 {
            stretch(&mut self.extremes, key, shown);
        }
        if self.sample.wants_row() {
            self.sample.add(key, Some(shown), &self.last.hashes);
        }
        Ok(())
    }

    /// The columns of the rows.
    pub fn columns(&self) -> &GatherColumns {
        &self.columns
    }

    /// The number of rows added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of memory that it holds, approximately.
    pub fn held_bytes(&self) -> usize {
        let sketches: usize = self.prefixes.iter().map(|seen| seen.distinct.held_bytes()).sum();
        let units = self.units.as_ref().map_or(0, Units::held_bytes);
        size_of::<Gatherer>() + sketches + self.sample.held_bytes() + units
    }

    /// Adds all rows that another gatherer of these columns has seen.
    ///
    /// # Panics
    /// When it has a different number of columns.
    pub fn merge(&mut self, other: Gatherer) {
        assert_eq!(self.prefixes.len(), other.prefixes.len(), "the same columns");
        self.rows += other.rows;
        self.nulls += other.nulls;
        for (our, their) in self.prefixes.iter_mut().zip(&other.prefixes) {
            our.distinct.merge(&their.distinct);
            our.bytes += their.bytes;
        }
        for extreme in other.extremes.iter().flatten() {
            stretch(&mut self.extremes, &extreme.key, &extreme.value);
        }
        let own_units = self.merge_units(other.units);
        self.sample.merge(other.sample, own_units);
    }

    /// The summary of the rows so far. More may be added.
    pub fn summary(&self) -> Summary {
        self.summary_of(&self.sample.sorted_values())
    }

    /// The summary; `sorted` are the sample's values.
    fn summary_of(&self, sorted: &[Row<'_>]) -> Summary {
        let rows = self.rows as f64;
        let prefix = |(at, seen): (usize, &Seen)| {
            let counted = self.sample.counts(at);
            Prefix {
                distinct: seen.distinct.clone(),
                seen_distinct: seen.distinct.estimate(),
                bytes: seen.bytes as f64,
                counted_rows: counted.rows,
                counted_distinct: counted.distinct,
                counted_once: counted.once,
                growth: 1.0,
            }
        };
        let prefixes = self.prefixes.iter().enumerate().map(prefix).collect();
        let mut summary = Summary { rows, sampled_rows: rows, prefixes, histogram: self.histogram(sorted) };
        if !self.sample.is_whole() {
            summary.agree();
        }
        summary
    }

    /// The summary of all rows.
    pub fn finish(self) -> Summary {
        self.summary()
    }

    /// The sample's histogram, scaled to the exact numbers of rows and NULLs, from the least to the greatest value.
    fn histogram(&self, sorted: &[Row<'_>]) -> Histogram {
        let mut builder = HistogramBuilder::new();
        if self.nulls > 0 {
            builder.push(&[0x00], None, self.nulls as f64);
        }
        let Some([least, greatest]) = &self.extremes else { return builder.finish() };
        let is_missing = |extreme: &Extreme, row: Option<&Row<'_>>| row.is_none_or(|row| row.key != extreme.key);
        let is_least_missing = is_missing(least, sorted.first());
        let is_greatest_missing = least.key != greatest.key && is_missing(greatest, sorted.last());
        let added = f64::from(u8::from(is_least_missing)) + f64::from(u8::from(is_greatest_missing));
        let counted: f64 = sorted.iter().map(|row| row.rows).sum();
        let rows = (self.rows - self.nulls) as f64;
        // If the sample has only rows with NULL, all other rows belong to the extremes.
        let (factor, extreme_rows) =
            if counted > 0.0 { ((rows - added) / counted, 1.0) } else { (0.0, rows / added.max(1.0)) };
        if is_least_missing {
            builder.push(&least.key, Some(&least.value), extreme_rows);
        }
        for row in sorted {
            builder.push(row.key, Some(row.value), row.rows * factor);
        }
        if is_greatest_missing {
            builder.push(&greatest.key, Some(&greatest.value), extreme_rows);
        }
        builder.finish()
    }
}

/// Extends the extremes to include a value.
fn stretch(extremes: &mut Option<[Extreme; 2]>, key: &[u8], value: &[u8]) {
    // After the NULL byte, which is equal in all of these keys.
    stretch_number(extremes, number_at(key, 1), key, value);
}

#[inline]
fn stretch_number(extremes: &mut Option<[Extreme; 2]>, number: u64, key: &[u8], value: &[u8]) {
    let Some([least, greatest]) = extremes else {
        let extreme = Extreme { number, key: key.to_vec(), value: value.to_vec() };
        *extremes = Some([extreme.clone(), extreme]);
        return;
    };
    if number > greatest.number || (number == greatest.number && compare_bytes(key, &greatest.key).is_gt()) {
        greatest.set(number, key, value);
    } else if number < least.number || (number == least.number && compare_bytes(key, &least.key).is_lt()) {
        least.set(number, key, value);
    }
}

#[cfg(test)]
mod tests;
