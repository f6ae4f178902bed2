//! Filtered statistics, used for a query whose conditions leave only rows that satisfy the filter.
//!
//! ```text
//!   CREATE STATISTICS s ON car (model) WHERE make = 'T'
//!   WHERE make = 'T' AND model = 'C'      rows of s, and of them those of the model: no guess of how both go together
//! ```
//! A filter follows from conditions if each of its own conditions follows from those on the same column: the queried
//! values are among its values, or the queried range lies inside its range.

use std::sync::Arc;

use datafusion::logical_expr::Expr;
use hobt_catalog::{Statistics, Table};
use hobt_engine::{statistics_columns, statistics_type};
use hobt_tsql::ast::ComparisonOperator;
use hobt_types::statistics::Bound;

use super::filter_text::{FilterPart, PartTest, constant_of, filter_parts};
use super::share::shares_by;
use super::table::{TableKnowledge, encoded};
use super::together_by;
use crate::access_path::{ColumnPredicate, Comparand, Test};

/// An end of a range as a key, and whether the end is inclusive.
type End = (Vec<u8>, bool);

/// A condition on a column, by keys.
#[derive(Clone, PartialEq, Debug)]
enum Keys {
    Values(Vec<Vec<u8>>),
    Range(Option<End>, Option<End>),
    Not(Vec<u8>),
    Null,
    NotNull,
}

impl Keys {
    /// Whether every row that satisfies `self` satisfies `other`.
    fn implies(&self, other: &Keys) -> bool {
        let is_inside = |key: &Vec<u8>, other: &Keys| match other {
            Keys::Values(values) => values.contains(key),
            Keys::Range(low, high) => {
                low.as_ref().is_none_or(|(end, is_in)| key > end || (*is_in && key == end))
                    && high.as_ref().is_none_or(|(end, is_in)| key < end || (*is_in && key == end))
            }
            Keys::Not(not) => key != not,
            Keys::Null => false,
            Keys::NotNull => true,
        };
        match (self, other) {
            (Keys::Null, other) => *other == Keys::Null,
            (_, Keys::NotNull) => true,
            (Keys::Values(values), other) => values.iter().all(|key| is_inside(key, other)),
            (Keys::Range(low, high), Keys::Range(other_low, other_high)) => {
                let is_above = |own: &Option<End>, other: &Option<End>| match (own, other) {
                    (_, None) => true,
                    (None, Some(_)) => false,
                    (Some((own, own_in)), Some((other, other_in))) => {
                        own > other || (own == other && (*other_in || !own_in))
                    }
                };
                let is_below = |own: &Option<End>, other: &Option<End>| match (own, other) {
                    (_, None) => true,
                    (None, Some(_)) => false,
                    (Some((own, own_in)), Some((other, other_in))) => {
                        own < other || (own == other && (*other_in || !own_in))
                    }
                };
                is_above(low, other_low) && is_below(high, other_high)
            }
            (Keys::Range(..), Keys::Not(not)) => !is_inside(not, self),
            (own, other) => own == other,
        }
    }
}

/// A parsed filter.
pub(super) struct Filter {
    /// The columns' indexes in the table, and the condition on each.
    parts: Vec<(usize, Keys)>,
}

impl Filter {
    /// `None` for a filter that is not fully understood.
    fn of(table: &Table, text: &str) -> Option<Filter> {
        let mut batch = hobt_tsql::parse_batch(&format!("IF {text} RETURN")).ok()?;
        let hobt_tsql::ast::StatementKind::If { branches, .. } = batch.statements.pop()?.kind else { return None };
        let refused = |position| hobt_base::SqlError::internal("a filter that is none").at(position);
        let parts = filter_parts(&branches.first()?.condition, &refused, &refused).ok()?;
        let mut found = Vec::new();
        for part in &parts {
            let (column, keys) = keys_of_part(table, part)?;
            add_keys(&mut found, column, keys);
        }
        Some(Filter { parts: found })
    }

    /// Whether every row that satisfies the conditions satisfies the filter.
    fn follows(&self, asked: &[(usize, Keys)]) -> bool {
        let follows = |(column, part): &(usize, Keys)| {
            asked.iter().any(|(asked_column, keys)| asked_column == column && keys.implies(part))
        };
        self.parts.iter().all(follows)
    }
}

fn keys_of_part(table: &Table, part: &FilterPart<'_>) -> Option<(usize, Keys)> {
    let place = table.column_named(&part.column.name.value)?;
    let sql_type = table.columns[place].sql_type;
    let columns = statistics_columns(table, &[place])?;
    let key = |expression| {
        let value = Comparand::Value(constant_of(expression, sql_type)?);
        encoded(&value, statistics_type(sql_type), &columns.columns()[0])
    };
    let keys = match part.test {
        PartTest::Null { negated: false } => Keys::Null,
        PartTest::Null { negated: true } => Keys::NotNull,
        PartTest::In(items) => Keys::Values(items.iter().map(key).collect::<Option<_>>()?),
        PartTest::Compared(operator, constant) => {
            let key = key(constant)?;
            match operator {
                ComparisonOperator::Equal => Keys::Values(vec![key]),
                ComparisonOperator::NotEqual => Keys::Not(key),
                ComparisonOperator::Less => Keys::Range(None, Some((key, false))),
                ComparisonOperator::LessOrEqual => Keys::Range(None, Some((key, true))),
                ComparisonOperator::Greater => Keys::Range(Some((key, false)), None),
                ComparisonOperator::GreaterOrEqual => Keys::Range(Some((key, true)), None),
            }
        }
    };
    Some((place, keys))
}

