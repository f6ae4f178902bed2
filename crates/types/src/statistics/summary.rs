//! What is known of some rows' columns, as it is kept, merged and asked.

use super::histogram::{ROWS_MAX, merged_of};
use super::{DistinctSketch, Histogram, STEPS_MAX};

/// How far a product of a quotient is off.
const ROUNDING: f64 = 1e-12;

/// What is known of the first columns of a statistics object, taken together.
#[derive(Clone, PartialEq, Debug)]
pub struct Prefix {
    /// The different keys of all rows that were seen.
    pub distinct: DistinctSketch,
    /// Bytes of these columns in all rows, as `DATALENGTH` counts them.
    pub bytes: f64,
    /// Rows that were counted one by one, of those that were seen.
    pub counted_rows: f64,
    /// Different keys among the counted rows.
    pub counted_distinct: f64,
    /// Keys that one counted row alone has.
    pub counted_once: f64,
    /// What the sketch estimates, kept so that merging many does not count the registers of each.
    pub seen_distinct: f64,
    /// How many times as many different keys there are as the sketch has seen: 1 if it saw all rows.
    pub growth: f64,
}

impl Default for Prefix {
    fn default() -> Prefix {
        Prefix {
            distinct: DistinctSketch::default(),
            bytes: 0.0,
            counted_rows: 0.0,
            counted_distinct: 0.0,
            counted_once: 0.0,
            seen_distinct: 0.0,
            growth: 1.0,
        }
    }
}

impl Prefix {
    fn estimate(&self) -> f64 {
        let estimate = self.seen_distinct * self.growth;
        // What was counted exactly is a whole number again, and a row of each key not more than one.
        let whole = estimate.round();
        if (estimate - whole).abs() <= whole * ROUNDING { whole } else { estimate }
    }

    /// The different keys of `rows` rows, of which the counted ones are a random sample, by what Haas, Naughton,
    /// Seshadri and Stokes call the unsmoothed first-order jackknife ("Sampling-based estimation of the number of
    /// distinct values of an attribute", 1995): many keys that were seen once say that many were not seen at all.
    fn estimate_in(&self, rows: f64) -> f64 {
        if self.counted_rows <= 0.0 || rows <= self.counted_rows {
            return self.counted_distinct;
        }
        let unseen = (1.0 - self.counted_rows / rows) * (self.counted_once / self.counted_rows).min(1.0);
        self.counted_distinct / (1.0 - unseen)
    }
}

/// What is known of some rows' columns.
///
/// Prefixes are counted from 1, as the columns are: prefix 2 is the first two columns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// Rows.
    pub rows: f64,
    /// Rows that were seen: all, or a sample of them.
    pub sampled_rows: f64,
    /// One for the first column, one for the first two, and so on.
    pub prefixes: Vec<Prefix>,
    /// The first column's values.
    pub histogram: Histogram,
}

impl Summary {
    /// That of no rows.
    pub fn empty(column_count: usize) -> Summary {
        Summary { prefixes: vec![Prefix::default(); column_count], ..Summary::default() }
    }

    /// That of all rows of parts that have no row in common. Parts have the same columns; of others the first ones
    /// count that all have.
    pub fn merged(parts: &[&Summary]) -> Summary {
        let parts: Vec<&Summary> = parts.iter().copied().filter(|part| !part.prefixes.is_empty()).collect();
        let column_count = parts.iter().map(|part| part.prefixes.len()).min().unwrap_or(0);
        let prefixes = (0..column_count).map(|at| merged_prefix(&parts, at)).collect();
        let mut whole = Summary {
            rows: parts.iter().map(|part| part.rows).sum(),
            sampled_rows: parts.iter().map(|part| part.sampled_rows).sum(),
            prefixes,
            histogram: merged_of(parts.iter().map(|part| (&part.histogram, part.rows))),
        };
        whole.agree();
        whole
    }

    /// Different keys of the first `prefix` columns, NULLs among them; 0 if there are no such columns.
    pub fn distinct(&self, prefix: usize) -> f64 {
        let Some(known) = prefix.checked_sub(1).and_then(|at| self.prefixes.get(at)) else { return 0.0 };
        let least = self.histogram.steps().len().min(STEPS_MAX) as f64;
        known.estimate().max(least).min(self.rows)
    }

    /// Whether something is known of the first `prefix` columns together: a stream may have brought less.
    pub fn knows(&self, prefix: usize) -> bool {
        let known = prefix.checked_sub(1).and_then(|at| self.prefixes.get(at));
        known.is_some_and(|known| known.seen_distinct > 0.0)
    }

    /// The share of the rows that one key of the first `prefix` columns has on average: 1 / different keys, 0 if there
    /// are no rows.
    pub fn density(&self, prefix: usize) -> f64 {
        let distinct = self.distinct(prefix);
        if distinct > 0.0 { 1.0 / distinct } else { 0.0 }
    }

