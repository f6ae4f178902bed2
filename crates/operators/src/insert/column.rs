//! Prepares a column of a batch for pages: checks, pads, and narrows it to its physical form.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryViewArray, Decimal128Array, FixedSizeBinaryArray, PrimitiveArray,
    StringViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt8Type};
use hobt_access::{LoadColumn, LoadValues};
use hobt_base::{SqlError, errors};
use hobt_catalog::TableColumn;
use hobt_page::ValidityBits;
use hobt_types::{MaxLength, PhysicalType, SqlType, Value};

use super::WriteTarget;

/// A column's values in their physical form, borrowed from the batch where they can be.
pub(crate) struct Prepared {
    array: ArrayRef,
    values: Values,
    nulls: Option<NullBuffer>,
}

enum Values {
    /// The array's own bytes.
    Native,
    /// Narrowed decimals.
    Fixed(Vec<u8>),
    /// The array's own values.
    Views,
    /// Padded values: the bytes, and the end of each value.
    Padded { bytes: Vec<u8>, ends: Vec<usize> },
}

/// Checks a column against its definition.
///
/// # Errors
/// 515 for a NULL, 2628 for a value that is too long, 8115 for a decimal outside its precision.
pub(crate) fn prepare(target: &WriteTarget, definition: &TableColumn, array: &ArrayRef) -> Result<Prepared, SqlError> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
    if nulls.is_some() && !definition.nullable {
        return Err(null_error(target, definition));
    }
    let values = match definition.sql_type {
        SqlType::Decimal { .. } | SqlType::Money | SqlType::SmallMoney => narrow(definition, array)?,
        SqlType::Char(_) | SqlType::NChar(_) | SqlType::VarChar(_) | SqlType::NVarChar(_) => {
            let array = downcast::<StringViewArray>(array, definition)?;
            text(target, definition, array)?
        }
        SqlType::Binary(_) | SqlType::VarBinary(_) => {
            let array = downcast::<BinaryViewArray>(array, definition)?;
            binary(target, definition, array)?
        }
        _ => Values::Native,
    };
    Ok(Prepared { array: array.clone(), values, nulls })
}

fn downcast<'a, T: 'static>(array: &'a ArrayRef, definition: &TableColumn) -> Result<&'a T, SqlError> {
    array.as_any().downcast_ref::<T>().ok_or_else(|| wrong_carrier(definition, array))
}

fn wrong_carrier(definition: &TableColumn, array: &ArrayRef) -> SqlError {
    SqlError::internal(format!(
        "Column '{}' of type {} came as {}.",
        definition.name,
        definition.sql_type,
        array.data_type()
    ))
}

fn null_error(target: &WriteTarget, definition: &TableColumn) -> SqlError {
    errors::NULL_NOT_ALLOWED.with([&definition.name, &target.full_name(), &target.statement])
}

fn truncation_error(target: &WriteTarget, definition: &TableColumn, value: &str) -> SqlError {
    let shown: String = value.chars().take(100).collect();
    errors::TRUNCATION.with([&target.full_name(), &definition.name, &shown])
}

/// The longest value of a text column: in UTF-16 units for the national types, in code-page bytes for the others.
fn limit_of(sql_type: SqlType) -> usize {
    match sql_type {
        SqlType::Char(n) | SqlType::NChar(n) | SqlType::Binary(n) => usize::from(n),
        SqlType::VarChar(MaxLength::Limited(n))
        | SqlType::NVarChar(MaxLength::Limited(n))
        | SqlType::VarBinary(MaxLength::Limited(n)) => usize::from(n),
        _ => usize::MAX,
    }
}

/// A text's length as its type counts it.
fn text_length(sql_type: SqlType, text: &str) -> usize {
    if sql_type.is_national() { text.encode_utf16().count() } else { text.chars().count() }
}

/// The text without excess trailing spaces, which T-SQL cuts silently; an error if other characters are in excess.
fn fit<'a>(target: &WriteTarget, definition: &TableColumn, text: &'a str) -> Result<&'a str, SqlError> {
    let limit = limit_of(definition.sql_type);
    if text.len() <= limit || text_length(definition.sql_type, text) <= limit {
        return Ok(text);
    }
    let mut end = text.trim_end_matches(' ').len();
    let length = text_length(definition.sql_type, &text[..end]);
    if length > limit {
        let cut: String = text.chars().take(limit).collect();
        return Err(truncation_error(target, definition, &cut));
    }
    end += limit - length;
    Ok(&text[..end])
}

