//! The `hobt` program: a sub-command is a module of the library's `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hobt::cli::main()
}
