//! The loops under the operators: two operands, one result, no branch per value.
//!
//! For each pair a kernel returns its result and whether it failed. The loop ORs the failures. Only if there is one, a
//! second pass checks whether a row that is not NULL caused it: the bytes under a NULL never raise an error.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use hobt_base::SqlError;

use crate::column::Column;

/// One operand's values: one per row, or one for all rows.
#[derive(Clone, Copy)]
pub(super) enum Operand<'a, N> {
    Rows(&'a [N]),
    One(N),
}

impl<N: Copy> Operand<'_, N> {
    fn at(self, row: usize) -> N {
        match self {
            Operand::Rows(values) => values[row],
            Operand::One(value) => value,
        }
    }
}

/// The values of `column` as `T`.
pub(super) fn operand<T: ArrowPrimitiveType>(column: &Column) -> Result<Operand<'_, T::Native>, SqlError> {
    let array = column.array().as_primitive_opt::<T>().ok_or_else(|| {
        SqlError::internal(format!(
            "an operand of {} stands where {} is expected",
            column.array().data_type(),
            T::DATA_TYPE
        ))
    })?;
    Ok(match column {
        Column::Array(_) => Operand::Rows(array.values()),
        Column::Scalar(_) => Operand::One(array.value(0)),
    })
}

/// The NULLs of a result: NULL where either operand is NULL. Callers handle constants that are NULL before.
pub(super) fn nulls(left: &Column, right: &Column) -> Option<NullBuffer> {
    let of = |column: &Column| if column.is_scalar() { None } else { column.array().nulls().cloned() };
    NullBuffer::union(of(left).as_ref(), of(right).as_ref())
}

/// Applies `kernel` to every pair. Returns `error` if it failed for a row that is not NULL.
pub(crate) fn zip<T: ArrowPrimitiveType, K>(
    left: &Column,
    right: &Column,
    rows: usize,
    kernel: K,
    error: impl Fn() -> SqlError,
) -> Result<PrimitiveArray<T>, SqlError>
where
    K: Fn(T::Native, T::Native) -> (T::Native, bool),
{
    let (a, b) = (operand::<T>(left)?, operand::<T>(right)?);
    let nulls = nulls(left, right);
    let mut failed = false;
    let mut keep = |(value, fails): (T::Native, bool)| {
        failed |= fails;
        value
    };
    let values: Vec<T::Native> = match (a, b) {
        (Operand::Rows(a), Operand::Rows(b)) => a.iter().zip(b).map(|(a, b)| keep(kernel(*a, *b))).collect(),
        (Operand::Rows(a), Operand::One(b)) => a.iter().map(|a| keep(kernel(*a, b))).collect(),
        (Operand::One(a), Operand::Rows(b)) => b.iter().map(|b| keep(kernel(a, *b))).collect(),
        (Operand::One(a), Operand::One(b)) => vec![keep(kernel(a, b)); rows],
    };
    if failed {
        let valid = |row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        if (0..values.len()).any(|row| valid(row) && kernel(a.at(row), b.at(row)).1) {
            return Err(error());
        }
    }
    Ok(PrimitiveArray::new(ScalarBuffer::from(values), nulls))
}

/// Like [`zip`], for one operand.
pub(super) fn map<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    kernel: impl Fn(T::Native) -> (T::Native, bool),
    error: impl Fn() -> SqlError,
) -> Result<PrimitiveArray<T>, SqlError> {
    let column = Column::Array(ArrayRef::clone(array));
    zip::<T, _>(&column, &column, array.len(), |a, _| kernel(a), error)
}
