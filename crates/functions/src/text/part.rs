//! Lengths and parts of text and binary.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryViewBuilder};
use arrow::datatypes::Int64Type;
use hobt_base::SqlError;
use hobt_types::SqlType;

use super::code_page::{byte_of_unit, units};
use crate::cast::cast_array;
use crate::error::invalid_length;
use crate::function::Call;

/// A count as the call's `int` or `bigint`.
pub(super) fn count_result(
    call: &Call<'_>,
    mut value: impl FnMut(usize) -> Result<Option<usize>, SqlError>,
) -> Result<ArrayRef, SqlError> {
    let counts = call
        .primitive_result::<Int64Type>(|row| Ok(value(row)?.map(|count| i64::try_from(count).unwrap_or(i64::MAX))))?;
    cast_array(&counts, SqlType::BigInt, call.result_type, None, false)
}

/// Units without the spaces at the end; bytes of binary.
pub(super) fn len(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let arg = call.arg(0)?;
    if arg.sql_type.is_binary() {
        return datalength(call);
    }
    let texts = call.texts(0)?;
    count_result(call, |row| Ok(texts.get(row).map(|text| units(text.trim_end_matches(' ')))))
}

/// Bytes as SQL Server stores the value.
pub(super) fn datalength(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let arg = call.arg(0)?;
    if arg.sql_type.is_text() {
        let width = if arg.sql_type.is_national() { 2 } else { 1 };
        let texts = call.texts(0)?;
        let count = |text: &str| match width {
            2 => 2 * units(text),
            _ => text.chars().count(),
        };
        return count_result(call, |row| Ok(texts.get(row).map(count)));
    }
    let column = &arg.column;
    if let Some(binary) = column.array().as_binary_view_opt() {
        return count_result(call, |row| Ok((!column.is_null(row)).then(|| binary.value(column.row(row)).len())));
    }
    let fixed = usize::try_from(arg.sql_type.max_length_bytes()).unwrap_or(0);
    count_result(call, |row| Ok((!column.is_null(row)).then_some(fixed)))
}

pub(super) fn map(call: &Call<'_>, function: fn(&str) -> String) -> Result<ArrayRef, SqlError> {
    let texts = call.texts(0)?;
    call.text_result(|row| Ok(texts.get(row).map(|text| Cow::Owned(function(text)))))
}

/// Units `start..end` of a text.
fn slice(text: &str, start: usize, end: usize) -> &str {
    let from = byte_of_unit(text, start);
    let to = byte_of_unit(text, end).max(from);
    &text[from..to]
}

/// The units (or bytes) that `SUBSTRING(x, start, length)` means, from 0: a start before the text takes from the length.
fn window(start: i64, length: i64) -> (usize, usize) {
    let end = start.saturating_add(length).max(1) - 1;
    let start = start.max(1) - 1;
    (usize::try_from(start).unwrap_or(usize::MAX), usize::try_from(end.max(start)).unwrap_or(usize::MAX))
}

pub(super) fn substring(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (starts, lengths) = (call.integers(1)?, call.integers(2)?);
    let bounds = |row: usize| match starts.get(row).zip(lengths.get(row)) {
        Some((_, length)) if length < 0 => Err(invalid_length("substring")),
        Some((start, length)) => Ok(Some(window(start, length))),
        None => Ok(None),
    };
    let arg = call.arg(0)?;
    if let Some(binary) = arg.column.array().as_binary_view_opt() {
        let mut builder = BinaryViewBuilder::with_capacity(call.rows);
        for row in 0..call.rows {
            let bounds = bounds(row)?.filter(|_| !arg.column.is_null(row));
            builder.append_option(bounds.map(|(start, end)| {
                let bytes = binary.value(arg.column.row(row));
                &bytes[start.min(bytes.len())..end.min(bytes.len())]
            }));
        }
        return Ok(Arc::new(builder.finish()));
    }
    let texts = call.texts(0)?;
    call.text_result(|row| {
        let Some(text) = texts.get(row) else { return Ok(None) };
        Ok(bounds(row)?.map(|(start, end)| Cow::Borrowed(slice(text, start, end))))
    })
}

pub(super) fn left(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (texts, lengths) = (call.texts(0)?, call.integers(1)?);
    call.text_result(|row| match texts.get(row).zip(lengths.get(row)) {
        None => Ok(None),
        Some((text, length)) => {
            let length = usize::try_from(length).map_err(|_| invalid_length("left"))?;
            Ok(Some(Cow::Borrowed(slice(text, 0, length))))
        }
    })
}

pub(super) fn right(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (texts, lengths) = (call.texts(0)?, call.integers(1)?);
    call.text_result(|row| match texts.get(row).zip(lengths.get(row)) {
        None => Ok(None),
        Some((text, length)) => {
            let length = usize::try_from(length).map_err(|_| invalid_length("right"))?;
            let start = units(text).saturating_sub(length);
            Ok(Some(Cow::Borrowed(slice(text, start, usize::MAX))))
        }
    })
}

/// Removes spaces, or the characters of the second argument, from one end or both.
pub(super) fn trim(call: &Call<'_>, at_start: bool, at_end: bool) -> Result<ArrayRef, SqlError> {
    let texts = call.texts(0)?;
    let sets = if call.args.len() > 1 { Some(call.texts(1)?) } else { None };
    call.text_result(|row| {
        let set = match &sets {
            None => Some(" "),
            Some(sets) => sets.get(row),
        };
        let Some((mut text, set)) = texts.get(row).zip(set) else { return Ok(None) };
        let strip = |character: char| set.contains(character);
        if at_start {
            text = text.trim_start_matches(strip);
        }
        if at_end {
            text = text.trim_end_matches(strip);
        }
        Ok(Some(Cow::Borrowed(text)))
    })
}
