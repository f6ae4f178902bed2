//! `NEXT VALUE FOR` as a column: a value of a sequence for each row.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Decimal128Array, Int16Array, Int32Array, Int64Array, PrimitiveArray, UInt8Array,
};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Int64Type};
use hobt_base::SqlError;
use hobt_functions::carrier;
use hobt_instruments::schedule::Mutex;
use hobt_types::SqlType;

/// Takes the given number of values of a sequence. It passes them on in runs: the first value, and how many there are,
/// one step apart.
pub type TakeValues = Arc<dyn Fn(u64, &mut dyn FnMut(i128, u64)) -> Result<(), SqlError> + Send + Sync>;

/// Consecutive values, one step apart.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The number of the row, from 0, that gets the first value.
    row: u64,
    first: i128,
}

/// The values taken for rows that have numbers.
#[derive(Debug, Default)]
struct Numbered {
    runs: Vec<Run>,
    /// How many rows have their values.
    rows: u64,
}

/// The values of a sequence for one query.
#[derive(Clone)]
pub struct NextValues {
    /// The sequence's name.
    pub name: String,
    /// The type of the values.
    pub result: SqlType,
    /// The sequence's step.
    pub increment: i128,
    /// Takes values of the sequence.
    pub take: TakeValues,
    /// The values by row, if rows are numbered: two workers may meet the rows in any order.
    numbered: Arc<Mutex<Numbered>>,
}

impl fmt::Debug for NextValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextValues").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for NextValues {
    fn eq(&self, other: &NextValues) -> bool {
        Arc::ptr_eq(&self.take, &other.take)
    }
}

impl NextValues {
    /// The values of a sequence.
    pub fn new(name: String, result: SqlType, increment: i128, take: TakeValues) -> NextValues {
        NextValues { name, result, increment, take, numbered: Arc::default() }
    }

    /// A value for each of `rows` rows, in no order.
    ///
    /// # Errors
    /// 11728, and what storage returns.
    pub(super) fn of_rows(&self, rows: usize) -> Result<ArrayRef, SqlError> {
        let mut values = Vec::with_capacity(rows);
        if rows > 0 {
            (self.take)(rows as u64, &mut |first, count| {
                values.extend((0..count).map(|steps| self.value_at(first, steps)));
            })?;
        }
        self.array(values)
    }

    /// A value for each row, in the order of the rows' numbers, which start at 1.
    ///
    /// # Errors
    /// As [`NextValues::of_rows`].
    pub(super) fn of_numbers(&self, numbers: &ArrayRef) -> Result<ArrayRef, SqlError> {
        let numbers =
            numbers.as_primitive_opt::<Int64Type>().ok_or_else(|| SqlError::internal("rows without numbers"))?;
        let row_of = |number: i64| u64::try_from(number - 1).unwrap_or(0);
        let mut numbered = self.numbered.lock();
        let wanted = numbers.values().iter().map(|&number| row_of(number) + 1).max().unwrap_or(0);
        if wanted > numbered.rows {
            let Numbered { runs, rows } = &mut *numbered;
            (self.take)(wanted - *rows, &mut |first, count| {
                let follows = |run: &Run| self.value_at(run.first, *rows - run.row) == first;
                if !runs.last().is_some_and(follows) {
                    runs.push(Run { row: *rows, first });
                }
                *rows += count;
            })?;
        }
        let value = |&number: &i64| self.of_row(&numbered, row_of(number));
        self.array(numbers.values().iter().map(value).collect())
    }

    /// The value `steps` steps after `first`, which is a value of the sequence.
    fn value_at(&self, first: i128, steps: u64) -> i128 {
        // The product may exceed an `i128`, but the result does not.
        first.wrapping_add(self.increment.wrapping_mul(i128::from(steps)))
    }

    fn of_row(&self, numbered: &Numbered, row: u64) -> i128 {
        let run = &numbered.runs[numbered.runs.partition_point(|run| run.row <= row) - 1];
        self.value_at(run.first, row - run.row)
    }

