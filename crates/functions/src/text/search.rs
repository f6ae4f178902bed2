//! Search in text under a collation, and code points.

use std::borrow::Cow;

use arrow::array::ArrayRef;
use arrow::datatypes::Int32Type;
use hobt_base::SqlError;
use hobt_types::Collation;

use super::code_page::{byte_of_unit, encode_char, units};
use super::part::count_result;
use crate::arguments::Numbers;
use crate::ascii::search::{Haystack, Needle};
use crate::ascii::{AsciiTexts, counts};
use crate::function::Call;
use crate::like::Pattern;
use crate::watch::Meter;

/// The occurrences of one text in another, from first to last, not overlapping.
///
/// Both are folded once, so that the search is a plain search of bytes, which is linear in all cases.
pub(super) struct Search<'t> {
    text: Cow<'t, str>,
    needle: Cow<'t, str>,
    /// The position in the folded text where the next search begins.
    at: usize,
    /// The positions in the folded text, and in the text, from which on their distance changes.
    shifts: Vec<(usize, usize)>,
}

/// The character in lower case, as the collations fold it. A character whose lower case is several characters is
/// unchanged.
fn fold(character: char) -> char {
    let mut lower = character.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(only), None) => only,
        _ => character,
    }
}

impl<'t> Search<'t> {
    /// Starts the search for `needle` in `text`. An empty needle is never found.
    pub(super) fn new(text: &'t str, needle: &'t str, collation: Collation) -> Search<'t> {
        let mut search = Search { text: Cow::Borrowed(text), needle: Cow::Borrowed(needle), at: 0, shifts: Vec::new() };
        if !collation.ignores_case() {
            return search;
        }
        search.needle = Cow::Owned(needle.chars().map(fold).collect());
        if text.is_ascii() {
            search.text = Cow::Owned(text.to_ascii_lowercase());
            return search;
        }
        let mut folded = String::with_capacity(text.len());
        for (at, character) in text.char_indices() {
            let other = fold(character);
            folded.push(other);
            if other.len_utf8() != character.len_utf8() {
                search.shifts.push((folded.len(), at + character.len_utf8()));
            }
        }
        search.text = Cow::Owned(folded);
        search
    }

    /// Converts a position in the folded text to one in the text.
    fn place(&self, folded: usize) -> usize {
        let after = self.shifts.partition_point(|(known, _)| *known <= folded);
        match after.checked_sub(1).map(|last| self.shifts[last]) {
            Some((from, to)) => to + (folded - from),
            None => folded,
        }
    }
}

/// The first byte and the end (exclusive) of each occurrence.
impl Iterator for Search<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        if self.needle.is_empty() {
            return None;
        }
        let start = self.at + self.text[self.at..].find(&*self.needle)?;
        self.at = start + self.needle.len();
        Some((self.place(start), self.place(self.at)))
    }
}

pub(super) fn charindex(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (needles, texts) = (call.texts(0)?, call.texts(1)?);
    let starts = if call.args.len() > 2 { Some(call.integers(2)?) } else { None };
    let start = starts.as_ref().map_or(Some(1), Numbers::constant);
    if let Some((needle, start)) = needles.constant().filter(|needle| needle.is_ascii()).zip(start)
        && let Some(ascii) = AsciiTexts::of_rows(texts.column(), call.rows)
    {
        let skipped = usize::try_from(start.saturating_sub(1)).unwrap_or(0);
        return charindex_in_ascii(call, needle, &ascii, skipped);
    }
    let mut meter = Meter::new();
    count_result(call, |row| {
        let start = match &starts {
            None => Some(1),
            Some(starts) => starts.get(row),
        };
        let Some(((needle, text), start)) = needles.get(row).zip(texts.get(row)).zip(start) else { return Ok(None) };
        let skipped = byte_of_unit(text, usize::try_from(start - 1).unwrap_or(0));
        meter.step(text.len())?;
        let found = Search::new(&text[skipped..], needle, call.collation).next();
        Ok(Some(found.map_or(0, |(at, _)| units(&text[..skipped + at]) + 1)))
    })
}

/// `CHARINDEX` of a constant in each text from byte `skipped` on, all ASCII.
fn charindex_in_ascii(call: &Call<'_>, needle: &str, texts: &AsciiTexts, skipped: usize) -> Result<ArrayRef, SqlError> {
    Meter::new().step(texts.bytes())?;
    let mut places = vec![0; call.rows];
    let needle = Needle::new(needle.as_bytes(), call.collation.ignores_case());
    if needle.length() > 0 {
        let haystack = Haystack::new(texts, skipped);
        haystack.first_in_each_row(&needle, |row, place| places[row] = skipped + place + 1);
    }
    counts(places.into_iter(), texts.nulls().cloned(), call.result_type)
}

pub(super) fn patindex(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let (patterns, texts) = (call.texts(0)?, call.texts(1)?);
    let mut compiled: Option<(String, Pattern)> = None;
    let mut meter = Meter::new();
    count_result(call, |row| {
        let Some((pattern, text)) = patterns.get(row).zip(texts.get(row)) else { return Ok(None) };
        let ready = match compiled.take() {
            Some((source, ready)) if source == pattern => ready,
            _ => Pattern::new(pattern, None, call.collation),
        };
        let place = ready.find(text, &mut meter)?;
        compiled = Some((pattern.to_string(), ready));
        Ok(Some(place))
    })
}

/// The byte of the first character in the code page.
pub(super) fn ascii(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let texts = call.texts(0)?;
    call.primitive_result::<Int32Type>(|row| {
        let first = texts.get(row).and_then(|text| text.chars().next());
        Ok(first.map(|character| i32::from(encode_char(character).unwrap_or(b'?'))))
    })
}

/// The first UTF-16 unit.
pub(super) fn unicode(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let texts = call.national_texts(0)?;
    call.primitive_result::<Int32Type>(|row| {
        Ok(texts.get(row).and_then(|text| text.encode_utf16().next()).map(i32::from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_text_whatever_folding_does_to_its_length() {
        let places = |text, needle| Search::new(text, needle, Collation::default()).collect::<Vec<_>>();
        assert_eq!(places("aXbxa", "x"), [(1, 2), (3, 4)]);
        assert_eq!(places("aaaa", "AA"), [(0, 2), (2, 4)]);
        assert_eq!(places("Été été", "É"), [(0, 2), (3, 5), (6, 8), (9, 11)]);
        // The Kelvin sign has three bytes, and its folded k one; the lower case of U+023A has one more.
        assert_eq!(places("\u{212A}a\u{23A}b\u{2C65}", "A"), [(3, 4)]);
        assert_eq!(places("\u{212A}a\u{23A}b\u{2C65}", "K"), [(0, 3)]);
        assert_eq!(places("\u{212A}a\u{23A}b\u{2C65}", "\u{23A}"), [(4, 6), (7, 10)]);
        assert_eq!(places("abc", ""), []);
        assert_eq!(Search::new("aAa", "A", Collation::Latin1GeneralBin2).collect::<Vec<_>>(), [(1, 2)]);
    }
}
