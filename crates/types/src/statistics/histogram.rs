//! Which values are frequent, and how the other values are distributed between them.
//!
//! ```text
//! step      NULL     3            7                  20
//! rows        12     5 │   14     9 │      120       40      = equal_rows, and range_rows of what lies between
//! distinct           1 │    3     1 │       11        1      = distinct_range_rows of what lies between
//! ```
//! There are at most [`STEPS_MAX`] steps, as in SQL Server (Microsoft: "Statistics", histogram). Values inside a range
//! are assumed to be evenly spaced and equally frequent. Positions between two keys are computed from the eight bytes
//! after their common prefix.

mod builder;
mod merge;
mod overlap;

use super::StatisticsDamage;

pub use builder::HistogramBuilder;
pub use merge::merged;
pub(super) use merge::merged_of;
pub use overlap::{Overlap, overlap, pairs_below};

/// The most steps that a histogram has.
pub const STEPS_MAX: usize = 200;
/// The most rows that a step may claim: far beyond any table, and small enough that its square is finite.
pub(super) const ROWS_MAX: f64 = 1e18;

/// An end of a range of keys, and whether the range includes the key.
pub type Bound<'a> = (&'a [u8], bool);

/// A value, and the values between the previous step and it.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The value's key.
    pub key: Vec<u8>,
    /// The value as a page holds it, cut if it is long; `None` is NULL, which can only be the first step.
    pub value: Option<Vec<u8>>,
    /// Rows with a value strictly between the previous step and this one.
    pub range_rows: f64,
    /// Rows that have this value.
    pub equal_rows: f64,
    /// Different values strictly between the previous step and this one.
    pub distinct_range_rows: f64,
}

impl Step {
    /// `AVG_RANGE_ROWS`, as SQL Server shows it: rows per value of the range, 1 if the range has no values.
    pub fn average_range_rows(&self) -> f64 {
        if self.distinct_range_rows > 0.0 { self.range_rows / self.distinct_range_rows } else { 1.0 }
    }

    /// Rows per value of the range.
    fn average(&self) -> f64 {
        // A count below one is a guess that one value is unlikely. The range's rows are then that value's.
        self.range_rows / self.distinct_range_rows.max(1.0)
    }

    /// How many values of the range are below this share of its width. The value at that point counts if `inclusive`.
    ///
    /// The values are assumed at the inner points that divide the width evenly, so that dense numbers come out exactly.
    fn values_below(&self, share: f64, inclusive: bool) -> f64 {
        let reached = share * (self.distinct_range_rows + 1.0);
        let reached = if inclusive { reached } else { reached - 1.0 };
        reached.clamp(0.0, self.distinct_range_rows)
    }
}

/// The steps of a column, in ascending order of their keys.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Histogram {
    steps: Vec<Step>,
    /// For each step the eight bytes of its key after the NULL byte, which are all of most keys. Otherwise a merge of
    /// many histograms would wait for memory at each key.
    heads: Vec<u64>,
}

impl Histogram {
    /// A histogram of these steps.
    ///
    /// # Errors
    /// There are more than [`STEPS_MAX`], they do not ascend, a step after the first is NULL, or a number is negative,
    /// above 10¹⁸ or NaN.
    pub fn new(steps: Vec<Step>) -> Result<Histogram, StatisticsDamage> {
        if steps.len() > STEPS_MAX {
            return Err(StatisticsDamage::Count);
        }
        if steps.iter().skip(1).any(|step| step.value.is_none())
            || steps.windows(2).any(|pair| pair[0].key >= pair[1].key)
        {
            return Err(StatisticsDamage::Order);
        }
        let numbers = |step: &Step| [step.range_rows, step.equal_rows, step.distinct_range_rows];
        if steps.iter().flat_map(numbers).any(|number| !(0.0..=ROWS_MAX).contains(&number)) {
            return Err(StatisticsDamage::Number);
        }
        Ok(Histogram::of(steps))
    }

    fn of(steps: Vec<Step>) -> Histogram {
        let heads = steps.iter().map(|step| number_at(&step.key, 1)).collect();
        Histogram { steps, heads }
    }

    /// The steps, NULL's first.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// All rows, including NULLs.
    pub fn rows(&self) -> f64 {
        self.steps.iter().map(|step| step.range_rows + step.equal_rows).sum()
    }

    /// Rows that are NULL.
    pub fn nulls(&self) -> f64 {
        self.steps.first().filter(|step| step.value.is_none()).map_or(0.0, |step| step.equal_rows)
    }

    /// Different values, including NULL.
    pub fn distinct(&self) -> f64 {
        self.steps.len() as f64 + self.steps.iter().map(|step| step.distinct_range_rows).sum::<f64>()
    }

    /// The step of the least value that is not NULL.
    pub fn min(&self) -> Option<&Step> {
        self.values().first()
    }

    /// The step of the greatest value.
    pub fn max(&self) -> Option<&Step> {
        self.values().last()
    }

