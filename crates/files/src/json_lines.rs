//! JSON lines: one object a line.
//!
//! The values of a line's properties become fields of text, which the columns of text files read: a string without its
//! quotes and escapes, anything else as the file has it. Lines of an array that is written with one object a line are
//! read, too: its brackets and commas are left out.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use hobt_base::SqlError;
use hobt_types::{MaxLength, SqlType};
use memchr::memchr;
use serde_json::value::RawValue;

use crate::infer::{Column, Inferred};
use crate::read::{BatchReader, FileRows, ReadRequest, next_batch};
use crate::rejected::{FaultKind, shown};
use crate::schema::{FileColumn, file_schema};
use crate::stretches::{Bounds, Stretches};
use crate::text::batch::{BatchBuilder, BlockFaults, RowPlace};
use crate::text::columns::Block;
use crate::text::fields::{Field, STRETCH_BYTES_MAX};
use crate::text::layout::TextLayout;
use crate::text::stretch_text::StretchText;

/// Rows of a batch, at most, and bytes of its values.
const BATCH_ROWS: usize = 4096;
const BATCH_BYTES: usize = 1 << 20;
/// Objects in each other that a path may lead through.
const DEPTH_MAX: usize = 64;

/// How lines are cut.
pub(crate) fn line_layout() -> TextLayout {
    TextLayout { field_end: b"\n".to_vec(), row_end: b"\n".to_vec(), strips_return: true, quote: None }
}

/// Where a column's values are in an object.
struct Wanted {
    /// Names from the outer object to the value.
    path: Vec<String>,
}

/// The rows of files of JSON lines, which workers share.
pub(crate) struct JsonRows {
    request: ReadRequest,
    projection: Vec<usize>,
    wanted: Vec<Wanted>,
    schema: SchemaRef,
    stretches: Stretches,
}

impl JsonRows {
    pub(crate) fn new(request: ReadRequest, projection: Vec<usize>) -> JsonRows {
        let columns: Vec<FileColumn> = projection.iter().map(|&place| request.columns[place].clone()).collect();
        let bounds =
            Bounds { last_row: request.last_row, row_bytes_max: request.row_bytes_max.min(STRETCH_BYTES_MAX / 2) };
        let stretches = Stretches::new(
            request.files.clone(),
            (request.code_page, true),
            Box::new(line_layout()),
            bounds,
            Arc::clone(&request.progress),
        );
        let wanted = columns.iter().map(|column| Wanted { path: path_of(column) }).collect();
        JsonRows { schema: file_schema(&columns), request, projection, wanted, stretches }
    }
}

/// The names of a path `$.a.b`; a column without one is its own name.
fn path_of(column: &FileColumn) -> Vec<String> {
    match &column.path {
        None => vec![column.name.clone()],
        Some(path) => {
            let path = path.strip_prefix("$.").unwrap_or(path);
            path.split('.').take(DEPTH_MAX).map(|name| name.trim_matches('"').to_owned()).collect()
        }
    }
}

impl FileRows for JsonRows {
    fn reader(self: Arc<Self>) -> Box<dyn BatchReader> {
        Box::new(JsonReader { rows: self, current: None })
    }
}

/// One worker's reading.
struct JsonReader {
    rows: Arc<JsonRows>,
    current: Option<StretchText>,
}

impl BatchReader for JsonReader {
    fn next(&mut self, most: usize) -> Result<Option<RecordBatch>, SqlError> {
        let rows = &self.rows;
        next_batch(&mut self.current, || rows.take(), |current| rows.batch(current, most))
    }
}

impl JsonRows {
    fn take(&self) -> Result<Option<StretchText>, SqlError> {
        let Some(stretch) = self.stretches.next()? else { return Ok(None) };
        let path = self.stretches.file(stretch.file).clone();
        StretchText::of(stretch, self.request.code_page, &line_layout(), &path).map(Some)
    }

    /// The next lines of a stretch; `None` at its end.
    fn batch(&self, current: &mut StretchText, most: usize) -> Result<Option<RecordBatch>, SqlError> {
        if current.at >= current.text.len() {
            return Ok(None);
        }
        let width = self.wanted.len().max(1);
        let mut values = String::new();
        let mut fields = Vec::new();
        let mut faults = BlockFaults::default();
        let mut places = Vec::new();
        while current.at < current.text.len()
            && places.len() < BATCH_ROWS.min(self.request.batch_rows).min(most)
            && values.len() < BATCH_BYTES
        {
            let start = current.at;
            let end =
                memchr(b'\n', &current.text.as_bytes()[start..]).map_or(current.text.len(), |found| start + found);
            current.at = end + 1;
            let row = current.row;
            current.row += 1;
            let line = object_of(&current.text[start..end]);
            if line.is_empty() || row < self.request.first_row || row > self.request.last_row {
                continue;
            }
            let begin = fields.len();
            fields.resize(begin + width, Field::default());
            if !self.line(line, &mut values, &mut fields[begin..]) {
                faults.add(places.len(), 0, FaultKind::NoObject, &shown(line));
            }
            // A rejected row keeps its line feed.
            places.push(RowPlace { row, start, end: current.at.min(current.text.len()) });
        }
        let is_ascii = values.is_ascii();
        let block = Block { text: &values, is_ascii, fields: &fields, width, quote: None };
        let builder = BatchBuilder {
            request: &self.request,
            projection: &self.projection,
            schema: &self.schema,
            file: self.stretches.file(current.file),
        };
        let numbered: Vec<usize> = (0..self.wanted.len()).collect();
        builder.build(&block, (&numbered, &places), faults, current).map(Some)
    }

