//! Takes lines, runs the batches and commands that they are, and shows what comes of them.

use std::io::{self, BufRead};
use std::path::Path;

use hobt_base::SqlError;
use hobt_tsql::BatchText;

use super::arguments::Arguments;
use super::command::{self, Command};
use super::input::open_input;
use super::output::Output;
use super::shortcut::{self, Shortcut};
use super::variables::Variables;
use crate::batches::Splitter;
use crate::export::{ExportError, export_from};
use crate::import::{ImportError, import_within};
use crate::interrupt::{Interrupts, Source};
use crate::progress::StatementProgress;
use hobt::{Event, Session};

/// Files that read each other are that deep at most.
const FILES_DEEP: usize = 32;

/// Takes lines, and runs the batches that they make until one says to stop.
pub(super) struct Runner<'a> {
    pub(super) session: Session,
    pub(super) output: Output,
    /// The bar of a statement that takes long.
    pub(super) progress: StatementProgress,
    pub(super) interrupts: Interrupts,
    pub(super) arguments: &'a Arguments,
    pub(super) source: Source,
    pub(super) splitter: Splitter,
    pub(super) variables: Variables,
    /// `-b` and `:on error`: whether an error ends the script.
    pub(super) exits_on_error: bool,
    /// Whether the program is to end with an exit code of failure.
    pub(super) failed: bool,
    /// Files of `:r` that are being read.
    pub(super) files_open: usize,
}

/// Whether to go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Go {
    On,
    Stop,
}

