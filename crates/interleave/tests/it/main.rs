//! Sessions beside each other, over many seeds; and bugs on purpose, which must be found.

mod planted;
mod seeds;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lets one test at a time run worlds: what a process has once is then shared by the actors of one world alone.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