    /// Puts the wanted values of a line's object into fields; whether it is one.
    fn line(&self, line: &str, values: &mut String, fields: &mut [Field]) -> bool {
        let Ok(object) = serde_json::from_str::<Object<'_>>(line) else { return false };
        for (wanted, field) in self.wanted.iter().zip(fields) {
            let Some(raw) = object.find(&wanted.path) else { continue };
            let start = values.len();
            match raw.as_bytes().first() {
                Some(b'"') => match serde_json::from_str::<Text<'_>>(raw) {
                    Ok(Text(text)) => values.push_str(&text),
                    Err(_) => return false,
                },
                Some(b'n') => continue,
                _ => values.push_str(raw),
            }
            *field = Field::text(start, values.len());
        }
        true
    }
}

/// A line without the brackets and commas of an array around it.
fn object_of(line: &str) -> &str {
    let line = line.trim().trim_end_matches(',').trim_end();
    if matches!(line, "[" | "]") { "" } else { line }
}

/// A JSON string, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'j>(#[serde(borrow)] Cow<'j, str>);

/// The properties of an object, in order; the values as the text has them.
struct Object<'j>(Vec<(Cow<'j, str>, &'j RawValue)>);

impl<'j> Object<'j> {
    /// The text of the value at a path.
    fn find(&self, path: &[String]) -> Option<&'j str> {
        let (name, rest) = path.split_first()?;
        let properties = || self.0.iter().rev();
        let found = properties().find(|(key, _)| key == name);
        // Names of columns have no case.
        let (_, value) = found.or_else(|| properties().find(|(key, _)| key.eq_ignore_ascii_case(name)))?;
        if rest.is_empty() {
            return Some(value.get());
        }
        serde_json::from_str::<Object<'j>>(value.get()).ok()?.find(rest)
    }
}

impl<'de> serde::Deserialize<'de> for Object<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Object<'de>, D::Error> {
        struct Properties;
        impl<'de> serde::de::Visitor<'de> for Properties {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut properties = Vec::new();
                while let Some((Text(key), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    properties.push((key, value));
                }
                Ok(Object(properties))
            }
        }
        deserializer.deserialize_map(Properties)
    }
}

/// The columns of JSON lines, from the first lines of a file.
pub(crate) fn infer_json(text: &str) -> Inferred {
    let mut names: Vec<String> = Vec::new();
    let mut columns: Vec<(Column, bool)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let (mut rows, mut bytes) = (0_u32, 0);
    for line in text.lines() {
        bytes += line.len() + 1;
        let Ok(object) = serde_json::from_str::<Object<'_>>(object_of(line)) else { continue };
        rows += 1;
        for (key, value) in object.0 {
            // Columns have names, and no case in them.
            if key.is_empty() {
                continue;
            }
            let place = *places.entry(key.to_lowercase()).or_insert_with(|| {
                names.push(key.to_string());
                columns.push((Column::new(), false));
                names.len() - 1
            });
            let (column, is_nested) = &mut columns[place];
            let raw = value.get();
            match raw.as_bytes().first() {
                Some(b'n') => {}
                Some(b'{' | b'[') => *is_nested = true,
                Some(b'"') => {
                    if let Ok(Text(text)) = serde_json::from_str::<Text<'_>>(raw) {
                        column.see(&text);
                    }
                }
                _ => column.see(raw),
            }
        }
    }
    let typed = |(column, is_nested): &(Column, bool)| match is_nested {
        true => SqlType::NVarChar(MaxLength::Max),
        false => column.sql_type(),
    };
    let columns = names.into_iter().zip(columns.iter().map(typed)).collect();
    Inferred { columns, has_header: false, row_bytes: (bytes as f64 / f64::from(rows.max(1))).max(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_into_objects_and_the_last_of_two_properties_counts() {
        let object: Object<'_> =
            serde_json::from_str(r#"{"a":{"b":{"c":1}},"x":"q","x":2,"n":null}"#).expect("an object");
        let path = |path: &[&str]| object.find(&path.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(path(&["a", "b", "c"]), Some("1"));
        assert_eq!(path(&["x"]), Some("2"));
        assert_eq!(path(&["a", "z"]), None);
        assert!(serde_json::from_str::<Object<'_>>("[1]").is_err());
    }

    #[test]
    fn columns_are_all_properties_of_the_sample() {
        let found = infer_json("[\n{\"id\":1,\"t\":\"x\"},\n{\"id\":2,\"tags\":[1,2],\"at\":\"2020-01-01\"}\n]\n");
        let columns: Vec<String> = found.columns.iter().map(|(name, sql_type)| format!("{name} {sql_type}")).collect();
        assert_eq!(columns, ["id int", "t varchar(10)", "tags nvarchar(max)", "at date"]);
    }
}