    /// The value of the row with this number, from 1; `None` if it has none yet.
    pub fn taken_by(&self, number: u64) -> Option<i128> {
        let numbered = self.numbered.lock();
        (1..=numbered.rows).contains(&number).then(|| self.of_row(&numbered, number - 1))
    }

    fn array(&self, values: Vec<i128>) -> Result<ArrayRef, SqlError> {
        fn of<T: ArrowPrimitiveType<Native: TryFrom<i128>>>(values: Vec<i128>) -> Result<PrimitiveArray<T>, SqlError> {
            let outside = || SqlError::internal("a sequence's value is none of its type");
            let values: Result<Vec<T::Native>, SqlError> =
                values.into_iter().map(|value| T::Native::try_from(value).map_err(|_| outside())).collect();
            Ok(PrimitiveArray::new(values?.into(), None))
        }
        Ok(match carrier(self.result) {
            DataType::UInt8 => Arc::new(of(values)? as UInt8Array),
            DataType::Int16 => Arc::new(of(values)? as Int16Array),
            DataType::Int32 => Arc::new(of(values)? as Int32Array),
            DataType::Int64 => Arc::new(of(values)? as Int64Array),
            DataType::Decimal128(precision, scale) => {
                let array = Decimal128Array::from(values).with_precision_and_scale(precision, scale);
                Arc::new(array.map_err(|error| SqlError::internal(error.to_string()))?)
            }
            _ => return Err(SqlError::internal("a sequence of no integer type")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from 1 on, ten in a run, with a gap after each run.
    fn in_tens() -> NextValues {
        let next = Mutex::new(0_u64);
        let take = move |count: u64, take: &mut dyn FnMut(i128, u64)| {
            let mut next = next.lock();
            for _ in 0..count {
                take(i128::from(*next + 1 + *next / 10 * 90), 1);
                *next += 1;
            }
            Ok(())
        };
        NextValues::new("s".to_owned(), SqlType::Int, 1, Arc::new(take))
    }

    #[test]
    fn numbered_rows_get_values_in_their_order_whoever_comes_first() {
        let values = in_tens();
        let of = |numbers: Vec<i64>| {
            let array: ArrayRef = Arc::new(Int64Array::from(numbers));
            values.of_numbers(&array).expect("values").as_primitive::<arrow::datatypes::Int32Type>().values().to_vec()
        };
        assert_eq!(of(vec![9, 12, 11]), [9, 102, 101]);
        assert_eq!(of(vec![1, 10]), [1, 10]);
        assert_eq!(of(vec![13, 21]), [103, 201]);
        assert_eq!(values.numbered.lock().runs.len(), 3);
    }

    #[test]
    fn steps_that_are_more_than_a_number_holds_lead_to_one_that_it_does() {
        let last = 10_i128.pow(38) - 1;
        let take = move |count: u64, take: &mut dyn FnMut(i128, u64)| {
            take(-last, count);
            Ok(())
        };
        let decimal = SqlType::Decimal { precision: 38, scale: 0 };
        let values = NextValues::new("s".to_owned(), decimal, last, Arc::new(take));
        let of = |array: ArrayRef| array.as_primitive::<arrow::datatypes::Decimal128Type>().values().to_vec();
        assert_eq!(of(values.of_rows(3).expect("values")), [-last, 0, last]);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![3_i64, 1]));
        assert_eq!(of(values.of_numbers(&numbers).expect("values")), [last, -last]);
    }

    #[test]
    fn rows_without_numbers_get_as_many_as_they_are() {
        let values = in_tens().of_rows(11).expect("values");
        assert_eq!(values.as_primitive::<arrow::datatypes::Int32Type>().values().last(), Some(&101));
        assert_eq!(in_tens().of_rows(0).expect("values").len(), 0);
    }
}
