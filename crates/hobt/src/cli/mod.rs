//! The command line: one module for each sub-command.
//!
//! Not for embedding programs: nothing here is stable.

mod demo;
mod interrupt;
mod lab;
mod open;
mod sql;
mod why;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Re-runs experiments, sizes servers, makes fixtures
    Lab(lab::Arguments),
    /// Runs a query and says where its time went
    Why(why::Arguments),
}

/// Runs the program's arguments.
pub fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(arguments),
        Command::Sql(arguments) => sql::run(&arguments),
        Command::Lab(arguments) => lab::run(arguments),
        Command::Why(arguments) => why::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn arguments_do_not_contradict_each_other() {
        super::Arguments::command().debug_assert();
    }
}