/// The conditions on columns, as far as they can be expressed by keys.
fn keys_asked(table: &Table, predicates: &[ColumnPredicate]) -> Vec<(usize, Keys)> {
    let mut found: Vec<(usize, Keys)> = Vec::new();
    for predicate in predicates {
        let of_column = statistics_columns(table, &[predicate.column]);
        let (Some(columns), Some(definition)) = (of_column, table.columns.get(predicate.column)) else { continue };
        if predicate.collation.is_some_and(|by| Some(by) != definition.collation) {
            continue;
        }
        let key = |value: &Comparand| encoded(value, statistics_type(definition.sql_type), &columns.columns()[0]);
        let end = |limit: &Option<(Comparand, bool)>| match limit {
            None => Some(None),
            Some((value, is_in)) => key(value).map(|key| Some((key, *is_in))),
        };
        let keys = match &predicate.test {
            Test::Equal(values) => values.iter().map(key).collect::<Option<_>>().map(Keys::Values),
            Test::Range { low, high } => end(low).zip(end(high)).map(|(low, high)| Keys::Range(low, high)),
            Test::Null => Some(Keys::Null),
            Test::Never => None,
        };
        if let Some(keys) = keys {
            add_keys(&mut found, predicate.column, keys);
        }
    }
    found
}

/// The more restrictive of two ends; `is_closer` compares keys.
fn tighter(one: Option<End>, other: Option<End>, is_closer: fn(&[u8], &[u8]) -> bool) -> Option<End> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let takes_other = is_closer(&other.0, &one.0) || (other.0 == one.0 && !other.1);
            Some(if takes_other { other } else { one })
        }
        (one, other) => one.or(other),
    }
}

/// Adds a condition. Further ends of a range narrow the range already found.
fn add_keys(found: &mut Vec<(usize, Keys)>, column: usize, keys: Keys) {
    let is_range = |(known, keys): &&mut (usize, Keys)| *known == column && matches!(keys, Keys::Range(..));
    match (keys, found.iter_mut().find(is_range)) {
        (Keys::Range(low, high), Some((_, Keys::Range(known_low, known_high)))) => {
            *known_low = tighter(known_low.take(), low, |one, other| one > other);
            *known_high = tighter(known_high.take(), high, |one, other| one < other);
        }
        (keys, _) => found.push((column, keys)),
    }
}

