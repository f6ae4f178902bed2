//! The rows of a table that satisfy its conditions, by the histograms of the conditions' columns.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use hobt_base::HobtId;
use hobt_catalog::{IndexKind, Statistics, Table, value_to_bytes};
use hobt_engine::{statistics_columns, statistics_type};
use hobt_types::statistics::{Bound, HISTOGRAM_VALUE_BYTES_MAX, Step, Summary, histogram_key};
use hobt_types::{Collation, KeyColumn, Value};

use super::relation::{ColumnRows, distinct_left, made_of};
use super::same_values::same_values;
use super::share::{Knowledge, UNKNOWN_CONDITION, only_column, shares_by};
use super::{LeafEstimate, WantedColumn, together, together_by};
use crate::TableRead;
use crate::access_path::{ColumnPredicate, Comparand, Limit, Test, read_predicates, text_column};
use crate::cardinality::Correlation;

/// Trace flag: a value beyond the histogram of an ascending column is as frequent as its values are on average.
const ASCENDING_FLAG: i32 = 2389;
/// As [`ASCENDING_FLAG`], for a column that is not known to ascend.
const UNKNOWN_FLAG: i32 = 2390;
/// As [`ASCENDING_FLAG`], for every column.
const ANY_FLAG: i32 = 4139;

/// What is known of the partitions of a table that are read.
#[derive(Clone)]
pub struct TableKnowledge<'t> {
    heap: &'t TableRead,
    statistics: Vec<Arc<Statistics>>,
    hobts: Vec<HobtId>,
    /// The rows of these partitions.
    pub rows: f64,
    is_live: bool,
    /// A column and its summary for the rows in question, used instead of its statistics.
    given: Option<(usize, Arc<Summary>)>,
}

