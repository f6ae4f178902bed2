//! The error that reaches a user: SQL Server's number, severity, state and line, and a message that says what to do.

use std::fmt;

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
    /// SQL Server's error number (see [`crate::number`]).
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
    /// An error with the severity that SQL Server gives to `number`, state 1 and no position.
    pub fn new(number: i32, message: impl Into<String>) -> SqlError {
        let (severity, message) = (severity_of(number), message.into());
        SqlError { number, severity, state: 1, position: None, procedure: None, message }
    }

    /// An error of hobt's own: an invariant that did not hold, or a library that failed without a number.
    pub fn internal(message: impl Into<String>) -> SqlError {
        SqlError::new(crate::number::INTERNAL, message)
    }

    /// An error for a feature that hobt does not support yet. `what` names it as the user wrote it.
    pub fn not_supported(what: impl fmt::Display) -> SqlError {
        SqlError::new(crate::number::NOT_SUPPORTED, format!("{what} is not supported by this version of hobt."))
    }

    /// The error of a statement that was cancelled: by its user, by `KILL`, or by its client. SQL Server sends the
    /// client no message for it.
    pub fn cancelled() -> SqlError {
        SqlError::new(crate::number::CANCELED, "Query was canceled by user.")
    }

    /// This error with another state.
    #[must_use]
    pub fn with_state(mut self, state: u8) -> SqlError {
        self.state = state;
        self
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

/// Errors of level 15, which the parser or the binder finds from the text alone.
const LEVEL_15: &[i32] = &[
    102, 103, 105, 109, 110, 111, 113, 119, 120, 121, 127, 128, 131, 132, 133, 134, 135, 136, 137, 141, 144, 145, 147,
    148, 155, 156, 164, 168, 174, 177, 178, 183, 189, 191, 195, 319, 321, 1002, 1007, 1015, 1023, 1026, 1031, 1033,
    1038, 1042, 1060, 1062, 1067, 1087, 2750, 4108, 4112, 4113, 4123, 4145, 5308, 5309, 5362, 10703, 10704, 10709,
    10715, 10735, 10741, 10742, 10744, 10752, 10753, 10756, 10757, 10759,
];

/// The severity that SQL Server gives to `number`; 16 if none is listed here.
pub fn severity_of(number: i32) -> u8 {
    use crate::number as n;
    match number {
        _ if LEVEL_15.contains(&number) => 15,
        n::DROP_DOES_NOT_EXIST => 11,
        n::DATA_MOVED => 12,
        n::DATABASE_SUSPECT => 14,
        n::FILEGROUP_FULL | n::OUT_OF_MEMORY | n::LOG_FULL | n::VERSION_STORE_FULL => 17,
        n::LOG_NOT_AVAILABLE => 21,
        n::PAGE_DAMAGED | n::IO_ERROR => 24,
        n::INTERNAL => 20,
        _ => 16,
    }
}
