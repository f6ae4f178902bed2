//! Bounds of a column of the inner table of a join, given by each row of the outer side.
//!
//! As with equations, the rows found are a superset of those that join. A value that the column's type does not have
//! sets no bound, and the join evaluates its conditions again.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::Decimal128Type;
use hobt_base::SqlError;
use hobt_types::{KeyColumn, SqlType};

use super::Ends;
use super::lookup::{JoinedColumn, KeyForm, encode};

/// A bound of a column of the inner table by a value of the outer side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JoinedBound {
    /// The bounded column.
    pub column: JoinedColumn,
    /// Whether it is a lower bound.
    pub is_low: bool,
    /// Whether the bound is inclusive.
    pub includes: bool,
}

/// One of the bounds that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct JoinedEnd {
    /// Its position in the list of bounds.
    at: usize,
    form: KeyForm,
    includes: bool,
}

/// The bounds of a column of a key.
#[derive(Clone, Debug)]
pub(super) struct JoinedEnds {
    sql_type: SqlType,
    key: KeyColumn,
    low: Option<JoinedEnd>,
    high: Option<JoinedEnd>,
}

/// An end of a range as a normalised key, and whether it is inclusive.
type Encoded = Option<(Vec<u8>, bool)>;

impl JoinedEnds {
    /// The first lower and the first upper bound of the column among `bounds`; `None` if there is neither.
    pub(super) fn of(
        sql_type: SqlType,
        key: KeyColumn,
        bounds: &[JoinedBound],
        is_of_column: impl Fn(&JoinedColumn) -> bool,
    ) -> Option<JoinedEnds> {
        let first = |is_low: bool| {
            let mut placed = bounds.iter().enumerate();
            let (at, bound) = placed.find(|(_, bound)| bound.is_low == is_low && is_of_column(&bound.column))?;
            Some(JoinedEnd { at, form: bound.column.form, includes: bound.includes })
        };
        let (low, high) = (first(true), first(false));
        (low.is_some() || high.is_some()).then_some(JoinedEnds { sql_type, key, low, high })
    }

    /// The positions of the used bounds in the list.
    pub(super) fn used(&self) -> impl Iterator<Item = usize> + '_ {
        self.low.iter().chain(&self.high).map(|end| end.at)
    }

    /// The range for one row, whose bounds are in `values`. Where it has no bound, the one of `known`, from conditions,
    /// is used. `None` if the row joins nothing.
    ///
    /// # Errors
    /// If a value is of another type than the column.
    pub(super) fn of_row(
        &self,
        values: &[ArrayRef],
        row: usize,
        known: Option<&Ends>,
    ) -> Result<Option<Ends>, SqlError> {
        if values.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let mut arrays = values.iter();
        let mut next = |end: Option<JoinedEnd>, is_low: bool| match (end, end.and_then(|_| arrays.next())) {
            (Some(end), Some(array)) => self.encoded(end, is_low, array, row),
            _ => Ok(None),
        };
        let (low, high) = (next(self.low, true)?, next(self.high, false)?);
        let (first, last) = if self.key.is_descending() { (high, low) } else { (low, high) };
        let ends = Ends {
            from: first.or_else(|| known.and_then(|known| known.from.clone())),
            to: last.or_else(|| known.and_then(|known| known.to.clone())),
        };
        let is_empty =
            matches!((&ends.from, &ends.to), (Some((from, _)), Some((to, _))) if from > to && !from.starts_with(to));
        Ok((!is_empty).then_some(ends))
    }

    fn encoded(&self, end: JoinedEnd, is_low: bool, array: &ArrayRef, row: usize) -> Result<Encoded, SqlError> {
        let mut bytes = Vec::new();
        if let KeyForm::Scaled(digits) = end.form
            && let Some((rounded, false)) = rounded_down(array, row, digits)
        {
            // A value above the exact bound is above the rounded one; a value below the exact bound is at or below the
            // rounded one.
            let is_there = encode(end.form, self.sql_type, &self.key, &rounded, 0, false, &mut bytes)?;
            return Ok(is_there.then_some((bytes, !is_low)));
        }
        let is_there = encode(end.form, self.sql_type, &self.key, array, row, false, &mut bytes)?;
        Ok(is_there.then_some((bytes, end.includes)))
    }
}

/// A decimal rounded down by its last digits, and whether these were zero.
fn rounded_down(array: &ArrayRef, row: usize, digits: u32) -> Option<(ArrayRef, bool)> {
    let unscaled = array.as_primitive_opt::<Decimal128Type>()?.value(row);
    let unit = 10_i128.checked_pow(digits)?;
    let rounded = unscaled.div_euclid(unit).checked_mul(unit)?;
    let one = arrow::array::Decimal128Array::from(vec![rounded]);
    Some((std::sync::Arc::new(one), rounded == unscaled))
}
