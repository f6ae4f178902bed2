//! `SUM` and `AVG`.
//!
//! Exact numbers are added in 128 bits and checked against the result's type at the end, so the order of rows does not
//! decide whether a sum overflows. Floats are added in 64 bits.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array,
    PrimitiveArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt8Type};
use hobt_base::SqlError;
use hobt_types::{SqlType, one_zero};

use super::groups::Groups;
use super::{Aggregate, AggregateKind, Emit, GroupsAccumulator, argument, each_row};
use crate::arithmetic::money_limit;
use crate::carrier::not_the_carrier;
use crate::decimal::{divide_wide, fits};
use crate::error::{from_arrow, overflow};

/// Runs `$body` with `$values` as the typed array of an exact number's carrier.
macro_rules! with_exact {
    ($array:expr, $sql_type:expr, $values:ident, $body:expr) => {
        match $sql_type {
            SqlType::Bit | SqlType::TinyInt => {
                let $values = typed::<UInt8Type>($array, $sql_type)?;
                $body
            }
            SqlType::SmallInt => {
                let $values = typed::<Int16Type>($array, $sql_type)?;
                $body
            }
            SqlType::Int => {
                let $values = typed::<Int32Type>($array, $sql_type)?;
                $body
            }
            SqlType::BigInt => {
                let $values = typed::<Int64Type>($array, $sql_type)?;
                $body
            }
            _ => {
                let $values = typed::<Decimal128Type>($array, $sql_type)?;
                $body
            }
        }
    };
}

fn typed<T: ArrowPrimitiveType>(array: &ArrayRef, sql_type: SqlType) -> Result<&PrimitiveArray<T>, SqlError> {
    array.as_primitive_opt::<T>().ok_or_else(|| not_the_carrier(array, sql_type))
}

/// The sum of a whole array in 128 bits; `None` on overflow. Integers of up to 32 bits are added in 64 bits, which a
/// batch of 2³¹ of them cannot overflow. 64-bit integers are added in two halves, which compilers vectorise.
trait WholeSum {
    fn whole_sum(&self) -> Option<i128>;
}

macro_rules! narrow_sum {
    ($($arrow:ty),*) => {$(
        impl WholeSum for PrimitiveArray<$arrow> {
            fn whole_sum(&self) -> Option<i128> {
                Some(i128::from(match self.nulls() {
                    None => self.values().iter().map(|value| i64::from(*value)).sum::<i64>(),
                    Some(nulls) => self
                        .values()
                        .iter()
                        .zip(nulls.iter())
                        .map(|(value, valid)| i64::from(*value) * i64::from(valid))
                        .sum::<i64>(),
                }))
            }
        }
    )*};
}

narrow_sum!(UInt8Type, Int16Type, Int32Type);

impl WholeSum for PrimitiveArray<Int64Type> {
    fn whole_sum(&self) -> Option<i128> {
        // The low halves are unsigned and the high halves signed; neither overflows below 2^31 rows.
        let halves = |(low, high): (u64, i64), value: i64| (low + (value as u64 & 0xFFFF_FFFF), high + (value >> 32));
        let (low, high) = match self.nulls() {
            None => self.values().iter().copied().fold((0, 0), halves),
            Some(nulls) => {
                let value = |(value, valid): (&i64, bool)| *value & -i64::from(valid);
                self.values().iter().zip(nulls.iter()).map(value).fold((0, 0), halves)
            }
        };
        Some((i128::from(high) << 32) + i128::from(low))
    }
}

impl WholeSum for PrimitiveArray<Decimal128Type> {
    fn whole_sum(&self) -> Option<i128> {
        match self.nulls() {
            None => self.values().iter().try_fold(0i128, |sum, value| sum.checked_add(*value)),
            Some(_) => self.iter().flatten().try_fold(0i128, |sum, value| sum.checked_add(value)),
        }
    }
}

