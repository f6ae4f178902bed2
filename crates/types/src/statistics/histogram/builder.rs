//! Builds a histogram from any number of values in ascending order.
//!
//! Every value is a step of its own until there are [`HELD_MAX`]. Then the cheapest steps are merged into the range of
//! the next one, until half are left, and at the end until [`STEPS_MAX`] are. The cost of removing a step is
//!
//! ```text
//! (rows of the resulting range)²                          ranges get equally many rows: what estimates between
//!                                                         two keys need
//! + VARIANCE_WEIGHT · (growth of Σ (rows of a value − rows of the range's average value)²)
//!                                                         frequent values stay alone: what estimates of one key need
//! ```
//! The second term is the sum that V-optimal histograms minimise (Poosala, Ioannidis, Haas, Shekita: "Improved
//! histograms for selectivity estimation of range predicates", 1996), here greedily from the bottom up. The first and
//! the last value always keep their steps, so the least and the greatest are known.

use std::cmp::Ordering;

use super::{Histogram, STEPS_MAX, Step};

/// How many steps are held before the cheapest are merged.
const HELD_MAX: usize = 4 * STEPS_MAX;
/// The weight of the values' deviation from their range's average, relative to the range's size.
const VARIANCE_WEIGHT: f64 = 16.0;

/// Builds a [`Histogram`]; see the module. Its memory is bounded.
#[derive(Clone, Debug, Default)]
pub struct HistogramBuilder {
    nulls: Option<(Vec<u8>, f64)>,
    held: Vec<Held>,
    /// Keys and values of the steps held, and of some that have been merged.
    bytes: Vec<u8>,
    costs: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Held {
    key_at: usize,
    key_len: usize,
    value_len: usize,
    equal_rows: f64,
    range: Range,
}

/// The values before a step: their number, their rows, and the sum of the squares of each one's rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    pub(super) rows: f64,
    pub(super) distinct: f64,
    squares: f64,
}

impl Range {
    /// A range whose values are not known individually.
    pub(super) fn even(rows: f64, distinct: f64) -> Range {
        Range { rows, distinct, squares: rows * rows / distinct.max(1.0) }
    }

    pub(super) fn of_value(rows: f64) -> Range {
        Range { rows, distinct: f64::from(u8::from(rows > 0.0)), squares: rows * rows }
    }

    pub(super) fn with(self, other: Range) -> Range {
        Range {
            rows: self.rows + other.rows,
            distinct: self.distinct + other.distinct,
            squares: self.squares + other.squares,
        }
    }

    /// Σ (rows of a value − average)².
    fn variance(self) -> f64 {
        (self.squares - self.rows * self.rows / self.distinct.max(1.0)).max(0.0)
    }
}

impl Held {
    /// The range of the next step if this one is merged into it.
    fn absorbed(&self, next: &Held) -> Range {
        self.range.with(Range::of_value(self.equal_rows)).with(next.range)
    }

    fn cost(&self, next: &Held) -> f64 {
        let range = self.absorbed(next);
        let growth = range.variance() - self.range.variance() - next.range.variance();
        range.rows * range.rows + VARIANCE_WEIGHT * growth.max(0.0)
    }
}

impl HistogramBuilder {
    /// An empty builder.
    pub fn new() -> HistogramBuilder {
        HistogramBuilder::default()
    }

    /// Adds rows of a value; `None` is NULL. Keys ascend, and rows of equal keys are added. A key that is below the one
    /// before it is of a text that was cut: the collation may sort the whole texts otherwise. Its rows are counted in
    /// the range below that one.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>, rows: f64) {
        self.push_range(Range::default(), key, value, rows);
    }

    /// Adds a range of unknown values, and the value after it.
    pub(super) fn push_range(&mut self, range: Range, key: &[u8], value: Option<&[u8]>, rows: f64) {
        let Some(value) = value else {
            match &mut self.nulls {
                Some((_, nulls)) => *nulls += rows,
                None => self.nulls = Some((key.to_vec(), rows)),
            }
            return;
        };
        if let Some(last) = self.held.last_mut() {
            let last_key = &self.bytes[last.key_at..last.key_at + last.key_len];
            match key.cmp(last_key) {
                Ordering::Less => {
                    last.range = last.range.with(range).with(Range::of_value(rows));
                    return;
                }
                Ordering::Equal => {
                    last.equal_rows += rows;
                    last.range = last.range.with(range);
                    return;
                }
                Ordering::Greater => {}
            }
        }
        if self.held.len() == HELD_MAX {
            self.reduce(HELD_MAX / 2);
        }
        let key_at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.held.push(Held { key_at, key_len: key.len(), value_len: value.len(), equal_rows: rows, range });
    }

    /// The histogram.
    pub fn finish(mut self) -> Histogram {
        let nulls = self.nulls.take().map(|(key, equal_rows)| Step {
            key,
            value: None,
            range_rows: 0.0,
            equal_rows,
            distinct_range_rows: 0.0,
        });
        self.reduce(STEPS_MAX - usize::from(nulls.is_some()));
        let values = self.held.iter().map(|held| {
            let value_at = held.key_at + held.key_len;
            Step {
                key: self.bytes[held.key_at..value_at].to_vec(),
                value: Some(self.bytes[value_at..value_at + held.value_len].to_vec()),
                range_rows: held.range.rows,
                equal_rows: held.equal_rows,
                distinct_range_rows: held.range.distinct,
            }
        });
        Histogram::of(nulls.into_iter().chain(values).collect())
    }

    /// Merges the cheapest steps until at most `count` are left.
    fn reduce(&mut self, count: usize) {
        while self.held.len() > count {
            let surplus = self.held.len() - count;
            self.costs.clear();
            // Only the inner steps have a cost: the first and the last stay.
            self.costs.extend(self.held[1..].windows(2).map(|pair| pair[0].cost(&pair[1])));
            let (_, limit, _) = self.costs.select_nth_unstable_by(surplus - 1, f64::total_cmp);
            let limit = *limit;
            self.merge_up_to(limit, surplus);
        }
        self.compact();
    }

    /// One sweep, which merges at most `surplus` steps that cost at most `limit`. It merges at least one: the cheapest,
    /// or a neighbour whose merge in this sweep has raised the cheapest one's cost.
    fn merge_up_to(&mut self, limit: f64, mut surplus: usize) {
        let mut kept = 1;
        for at in 1..self.held.len() {
            let is_last = at + 1 == self.held.len();
            if !is_last && surplus > 0 && self.held[at].cost(&self.held[at + 1]) <= limit {
                self.held[at + 1].range = self.held[at].absorbed(&self.held[at + 1]);
                surplus -= 1;
            } else {
                self.held.swap(kept, at);
                kept += 1;
            }
        }
        self.held.truncate(kept);
    }

    /// Drops the bytes of steps that have been merged.
    fn compact(&mut self) {
        let mut end = 0;
        for held in &mut self.held {
            let from = held.key_at;
            let len = held.key_len + held.value_len;
            self.bytes.copy_within(from..from + len, end);
            held.key_at = end;
            end += len;
        }
        self.bytes.truncate(end);
    }
}

#[cfg(test)]
mod tests;
