//! Functions that build text from other text: concatenation, replacement, repetition, quoting.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryViewBuilder, StringViewBuilder};
use hobt_base::SqlError;
use hobt_types::{MaxLength, SqlType};

use super::code_page::{decode_byte, slice_units, units};
use super::search::Search;
use crate::arguments::Texts;
use crate::ascii::search::Needle;
use crate::ascii::{self, AsciiTexts, limit_of};
use crate::cast::{cast_array, fit};
use crate::column::Column;
use crate::function::Call;
use crate::type_rules::declared_length;
use crate::watch::{Meter, VALUE_BYTES_MAX};

/// How many bytes `REPLACE` appends to its result between checks for more memory.
const REPLACE_CHECK_BYTES: usize = 1 << 20;

/// The maximum length in bytes of a text built by a function: that of a type that is not `max`, or 2³¹ − 1 for `max`.
fn limit(sql_type: SqlType) -> usize {
    match declared_length(sql_type) {
        Some(MaxLength::Limited(limit)) => usize::from(limit),
        _ => VALUE_BYTES_MAX,
    }
}

/// `left + right` of two texts or two binaries.
pub(crate) fn concatenate(
    left: (&Column, SqlType),
    right: (&Column, SqlType),
    result: SqlType,
    rows: usize,
) -> Result<ArrayRef, SqlError> {
    if result.is_binary() {
        let bytes = |column: &Column| {
            column.array().as_binary_view_opt().cloned().ok_or_else(|| SqlError::internal("binary in another carrier"))
        };
        let (a, b) = (bytes(left.0)?, bytes(right.0)?);
        let mut builder = BinaryViewBuilder::with_capacity(rows);
        let mut meter = Meter::new();
        for row in 0..rows {
            if left.0.is_null(row) || right.0.is_null(row) {
                builder.append_null();
                continue;
            }
            let length = a.value(left.0.row(row)).len() + b.value(right.0.row(row)).len();
            meter.build(length)?;
            meter.value(length)?;
            let mut value = [a.value(left.0.row(row)), b.value(right.0.row(row))].concat();
            value.truncate(limit(result));
            builder.append_value(value);
        }
        return Ok(Arc::new(builder.finish()));
    }
    let varying =
        if result.is_national() { SqlType::NVarChar(MaxLength::Max) } else { SqlType::VarChar(MaxLength::Max) };
    let as_text = |(column, from): (&Column, SqlType)| {
        if from.is_text() {
            Ok(Arc::clone(column.array()))
        } else {
            cast_array(column.array(), from, varying, None, false)
        }
    };
    let (a, b) = (as_text(left)?, as_text(right)?);
    let operands = [left.0.with_array(Arc::clone(&a)), right.0.with_array(Arc::clone(&b))];
    if let Some(array) = concatenate_ascii(operands.iter(), rows, result, false)? {
        return Ok(array);
    }
    let (a, b) = (a.as_string_view(), b.as_string_view());
    let mut builder = StringViewBuilder::with_capacity(rows);
    let mut text = String::new();
    let mut meter = Meter::new();
    for row in 0..rows {
        if left.0.is_null(row) || right.0.is_null(row) {
            builder.append_null();
            continue;
        }
        let (a, b) = (a.value(left.0.row(row)), b.value(right.0.row(row)));
        meter.build(a.len() + b.len())?;
        meter.value(a.len() + b.len())?;
        text.clear();
        text.push_str(a);
        text.push_str(b);
        builder.append_value(fit(&text, result));
    }
    Ok(Arc::new(builder.finish()))
}

/// The concatenation of operands that are all ASCII; `None` if one is not, or the result is padded or long.
fn concatenate_ascii<'c>(
    operands: impl Iterator<Item = &'c Column>,
    rows: usize,
    result: SqlType,
    null_is_empty: bool,
) -> Result<Option<ArrayRef>, SqlError> {
    let Some(limit) = limit_of(result) else { return Ok(None) };
    match operands.map(AsciiTexts::of).collect::<Option<Vec<AsciiTexts>>>() {
        Some(operands) => ascii::build::concatenate(&operands, rows, limit, null_is_empty),
        None => Ok(None),
    }
}

/// NULL is treated as empty text.
pub(super) fn concat(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let texts = (0..call.args.len()).map(|index| call.texts(index)).collect::<Result<Vec<_>, _>>()?;
    if let Some(array) = concatenate_ascii(texts.iter().map(Texts::column), call.rows, call.result_type, true)? {
        return Ok(array);
    }
    let mut meter = Meter::new();
    call.text_result(|row| {
        meter.value(texts.iter().filter_map(|texts| texts.get(row)).map(str::len).sum())?;
        Ok(Some(Cow::Owned(texts.iter().filter_map(|texts| texts.get(row)).collect())))
    })
}