fn text(target: &WriteTarget, definition: &TableColumn, array: &StringViewArray) -> Result<Values, SqlError> {
    let limit = limit_of(definition.sql_type);
    let padded = matches!(definition.sql_type, SqlType::Char(_) | SqlType::NChar(_));
    if !padded && array.views().iter().all(|view| (*view as u32) as usize <= limit) {
        return Ok(Values::Views);
    }
    let mut bytes = Vec::new();
    let mut ends = Vec::with_capacity(array.len());
    for value in array {
        if let Some(value) = value {
            let value = fit(target, definition, value)?;
            bytes.extend_from_slice(value.as_bytes());
            if padded {
                let missing = limit - text_length(definition.sql_type, value);
                bytes.resize(bytes.len() + missing, b' ');
            }
        }
        ends.push(bytes.len());
    }
    Ok(Values::Padded { bytes, ends })
}

fn binary(target: &WriteTarget, definition: &TableColumn, array: &BinaryViewArray) -> Result<Values, SqlError> {
    let limit = limit_of(definition.sql_type);
    let padded = matches!(definition.sql_type, SqlType::Binary(_));
    let mut bytes = Vec::new();
    let mut ends = Vec::with_capacity(if padded { array.len() } else { 0 });
    for value in array.iter() {
        if let Some(value) = value {
            if value.len() > limit {
                return Err(truncation_error(target, definition, ""));
            }
            if padded {
                bytes.extend_from_slice(value);
                bytes.resize(bytes.len() + limit - value.len(), 0);
            }
        }
        ends.push(bytes.len());
    }
    Ok(if padded { Values::Padded { bytes, ends } } else { Values::Views })
}

fn narrow(definition: &TableColumn, array: &ArrayRef) -> Result<Values, SqlError> {
    let decimals = downcast::<Decimal128Array>(array, definition)?;
    let overflow = || errors::OVERFLOW.with([&"numeric", &definition.sql_type.name()]);
    let value = |row: usize| if decimals.is_null(row) { 0 } else { decimals.value(row) };
    let mut bytes = Vec::new();
    match definition.sql_type.physical() {
        PhysicalType::Fixed4 => {
            for row in 0..decimals.len() {
                bytes.extend_from_slice(&i32::try_from(value(row)).map_err(|_| overflow())?.to_le_bytes());
            }
        }
        PhysicalType::Fixed8 => {
            for row in 0..decimals.len() {
                bytes.extend_from_slice(&i64::try_from(value(row)).map_err(|_| overflow())?.to_le_bytes());
            }
        }
        _ => return Ok(Values::Native),
    }
    Ok(Values::Fixed(bytes))
}

/// The bytes of a primitive array, if it is one of type `T`.
fn primitive_bytes<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<&[u8]> {
    let array = array.as_any().downcast_ref::<PrimitiveArray<T>>()?;
    Some(array.values().inner().as_slice())
}

impl Prepared {
    /// The column as the loader takes it.
    pub(crate) fn load_column(&self) -> LoadColumn<'_> {
        let values = match &self.values {
            Values::Native => LoadValues::Fixed(self.native_bytes()),
            Values::Fixed(bytes) => LoadValues::Fixed(bytes),
            Values::Views => LoadValues::Variable(self.view_slices()),
            Values::Padded { bytes, ends } => {
                let mut start = 0;
                let slices = ends.iter().map(|&end| {
                    let slice = &bytes[start..end];
                    start = end;
                    slice
                });
                LoadValues::Variable(slices.collect())
            }
        };
        let validity = self
            .nulls
            .as_ref()
            .map(|nulls| ValidityBits { bytes: nulls.inner().values(), offset: nulls.inner().offset() });
        LoadColumn { values, validity }
    }

    fn native_bytes(&self) -> &[u8] {
        let array = &self.array;
        let fixed = || {
            let array = array.as_any().downcast_ref::<FixedSizeBinaryArray>()?;
            let width = 16;
            let start = array.offset() * width;
            Some(&array.value_data()[start..start + array.len() * width])
        };
        primitive_bytes::<Int64Type>(array)
            .or_else(|| primitive_bytes::<Int32Type>(array))
            .or_else(|| primitive_bytes::<Int16Type>(array))
            .or_else(|| primitive_bytes::<UInt8Type>(array))
            .or_else(|| primitive_bytes::<Float64Type>(array))
            .or_else(|| primitive_bytes::<Float32Type>(array))
            .or_else(|| primitive_bytes::<Date32Type>(array))
            .or_else(|| primitive_bytes::<arrow::datatypes::Decimal128Type>(array))
            .or_else(fixed)
            .expect("every fixed-length carrier is one of these")
    }

    fn view_slices(&self) -> Vec<&[u8]> {
        let nulls = self.nulls.as_ref();
        let is_null = |row: usize| nulls.is_some_and(|nulls| nulls.is_null(row));
        if let Some(array) = self.array.as_any().downcast_ref::<StringViewArray>() {
            return (0..array.len())
                .map(|row| if is_null(row) { &[][..] } else { array.value(row).as_bytes() })
                .collect();
        }
        let array = self.array.as_any().downcast_ref::<BinaryViewArray>().expect("checked when it was prepared");
        (0..array.len()).map(|row| if is_null(row) { &[][..] } else { array.value(row) }).collect()
    }
}

