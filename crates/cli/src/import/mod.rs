//! `hobt import`: files into a table, which is made for them if it is not there.

mod plan;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use hobt_base::{SqlError, number};
use hobt_showplan::{count, counted};

use self::plan::{Looked, Plan, columns_of};
use crate::interrupt::Interrupts;
use crate::open::{InstanceArguments, OpenError, exit_code, in_session};
use crate::progress::StatementProgress;
use hobt::{Event, Flow, Session};

/// The arguments of `hobt import`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    instance: InstanceArguments,
}

/// What is loaded, and how: the arguments of `hobt import` and of `.import`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoadArguments {
    /// The files (CSV, JSON lines, Parquet; text also as .gz or .zst), and the table last
    #[arg(required = true, num_args = 2.., value_name = "FILE… TABLE")]
    names: Vec<String>,
    /// The files' format: csv, tsv, jsonl or parquet; by the name of the first without
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// CSV: what stands between two values
    #[arg(long, value_name = "TEXT")]
    delimiter: Option<String>,
    /// CSV: what stands around values
    #[arg(long, value_name = "CHARACTER")]
    quote: Option<char>,
    /// CSV: the first row has names
    #[arg(long, conflicts_with = "no_header")]
    header: bool,
    /// CSV: the first row has values
    #[arg(long)]
    no_header: bool,
    /// Text: a code page such as 1252, or UTF-16; UTF-8 without
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    /// Types of a new table's columns in place of those found: "name type, name type"
    #[arg(long, value_name = "LIST")]
    types: Option<String>,
    /// Rows that may be left out because they cannot be read
    #[arg(long, value_name = "N", default_value_t = 10)]
    max_errors: u64,
    /// Says what would be done, and does not do it
    #[arg(long)]
    dry_run: bool,
}

/// What a load has done.
#[derive(Default)]
struct Loaded {
    rows: u64,
    error: Option<SqlError>,
}

/// Runs the sub-command. Files and options are looked at before there is an instance.
pub(crate) fn run(arguments: &Arguments, interrupts: &Interrupts) -> ExitCode {
    let Some((table, files)) = arguments.load.names.split_last() else { return usage("give files and a table") };
    if table.trim_start_matches('[').starts_with('#') {
        return usage(&format!(
            "{table} would be gone when the import ends: .import in hobt sql loads temporary tables"
        ));
    }
    let looked = match Looked::at(&arguments.load, files) {
        Ok(looked) => looked,
        Err(error) => return failed(error, interrupts),
    };
    if arguments.load.dry_run {
        match arguments.instance.is_new() {
            Ok(false) => {}
            Ok(true) => {
                let planned = Plan::new(looked, table, None);
                return planned.map_or_else(|error| failed(error, interrupts), |plan| say(&plan, interrupts));
            }
            Err(error) => return unopened(&error),
        }
    }
    let mut instance_arguments = arguments.instance.clone();
    for file in files {
        match std::path::absolute(file) {
            // A user of the program may read what the user may read.
            Ok(path) => instance_arguments.allowed_folders.push(folder_of(path)),
            Err(error) => return usage(&format!("{file}: {error}")),
        }
    }
    let opened = match instance_arguments.open("hobt import") {
        Ok(opened) => opened,
        Err(error) => return unopened(&error),
    };
    let (done, closed) = in_session(opened, interrupts, |session| import(&arguments.load, looked, table, session));
    match done {
        Ok(()) => exit_code(closed, interrupts),
        Err(error) => failed(error, interrupts),
    }
}

/// Says what would be done.
fn say(plan: &Plan, interrupts: &Interrupts) -> ExitCode {
    plan.lines().iter().for_each(|line| println!("{line}"));
    exit_code(Ok(()), interrupts)
}

fn failed(error: ImportError, interrupts: &Interrupts) -> ExitCode {
    match error {
        ImportError::Usage(text) => usage(&text),
        ImportError::Sql(error) => {
            let text = format!("{}\n{error}", error.header());
            interrupts.failed(Some(error.number), &text)
        }
    }
}

fn unopened(error: &OpenError) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

fn usage(text: &str) -> ExitCode {
    eprintln!("hobt: {text}");
    ExitCode::FAILURE
}

/// The folder of a file, or of a pattern: what stands before its first wildcard.
fn folder_of(path: PathBuf) -> PathBuf {
    let fixed = hobt_files::fixed_part(&path);
    if fixed != path {
        return fixed;
    }
    if path.is_dir() { path } else { path.parent().map(PathBuf::from).unwrap_or(path) }
}

/// Why nothing was loaded.
pub(crate) enum ImportError {
    /// What the user asked for is not possible; the text says why.
    Usage(String),
    Sql(SqlError),
}

impl From<SqlError> for ImportError {
    fn from(error: SqlError) -> ImportError {
        ImportError::Sql(error)
    }
}

/// Loads files into a table of the session's database, as the batch that [`Session::expect_batch`] has announced.
fn import(arguments: &LoadArguments, looked: Looked, table: &str, session: &mut Session) -> Result<(), ImportError> {
    let known = columns_of(session, table)?;
    let plan = Plan::new(looked, table, known)?;
    for line in plan.lines() {
        println!("{line}");
    }
    if arguments.dry_run {
        return Ok(());
    }
    let begun = Instant::now();
    let loaded = load(session, &plan);
    let elapsed = begun.elapsed();
    if let Some(error) = loaded.error {
        return Err(ImportError::Sql(error));
    }
    println!("{}", report(loaded.rows, plan.bytes, elapsed));
    Ok(())
}

/// Loads files as [`import`] does, in a session that goes on: its settings stay as they are, and so does a transaction
/// that is open.
pub(crate) fn import_within(arguments: &LoadArguments, session: &mut Session) -> Result<(), ImportError> {
    let Some((table, files)) = arguments.names.split_last() else {
        return Err(ImportError::Usage("give files and a table".to_owned()));
    };
    import(arguments, Looked::at(arguments, files)?, table, session)
}

/// Makes the table, if it is to be made, and loads the files: in one transaction, or from a savepoint of the open one.
fn load(session: &mut Session, plan: &Plan) -> Loaded {
    let mut loaded = Loaded::default();
    let shown = StatementProgress::of(session.progress());
    let is_within = session.transaction_count() > 0;
    let batch = if is_within { plan.batch_within() } else { plan.batch() };
    shown.begin();
    session.execute_expected(&batch, &mut |event: Event| {
        match event {
            Event::Error(error) => {
                loaded.error.get_or_insert(error);
            }
            Event::Message(message) if message.number != 0 => {
                shown.hide();
                eprintln!("{}", message.text);
                shown.allow();
            }
            Event::Done { row_count: Some(rows), .. } => loaded.rows = rows,
            _ => {}
        }
        Flow::Continue
    });
    // What is cancelled reaches no CATCH. Where there is no savepoint yet, there is nothing to undo.
    let is_cancelled = loaded.error.as_ref().is_some_and(|error| error.number == number::CANCELED);
    if is_within && is_cancelled && session.transaction_count() > 0 {
        let _undone = session.run(&plan.undo());
    }
    loaded
}

/// What was loaded, and how fast.
fn report(rows: u64, bytes: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
    let (megabytes, rate) = (bytes as f64 / 1e6, rows as f64 / seconds);
    format!(
        "{}, {megabytes:.1} MB in {seconds:.2} s, {} rows/s, {:.0} MB/s",
        counted(rows, "row"),
        count(rate as u64),
        megabytes / seconds
    )
}