    /// The steps except NULL's.
    pub(super) fn values(&self) -> &[Step] {
        &self.steps[self.null_steps()..]
    }

    /// The steps of NULL: one or none.
    fn null_steps(&self) -> usize {
        usize::from(self.steps.first().is_some_and(|step| step.value.is_none()))
    }

    /// The positions of the keys of all steps except NULL's: the eight bytes after the common prefix of `common` bytes.
    fn places(&self, common: usize) -> impl Iterator<Item = u64> + '_ {
        let heads = &self.heads[self.null_steps()..];
        let shift = common.checked_sub(1).and_then(|bytes| u32::try_from(8 * bytes).ok());
        self.values().iter().zip(heads).map(move |(step, head)| match shift {
            // The whole key is in its head.
            Some(shift) if step.key.len() <= 9 => head.checked_shl(shift).unwrap_or(0),
            _ => number_at(&step.key, common),
        })
    }

    /// Rows with this key; `None` if it is below the first step or above the last. NULL's key has NULL's rows.
    pub fn rows_equal(&self, key: &[u8]) -> Option<f64> {
        if let Some(first) = self.steps.first().filter(|step| step.value.is_none())
            && first.key == key
        {
            return Some(first.equal_rows);
        }
        let values = self.values();
        let at = values.partition_point(|step| step.key.as_slice() < key);
        let step = values.get(at)?;
        if step.key == key { Some(step.equal_rows) } else { (at > 0).then(|| step.average()) }
    }

    /// Rows between two keys; `None` is no bound. NULLs are never included.
    pub fn rows_between(&self, low: Option<Bound<'_>>, high: Option<Bound<'_>>) -> f64 {
        self.between(low, high).0
    }

    /// Different values between two keys; `None` is no bound. NULL is never included.
    pub fn distinct_between(&self, low: Option<Bound<'_>>, high: Option<Bound<'_>>) -> f64 {
        self.between(low, high).1
    }

    fn between(&self, low: Option<Bound<'_>>, high: Option<Bound<'_>>) -> (f64, f64) {
        let (rows_high, values_high) = self.below(high);
        let (rows_low, values_low) = low.map_or((0.0, 0.0), |(key, inclusive)| self.below(Some((key, !inclusive))));
        ((rows_high - rows_low).max(0.0), (values_high - values_low).max(0.0))
    }

    /// Rows and different values below a key, and at it if the bound is inclusive. Without NULL.
    fn below(&self, bound: Option<Bound<'_>>) -> (f64, f64) {
        let values = self.values();
        let at = bound.map_or(values.len(), |(key, _)| values.partition_point(|step| step.key.as_slice() < key));
        let (mut rows, mut distinct) = (0.0, 0.0);
        for step in &values[..at] {
            rows += step.range_rows + step.equal_rows;
            distinct += step.distinct_range_rows + f64::from(u8::from(step.equal_rows > 0.0));
        }
        let (Some((key, inclusive)), Some(step)) = (bound, values.get(at)) else { return (rows, distinct) };
        if step.key == key {
            rows += step.range_rows + if inclusive { step.equal_rows } else { 0.0 };
            distinct += step.distinct_range_rows + f64::from(u8::from(inclusive && step.equal_rows > 0.0));
        } else if at > 0 {
            let reached = step.values_below(position(&values[at - 1].key, key, &step.key), inclusive);
            distinct += reached;
            rows +=
                if step.distinct_range_rows > 0.0 { step.range_rows * reached / step.distinct_range_rows } else { 0.0 };
        }
        (rows, distinct)
    }

    /// The histogram of `factor` times as many rows with equal values.
    pub fn scaled(&self, factor: f64) -> Histogram {
        let scale = |step: &Step| {
            let range_rows = step.range_rows * factor;
            Step {
                equal_rows: step.equal_rows * factor,
                distinct_range_rows: step.distinct_range_rows.min(range_rows),
                range_rows,
                ..step.clone()
            }
        };
        Histogram::of(self.steps.iter().map(scale).collect())
    }

    /// The histogram of `factor` times as many rows, of which these are a random sample. `rows_of` tells how many rows
    /// of the whole a step's value has, if fewer than in proportion. The other rows belong to values that are not in
    /// the sample, and go between the steps. NULL is scaled by `factor`, however rarely it was seen.
    pub(super) fn of_sample(&self, factor: f64, rows_of: impl Fn(&Step) -> f64) -> Histogram {
        let mut whole = self.scaled(factor);
        let nulls = self.steps.len() - self.values().len();
        let rest = |step: &Step| (step.equal_rows * factor - rows_of(step)).max(0.0);
        let unseen: Vec<f64> = self.values().iter().map(rest).collect();
        // Nothing is known of the values below the first one.
        if let [first, behind @ ..] = &mut whole.steps[nulls..]
            && !behind.is_empty()
        {
            first.equal_rows -= unseen[0];
            behind[0].range_rows += unseen[0];
            for (step, unseen) in behind.iter_mut().zip(&unseen[1..]) {
                step.equal_rows -= unseen;
                step.range_rows += unseen;
            }
        }
        Histogram::of(whole.steps)
    }

    /// Adds `rows` rows between the steps, evenly, with at least one value between each two. NULLs are unchanged.
    pub(super) fn with_rows_between(&self, rows: f64) -> Histogram {
        let nulls = self.steps.len() - self.values().len();
        let mut steps = self.steps.clone();
        match &mut steps[nulls..] {
            [] => {}
            [only] => only.equal_rows += rows,
            [_, behind @ ..] => {
                let each = rows / behind.len() as f64;
                for step in behind {
                    step.range_rows += each;
                    step.distinct_range_rows = step.distinct_range_rows.max(1.0);
                }
            }
        }
        Histogram::of(steps)
    }

    /// The histogram after these rows are deleted. Steps without rows are removed.
    pub fn subtract(&self, other: &Histogram) -> Histogram {
        let mut before: Option<&Step> = None;
        let mut steps = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let gone = match before {
                Some(low) => other.rows_between(Some((&low.key, false)), Some((&step.key, false))),
                None => 0.0,
            };
            let range_rows = (step.range_rows - gone).max(0.0);
            let left = Step {
                equal_rows: (step.equal_rows - other.rows_equal(&step.key).unwrap_or(0.0)).max(0.0),
                distinct_range_rows: step.distinct_range_rows.min(range_rows),
                range_rows,
                ..step.clone()
            };
            if left.equal_rows + left.range_rows > 0.0 {
                steps.push(left);
            }
            before = step.value.is_some().then_some(step);
        }
        Histogram::of(steps)
    }

    /// This histogram scaled to `rows` rows in all. NULLs are unchanged.
    pub fn with_rows(mut self, rows: f64) -> Histogram {
        let (nulls, all) = (self.nulls(), self.rows());
        let wanted = (rows - nulls).max(0.0);
        if all <= nulls || wanted == all - nulls {
            return self;
        }
        let factor = wanted / (all - nulls);
        for step in self.steps.iter_mut().filter(|step| step.value.is_some()) {
            step.equal_rows *= factor;
            step.range_rows *= factor;
            step.distinct_range_rows = step.distinct_range_rows.min(step.range_rows);
        }
        self.steps.retain(|step| step.equal_rows + step.range_rows > 0.0);
        Histogram::of(self.steps)
    }

    /// This histogram with `distinct` different values in all, including NULL, as far as the ranges have rows for them.
    /// The values that are not steps are divided among the ranges in proportion to their present counts.
    pub fn with_distinct(mut self, distinct: f64) -> Histogram {
        let mut wanted = (distinct - self.steps.len() as f64).max(0.0);
        let mut open: Vec<&mut Step> = self.steps.iter_mut().filter(|step| step.range_rows > 0.0).collect();
        // A range with rows has a value.
        open.iter_mut().for_each(|step| {
            step.distinct_range_rows = step.distinct_range_rows.max(step.range_rows.min(1.0));
        });
        // A range cannot have more values than rows: it then gets as many as rows, and the others share the rest. Each
        // round fixes at least one range.
        loop {
            let factor = wanted / open.iter().map(|step| step.distinct_range_rows).sum::<f64>();
            let count = open.len();
            open.retain_mut(|step| {
                let is_full = step.distinct_range_rows * factor >= step.range_rows;
                if is_full {
                    step.distinct_range_rows = step.range_rows;
                    wanted -= step.range_rows;
                }
                !is_full
            });
            if open.len() == count {
                for step in open {
                    step.distinct_range_rows = (step.distinct_range_rows * factor).max(step.range_rows.min(1.0));
                }
                return self;
            }
            wanted = wanted.max(0.0);
        }
    }
}

/// The position of a key between two others: 0 at the low one, 1 at the high one.
pub(super) fn position(low: &[u8], key: &[u8], high: &[u8]) -> f64 {
    let common = low.iter().zip(high).take_while(|(low, high)| low == high).count();
    let (low, key, high) = (number_at(low, common), number_at(key, common), number_at(high, common));
    if high <= low {
        return 0.5;
    }
    (key.saturating_sub(low) as f64 / (high - low) as f64).min(1.0)
}

/// The eight bytes from `at` on as a number. Missing bytes are zero.
pub(super) fn number_at(key: &[u8], at: usize) -> u64 {
    let tail = key.get(at..).unwrap_or(&[]);
    if let Some(bytes) = tail.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    if let (Some(last), false) = (key.last_chunk(), tail.is_empty()) {
        return u64::from_be_bytes(*last) << (64 - 8 * tail.len());
    }
    let mut bytes = [0; 8];
    bytes[..tail.len()].copy_from_slice(tail);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests;