impl<'t> TableKnowledge<'t> {
    /// For the partitions (from 0) of a table. Statistics that are not maintained (as old as their last update)
    /// describe the whole table, as SQL Server's do; the conditions then select what the partitions hold.
    pub fn of(heap: &'t TableRead, partitions: &[usize]) -> TableKnowledge<'t> {
        let (database, table) = (heap.database().database(), heap.table());
        let is_live = database.options().statistics.is_maintained;
        let of_base = &table.base_index().partitions;
        let known = partitions.iter().filter_map(|place| Some(of_base.get(*place)?.hobt));
        let hobts: Vec<HobtId> = match is_live {
            true => known.collect(),
            false => of_base.iter().map(|partition| partition.hobt).collect(),
        };
        let count = |hobt: &HobtId| database.store_to_read(*hobt).map_or(0, |store| database.expected_rows(&store));
        let rows = hobts.iter().map(|hobt| count(hobt) as f64).sum();
        let statistics = database.snapshot().statistics_of(table);
        TableKnowledge { heap, statistics, hobts, rows, is_live, given: None }
    }

    /// For all partitions of a table.
    pub fn whole(heap: &'t TableRead) -> TableKnowledge<'t> {
        let all: Vec<usize> = (0..heap.table().base_index().partitions.len()).collect();
        TableKnowledge::of(heap, &all)
    }

    pub(super) fn heap(&self) -> &TableRead {
        self.heap
    }

    pub(super) fn table(&self) -> &Table {
        self.heap.table()
    }

    /// The table's statistics objects.
    pub(super) fn statistics(&self) -> impl Iterator<Item = &Arc<Statistics>> {
        self.statistics.iter()
    }

    /// The summary of a statistics object for the partitions.
    pub(super) fn summary_of(&self, statistics: &Arc<Statistics>) -> Arc<Summary> {
        self.heap.run().note_statistics(self.heap, statistics);
        self.heap.database().database().statistics_state(statistics, &self.hobts).summary
    }

    /// How conditions are assumed to correlate.
    pub(super) fn correlation(&self) -> Correlation {
        self.heap.run().assumptions().correlation
    }

    /// The summary, for the partitions, of statistics whose first column is `column`. Of several, the one updated last
    /// is used. If statistics are maintained, the one that has seen most rows is used.
    pub(super) fn summary(&self, column: usize) -> Option<Arc<Summary>> {
        if let Some((_, summary)) = self.given.as_ref().filter(|(given, _)| *given == column) {
            return Some(Arc::clone(summary));
        }
        let id = self.table().columns.get(column)?.id;
        let is_of = |each: &&Arc<Statistics>| each.filter.is_none() && each.columns.first() == Some(&id);
        let mut found: Vec<&Arc<Statistics>> = self.statistics.iter().filter(is_of).collect();
        found.sort_by_key(|each| std::cmp::Reverse(each.updated));
        let mut summaries = found.into_iter().map(|each| self.summary_of(each)).filter(|summary| summary.rows > 0.0);
        let last = summaries.next()?;
        // A summary that lacks few rows counts as complete.
        let seen = |summary: &Summary| (summary.sampled_rows / summary.rows * 10.0).min(10.0) as u32;
        let fuller = |best: Arc<Summary>, other: Arc<Summary>| if seen(&other) > seen(&best) { other } else { best };
        Some(if self.is_live { summaries.fold(last, fuller) } else { last })
    }

    /// What is known of a column; `None` if nothing is.
    fn known(&self, column: usize) -> Option<ColumnRows> {
        let (summary, is_unique) = (self.summary(column), self.is_unique(&[column]));
        let distinct = match &summary {
            _ if is_unique => self.rows,
            Some(summary) => summary.distinct(1).min(self.rows),
            None => return None,
        };
        let null_share = summary.map_or(0.0, |summary| summary.histogram.nulls() / summary.rows);
        Some(ColumnRows::of(distinct.max(1.0), null_share))
    }

    /// What is known of a column, or a guess.
    pub fn column(&self, column: usize) -> ColumnRows {
        self.known(column).unwrap_or_else(|| ColumnRows::guess(self.rows))
    }

    /// What is known of a column in the `rows` rows that conditions leave.
    pub(super) fn left_of(&self, column: usize, rows: f64, predicates: &[ColumnPredicate]) -> ColumnRows {
        let known = self.column(column);
        let tests: Vec<&Test> = predicates.iter().filter(|each| each.column == column).map(|each| &each.test).collect();
        if tests.is_empty() {
            return ColumnRows { distinct: distinct_left(known.distinct, self.rows.max(1.0), rows), ..known };
        }
        // Conditions on the column remove values; conditions on other columns remove rows of each value.
        let share = self.selectivity(column, &tests);
        let inside = values_asked(column, predicates).unwrap_or(known.distinct * share).clamp(1.0, known.distinct);
        let is_null = tests.iter().any(|test| matches!(test, Test::Null));
        let distinct = distinct_left(inside, (self.rows * share).max(1.0), rows);
        let cut = (inside / known.distinct).min(1.0 - f64::EPSILON);
        ColumnRows { cut, ..ColumnRows::of(distinct, f64::from(u8::from(is_null))) }
    }

    /// What is expected of the rows that conditions leave, of which the columns `projection` are read.
    pub fn leaf(
        &self,
        predicates: &[ColumnPredicate],
        unread: &[&Expr],
        (projection, table): (&[usize], &Arc<TableRead>),
    ) -> LeafEstimate {
        let rows = self.rows_of(predicates, unread);
        let column = |place: &usize| ColumnRows {
            origin: Some(Arc::new(WantedColumn::new(Arc::clone(table), *place))),
            ..self.left_of(*place, rows, predicates)
        };
        let columns = projection.iter().map(column).collect();
        LeafEstimate { rows, columns }
    }

    /// Whether a unique index guarantees that no two rows are equal in these columns.
    pub(crate) fn is_unique(&self, columns: &[usize]) -> bool {
        let is_covered = |index: &hobt_catalog::Index| index.key.iter().all(|part| columns.contains(&part.column));
        self.table().indexes.iter().any(|index| {
            index.kind != IndexKind::Heap && index.options.is_unique && !index.options.is_disabled && is_covered(index)
        })
    }

    /// The share of rows with one value in each of the columns `equated`, from multi-column statistics, and the columns
    /// that it covers.
    fn share_of_key(&self, equated: &[usize]) -> Option<(f64, Vec<usize>)> {
        let of = |statistics: &Arc<Statistics>| {
            let places = statistics.columns_in(self.table()).filter(|_| statistics.filter.is_none())?;
            let covered = places.iter().take_while(|place| equated.contains(place)).count();
            if covered < 2 {
                return None;
            }
            let summary = self.summary_of(statistics);
            (summary.rows > 0.0).then(|| (summary.density(covered), places[..covered].to_vec()))
        };
        self.statistics.iter().filter_map(of).max_by_key(|(_, columns)| columns.len())
    }

    /// The number of rows that satisfy `predicates` and the `unread` conditions.
    pub(crate) fn rows_of(&self, predicates: &[ColumnPredicate], unread: &[&Expr]) -> f64 {
        if self.rows <= 0.0 {
            return 0.0;
        }
        if let Some(rows) = self.rows_filtered(predicates, unread) {
            return rows.max(1.0).min(self.rows);
        }
        let mut selectivities: Vec<f64> = shares_by(unread, self);
        let mut columns: Vec<usize> = predicates.iter().map(|predicate| predicate.column).collect();
        columns.sort_unstable();
        columns.dedup();
        let is_one = |column: usize| {
            let is_it = |each: &ColumnPredicate| {
                each.column == column && matches!(&each.test, Test::Equal(values) if values.len() == 1)
            };
            predicates.iter().any(is_it)
        };
        let equated: Vec<usize> = columns.iter().copied().filter(|column| is_one(*column)).collect();
        if let Some((share, together)) = self.share_of_key(&equated) {
            selectivities.push(share);
            columns.retain(|column| !together.contains(column));
        }
        for column in columns {
            let tests: Vec<&Test> =
                predicates.iter().filter(|each| each.column == column).map(|each| &each.test).collect();
            selectivities.push(self.selectivity(column, &tests));
        }
        if self.is_unique(&equated) && !equated.is_empty() {
            return together(selectivities.into_iter().filter(|each| *each <= 0.0).collect()).min(1.0);
        }
        let rows = self.rows * together_by(self.correlation(), selectivities);
        // Less than one row means that there are sometimes none and sometimes one; a plan for one row serves both.
        rows.max(1.0).min(self.rows)
    }

    /// This knowledge for other rows, in which `column` has this summary.
    pub(super) fn given(&self, column: usize, summary: Arc<Summary>) -> TableKnowledge<'t> {
        TableKnowledge { given: Some((column, summary)), ..self.clone() }
    }

    /// The share of the rows that satisfy all tests of one column.
    pub(super) fn selectivity(&self, column: usize, tests: &[&Test]) -> f64 {
        let Some(definition) = self.table().columns.get(column) else { return UNKNOWN_CONDITION };
        let known = self.summary(column).zip(statistics_columns(self.table(), &[column]));
        let Some((summary, keys)) = known else { return self.guess(column, tests) };
        let encoded =
            |comparand: &Comparand| encoded(comparand, statistics_type(definition.sql_type), &keys.columns()[0]);
        let histogram = &summary.histogram;
        let mut range: (Option<Limit>, Option<Limit>) = (None, None);
        let (mut shares, mut unknown) = (Vec::new(), Vec::new());
        for test in tests {
            match test {
                Test::Never => return 0.0,
                Test::Null => shares.push(histogram.nulls()),
                Test::Equal(values) => {
                    let rows_of = |value: &Comparand| {
                        if *value == Comparand::Unknown {
                            return summary.rows * summary.density(1);
                        }
                        let Some(key) = encoded(value) else { return self.rows_outside(&summary) };
                        let alike = || rows_alike(&summary, &key);
                        let found = alike().or_else(|| histogram.rows_equal(&key));
                        found.unwrap_or_else(|| self.rows_outside(&summary))
                    };
                    shares.push(values.iter().map(rows_of).sum());
                }
                Test::Range { low, high } => {
                    for (limit, end) in [(low, &mut range.0), (high, &mut range.1)] {
                        match limit {
                            Some((Comparand::Unknown, _)) => unknown.push(UNKNOWN_CONDITION),
                            Some(known) => *end = end.take().or_else(|| Some(known.clone())),
                            None => {}
                        }
                    }
                }
            }
        }
        if !unknown.is_empty() {
            shares.push(summary.rows * together(unknown));
        }
        if range.0.is_some() || range.1.is_some() {
            let bound = |limit: &Option<Limit>| {
                limit.as_ref().and_then(|(value, is_in)| encoded(value).map(|key| (key, *is_in)))
            };
            let (low, high) = (bound(&range.0), bound(&range.1));
            fn bytes(bound: &Option<(Vec<u8>, bool)>) -> Option<Bound<'_>> {
                bound.as_ref().map(|(key, is_in)| (key.as_slice(), *is_in))
            }
            shares.push(self.rows_inside(&summary, bytes(&low), bytes(&high)));
        }
        let least = shares.into_iter().fold(summary.rows, f64::min);
        (least / summary.rows).clamp(0.0, 1.0)
    }

