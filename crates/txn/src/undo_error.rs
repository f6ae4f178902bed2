//! Why a change could not be undone, and the capture of panics in what undoes it.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An undo or commit action that failed: a page that it needed cannot be read or written, or it stopped at a broken
/// invariant. The database is then SUSPECT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UndoError(pub String);

impl fmt::Display for UndoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a statement could not be undone: {}", self.0)
    }
}

impl std::error::Error for UndoError {}

/// What `action` returns; an error if it panics.
pub(crate) fn caught(action: impl FnOnce() -> Result<(), UndoError>) -> Result<(), UndoError> {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|panic| Err(stopped(&*panic)))
}

/// The error for a panic.
pub(crate) fn stopped(panic: &(dyn Any + Send)) -> UndoError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
    UndoError(format!("it stopped at a broken invariant: {text}"))
}
