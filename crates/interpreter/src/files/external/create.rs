//! `CREATE EXTERNAL TABLE` over files that are there, and `CREATE EXTERNAL FILE FORMAT`.

use std::cell::RefCell;
use std::path::Path;

use hobt_base::{SqlError, errors, number};
use hobt_binder::{Resolved, SourceColumn};
use hobt_catalog::{ModuleKind, SYS_SCHEMA};
use hobt_engine::{DatabaseUse, ModuleDefinition, Replace};
use hobt_files::{FileForm, files_of};
use hobt_table::FileRead;
use hobt_tsql::ast::{
    CreateExternalFileFormat, CreateExternalTable, FileOption, Identifier, Literal, OptionItem, OptionValue,
};

use super::definition::{definition_text, format_options, listed_columns, source_of};
use super::export::not_unicode;
use super::options::{ExternalOptions, item, reading_of_format};
use crate::failure::Failure;
use crate::files::options::FileOptions;
use crate::interpreter::{Interpreter, Outcome};
use crate::place::Place;

impl Interpreter<'_> {
    /// Runs `CREATE EXTERNAL TABLE`.
    pub(crate) fn create_external_table(&mut self, create: &CreateExternalTable) -> Result<Outcome, Failure> {
        let place = self.place(&create.name).map_err(Failure::of_binding)?;
        if create.name.name.value.starts_with('#') {
            let what = SqlError::not_supported("A temporary external table").at(create.name.position());
            return Err(Failure::of_binding(what));
        }
        let find = |name: &Identifier| file_format(&place.database, name);
        let options = ExternalOptions::read(&create.options, &find).map_err(Failure::of_binding)?;
        match &create.query {
            Some(query) => self.external_table_as(create, query, &place, options),
            None => self.external_table_over(create, &place, options),
        }
    }

    /// Defines a table over files that are there. Without a list of columns it has those of the first file.
    fn external_table_over(
        &mut self,
        create: &CreateExternalTable,
        place: &Place,
        mut options: ExternalOptions,
    ) -> Result<Outcome, Failure> {
        let position = options.position;
        let location = self.absolute(&options.location).map_err(|error| error.at(position))?;
        let (listed, types) = listed_columns(create).map_err(Failure::of_binding)?;
        let source = source_of(&options, listed);
        let (rows, columns) = match self.names_alone().files(&source, &types)? {
            Resolved::Table { source, columns } => (source, columns),
            _ => return Err(SqlError::internal("files that are no rows").into()),
        };
        let read = FileRead::of(&rows).ok_or_else(|| SqlError::internal("files that are read by something else"))?;
        let request = read.request();
        // Whether the first row had names was found out now, and is not to be asked again of other files.
        let says_row = ["FIRSTROW", "HEADER_ROW"].iter().any(|name| OptionItem::find(&options.reading, name).is_some());
        if matches!(request.form, FileForm::Text(_)) && !says_row {
            let row = i64::try_from(request.first_row).unwrap_or(1);
            options.reading.push(item("FIRSTROW", OptionValue::Literal(Literal::Integer(row))));
        }
        let text = definition_text(place, &columns, &location, &options);
        let definition = ModuleDefinition {
            schema: place.schema.clone(),
            name: place.name.clone(),
            kind: ModuleKind::ExternalTable,
            definition: text,
            replace: Replace::No,
        };
        check_names(&columns, create)?;
        self.in_context(&place.database, |_, context| {
            let created = place.database.database().create_module(context, &definition);
            created.map_err(|error| error.to_sql_error().at(create.name.position()))?;
            Ok(())
        })?;
        Ok(Outcome::QUIET)
    }

    /// A location as an absolute path, or a pattern of such.
    ///
    /// # Errors
    /// 4860 if there is no such file, 4861 outside of the allowed folders, 15860.
    fn absolute(&self, location: &str) -> Result<String, SqlError> {
        let whole = RefCell::default();
        self.environment.instance.readable_files(Path::new(location), &|path| {
            *whole.borrow_mut() = path.to_path_buf();
            files_of(path)
        })?;
        whole.into_inner().to_str().map(str::to_owned).ok_or_else(|| not_unicode(location))
    }

    /// Runs `CREATE EXTERNAL FILE FORMAT`.
    pub(crate) fn create_file_format(&mut self, create: &CreateExternalFileFormat) -> Result<Outcome, Failure> {
        let reading = reading_of_format(&create.options).map_err(Failure::of_binding)?;
        let items: Vec<FileOption> = reading.into_iter().map(FileOption::Item).collect();
        FileOptions::read(&items).map_err(Failure::of_binding)?;
        let database = self.database();
        let definition = ModuleDefinition {
            schema: "sys".to_owned(),
            name: create.name.value.clone(),
            kind: ModuleKind::FileFormat,
            definition: create.to_string(),
            replace: Replace::No,
        };
        self.in_context(&database, |_, context| {
            let created = database.database().create_module(context, &definition).map_err(|error| {
                let error = error.to_sql_error();
                let is_taken = error.number == number::OBJECT_EXISTS;
                let entry = || errors::EXTERNAL_FORMAT_EXISTS.with([&create.name.value]);
                if is_taken { entry() } else { error }.at(create.name.position)
            });
            created.map(drop).map_err(Failure::from)
        })?;
        Ok(Outcome::QUIET)
    }
}

/// The options of the file format with this name.
///
/// # Errors
/// 46501 if there is none.
fn file_format(database: &DatabaseUse, name: &Identifier) -> Result<Vec<OptionItem>, SqlError> {
    let snapshot = database.snapshot();
    let found = snapshot.module(SYS_SCHEMA, &name.value).filter(|module| module.kind == ModuleKind::FileFormat);
    match found {
        Some(module) => format_options(&module.definition),
        None => Err(errors::EXTERNAL_NO_SUCH.with([&name.value]).at(name.position)),
    }
}

/// Checks that no two columns have the same name.
///
/// # Errors
/// 2705.
fn check_names(columns: &[SourceColumn], create: &CreateExternalTable) -> Result<(), SqlError> {
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|known| hobt_catalog::name_equals(&known.name, &column.name)) {
            return Err(errors::DUPLICATE_COLUMN.with([&column.name, &create.name.name.value]));
        }
    }
    Ok(())
}
