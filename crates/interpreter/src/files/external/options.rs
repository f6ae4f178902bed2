//! The options of external tables and of their file formats.
//!
//! What says how files are read is kept as options of `OPENROWSET (BULK …)`. A file format has Synapse's names for
//! them, which are translated here.

use hobt_base::{SqlError, errors};
use hobt_tsql::ast::{Identifier, Literal, OptionItem, OptionValue, Position, Span};

use crate::files::options::{number, text, truth};

/// What a reading of an external table's files leaves out without `REJECT_VALUE`: no row.
const MAX_ERRORS: i64 = 0;

/// What the options of an external table say.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ExternalOptions {
    /// `LOCATION`.
    pub(super) location: String,
    /// Where it was written.
    pub(super) position: Position,
    /// The name of the file format, if it has one.
    pub(super) file_format: Option<String>,
    /// How the files are read and written, as options of `OPENROWSET`; also `DATA_COMPRESSION`.
    pub(super) reading: Vec<OptionItem>,
}

/// Finds the options of a file format by its name.
pub(super) type FindFormat<'f> = dyn Fn(&Identifier) -> Result<Vec<OptionItem>, SqlError> + 'f;

impl ExternalOptions {
    /// Reads the options of a statement.
    ///
    /// # Errors
    /// 46520 for an option that is not known, 46504 and 102 for a value, 46505 without `LOCATION`, 15879 for
    /// `FILE_FORMAT` beside `FORMAT`, 40517 for what is not supported, those of `find`.
    pub(super) fn read(options: &[OptionItem], find: &FindFormat<'_>) -> Result<ExternalOptions, SqlError> {
        let mut read = ExternalOptions::of_table(options)?;
        if let Some(OptionItem { value, span, .. }) = OptionItem::find(options, "FILE_FORMAT") {
            let both = read.reading.iter().find(|item| !is_of_rejection(&item.name));
            if let Some(item) = both {
                return Err(errors::EXTERNAL_BOTH.with([&"FILE_FORMAT", &item.name]).at(item.span.position));
            }
            let name = match value {
                OptionValue::Word(name) => name.clone(),
                OptionValue::Literal(Literal::String { value, .. }) => Identifier::new(value.to_string()),
                _ => return Err(errors::EXTERNAL_OPTION_VALUE.with([&"FILE_FORMAT"]).at(span.position)),
            };
            let of_format = find(&name).map_err(|error| error.at(span.position))?;
            read.reading.splice(0..0, of_format);
        }
        if OptionItem::find(&read.reading, "MAXERRORS").is_none() {
            read.reading.push(item("MAXERRORS", OptionValue::Literal(Literal::Integer(MAX_ERRORS))));
        }
        Ok(read)
    }

    /// Reads the options of a stored definition, which has those of its file format beside its name.
    pub(super) fn of_table(options: &[OptionItem]) -> Result<ExternalOptions, SqlError> {
        let mut location = None;
        let (mut file_format, mut reading) = (None, Vec::new());
        for option in options {
            let position = option.span.position;
            match option.name.as_str() {
                "LOCATION" => location = Some((text(option).map_err(|error| error.at(position))?, position)),
                "FILE_FORMAT" => file_format = text(option).ok(),
                "REJECT_TYPE" => match text(option)?.to_ascii_uppercase().as_str() {
                    "VALUE" => {}
                    _ => return Err(SqlError::not_supported("REJECT_TYPE other than VALUE").at(position)),
                },
                "REJECT_VALUE" => {
                    number(option).map_err(|error| error.at(position))?;
                    reading.push(OptionItem { name: "MAXERRORS".to_owned(), ..option.clone() });
                }
                "COMPRESSION" | "DATA_COMPRESSION" => {
                    reading.push(OptionItem { name: "DATA_COMPRESSION".to_owned(), ..option.clone() });
                }
                "FORMAT" | "FIELDTERMINATOR" | "ROWTERMINATOR" | "FIELDQUOTE" | "CODEPAGE" | "ENCODING"
                | "FIRSTROW" | "HEADER_ROW" | "MAXERRORS" => reading.push(option.clone()),
                "DATA_SOURCE" => {
                    let what = "DATA_SOURCE, since files lie in folders of this machine and LOCATION says where,";
                    return Err(SqlError::not_supported(what).at(position));
                }
                "REJECT_SAMPLE_VALUE"
                | "REJECTED_ROW_LOCATION"
                | "SCHEMA_NAME"
                | "OBJECT_NAME"
                | "DISTRIBUTION"
                | "TABLE_OPTIONS"
                | "PARTITION" => {
                    return Err(SqlError::not_supported(format!("{} of an external table", option.name)).at(position));
                }
                other => return Err(errors::EXTERNAL_UNKNOWN_OPTION.with([&other]).at(position)),
            }
        }
        let (location, position) = location.ok_or_else(|| errors::EXTERNAL_OPTION_MISSING.with([&"LOCATION"]))?;
        Ok(ExternalOptions { location, position, file_format, reading })
    }
}

