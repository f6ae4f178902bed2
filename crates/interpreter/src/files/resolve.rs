//! Which files a source means, their columns, and the source of rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hobt_base::{SqlError, errors};
use hobt_binder::{Resolved, SourceColumn};
use hobt_catalog::{Table, name_equals};
use hobt_files::{
    CodePage, FileColumn, FileForm, FileKind, FileName, Header, ParquetColumn, ReadRequest, Rejections, files_of,
    infer_columns, infer_json_columns, parquet_schema,
};
use hobt_table::FileRead;
use hobt_tsql::ast::{FileSource, FileTarget};
use hobt_types::{Collation, SqlType};

use super::options::{FileOptions, Form};
use super::records::whole_shape;
use crate::names::{Names, invalid_object};

/// Bytes of a row, at most: what the longest value of a `max` type that files are full of needs, and little enough that
/// a quote that is left open is noticed.
const ROW_BYTES_MAX: usize = 256 << 20;

/// Columns, each with the collation of its text.
type Columns = (Vec<FileColumn>, Vec<Option<Collation>>);

/// The columns of a source and how its files are read.
pub(super) struct Shape {
    pub(super) form: FileForm,
    pub(super) columns: Vec<FileColumn>,
    pub(super) collations: Vec<Option<Collation>>,
    pub(super) fields: Option<usize>,
    pub(super) first_row: u64,
    pub(super) row_bytes: f64,
    /// The encoding of the text, if it is not the one of the options.
    pub(super) code_page: Option<CodePage>,
}

