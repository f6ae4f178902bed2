//! Conversions of text to text: it is cut to the target's length, padded for `char` and `nchar`, and characters that
//! the code page of `varchar` does not have become `?`.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use hobt_base::SqlError;
use hobt_types::{MaxLength, SqlType};

use crate::ascii::{AsciiTexts, limit_of};
use crate::carrier::not_the_carrier;
use crate::column::Column;
use crate::text::code_page::{encode_char, slice_units, units};
use crate::type_rules::declared_length;

/// `text` as a value of the text type `to`.
pub(crate) fn fit(text: &str, to: SqlType) -> Cow<'_, str> {
    let mut fitted = Cow::Borrowed(text);
    if !to.is_national() && !text.is_ascii() && text.chars().any(|character| encode_char(character).is_none()) {
        // A character beyond the basic plane is two units, so two question marks.
        let replace = |character: char| match encode_char(character) {
            Some(_) => (character, 1),
            None => ('?', character.len_utf16()),
        };
        let replaced = text.chars().map(replace).flat_map(|(character, count)| std::iter::repeat_n(character, count));
        fitted = Cow::Owned(replaced.collect());
    }
    let Some(MaxLength::Limited(limit)) = declared_length(to) else {
        return fitted;
    };
    let limit = usize::from(limit);
    if fitted.len() > limit {
        fitted = match fitted {
            Cow::Borrowed(text) => slice_units(text, 0, limit),
            Cow::Owned(text) => Cow::Owned(slice_units(&text, 0, limit).into_owned()),
        };
    }
    if matches!(to, SqlType::Char(_) | SqlType::NChar(_)) {
        let missing = limit.saturating_sub(units(&fitted));
        if missing > 0 {
            let text = fitted.to_mut();
            text.extend(std::iter::repeat_n(' ', missing));
        }
    }
    fitted
}

/// Whether no value of `from` changes in the conversion to `to`, judged by the types alone or by the longest value.
fn is_free(array: &ArrayRef, from: SqlType, to: SqlType) -> bool {
    if matches!(to, SqlType::Char(_) | SqlType::NChar(_)) {
        return false;
    }
    let texts = array.as_string_view();
    let same_alphabet = to.is_national() || !from.is_national() || texts.is_ascii();
    let fits = match (declared_length(from), declared_length(to)) {
        (_, Some(MaxLength::Max) | None) => true,
        (Some(MaxLength::Limited(from)), Some(MaxLength::Limited(to))) if from <= to => true,
        // A text has at least as many bytes as units.
        (_, Some(MaxLength::Limited(to))) => texts.lengths().all(|length| length <= u32::from(to)),
    };
    same_alphabet && fits
}

pub(super) fn text_to_text(array: &ArrayRef, from: SqlType, to: SqlType) -> Result<ArrayRef, SqlError> {
    let texts = array.as_string_view_opt().ok_or_else(|| not_the_carrier(array, from))?;
    if is_free(array, from, to) {
        return Ok(Arc::clone(array));
    }
    if let Some(limit) = limit_of(to)
        && let Some(ascii) = AsciiTexts::of(&Column::Array(Arc::clone(array)))
    {
        return ascii.cut(limit);
    }
    let mut builder = StringViewBuilder::with_capacity(texts.len());
    for text in texts {
        builder.append_option(text.map(|text| fit(text, to)));
    }
    Ok(Arc::new(builder.finish()))
}