    /// The number of rows between two keys.
    fn rows_inside(&self, summary: &Summary, low: Option<Bound<'_>>, high: Option<Bound<'_>>) -> f64 {
        let inside = summary.histogram.rows_between(low, high);
        inside.max(if inside < 1.0 { self.rows_outside(summary).min(summary.rows) } else { 0.0 })
    }

    /// The number of rows of a value beyond a histogram. It is 0 if statistics are maintained and so cover all rows.
    /// Otherwise it is 1, as SQL Server assumes, or with its trace flags for ascending keys the average of a value.
    fn rows_outside(&self, summary: &Summary) -> f64 {
        if self.is_live {
            return 0.0;
        }
        let flags = [ASCENDING_FLAG, UNKNOWN_FLAG, ANY_FLAG];
        match flags.iter().any(|flag| self.heap.run().has_trace_flag(*flag)) {
            true => summary.rows * summary.density(1),
            false => (summary.rows / self.rows.max(1.0)).min(1.0),
        }
    }

    fn guess(&self, column: usize, tests: &[&Test]) -> f64 {
        let shares = tests.iter().map(|test| match test {
            Test::Never => 0.0,
            Test::Equal(values) => (values.len() as f64 / self.column(column).distinct).min(1.0),
            Test::Null => 0.1,
            Test::Range { low: Some(_), high: Some(_) } => 0.09,
            Test::Range { .. } => UNKNOWN_CONDITION,
        });
        shares.fold(1.0, f64::min)
    }
}

