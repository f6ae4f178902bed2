//! One entry of the table of errors, and how it becomes an error.

use std::fmt::{Display, Write as _};

use crate::SqlError;

/// How long arguments usually are, so that most texts are allocated once.
const ARGUMENT_LENGTH: usize = 16;

/// An entry of the table of errors ([`crate::errors`]): a number with its severity, state and text.
///
/// `HOLES` is the number of `{}` in the text, so that the compiler counts the arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<const HOLES: usize> {
    /// SQL Server's error number.
    pub number: i32,
    /// Its severity.
    pub severity: u8,
    /// Its state.
    pub state: u8,
    /// Its text, with a `{}` for each argument.
    pub text: &'static str,
}

impl<const HOLES: usize> Entry<HOLES> {
    /// The error with these arguments in its text, in order.
    pub fn with(&self, arguments: [&dyn Display; HOLES]) -> SqlError {
        let mut message = String::with_capacity(self.text.len() + HOLES * ARGUMENT_LENGTH);
        let mut pieces = self.text.split("{}");
        message.push_str(pieces.next().unwrap_or_default());
        for (argument, piece) in arguments.into_iter().zip(pieces) {
            // An argument that fails to show itself leaves a gap.
            let _ = write!(message, "{argument}");
            message.push_str(piece);
        }
        SqlError::raised(self.number, self.severity, self.state, message)
    }
}

impl Entry<0> {
    /// The error.
    pub fn error(&self) -> SqlError {
        self.with([])
    }
}

/// The number of `{}` in a text.
pub(crate) const fn holes(text: &str) -> usize {
    let (bytes, mut at, mut count) = (text.as_bytes(), 1, 0);
    while at < bytes.len() {
        if bytes[at - 1] == b'{' && bytes[at] == b'}' {
            count += 1;
        }
        at += 1;
    }
    count
}

/// The state that an entry gives, or 1.
pub(crate) const fn state_of(given: &[u8]) -> u8 {
    if given.is_empty() { 1 } else { given[0] }
}