    /// Bytes of the first `prefix` columns in a row on average, as `DATALENGTH` counts them.
    pub fn average_bytes(&self, prefix: usize) -> f64 {
        let known = prefix.checked_sub(1).and_then(|at| self.prefixes.get(at));
        known.filter(|_| self.rows > 0.0).map_or(0.0, |known| known.bytes / self.rows)
    }

    /// What is to be expected of `rows` rows, of which this is a random sample. Different keys are those seen or, if
    /// it is more, those that the sample's rows let expect.
    pub fn scaled_to(&self, rows: f64) -> Summary {
        if self.rows <= 0.0 || rows == self.rows {
            return self.clone();
        }
        let factor = rows / self.rows;
        let histogram = self.histogram.of_sample(factor, self.rows_of_rare(rows));
        let mut whole = Summary { rows, histogram, ..self.clone() };
        for prefix in &mut whole.prefixes {
            prefix.bytes *= factor;
            if prefix.seen_distinct > 0.0 {
                prefix.growth = (prefix.estimate_in(rows) / prefix.seen_distinct).max(1.0);
            }
        }
        whole.agree();
        whole
    }

    /// How many of `rows` rows, of which this is a random sample, a value has that was seen once: as many times more
    /// than in the sample as values have on average.
    fn rows_of_rare(&self, rows: f64) -> f64 {
        let factor = rows / self.rows;
        let Some(first) = self.prefixes.first().filter(|first| first.seen_distinct > 0.0) else { return factor };
        let seen = first.counted_distinct.max(1.0);
        let rare = rows / first.counted_rows.max(1.0) * seen / first.estimate_in(rows).max(seen);
        rare.clamp(factor.min(1.0), factor.max(1.0))
    }

    /// What is to be expected where there are said to be `rows` rows, and a sample's pages show fewer. Nobody has seen
    /// the values of the others: they are thought to lie between those that were seen, one between each two.
    #[must_use]
    pub fn said_to_have(&self, rows: f64) -> Summary {
        let unseen = rows.min(ROWS_MAX) - self.rows;
        if unseen <= 0.0 || self.histogram.is_empty() {
            return self.clone();
        }
        let histogram = self.histogram.with_rows_between(unseen);
        let mut whole = Summary { rows: self.rows + unseen, histogram, ..self.clone() };
        let values = whole.histogram.distinct();
        for prefix in &mut whole.prefixes {
            prefix.bytes *= whole.rows / self.rows.max(1.0);
            if prefix.seen_distinct > 0.0 {
                prefix.growth = prefix.growth.max(values / prefix.seen_distinct);
            }
        }
        whole.agree();
        whole
    }

    /// What is left when other rows have gone: of the rows, bytes and histogram; which keys went with them nobody
    /// knows.
    #[must_use]
    pub fn without(&self, gone: &Summary) -> Summary {
        let mut left = self.clone();
        left.rows = (self.rows - gone.rows).max(0.0);
        left.sampled_rows = left.sampled_rows.min(left.rows);
        for (own, gone) in left.prefixes.iter_mut().zip(&gone.prefixes) {
            own.bytes = (own.bytes - gone.bytes).max(0.0);
        }
        left.histogram = self.histogram.subtract(&gone.histogram).with_rows(left.rows);
        left
    }

    /// The same for so many columns: those that are too many are left out, of those that are missing nothing is known.
    #[must_use]
    pub fn with_columns(mut self, column_count: usize) -> Summary {
        self.prefixes.resize(column_count, Prefix::default());
        self
    }

    /// Lets the histogram have as many different values as the first prefix.
    pub(super) fn agree(&mut self) {
        let histogram = std::mem::take(&mut self.histogram);
        self.histogram = histogram.with_distinct(self.prefixes.first().map_or(0.0, Prefix::estimate));
    }
}

fn merged_prefix(parts: &[&Summary], at: usize) -> Prefix {
    let mut whole = Prefix::default();
    let (mut seen, mut expected) = (0.0, 0.0);
    for part in parts {
        let prefix = &part.prefixes[at];
        whole.distinct.merge(&prefix.distinct);
        whole.bytes += prefix.bytes;
        whole.counted_rows += prefix.counted_rows;
        whole.counted_distinct += prefix.counted_distinct;
        whole.counted_once += prefix.counted_once;
        seen += prefix.seen_distinct;
        expected += prefix.estimate();
    }
    whole.seen_distinct = whole.distinct.estimate();
    if seen > 0.0 {
        whole.growth = expected / seen;
        // What parts have in common was counted by each, and is seen once no more.
        let own = (whole.seen_distinct / seen).min(1.0);
        whole.counted_distinct *= own;
        whole.counted_once *= own;
    }
    whole
}

#[cfg(test)]
mod tests;
