//! How the values of two columns overlap: the result of an equality between them.
//!
//! ```text
//!   left    1 ──── 10 ─────────── 50
//!   right              20 ─── 30 ──────── 90
//!   walked  1 ─ 10 ─ 20 ─ 30 ─ 50 ─ 90       within each part the side with fewer values has its like on the other
//! ```
//! For a value that is a step of both, the rows of both steps are used exactly, so that frequent values have their full
//! weight.

use super::{Histogram, Step, position};

/// The approximate number of parts into which the keys are divided.
const PARTS_MAX: usize = 32;

/// The result of an equality between two columns, in rows.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Overlap {
    /// Pairs of rows that are equal.
    pub pairs: f64,
    /// Rows of the left side that have a partner.
    pub left: f64,
    /// Rows of the right side that have a partner.
    pub right: f64,
}

impl Overlap {
    /// Counts rows and different values of both sides in one part.
    fn add(&mut self, (left_rows, left_values): (f64, f64), (right_rows, right_values): (f64, f64)) {
        if left_values <= 0.0 || right_values <= 0.0 {
            return;
        }
        self.pairs += left_rows * right_rows / left_values.max(right_values);
        self.left += left_rows * (right_values / left_values).min(1.0);
        self.right += right_rows * (left_values / right_values).min(1.0);
    }
}

/// A histogram with its cumulative sums.
struct Sums<'h> {
    steps: &'h [Step],
    /// Rows and different values below each step, without the range before it.
    before: Vec<(f64, f64)>,
}

impl<'h> Sums<'h> {
    fn of(histogram: &'h Histogram) -> Sums<'h> {
        let steps = histogram.values();
        let mut sum = (0.0, 0.0);
        let before = steps.iter().map(|step| {
            let before = sum;
            sum.0 += step.range_rows + step.equal_rows;
            sum.1 += step.distinct_range_rows + f64::from(u8::from(step.equal_rows > 0.0));
            before
        });
        let mut before: Vec<(f64, f64)> = before.collect();
        before.push(sum);
        Sums { steps, before }
    }

    fn step(&self, key: &[u8]) -> Option<&'h Step> {
        let at = self.steps.partition_point(|step| step.key.as_slice() < key);
        self.steps.get(at).filter(|step| step.key == key)
    }

    /// Rows and different values below a key, and at it if `inclusive`.
    fn below(&self, key: &[u8], inclusive: bool) -> (f64, f64) {
        let at = self.steps.partition_point(|step| step.key.as_slice() < key);
        let (rows, values) = self.before[at];
        let Some(step) = self.steps.get(at) else { return (rows, values) };
        if step.key == key {
            let own = if inclusive { step.equal_rows } else { 0.0 };
            let is_own = f64::from(u8::from(own > 0.0));
            return (rows + step.range_rows + own, values + step.distinct_range_rows + is_own);
        }
        if at == 0 || step.distinct_range_rows <= 0.0 {
            return (rows, values);
        }
        let reached = step.values_below(position(&self.steps[at - 1].key, key, &step.key), inclusive);
        (rows + step.range_rows * reached / step.distinct_range_rows, values + reached)
    }

    /// Rows and different values above one key and below another, or at the other if `inclusive`.
    fn between(&self, low: Option<&[u8]>, high: &[u8], inclusive: bool) -> (f64, f64) {
        let (rows, values) = self.below(high, inclusive);
        let (rows_low, values_low) = low.map_or((0.0, 0.0), |low| self.below(low, true));
        ((rows - rows_low).max(0.0), (values - values_low).max(0.0))
    }
}

/// The result of an equality between two columns. Their keys must have one encoding. NULLs match nothing.
pub fn overlap(left: &Histogram, right: &Histogram) -> Overlap {
    let (left, right) = (Sums::of(left), Sums::of(right));
    let mut keys: Vec<&[u8]> = left.steps.iter().chain(right.steps).map(|step| step.key.as_slice()).collect();
    keys.sort_unstable();
    keys.dedup();
    // Positions inside a step are guesses, and a wrong guess on one side finds fewer matches. So parts consist of
    // several steps, and the ends of either side are ends of a part.
    let stride = keys.len().div_ceil(PARTS_MAX).max(1);
    let ends = [left.steps, right.steps].map(|steps| [steps.first(), steps.last()]);
    let is_end = |key: &[u8]| ends.iter().flatten().flatten().any(|step| step.key == key);
    let mut found = Overlap::default();
    let (mut low, mut own, mut others) = (None, (0.0, 0.0), (0.0, 0.0));
    for (at, key) in keys.iter().copied().enumerate() {
        let both = left.step(key).zip(right.step(key)).filter(|(one, other)| one.equal_rows * other.equal_rows > 0.0);
        if let Some((one, other)) = both {
            found.add((one.equal_rows, 1.0), (other.equal_rows, 1.0));
            own = (own.0 + one.equal_rows, own.1 + 1.0);
            others = (others.0 + other.equal_rows, others.1 + 1.0);
        }
        if at % stride == stride - 1 || is_end(key) || at + 1 == keys.len() {
            let less = |all: (f64, f64), known: (f64, f64)| ((all.0 - known.0).max(0.0), (all.1 - known.1).max(0.0));
            found.add(less(left.between(low, key, true), own), less(right.between(low, key, true), others));
            (low, own, others) = (Some(key), (0.0, 0.0), (0.0, 0.0));
        }
    }
    found
}

