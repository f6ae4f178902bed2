//! `CAST`, `CONVERT` and implicit conversion, from carrier to carrier.
//!
//! | file | what |
//! |---|---|
//! | `number` | between numbers |
//! | `parse` | text to everything |
//! | `print` | everything to text |
//! | `width` | text to text: length, padding, code page |
//! | `temporal` | between temporal types, and numbers of days |
//! | `bytes` | binary and `uniqueidentifier` |
//! | `digits` | numbers to text and back, the ordinary ones of a whole array |
//!
//! Source: Microsoft's "CAST and CONVERT (Transact-SQL)".

mod bytes;
mod digits;
mod number;
mod parse;
mod print;
mod temporal;
#[cfg(test)]
mod tests;
mod width;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use hobt_base::SqlError;
use hobt_types::SqlType;

use crate::carrier::{carrier, not_the_carrier};
use crate::type_rules::check_explicit;

pub(crate) use bytes::{guid_text, hex_text};
pub(crate) use parse::{parse_float, parse_money};
pub(crate) use print::print_value;
pub(crate) use width::fit;

/// The mode of a conversion.
#[derive(Clone, Copy, Debug)]
struct Mode {
    style: Option<i32>,
    try_cast: bool,
}

/// Converts every value of `array` from `from` to `to`. `style` is the third argument of `CONVERT`. With `try_cast` a
/// value that does not convert becomes NULL instead of an error.
///
/// # Errors
/// 245, 8114, 8115, 220, 241, 242, 8169 and others for the first value that does not convert; 529 if the pair is not
/// allowed, 281 if the style is not valid for the pair.
pub fn cast_array(
    array: &ArrayRef,
    from: SqlType,
    to: SqlType,
    style: Option<i32>,
    try_cast: bool,
) -> Result<ArrayRef, SqlError> {
    if from == to && style.is_none() {
        return Ok(Arc::clone(array));
    }
    check_explicit(from, to)?;
    if array.data_type() != &carrier(from) {
        return Err(not_the_carrier(array, from));
    }
    if array.null_count() == array.len() {
        return Ok(new_null_array(&carrier(to), array.len()));
    }
    let mode = Mode { style, try_cast };
    match (from, to) {
        _ if from.is_text() && to.is_text() => width::text_to_text(array, from, to),
        _ if from.is_text() && !to.is_binary() => parse::from_text(array, from, to, mode),
        _ if to.is_text() && !from.is_binary() => print::to_text(array, from, to, mode),
        _ if from.is_binary() || to.is_binary() => bytes::cast(array, from, to, mode),
        _ if from.is_numeric() && to.is_numeric() => number::cast(array, from, to, mode),
        _ => temporal::cast(array, from, to, mode),
    }
}

/// Converts element by element: `convert` returns the value and whether it is good. The loop has no branch. Only a bad
/// value in a row that is not NULL leads to `error` (with the row), or to NULL under `TRY_CAST`.
fn convert<I: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    array: &ArrayRef,
    mode: Mode,
    convert: impl Fn(I::Native) -> (O::Native, bool),
    error: impl Fn(I::Native) -> SqlError,
) -> Result<PrimitiveArray<O>, SqlError> {
    let array = array
        .as_primitive_opt::<I>()
        .ok_or_else(|| SqlError::internal(format!("a cast of {} as {}", array.data_type(), I::DATA_TYPE)))?;
    let mut all_good = true;
    let values: Vec<O::Native> = array
        .values()
        .iter()
        .map(|value| {
            let (converted, good) = convert(*value);
            all_good &= good;
            converted
        })
        .collect();
    let mut nulls = array.nulls().cloned();
    if !all_good {
        let is_bad = |row: usize| array.is_valid(row) && !convert(array.value(row)).1;
        match (0..array.len()).find(|row| is_bad(*row)) {
            Some(row) if !mode.try_cast => return Err(error(array.value(row))),
            None => {}
            Some(_) => {
                let good = BooleanBuffer::collect_bool(array.len(), |row| !is_bad(row));
                nulls = NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(good)));
            }
        }
    }
    Ok(PrimitiveArray::new(ScalarBuffer::from(values), nulls))
}

/// Like [`convert`], but reads one value at a time, and the conversion itself returns the error.
fn convert_each<O: ArrowPrimitiveType>(
    array: &ArrayRef,
    mode: Mode,
    mut read: impl FnMut(usize) -> Result<O::Native, SqlError>,
) -> Result<PrimitiveArray<O>, SqlError> {
    let mut builder = arrow::array::PrimitiveBuilder::<O>::with_capacity(array.len());
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
            continue;
        }
        match read(row) {
            Ok(value) => builder.append_value(value),
            Err(_) if mode.try_cast => builder.append_null(),
            Err(error) => return Err(error),
        }
    }
    Ok(builder.finish())
}