/// Adds each row that counts to its group. Returns whether a sum overflowed 128 bits.
fn add_rows<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    (sums, counts): (&mut [i128], &mut [i64]),
    groups: &[usize],
    filter: Option<&BooleanArray>,
) -> bool
where
    i128: From<T::Native>,
{
    let numbers = values.values();
    let mut overflowed = false;
    each_row(groups, filter, values.nulls(), |row, group| {
        let (sum, over) = sums[group].overflowing_add(i128::from(numbers[row]));
        sums[group] = sum;
        overflowed |= over;
        counts[group] += 1;
    });
    overflowed
}

/// Sums of exact numbers.
pub(super) struct ExactSum {
    aggregate: Aggregate,
    sums: Groups<i128>,
    counts: Groups<i64>,
}

impl ExactSum {
    pub(super) fn new(aggregate: Aggregate) -> ExactSum {
        ExactSum { aggregate, sums: Groups::default(), counts: Groups::default() }
    }

    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups);
        self.counts.resize(groups);
    }

    /// The result of one group that has rows.
    fn finish(&self, sum: i128, count: i64) -> Result<i128, SqlError> {
        let too_large = || overflow(self.aggregate.result);
        if self.aggregate.kind == AggregateKind::Sum {
            return Ok(sum);
        }
        let up = self.aggregate.result.scale().saturating_sub(self.aggregate.input.scale());
        divide_wide(sum, i128::from(count), up).ok_or_else(too_large)
    }
}

impl GroupsAccumulator for ExactSum {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.resize(total_groups);
        let array = argument(values)?;
        let states = (self.sums.as_mut_slice(), self.counts.as_mut_slice());
        let overflowed = with_exact!(array, self.aggregate.input, typed, add_rows(typed, states, groups, filter));
        if overflowed { Err(overflow(self.aggregate.result)) } else { Ok(()) }
    }

    fn update_all(&mut self, values: &[ArrayRef]) -> Result<(), SqlError> {
        self.resize(1);
        let array = argument(values)?;
        let sum = with_exact!(array, self.aggregate.input, typed, typed.whole_sum());
        let total = sum.and_then(|sum| self.sums.get(0).checked_add(sum));
        self.sums.as_mut_slice()[0] = total.ok_or_else(|| overflow(self.aggregate.result))?;
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
        self.resize(total_groups);
        let [sums, counts] = states else {
            return Err(SqlError::internal("a sum's state has two columns"));
        };
        let partial_sums = typed::<Decimal128Type>(sums, self.aggregate.result)?;
        let partial_counts = typed::<Int64Type>(counts, SqlType::BigInt)?;
        let (totals, rows) = (self.sums.as_mut_slice(), self.counts.as_mut_slice());
        let mut overflowed = false;
        each_row(groups, filter, sums.nulls(), |row, group| {
            let (sum, over) = totals[group].overflowing_add(partial_sums.value(row));
            totals[group] = sum;
            overflowed |= over;
            rows[group] += partial_counts.value(row);
        });
        if overflowed { Err(overflow(self.aggregate.result)) } else { Ok(()) }
    }

    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError> {
        let sums = self.sums.take(emit);
        let counts = self.counts.take(emit);
        let too_large = || overflow(self.aggregate.result);
        let results: Result<Vec<Option<i128>>, SqlError> = sums
            .into_iter()
            .zip(counts)
            .map(|(sum, count)| if count == 0 { Ok(None) } else { self.finish(sum, count).map(Some) })
            .collect();
        let results = results?;
        Ok(match self.aggregate.result {
            SqlType::Int => {
                let narrow = |value: Option<i128>| value.map(i32::try_from).transpose().map_err(|_| too_large());
                Arc::new(results.into_iter().map(narrow).collect::<Result<Int32Array, _>>()?)
            }
            SqlType::BigInt => {
                let narrow = |value: Option<i128>| value.map(i64::try_from).transpose().map_err(|_| too_large());
                Arc::new(results.into_iter().map(narrow).collect::<Result<Int64Array, _>>()?)
            }
            result => {
                let ((precision, scale), limit) = match result {
                    SqlType::Decimal { precision, scale } => ((precision, scale), None),
                    _ => {
                        let (limit, shape) = money_limit(result);
                        (shape, Some(limit))
                    }
                };
                let good = |value: i128| match limit {
                    None => fits(value, precision),
                    Some(limit) => value <= limit && value >= -limit - 1,
                };
                if !results.iter().flatten().all(|value| good(*value)) {
                    return Err(too_large());
                }
                let array = Decimal128Array::from(results).with_precision_and_scale(precision, scale as i8);
                Arc::new(array.map_err(from_arrow)?)
            }
        })
    }

    fn state(&mut self, emit: Emit) -> Result<Vec<ArrayRef>, SqlError> {
        let sums = Decimal128Array::from(self.sums.take(emit)).with_precision_and_scale(38, 0);
        let counts = Int64Array::from(self.counts.take(emit));
        Ok(vec![Arc::new(sums.map_err(from_arrow)?), Arc::new(counts)])
    }

    fn size(&self) -> usize {
        self.sums.size() + self.counts.size()
    }
}

