//! How far an error reaches: one statement, its procedure, or the whole batch.
//!
//! SQL Server's rules, as Erland Sommarskog's "Error and Transaction Handling in SQL Server" lists them: constraint
//! violations, arithmetic errors and most others end their statement; errors of names and types found when a statement
//! is bound end the procedure or batch that it stands in; failed conversions, `THROW` and attentions end the batch.
//! Errors of a running statement that end the batch, and under `SET XACT_ABORT ON` all but those of `RAISERROR`, take
//! an open transaction with them.

use hobt_base::{Position, SqlError, number};

/// How far an error reaches where no `CATCH` takes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reach {
    /// The next statement runs.
    Statement,
    /// The caller's next statement runs.
    Scope,
    /// Nothing more runs.
    Batch,
    /// Nothing more runs, and no `CATCH` takes it: the statement was cancelled.
    Cancelled,
}

/// An error on its way to a `CATCH` or to the client.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Failure {
    pub(super) error: SqlError,
    /// The error that the client is told before it: what went wrong, where `error` says what could not be done.
    pub(super) cause: Option<Box<SqlError>>,
    pub(super) reach: Reach,
    /// Whether it leaves an open transaction nothing but to be rolled back: at once, or by the `CATCH` that takes it.
    pub(super) dooms: bool,
    /// Whether it does so under `SET XACT_ABORT ON`.
    pub(super) heeds_xact_abort: bool,
    /// Whether the client knows already.
    pub(super) reported: bool,
    /// Where it was raised, once it has left there: what `ERROR_PROCEDURE()` says in a caller's `CATCH`.
    pub(super) raised_in: Option<RaisedIn>,
}

/// The procedure that an error was raised in; `None` for the text of a batch.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct RaisedIn(pub(super) Option<String>);

impl Failure {
    /// An error found before its statement ran.
    pub(super) fn of_binding(error: SqlError) -> Failure {
        let failure = Failure::from(error);
        let reach = match failure.reach {
            Reach::Statement => Reach::Scope,
            further => further,
        };
        Failure { reach, ..failure }
    }

    /// An error that ends the batch wherever it stands.
    pub(super) fn of_batch(error: SqlError) -> Failure {
        Failure { reach: Reach::Batch, dooms: false, ..error.into() }
    }

    /// The same of a call as a whole: SQL Server puts it into the procedure's line 0.
    #[must_use]
    pub(super) fn of_call(mut self, procedure: &str) -> Failure {
        self.error.procedure = Some(Box::from(procedure));
        self.error.position = Some(Position { line: 0, column: 1 });
        self.raised_in = Some(RaisedIn(Some(procedure.to_owned())));
        self
    }

    /// The same with another error behind it, which is the one that a `CATCH` sees.
    #[must_use]
    pub(super) fn followed_by(self, error: SqlError) -> Failure {
        Failure { error, cause: Some(Box::new(self.error)), ..self }
    }

    /// What went wrong.
    pub(super) fn root(&self) -> &SqlError {
        self.cause.as_deref().unwrap_or(&self.error)
    }

    /// The statement was cancelled by its user, by `KILL`, or because the client wants no more.
    pub(super) fn cancelled() -> Failure {
        Failure { reach: Reach::Cancelled, ..SqlError::cancelled().into() }
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Failure {
        let (reach, dooms) = (reach_of(&error), dooms(&error));
        Failure { error, cause: None, reach, dooms, heeds_xact_abort: true, reported: false, raised_in: None }
    }
}

fn reach_of(error: &SqlError) -> Reach {
    match error.number {
        number::CANCELED => Reach::Cancelled,
        _ if dooms(error) => Reach::Batch,
        // Of the batch's text: nothing of it has run.
        number::SYNTAX
        | number::SYNTAX_KEYWORD
        | number::UNCLOSED_QUOTE
        | number::UNCLOSED_COMMENT
        | number::UNDECLARED_VARIABLE
        | number::VARIABLE_REDECLARED
        | number::NESTED_TOO_DEEPLY => Reach::Batch,
        number::INVALID_OBJECT
        | number::INVALID_COLUMN
        | number::AMBIGUOUS_COLUMN
        | number::MULTI_PART_IDENTIFIER
        | number::UNKNOWN_FUNCTION => Reach::Scope,
        _ => Reach::Statement,
    }
}

/// Whether an error takes the transaction with it: those that abort the batch while it runs, not those of its text.
fn dooms(error: &SqlError) -> bool {
    matches!(
        error.number,
        number::CONVERSION
            | number::CONVERSION_TYPE
            | number::DATE_CONVERSION
            | number::DATE_OUT_OF_RANGE
            | number::GUID_CONVERSION
            | number::INT_OVERFLOW_TEXT
            | number::MONEY_OVERFLOW
            | number::DEADLOCK
            | number::OUT_OF_MEMORY
            | number::TRANSACTION_DOOMED
            | number::SNAPSHOT_BEGUN_OTHERWISE
            | number::SNAPSHOT_CONFLICT
            | number::SNAPSHOT_DEFINITION_CHANGED
            | number::SNAPSHOT_OF_CLOSED
            | number::SNAPSHOT_DEFINITION
    ) || error.severity >= 19
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_ends_the_statement_and_conversion_the_batch() {
        assert_eq!(Failure::from(SqlError::new(number::DIVIDE_BY_ZERO, "")).reach, Reach::Statement);
        assert_eq!(Failure::from(SqlError::new(number::OVERFLOW, "")).reach, Reach::Statement);
        assert_eq!(Failure::from(SqlError::new(number::CONVERSION, "")).reach, Reach::Batch);
        assert_eq!(Failure::of_binding(SqlError::new(number::INVALID_COLUMN, "")).reach, Reach::Scope);
    }
}
