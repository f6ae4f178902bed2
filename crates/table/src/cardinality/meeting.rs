//! How the values of two tables' columns meet, by their histograms: whether the values of one occur in the other, and
//! how often frequent values meet.

use std::sync::Arc;

use hobt_engine::statistics_type;
use hobt_types::statistics::{Summary, overlap, pairs_below};

use super::references::Ends;
use super::relation::ColumnRows;
use super::table::{TableKnowledge, is_cut};
use super::wanted::WantedColumn;

/// The result of an equation between two columns over their whole tables.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Meeting {
    /// The share of all pairs of rows, NULLs excluded, that are equal. Conditions on other columns do not change it.
    pairs: f64,
    /// For the left side: the share of its rows whose value occurs on the right side, and the number of distinct values
    /// of the right side.
    left: (f64, f64),
    /// For the right side, as `left`.
    right: (f64, f64),
}

impl Meeting {
    /// For each equation between columns, how their values meet. `None` if one column has no histogram, or one with
    /// truncated values, or if the keys of the two are not comparable.
    pub fn of_all(ends: &[Ends]) -> Vec<Option<Meeting>> {
        ends.iter().map(|ends| ends.as_ref().and_then(|(left, right)| Meeting::of(left, right))).collect()
    }

    fn of(left: &WantedColumn, right: &WantedColumn) -> Option<Meeting> {
        let heap = left.heap();
        let ((left, left_rows), (right, right_rows)) = histograms_of(left, right)?;
        let compute = || overlap(&left.histogram, &right.histogram);
        let found = heap.remembered().overlap(&left, &right, compute);
        Some(Meeting {
            pairs: found.pairs / (left_rows * right_rows),
            left: ((found.left / left_rows).min(1.0), right.distinct(1).max(1.0)),
            right: ((found.right / right_rows).min(1.0), left.distinct(1).max(1.0)),
        })
    }

    /// This meeting for the equation with its sides exchanged.
    pub fn turned(self) -> Meeting {
        Meeting { left: self.right, right: self.left, ..self }
    }

    /// The share of all pairs of rows, NULLs excluded, that are equal.
    pub(super) fn pairs(self) -> f64 {
        self.pairs
    }

    /// The share of the rows of the left side, or with `is_turned` of the right side, whose value occurs on the other
    /// side. `theirs` says how many distinct values of the other side are left.
    pub(super) fn found(self, is_turned: bool, theirs: &ColumnRows) -> f64 {
        let (share, whole) = if is_turned { self.right } else { self.left };
        share * (theirs.distinct / whole).min(1.0)
    }
}

/// The share of all pairs of rows, NULLs excluded, whose left value is below the right one, or with `inclusive` not
/// above it.
pub(super) fn share_below(left: &WantedColumn, right: &WantedColumn, inclusive: bool) -> Option<f64> {
    let ((left, left_rows), (right, right_rows)) = histograms_of(left, right)?;
    Some((pairs_below(&left.histogram, &right.histogram, inclusive) / (left_rows * right_rows)).clamp(0.0, 1.0))
}

/// What is known of one column, and the number of its rows that are not NULL.
type Known = (Arc<Summary>, f64);

/// What is known of two columns; `None` unless their keys are comparable and both histograms have whole values.
fn histograms_of(left: &WantedColumn, right: &WantedColumn) -> Option<(Known, Known)> {
    let column = |end: &WantedColumn| {
        let column = end.heap().table().columns.get(end.column)?;
        Some((statistics_type(column.sql_type), column.collation))
    };
    let ((left_type, left_collation), (right_type, right_collation)) = (column(left)?, column(right)?);
    let is_alike = left_type == right_type || (left_type.is_text() && right_type.is_text());
    if !is_alike || left_collation != right_collation {
        return None;
    }
    let known = |end: &WantedColumn| {
        let summary = TableKnowledge::whole(end.heap()).summary(end.column)?;
        let rows = summary.rows - summary.histogram.nulls();
        let is_whole = !summary.histogram.steps().iter().any(is_cut);
        (rows > 0.0 && is_whole).then_some((summary, rows))
    };
    Some((known(left)?, known(right)?))
}
