//! Keys of rows as 64-bit numbers.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int16Type, Int32Type, Int64Type, UInt8Type};
use hobt_access::scan::key_of_bytes;

/// Whether equal values of a type have equal numbers.
pub fn has_number(data_type: &DataType) -> bool {
    is_number(data_type)
        || matches!(data_type, DataType::Utf8View | DataType::BinaryView)
        || *data_type == DataType::FixedSizeBinary(16)
}

/// Whether the numbers are the values themselves; for a decimal, its lower half.
pub fn is_number(data_type: &DataType) -> bool {
    use DataType as D;
    matches!(data_type, D::UInt8 | D::Int16 | D::Int32 | D::Int64 | D::Date32 | D::Decimal128(..))
}

/// The number that is the only value of an array, if it has exactly one.
pub(crate) fn number_of(array: &ArrayRef) -> Option<i64> {
    let mut number = None;
    if is_number(array.data_type()) && array.len() == 1 {
        for_each_key(array, |_, key| number = key.and_then(|(key, is_exact)| is_exact.then_some(key)));
    }
    number
}

/// Calls `show` with each row's key, `None` for NULL, and whether the key is the whole value. Returns `false` without a
/// call for a type that has no keys.
pub fn for_each_key(array: &ArrayRef, mut show: impl FnMut(usize, Option<(i64, bool)>)) -> bool {
    match array.data_type() {
        DataType::UInt8 => numbers::<UInt8Type>(array, |value| (i64::from(value), true), show),
        DataType::Int16 => numbers::<Int16Type>(array, |value| (i64::from(value), true), show),
        DataType::Int32 => numbers::<Int32Type>(array, |value| (i64::from(value), true), show),
        DataType::Int64 => numbers::<Int64Type>(array, |value| (value, true), show),
        DataType::Date32 => numbers::<Date32Type>(array, |value| (i64::from(value), true), show),
        DataType::Decimal128(..) => {
            // The lower half, as the page reader takes it too.
            numbers::<Decimal128Type>(array, |value| (value as i64, i64::try_from(value).is_ok()), show);
        }
        DataType::Utf8View => {
            array
                .as_string_view()
                .iter()
                .enumerate()
                .for_each(|(row, text)| show(row, text.map(|text| of_bytes(text.as_bytes()))));
        }
        DataType::BinaryView => {
            array.as_binary_view().iter().enumerate().for_each(|(row, bytes)| show(row, bytes.map(of_bytes)));
        }
        DataType::FixedSizeBinary(16) => {
            array.as_fixed_size_binary().iter().enumerate().for_each(|(row, bytes)| show(row, bytes.map(of_bytes)));
        }
        _ => return false,
    }
    true
}

fn of_bytes(bytes: &[u8]) -> (i64, bool) {
    (key_of_bytes(bytes), false)
}

fn numbers<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    key: impl Fn(T::Native) -> (i64, bool),
    mut show: impl FnMut(usize, Option<(i64, bool)>),
) {
    let array = array.as_primitive::<T>();
    if array.null_count() == 0 {
        return array.values().iter().enumerate().for_each(|(row, value)| show(row, Some(key(*value))));
    }
    array.iter().enumerate().for_each(|(row, value)| show(row, value.map(&key)));
}
