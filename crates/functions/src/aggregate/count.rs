//! `COUNT`, `COUNT_BIG` and `CHECKSUM_AGG`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array};
use arrow::datatypes::{Int32Type, Int64Type};
use hobt_base::SqlError;
use hobt_types::SqlType;

use super::groups::Groups;
use super::{Emit, GroupsAccumulator, argument, each_row};
use crate::carrier::not_the_carrier;
use crate::error::overflow;

/// Rows that are not NULL.
pub(super) struct Count {
    counts: Groups<i64>,
    result: SqlType,
}

impl Count {
    pub(super) fn new(result: SqlType) -> Count {
        Count { counts: Groups::default(), result }
    }
}

impl GroupsAccumulator for Count {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.counts.resize(total_groups);
        let counts = self.counts.as_mut_slice();
        each_row(groups, filter, argument(values)?.nulls(), |_, group| counts[group] += 1);
        Ok(())
    }

    fn update_all(&mut self, values: &[ArrayRef]) -> Result<(), SqlError> {
        let array = argument(values)?;
        self.counts.resize(1);
        self.counts.as_mut_slice()[0] += i64::try_from(array.len() - array.null_count()).unwrap_or(i64::MAX);
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.counts.resize(total_groups);
        let array = argument(states)?;
        let partial = array.as_primitive_opt::<Int64Type>().ok_or_else(|| not_the_carrier(array, SqlType::BigInt))?;
        let counts = self.counts.as_mut_slice();
        each_row(groups, filter, array.nulls(), |row, group| counts[group] += partial.value(row));
        Ok(())
    }

    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError> {
        let counts = self.counts.take(emit);
        if self.result == SqlType::BigInt {
            return Ok(Arc::new(Int64Array::from(counts)));
        }
        let narrow: Result<Vec<i32>, _> = counts.into_iter().map(i32::try_from).collect();
        Ok(Arc::new(Int32Array::from(narrow.map_err(|_| overflow(SqlType::Int))?)))
    }

    fn state(&mut self, emit: Emit) -> Result<Vec<ArrayRef>, SqlError> {
        Ok(vec![Arc::new(Int64Array::from(self.counts.take(emit)))])
    }

    fn size(&self) -> usize {
        self.counts.size()
    }
}

/// The exclusive or of the values as `int`; NULL if there are no rows.
#[derive(Default)]
pub(super) struct ChecksumAgg {
    sums: Groups<Option<i32>>,
}

impl GroupsAccumulator for ChecksumAgg {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.sums.resize(total_groups);
        let array = argument(values)?;
        // The low 32 bits of a bigint; narrower integers are widened.
        let wide = arrow::compute::cast(array, &arrow::datatypes::DataType::Int64).map_err(crate::error::from_arrow)?;
        let wide = wide.as_primitive::<Int64Type>();
        let sums = self.sums.as_mut_slice();
        each_row(groups, filter, array.nulls(), |row, group| {
            *sums[group].get_or_insert(0) ^= wide.value(row) as i32;
        });
        Ok(())
    }

    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError> {
        let sums: arrow::array::PrimitiveArray<Int32Type> = self.sums.take(emit).into_iter().collect();
        Ok(Arc::new(sums))
    }

    fn size(&self) -> usize {
        self.sums.size()
    }
}
