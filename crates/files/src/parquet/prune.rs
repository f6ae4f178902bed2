//! Row groups without a row that is wanted, by the least and greatest values that the file notes of them.

use std::cmp::Ordering;

use arrow::array::ArrayRef;
use hobt_functions::array_value;
use hobt_types::{SqlType, Value};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;

use super::convert::convert;
use super::types::natural;
use crate::condition::{FileCondition, FileTest};

/// For each row group, whether it may have a wanted row. `fields` are the file's columns of the request's columns.
pub(super) fn wanted_groups(
    metadata: &ArrowReaderMetadata,
    conditions: &[FileCondition],
    columns: &[(usize, SqlType)],
) -> Vec<bool> {
    let groups = metadata.metadata().row_groups();
    let mut wanted = vec![true; groups.len()];
    for condition in conditions {
        let Some((field, sql_type)) = columns.get(condition.column) else { continue };
        let Some(field) = metadata.schema().fields().get(*field) else { continue };
        let own = natural(field.data_type());
        if own.is_text() || own.is_binary() {
            // In the order of texts '10' is less than '9'.
            continue;
        }
        let converter = StatisticsConverter::try_new(field.name(), metadata.schema(), metadata.parquet_schema());
        let Ok(converter) = converter else { continue };
        let bounds = |array: parquet::errors::Result<ArrayRef>| convert(&array.ok()?, field, *sql_type).ok();
        let (Some(least), Some(greatest)) =
            (bounds(converter.row_group_mins(groups)), bounds(converter.row_group_maxes(groups)))
        else {
            continue;
        };
        for (group, wanted) in wanted.iter_mut().enumerate() {
            let value = |array: &ArrayRef| array_value(array, group, *sql_type).ok();
            if let (Some(least), Some(greatest)) = (value(&least), value(&greatest)) {
                *wanted &= may_fulfil(condition, &least, &greatest);
            }
        }
    }
    wanted
}

/// Whether a value between two others may fulfil a condition; unknown bounds allow all.
fn may_fulfil(condition: &FileCondition, least: &Value, greatest: &Value) -> bool {
    let above = compare(greatest, &condition.value);
    let below = compare(least, &condition.value);
    let (Some(above), Some(below)) = (above, below) else { return true };
    match condition.test {
        FileTest::Equal => below != Ordering::Greater && above != Ordering::Less,
        FileTest::Less => below == Ordering::Less,
        FileTest::LessOrEqual => below != Ordering::Greater,
        FileTest::Greater => above == Ordering::Greater,
        FileTest::GreaterOrEqual => above != Ordering::Less,
    }
}

fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Decimal(a), Value::Decimal(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        _ => None,
    }
}