/// NULLs are skipped, with their separator.
pub(super) fn concat_ws(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let texts = (0..call.args.len()).map(|index| call.texts(index)).collect::<Result<Vec<_>, _>>()?;
    let mut meter = Meter::new();
    call.text_result(|row| {
        let separator = texts[0].get(row).unwrap_or("");
        let parts: Vec<&str> = texts[1..].iter().filter_map(|texts| texts.get(row)).collect();
        meter.value(parts.iter().map(|part| part.len() + separator.len()).sum())?;
        Ok(Some(Cow::Owned(parts.join(separator))))
    })
}

pub(super) fn replace(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (texts, patterns, replacements) = (call.texts(0)?, call.texts(1)?, call.texts(2)?);
    if let Some((pattern, replacement)) = patterns.constant().zip(replacements.constant())
        && let Some(array) = replace_in_ascii(call, &texts, pattern, replacement)?
    {
        return Ok(array);
    }
    let limit = limit(call.result_type);
    let mut meter = Meter::new();
    call.text_result(|row| {
        let all = texts.get(row).zip(patterns.get(row)).zip(replacements.get(row));
        let Some(((text, pattern), replacement)) = all else { return Ok(None) };
        meter.value(text.len())?;
        let (mut out, mut copied, mut checked) = (String::new(), 0, 0);
        for (start, end) in Search::new(text, pattern, call.collation) {
            out.push_str(&text[copied..start]);
            out.push_str(replacement);
            copied = end;
            // For a type that is not max the rest would be cut anyway: a unit has at most three bytes.
            if limit < VALUE_BYTES_MAX && out.len() > limit * 3 {
                break;
            }
            if out.len() - checked >= REPLACE_CHECK_BYTES {
                checked = out.len();
                meter.value(checked)?;
            }
        }
        meter.value(out.len() + text.len() - copied)?;
        out.push_str(&text[copied..]);
        Ok(Some(Cow::Owned(out)))
    })
}

/// `REPLACE` with a constant pattern and replacement; `None` if not all is ASCII, or it is too long.
fn replace_in_ascii(
    call: &Call<'_>,
    texts: &Texts,
    pattern: &str,
    replacement: &str,
) -> Result<Option<ArrayRef>, SqlError> {
    if !pattern.is_ascii() || !replacement.is_ascii() {
        return Ok(None);
    }
    let Some((texts, limit)) = texts.ascii(call).zip(limit_of(call.result_type)) else { return Ok(None) };
    Meter::new().step(texts.bytes())?;
    let needle = Needle::new(pattern.as_bytes(), call.collation.ignores_case());
    ascii::build::replace(&texts, &needle, replacement.as_bytes(), limit)
}

/// NULL for a negative count; the result is cut to 8,000 bytes unless the text is of a `max` type.
pub(super) fn replicate(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (texts, counts) = (call.texts(0)?, call.integers(1)?);
    let limit = limit(call.result_type);
    let mut meter = Meter::new();
    call.text_result(|row| {
        let Some((text, count)) = texts.get(row).zip(counts.get(row)) else { return Ok(None) };
        let Ok(count) = usize::try_from(count) else { return Ok(None) };
        // One repetition more than fits is enough: the rest is cut anyway.
        let count = count.min(limit / units(text).max(1) + 1);
        meter.value(text.len().saturating_mul(count))?;
        Ok(Some(Cow::Owned(text.repeat(count))))
    })
}

pub(super) fn space(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let counts = call.integers(0)?;
    call.text_result(|row| {
        let count = counts.get(row).and_then(|count| usize::try_from(count).ok());
        Ok(count.map(|count| Cow::Owned(" ".repeat(count.min(8000)))))
    })
}

/// `STUFF(text, start, length, replacement)`: NULL if start is not in the text or length is negative.
pub(super) fn stuff(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    if call.result_type.is_binary() {
        return stuff_binary(call);
    }
    let (texts, starts, lengths, replacements) = (call.texts(0)?, call.integers(1)?, call.integers(2)?, call.texts(3)?);
    let mut meter = Meter::new();
    call.text_result(|row| {
        let all = texts.get(row).zip(starts.get(row)).zip(lengths.get(row));
        let Some(((text, start), length)) = all else { return Ok(None) };
        let (Ok(start), Ok(length)) = (usize::try_from(start), usize::try_from(length)) else { return Ok(None) };
        if start == 0 || start > units(text) {
            return Ok(None);
        }
        meter.value(text.len() + replacements.get(row).unwrap_or("").len())?;
        let head = slice_units(text, 0, start - 1);
        let tail = slice_units(text, (start - 1).saturating_add(length), usize::MAX);
        Ok(Some(Cow::Owned([&head, replacements.get(row).unwrap_or(""), &tail].concat())))
    })
}

