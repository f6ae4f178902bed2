//! The options of a source of files.

use hobt_base::{SqlError, errors};
use hobt_files::{CodePage, TextLayout};
use hobt_tsql::ast::{FileOption, FileOrder, Literal, OptionItem, OptionValue, Position};

/// The form that options ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Text with SQL Server's old defaults: tabs, line feeds, no quotes.
    Char,
    /// `FORMAT = 'CSV'`.
    Csv,
    /// `DATAFILETYPE = 'native'`.
    Native,
    /// `DATAFILETYPE = 'widenative'`.
    WideNative,
    /// `FORMATFILE`.
    Described,
    /// `SINGLE_CLOB`.
    Clob,
    /// `SINGLE_NCLOB`.
    NClob,
    /// `SINGLE_BLOB`.
    Blob,
    /// `FORMAT = 'JSON'`: one object a line.
    JsonLines,
    /// `FORMAT = 'PARQUET'`.
    Parquet,
}

/// What the options of a source of files say.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct FileOptions {
    /// `None` if nothing says it.
    pub(super) form: Option<Form>,
    field_end: Option<Vec<u8>>,
    row_end: Option<RowEnd>,
    quote: Option<u8>,
    code_page: Option<CodePage>,
    is_wide: bool,
    pub(super) first_row: Option<u64>,
    pub(super) last_row: u64,
    pub(super) max_errors: u64,
    pub(super) error_file: Option<(String, Position)>,
    pub(super) keeps_nulls: bool,
    pub(super) keeps_identity: bool,
    pub(super) locks_table: bool,
    pub(super) batch_rows: Option<u64>,
    /// `HEADER_ROW`.
    pub(super) has_header: Option<bool>,
    pub(super) rows_expected: Option<u64>,
    pub(super) order: Vec<FileOrder>,
    /// `FORMATFILE`.
    pub(super) format_file: Option<(String, Position)>,
}

/// What ends a row.
#[derive(Clone, PartialEq, Eq, Debug)]
enum RowEnd {
    /// A line feed, with or without a carriage return before it.
    Line,
    Bytes(Vec<u8>),
}

/// Rows that may be wrong if nothing else is said.
const MAX_ERRORS: u64 = 10;

impl Default for FileOptions {
    fn default() -> FileOptions {
        FileOptions {
            form: None,
            field_end: None,
            row_end: None,
            quote: None,
            code_page: None,
            is_wide: false,
            first_row: None,
            last_row: u64::MAX,
            max_errors: MAX_ERRORS,
            error_file: None,
            keeps_nulls: false,
            keeps_identity: false,
            locks_table: false,
            batch_rows: None,
            has_header: None,
            rows_expected: None,
            order: Vec::new(),
            format_file: None,
        }
    }
}

impl FileOptions {
    /// Reads options.
    ///
    /// # Errors
    /// 102 for an option or a value that is not known; 40517 for one that is not supported.
    pub(super) fn read(options: &[FileOption]) -> Result<FileOptions, SqlError> {
        let mut read = FileOptions::default();
        for option in options {
            match option {
                FileOption::Order { columns, .. } => read.order.clone_from(columns),
                FileOption::Item(item) => read.item(item).map_err(|error| error.at(item.span.position))?,
            }
        }
        Ok(read)
    }

    fn item(&mut self, item: &OptionItem) -> Result<(), SqlError> {
        match item.name.as_str() {
            "FORMAT" | "FILE_TYPE" => {
                let form = form_named(&text(item)?, item)?;
                // A format file says more than FORMAT.
                self.form = self.form.filter(|form| *form == Form::Described).or(Some(form));
            }
            "FIELDTERMINATOR" => self.field_end = Some(terminator(&text(item)?, item)?),
            "ROWTERMINATOR" => {
                let written = text(item)?;
                self.row_end = Some(match written.as_str() {
                    "\\n" | "\n" => RowEnd::Line,
                    other => RowEnd::Bytes(terminator(other, item)?),
                });
            }
            "FIELDQUOTE" => self.quote = Some(quote(&text(item)?, item)?),
            "CODEPAGE" | "ENCODING" => {
                let name = value_text(item).ok_or_else(|| wrong_value(item))?;
                self.code_page = Some(match name.to_ascii_uppercase().as_str() {
                    "UTF8" => CodePage::Utf8,
                    "UTF16" => CodePage::WIDE,
                    name => CodePage::named(name).ok_or_else(|| wrong_value(item))?,
                });
            }
            "DATAFILETYPE" => match text(item)?.to_ascii_lowercase().as_str() {
                "char" => self.form = self.form.or(Some(Form::Char)),
                "widechar" => {
                    self.form = self.form.or(Some(Form::Char));
                    self.is_wide = true;
                }
                "native" => self.form = Some(Form::Native),
                "widenative" => self.form = Some(Form::WideNative),
                _ => return Err(wrong_value(item)),
            },
            "FORMATFILE" => {
                self.format_file = Some((text(item)?, item.span.position));
                self.form = Some(Form::Described);
            }
            "SINGLE_CLOB" => self.form = Some(Form::Clob),
            "SINGLE_NCLOB" => self.form = Some(Form::NClob),
            "SINGLE_BLOB" => self.form = Some(Form::Blob),
            "FIRSTROW" => self.first_row = Some(number(item)?.max(1)),
            "LASTROW" => {
                let last = number(item)?;
                self.last_row = if last == 0 { u64::MAX } else { last };
            }
            "MAXERRORS" => self.max_errors = number(item)?,
            "ERRORFILE" => self.error_file = Some((text(item)?, item.span.position)),
            "KEEPNULLS" => self.keeps_nulls = is_on(item)?,
            "KEEPIDENTITY" => self.keeps_identity = is_on(item)?,
            "IDENTITY_INSERT" => self.keeps_identity = word(item)?.eq_ignore_ascii_case("ON"),
            "TABLOCK" => self.locks_table = is_on(item)?,
            "BATCHSIZE" => self.batch_rows = Some(number(item)?).filter(|rows| *rows > 0),
            "ROWS_PER_BATCH" => self.rows_expected = Some(number(item)?).filter(|rows| *rows > 0),
            "HEADER_ROW" => self.has_header = Some(truth(item)?),
            // Constraints are always checked. The size of a batch in kilobytes tells SQL Server's optimiser nothing
            // here.
            "CHECK_CONSTRAINTS" | "KILOBYTES_PER_BATCH" | "ROWSET_OPTIONS" | "PARSER_VERSION" => {}
            // A file's own bytes say how it is compressed.
            "COMPRESSION" | "DATA_COMPRESSION" => {}
            "FIRE_TRIGGERS" => return Err(SqlError::not_supported("FIRE_TRIGGERS: there are no triggers, so it")),
            "DATA_SOURCE" | "FORMATFILE_DATA_SOURCE" | "ERRORFILE_DATA_SOURCE" | "CREDENTIAL" => {
                return Err(SqlError::not_supported(format!(
                    "{}, since files are read from folders of this machine,",
                    item.name
                )));
            }
            other => return Err(errors::SYNTAX.with([&other])),
        }
        Ok(())
    }