/// Whether an option is about rows that cannot be read, and not about the form of the files.
fn is_of_rejection(name: &str) -> bool {
    name == "MAXERRORS"
}

/// The options of a file format as options of `OPENROWSET`.
///
/// # Errors
/// As [`ExternalOptions::read`].
pub(super) fn reading_of_format(options: &[OptionItem]) -> Result<Vec<OptionItem>, SqlError> {
    let mut reading = Vec::new();
    let mut is_text = false;
    for option in options {
        let position = option.span.position;
        match option.name.as_str() {
            "FORMAT_TYPE" => {
                let form = text(option)?.to_ascii_uppercase();
                let form = match form.as_str() {
                    "DELIMITEDTEXT" => "CSV",
                    "PARQUET" => "PARQUET",
                    "JSON" => "JSON",
                    "ORC" | "RCFILE" | "DELTA" => {
                        return Err(SqlError::not_supported(format!("FORMAT_TYPE = {form}")).at(position));
                    }
                    _ => return Err(errors::EXTERNAL_OPTION_VALUE.with([&"FORMAT_TYPE"]).at(position)),
                };
                is_text = form == "CSV";
                reading.push(item("FORMAT", text_value(form)));
            }
            "FORMAT_OPTIONS" => {
                let OptionValue::List(list) = &option.value else {
                    return Err(errors::EXTERNAL_OPTION_VALUE.with([&"FORMAT_OPTIONS"]).at(position));
                };
                for each in list {
                    reading.extend(format_option(each).map_err(|error| error.at(each.span.position))?);
                }
            }
            "DATA_COMPRESSION" => reading.push(option.clone()),
            "SERDE_METHOD" => return Err(SqlError::not_supported("SERDE_METHOD").at(position)),
            other => return Err(errors::EXTERNAL_UNKNOWN_OPTION.with([&other]).at(position)),
        }
    }
    if OptionItem::find(&reading, "FORMAT").is_none() {
        return Err(errors::EXTERNAL_OPTION_MISSING.with([&"FORMAT_TYPE"]));
    }
    if is_text && OptionItem::find(&reading, "FIELDTERMINATOR").is_none() {
        reading.push(item("FIELDTERMINATOR", text_value("|")));
    }
    Ok(reading)
}

fn format_option(option: &OptionItem) -> Result<Option<OptionItem>, SqlError> {
    let named = |name: &str| Ok(Some(OptionItem { name: name.to_owned(), ..option.clone() }));
    match option.name.as_str() {
        "FIELD_TERMINATOR" => named("FIELDTERMINATOR"),
        "ROW_TERMINATOR" => named("ROWTERMINATOR"),
        "STRING_DELIMITER" => match text(option)?.as_str() {
            // PolyBase's pages write the quote as the number of its byte.
            "0x22" | "0X22" => Ok(Some(item("FIELDQUOTE", text_value("\"")))),
            "0x27" | "0X27" => Ok(Some(item("FIELDQUOTE", text_value("'")))),
            _ => named("FIELDQUOTE"),
        },
        "FIRST_ROW" => match number(option)? {
            0 => Err(errors::EXTERNAL_OPTION_VALUE.with([&"FIRST_ROW"])),
            _ => named("FIRSTROW"),
        },
        "ENCODING" => named("ENCODING"),
        "USE_TYPE_DEFAULT" if !truth(option)? => Ok(None),
        // It chooses between two readers of text in Synapse; there is one here.
        "PARSER_VERSION" => Ok(None),
        "USE_TYPE_DEFAULT" | "DATE_FORMAT" | "NULL_VALUES" => {
            Err(SqlError::not_supported(format!("{} of a file format", option.name)))
        }
        other => Err(errors::EXTERNAL_UNKNOWN_OPTION.with([&other])),
    }
}

/// An option that no text has.
pub(super) fn item(name: &str, value: OptionValue) -> OptionItem {
    OptionItem { name: name.to_owned(), value, partitions: Vec::new(), span: Span::default() }
}

/// A text as the value of an option.
pub(super) fn text_value(value: &str) -> OptionValue {
    OptionValue::Literal(Literal::String { value: value.into(), national: false })
}