/// A row's value, of `width` bytes or of variable length.
pub(crate) fn value_at<'c>(column: &'c LoadColumn<'_>, width: Option<usize>, row: usize) -> Option<&'c [u8]> {
    let is_null = column.validity.as_ref().is_some_and(|bits| {
        let bit = bits.offset + row;
        bits.bytes[bit / 8] >> (bit % 8) & 1 == 0
    });
    if is_null {
        return None;
    }
    match (&column.values, width) {
        (LoadValues::Fixed(bytes), Some(width)) => Some(&bytes[row * width..(row + 1) * width]),
        (LoadValues::Fixed(_), None) => None,
        (LoadValues::Variable(slices), _) => Some(slices[row]),
    }
}

/// A column as its table stores it: checked, cut and padded, in the carrier of its type.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn stored(target: &WriteTarget, definition: &TableColumn, array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let prepared = prepare(target, definition, array)?;
    let Values::Padded { bytes, ends } = &prepared.values else { return Ok(prepared.array) };
    let is_null = |row: usize| prepared.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    let mut start = 0;
    let values = ends.iter().enumerate().map(|(row, &end)| {
        let value = &bytes[start..end];
        start = end;
        (!is_null(row)).then_some(value)
    });
    if !definition.sql_type.is_text() {
        return Ok(Arc::new(values.collect::<BinaryViewArray>()));
    }
    let array: BinaryViewArray = values.collect();
    let array = array.to_string_view().map_err(|error| SqlError::internal(error.to_string()))?;
    Ok(Arc::new(array))
}

/// A value checked against its column.
///
/// # Errors
/// As [`prepare`].
pub(super) fn checked_value(target: &WriteTarget, definition: &TableColumn, value: &Value) -> Result<Value, SqlError> {
    match value {
        Value::Null if !definition.nullable => Err(null_error(target, definition)),
        Value::Text(text) => {
            let mut fitted = fit(target, definition, text)?.to_owned();
            if let SqlType::Char(n) | SqlType::NChar(n) = definition.sql_type {
                let missing = usize::from(n) - text_length(definition.sql_type, &fitted);
                fitted.extend(std::iter::repeat_n(' ', missing));
            }
            Ok(Value::Text(fitted))
        }
        Value::Binary(bytes) => {
            if bytes.len() > limit_of(definition.sql_type) {
                return Err(truncation_error(target, definition, ""));
            }
            let mut bytes = bytes.clone();
            if let SqlType::Binary(n) = definition.sql_type {
                bytes.resize(usize::from(n), 0);
            }
            Ok(Value::Binary(bytes))
        }
        other => Ok(other.clone()),
    }
}

/// The partition of each row by binary search over integer boundaries; `None` for other types or NULLs.
pub(super) fn partitions_of_integers(target: &WriteTarget, array: &ArrayRef) -> Option<Vec<u32>> {
    let (_, function) = target.partitioning.as_ref()?;
    if array.null_count() > 0 {
        return None;
    }
    let boundaries: Option<Vec<i64>> = function
        .boundaries
        .iter()
        .map(|boundary| if let Value::Int(value) = boundary { Some(*value) } else { None })
        .collect();
    let boundaries = boundaries?;
    let mut last: Option<(i64, u32)> = None;
    let mut place = |value: i64| match last {
        Some((seen, partition)) if seen == value => partition,
        _ => {
            let found = boundaries
                .partition_point(|&boundary| if function.range_right { boundary <= value } else { boundary < value });
            let partition = u32::try_from(found).expect("at most 15,000 partitions");
            last = Some((value, partition));
            partition
        }
    };
    if let Some(array) = array.as_any().downcast_ref::<PrimitiveArray<Int64Type>>() {
        return Some(array.values().iter().map(|&value| place(value)).collect());
    }
    if let Some(array) = array.as_any().downcast_ref::<PrimitiveArray<Int32Type>>() {
        return Some(array.values().iter().map(|&value| place(i64::from(value))).collect());
    }
    if let Some(array) = array.as_any().downcast_ref::<PrimitiveArray<UInt8Type>>() {
        return Some(array.values().iter().map(|&value| place(i64::from(value))).collect());
    }
    None
}