impl TableKnowledge<'_> {
    /// The rows that conditions leave, by statistics whose filter follows from them; `None` if there are none. Of
    /// several, the one with the fewest rows is used.
    pub(super) fn rows_filtered(&self, predicates: &[ColumnPredicate], unread: &[&Expr]) -> Option<f64> {
        let filtered: Vec<&Arc<Statistics>> = self.statistics().filter(|each| each.filter.is_some()).collect();
        if filtered.is_empty() {
            return None;
        }
        let asked = keys_asked(self.table(), predicates);
        let usable = |statistics: &&Arc<Statistics>| {
            let text = statistics.filter.as_deref()?;
            let filter = self.heap().remembered().filter(statistics, || Filter::of(self.table(), text))?;
            if !filter.follows(&asked) {
                return None;
            }
            let summary = self.summary_of(statistics);
            let then = statistics.unfiltered_rows.max(1) as f64;
            // They may be as old as their last update, so the fraction of the rows at that time is used.
            let leading = *statistics.columns_in(self.table())?.first()?;
            (summary.rows > 0.0).then(|| (leading, filter, (summary.rows / then).min(1.0), summary))
        };
        let found = filtered.iter().filter_map(usable).min_by(|one, other| one.2.total_cmp(&other.2));
        let (leading, filter, part, summary) = found?;
        let inside = self.given(leading, summary);
        let mut shares = shares_by(unread, &inside);
        shares.extend(inside.shares_inside(predicates, &asked, (leading, &filter)));
        Some(self.rows * part * together_by(self.correlation(), shares))
    }

    /// The shares that conditions leave of the rows inside a filter. `self` knows the leading column of these rows.
    fn shares_inside(
        &self,
        predicates: &[ColumnPredicate],
        asked: &[(usize, Keys)],
        (leading, filter): (usize, &Filter),
    ) -> Vec<f64> {
        let mut columns: Vec<usize> = predicates.iter().map(|predicate| predicate.column).collect();
        columns.sort_unstable();
        columns.dedup();
        let share = |column: usize| {
            let own: Vec<&Test> =
                predicates.iter().filter(|each| each.column == column).map(|each| &each.test).collect();
            let of_filter: Vec<&Keys> =
                filter.parts.iter().filter(|(place, _)| *place == column).map(|(_, keys)| keys).collect();
            let is_whole =
                |(place, keys): &(usize, Keys)| *place != column || of_filter.iter().any(|part| part.implies(keys));
            if of_filter.is_empty() || column == leading {
                return self.selectivity(column, &own);
            }
            // The filter already implies what it says; the remaining conditions are a fraction of it.
            match asked.iter().all(is_whole) {
                true => 1.0,
                false => {
                    let whole = self.share_of_keys(column, &of_filter);
                    (self.selectivity(column, &own) / whole.max(f64::MIN_POSITIVE)).min(1.0)
                }
            }
        };
        columns.into_iter().map(share).collect()
    }

    /// The share of all rows whose value in a column satisfies conditions by keys.
    fn share_of_keys(&self, column: usize, keys: &[&Keys]) -> f64 {
        let Some(summary) = self.summary(column) else { return 1.0 };
        let histogram = &summary.histogram;
        let rows = keys.iter().map(|keys| match keys {
            Keys::Values(values) => values.iter().filter_map(|key| histogram.rows_equal(key)).sum(),
            Keys::Range(low, high) => {
                fn bound(end: &Option<End>) -> Option<Bound<'_>> {
                    end.as_ref().map(|(key, is_in)| (key.as_slice(), *is_in))
                }
                histogram.rows_between(bound(low), bound(high))
            }
            Keys::Not(key) => summary.rows - histogram.nulls() - histogram.rows_equal(key).unwrap_or(0.0),
            Keys::Null => histogram.nulls(),
            Keys::NotNull => summary.rows - histogram.nulls(),
        });
        (rows.fold(summary.rows, f64::min) / summary.rows).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::cardinality::Remembered;

    fn end(key: u8, is_in: bool) -> Option<End> {
        Some((vec![key], is_in))
    }

    #[test]
    fn a_filter_follows_from_what_asks_for_less() {
        let values = |keys: &[u8]| Keys::Values(keys.iter().map(|key| vec![*key]).collect());
        let range = Keys::Range(end(3, true), end(7, false));
        for (asked, filter, follows) in [
            (values(&[3]), values(&[3, 4]), true),
            (values(&[3, 5]), values(&[3, 4]), false),
            (values(&[3, 6]), range.clone(), true),
            (values(&[7]), range.clone(), false),
            (Keys::Range(end(3, true), end(6, true)), range.clone(), true),
            (Keys::Range(end(3, false), end(7, false)), range.clone(), true),
            (Keys::Range(end(3, true), end(7, true)), range.clone(), false),
            (Keys::Range(end(3, true), None), range.clone(), false),
            (range.clone(), Keys::NotNull, true),
            (range.clone(), Keys::Not(vec![9]), true),
            (range.clone(), Keys::Not(vec![4]), false),
            (Keys::Null, Keys::NotNull, false),
            (Keys::Null, Keys::Null, true),
            (Keys::Not(vec![1]), Keys::Not(vec![1]), true),
        ] {
            assert_eq!(asked.implies(&filter), follows, "{asked:?} and {filter:?}");
        }
    }

    #[test]
    fn a_filter_is_read_once_for_each_object() {
        let object = || {
            Arc::new(Statistics {
                table: hobt_base::ObjectId(1),
                id: 7,
                name: "s".to_owned(),
                origin: hobt_catalog::StatisticsOrigin::User,
                columns: vec![1],
                filter: Some("a = 1".to_owned()),
                is_incremental: false,
                no_recompute: false,
                auto_drop: false,
                updated: None,
                unfiltered_rows: 0,
                modified: 0,
                sample_millionths: 0,
                parts: Vec::new(),
            })
        };
        let (remembered, read) = (Remembered::default(), Cell::new(0));
        let (one, other) = (object(), object());
        for (statistics, times) in [(&one, 1), (&one, 1), (&other, 2), (&other, 2)] {
            let filter = remembered.filter(statistics, || {
                read.set(read.get() + 1);
                Some(Filter { parts: vec![(0, Keys::Null)] })
            });
            assert!(filter.is_some_and(|filter| filter.follows(&[(0, Keys::Null)])));
            assert_eq!(read.get(), times);
        }
    }

    #[test]
    fn of_two_ends_the_one_counts_that_leaves_less() {
        let mut found = Vec::new();
        for (low, high) in [(end(5, false), None), (end(9, true), end(20, true)), (end(9, false), end(30, true))] {
            add_keys(&mut found, 0, Keys::Range(low, high));
        }
        let [(0, Keys::Range(low, high))] = &found[..] else { panic!("one range: {found:?}") };
        assert_eq!((low, high), (&end(9, false), &end(20, true)));
    }
}
