//! What was computed for the estimates of one statement: the optimiser asks the same several times over.

use std::fmt;
use std::sync::Arc;

use datafusion::logical_expr::Expr;
use hobt_types::statistics::{Overlap, Summary};
use parking_lot::Mutex;

use super::relation::ColumnRows;
use super::sampled::ShareOfValues;

/// Answers by what was known of a column, and what was asked of it.
type Answers<T> = Mutex<Vec<(Arc<Summary>, Expr, Option<T>)>>;

/// How the values of two columns meet, by what was known of them.
type Overlaps = Mutex<Vec<(Arc<Summary>, Arc<Summary>, Overlap)>>;

/// What was computed of a table's columns.
#[derive(Default)]
pub(crate) struct Remembered {
    shares: Answers<ShareOfValues>,
    made: Answers<ColumnRows>,
    overlaps: Overlaps,
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
    /// What a condition leaves of a column.
    pub(super) fn share(
        &self,
        asked: (&Arc<Summary>, &Expr),
        compute: impl FnOnce() -> Option<ShareOfValues>,
    ) -> Option<ShareOfValues> {
        answer(&self.shares, asked, compute)
    }

    /// What an expression makes of a column.
    pub(super) fn made(
        &self,
        asked: (&Arc<Summary>, &Expr),
        compute: impl FnOnce() -> Option<ColumnRows>,
    ) -> Option<ColumnRows> {
        answer(&self.made, asked, compute)
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
