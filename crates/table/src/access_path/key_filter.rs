//! Applies the keys of a filter to a table: the partitions that may have them, and the range of the clustered index
//! that contains them. Also converts conditions on a column into such keys.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int16Array, Int32Array, Int64Array, UInt8Array};
use arrow::datatypes::DataType;
use hobt_access::KeyRange;
use hobt_access::scan::KeySet;
use hobt_catalog::{Table, value_to_bytes};
use hobt_functions::{array_value, carrier, value_to_array};
use hobt_types::{PhysicalType, SqlType, Value};

use super::number_of;
use super::predicate::{ColumnPredicate, Comparand, Limit, Test};
use crate::TableRead;

/// The numbers that a condition leaves of a numeric column; `None` if it cannot be expressed so.
pub fn number_keys(table: &Table, predicate: &ColumnPredicate) -> Option<KeySet> {
    let sql_type = table.columns.get(predicate.column)?.sql_type;
    let number = |comparand: &Comparand| {
        let Comparand::Value(value) = comparand else { return None };
        number_of(&value_to_array(value, sql_type).ok()?)
    };
    // For sixteen-byte values only the lower half is compared, which has no order.
    let is_ordered = sql_type.physical() != PhysicalType::Fixed16;
    match &predicate.test {
        Test::Equal(values) => {
            let keys: Option<Vec<i64>> = values.iter().map(number).collect();
            Some(KeySet::of(&keys?))
        }
        Test::Range { low, high } if is_ordered => {
            let end = |limit: &Limit, step: i64| match number(&limit.0)? {
                key if limit.1 => Some(key),
                key => key.checked_add(step),
            };
            let from = low.as_ref().map_or(Some(i64::MIN), |limit| end(limit, 1))?;
            let to = high.as_ref().map_or(Some(i64::MAX), |limit| end(limit, -1))?;
            Some(KeySet::between(from, to))
        }
        Test::Range { .. } | Test::Null | Test::Never => None,
    }
}

/// The value of a column with this number, or the nearest value that the type can hold.
fn value_of(key: i64, sql_type: SqlType) -> Option<Value> {
    fn within<T: TryFrom<i64>>(key: i64, least: T, greatest: T) -> T {
        T::try_from(key).unwrap_or(if key < 0 { least } else { greatest })
    }
    let array: ArrayRef = match carrier(sql_type) {
        DataType::UInt8 => Arc::new(UInt8Array::from(vec![within(key, 0, u8::MAX)])),
        DataType::Int16 => Arc::new(Int16Array::from(vec![within(key, i16::MIN, i16::MAX)])),
        DataType::Int32 => Arc::new(Int32Array::from(vec![within(key, i32::MIN, i32::MAX)])),
        DataType::Int64 => Arc::new(Int64Array::from(vec![key])),
        DataType::Date32 => Arc::new(Date32Array::from(vec![within(key, i32::MIN, i32::MAX)])),
        DataType::Decimal128(precision, scale) => {
            let array = Decimal128Array::from(vec![i128::from(key)]);
            Arc::new(array.with_precision_and_scale(precision, scale).ok()?)
        }
        _ => return None,
    };
    array_value(array.as_ref(), 0, sql_type).ok()
}

/// For each of a table's partitions, whether it may have rows with one of these numbers in the column. `None` if all
/// may, or if it is not known.
pub fn wanted_partitions(table: &TableRead, column: usize, keys: &KeySet) -> Option<Vec<bool>> {
    let definition = table.table();
    let snapshot = table.database().snapshot();
    let base = definition.base_index();
    let (_, function) = snapshot.partitioning_of(&base.data_space).filter(|(by, _)| *by == column)?;
    let sql_type = definition.columns[column].sql_type;
    let partition = |key: i64| value_of(key, sql_type).map(|value| function.partition_of(&value));
    let mut wanted = vec![false; base.partitions.len()];
    if let Some(list) = keys.list() {
        for key in list {
            *wanted.get_mut(partition(*key)?)? = true;
        }
    } else {
        let (low, high) = keys.bounds()?;
        wanted.get_mut(partition(low)?..=partition(high)?)?.fill(true);
    }
    Some(wanted)
}

/// The range of a table's clustered index that contains the rows with one of these numbers in the column. `None` if no
/// clustered index begins with the column.
pub fn wanted_keys(table: &TableRead, column: usize, keys: &KeySet) -> Option<KeyRange> {
    let definition = table.table();
    let index = definition.base_index();
    let first = index.key.first().filter(|part| part.column == column && definition.is_clustered())?;
    let key = definition.index_leaf(index)?.key.columns().first()?.key;
    let sql_type = definition.columns[first.column].sql_type;
    let encoded = |number: i64| {
        let mut bytes = Vec::new();
        let value = value_to_bytes(sql_type, &value_of(number, sql_type)?).ok()?;
        key.encode(value.as_deref(), &mut bytes).ok().map(|()| bytes)
    };
    let (low, high) = keys.bounds()?;
    let (low, high) = (encoded(low)?, encoded(high)?);
    let (from, to) = if key.is_descending() { (high, low) } else { (low, high) };
    Some(KeyRange::new(Bound::Included(&from), Bound::Included(&to)))
}
