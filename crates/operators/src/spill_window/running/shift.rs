//! `LAG` and `LEAD`: the values of rows before and behind.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::zip::zip;
use arrow::compute::{concat, nullif, take};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::PartitionEvaluator;

use super::super::light::alone;

/// How far away the row of a value may be: so many rows are kept in memory.
const OFFSET_MAX: usize = 1024;

/// Gives each row the value of the row `offset` before or behind it in its partition.
pub(super) struct Shift {
    offset: usize,
    /// For rows with fewer rows before or behind them.
    default: ScalarValue,
    side: Side,
}

enum Side {
    Before {
        /// The last `offset` values, also of partitions before.
        kept: ArrayRef,
        /// How many rows of the partition have come.
        come: usize,
    },
    Behind,
}

impl Shift {
    /// The function that evaluators of DataFusion are over values of a type; `None` if it ignores NULLs or looks far.
    /// Its name does not tell: where rows come in the opposite order, `LAG` looks behind. So it is asked what it does.
    pub(super) fn of(
        evaluator: impl Fn() -> Result<Box<dyn PartitionEvaluator>>,
        data_type: &DataType,
    ) -> Result<Option<Shift>> {
        // A row with as many rows before it as behind it. The rows that it asks for begin or end with its value, or are
        // all on one side of it if it ignores NULLs.
        const ROW: usize = OFFSET_MAX + 1;
        const ROWS: usize = 2 * ROW + 1;
        let range = evaluator()?.get_range(ROW, ROWS)?;
        for at in [range.start, range.end].into_iter().filter(|at| at.abs_diff(ROW) <= OFFSET_MAX) {
            // The only NULL is where its value may be. A default would have another type.
            let values = (0..ROWS).map(|row| if row == at { None } else { Some(true) });
            let values: [ArrayRef; 1] = [Arc::new(values.collect::<BooleanArray>())];
            if evaluator()?.evaluate(&values, &range)? != ScalarValue::Boolean(None) {
                continue;
            }
            let offset = at.abs_diff(ROW);
            let (outermost, side) = match at <= ROW {
                true => (0..1, Side::Before { kept: new_null_array(data_type, offset), come: 0 }),
                false => (ROWS - 1..ROWS, Side::Behind),
            };
            let default = match offset {
                0 => ScalarValue::try_from(data_type)?,
                _ => evaluator()?.evaluate(&values, &outermost)?,
            };
            let is_of_type = default.data_type() == *data_type && !data_type.is_null();
            return Ok(is_of_type.then_some(Shift { offset, default, side }));
        }
        Ok(None)
    }

    /// How many rows behind a row it looks at.
    pub(super) fn rows_behind(&self) -> usize {
        match self.side {
            Side::Before { .. } => 0,
            Side::Behind => self.offset,
        }
    }

    /// The values for the next `rows` rows. `values` are theirs, and those of up to `rows_behind` rows behind them:
    /// fewer only if there are no more. `restarts` tells of all of these whether they are the first of a partition.
    pub(super) fn run(&mut self, values: &ArrayRef, restarts: &[bool], rows: usize) -> Result<ArrayRef> {
        if self.offset == 0 {
            return Ok(Arc::clone(values));
        }
        let (shifted, without) = match &mut self.side {
            Side::Before { kept, come } => {
                let shifted = from_before(kept, values, self.offset)?;
                (shifted, without_before(restarts, self.offset, come))
            }
            Side::Behind => {
                let missing = new_null_array(values.data_type(), rows + self.offset - values.len());
                let shifted = match self.offset < values.len() {
                    true => concat(&[&values.slice(self.offset, values.len() - self.offset), &missing])?,
                    false => missing.slice(0, rows),
                };
                (shifted, without_behind(restarts, self.offset, rows))
            }
        };
        Ok(match without {
            None => shifted,
            Some(without) if self.default.is_null() => nullif(&shifted, &without)?,
            Some(without) => zip(&without, &self.default.to_scalar()?, &shifted)?,
        })
    }

    /// The bytes of the kept values.
    pub(super) fn size(&self) -> usize {
        match &self.side {
            Side::Before { kept, .. } => kept.get_array_memory_size(),
            Side::Behind => 0,
        }
    }
}

/// The values `offset` rows before those of `values`. The last ones are kept for the next rows.
fn from_before(kept: &mut ArrayRef, values: &ArrayRef, offset: usize) -> Result<ArrayRef> {
    let (rows, used) = (values.len(), offset.min(values.len()));
    let shifted = concat(&[&kept.slice(0, used), &values.slice(0, rows - used)])?;
    let last = UInt64Array::from_iter_values((rows - used) as u64..rows as u64);
    let last = take(values, &last, None)?;
    *kept = alone(concat(&[&kept.slice(used, offset - used), &last])?);
    Ok(shifted)
}

/// The rows with fewer than `offset` rows of their partition before them, if there are some. `come` rows have come of
/// the first one's.
fn without_before(restarts: &[bool], offset: usize, come: &mut usize) -> Option<BooleanArray> {
    if *come >= offset && !restarts.contains(&true) {
        return None;
    }
    let without = BooleanBuffer::collect_bool(restarts.len(), |row| {
        if restarts[row] {
            *come = 0;
        }
        let is_without = *come < offset;
        *come += 1;
        is_without
    });
    Some(BooleanArray::new(without, None))
}

/// The first of `rows` rows with fewer than `offset` rows of their partition behind them, if there are some.
fn without_behind(restarts: &[bool], offset: usize, rows: usize) -> Option<BooleanArray> {
    if restarts.len() == rows + offset && !restarts[1..].contains(&true) {
        return None;
    }
    let mut without = vec![false; rows];
    // The end of the partition of the row.
    let mut end = restarts.len();
    for (row, is_first) in restarts.iter().enumerate().rev() {
        if let Some(without) = without.get_mut(row) {
            *without = row + offset >= end;
        }
        if *is_first {
            end = row;
        }
    }
    Some(BooleanArray::from(without))
}
