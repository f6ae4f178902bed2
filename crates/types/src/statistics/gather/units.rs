//! Rows of a sample of pages, scaled up to the table that the pages belong to.

use hobt_base::compare_bytes;

use super::sample::Row;
use super::{Gatherer, SAMPLE_ROWS_MAX};
use crate::statistics::units::{Spread, UnitCounts};
use crate::statistics::{GatherColumns, Step, Summary};

/// The units of a sample: the pages or extents that were drawn.
#[derive(Clone, Debug)]
pub(super) struct Units {
    /// For each prefix.
    pub(super) counts: Vec<UnitCounts>,
    /// The number of the current unit, from 1 on.
    pub(super) current: u32,
}

impl Units {
    pub(super) fn held_bytes(&self) -> usize {
        self.counts.iter().map(UnitCounts::held_bytes).sum()
    }
}

impl Gatherer {
    /// Like [`Gatherer::with_sample`], for the rows of units that are a random sample of a table's pages or extents.
    /// [`Gatherer::begin_unit`] begins each.
    ///
    /// # Panics
    /// When there are no columns.
    pub fn of_units(columns: impl Into<GatherColumns>, sample_rows_max: usize) -> Gatherer {
        let gatherer = Gatherer::with_sample(columns, sample_rows_max.min(SAMPLE_ROWS_MAX));
        let counts = vec![UnitCounts::default(); gatherer.prefixes.len()];
        Gatherer { units: Some(Units { counts, current: 0 }), ..gatherer }
    }

    /// The rows that follow are those of another unit. A unit that comes in two pieces counts as two.
    pub fn begin_unit(&mut self) {
        let Some(units) = &mut self.units else { return };
        units.current += 1;
        self.sample.begin_unit(units.current);
        self.last.forget();
        if let Some(number) = &mut self.number {
            number.forget_last();
        }
    }

    /// Adds the units of another gatherer; returns how many there were.
    pub(super) fn merge_units(&mut self, other: Option<Units>) -> u32 {
        let (Some(own), Some(other)) = (&mut self.units, other) else { return 0 };
        for (own, other) in own.counts.iter_mut().zip(&other.counts) {
            own.merge(other);
        }
        let before = own.current;
        own.current += other.current;
        before
    }

    /// The expected summary of a table of `rows` rows, of which the rows so far are all, or a sample.
    ///
    /// The number of different values is exact for few rows that are all.
    pub fn finish_table(self, rows: f64) -> Summary {
        let sorted = self.sample.sorted_values();
        let mut seen = self.summary_of(&sorted);
        if self.sample.is_whole() {
            for (at, prefix) in seen.prefixes.iter_mut().enumerate().filter(|(_, prefix)| prefix.seen_distinct > 0.0) {
                prefix.growth = self.sample.distinct(at) / prefix.seen_distinct;
            }
            seen.agree();
        }
        let Some(units) = self.units.as_ref().filter(|_| seen.rows > 0.0 && rows > seen.rows) else { return seen };
        let share = seen.rows / rows;
        let growths: Vec<f64> = seen
            .prefixes
            .iter()
            .zip(&units.counts)
            .map(|(prefix, counts)| prefix.growth * counts.growth(share))
            .collect();
        let (spread, block) = (units.counts[0].spread(share), self.sample.block_rows());
        seen.grown_to(rows, &growths, |step| step.equal_rows / share * kept_part(step, &sorted, spread, (share, block)))
    }
}

/// Which part of the rows that a step's value has in proportion to the sample it is expected to have: less than 1 if it
/// is a step by chance, because its unit was drawn. `block`: one of so many rows of the sample is in `sorted`.
fn kept_part(step: &Step, sorted: &[Row<'_>], spread: Spread, (share, block): (f64, f64)) -> f64 {
    let found = sorted.binary_search_by(|row| compare_bytes(row.key, &step.key));
    let (rows, units) = found.map_or((1.0, 1.0), |at| (sorted[at].rows, sorted[at].units));
    let chance = share * chance_of_unit(rows / units, block);
    let in_proportion = units / chance;
    (spread.units_of(units, chance) / in_proportion).min(1.0)
}

/// The probability that at least one row of a value is taken in a unit where it is, if one of `block` rows is taken,
/// and in a unit where any is taken, `taken` are on average.
fn chance_of_unit(taken: f64, block: f64) -> f64 {
    const STEPS: usize = 32;
    let chance = |expected: f64| 1.0 - (1.0 - 1.0 / block).powf(expected * block);
    // Near 1, `taken` is 1 more than half of those expected. A value has a row in a unit where it is.
    let mut expected = (2.0 * (taken - 1.0)).clamp(1.0 / block, taken);
    for _ in 0..STEPS {
        expected = (taken * chance(expected)).max(1.0 / block);
    }
    chance(expected)
}

#[cfg(test)]
mod tests;
