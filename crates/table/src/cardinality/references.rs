//! Equations that follow a foreign key. Each row of the referencing side has one partner among all rows of the
//! referenced table, however many columns the key has and whatever the histograms of the columns are.

use std::sync::Arc;

use datafusion::logical_expr::{Expr, LogicalPlan};
use hobt_catalog::ForeignKey;

use super::same_values::same_value;
use super::table::TableKnowledge;
use super::wanted::{WantedColumn, origin};
use crate::TableRead;

/// Marks an equation as one of the equations of a foreign key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reference {
    /// The share of all pairs of rows that are equal, NULLs excluded. One of the key's equations carries the whole
    /// share, the others carry 1.
    pub(crate) share: f64,
    /// Whether the left side is the referencing one.
    pub(crate) is_from_left: bool,
}

impl Reference {
    /// This reference for the equation with its sides exchanged.
    pub fn turned(self) -> Reference {
        Reference { is_from_left: !self.is_from_left, ..self }
    }
}

/// The table columns that the two sides of an equation compare. `None` unless both sides are table columns.
pub(crate) type Ends = Option<(Arc<WantedColumn>, Arc<WantedColumn>)>;

/// For each equation between two plans, the columns that it compares.
pub fn ends_of(equations: &[(&Expr, &Expr)], left: &LogicalPlan, right: &LogicalPlan) -> Vec<Ends> {
    let of = |plan, expr| same_value(expr).and_then(|column| origin(plan, column, same_value)).map(Arc::new);
    equations.iter().map(|(one, other)| of(left, one).zip(of(right, other))).collect()
}

/// For each equation, a number that identifies the two tables whose columns it compares; 0 if they are not known.
pub fn sources_of(ends: &[Ends]) -> Vec<u64> {
    let id = |end: &WantedColumn| u64::from(end.heap().table().id.0.cast_unsigned());
    ends.iter().map(|ends| ends.as_ref().map_or(0, |(left, right)| id(left) << 32 | id(right))).collect()
}

/// For each equation between two sides, the foreign key that it belongs to. All columns of a key must be compared. Keys
/// that are disabled or not trusted do not count, since their rows may lack partners.
pub fn references_between(ends: &[Ends]) -> Vec<Option<Reference>> {
    let mut found = vec![None; ends.len()];
    for is_from_left in [true, false] {
        let ends: Vec<Option<(&WantedColumn, &WantedColumn)>> = ends
            .iter()
            .map(|ends| ends.as_ref().map(|(one, other)| (&**one, &**other)))
            .map(|ends| ends.map(|(one, other)| if is_from_left { (one, other) } else { (other, one) }))
            .collect();
        for (from, to) in ends.iter().flatten().map(|(from, to)| (from.heap(), to.heap())) {
            if from.database().id() != to.database().id() {
                continue;
            }
            let is_known = |key: &&ForeignKey| {
                key.referenced == to.table().id && !key.head.is_disabled && !key.head.is_not_trusted
            };
            for key in from.table().constraints.foreign_keys.iter().filter(is_known) {
                let Some(places) = equations_of(key, &ends, (from, to)) else { continue };
                if places.iter().any(|place| found[*place].is_some()) {
                    continue;
                }
                let share = 1.0 / TableKnowledge::whole(to).rows.max(1.0);
                for (place, share) in places.into_iter().zip([share].into_iter().chain(std::iter::repeat(1.0))) {
                    found[place] = Some(Reference { share, is_from_left });
                }
            }
        }
    }
    found
}

/// The equations that compare a foreign key's columns with the referenced columns; `None` if not all columns are
/// compared.
fn equations_of(
    key: &ForeignKey,
    ends: &[Option<(&WantedColumn, &WantedColumn)>],
    (from, to): (&TableRead, &TableRead),
) -> Option<Vec<usize>> {
    let is_of = |end: &WantedColumn, heap: &TableRead, id: i32| {
        let of_table = Some(end.heap()).filter(|known| known.table().id == heap.table().id);
        of_table.is_some_and(|known| known.table().columns[end.column].id == id)
    };
    let place = |(own, referenced): (&i32, &i32)| {
        ends.iter()
            .position(|ends| ends.is_some_and(|(one, other)| is_of(one, from, *own) && is_of(other, to, *referenced)))
    };
    key.columns.iter().zip(&key.referenced_columns).map(place).collect()
}
