//! `hobt export`: the rows of a query or a table into a file.

mod format;
mod progress;
mod sink;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use hobt_base::{SqlError, number};
use hobt_files::write::{FileWriter, WriteError, Written, check};
use hobt_showplan::counted;

use self::format::FormatArguments;
use self::progress::ShownProgress;
pub(crate) use self::sink::{FileSink, columns_of, name_of};
use crate::interrupt::Interrupts;
use crate::open::{InstanceArguments, exit_code, in_session};
use hobt::Session;

/// The arguments of `hobt export`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    written: FileArguments,
    #[command(flatten)]
    instance: InstanceArguments,
}

/// What is written, and how: the arguments of `hobt export` and of `.export`.
#[derive(Args, Clone, Debug)]
pub(crate) struct FileArguments {
    /// A query, or the name of a table or view
    what: String,
    /// The file: .csv, .txt, .tsv, .tbl, .json, .jsonl or .parquet; text also with .gz or .zst behind it
    file: PathBuf,
    #[command(flatten)]
    format: FormatArguments,
    /// Replaces a file of that name
    #[arg(long)]
    force: bool,
}

/// Why there is no file.
#[derive(Debug)]
pub(crate) enum ExportError {
    /// What the user asked for is not possible; the text says why.
    Usage(String),
    /// The file cannot be written.
    File(WriteError),
    /// The query has failed.
    Sql(SqlError),
}

impl From<WriteError> for ExportError {
    fn from(error: WriteError) -> ExportError {
        ExportError::File(error)
    }
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Usage(text) => write!(f, "hobt: {text}."),
            ExportError::File(WriteError::Internal(error)) | ExportError::Sql(error) => {
                write!(f, "{}\n{error}", error.header())
            }
            ExportError::File(error @ WriteError::Exists(_)) => write!(f, "hobt: {error}. --force replaces it."),
            ExportError::File(error) => write!(f, "hobt: {error}."),
        }
    }
}

impl FileArguments {
    /// The file, if its name and the options can be used.
    fn sink(&self) -> Result<FileSink, ExportError> {
        let options = self.format.options(&self.file, self.force)?;
        check(&self.file, &options)?;
        Ok(FileSink::new(&self.file, options))
    }
}

/// Writes a file from a session, as the batch that [`Session::expect_batch`] has announced. Returns what is to be said
/// of it; `None` if the user has interrupted it.
pub(crate) fn export_from(
    session: &mut Session,
    arguments: &FileArguments,
    interrupts: &Interrupts,
) -> Result<Option<String>, ExportError> {
    let begun = Instant::now();
    let query = query(&arguments.what)?;
    let written = export(&query, arguments.sink()?, session, interrupts)?;
    Ok(written.map(|written| report(written, begun.elapsed())))
}