impl Runner<'_> {
    /// Takes a line without its end.
    pub(super) fn line(&mut self, line: &str) -> io::Result<Go> {
        if let Some(command) = command::parse(line)
            && self.splitter.is_in_code()
        {
            return match command {
                Ok(command) => self.command(command),
                Err(text) => Ok(self.complain(&text)),
            };
        }
        if self.splitter.is_blank()
            && let Some(shortcut) = shortcut::parse(line)
        {
            return match shortcut {
                Ok(shortcut) => self.shortcut(shortcut),
                Err(text) => Ok(self.complain(&text)),
            };
        }
        match self.splitter.line(line) {
            Some(batch) => self.batch(&batch),
            None => Ok(Go::On),
        }
    }

    fn command(&mut self, command: Command) -> io::Result<Go> {
        match command {
            Command::Read(path) => match self.replace_variables(&path) {
                Ok(path) => return self.read_file(path.as_ref()),
                Err(text) => return Ok(self.complain(&text)),
            },
            Command::SetVariable { name, value } => match value.map(|value| self.replace_variables(&value)).transpose()
            {
                Ok(value) => self.variables.set(&name, value),
                Err(text) => return Ok(self.complain(&text)),
            },
            Command::OnError { exits } => self.exits_on_error = exits,
            Command::Plan(wanted) => {
                if let Err(text) = self.output.want_plans(wanted) {
                    return Ok(self.complain(&text));
                }
                self.session.collect_plans(self.output.wants_plans());
            }
            Command::Reset => drop(self.splitter.rest()),
            Command::Leave => return Ok(Go::Stop),
            Command::RunAndLeave => {
                let rest = self.splitter.rest();
                self.batch(&rest)?;
                return Ok(Go::Stop);
            }
        }
        Ok(Go::On)
    }

    /// Says what is wrong with a line. A user at a terminal tries again; a script must not go on as if it had run.
    fn complain(&mut self, text: &str) -> Go {
        eprintln!("{text}");
        if self.source == Source::Terminal {
            return Go::On;
        }
        self.failed = true;
        Go::Stop
    }

    fn replace_variables(&self, text: &str) -> Result<String, String> {
        if self.arguments.no_variables { Ok(text.to_owned()) } else { self.variables.replace(text) }
    }

    /// Takes a file's lines as if they stood where `:r` stands.
    fn read_file(&mut self, path: &Path) -> io::Result<Go> {
        if self.files_open == FILES_DEEP {
            return Ok(
                self.complain(&format!("{}: files read each other more than {FILES_DEEP} deep.", path.display()))
            );
        }
        let file = match open_input(path) {
            Ok(file) => file,
            Err(text) => return Ok(self.complain(&text)),
        };
        self.files_open += 1;
        let go = self.lines(file, &path.display().to_string());
        self.files_open -= 1;
        go
    }

    /// Takes lines as they come.
    fn lines(&mut self, reader: impl BufRead, name: &str) -> io::Result<Go> {
        for (index, line) in reader.lines().enumerate() {
            let line = match line {
                Ok(line) => line,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Ok(self.complain(&format!("{name}, line {}, is not UTF-8: save it as that.", index + 1)));
                }
                Err(error) => return Ok(self.complain(&format!("{name} cannot be read: {error}"))),
            };
            // A mark of the encoding is no part of the text.
            let line = if index == 0 { line.trim_start_matches('\u{feff}') } else { line.as_str() };
            if self.line(line)? == Go::Stop {
                return Ok(Go::Stop);
            }
        }
        Ok(Go::On)
    }

    pub(super) fn batch(&mut self, batch: &BatchText) -> io::Result<Go> {
        if batch.text.trim().is_empty() {
            return Ok(Go::On);
        }
        let text = match self.replace_variables(&batch.text) {
            Ok(text) => text,
            Err(text) => return Ok(self.complain(&text)),
        };
        for _ in 0..batch.repeat {
            if self.arguments.echo {
                self.output.echo(&text)?;
            }
            if self.run(&text)? == Go::Stop {
                return Ok(Go::Stop);
            }
            if self.interrupts.happened() {
                break;
            }
        }
        Ok(Go::On)
    }

    /// Runs a batch as it stands.
    fn run(&mut self, text: &str) -> io::Result<Go> {
        self.output.begin_batch();
        self.session.expect_batch();
        self.interrupts.begin();
        self.progress.begin();
        let (output, progress) = (&mut self.output, &self.progress);
        self.session.execute_expected(text, &mut |event: Event| {
            progress.hide();
            let flow = output.event(event);
            // A bar would stand among rows that come slowly.
            if !output.is_in_rows() {
                progress.allow();
            }
            flow
        });
        self.progress.hide();
        self.interrupts.end();
        self.output.end_batch()?;
        self.after_batch(self.output.failed())
    }

    /// Whether to go on after a batch.
    fn after_batch(&mut self, failed: bool) -> io::Result<Go> {
        if self.exits_on_error && failed {
            self.failed = true;
            return Ok(Go::Stop);
        }
        let is_over = self.interrupts.exit_code().is_some() || self.output.is_closed();
        Ok(if is_over { Go::Stop } else { Go::On })
    }

    fn shortcut(&mut self, shortcut: Shortcut) -> io::Result<Go> {
        match shortcut {
            Shortcut::Batch(text) => {
                // Names would be as wide as names may be.
                let before = self.output.set_trim(true);
                let go = self.run(&text);
                self.output.set_trim(before);
                go
            }
            Shortcut::Read(path) => {
                let go = self.read_file(path.as_ref())?;
                let rest = self.splitter.rest();
                if go == Go::Stop { Ok(go) } else { self.batch(&rest) }
            }
            Shortcut::Import(arguments) => {
                let done = self.announced(|session, _| import_within(&arguments, session));
                self.said(done.map(|()| None).map_err(|error| match error {
                    ImportError::Usage(text) => (format!("{text}."), false),
                    ImportError::Sql(error) => (sql_text(&error), true),
                }))
            }
            Shortcut::Export(arguments) => {
                let done = self.announced(|session, interrupts| export_from(session, &arguments, interrupts));
                self.said(done.map_err(|error| (error.to_string(), matches!(error, ExportError::Sql(_)))))
            }
            Shortcut::Help => {
                print!("{}", shortcut::help());
                Ok(Go::On)
            }
            Shortcut::Leave => Ok(Go::Stop),
        }
    }

    /// Runs what Ctrl-C may cancel.
    fn announced<T>(&mut self, run: impl FnOnce(&mut Session, &Interrupts) -> T) -> T {
        self.session.expect_batch();
        self.interrupts.begin();
        let done = run(&mut self.session, &self.interrupts);
        self.interrupts.end();
        done
    }

    /// Says what came of a shortcut: a line, or an error, and whether a statement raised it.
    fn said(&mut self, done: Result<Option<String>, (String, bool)>) -> io::Result<Go> {
        match done {
            Ok(line) => {
                line.iter().for_each(|line| println!("{line}"));
                self.after_batch(false)
            }
            Err((text, false)) => Ok(self.complain(&text)),
            Err((text, true)) => {
                eprintln!("{text}");
                self.after_batch(true)
            }
        }
    }

    /// Runs a script as it is read, batch by batch.
    pub(super) fn script(&mut self, reader: impl BufRead, name: &str) -> io::Result<Go> {
        if self.lines(reader, name)? == Go::Stop {
            return Ok(Go::Stop);
        }
        let rest = self.splitter.rest();
        self.batch(&rest)
    }
}

fn sql_text(error: &SqlError) -> String {
    format!("{}\n{error}", error.header())
}
