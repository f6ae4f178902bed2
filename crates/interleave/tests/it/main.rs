//! Concurrent sessions over many seeds; and planted bugs, which must be found.

mod planted;
mod seeds;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lets one test at a time run worlds, so that process-wide state is shared only by the actors of one world.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
