//! `hobt demo`: the main job, from an empty folder to a report.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use hobt_lab::{DemoOptions, Progress, run_demo};

use crate::interrupt::Interrupts;

/// The arguments of `hobt demo`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Rows of BigData; chosen from memory and free disk unless given
    #[arg(long)]
    rows: Option<u64>,
    /// Folder for the data, which must be empty or left by an earlier demo
    #[arg(long, value_name = "DIR", default_value = hobt_lab::DEMO_FOLDER)]
    data: PathBuf,
    /// Keep the data, to look at them with hobt sql
    #[arg(long)]
    keep: bool,
    /// Folder for the report
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Repetitions of each scan
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
}

/// Runs `hobt demo`. The table goes to the standard output, errors and progress to the error stream.
pub(crate) fn run(arguments: Arguments, interrupts: &Interrupts) -> ExitCode {
    let options = DemoOptions {
        data: arguments.data,
        keep: arguments.keep,
        out: arguments.out,
        rows: arguments.rows,
        repeat: arguments.repeat as usize,
    };
    interrupts.watch_laboratory();
    let done = run_demo(&options, Progress::on_error_stream()).map(|result| {
        print!("{}\n{}", result.report.to_text(), result.closing_words());
    });
    crate::lab::exit_code(done, interrupts)
}
