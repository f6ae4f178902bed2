//! `CREATE EXTERNAL TABLE AS SELECT`: the rows of a query go to a new file, and the table is that file.
//!
//! The statement defines the table first, so that two of them do not write for one name. Then it writes the file under
//! a temporary name. The last thing that it does before it commits is to give the file its name. What fails before
//! leaves neither; a crash between the two leaves a file of which no table knows.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use hobt_base::{SqlError, errors};
use hobt_binder::{BindOptions, Binder, ResultColumn, SourceColumn};
use hobt_catalog::{ModuleKind, name_equals};
use hobt_engine::{ModuleDefinition, Replace};
use hobt_files::write::{Column, CsvOptions, FileWriter, Format, JsonShape, Timestamps, WriteError, WriteOptions};
use hobt_files::{Compression, FileKind, FileName};
use hobt_operators::Reader;
use hobt_table::Writes;
use hobt_tsql::ast::{CreateExternalTable, FileOption, OptionItem, OptionValue, Query};

use super::definition::definition_text;
use super::location::{NewLocation, kind_of};
use super::options::{ExternalOptions, item, text_value};
use crate::event::DoneKind;
use crate::failure::Failure;
use crate::files::options::{FileOptions, Form, text};
use crate::interpreter::{Interpreter, Outcome};
use crate::place::Place;
use crate::query::{assigns, into_of, one_stream};

impl Interpreter<'_> {
    /// Writes the rows of a query to a new file and defines the table that has them.
    pub(super) fn external_table_as(
        &mut self,
        create: &CreateExternalTable,
        query: &Query,
        place: &Place,
        mut options: ExternalOptions,
    ) -> Result<Outcome, Failure> {
        if assigns(query) || into_of(query).is_some() {
            let what = "A query that assigns variables or has INTO, in CREATE EXTERNAL TABLE,";
            return Err(Failure::of_binding(SqlError::not_supported(what)));
        }
        let position = options.position;
        let written = write_options(&mut options).map_err(|error| Failure::of_binding(error.at(position)))?;
        let kind = match written.format {
            Format::Csv(_) => FileKind::Csv,
            Format::Json(_) => FileKind::JsonLines,
            Format::Parquet(_) => FileKind::Parquet,
        };
        let new = NewLocation::make(&self.environment.instance, &options.location, kind, written.compression);
        let mut new = new.map_err(|error| error.at(position))?;
        let run = self.new_run(None)?;
        let is_published = Cell::new(false);
        let rows = self.in_run(&run, |this| {
            let bind = |binder: &Binder<'_>| binder.bind_query(query);
            let prepared = this.prepare(&run, BindOptions::default(), &bind, &one_stream)?;
            let columns = columns_of(prepared.columns(), create)?;
            let location = new.location.to_str().ok_or_else(|| not_unicode(&options.location))?;
            let definition = ModuleDefinition {
                schema: place.schema.clone(),
                name: place.name.clone(),
                kind: ModuleKind::ExternalTable,
                definition: definition_text(place, &columns, location, &options),
                replace: Replace::No,
            };
            run.uses_database(&place.database);
            let created = place.database.database().create_module(&run.context, &definition);
            created.map_err(|error| error.to_sql_error().at(create.name.position()))?;
            let column = |column: SourceColumn| Column {
                name: column.name,
                sql_type: column.sql_type,
                nullable: column.nullable,
            };
            let columns = columns.into_iter().map(column).collect();
            let refused = |error| cannot_write(&options.location, error).at(position);
            let mut writer = FileWriter::create(&new.file, columns, &written).map_err(refused)?;
            this.follow(&run, &prepared, Writes::InBulk, 1.0);
            let executor = Arc::clone(&this.environment.executor);
            let mut take = |batch: RecordBatch| {
                let rows = batch.num_rows();
                writer.write(batch).map_err(refused)?;
                run.note_written(rows);
                Ok(())
            };
            let rows = prepared.run(Reader::Statement, &run, &executor, &mut take)?;
            let finished = writer.finish().map_err(refused)?;
            if this.is_cancelled() {
                return Err(Failure::cancelled());
            }
            finished.publish().map_err(refused)?;
            is_published.set(true);
            Ok(rows)
        });
        if rows.is_ok() {
            new.keep();
        } else if is_published.get() {
            // It could not commit. Where the file cannot be removed, the error that is reported is the greater one.
            let _removed = std::fs::remove_file(&new.file);
        }
        Ok(Outcome::counted(DoneKind::SelectInto, rows?))
    }
}

/// The columns of the table: those of the query, under the names that the statement lists, if it does.
///
/// # Errors
/// 1038 for a column without a name, 2705 for a name that is there twice, 8158 and 8159 for a list of another length.
fn columns_of(given: &[ResultColumn], create: &CreateExternalTable) -> Result<Vec<SourceColumn>, SqlError> {
    let listed = &create.columns;
    let table = &create.name.name.value;
    if let Some(typed) = listed.iter().find(|column| column.data_type.is_some()) {
        return Err(errors::SYNTAX.with([&typed.name.value]).at(typed.name.position));
    }
    if !listed.is_empty() && listed.len() != given.len() {
        let entry = match given.len() > listed.len() {
            true => errors::TOO_MANY_COLUMNS_FOR_LIST,
            false => errors::TOO_FEW_COLUMNS_FOR_LIST,
        };
        return Err(entry.with([table]));
    }
    let mut columns: Vec<SourceColumn> = Vec::with_capacity(given.len());
    for (at, column) in given.iter().enumerate() {
        let name = listed.get(at).map(|listed| listed.name.value.clone()).or_else(|| column.name.clone());
        let name = name.filter(|name| !name.is_empty()).ok_or_else(|| errors::EMPTY_COLUMN_NAME.error())?;
        if columns.iter().any(|known| name_equals(&known.name, &name)) {
            return Err(errors::DUPLICATE_COLUMN.with([&name, table]));
        }
        let (sql_type, nullable, collation) = (column.sql_type, column.nullable, column.collation);
        columns.push(SourceColumn { name, sql_type, nullable, collation });
    }
    Ok(columns)
}

