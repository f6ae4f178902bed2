//! Statistics of some rows' columns, which are stored, merged and queried.

use super::histogram::{ROWS_MAX, merged_of};
use super::{DistinctSketch, Histogram, STEPS_MAX, Step};

/// The relative rounding error of a quotient multiplied by its divisor.
const ROUNDING: f64 = 1e-12;

/// Statistics of the first columns of a statistics object, taken together.
#[derive(Clone, PartialEq, Debug)]
pub struct Prefix {
    /// The different keys of all rows that were seen.
    pub distinct: DistinctSketch,
    /// Bytes of these columns in all rows, as `DATALENGTH` counts them.
    pub bytes: f64,
    /// Rows that were counted individually, of those that were seen.
    pub counted_rows: f64,
    /// Different keys among the counted rows.
    pub counted_distinct: f64,
    /// Keys that only one counted row has.
    pub counted_once: f64,
    /// The sketch's estimate, stored so that merging many summaries does not evaluate the registers of each.
    pub seen_distinct: f64,
    /// The number of different keys relative to those that the sketch has seen: 1 if it saw all rows.
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
        // Removes rounding errors: an exact count becomes a whole number again, and one row per key is not more than
        // one.
        let whole = estimate.round();
        if (estimate - whole).abs() <= whole * ROUNDING { whole } else { estimate }
    }

    /// The different keys of `rows` rows, of which the counted ones are a random sample, by what Haas, Naughton,
    /// Seshadri and Stokes call the unsmoothed first-order jackknife ("Sampling-based estimation of the number of
    /// distinct values of an attribute", 1995): if many keys were seen once, many were not seen at all.
    fn estimate_in(&self, rows: f64) -> f64 {
        if self.counted_rows <= 0.0 || rows <= self.counted_rows {
            return self.counted_distinct;
        }
        let unseen = (1.0 - self.counted_rows / rows) * (self.counted_once / self.counted_rows).min(1.0);
        self.counted_distinct / (1.0 - unseen)
    }
}

/// Statistics of some rows' columns.
///
/// Prefixes are numbered from 1, as columns are: prefix 2 is the first two columns.
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
    /// The summary of no rows.
    pub fn empty(column_count: usize) -> Summary {
        Summary { prefixes: vec![Prefix::default(); column_count], ..Summary::default() }
    }

    /// The summary of all rows of disjoint parts. The parts should have equal columns. If they have different numbers
    /// of columns, only the first columns that all have are kept.
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

    /// Different keys of the first `prefix` columns, including NULLs; 0 if there are no such columns.
    pub fn distinct(&self, prefix: usize) -> f64 {
        let Some(known) = prefix.checked_sub(1).and_then(|at| self.prefixes.get(at)) else { return 0.0 };
        let least = self.histogram.steps().len().min(STEPS_MAX) as f64;
        known.estimate().max(least).min(self.rows)
    }

    /// Whether anything is known of the first `prefix` columns together. A stream may contain less than its columns.
    pub fn knows(&self, prefix: usize) -> bool {
        let known = prefix.checked_sub(1).and_then(|at| self.prefixes.get(at));
        known.is_some_and(|known| known.seen_distinct > 0.0)
    }

    /// The average share of the rows that one key of the first `prefix` columns has: 1 / different keys, 0 if there are
    /// no rows.
    pub fn density(&self, prefix: usize) -> f64 {
        let distinct = self.distinct(prefix);
        if distinct > 0.0 { 1.0 / distinct } else { 0.0 }
    }

    /// Average bytes of the first `prefix` columns in a row, as `DATALENGTH` counts them.
    pub fn average_bytes(&self, prefix: usize) -> f64 {
        let known = prefix.checked_sub(1).and_then(|at| self.prefixes.get(at));
        known.filter(|_| self.rows > 0.0).map_or(0.0, |known| known.bytes / self.rows)
    }

    /// The expected summary of `rows` rows, of which this is a random sample. The number of different keys is that of
    /// the keys seen, or the estimate from the sample's rows if that is greater.
    pub fn scaled_to(&self, rows: f64) -> Summary {
        if self.rows <= 0.0 || rows == self.rows {
            return self.clone();
        }
        // A value has `rare` rows for the first time that it was seen, and `factor` more for each further time.
        let (factor, rare) = (rows / self.rows, self.rows_of_rare(rows));
        let rest = (factor - rare).max(0.0);
        let rows_of = |step: &Step| step.equal_rows * factor - if step.equal_rows < 1.0 { 0.0 } else { rest };
        let growth = |prefix: &Prefix| match prefix.seen_distinct {
            seen if seen > 0.0 => (prefix.estimate_in(rows) / seen).max(1.0),
            _ => prefix.growth,
        };
        let growths: Vec<f64> = self.prefixes.iter().map(growth).collect();
        self.grown_to(rows, &growths, rows_of)
    }

    /// The summary of `rows` rows, of which this is a random sample: with the growth of each prefix, and the rows of a
    /// step's value.
    pub(super) fn grown_to(&self, rows: f64, growths: &[f64], rows_of: impl Fn(&Step) -> f64) -> Summary {
        let factor = rows / self.rows;
        let histogram = self.histogram.of_sample(factor, rows_of);
        let mut whole = Summary { rows, histogram, ..self.clone() };
        for (prefix, growth) in whole.prefixes.iter_mut().zip(growths) {
            prefix.bytes *= factor;
            prefix.growth = *growth;
        }
        whole.agree();
        whole
    }

    /// The expected number of rows, of `rows` rows of which this is a random sample, of a value that was seen once:
    /// more than in the sample by the average factor of all values.
    fn rows_of_rare(&self, rows: f64) -> f64 {
        let factor = rows / self.rows;
        let Some(first) = self.prefixes.first().filter(|first| first.seen_distinct > 0.0) else { return factor };
        let seen = first.counted_distinct.max(1.0);
        let rare = rows / first.counted_rows.max(1.0) * seen / first.estimate_in(rows).max(seen);
        rare.clamp(factor.min(1.0), factor.max(1.0))
    }

    /// The expected summary of a table that is said to have `rows` rows, if the pages of a sample show fewer. The
    /// values of the missing rows are unknown. They are assumed to be between those that were seen, one between each
    /// two.
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

    /// The summary after other rows were deleted: of the rows, bytes and histogram. Which keys disappeared with them is
    /// unknown.
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

    /// This summary for `column_count` columns. Surplus columns are left out; of additional ones nothing is known.
    #[must_use]
    pub fn with_columns(mut self, column_count: usize) -> Summary {
        self.prefixes.resize(column_count, Prefix::default());
        self
    }

    /// Adjusts the histogram to the number of different values of the first prefix.
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
        // Values that parts share were counted by each, but the whole sketch sees them once.
        let own = (whole.seen_distinct / seen).min(1.0);
        whole.counted_distinct *= own;
        whole.counted_once *= own;
    }
    whole
}

#[cfg(test)]
mod tests;
