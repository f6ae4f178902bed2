//! `hobt sql`: batches from an argument, a file, a pipe or a terminal, in sqlcmd's manner.

mod command;
mod export;
mod interactive;
mod output;
mod runner;
mod shortcut;
mod table;
mod variables;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use hobt_files::write::{Timestamps, WriteOptions};

use self::output::Output;
use self::runner::Runner;
use self::variables::Variables;
use super::interrupt::{Interrupts, Source};
use super::open::InstanceArguments;
use crate::batches::Splitter;
use crate::export::{ExportError, FileSink};
use crate::progress::StatementProgress;

/// Characters of text at most in a column, unless told otherwise: sqlcmd's number for its `-y`.
const WIDTH: u16 = 256;

/// How rows are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Format {
    /// Columns of fixed width, as sqlcmd prints them
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One array of objects for each result set
    Json,
    /// One object a line
    Jsonl,
    /// A file of one result set; needs -o
    Parquet,
}

/// The arguments of `hobt sql`; their letters are sqlcmd's.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    instance: InstanceArguments,
    /// Runs these batches and ends
    #[arg(short = 'Q', long = "query", value_name = "SQL", conflicts_with = "input")]
    query: Option<String>,
    /// Runs a file and ends
    #[arg(short = 'i', long = "input", value_name = "FILE")]
    input: Option<PathBuf>,
    /// Writes to a file in place of the terminal
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Ends with exit code 1 at the first error above severity 10
    #[arg(short = 'b', long = "stop-on-error")]
    stop_on_error: bool,
    /// Rows between two headers; 0 prints one header, -1 none
    #[arg(short = 'h', long = "headers", value_name = "ROWS", default_value_t = 0, allow_hyphen_values = true)]
    headers: i64,
    /// What stands between two columns
    #[arg(short = 's', long = "separator", value_name = "TEXT", default_value = " ")]
    separator: String,
    /// Leaves out spaces at the end of values
    #[arg(short = 'W', long = "trim")]
    trim: bool,
    /// The widest column of a `max` type; longer values are cut and end in …; 0 cuts none
    #[arg(short = 'y', long = "large-width", value_name = "CHARACTERS", default_value_t = WIDTH)]
    large_width: u16,
    /// The widest column of any other text or binary, likewise
    #[arg(short = 'Y', long = "width", value_name = "CHARACTERS", default_value_t = WIDTH)]
    width: u16,
    /// Prints each batch before it runs
    #[arg(short = 'e', long = "echo")]
    echo: bool,
    /// What stands for $(NAME) in batches; may be given several times
    #[arg(short = 'v', long = "variable", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// Leaves $(NAME) in batches as it is
    #[arg(short = 'x', long = "no-variables")]
    no_variables: bool,
    /// Draws the plan of each statement behind its rows
    #[arg(long)]
    plan: bool,
    /// Writes the plans of all statements as a page of HTML; as XML where the name ends with .sqlplan
    #[arg(long = "plan-page", value_name = "FILE")]
    plan_page: Option<PathBuf>,
    /// How rows are shown
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Prints this help, as `-h` does behind all others; with a value that is sqlcmd's `--headers`
    #[arg(long = "help", action = clap::ArgAction::Help)]
    help: Option<bool>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if command::is_name(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is NAME=VALUE, where a name has letters, digits, _ and -".to_owned()),
    }
}

/// Opens a file of T-SQL: UTF-8, or UTF-16 with a mark of its order, as Management Studio's "Unicode" is. An error
/// names it.
fn open_input(path: &Path) -> Result<Box<dyn BufRead>, String> {
    let cannot = |reason: &dyn std::fmt::Display| format!("{} cannot be read: {reason}", path.display());
    let file = File::open(path).map_err(|error| cannot(&error))?;
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        return Err(cannot(&"it is a folder"));
    }
    let mut reader = BufReader::new(file);
    let unit: fn([u8; 2]) -> u16 = match reader.fill_buf().map_err(|error| cannot(&error))? {
        [0xFF, 0xFE, ..] => u16::from_le_bytes,
        [0xFE, 0xFF, ..] => u16::from_be_bytes,
        _ => return Ok(Box::new(reader)),
    };
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    let (units, rest) = bytes.as_chunks::<2>();
    let text: Result<String, _> = char::decode_utf16(units.iter().map(|&bytes| unit(bytes))).collect();
    match text {
        Ok(text) if rest.is_empty() => Ok(Box::new(Cursor::new(text))),
        _ => Err(cannot(&"it begins as UTF-16, and is not; save it as UTF-8")),
    }
}

