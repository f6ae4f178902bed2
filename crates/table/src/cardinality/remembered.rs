//! Cached results of the estimates of one statement, since the optimiser asks for the same ones several times.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::logical_expr::Expr;
use hobt_catalog::Statistics;
use hobt_instruments::schedule::Mutex;
use hobt_types::statistics::{Overlap, Summary};

use super::filtered::Filter;
use super::relation::ColumnRows;
use super::sampled::ShareOfValues;

/// Results, by the summary of a column and the expression that was asked for.
type Answers<T> = Mutex<Vec<(Arc<Summary>, Expr, Option<T>)>>;

/// How the values of two columns meet, by their summaries.
type Overlaps = Mutex<Vec<(Arc<Summary>, Arc<Summary>, Overlap)>>;

/// The filters of statistics objects, by their ids; `None` for a filter that cannot be read.
type Filters = Mutex<HashMap<i32, (Arc<Statistics>, Option<Arc<Filter>>)>>;

/// Cached results for a table's columns.
#[derive(Default)]
pub(crate) struct Remembered {
    shares: Answers<ShareOfValues>,
    made: Answers<ColumnRows>,
    overlaps: Overlaps,
    filters: Filters,
}

impl fmt::Debug for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remembered").finish_non_exhaustive()
    }
}

fn answer<T: Clone>(
    answers: &Answers<T>,
    (summary, expr): (&Arc<Summary>, &Expr),
    compute: impl FnOnce() -> Option<T>,
) -> Option<T> {
    let is_it = |(known, asked, _): &&(Arc<Summary>, Expr, Option<T>)| Arc::ptr_eq(known, summary) && asked == expr;
    if let Some((.., found)) = answers.lock().iter().find(is_it) {
        return found.clone();
    }
    let found = compute();
    answers.lock().push((Arc::clone(summary), expr.clone(), found.clone()));
    found
}

impl Remembered {
    /// The share of a column's rows for which a condition is true.
    pub(super) fn share(
        &self,
        asked: (&Arc<Summary>, &Expr),
        compute: impl FnOnce() -> Option<ShareOfValues>,
    ) -> Option<ShareOfValues> {
        answer(&self.shares, asked, compute)
    }

    /// What is known of the values of an expression over a column.
    pub(super) fn made(
        &self,
        asked: (&Arc<Summary>, &Expr),
        compute: impl FnOnce() -> Option<ColumnRows>,
    ) -> Option<ColumnRows> {
        answer(&self.made, asked, compute)
    }

    /// The filter of a statistics object. If another object has been created with the same id, its own filter is read.
    pub(super) fn filter(
        &self,
        statistics: &Arc<Statistics>,
        read: impl FnOnce() -> Option<Filter>,
    ) -> Option<Arc<Filter>> {
        let mut filters = self.filters.lock();
        let known = filters.get(&statistics.id).filter(|(known, _)| Arc::ptr_eq(known, statistics));
        if let Some((_, filter)) = known {
            return filter.clone();
        }
        let filter = read().map(Arc::new);
        filters.insert(statistics.id, (Arc::clone(statistics), filter.clone()));
        filter
    }

    /// How the values of two columns meet.
    pub(super) fn overlap(
        &self,
        left: &Arc<Summary>,
        right: &Arc<Summary>,
        compute: impl FnOnce() -> Overlap,
    ) -> Overlap {
        let is_it = |(one, other, _): &&(Arc<Summary>, Arc<Summary>, Overlap)| {
            Arc::ptr_eq(one, left) && Arc::ptr_eq(other, right)
        };
        if let Some((.., found)) = self.overlaps.lock().iter().find(is_it) {
            return *found;
        }
        let found = compute();
        self.overlaps.lock().push((Arc::clone(left), Arc::clone(right), found));
        found
    }
}
