//! The `hobt` program: one module for each sub-command.

mod batches;
mod demo;
mod disk;
mod export;
mod import;
mod interrupt;
mod lab;
mod open;
mod plan_page;
mod progress;
mod sql;
mod why;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hobt::STACK_BYTES;
use hobt_disk::open_files;
use mimalloc::MiMalloc;

use self::interrupt::Interrupts;

/// Small allocations by many threads are served from per-thread lists.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A SQL database that speaks T-SQL, scans at the speed of the hardware and shows where the time goes.
#[derive(Parser, Debug)]
#[command(name = "hobt", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Builds a large table, scans it in every form, and writes a report of what this machine reaches
    Demo(demo::Arguments),
    /// Runs T-SQL: a query, a file, or what you type
    // `-h` is sqlcmd's; `--help` is the sub-command's own argument.
    #[command(disable_help_flag = true)]
    Sql(sql::Arguments),
    /// Writes the rows of a query or a table to a file: CSV, JSON, Parquet
    Export(export::Arguments),
    /// Loads files into a table, which is made if it is not there
    Import(import::Arguments),
    /// Re-runs experiments, sizes servers, makes fixtures
    Lab(lab::Arguments),
    /// Runs a query and says where its time went
    Why(why::Arguments),
}

/// The beginning of the standard library's panic text when the reader of the output has closed it.
const OUTPUT_IS_GONE: &str = "failed printing to stdout";
/// How shells see a program that a closed pipe has ended: 128 and the signal's number.
const CLOSED_PIPE: u8 = 128 + 13;

/// Whether a panic says that the reader of the output has closed it, which is no fault.
fn is_output_gone(payload: &(dyn std::any::Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied());
    text.is_some_and(|text| text.starts_with(OUTPUT_IS_GONE))
}

/// Has the program end quietly, with all that it has open closed, when its output goes to a pipe that is closed.
fn end_quietly_without_reader() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_output_gone(panic.payload()) {
            others(panic);
        }
    }));
}

/// The arguments as they are meant: `-h` behind all others of `hobt sql` asks for help, since sqlcmd's option of that
/// name has a value.
fn meant(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|command| command == "sql")
        && let Some(last) = arguments.last_mut().filter(|last| *last == "-h")
    {
        *last = "--help".into();
    }
    arguments
}

fn main() -> ExitCode {
    end_quietly_without_reader();
    let command = Arguments::parse_from(meant(std::env::args_os().collect())).command;
    // If the system refuses, the limit stays: an error of a file that meets it names it.
    let _refused = open_files::raise_limit();
    // Threads inherit that signals are held, so this comes before the first of them.
    let interrupts = Interrupts::hold();
    // The stack of the main thread is as the user's shell limits it.
    let runner = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || match command {
        Command::Demo(arguments) => demo::run(arguments, &interrupts),
        Command::Sql(arguments) => sql::run(&arguments, interrupts),
        Command::Export(arguments) => export::run(&arguments, &interrupts),
        Command::Import(arguments) => import::run(&arguments, &interrupts),
        Command::Lab(arguments) => lab::run(arguments, &interrupts),
        Command::Why(arguments) => why::run(&arguments, &interrupts),
    });
    match runner.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        Ok(Err(panic)) if is_output_gone(panic.as_ref()) => ExitCode::from(CLOSED_PIPE),
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => {
            eprintln!("hobt: no thread can be started: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn a_last_h_of_sql_asks_for_help_and_one_with_a_value_does_not() {
        let meant = |arguments: &[&str]| super::meant(arguments.iter().map(Into::into).collect());
        assert_eq!(meant(&["hobt", "sql", "-h"]), ["hobt", "sql", "--help"]);
        assert_eq!(meant(&["hobt", "sql", "-h", "-1"]), ["hobt", "sql", "-h", "-1"]);
        assert_eq!(meant(&["hobt", "why", "-h"]), ["hobt", "why", "-h"]);
    }

    #[test]
    fn arguments_do_not_contradict_each_other() {
        super::Arguments::command().debug_assert();
    }
}