/// The file that the rows go to. As with other formats, one of that name is replaced.
fn parquet_file(path: &Path) -> Result<FileSink, String> {
    let format = hobt_files::write::Format::Parquet(Timestamps::Exact);
    let options = WriteOptions { replaces: true, ..WriteOptions::new(format) };
    hobt_files::write::check(path, &options).map_err(|error| ExportError::from(error).to_string())?;
    Ok(FileSink::new(path, options))
}

/// Runs the sub-command.
pub(super) fn run(arguments: &Arguments, interrupts: Interrupts) -> ExitCode {
    ran(arguments, interrupts).unwrap_or_else(|text| {
        eprintln!("{text}");
        ExitCode::FAILURE
    })
}

/// The exit code, or why the sub-command did not begin or could not go on.
fn ran(arguments: &Arguments, interrupts: Interrupts) -> Result<ExitCode, String> {
    let of_program = |text| format!("hobt: {text}");
    // A mistyped name is not to leave a new instance behind.
    let input = arguments.input.as_deref().map(open_input).transpose().map_err(of_program)?;
    // Nor is a script to run whose rows or plans have no place to go.
    let file = match (arguments.format, &arguments.output) {
        (Format::Parquet, None) => return Err(of_program("Parquet goes to a file: name it with -o.".to_owned())),
        (Format::Parquet, Some(path)) => Some(parquet_file(path)?),
        _ => None,
    };
    arguments.plan_page.as_deref().map(super::plan_page::check).transpose().map_err(of_program)?;
    let (instance, mut session) = arguments.instance.open("hobt sql").map_err(|error| error.to_string())?;
    let target: Box<dyn Write> = match &arguments.output {
        None => Box::new(io::stdout()),
        Some(_) if file.is_some() => Box::new(io::sink()),
        Some(path) => {
            let file = File::create(path);
            Box::new(file.map_err(|error| format!("{} cannot be written: {error}", path.display()))?)
        }
    };
    let is_terminal = arguments.query.is_none() && arguments.input.is_none() && io::stdin().is_terminal();
    let source = if is_terminal { Source::Terminal } else { Source::Script };
    interrupts.watch(session.cancel_handle(), &instance, source);
    let output = Output::new(target, file, arguments, instance.server().name());
    session.collect_plans(output.wants_plans());
    let mut variables = Variables::default();
    arguments.variables.iter().for_each(|(name, value)| variables.set(name, Some(value.clone())));
    let progress = StatementProgress::of(session.progress());
    let mut runner = Runner {
        session,
        output,
        progress,
        interrupts,
        arguments,
        source,
        splitter: Splitter::default(),
        variables,
        exits_on_error: arguments.stop_on_error,
        failed: false,
        files_open: 0,
    };
    let result = match (&arguments.query, input, &arguments.input) {
        (Some(query), _, _) => runner.script(query.as_bytes(), "-Q"),
        (None, Some(file), Some(path)) => runner.script(file, &path.display().to_string()),
        _ if is_terminal => interactive::run(&mut runner),
        _ => runner.script(io::stdin().lock(), "The standard input"),
    };
    let mut failed = runner.failed;
    let interrupts = runner.interrupts.clone();
    interrupts.close();
    if result.is_ok() && interrupts.exit_code().is_none() {
        failed |= !runner.output.end_file();
    }
    drop(runner);
    // Whatever happened to the output, the databases are to be whole.
    let closed = instance.close();
    if let Err(error) = result
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        return Err(error.to_string());
    }
    closed.map_err(|error| format!("{}\n{error}", error.header()))?;
    Ok(match interrupts.exit_code() {
        Some(code) => code,
        None if failed => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}