/// Runs the sub-command.
pub(crate) fn run(arguments: &Arguments, interrupts: &Interrupts) -> ExitCode {
    // A mistake in a name is to be known before an instance is opened.
    let checked = query(&arguments.written.what).and_then(|query| Ok((query, arguments.written.sink()?)));
    let (query, sink) = match checked {
        Ok(checked) => checked,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let opened = match arguments.instance.open_existing("hobt export") {
        Ok(opened) => opened,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let ((exported, elapsed), closed) = in_session(opened, interrupts, |session| {
        let begun = Instant::now();
        (export(&query, sink, session, interrupts), begun.elapsed())
    });
    match exported {
        Ok(Some(written)) => println!("{}", report(written, elapsed)),
        // It was interrupted when all was written.
        Ok(None) => {}
        Err(error) => return failed(&error, arguments, interrupts),
    }
    exit_code(closed, interrupts)
}

/// Runs the query into the file. `None` if the user has interrupted it when nothing was left but the file's name.
fn export(
    query: &str,
    mut sink: FileSink,
    session: &mut Session,
    interrupts: &Interrupts,
) -> Result<Option<Written>, ExportError> {
    let progress = ShownProgress::begin(sink.rows());
    session.execute_expected(query, &mut |event| sink.event(event));
    let file = sink.end()?.map(FileWriter::finish).transpose()?;
    progress.end();
    let Some(file) = file else {
        return Err(ExportError::Usage("the batch has no rows to export: it has no query".to_owned()));
    };
    if interrupts.happened() { Ok(None) } else { Ok(Some(file.publish()?)) }
}

fn failed(error: &ExportError, arguments: &Arguments, interrupts: &Interrupts) -> ExitCode {
    let number = match error {
        ExportError::Sql(error) => Some(error.number),
        _ => None,
    };
    let code = interrupts.failed(number, error);
    let database = &arguments.instance.database;
    if number == Some(number::INVALID_OBJECT) && database.eq_ignore_ascii_case("master") {
        eprintln!("The name was looked up in the database {database}; -d names another.");
    }
    code
}

/// The parts of a name, at most.
const PARTS_MAX: usize = 4;

/// The batch that the user means: a table's rows, if it is a table's name.
///
/// # Errors
/// A name has too many parts.
fn query(what: &str) -> Result<String, ExportError> {
    match name_parts(what.trim()) {
        None => Ok(what.to_owned()),
        Some(1..=PARTS_MAX) => Ok(format!("SELECT * FROM {what}")),
        Some(parts) => {
            let text =
                format!("{what} has {parts} parts, and a table's name at most {PARTS_MAX}: database.schema.table");
            Err(ExportError::Usage(text))
        }
    }
}

/// The number of parts, if a text is nothing but a name: parts with points between them, each a word or in brackets or
/// double quotes, or empty if others stand before and behind it.
fn name_parts(text: &str) -> Option<usize> {
    let (mut rest, mut parts) = (text, 0);
    loop {
        parts += 1;
        if parts > 1 && rest.starts_with('.') {
            rest = rest[1..].trim_start();
            continue;
        }
        let behind = behind_part(rest)?.trim_start();
        match behind.strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None => return behind.is_empty().then_some(parts),
        }
    }
}

/// What stands behind a part of a name; `None` if none begins here.
fn behind_part(text: &str) -> Option<&str> {
    let closing = match text.chars().next()? {
        '[' => ']',
        '"' => '"',
        first if first.is_alphabetic() || matches!(first, '_' | '#') => {
            let is_in_word =
                |character: char| character.is_alphanumeric() || matches!(character, '_' | '#' | '@' | '$');
            return Some(text.trim_start_matches(is_in_word));
        }
        _ => return None,
    };
    let mut inside = &text[1..];
    loop {
        let end = inside.find(closing)?;
        let behind = &inside[end + 1..];
        match behind.strip_prefix(closing) {
            // Doubled, it is part of the name.
            Some(more) => inside = more,
            None => return Some(behind),
        }
    }
}

/// What was written, and how fast.
fn report(written: Written, elapsed: Duration) -> String {
    let (seconds, megabytes) = (elapsed.as_secs_f64(), written.bytes as f64 / 1e6);
    let rate = megabytes / seconds.max(f64::MIN_POSITIVE);
    format!("{}, {megabytes:.1} MB in {seconds:.2} s, {rate:.0} MB/s", counted(written.rows, "row"))
}

#[cfg(test)]
mod tests {
    use super::{name_parts, query};

    #[test]
    fn names_are_told_from_queries() {
        let names =
            ["t", "dbo.t", "sales..t", "a.b.c.d", "[a b].[c]]d]", "\"x\".\"y\"\"z\"", "#t", "dbo . t", "Łódź", "a...t"];
        for name in names {
            assert!(name_parts(name).is_some_and(|parts| parts <= 4), "{name}");
            assert_eq!(query(name).expect("a query"), format!("SELECT * FROM {name}"));
        }
        for text in ["", "SELECT 1", "t;", "[a", "dbo.", "dbo..", "t WHERE a = 1", "(t)", "@t", "1", ".t"] {
            assert_eq!(name_parts(text), None, "{text}");
        }
        for name in ["a.b.c.d.e", "dbo....t"] {
            assert!(query(name).expect_err(name).to_string().contains("5 parts"), "{name}");
        }
    }
}