/// How the file is written, so that the options read it again. What the file's name says is added to them.
///
/// # Errors
/// 46505 if nothing says the format; 46504 for an option that does not go with a new file; those of the options.
fn write_options(options: &mut ExternalOptions) -> Result<WriteOptions, SqlError> {
    let by_name = kind_of(&options.location);
    if OptionItem::find(&options.reading, "FORMAT").is_none() {
        let form = match by_name {
            Some(FileKind::Csv | FileKind::Tsv | FileKind::Psv) => "CSV",
            Some(FileKind::Json | FileKind::JsonLines) => "JSON",
            Some(FileKind::Parquet) => "PARQUET",
            None => return Err(errors::EXTERNAL_OPTION_MISSING.with([&"FILE_FORMAT"])),
        };
        options.reading.push(item("FORMAT", text_value(form)));
        let delimiter = by_name.and_then(FileKind::delimiter);
        let is_said = OptionItem::find(&options.reading, "FIELDTERMINATOR").is_some();
        if let Some(delimiter) = delimiter.filter(|_| !is_said) {
            options.reading.push(item("FIELDTERMINATOR", text_value(delimiter)));
        }
    }
    let read: Vec<FileOption> = options.reading.iter().cloned().map(FileOption::Item).collect();
    let read = FileOptions::read(&read)?;
    let form = read.form.ok_or_else(|| SqlError::internal("options without a form"))?;
    if !read.is_utf8() {
        return Err(SqlError::not_supported("CREATE EXTERNAL TABLE AS SELECT in another encoding than UTF-8"));
    }
    if matches!(form, Form::Parquet | Form::JsonLines) && read.first_row.is_some_and(|row| row > 1) {
        // The table would hide rows that were just written.
        return Err(errors::EXTERNAL_OPTION_VALUE.with([&"FIRST_ROW"]));
    }
    let format = match form {
        Form::Parquet => Format::Parquet(Timestamps::Exact),
        Form::JsonLines if by_name == Some(FileKind::Json) => Format::Json(JsonShape::Array),
        Form::JsonLines => Format::Json(JsonShape::Lines),
        _ => Format::Csv(csv_options(&read, form)?),
    };
    let compression = compression_of(options, &format)?;
    Ok(WriteOptions { compression, ..WriteOptions::new(format) })
}

fn csv_options(read: &FileOptions, form: Form) -> Result<CsvOptions, SqlError> {
    let layout = read.layout(form);
    let text =
        |bytes: Vec<u8>, name: &str| String::from_utf8(bytes).map_err(|_| errors::EXTERNAL_OPTION_VALUE.with([&name]));
    let has_header = match (read.has_header, read.first_row) {
        (None, None | Some(1)) | (Some(false), None | Some(1)) => false,
        (None | Some(true), Some(2)) | (Some(true), None) => true,
        _ => return Err(errors::EXTERNAL_OPTION_VALUE.with([&"FIRST_ROW"])),
    };
    let quote = layout.quote.ok_or_else(|| errors::EXTERNAL_OPTION_VALUE.with([&"STRING_DELIMITER"]))?;
    Ok(CsvOptions {
        delimiter: text(layout.field_end, "FIELD_TERMINATOR")?,
        quote,
        row_end: text(layout.row_end, "ROW_TERMINATOR")?,
        has_header,
    })
}

/// How the file is compressed: as `DATA_COMPRESSION` says, or its name. Parquet is always compressed inside.
fn compression_of(options: &ExternalOptions, format: &Format) -> Result<Compression, SqlError> {
    let of_name = || match kind_of(&options.location) {
        Some(_) => FileName::of(Path::new(&options.location)).compression,
        None => Compression::None,
    };
    let Some(item) = OptionItem::find(&options.reading, "DATA_COMPRESSION") else { return Ok(of_name()) };
    let wrong = || errors::EXTERNAL_OPTION_VALUE.with([&"DATA_COMPRESSION"]).at(item.span.position);
    let said = match &item.value {
        OptionValue::Literal(_) | OptionValue::Word(_) => text(item)?.to_ascii_lowercase(),
        _ => return Err(wrong()),
    };
    // Hadoop's names of codecs are those of classes.
    let codec = said.rsplit('.').next().unwrap_or_default().trim_end_matches("codec");
    match (codec, format) {
        ("none" | "gzip" | "zstd" | "zstandard" | "snappy", Format::Parquet(_)) => Ok(of_name()),
        ("none", _) => Ok(Compression::None),
        ("gzip", _) => Ok(Compression::Gzip),
        ("zstd" | "zstandard", _) => Ok(Compression::Zstd),
        _ => Err(wrong()),
    }
}

/// The error for a file that cannot be written.
fn cannot_write(location: &str, error: WriteError) -> SqlError {
    match error {
        WriteError::Exists(_) => errors::EXTERNAL_LOCATION_EXISTS.with([&location]),
        WriteError::Unfit(text) => errors::EXTERNAL_LOCATION.with([&location, &text]),
        WriteError::Io { path, error } => errors::EXTERNAL_FILE_NOT_WRITTEN.with([&path.display(), &error]),
        WriteError::Internal(error) => error,
    }
}

/// 15860.
pub(super) fn not_unicode(location: &str) -> SqlError {
    errors::EXTERNAL_LOCATION.with([&location, &"its path is not Unicode text"])
}
