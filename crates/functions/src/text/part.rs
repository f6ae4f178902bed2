//! Lengths and parts of text and binary.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryViewBuilder};
use arrow::datatypes::Int64Type;
use hobt_base::SqlError;
use hobt_types::SqlType;

use super::code_page::{encode_char, slice_units, units};
use crate::arguments::Texts;
use crate::ascii::AsciiTexts;
use crate::cast::cast_array;
use crate::error::{invalid_length, invalid_length_of_right};
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

/// The number of units without trailing spaces; bytes for binary.
pub(super) fn len(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let arg = call.arg(0)?;
    if arg.sql_type.is_binary() {
        return datalength(call);
    }
    let texts = call.texts(0)?;
    if let Some(ascii) = AsciiTexts::of_rows(texts.column(), call.rows) {
        return ascii.lengths(call.result_type);
    }
    count_result(call, |row| Ok(texts.get(row).map(|text| units(text.trim_end_matches(' ')))))
}

/// The number of bytes that SQL Server stores for the value.
pub(super) fn datalength(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let arg = call.arg(0)?;
    if arg.sql_type.is_text() {
        let width = if arg.sql_type.is_national() { 2 } else { 1 };
        let texts = call.texts(0)?;
        if let Some(ascii) = AsciiTexts::of_rows(texts.column(), call.rows) {
            return ascii.data_lengths(width, call.result_type);
        }
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

pub(super) fn reverse(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let texts = call.texts(0)?;
    call.text_result(|row| Ok(texts.get(row).map(|text| Cow::Owned(text.chars().rev().collect()))))
}

/// A character in the other case. It stays unchanged if its other case has another length, because no text may grow, or
/// if a text of code page 1252 could not hold the other case.
fn in_case<C: ExactSizeIterator<Item = char>>(character: char, sql_type: SqlType, case: fn(char) -> C) -> char {
    let mut other = case(character);
    match (other.len(), other.next()) {
        (1, Some(other)) if character.len_utf16() == 1 && (sql_type.is_national() || encode_char(other).is_some()) => {
            other
        }
        _ => character,
    }
}

pub(super) fn upper(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let texts = call.texts(0)?;
    if let Some(ascii) = texts.ascii(call) {
        return ascii.in_case(true);
    }
    let upper = |character| in_case(character, call.result_type, char::to_uppercase);
    call.text_result(|row| Ok(texts.get(row).map(|text| Cow::Owned(text.chars().map(upper).collect()))))
}

pub(super) fn lower(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let texts = call.texts(0)?;
    if let Some(ascii) = texts.ascii(call) {
        return ascii.in_case(false);
    }
    let lower = |character| in_case(character, call.result_type, char::to_lowercase);
    call.text_result(|row| Ok(texts.get(row).map(|text| Cow::Owned(text.chars().map(lower).collect()))))
}

/// The units (or bytes) that `SUBSTRING(x, start, length)` selects, from 0. A start before the text shortens the
/// result.
fn window(start: i64, length: i64) -> (usize, usize) {
    let end = start.saturating_add(length).max(1) - 1;
    let start = start.max(1) - 1;
    (usize::try_from(start).unwrap_or(usize::MAX), usize::try_from(end.max(start)).unwrap_or(usize::MAX))
}

pub(super) fn substring(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (starts, lengths) = (call.integers(1)?, call.integers(2)?);
    let constant = starts.constant().zip(lengths.constant()).filter(|(_, length)| *length >= 0);
    let bounds = |row: usize| match starts.get(row).zip(lengths.get(row)) {
        Some((_, length)) if length < 0 => Err(invalid_length()),
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
    if let Some(ascii) = texts.ascii(call) {
        return match constant.map(|(start, length)| window(start, length)) {
            Some(bounds) => ascii.parts(|_| Ok(Some(bounds))),
            None => ascii.parts(bounds),
        };
    }
    call.text_result(|row| {
        let Some(text) = texts.get(row) else { return Ok(None) };
        Ok(bounds(row)?.map(|(start, end)| slice_units(text, start, end)))
    })
}

pub(super) fn left(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (texts, lengths) = (call.texts(0)?, call.integers(1)?);
    let constant = lengths.constant();
    if let Some(ascii) = texts.ascii(call) {
        return ascii.parts(|row| {
            let Some(length) = constant.or_else(|| lengths.get(row)) else { return Ok(None) };
            let length = usize::try_from(length).map_err(|_| invalid_length())?;
            Ok(Some((0, length)))
        });
    }
    call.text_result(|row| match texts.get(row).zip(lengths.get(row)) {
        None => Ok(None),
        Some((text, length)) => {
            let length = usize::try_from(length).map_err(|_| invalid_length())?;
            Ok(Some(slice_units(text, 0, length)))
        }
    })
}

pub(super) fn right(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (texts, lengths) = (call.texts(0)?, call.integers(1)?);
    let constant = lengths.constant();
    if let Some(ascii) = texts.ascii(call) {
        return ascii.parts(|row| {
            let Some(length) = constant.or_else(|| lengths.get(row)) else { return Ok(None) };
            let length = usize::try_from(length).map_err(|_| invalid_length_of_right())?;
            Ok(Some((ascii.length(row).saturating_sub(length), usize::MAX)))
        });
    }
    call.text_result(|row| match texts.get(row).zip(lengths.get(row)) {
        None => Ok(None),
        Some((text, length)) => {
            let length = usize::try_from(length).map_err(|_| invalid_length_of_right())?;
            let start = units(text).saturating_sub(length);
            Ok(Some(slice_units(text, start, usize::MAX)))
        }
    })
}

/// Removes spaces, or the characters of the second argument, from one end or both.
pub(super) fn trim(call: &Call<'_>, at_start: bool, at_end: bool) -> Result<ArrayRef, SqlError> {
    let texts = call.texts(0)?;
    let sets = if call.args.len() > 1 { Some(call.texts(1)?) } else { None };
    let constant = sets.as_ref().map_or(Some(" "), Texts::constant);
    if let Some((set, ascii)) = constant.and_then(|set| Some((set, texts.ascii(call)?))) {
        // ASCII texts contain no other characters of the set.
        let set = set.bytes().filter(u8::is_ascii).fold(0, |bits, byte| bits | 1 << byte);
        return ascii.trimmed(set, at_start, at_end);
    }
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
