//! The error that reaches a user: SQL Server's number, severity, state and line, and a message that says what to do.

use std::fmt;

use crate::errors;

/// A position in a batch: line and column, both from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    /// The line in the batch, from 1.
    pub line: u32,
    /// The column in the line in characters, from 1.
    pub column: u32,
}

impl Default for Position {
    fn default() -> Position {
        Position { line: 1, column: 1 }
    }
}

/// An error as a client sees it.
///
/// `Display` prints the message alone; a client that wants SQL Server's frame
/// (`Msg 208, Level 16, State 1, Line 1`) uses [`SqlError::header`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqlError {
    /// SQL Server's error number (see [`crate::errors`]).
    pub number: i32,
    /// SQL Server's severity: the user can correct errors of 11 to 16; from 17 on, the administrator.
    pub severity: u8,
    /// Distinguishes the places that raise this number.
    pub state: u8,
    /// The position in the batch, if it is known, or in the text of `procedure` if the error was raised there.
    pub position: Option<Position>,
    /// The procedure in which it was raised, without its schema; `None` in the text of a batch.
    pub procedure: Option<Box<str>>,
    /// The text.
    pub message: String,
}

impl SqlError {
    /// An error whose number is no constant, such as that of `THROW`. What hobt raises itself is an entry of
    /// [`crate::errors`].
    pub fn raised(number: i32, severity: u8, state: u8, message: impl Into<String>) -> SqlError {
        SqlError { number, severity, state, position: None, procedure: None, message: message.into() }
    }

    /// An error of hobt's own: an invariant that did not hold, or a library that failed without a number.
    pub fn internal(message: impl fmt::Display) -> SqlError {
        errors::INTERNAL.with([&message])
    }

    /// An error for a feature that hobt does not support yet. `what` names it as the user wrote it.
    pub fn not_supported(what: impl fmt::Display) -> SqlError {
        errors::NOT_SUPPORTED.with([&what])
    }

    /// The error of a statement that was cancelled: by its user, by `KILL`, or by its client. SQL Server sends the
    /// client no message for it.
    pub fn cancelled() -> SqlError {
        errors::CANCELED.error()
    }

    /// This error at `position`, unless it has a position already.
    #[must_use]
    pub fn at(mut self, position: Position) -> SqlError {
        self.position.get_or_insert(position);
        self
    }

    /// `Msg 208, Level 16, State 1, Line 1`, or `…, Procedure p, Line 1` for an error in a procedure's text.
    pub fn header(&self) -> String {
        format!("Msg {}, Level {}, State {}, {}", self.number, self.severity, self.state, self.place())
    }

    /// `Line 1`, or `Procedure p, Line 1`.
    pub fn place(&self) -> String {
        let line = self.position.unwrap_or_default().line;
        match &self.procedure {
            Some(procedure) => format!("Procedure {procedure}, Line {line}"),
            None => format!("Line {line}"),
        }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SqlError {}
