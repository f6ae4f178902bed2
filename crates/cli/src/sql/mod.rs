//! `hobt sql`: batches from an argument, a file, a pipe or a terminal, in sqlcmd's manner.

mod arguments;
mod command;
mod export;
mod input;
mod interactive;
mod output;
mod runner;
mod shortcut;
mod table;
mod variables;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use hobt_files::write::{Timestamps, WriteOptions};

pub(super) use self::arguments::Arguments;
use self::arguments::Format;
use self::input::open_input;
use self::output::Output;
use self::runner::Runner;
use self::variables::Variables;
use super::interrupt::{Interrupts, Source};
use crate::batches::Splitter;
use crate::export::{ExportError, FileSink};
use crate::progress::StatementProgress;

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
