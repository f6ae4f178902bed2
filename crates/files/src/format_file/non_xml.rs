//! Format files in lines: a version, a number of fields, and a line for each field.

use hobt_base::{SqlError, errors};

use super::{FIELDS_MAX, FileField, FormatFile, HostType, code_page, terminator, text};

/// Versions of bcp whose files have this form, by the number before the point.
const VERSIONS: std::ops::RangeInclusive<u32> = 4..=17;
/// The longest name of a column that is kept.
const NAME_BYTES_MAX: usize = 1024;

/// Reads a format file in lines.
///
/// # Errors
/// 4820 to 4829, 4839, 4882.
pub(super) fn parse(bytes: &[u8], file: &str) -> Result<FormatFile, SqlError> {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let version = lines.next().and_then(version).ok_or_else(|| errors::FORMAT_FILE_VERSION.with([&file]))?;
    if !VERSIONS.contains(&version) {
        return Err(errors::FORMAT_FILE_VERSION.with([&file]));
    }
    let count = lines.next().and_then(number::<usize>).ok_or_else(|| errors::FORMAT_FILE_COUNT.with([&file]))?;
    if !(1..=FIELDS_MAX).contains(&count) {
        return Err(errors::FORMAT_FILE_COLUMNS.with([&file]));
    }
    let mut fields = Vec::new();
    for line in lines.by_ref().take(count) {
        let mut line = Line { rest: line };
        let place = line.word().and_then(number::<usize>).filter(|place| (1..=count).contains(place));
        let Some(place) = place else { return Err(errors::FORMAT_FILE_COLUMN_NUMBER.with([&file])) };
        fields.push((place, field(&mut line, place, file)?));
    }
    if lines.next().is_some() {
        return Err(errors::FORMAT_FILE_COLUMNS.with([&file]));
    }
    // Each place once.
    fields.sort_by_key(|(place, _)| *place);
    if fields.len() != count || fields.iter().zip(1..).any(|((place, _), wanted)| *place != wanted) {
        return Err(errors::FORMAT_FILE_COLUMN_NUMBER.with([&file]));
    }
    let fields: Vec<FileField> = fields.into_iter().map(|(_, field)| field).collect();
    check_columns(&fields, file)?;
    Ok(FormatFile { fields, columns: Vec::new() })
}

/// The number before the point of a version.
fn version(line: &[u8]) -> Option<u32> {
    let point = line.iter().position(|byte| *byte == b'.')?;
    number::<u32>(&line[point + 1..])?;
    number(&line[..point])
}

/// A number in decimal digits alone.
fn number<N: std::str::FromStr>(digits: &[u8]) -> Option<N> {
    let are_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if are_digits { std::str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

/// No column is filled by two fields.
fn check_columns(fields: &[FileField], file: &str) -> Result<(), SqlError> {
    let mut filled: Vec<(u32, usize)> =
        fields.iter().enumerate().filter_map(|(place, field)| Some((field.column?, place + 1))).collect();
    filled.sort_unstable();
    match filled.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(errors::FORMAT_FILE_TARGET.with([&pair[1].1, &file])),
        None => Ok(()),
    }
}

/// The rest of a line, of which words are taken.
struct Line<'b> {
    rest: &'b [u8],
}

impl<'b> Line<'b> {
    /// The next word between spaces; `None` at the end.
    fn word(&mut self) -> Option<&'b [u8]> {
        self.rest = self.rest.trim_ascii_start();
        let end = self.rest.iter().position(u8::is_ascii_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// What stands between quotes next, escapes as they are written; `None` if no quote does.
    fn quoted(&mut self) -> Option<&'b [u8]> {
        let inside = self.rest.trim_ascii_start().strip_prefix(b"\"")?;
        let mut at = 0;
        while *inside.get(at)? != b'"' {
            // An escape is a backslash and a byte, whatever they mean.
            at += if inside[at] == b'\\' { 2 } else { 1 };
        }
        self.rest = &inside[at + 1..];
        Some(&inside[..at])
    }

