//! Compared values, as numbers if their type has the order of numbers, otherwise as bytes; and the rows of one side in
//! their order.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;
use hobt_types::one_zero;

/// How values of a type are compared.
#[derive(Debug)]
pub(super) enum KeyForm {
    /// As numbers.
    Numbers,
    /// As bytes.
    Bytes(RowConverter),
}

/// Values in the form in which they are compared.
pub(super) struct Keys {
    values: Values,
    nulls: Option<NullBuffer>,
}

enum Values {
    Numbers(Vec<i64>),
    Bytes(Rows),
}

impl KeyForm {
    /// The form of a type; `None` if it has no order.
    pub(super) fn of(data_type: &DataType) -> Option<KeyForm> {
        let is_number = matches!(
            data_type,
            DataType::Int8
                | DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::UInt8
                | DataType::UInt16
                | DataType::UInt32
                | DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(_, _)
                | DataType::Float32
                | DataType::Float64
        );
        if is_number {
            return Some(KeyForm::Numbers);
        }
        let fields = vec![SortField::new(data_type.clone())];
        if data_type.is_nested() || !RowConverter::supports_fields(&fields) {
            return None;
        }
        RowConverter::new(fields).ok().map(KeyForm::Bytes)
    }

    /// The values of an array.
    ///
    /// # Errors
    /// An array of another type.
    pub(super) fn keys(&self, array: &ArrayRef) -> Result<Keys> {
        let values = match self {
            KeyForm::Numbers => Values::Numbers(numbers(array)?),
            KeyForm::Bytes(converter) => Values::Bytes(converter.convert_columns(std::slice::from_ref(array))?),
        };
        Ok(Keys { values, nulls: array.logical_nulls() })
    }
}

/// Converts values to numbers in the same order.
fn numbers(array: &ArrayRef) -> Result<Vec<i64>> {
    let of_float = |value: f64| {
        let bits = one_zero(value).to_bits().cast_signed();
        bits ^ (((bits >> 63).cast_unsigned()) >> 1).cast_signed()
    };
    Ok(match array.data_type() {
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().values().iter().map(|value| of_float(*value)).collect()
        }
        DataType::Float32 => {
            array.as_primitive::<Float32Type>().values().iter().map(|value| of_float(f64::from(*value))).collect()
        }
        DataType::Int64 => array.as_primitive::<Int64Type>().values().to_vec(),
        _ => cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().values().to_vec(),
    })
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        match &self.values {
            Values::Numbers(numbers) => numbers.len(),
            Values::Bytes(rows) => rows.num_rows(),
        }
    }

    pub(super) fn is_null(&self, at: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(at))
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        match &self.values {
            Values::Numbers(numbers) => size_of_val(numbers.as_slice()),
            Values::Bytes(rows) => rows.size(),
        }
    }
}

/// Rows in the order of a value, without those where it is NULL.
pub(super) struct SortedRows {
    /// Positions of the rows.
    rows: Vec<u32>,
    /// Numbers in the order of the rows, bytes in the order of the positions.
    values: Values,
}

impl SortedRows {
    /// Bytes for each row while `keys` are sorted, and afterwards.
    pub(super) const SORTING_BYTES: usize = size_of::<(i64, u32)>() + SortedRows::SORTED_BYTES;
    pub(super) const SORTED_BYTES: usize = size_of::<i64>() + size_of::<u32>();

    /// Sorts rows by their keys.
    pub(super) fn new(keys: Keys) -> SortedRows {
        let count = u32::try_from(keys.len()).expect("the build side has looked");
        let Keys { values, nulls } = keys;
        let is_there = |at: &u32| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*at as usize));
        match values {
            Values::Numbers(numbers) => {
                let known = (0..count).filter(is_there).map(|at| (numbers[at as usize], at));
                let mut pairs: Vec<(i64, u32)> = known.collect();
                pairs.sort_unstable();
                let (numbers, rows) = pairs.into_iter().unzip();
                SortedRows { rows, values: Values::Numbers(numbers) }
            }
            Values::Bytes(bytes) => {
                let mut rows: Vec<u32> = (0..count).filter(is_there).collect();
                rows.sort_unstable_by(|one, other| bytes.row(*one as usize).cmp(&bytes.row(*other as usize)));
                SortedRows { rows, values: Values::Bytes(bytes) }
            }
        }
    }

    /// The rows' positions, in the order of their values.
    pub(super) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// How many rows have a value below the given one of the same form; with `with_equal` also those equal to it.
    pub(super) fn count_below(&self, keys: &Keys, at: usize, with_equal: bool) -> usize {
        match (&self.values, &keys.values) {
            (Values::Numbers(sorted), Values::Numbers(numbers)) => {
                let value = numbers[at];
                match with_equal {
                    true => sorted.partition_point(|known| *known <= value),
                    false => sorted.partition_point(|known| *known < value),
                }
            }
            (Values::Bytes(known), Values::Bytes(bytes)) => {
                let value = bytes.row(at);
                match with_equal {
                    true => self.rows.partition_point(|row| known.row(*row as usize) <= value),
                    false => self.rows.partition_point(|row| known.row(*row as usize) < value),
                }
            }
            _ => unreachable!("both sides of a comparison have one type"),
        }
    }
}
