//! Search in text under the collation, and code points.

use arrow::array::ArrayRef;
use arrow::datatypes::Int32Type;
use hobt_base::SqlError;
use hobt_types::Collation;

use super::code_page::{byte_of_unit, encode_char, units};
use super::part::count_result;
use crate::function::Call;
use crate::like::Pattern;

/// The byte of the first place where `needle` stands in `text`, and the length of what stands there.
pub(super) fn find(text: &str, needle: &str, collation: Collation) -> Option<(usize, usize)> {
    if needle.is_empty() {
        return None;
    }
    if !collation.ignores_case() {
        return text.find(needle).map(|at| (at, needle.len()));
    }
    if text.is_ascii() && needle.is_ascii() {
        let needle = needle.as_bytes();
        let found = text.as_bytes().windows(needle.len()).position(|window| window.eq_ignore_ascii_case(needle));
        return found.map(|at| (at, needle.len()));
    }
    let folded = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<char>>();
    let wanted = folded(needle);
    text.char_indices().find_map(|(at, _)| {
        let mut seen = 0;
        for (offset, character) in text[at..].char_indices() {
            for lower in character.to_lowercase() {
                if wanted.get(seen) != Some(&lower) {
                    return None;
                }
                seen += 1;
            }
            if seen == wanted.len() {
                return Some((at, offset + character.len_utf8()));
            }
        }
        None
    })
}

pub(super) fn charindex(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (needles, texts) = (call.texts(0)?, call.texts(1)?);
    let starts = if call.args.len() > 2 { Some(call.integers(2)?) } else { None };
    count_result(call, |row| {
        let start = match &starts {
            None => Some(1),
            Some(starts) => starts.get(row),
        };
        let Some(((needle, text), start)) = needles.get(row).zip(texts.get(row)).zip(start) else { return Ok(None) };
        let skipped = byte_of_unit(text, usize::try_from(start - 1).unwrap_or(0));
        let found = find(&text[skipped..], needle, call.collation);
        Ok(Some(found.map_or(0, |(at, _)| units(&text[..skipped + at]) + 1)))
    })
}

pub(super) fn patindex(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (patterns, texts) = (call.texts(0)?, call.texts(1)?);
    let mut compiled: Option<(String, Pattern)> = None;
    count_result(call, |row| {
        let Some((pattern, text)) = patterns.get(row).zip(texts.get(row)) else { return Ok(None) };
        let ready = match compiled.take() {
            Some((source, ready)) if source == pattern => ready,
            _ => Pattern::new(pattern, None, call.collation),
        };
        let place = ready.find(text);
        compiled = Some((pattern.to_string(), ready));
        Ok(Some(place))
    })
}

/// The code page's byte of the first character.
pub(super) fn ascii(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let texts = call.texts(0)?;
    call.primitive_result::<Int32Type>(|row| {
        let first = texts.get(row).and_then(|text| text.chars().next());
        Ok(first.map(|character| i32::from(encode_char(character).unwrap_or(b'?'))))
    })
}

/// The first UTF-16 unit.
pub(super) fn unicode(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let texts = call.texts(0)?;
    call.primitive_result::<Int32Type>(|row| {
        Ok(texts.get(row).and_then(|text| text.encode_utf16().next()).map(i32::from))
    })
}
