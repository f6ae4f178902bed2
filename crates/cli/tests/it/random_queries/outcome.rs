//! The outcome of a batch: rows, an error that a user can cause, or an internal error or a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hobt::{Session, SqlError};
use hobt_base::number;

use crate::client::{answer, panic_text};

/// A row, as texts; `None` is NULL.
pub(crate) type Row = Vec<Option<String>>;

/// The outcome of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Rows(Vec<Row>),
    /// An error that SQL Server has too.
    Failed(SqlError),
    /// An error that no script may cause, or a panic: its text.
    Broken(String),
}

impl Outcome {
    /// The rows, or the number of the error, or a note that it is broken.
    pub(crate) fn in_short(&self) -> String {
        match self {
            Outcome::Rows(rows) => format!("{rows:?}"),
            Outcome::Failed(error) => format!("error {}", error.number),
            Outcome::Broken(text) => format!("broken: {text}"),
        }
    }
}

/// Runs a batch. A panic leaves the session as it is, and tests continue to use it.
pub(crate) fn run(session: &mut Session, batch: &str) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| answer(session, batch))) {
        Ok((rows, None)) => Outcome::Rows(rows),
        Ok((_, Some(error))) if error.number == number::INTERNAL => Outcome::Broken(error.to_string()),
        Ok((_, Some(error))) => Outcome::Failed(error),
        Err(panic) => Outcome::Broken(format!("a panic: {}", panic_text(&*panic))),
    }
}
