//! The definitions of external tables and file formats as the catalog has them: texts of statements.

use std::fmt::Write;

use hobt_base::{SqlError, errors};
use hobt_binder::{Resolved, SourceColumn, TypePlace, collation_of, sql_type};
use hobt_tsql::ast::{
    CreateExternalTable, FileOption, FilePattern, FileSource, FileSourceColumn, Identifier, OptionItem, Span,
    StatementKind,
};
use hobt_types::{Collation, SqlType};

use super::options::{ExternalOptions, item, reading_of_format, text_value};
use crate::files::options::text;
use crate::names::Names;
use crate::place::Place;

/// What the definition of an external table says.
#[derive(Clone, PartialEq, Debug)]
pub struct ExternalTable {
    /// Its columns.
    pub columns: Vec<SourceColumn>,
    /// Where its files are: an absolute path, or a pattern of such.
    pub location: String,
    /// The name of its file format, if it has one.
    pub file_format: Option<String>,
    /// Rows that may be left out because they cannot be read.
    pub rejected_max: i64,
}

/// What the definition of a file format says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExternalFormat {
    /// `DELIMITEDTEXT`, `PARQUET` or `JSON`.
    pub format_type: String,
    /// What ends a field, as it was written.
    pub field_terminator: Option<String>,
    /// What ends a row, as it was written.
    pub row_terminator: Option<String>,
    /// The quote.
    pub string_delimiter: Option<String>,
    /// The encoding, as it was written.
    pub encoding: Option<String>,
    /// The first row that has values, from 1.
    pub first_row: Option<i32>,
    /// How files are compressed, as it was written.
    pub data_compression: Option<String>,
}

impl ExternalTable {
    /// Reads a definition.
    ///
    /// # Errors
    /// Error 50000 if the text is none of an external table.
    pub fn read(definition: &str) -> Result<ExternalTable, SqlError> {
        let create = parsed(definition)?;
        let options = ExternalOptions::of_table(&create.options)?;
        let (columns, types) = listed_columns(&create)?;
        let column = |(column, sql_type): (FileSourceColumn, SqlType)| {
            let collation = collation_of(sql_type, column.collation.as_ref())?;
            let collation = collation.or_else(|| sql_type.is_text().then(Collation::default));
            Ok(SourceColumn { name: column.name.value, sql_type, nullable: column.nullable, collation })
        };
        let columns = columns.into_iter().zip(types).map(column).collect::<Result<_, SqlError>>()?;
        let rejected = OptionItem::find(&options.reading, "MAXERRORS").and_then(|item| text(item).ok());
        let rejected_max = rejected.and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(ExternalTable { columns, location: options.location, file_format: options.file_format, rejected_max })
    }
}

impl ExternalFormat {
    /// Reads a definition.
    ///
    /// # Errors
    /// Error 50000 if the text is none of a file format.
    pub fn read(definition: &str) -> Result<ExternalFormat, SqlError> {
        let reading = format_options(definition)?;
        let said = |name: &str| OptionItem::find(&reading, name).and_then(|item| text(item).ok());
        let form = said("FORMAT").unwrap_or_default();
        Ok(ExternalFormat {
            format_type: if form == "CSV" { "DELIMITEDTEXT".to_owned() } else { form },
            field_terminator: said("FIELDTERMINATOR"),
            row_terminator: said("ROWTERMINATOR"),
            string_delimiter: said("FIELDQUOTE"),
            encoding: said("ENCODING"),
            first_row: said("FIRSTROW").and_then(|row| row.parse().ok()),
            data_compression: said("DATA_COMPRESSION"),
        })
    }
}

/// The options of the file format with this definition, as options of `OPENROWSET`.
pub(super) fn format_options(definition: &str) -> Result<Vec<OptionItem>, SqlError> {
    match statement(definition)? {
        StatementKind::CreateExternalFileFormat(create) => reading_of_format(&create.options),
        _ => Err(damaged()),
    }
}

