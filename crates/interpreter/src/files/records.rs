//! Files of records: bcp's native format, those that a format file describes, and those that are one value.

use std::path::Path;
use std::sync::Arc;

use hobt_base::{SqlError, errors};
use hobt_catalog::Table;
use hobt_files::format_file::{FileField, FileStyle, FormatFile, HostType, TableColumn};
use hobt_files::native::own_type;
use hobt_files::record::RecordLayout;
use hobt_files::{CodePage, FileColumn, FileForm, RecordForm, files_of, wide_code_page};
use hobt_tsql::ast::{FileSource, FileTarget};
use hobt_types::{MaxLength, SqlType};

use super::options::{FileOptions, Form};
use super::resolve::{Shape, collation_of};
use crate::environment::Environment;
use crate::names::{Names, invalid_object};

/// The format file that options name.
pub(super) fn format_file(environment: &Environment, options: &FileOptions) -> Result<Option<FormatFile>, SqlError> {
    let Some((path, position)) = &options.format_file else { return Ok(None) };
    let read = || {
        let files = environment.instance.readable_files(Path::new(path), &files_of)?;
        let file = files.first().ok_or_else(|| errors::BULK_FILE_MISSING.with([path]))?;
        let not_read = |error| errors::BULK_FILE_NOT_READ.with([&file.display(), &error]);
        // A file that is too large is refused by its length, before it is read.
        let length = std::fs::metadata(file).map_err(not_read)?.len();
        if length > hobt_files::format_file::FORMAT_FILE_BYTES_MAX as u64 {
            return Err(errors::FORMAT_FILE_TOO_LARGE.with([&file.display()]));
        }
        FormatFile::parse(&std::fs::read(file).map_err(not_read)?, &file.display().to_string())
    };
    read().map(Some).map_err(|error| error.at(*position))
}

impl Names<'_> {
    /// How files of records are read.
    pub(super) fn record_shape(
        &self,
        source: &FileSource,
        form: Form,
        options: &FileOptions,
    ) -> Result<Shape, SqlError> {
        let described = format_file(self.environment, options)?;
        let format = match (&described, &source.target) {
            (Some(format), _) => format.clone(),
            (None, Some(target)) => {
                let style = if form == Form::Native { FileStyle::Native } else { FileStyle::WideNative };
                FormatFile::for_table(&self.columns_of_file(target)?, &style)
            }
            (None, None) => return Err(errors::BULK_SHAPE_UNKNOWN.error()),
        };
        let (columns, collations) = match &source.target {
            Some(target) => self.columns_of_target(target, options)?,
            None => {
                let columns = rowset_columns(&format);
                let collations = columns.iter().map(|column| collation_of(column.sql_type)).collect();
                (columns, collations)
            }
        };
        let code_page = |field: &FileField| {
            // That of its collation, or else the options'.
            let named = field.code_page().and_then(|number| CodePage::named(&number.to_string()));
            named.unwrap_or(options.code_page())
        };
        let code_pages = format.fields.iter().map(code_page).collect();
        let form = FileForm::Records(RecordForm { layout: RecordLayout::new(&format)?, code_pages });
        let first_row = options.first_row.unwrap_or(1);
        Ok(Shape { form, columns, collations, fields: None, first_row, row_bytes: 100.0, code_page: None })
    }

    /// The columns of a table's native file.
    fn columns_of_file(&self, target: &FileTarget) -> Result<Vec<TableColumn>, SqlError> {
        let place = self.place(&target.name)?;
        let snapshot = place.database.snapshot();
        let table = snapshot.schema_id(&place.schema).and_then(|schema| snapshot.table(schema, &place.name));
        let table: &Arc<Table> = table.ok_or_else(|| invalid_object(&target.name))?;
        let column = |column: &hobt_catalog::TableColumn| TableColumn {
            name: column.name.clone(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: column.collation.map(|collation| collation.name().to_string()),
        };
        Ok(table.columns.iter().filter(|column| column.computed.is_none()).map(column).collect())
    }
}

/// The columns of a format file for a query: those of its rowset, or else one for each field that fills a column.
fn rowset_columns(format: &FormatFile) -> Vec<FileColumn> {
    if !format.columns.is_empty() {
        let column = |column: &hobt_files::format_file::RowsetColumn| FileColumn {
            name: column.name.clone(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            field: column.field,
            path: None,
        };
        return format.columns.iter().map(column).collect();
    }
    let filled = format.fields.iter().enumerate().filter(|(_, field)| field.column.is_some());
    let mut numbered: Vec<(u32, FileColumn)> = filled
        .map(|(at, field)| {
            let (name, sql_type) = (field.column_name.clone(), type_of(field));
            (field.column.unwrap_or(0), FileColumn { name, sql_type, nullable: true, field: at, path: None })
        })
        .collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, column)| column).collect()
}

/// The type that holds the values of a field's host type.
fn type_of(field: &FileField) -> SqlType {
    let limited = |most: u32| match u16::try_from(field.length) {
        Ok(length) if length > 0 && u32::from(length) <= most => MaxLength::Limited(length),
        _ => MaxLength::Max,
    };
    match field.host {
        HostType::Char => SqlType::VarChar(limited(8000)),
        HostType::NChar => SqlType::NVarChar(match field.length {
            0 => MaxLength::Max,
            bytes => u16::try_from(bytes / 2)
                .ok()
                .filter(|n| (1..=4000).contains(n))
                .map_or(MaxLength::Max, MaxLength::Limited),
        }),
        HostType::Binary => SqlType::VarBinary(limited(8000)),
        // The digits of decimals stand in front of each value.
        host => own_type(host, SqlType::Decimal { precision: 38, scale: 10 }),
    }
}

/// A file as one value.
pub(super) fn whole_shape(source: &FileSource, form: Form, first: &Path) -> Result<Shape, SqlError> {
    if source.target.is_some() {
        return Err(errors::SYNTAX.with([&"SINGLE_CLOB"]));
    }
    let (sql_type, code_page) = match form {
        Form::Blob => (SqlType::VarBinary(MaxLength::Max), None),
        Form::NClob => {
            let mut start = [0; 2];
            let read = std::fs::File::open(first).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start));
            let code_page = read.ok().and_then(|()| wide_code_page(&start));
            let code_page = code_page.ok_or_else(|| errors::SINGLE_NCLOB_NOT_UNICODE.with([&first.display()]))?;
            (SqlType::NVarChar(MaxLength::Max), Some(code_page))
        }
        _ => (SqlType::VarChar(MaxLength::Max), None),
    };
    let column = FileColumn { name: "BulkColumn".to_owned(), sql_type, nullable: true, field: 0, path: None };
    let collations = vec![collation_of(sql_type)];
    let form = FileForm::Whole;
    Ok(Shape { form, columns: vec![column], collations, fields: None, first_row: 1, row_bytes: 1e9, code_page })
}