/// The number of values to which conditions limit a column, if they do.
fn values_asked(column: usize, predicates: &[ColumnPredicate]) -> Option<f64> {
    let values = predicates.iter().filter(|each| each.column == column).filter_map(|each| match &each.test {
        Test::Equal(values) => Some(values.len().max(1) as f64),
        Test::Null | Test::Never => Some(1.0),
        Test::Range { .. } => None,
    });
    values.reduce(f64::min)
}

/// Whether a step may stand for several values with the same beginning, because the histogram truncates values.
pub(super) fn is_cut(step: &Step) -> bool {
    /// The bytes of a character that the truncation may have removed.
    const CHARACTER_BYTES: usize = 3;
    step.value.as_ref().is_some_and(|bytes| bytes.len() + CHARACTER_BYTES >= HISTOGRAM_VALUE_BYTES_MAX)
}

/// The number of rows of a value whose histogram step is truncated: the average of a value, but no more than all values
/// with the same beginning have. `None` for a value that the histogram knows in full.
fn rows_alike(summary: &Summary, key: &[u8]) -> Option<f64> {
    /// What follows a value's bytes in its key.
    const END_BYTES: usize = 1;
    if key.len() < HISTOGRAM_VALUE_BYTES_MAX / 4 {
        return None;
    }
    let begins = |step: &&Step| {
        let beginning = &step.key[..step.key.len().saturating_sub(END_BYTES)];
        is_cut(step) && key.starts_with(beginning)
    };
    let step = summary.histogram.steps().iter().find(begins)?;
    Some((summary.rows * summary.density(1)).min(step.equal_rows))
}

impl Knowledge for TableKnowledge<'_> {
    fn expression(&self, expr: &Expr) -> ColumnRows {
        let place = |column: &Column| self.table().column_named(&column.name);
        if let Some(place) = same_values(expr).and_then(place) {
            return self.column(place);
        }
        if let Some(place) = only_column(expr).and_then(place) {
            return self.made_by(place, expr).unwrap_or_else(|| self.column(place));
        }
        made_of(expr, self.rows, &|column| place(column).map(|place| self.column(place)))
    }

    fn share_of(&self, condition: &Expr) -> Option<f64> {
        let (predicates, unread) = read_predicates(self.heap, std::slice::from_ref(condition));
        if predicates.is_empty() || !unread.is_empty() {
            return None;
        }
        let mut columns: Vec<usize> = predicates.iter().map(|predicate| predicate.column).collect();
        columns.sort_unstable();
        columns.dedup();
        let share = |column: usize| {
            let of_column = predicates.iter().filter(|each| each.column == column);
            self.selectivity(column, &of_column.map(|each| &each.test).collect::<Vec<&Test>>())
        };
        Some(together(columns.into_iter().map(share).collect()))
    }

    fn share_tried(&self, condition: &Expr) -> Option<f64> {
        let place = self.table().column_named(&only_column(condition)?.name)?;
        let tried = self.share_by_trying(place, condition)?;
        Some(tried.in_rows(self.column(place).null_share))
    }

    fn share_of_text(&self, text: &Expr, beginning: &str, is_all: bool, collation: Collation) -> Option<f64> {
        let column = text_column(self.heap, text)?;
        if self.table().columns[column].collation != Some(collation) {
            return None;
        }
        if is_all {
            let mut compared = Vec::new();
            collation.sort_key(beginning, &mut compared);
            return Some(self.selectivity(column, &[&Test::Equal(vec![Comparand::Compared(compared)])]));
        }
        let summary = self.summary(column)?;
        let (low, high) = statistics_columns(self.table(), &[column])?.columns()[0].encode_prefix(beginning)?;
        let rows = self.rows_inside(&summary, Some((&low, true)), Some((&high, false)));
        Some((rows / summary.rows).clamp(0.0, 1.0))
    }
}

/// The key of a value in a histogram.
pub(super) fn encoded(comparand: &Comparand, sql_type: hobt_types::SqlType, key: &KeyColumn) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    match comparand {
        Comparand::Value(Value::Null) => histogram_key(key, None, &mut bytes).ok()?,
        Comparand::Value(value) => {
            let stored = value_to_bytes(sql_type, value).ok()?;
            histogram_key(key, stored.as_deref(), &mut bytes).ok()?;
        }
        other => other.encode(sql_type, key, &mut bytes)?,
    }
    Some(bytes)
}