impl Names<'_> {
    /// The source of rows of files.
    pub(crate) fn files(&self, source: &FileSource, types: &[SqlType]) -> Result<Resolved, SqlError> {
        let options = FileOptions::read(&source.options)?;
        let mut files = Vec::new();
        for pattern in &source.files {
            let found = self.environment.instance.readable_files(Path::new(&pattern.path), &files_of);
            files.extend(found.map_err(|error| error.at(pattern.span.position))?);
        }
        let shape = self.shape(source, types, &options, &files)?;
        let error_file = match &options.error_file {
            Some((path, position)) => {
                let placed = self.environment.instance.writable_file(Path::new(path));
                Some(placed.map_err(|error| error.at(*position))?)
            }
            None => None,
        };
        let run = self.statement()?;
        let bytes: u64 = files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|found| found.len()).sum();
        let expected_rows = options.rows_expected.map_or(bytes as f64 / shape.row_bytes, |rows| rows as f64);
        let rejections = match self.file_batches {
            Some(batches) => Arc::clone(batches.rejections()),
            None => Arc::new(Rejections::new(options.max_errors)),
        };
        run.note_rejections(source.span.position.line, &rejections);
        let request = ReadRequest {
            files,
            form: shape.form,
            code_page: shape.code_page.unwrap_or_else(|| options.code_page()),
            columns: shape.columns,
            fields: shape.fields,
            first_row: shape.first_row,
            last_row: options.last_row,
            conditions: Vec::new(),
            // A statement of a load in batches reads no rows of the next.
            batch_rows: options.batch_rows.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX)),
            row_bytes_max: ROW_BYTES_MAX,
            error_file,
            batches: self.file_batches.cloned(),
            rejections,
            progress: Arc::clone(&self.state.progress),
        };
        let columns = request.columns.iter().zip(shape.collations).map(|(column, collation)| SourceColumn {
            name: column.name.clone(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation,
        });
        let columns = columns.collect();
        Ok(Resolved::Table { source: Arc::new(FileRead::new(request, run, expected_rows)), columns })
    }

    fn shape(
        &self,
        source: &FileSource,
        types: &[SqlType],
        options: &FileOptions,
        files: &[PathBuf],
    ) -> Result<Shape, SqlError> {
        let Some(first) = files.first() else { return Err(SqlError::internal("a source without files")) };
        let form = options.form.or_else(|| form_of(first)).unwrap_or(match &source.target {
            Some(target) if !target.is_copy => Form::Char,
            _ => Form::Csv,
        });
        match form {
            Form::Parquet => return self.parquet_shape(source, types, options, first),
            Form::JsonLines => return self.json_shape(source, types, options, first),
            Form::Native | Form::WideNative | Form::Described => return self.record_shape(source, form, options),
            Form::Clob | Form::NClob | Form::Blob => return whole_shape(source, form, first),
            Form::Char | Form::Csv => {}
        }
        let layout = options.layout(form);
        let first_row = options.first_row.unwrap_or(if options.has_header == Some(true) { 2 } else { 1 });
        let form = FileForm::Text(layout.clone());
        if let Some(target) = &source.target {
            let (columns, collations) = self.columns_of_target(target, options)?;
            let fields = target.fields;
            return Ok(Shape { form, columns, collations, fields, first_row, row_bytes: 100.0, code_page: None });
        }
        if !source.columns.is_empty() {
            let (mut columns, collations) = listed_columns(source, types)?;
            let has_ordinals = source.columns.iter().any(|column| column.ordinal.is_some());
            if options.has_header == Some(true) && !has_ordinals {
                let names = infer_columns(first, &layout, options.code_page(), Header::Yes)?.columns;
                for column in &mut columns {
                    let field = names.iter().position(|(name, _)| name_equals(name, &column.name));
                    column.field =
                        field.ok_or_else(|| errors::BULK_PARQUET_COLUMN.with([&first.display(), &column.name]))?;
                }
            }
            return Ok(Shape { form, columns, collations, fields: None, first_row, row_bytes: 100.0, code_page: None });
        }
        let header = match options.has_header {
            Some(true) => Header::Yes,
            Some(false) => Header::No,
            None if options.first_row.is_some() => Header::No,
            None => Header::Guess,
        };
        let inferred = infer_columns(first, &layout, options.code_page(), header)?;
        if inferred.columns.is_empty() {
            return Err(errors::BULK_WITHOUT_COLUMNS.with([&first.display()]));
        }
        let first_row = options.first_row.unwrap_or(if inferred.has_header { 2 } else { 1 });
        let fields = Some(inferred.columns.len());
        let column = |(field, (name, sql_type))| FileColumn { name, sql_type, nullable: true, field, path: None };
        let columns: Vec<FileColumn> = inferred.columns.into_iter().enumerate().map(column).collect();
        let collations = columns.iter().map(|column| collation_of(column.sql_type)).collect();
        Ok(Shape { form, columns, collations, fields, first_row, row_bytes: inferred.row_bytes, code_page: None })
    }

    /// Columns of JSON lines are found by their names, or by paths.
    fn json_shape(
        &self,
        source: &FileSource,
        types: &[SqlType],
        options: &FileOptions,
        first: &Path,
    ) -> Result<Shape, SqlError> {
        let (mut columns, mut collations) = match &source.target {
            Some(target) => self.columns_of_target(target, options)?,
            None => listed_columns(source, types)?,
        };
        let mut row_bytes = 100.0;
        if columns.is_empty() {
            let inferred = infer_json_columns(first, options.code_page())?;
            if inferred.columns.is_empty() {
                return Err(errors::BULK_WITHOUT_COLUMNS.with([&first.display()]));
            }
            row_bytes = inferred.row_bytes;
            let column = |(field, (name, sql_type))| FileColumn { name, sql_type, nullable: true, field, path: None };
            columns = inferred.columns.into_iter().enumerate().map(column).collect();
            collations = columns.iter().map(|column| collation_of(column.sql_type)).collect();
        }
        let (form, first_row) = (FileForm::JsonLines, options.first_row.unwrap_or(1));
        Ok(Shape { form, columns, collations, fields: None, first_row, row_bytes, code_page: None })
    }

    /// Columns of Parquet files are found by their names, or, if none of a table's names is there, by their places.
    fn parquet_shape(
        &self,
        source: &FileSource,
        types: &[SqlType],
        options: &FileOptions,
        first: &Path,
    ) -> Result<Shape, SqlError> {
        let found = parquet_schema(first)?;
        let place = |name: &str| found.columns.iter().position(|column| name_equals(&column.name, name));
        let missing = |name: &str| errors::BULK_PARQUET_COLUMN.with([&first.display(), &name]);
        let (mut columns, collations) = if let Some(target) = &source.target {
            self.columns_of_target(target, options)?
        } else if source.columns.is_empty() {
            let column = |(field, found): (usize, &ParquetColumn)| FileColumn {
                name: found.name.clone(),
                sql_type: found.sql_type,
                nullable: true,
                field,
                path: Some(found.name.clone()),
            };
            let columns: Vec<FileColumn> = found.columns.iter().enumerate().map(column).collect();
            let collations = columns.iter().map(|column| collation_of(column.sql_type)).collect();
            (columns, collations)
        } else {
            listed_columns(source, types)?
        };
        let by_place = source.target.is_some()
            && columns.iter().all(|column| place(&column.name).is_none())
            && columns.len() == found.columns.len();
        for (at, column) in columns.iter_mut().enumerate() {
            let listed = source.columns.get(at);
            if by_place
                || listed.is_some_and(|listed| listed.ordinal.is_some())
                || (listed.is_none() && source.target.is_none())
            {
                if column.field >= found.columns.len() {
                    return Err(missing(&column.name));
                }
                continue;
            }
            let name = listed.and_then(|listed| listed.path.as_deref()).unwrap_or(&column.name);
            column.field = place(name.trim_start_matches("$.")).ok_or_else(|| missing(name))?;
            column.path = Some(found.columns[column.field].name.clone());
        }
        if columns.is_empty() {
            return Err(errors::BULK_WITHOUT_COLUMNS.with([&first.display()]));
        }
        let bytes = std::fs::metadata(first).map_or(0, |found| found.len());
        let row_bytes = (bytes as f64 / (found.rows.max(1) as f64)).max(0.01);
        let (form, first_row) = (FileForm::Parquet, options.first_row.unwrap_or(1));
        Ok(Shape { form, columns, collations, fields: None, first_row, row_bytes, code_page: None })
    }

    /// The columns of a table that fields fill.
    pub(super) fn columns_of_target(&self, target: &FileTarget, options: &FileOptions) -> Result<Columns, SqlError> {
        let place = self.place(&target.name)?;
        let snapshot = place.database.snapshot();
        let table = snapshot.schema_id(&place.schema).and_then(|schema| snapshot.table(schema, &place.name));
        let table: &Arc<Table> = table.ok_or_else(|| invalid_object(&target.name))?;
        let mut columns = Vec::new();
        let mut collations = Vec::new();
        for (name, field) in &target.columns {
            let found = table.column_named(&name.value);
            let place = found.ok_or_else(|| errors::INVALID_COLUMN.with([&name.value]).at(name.position))?;
            let column = &table.columns[place];
            let has_default = column.default.is_some() && !options.keeps_nulls;
            let is_ignored = column.identity.is_some() && !options.keeps_identity;
            let nullable = column.nullable || has_default || is_ignored;
            let (name, sql_type) = (column.name.clone(), column.sql_type);
            columns.push(FileColumn { name, sql_type, nullable, field: *field, path: None });
            collations.push(column.collation);
        }
        Ok((columns, collations))
    }
}

