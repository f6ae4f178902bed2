//! What file `hobt export` writes: its arguments and its name.

use std::path::Path;

use clap::{Args, ValueEnum};
use hobt_files::write::{CsvOptions, FileKind, FileName, Format, JsonShape, Timestamps, WriteOptions};

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
            FileKind::Csv => Format::Csv(self.csv(",")),
            FileKind::Tsv => Format::Csv(self.csv("\t")),
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
            FileKind::Csv | FileKind::Tsv => given_of_parquet,
            FileKind::Parquet => given_of_csv,
            FileKind::Json | FileKind::JsonLines => given_of_csv.or(given_of_parquet),
        };
        match given {
            Some((name, needs)) => Err(ExportError::Usage(format!("{name} is for {needs} files alone"))),
            None => Ok(()),
        }
    }
}

/// A separator: characters, escapes and bytes as two hexadecimal digits behind `0x`, as `BULK INSERT` has them.
fn separator(text: &str) -> Result<String, String> {
    if let Some(digits) = text.strip_prefix("0x").filter(|digits| !digits.is_empty()) {
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
        let bytes =
            bytes.filter(|_| digits.len() % 2 == 0).ok_or("0x has two hexadecimal digits for each byte behind it")?;
        return String::from_utf8(bytes).map_err(|_| "the bytes are to be UTF-8".to_owned());
    }
    let mut result = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        result.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('0') => '\0',
                Some('\\') => '\\',
                _ => return Err(r"\ is followed by t, n, r, 0 or \".to_owned()),
            },
            other => other,
        });
    }
    Ok(result)
}

fn quote(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("it is one ASCII character".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_have_escapes_and_bytes() {
        assert_eq!(separator(r"|\t\r\n\0\\"), Ok("|\t\r\n\0\\".to_owned()));
        assert_eq!(separator("0x0d0A"), Ok("\r\n".to_owned()));
        for wrong in [r"a\", r"\x", "0x1", "0xzz", "0xff"] {
            assert!(separator(wrong).is_err(), "{wrong}");
        }
    }
}
