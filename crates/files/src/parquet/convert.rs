//! Columns of a Parquet file in the carriers of SQL types.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, Int64Array, StringViewBuilder};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Date32Type, Field, FieldRef, Float32Type, Float64Type, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;
use arrow_json::writer::{EncoderOptions, make_encoder};
use hobt_base::SqlError;
use hobt_functions::carrier::guid_to_sort_order;
use hobt_functions::date::holds_moment;
use hobt_functions::{carrier, cast_array};
use hobt_types::{MaxLength, SqlType};

use super::types::natural;
use crate::rejected::FaultKind;

/// A column's values, or the first row whose value cannot be converted and why.
pub(super) type Converted = Result<ArrayRef, ConvertError>;

/// Why a column cannot be converted.
pub(super) enum ConvertError {
    /// The text of a row is longer than its column.
    Row(usize, FaultKind),
    /// A value is not of the type.
    Sql(SqlError),
}

impl From<SqlError> for ConvertError {
    fn from(error: SqlError) -> ConvertError {
        ConvertError::Sql(error)
    }
}

impl From<ArrowError> for ConvertError {
    fn from(error: ArrowError) -> ConvertError {
        ConvertError::Sql(hobt_base::errors::BULK_PARQUET_VALUE.with([&error]))
    }
}

/// The values of a file's column as those of a SQL type, in its carrier.
pub(super) fn convert(array: &ArrayRef, field: &FieldRef, to: SqlType) -> Converted {
    if to == SqlType::UniqueIdentifier
        && let Some(bytes) = array.as_fixed_size_binary_opt()
        && bytes.value_length() == 16
    {
        return Ok(guids(bytes.iter()));
    }
    let from = natural(array.data_type());
    let plain = plain(array, field, from)?;
    if let Some(row) = out_of_range(&plain, from) {
        return Err(ConvertError::Row(row, FaultKind::Overflow));
    }
    if from == to {
        return Ok(plain);
    }
    if let Some(row) = longer_than(&plain, to) {
        return Err(ConvertError::Row(row, FaultKind::TooLong));
    }
    Ok(cast_array(&plain, from, to, None, false)?)
}

/// The values in the carrier of the type that is natural for them.
fn plain(array: &ArrayRef, field: &FieldRef, natural: SqlType) -> Result<ArrayRef, ConvertError> {
    let cast = |to: &DataType| {
        let options = CastOptions { safe: false, format_options: FormatOptions::default() };
        cast_with_options(array, to, &options)
    };
    Ok(match array.data_type() {
        DataType::Dictionary(_, values) => {
            let plain_array = cast(values)?;
            let values = Arc::new(Field::new(field.name(), values.as_ref().clone(), true));
            return plain(&plain_array, &values, natural);
        }
        DataType::Timestamp(unit, _) => ticks(&cast(&DataType::Int64)?, *unit),
        DataType::Time32(unit) => ticks(&cast(&DataType::Int32)?, *unit),
        DataType::Time64(unit) => ticks(&cast(&DataType::Int64)?, *unit),
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::Struct(_)
        | DataType::Map(..)
        | DataType::Union(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::RunEndEncoded(..)
        | DataType::Interval(_)
        | DataType::Duration(_) => json(array, field)?,
        DataType::Null => arrow::array::new_null_array(&carrier(natural), array.len()),
        _ => cast(&carrier(natural))?,
    })
}

/// Ticks of 100 ns from numbers of another unit.
fn ticks(numbers: &ArrayRef, unit: TimeUnit) -> ArrayRef {
    let numbers = match numbers.data_type() {
        DataType::Int32 => arrow::compute::cast(numbers, &DataType::Int64).unwrap_or_else(|_| Arc::clone(numbers)),
        _ => Arc::clone(numbers),
    };
    let numbers: &Int64Array = numbers.as_primitive::<Int64Type>();
    let ticks: Int64Array = match unit {
        // A time beyond the year 9999 is out of range in any unit.
        TimeUnit::Second => numbers.unary(|number| number.saturating_mul(10_000_000)),
        TimeUnit::Millisecond => numbers.unary(|number| number.saturating_mul(10_000)),
        TimeUnit::Microsecond => numbers.unary(|number| number.saturating_mul(10)),
        TimeUnit::Nanosecond => numbers.unary(|number| number.div_euclid(100)),
    };
    Arc::new(ticks)
}

/// Each value as a text of JSON.
fn json(array: &ArrayRef, field: &FieldRef) -> Result<ArrayRef, ArrowError> {
    let options = EncoderOptions::default().with_explicit_nulls(true);
    let mut encoder = make_encoder(field, array.as_ref(), &options)?;
    let mut texts = StringViewBuilder::with_capacity(array.len());
    let mut bytes = Vec::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            texts.append_null();
            continue;
        }
        bytes.clear();
        encoder.encode(row, &mut bytes);
        texts.append_value(String::from_utf8_lossy(&bytes));
    }
    Ok(Arc::new(texts.finish()))
}

