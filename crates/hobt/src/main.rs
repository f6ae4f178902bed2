//! The `hobt` program: a sub-command is a module of the library's `cli`.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// What many threads take and give back in small pieces goes through lists of each thread's own.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    hobt::cli::main()
}