/// The text that the catalog has of an external table.
pub(super) fn definition_text(
    place: &Place,
    columns: &[SourceColumn],
    location: &str,
    options: &ExternalOptions,
) -> String {
    let quoted = |name: &str| Identifier { quoted: true, ..Identifier::new(name) };
    let mut text = format!("CREATE EXTERNAL TABLE {}.{} (", quoted(&place.schema), quoted(&place.name));
    for (at, column) in columns.iter().enumerate() {
        let comma = if at > 0 { ", " } else { "" };
        write!(text, "{comma}{} {}", quoted(&column.name), column.sql_type).expect("a String takes all text");
        if let Some(collation) = column.collation {
            text.push_str(" COLLATE ");
            text.push_str(collation.name());
        }
        text.push_str(if column.nullable { " NULL" } else { " NOT NULL" });
    }
    write!(text, ") WITH ({}", item("LOCATION", text_value(location))).expect("a String takes all text");
    let named = options.file_format.as_ref().map(|name| item("FILE_FORMAT", text_value(name)));
    for option in named.iter().chain(&options.reading) {
        write!(text, ", {option}").expect("a String takes all text");
    }
    text.push(')');
    text
}

/// The columns that a statement lists, with their types.
///
/// # Errors
/// 102 for a column without a type; 243, 1001, 2750 for its type; 448 for its collation; 2705 for a name that is there
/// twice.
pub(super) fn listed_columns(create: &CreateExternalTable) -> Result<(Vec<FileSourceColumn>, Vec<SqlType>), SqlError> {
    let (mut columns, mut types) = (Vec::new(), Vec::new());
    for column in &create.columns {
        let name = &column.name;
        let Some(data_type) = &column.data_type else {
            return Err(errors::SYNTAX.with([&name.value]).at(name.position));
        };
        if columns.iter().any(|known: &FileSourceColumn| hobt_catalog::name_equals(&known.name.value, &name.value)) {
            return Err(errors::DUPLICATE_COLUMN.with([&name.value, &create.name.name.value]).at(name.position));
        }
        types.push(sql_type(data_type, TypePlace::Declaration)?);
        columns.push(FileSourceColumn {
            name: name.clone(),
            data_type: data_type.clone(),
            collation: column.collation.clone(),
            ordinal: None,
            path: None,
            nullable: column.nullable != Some(false),
        });
    }
    Ok((columns, types))
}

/// The files of an external table as a source of rows.
pub(super) fn source_of(options: &ExternalOptions, columns: Vec<FileSourceColumn>) -> FileSource {
    let span = Span { position: options.position, ..Span::default() };
    FileSource {
        files: vec![FilePattern { path: options.location.clone(), span }],
        options: options.reading.iter().cloned().map(FileOption::Item).collect(),
        columns,
        target: None,
        alias: None,
        span,
    }
}

impl Names<'_> {
    /// The rows of the external table with this definition.
    ///
    /// # Errors
    /// Those of reading files, without a position, which would be one of the definition.
    pub(crate) fn external_table(&self, definition: &str) -> Result<Resolved, SqlError> {
        let read = || {
            let create = parsed(definition)?;
            let options = ExternalOptions::of_table(&create.options)?;
            let (columns, types) = listed_columns(&create)?;
            self.apart().files(&source_of(&options, columns), &types)
        };
        read().map_err(|error: SqlError| SqlError { position: None, ..error })
    }
}

fn parsed(definition: &str) -> Result<CreateExternalTable, SqlError> {
    match statement(definition)? {
        StatementKind::CreateExternalTable(create) => Ok(*create),
        _ => Err(damaged()),
    }
}

fn statement(definition: &str) -> Result<StatementKind, SqlError> {
    let batch = hobt_tsql::parse_batch(definition)?;
    batch.statements.into_iter().next().map(|statement| statement.kind).ok_or_else(damaged)
}

fn damaged() -> SqlError {
    SqlError::internal("the definition of an external object is another statement's text")
}
