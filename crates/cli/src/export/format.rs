//! What file `hobt export` writes: its arguments and its name.

use std::path::Path;

use clap::{Args, ValueEnum};
use hobt_files::write::{CsvOptions, Format, JsonShape, Timestamps, WriteOptions};
use hobt_files::{FileKind, FileName};

use super::ExportError;

/// A file's format where its name does not say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum NamedFormat {
    /// Comma-separated values
    Csv,
    /// Values between tabs
    Tsv,
    /// One array of objects
    Json,
    /// One object a line
    Jsonl,
    /// Parquet, compressed with zstd
    Parquet,
}

/// How the file is written.
#[derive(Args, Clone, Debug)]
pub(super) struct FormatArguments {
    /// The format, if the file's name does not say it
    #[arg(long, value_enum)]
    format: Option<NamedFormat>,
    /// CSV: what stands between two values; \t is a tab, 0x01 a byte
    #[arg(long, value_name = "TEXT", value_parser = separator)]
    delimiter: Option<String>,
    /// CSV: what stands around values that need it
    #[arg(long, value_name = "CHARACTER", value_parser = quote)]
    quote: Option<u8>,
    /// CSV: what ends a row; \n unless given
    #[arg(long = "row-terminator", value_name = "TEXT", value_parser = separator)]
    row_terminator: Option<String>,
    /// CSV: leaves out the row of the columns' names
    #[arg(long = "no-header")]
    no_header: bool,
    /// Parquet: datetime2(7) without its last digit, for all years; else with it, for 1677 to 2262
    #[arg(long)]
    microseconds: bool,
}

impl FormatArguments {
    /// What to write.
    ///
    /// # Errors
    /// If the name does not say it, or arguments are given that the format has no use for.
    pub(super) fn options(&self, file: &Path, replaces: bool) -> Result<WriteOptions, ExportError> {
        let name = FileName::of(file);
        let kind = match self.format {
            None => name.known_kind(file).map_err(|error| ExportError::Usage(format!("{error}; or give --format")))?,
            Some(NamedFormat::Csv) => FileKind::Csv,
            Some(NamedFormat::Tsv) => FileKind::Tsv,
            Some(NamedFormat::Json) => FileKind::Json,
            Some(NamedFormat::Jsonl) => FileKind::JsonLines,
            Some(NamedFormat::Parquet) => FileKind::Parquet,
        };
        self.check_use(kind)?;
        let format = match kind {
            FileKind::Csv | FileKind::Tsv | FileKind::Psv => Format::Csv(self.csv(kind.delimiter().unwrap_or(","))),
            FileKind::Json => Format::Json(JsonShape::Array),
            FileKind::JsonLines => Format::Json(JsonShape::Lines),
            FileKind::Parquet if self.microseconds => Format::Parquet(Timestamps::Microseconds),
            FileKind::Parquet => Format::Parquet(Timestamps::Exact),
        };
        Ok(WriteOptions { compression: name.compression, replaces, ..WriteOptions::new(format) })
    }

    fn csv(&self, delimiter: &str) -> CsvOptions {
        let default = CsvOptions::default();
        CsvOptions {
            delimiter: self.delimiter.clone().unwrap_or_else(|| delimiter.to_owned()),
            quote: self.quote.unwrap_or(default.quote),
            row_end: self.row_terminator.clone().unwrap_or(default.row_end),
            has_header: !self.no_header,
        }
    }

    fn check_use(&self, kind: FileKind) -> Result<(), ExportError> {
        let of_csv = [
            ("--delimiter", self.delimiter.is_some()),
            ("--quote", self.quote.is_some()),
            ("--row-terminator", self.row_terminator.is_some()),
            ("--no-header", self.no_header),
        ];
        let given_of_csv = of_csv.iter().find(|(_, is_given)| *is_given).map(|(name, _)| (*name, "CSV"));
        let given_of_parquet = self.microseconds.then_some(("--microseconds", "Parquet"));
        let given = match kind {
            FileKind::Csv | FileKind::Tsv | FileKind::Psv => given_of_parquet,
            FileKind::Parquet => given_of_csv,
            FileKind::Json | FileKind::JsonLines => given_of_csv.or(given_of_parquet),
        };
        match given {
            Some((name, needs)) => Err(ExportError::Usage(format!("{name} is for {needs} files alone"))),
            None => Ok(()),
        }
    }
}

/// A separator, as `BULK INSERT` writes it.
fn separator(text: &str) -> Result<String, String> {
    let bytes = hobt_files::terminator(text)?;
    String::from_utf8(bytes).map_err(|_| "its bytes are no UTF-8".to_owned())
}

fn quote(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("it is one ASCII character".to_owned()),
    }
}