/// The form that a file's name tells, whatever compresses it. Text is what the statement takes for text.
fn form_of(file: &Path) -> Option<Form> {
    match FileName::of(file).kind? {
        FileKind::Parquet => Some(Form::Parquet),
        FileKind::Json | FileKind::JsonLines => Some(Form::JsonLines),
        FileKind::Csv | FileKind::Tsv | FileKind::Psv => None,
    }
}

pub(super) fn collation_of(sql_type: SqlType) -> Option<Collation> {
    sql_type.is_text().then(Collation::default)
}

/// The columns that `WITH (…)` lists.
fn listed_columns(source: &FileSource, types: &[SqlType]) -> Result<Columns, SqlError> {
    let mut columns = Vec::with_capacity(types.len());
    let mut collations = Vec::with_capacity(types.len());
    for (at, (column, sql_type)) in source.columns.iter().zip(types).enumerate() {
        let field = match column.ordinal {
            None => at,
            Some(number @ 1..=32_767) => number as usize - 1,
            Some(_) => return Err(errors::BULK_ORDINAL.with([&column.name.value]).at(column.name.position)),
        };
        if let Some(path) = column.path.as_deref().filter(|path| path.contains(['[', ']', '"', '*'])) {
            let text = format!("A path that is more than names with points between them ('{path}')");
            return Err(SqlError::not_supported(text).at(column.name.position));
        }
        let collation = hobt_binder::collation_of(*sql_type, column.collation.as_ref())?;
        collations.push(collation.or_else(|| collation_of(*sql_type)));
        let (name, path) = (column.name.value.clone(), column.path.clone());
        columns.push(FileColumn { name, sql_type: *sql_type, nullable: column.nullable, field, path });
    }
    Ok((columns, collations))
}