/// Pairs of rows of two columns with the left value below the right one, or with `inclusive` equal to it. Their keys
/// must have one encoding.
pub fn pairs_below(left: &Histogram, right: &Histogram, inclusive: bool) -> f64 {
    let (left, right) = (Sums::of(left), Sums::of(right));
    let (mut pairs, mut before) = (0.0, 0.0);
    for step in right.steps {
        let below = left.below(&step.key, false).0;
        let up_to = left.below(&step.key, true).0;
        pairs += step.range_rows * (before + below) / 2.0 + step.equal_rows * if inclusive { up_to } else { below };
        before = up_to;
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::super::HistogramBuilder;
    use super::*;

    /// Numbers with the rows of each.
    fn histogram(values: impl Iterator<Item = (u32, f64)>) -> Histogram {
        let mut builder = HistogramBuilder::new();
        for (value, rows) in values {
            builder.push(&value.to_be_bytes(), Some(&value.to_be_bytes()), rows);
        }
        builder.finish()
    }

    fn is_about(thought: f64, there: f64) -> bool {
        (thought - there).abs() <= 0.05 * there + 2.0
    }

    #[test]
    fn a_key_meets_each_row_once() {
        let (facts, keys) = (histogram((0..5000).map(|key| (key, 4.0))), histogram((0..5000).map(|key| (key, 1.0))));
        let found = overlap(&facts, &keys);
        assert!(is_about(found.pairs, 20_000.0) && is_about(found.left, 20_000.0), "{found:?}");
        assert!(is_about(found.right, 5000.0), "{found:?}");
    }

    #[test]
    fn values_that_the_other_side_has_not_meet_nothing() {
        let (low, high) = (histogram((0..1000).map(|key| (key, 2.0))), histogram((900..3000).map(|key| (key, 1.0))));
        let found = overlap(&low, &high);
        assert!(is_about(found.pairs, 200.0) && is_about(found.left, 200.0), "{found:?}");
        assert!(is_about(found.right, 100.0), "{found:?}");
        let apart = histogram((5000..6000).map(|key| (key, 1.0)));
        assert_eq!(overlap(&low, &apart), Overlap::default());
    }

    #[test]
    fn frequent_values_count_for_what_they_are() {
        let skewed = || histogram((0..1000).map(|key| (key, if key == 500 { 10_000.0 } else { 1.0 })));
        let found = overlap(&skewed(), &skewed());
        assert!(is_about(found.pairs, 1e8 + 999.0), "{found:?}");
        let even = histogram((0..1000).map(|key| (key, 1.0)));
        assert!(is_about(overlap(&skewed(), &even).pairs, 10_999.0));
    }

    #[test]
    fn half_of_all_pairs_are_in_order() {
        let even = || histogram((0..2000).map(|key| (key, 3.0)));
        let all = 6000.0 * 6000.0;
        assert!((pairs_below(&even(), &even(), false) / all - 0.5).abs() < 0.01);
        let later = histogram((100..2100).map(|key| (key, 1.0)));
        let width = pairs_below(&even(), &later, false)
            - pairs_below(&even(), &histogram((0..2000).map(|key| (key, 1.0))), false);
        // In the 2,000 ranges of 100 values, each value is in 100 ranges, except those at the ends.
        assert!((width / (6000.0 * 100.0) - 1.0).abs() < 0.1, "{width}");
        assert_eq!(pairs_below(&even(), &histogram(std::iter::once((0, 1.0))), false), 0.0);
        assert_eq!(pairs_below(&even(), &histogram(std::iter::once((0, 1.0))), true), 3.0);
    }

    #[test]
    fn nothing_meets_nothing() {
        assert_eq!(overlap(&Histogram::default(), &Histogram::default()), Overlap::default());
    }
}
