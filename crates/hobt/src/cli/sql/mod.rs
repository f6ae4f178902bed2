//! `hobt sql`: batches from an argument, a file, a pipe or a terminal, in sqlcmd's manner.

mod export;
mod interactive;
mod output;
mod table;

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use hobt_tsql::BatchText;

use self::output::Output;
use super::interrupt::{Interrupts, Source};
use super::open::InstanceArguments;
use crate::batches::Splitter;
use crate::instance::Session;

/// How rows are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Format {
    /// Columns of fixed width, as sqlcmd prints them
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One array of objects for each result set
    Json,
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
    /// Prints each batch before it runs
    #[arg(short = 'e', long = "echo")]
    echo: bool,
    /// How rows are shown
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Shows no help for `-h`, which is sqlcmd's
    #[arg(long = "help", action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Runs batches until one fails under `-b`.
struct Runner<'a> {
    session: Session,
    output: Output,
    interrupts: Interrupts,
    arguments: &'a Arguments,
}

/// Whether to go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Go {
    On,
    Stop,
}

impl Runner<'_> {
    fn batch(&mut self, batch: &BatchText) -> io::Result<Go> {
        if batch.text.trim().is_empty() {
            return Ok(Go::On);
        }
        for _ in 0..batch.repeat {
            if self.arguments.echo {
                self.output.echo(&batch.text)?;
            }
            self.session.expect_batch();
            self.interrupts.begin();
            let output = &mut self.output;
            self.session.execute_expected(&batch.text, &mut |event| output.event(event));
            self.interrupts.end();
            self.output.end_batch()?;
            if self.interrupts.exit_code().is_some()
                || self.output.is_closed()
                || (self.arguments.stop_on_error && self.output.failed())
            {
                return Ok(Go::Stop);
            }
            if self.interrupts.happened() {
                break;
            }
        }
        Ok(Go::On)
    }

    /// Runs a script as it is read, batch by batch.
    fn script(&mut self, reader: impl BufRead) -> io::Result<Go> {
        let mut splitter = Splitter::default();
        let mut first = true;
        for line in reader.lines() {
            let mut line = line?;
            if std::mem::take(&mut first)
                && let Some(rest) = line.strip_prefix('\u{feff}')
            {
                line = rest.to_owned();
            }
            if let Some(batch) = splitter.line(&line)
                && self.batch(&batch)? == Go::Stop
            {
                return Ok(Go::Stop);
            }
        }
        self.batch(&splitter.rest())
    }
}

/// Runs the sub-command.
pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let interrupts = Interrupts::hold();
    let (instance, mut session) = match arguments.instance.open("hobt sql") {
        Ok(opened) => opened,
        Err(error) => {
            eprintln!("{}\n{error}", error.header());
            return ExitCode::FAILURE;
        }
    };
    let target: Box<dyn Write> = match &arguments.output {
        None => Box::new(io::stdout()),
        Some(path) => match File::create(path) {
            Ok(file) => Box::new(file),
            Err(error) => {
                eprintln!("{} cannot be written: {error}", path.display());
                return ExitCode::FAILURE;
            }
        },
    };
    let is_terminal = arguments.query.is_none() && arguments.input.is_none() && io::stdin().is_terminal();
    let source = if is_terminal { Source::Terminal } else { Source::Script };
    interrupts.watch(session.cancel_handle(), &instance, source);
    let output = Output::new(target, arguments, instance.server().name());
    let mut runner = Runner { session, output, interrupts, arguments };
    let result = match (&arguments.query, &arguments.input) {
        (Some(query), _) => runner.script(query.as_bytes()),
        (None, Some(path)) => File::open(path).and_then(|file| runner.script(BufReader::new(file))),
        (None, None) if is_terminal => interactive::run(&mut runner),
        (None, None) => runner.script(io::stdin().lock()),
    };
    let failed = arguments.stop_on_error && runner.output.failed();
    let interrupts = runner.interrupts.clone();
    interrupts.close();
    drop(runner);
    // Whatever happened to the output, the databases are to be whole.
    let closed = instance.close();
    if let Err(error) = result
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    if let Err(error) = closed {
        eprintln!("{}\n{error}", error.header());
        return ExitCode::FAILURE;
    }
    match interrupts.exit_code() {
        Some(code) => code,
        None if failed => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    }
}
