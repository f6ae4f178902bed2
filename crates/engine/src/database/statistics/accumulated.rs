//! Rows added one after the other, by many statements: the latest as they were gathered, the earlier ones as a summary.

use std::borrow::Cow;

use hobt_types::statistics::{GatherColumns, Gatherer, Summary};

/// The maximum number of rows from which a histogram is made: a statement may fill many partitions.
const SAMPLE_ROWS: usize = 8192;
/// The number of recent rows that are kept as they were gathered, however few are settled.
const RECENT_ROWS: f64 = 1024.0;
/// Beyond that, this fraction of the settled rows may be recent, so that each row is merged only a few times.
const RECENT_PART: f64 = 1.0 / 8.0;

/// Rows that were added for a partition.
///
/// Merging summaries costs tens of microseconds and some exactness each time. Adding a row to the recent ones costs
/// tens of nanoseconds.
#[derive(Clone, Default, Debug)]
pub(super) struct Accumulated {
    settled: Option<Summary>,
    recent: Option<Gatherer>,
}

impl Accumulated {
    /// Whether no row was added.
    pub(super) fn is_empty(&self) -> bool {
        self.settled.is_none() && self.recent.is_none()
    }

    /// Adds a row: its stored values of `columns`. A value that is invalid for its column is left out here; it makes
    /// the statement fail where it is written or read.
    pub(super) fn add(&mut self, columns: &GatherColumns, values: &[Option<&[u8]>]) {
        let recent = self.recent.get_or_insert_with(|| Gatherer::with_sample(columns.clone(), SAMPLE_ROWS));
        if recent.columns() == columns {
            let _left_out = recent.add(values);
        }
    }

    /// Adds many rows of one column, as [`Accumulated::add`] does.
    pub(super) fn add_column<'v>(&mut self, columns: &GatherColumns, values: impl Iterator<Item = Option<&'v [u8]>>) {
        let recent = self.recent.get_or_insert_with(|| Gatherer::with_sample(columns.clone(), SAMPLE_ROWS));
        if recent.columns() == columns {
            recent.add_column(values);
        }
    }

    /// Adds what another one has gathered. Rows of other columns are left out: a statement that began before the
    /// statistics were dropped may find other statistics with the same number, or a column of another type.
    pub(super) fn merge(&mut self, later: Accumulated) {
        self.settle_with(later.settled);
        match (&mut self.recent, later.recent) {
            (_, None) => {}
            (recent @ None, later) => *recent = later,
            (Some(recent), Some(later)) if recent.columns() == later.columns() => recent.merge(later),
            (Some(_), Some(_)) => {}
        }
    }

    /// Summarises the recent rows if they are many. The summary is small, however many they were.
    pub(super) fn settle_if_many(&mut self) {
        let settled_rows = self.settled.as_ref().map_or(0.0, |settled| settled.rows);
        let many = RECENT_ROWS.max(settled_rows * RECENT_PART);
        if let Some(recent) = self.recent.take_if(|recent| recent.rows() as f64 >= many) {
            self.settle_with(Some(recent.finish()));
        }
    }

    fn settle_with(&mut self, more: Option<Summary>) {
        self.settled = match (self.settled.take(), more) {
            (Some(before), Some(more)) => Some(Summary::merged(&[&before, &more])),
            (before, more) => before.or(more),
        };
    }

    /// Summaries that cover all rows together.
    pub(super) fn summaries(&self) -> impl Iterator<Item = Cow<'_, Summary>> {
        let recent = self.recent.as_ref().filter(|recent| recent.rows() > 0);
        self.settled.iter().map(Cow::Borrowed).chain(recent.map(|recent| Cow::Owned(recent.summary())))
    }

    /// The number of rows added.
    pub(super) fn rows(&self) -> f64 {
        let settled = self.settled.as_ref().map_or(0.0, |settled| settled.rows);
        settled + self.recent.as_ref().map_or(0.0, |recent| recent.rows() as f64)
    }

    /// The approximate memory in bytes while nothing is settled.
    pub(super) fn held_bytes(&self) -> usize {
        self.recent.as_ref().map_or(0, Gatherer::held_bytes)
    }
}

#[cfg(test)]
mod tests {
    use hobt_types::{Collation, KeyColumn, SqlType};

    use super::*;

    fn columns() -> GatherColumns {
        let column = KeyColumn::new(SqlType::Int, Collation::default(), true, false).expect("a key");
        GatherColumns::new(vec![column])
    }

    fn whole(rows: &Accumulated) -> Summary {
        let summaries: Vec<_> = rows.summaries().collect();
        let all: Vec<&Summary> = summaries.iter().map(|summary| &**summary).collect();
        Summary::merged(&all)
    }

    #[test]
    fn rows_one_by_one_are_those_of_one_load() {
        let (columns, mut single, mut load) = (columns(), Accumulated::default(), Accumulated::default());
        for number in 0..50_000_i32 {
            let number = number.wrapping_mul(7919) % 20_000;
            let value = number.to_le_bytes();
            let mut statement = Accumulated::default();
            statement.add(&columns, &[Some(&value)]);
            single.merge(statement);
            single.settle_if_many();
            load.add(&columns, &[Some(&value)]);
        }
        load.settle_if_many();
        let (single, load) = (whole(&single), whole(&load));
        assert_eq!((single.rows, load.rows), (50_000.0, 50_000.0));
        assert!(
            (single.distinct(1) / load.distinct(1) - 1.0).abs() < 0.001,
            "{} {}",
            single.distinct(1),
            load.distinct(1)
        );
        let (first, last) = (load.histogram.steps().first(), load.histogram.steps().last());
        assert_eq!(single.histogram.steps().first().map(|step| &step.key), first.map(|step| &step.key));
        assert_eq!(single.histogram.steps().last().map(|step| &step.key), last.map(|step| &step.key));
    }

    #[test]
    fn rows_of_other_columns_are_left_out() {
        let (one, mut rows) = (columns(), Accumulated::default());
        let two = GatherColumns::new([one.columns(), one.columns()].concat());
        let value = 7_i32.to_le_bytes();
        rows.add(&two, &[Some(&value), None]);
        rows.add(&one, &[Some(&value)]);
        let mut others = Accumulated::default();
        (0..100).for_each(|_| others.add(&one, &[Some(&value)]));
        rows.merge(others);
        assert_eq!(rows.rows(), 1.0);
    }

    #[test]
    fn what_is_kept_of_many_rows_is_small() {
        let (columns, mut rows) = (columns(), Accumulated::default());
        for number in 0..30_000_i32 {
            rows.add(&columns, &[Some(&number.to_le_bytes())]);
            rows.settle_if_many();
        }
        let recent = rows.recent.as_ref().map_or(0, Gatherer::rows);
        assert!(recent <= 30_000 / 8, "{recent} rows are not settled");
        assert_eq!(whole(&rows).rows, 30_000.0);
    }
}