    /// What is left, without spaces around it.
    fn remainder(&self) -> &'b [u8] {
        self.rest.trim_ascii()
    }
}

/// The field that a line says behind its number.
fn field(line: &mut Line<'_>, place: usize, file: &str) -> Result<FileField, SqlError> {
    let host = line.word().and_then(|word| HostType::from_name(std::str::from_utf8(word).ok()?));
    let host = host.ok_or_else(|| errors::FORMAT_FILE_TYPE.with([&place, &file]))?;
    let prefix_length = line.word().and_then(number::<u8>).filter(|length| matches!(length, 0 | 1 | 2 | 4 | 8));
    let prefix_length = prefix_length.ok_or_else(|| errors::FORMAT_FILE_PREFIX.with([&place, &file]))?;
    let length = line.word().and_then(number::<u32>).filter(|length| i32::try_from(*length).is_ok());
    let length = length.ok_or_else(|| errors::FORMAT_FILE_LENGTH.with([&place, &file]))?;
    let wide = host == HostType::NChar;
    let terminator = line.quoted().and_then(|written| terminator::parse(written, wide));
    let terminator = terminator.ok_or_else(|| errors::FORMAT_FILE_TERMINATOR.with([&place, &file]))?;
    let column = line.word().and_then(number::<u32>);
    let column = column.ok_or_else(|| errors::FORMAT_FILE_TARGET.with([&place, &file]))?;
    let (column_name, collation) =
        name_and_collation(line).ok_or_else(|| errors::FORMAT_FILE_NAME.with([&place, &file]))?;
    let collation = collation.filter(|_| host.is_text());
    if collation.as_deref().is_some_and(|name| !code_page::is_collation(name, host)) {
        return Err(errors::FORMAT_FILE_COLLATION.with([&place, &file]));
    }
    // Types of fixed length have their own; what a file says of them is nothing that SQL Server looks at.
    let length = host.bytes().map_or(length, |bytes| bytes as u32);
    if prefix_length == 0 && terminator.is_empty() {
        if length == 0 {
            return Err(errors::FORMAT_FILE_ENDLESS.with([&place, &file]));
        }
        if wide && !length.is_multiple_of(2) {
            return Err(errors::FORMAT_FILE_LENGTH.with([&place, &file]));
        }
    }
    let column = (column > 0).then_some(column);
    Ok(FileField { host, prefix_length, length, terminator, collation, column, column_name })
}

/// The end of a line: a name, quoted if it has spaces, and a collation, which files of SQL Server 7.0 lack. A name with
/// spaces and no quotes reaches up to the last word. `None` if there is no name.
fn name_and_collation(line: &mut Line<'_>) -> Option<(String, Option<String>)> {
    let (name, collation) = match line.quoted() {
        Some(name) => (unquoted(name), line.remainder()),
        None => {
            let rest = line.remainder();
            match rest.iter().rposition(u8::is_ascii_whitespace) {
                Some(space) => (text(rest[..space].trim_ascii_end()).into_owned(), &rest[space + 1..]),
                None => (text(rest).into_owned(), &rest[rest.len()..]),
            }
        }
    };
    let collation = collation.strip_prefix(b"\"").unwrap_or(collation);
    let collation = collation.strip_suffix(b"\"").unwrap_or(collation).trim_ascii();
    let is_valid = !name.is_empty() && name.len() <= NAME_BYTES_MAX && collation.len() <= NAME_BYTES_MAX;
    is_valid.then(|| (name, (!collation.is_empty()).then(|| text(collation).into_owned())))
}

/// A quoted name: a backslash stands before quotes and backslashes.
fn unquoted(written: &[u8]) -> String {
    let mut name = String::new();
    let written = text(written);
    let mut characters = written.chars();
    while let Some(character) = characters.next() {
        name.push(if character == '\\' { characters.next().unwrap_or('\\') } else { character });
    }
    name
}
