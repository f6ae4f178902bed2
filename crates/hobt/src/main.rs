//! The `hobt` program. Each sub-command is a module of the library's `cli`.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Small allocations by many threads are served from per-thread lists.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    hobt::cli::main()
}