    /// The encoding of the files' text.
    pub(super) fn code_page(&self) -> CodePage {
        match self.code_page {
            Some(code_page) => code_page,
            None if self.is_wide => CodePage::WIDE,
            None => CodePage::Utf8,
        }
    }

    /// Whether the files' text is UTF-8.
    pub(super) fn is_utf8(&self) -> bool {
        self.code_page() == CodePage::Utf8
    }

    /// What ends rows and fields.
    pub(super) fn layout(&self, form: Form) -> TextLayout {
        let (end, quote): (&[u8], _) = match form {
            Form::Csv => (b",", Some(self.quote.unwrap_or(b'"'))),
            _ => (b"\t", self.quote),
        };
        let (row_end, strips_return) = match &self.row_end {
            None | Some(RowEnd::Line) => (b"\n".to_vec(), true),
            Some(RowEnd::Bytes(bytes)) => (bytes.clone(), false),
        };
        let field_end = self.field_end.clone().unwrap_or_else(|| end.to_vec());
        TextLayout { field_end, row_end, strips_return, quote }
    }
}

fn form_named(name: &str, item: &OptionItem) -> Result<Form, SqlError> {
    Ok(match name.to_ascii_uppercase().as_str() {
        "CSV" => Form::Csv,
        "PARQUET" => Form::Parquet,
        "JSON" | "JSONL" | "NDJSON" => Form::JsonLines,
        "DELTA" | "ORC" | "AVRO" => return Err(SqlError::not_supported(format!("FORMAT = '{name}'"))),
        _ => return Err(wrong_value(item)),
    })
}

fn wrong_value(item: &OptionItem) -> SqlError {
    errors::OPTION_VALUE.with([&item.name])
}

fn value_text(item: &OptionItem) -> Option<String> {
    match &item.value {
        OptionValue::Literal(Literal::String { value, .. }) => Some(value.to_string()),
        OptionValue::Literal(Literal::Integer(value)) => Some(value.to_string()),
        OptionValue::Word(word) => Some(word.value.clone()),
        _ => None,
    }
}

pub(super) fn text(item: &OptionItem) -> Result<String, SqlError> {
    value_text(item).ok_or_else(|| wrong_value(item))
}

fn word(item: &OptionItem) -> Result<String, SqlError> {
    match item.value {
        OptionValue::On => Ok("ON".to_owned()),
        OptionValue::Off => Ok("OFF".to_owned()),
        _ => text(item),
    }
}

pub(super) fn truth(item: &OptionItem) -> Result<bool, SqlError> {
    match word(item)?.to_ascii_uppercase().as_str() {
        "TRUE" | "ON" => Ok(true),
        "FALSE" | "OFF" => Ok(false),
        _ => Err(wrong_value(item)),
    }
}

/// Whether an option that is usually a bare name is on.
fn is_on(item: &OptionItem) -> Result<bool, SqlError> {
    if item.value == OptionValue::Absent { Ok(true) } else { truth(item) }
}

pub(super) fn number(item: &OptionItem) -> Result<u64, SqlError> {
    let value = match &item.value {
        OptionValue::Literal(Literal::Integer(value)) => u64::try_from(*value).ok(),
        _ => None,
    };
    value.ok_or_else(|| wrong_value(item))
}

fn quote(written: &str, item: &OptionItem) -> Result<u8, SqlError> {
    match written.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err(wrong_value(item)),
    }
}

/// The bytes of a terminator.
fn terminator(written: &str, item: &OptionItem) -> Result<Vec<u8>, SqlError> {
    hobt_files::terminator(written).map_err(|_| wrong_value(item))
}
