//! `STRING_SPLIT`: a text's parts as a list.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Builder, ListBuilder, StringViewBuilder};
use hobt_base::{SqlError, errors};

use super::code_page::units;
use crate::column::Column;
use crate::watch::Meter;

/// The parts of each text between separators, one list per row; NULL for NULL.
///
/// # Errors
/// 214 if the separator is not one character, 701 if there is no memory for the parts.
pub fn split(texts: &Column, separators: &Column, rows: usize) -> Result<ArrayRef, SqlError> {
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    let mut meter = Meter::new();
    each(texts, separators, rows, |parts| {
        if let Some((text, separator)) = parts {
            // A view of each part, and the bytes of parts longer than twelve bytes.
            meter.build(16 * (text.matches(separator).count() + 1) + text.len())?;
            text.split(separator).for_each(|part| lists.values().append_value(part));
        }
        lists.append(parts.is_some());
        Ok(())
    })?;
    Ok(Arc::new(lists.finish()))
}

/// The numbers of the parts of [`split`], from 1.
///
/// # Errors
/// As [`split`].
pub fn split_ordinals(texts: &Column, separators: &Column, rows: usize) -> Result<ArrayRef, SqlError> {
    let mut lists = ListBuilder::new(Int64Builder::new());
    let mut meter = Meter::new();
    each(texts, separators, rows, |parts| {
        if let Some((text, separator)) = parts {
            let count = text.matches(separator).count() + 1;
            meter.build(8 * count)?;
            (1..=count).for_each(|place| lists.values().append_value(i64::try_from(place).unwrap_or(i64::MAX)));
        }
        lists.append(parts.is_some());
        Ok(())
    })?;
    Ok(Arc::new(lists.finish()))
}

/// Each row's text and separator.
fn each(
    texts: &Column,
    separators: &Column,
    rows: usize,
    mut take: impl FnMut(Option<(&str, &str)>) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let other = || SqlError::internal("text in another carrier");
    let text = texts.array().as_string_view_opt().ok_or_else(other)?;
    let separator = separators.array().as_string_view_opt().ok_or_else(other)?;
    for row in 0..rows {
        if separators.is_null(row) {
            return Err(errors::SEPARATOR_TYPE.error());
        }
        let separator = separator.value(separators.row(row));
        if units(separator) != 1 {
            return Err(errors::SEPARATOR_TYPE.error());
        }
        take((!texts.is_null(row)).then(|| (text.value(texts.row(row)), separator)))?;
    }
    Ok(())
}
