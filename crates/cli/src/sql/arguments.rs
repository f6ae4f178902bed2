//! The arguments of `hobt sql`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::command::is_name;
use crate::open::InstanceArguments;

/// Characters of text at most in a column, unless told otherwise: sqlcmd's number for its `-y`.
const WIDTH: u16 = 256;

/// How rows are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
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
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) instance: InstanceArguments,
    /// Runs these batches and ends
    #[arg(short = 'Q', long = "query", value_name = "SQL", conflicts_with = "input")]
    pub(super) query: Option<String>,
    /// Runs a file and ends
    #[arg(short = 'i', long = "input", value_name = "FILE")]
    pub(super) input: Option<PathBuf>,
    /// Writes to a file in place of the terminal
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Ends with exit code 1 at the first error above severity 10
    #[arg(short = 'b', long = "stop-on-error")]
    pub(super) stop_on_error: bool,
    /// Rows between two headers; 0 prints one header, -1 none
    #[arg(short = 'h', long = "headers", value_name = "ROWS", default_value_t = 0, allow_hyphen_values = true)]
    pub(super) headers: i64,
    /// What stands between two columns
    #[arg(short = 's', long = "separator", value_name = "TEXT", default_value = " ")]
    pub(super) separator: String,
    /// Leaves out spaces at the end of values
    #[arg(short = 'W', long = "trim")]
    pub(super) trim: bool,
    /// The widest column of a `max` type; longer values are cut and end in …; 0 cuts none
    #[arg(short = 'y', long = "large-width", value_name = "CHARACTERS", default_value_t = WIDTH)]
    pub(super) large_width: u16,
    /// The widest column of any other text or binary, likewise
    #[arg(short = 'Y', long = "width", value_name = "CHARACTERS", default_value_t = WIDTH)]
    pub(super) width: u16,
    /// Prints each batch before it runs
    #[arg(short = 'e', long = "echo")]
    pub(super) echo: bool,
    /// What stands for $(NAME) in batches; may be given several times
    #[arg(short = 'v', long = "variable", value_name = "NAME=VALUE", value_parser = variable)]
    pub(super) variables: Vec<(String, String)>,
    /// Leaves $(NAME) in batches as it is
    #[arg(short = 'x', long = "no-variables")]
    pub(super) no_variables: bool,
    /// Draws the plan of each statement behind its rows
    #[arg(long)]
    pub(super) plan: bool,
    /// Writes the plans of all statements as a page of HTML; as XML where the name ends with .sqlplan
    #[arg(long = "plan-page", value_name = "FILE")]
    pub(super) plan_page: Option<PathBuf>,
    /// How rows are shown
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
    /// Prints this help, as `-h` does behind all others; with a value that is sqlcmd's `--headers`
    #[arg(long = "help", action = clap::ArgAction::Help)]
    pub(super) help: Option<bool>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if is_name(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is NAME=VALUE, where a name has letters, digits, _ and -".to_owned()),
    }
}