/// `STUFF` of binary values: bytes are counted, not characters.
fn stuff_binary(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (values, replacements) = (call.binaries(0)?, call.binaries(3)?);
    let (starts, lengths) = (call.integers(1)?, call.integers(2)?);
    let mut builder = BinaryViewBuilder::with_capacity(call.rows);
    let mut meter = Meter::new();
    for row in 0..call.rows {
        let all = values.get(row).zip(starts.get(row)).zip(lengths.get(row));
        let places = all.and_then(|((value, start), length)| {
            let (start, length) = (usize::try_from(start).ok()?, usize::try_from(length).ok()?);
            (1..=value.len()).contains(&start).then(|| (value, start - 1, length))
        });
        let Some((value, start, length)) = places else {
            builder.append_null();
            continue;
        };
        let replacement = replacements.get(row).unwrap_or_default();
        meter.value(value.len() + replacement.len())?;
        let tail = &value[start.saturating_add(length).min(value.len())..];
        let mut stuffed = [&value[..start], replacement, tail].concat();
        stuffed.truncate(limit(call.result_type));
        meter.build(stuffed.len())?;
        builder.append_value(stuffed);
    }
    Ok(Arc::new(builder.finish()))
}

/// Replaces each character of the second argument by the one at the same position in the third.
pub(super) fn translate(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (texts, from, to) = (call.texts(0)?, call.texts(1)?, call.texts(2)?);
    call.text_result(|row| {
        let Some(((text, from), to)) = texts.get(row).zip(from.get(row)).zip(to.get(row)) else { return Ok(None) };
        let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
        if from.len() != to.len() {
            return Err(hobt_base::errors::TRANSLATE_LENGTHS.error());
        }
        let same = |a: char, b: char| a == b || call.collation.ignores_case() && a.to_lowercase().eq(b.to_lowercase());
        let map = |character: char| from.iter().position(|f| same(*f, character)).map_or(character, |at| to[at]);
        Ok(Some(Cow::Owned(text.chars().map(map).collect())))
    })
}

/// A float as text with a width (10) and decimals (0), right-aligned; asterisks if the whole part does not fit.
pub(super) fn str_of_float(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let values = call.floats(0)?;
    let number = |index: usize| if call.args.len() > index { call.integers(index).map(Some) } else { Ok(None) };
    let (widths, decimals) = (number(1)?, number(2)?);
    call.text_result(|row| {
        let width = widths.as_ref().map_or(Some(10), |widths| widths.get(row));
        let decimals = decimals.as_ref().map_or(Some(0), |decimals| decimals.get(row));
        let Some(((value, width), decimals)) = values.get(row).zip(width).zip(decimals) else { return Ok(None) };
        let (Ok(width @ 1..=8000), Ok(decimals)) = (usize::try_from(width), usize::try_from(decimals)) else {
            return Ok(None);
        };
        let whole = format!("{:.0}", value.trunc()).len();
        if whole > width {
            return Ok(Some(Cow::Owned("*".repeat(width))));
        }
        // The width limits the number of decimals, including the point.
        let decimals = decimals.min(16).min(width.saturating_sub(whole + 1));
        let scale = 10f64.powi(i32::try_from(decimals).unwrap_or(0));
        let rounded = (value * scale).round() / scale;
        let rounded = if rounded.is_finite() { rounded } else { value };
        let text = format!("{rounded:>width$.decimals$}");
        // Rounding may have carried into one more digit before the point.
        Ok(Some(Cow::Owned(if text.len() > width { "*".repeat(width) } else { text })))
    })
}

pub(super) fn char_of_code(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let codes = call.integers(0)?;
    call.text_result(|row| {
        let byte = codes.get(row).and_then(|code| u8::try_from(code).ok());
        Ok(byte.map(|byte| Cow::Owned(decode_byte(byte).to_string())))
    })
}

pub(super) fn nchar_of_code(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let codes = call.integers(0)?;
    call.text_result(|row| {
        let code = codes.get(row).and_then(|code| u16::try_from(code).ok());
        // A lone surrogate becomes U+FFFD, as everywhere in hobt's UTF-8.
        let character = |code: u16| char::from_u32(u32::from(code)).unwrap_or(char::REPLACEMENT_CHARACTER);
        Ok(code.map(|code| Cow::Owned(character(code).to_string())))
    })
}

/// `[name]` with `]` doubled, or with another pair of quotes; NULL for a name over 128 characters or an unknown quote.
pub(super) fn quotename(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let names = call.national_texts(0)?;
    let quotes = if call.args.len() > 1 { Some(call.texts(1)?) } else { None };
    call.text_result(|row| {
        let quote = quotes.as_ref().map_or(Some("["), |quotes| quotes.get(row));
        let Some((name, quote)) = names.get(row).zip(quote) else { return Ok(None) };
        let (open, close) = match quote.chars().next() {
            Some('[' | ']') => ('[', ']'),
            Some('(' | ')') => ('(', ')'),
            Some('<' | '>') => ('<', '>'),
            Some('{' | '}') => ('{', '}'),
            Some(same @ ('\'' | '"' | '`')) => (same, same),
            _ => return Ok(None),
        };
        if units(name) > 128 {
            return Ok(None);
        }
        let doubled = name.replace(close, &format!("{close}{close}"));
        Ok(Some(Cow::Owned(format!("{open}{doubled}{close}"))))
    })
}