/// Sums of floats.
pub(super) struct FloatSum {
    aggregate: Aggregate,
    sums: Groups<f64>,
    counts: Groups<i64>,
}

impl FloatSum {
    pub(super) fn new(aggregate: Aggregate) -> FloatSum {
        FloatSum { aggregate, sums: Groups::default(), counts: Groups::default() }
    }

    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups);
        self.counts.resize(groups);
    }

    fn wide(&self, array: &ArrayRef) -> Result<PrimitiveArray<Float64Type>, SqlError> {
        if let Some(narrow) = array.as_primitive_opt::<Float32Type>() {
            return Ok(narrow.unary(f64::from));
        }
        typed::<Float64Type>(array, self.aggregate.input).cloned()
    }
}

impl GroupsAccumulator for FloatSum {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.resize(total_groups);
        let wide = self.wide(argument(values)?)?;
        let (sums, counts) = (self.sums.as_mut_slice(), self.counts.as_mut_slice());
        each_row(groups, filter, wide.nulls(), |row, group| {
            sums[group] += wide.value(row);
            counts[group] += 1;
        });
        Ok(())
    }

    fn update_all(&mut self, values: &[ArrayRef]) -> Result<(), SqlError> {
        self.resize(1);
        let wide = self.wide(argument(values)?)?;
        self.sums.as_mut_slice()[0] += arrow::compute::sum(&wide).unwrap_or(0.0);
        self.counts.as_mut_slice()[0] += i64::try_from(wide.len() - wide.null_count()).unwrap_or(i64::MAX);
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.resize(total_groups);
        let [sums, counts] = states else {
            return Err(SqlError::internal("a sum's state has two columns"));
        };
        let sums = typed::<Float64Type>(sums, SqlType::Float)?;
        let counts = typed::<Int64Type>(counts, SqlType::BigInt)?;
        let (totals, rows) = (self.sums.as_mut_slice(), self.counts.as_mut_slice());
        each_row(groups, filter, sums.nulls(), |row, group| {
            totals[group] += sums.value(row);
            rows[group] += counts.value(row);
        });
        Ok(())
    }

    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError> {
        let mut sums = self.sums.take(emit);
        let counts = self.counts.take(emit);
        if self.aggregate.kind == AggregateKind::Avg {
            let mean = |sum: f64, count: i64| one_zero(sum / count.max(1) as f64);
            sums.iter_mut().zip(&counts).for_each(|(sum, count)| *sum = mean(*sum, *count));
        }
        if sums.iter().any(|sum| !sum.is_finite()) {
            return Err(overflow(self.aggregate.result));
        }
        let nulls: NullBuffer = counts.iter().map(|count| *count > 0).collect();
        Ok(Arc::new(Float64Array::new(sums.into(), Some(nulls))))
    }

    fn state(&mut self, emit: Emit) -> Result<Vec<ArrayRef>, SqlError> {
        let sums = Float64Array::from(self.sums.take(emit));
        Ok(vec![Arc::new(sums), Arc::new(Int64Array::from(self.counts.take(emit)))])
    }

    fn size(&self) -> usize {
        self.sums.size() + self.counts.size()
    }
}