/// Guids whose bytes are in the order in which they are written.
fn guids<'b>(values: impl ExactSizeIterator<Item = Option<&'b [u8]>>) -> ArrayRef {
    let mut array = FixedSizeBinaryBuilder::with_capacity(values.len(), 16);
    for value in values {
        match value.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok()) {
            Some(p) => {
                // SQL Server stores the first three groups as little-endian numbers.
                let stored = [
                    p[3], p[2], p[1], p[0], p[5], p[4], p[7], p[6], p[8], p[9], p[10], p[11], p[12], p[13], p[14],
                    p[15],
                ];
                array.append_value(guid_to_sort_order(stored)).expect("16 bytes, the carrier's width");
            }
            None => array.append_null(),
        }
    }
    Arc::new(array.finish())
}

/// The first row whose value is none of the type: a date outside of the years 1 to 9999, a number that is none.
fn out_of_range(array: &ArrayRef, sql_type: SqlType) -> Option<usize> {
    let first = |is_wrong: &dyn Fn(usize) -> bool| (0..array.len()).find(|row| array.is_valid(*row) && is_wrong(*row));
    match sql_type {
        SqlType::Date => {
            let days = array.as_primitive_opt::<Date32Type>()?;
            first(&|row| !holds_moment(sql_type, days.value(row).into()))
        }
        SqlType::Time { .. } | SqlType::DateTime2 { .. } => {
            let ticks = array.as_primitive_opt::<Int64Type>()?;
            first(&|row| !holds_moment(sql_type, ticks.value(row)))
        }
        SqlType::Real => {
            let numbers = array.as_primitive_opt::<Float32Type>()?;
            first(&|row| !numbers.value(row).is_finite())
        }
        SqlType::Float => {
            let numbers = array.as_primitive_opt::<Float64Type>()?;
            first(&|row| !numbers.value(row).is_finite())
        }
        _ => None,
    }
}

/// The first row whose text or binary is longer than a column of the type `to`.
fn longer_than(array: &ArrayRef, to: SqlType) -> Option<usize> {
    let most = match to {
        SqlType::Char(n) | SqlType::NChar(n) | SqlType::Binary(n) => n,
        SqlType::VarChar(MaxLength::Limited(n))
        | SqlType::NVarChar(MaxLength::Limited(n))
        | SqlType::VarBinary(MaxLength::Limited(n)) => n,
        _ => return None,
    };
    let most = usize::from(most);
    if let Some(texts) = array.as_string_view_opt() {
        let is_longer = |text: &str| text.len() > most && text.chars().map(char::len_utf16).sum::<usize>() > most;
        return (0..texts.len()).find(|row| texts.is_valid(*row) && is_longer(texts.value(*row)));
    }
    let binaries = array.as_binary_view_opt()?;
    (0..binaries.len()).find(|row| binaries.is_valid(*row) && binaries.value(*row).len() > most)
}
