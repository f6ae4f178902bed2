//! How much an error ends: its statement, its procedure, or the whole batch.
//!
//! The rules are SQL Server's, as listed in Erland Sommarskog's "Error and Transaction Handling in SQL Server".
//! Constraint violations, arithmetic errors and most others end their statement. Errors of names and types found while
//! a statement is bound end its procedure or batch. Failed conversions, `THROW` and attentions end the batch. Errors of
//! a running statement that end the batch also abort an open transaction. Under `SET XACT_ABORT ON` all errors but
//! those of `RAISERROR` do so.

use hobt_base::{Position, SqlError, number};

/// How much an error ends if no `CATCH` handles it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reach {
    /// The next statement runs.
    Statement,
    /// The caller's next statement runs.
    Scope,
    /// Nothing more runs.
    Batch,
    /// Nothing more runs, and no `CATCH` handles it: the statement was cancelled.
    Cancelled,
}

/// An error on its way to a `CATCH` or to the client.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Failure {
    pub(super) error: SqlError,
    /// The underlying error, sent to the client before `error`, which says what could not be done.
    pub(super) cause: Option<Box<SqlError>>,
    pub(super) reach: Reach,
    /// Whether an open transaction can only be rolled back afterwards: at once, or by the `CATCH` that handles the
    /// error.
    pub(super) dooms: bool,
    /// Whether it dooms the transaction under `SET XACT_ABORT ON`.
    pub(super) heeds_xact_abort: bool,
    /// Whether it has been sent to the client.
    pub(super) reported: bool,
    /// Where it was raised, once it has left that procedure: the result of `ERROR_PROCEDURE()` in a caller's `CATCH`.
    pub(super) raised_in: Option<RaisedIn>,
}

/// The procedure that raised an error. `None` for the text of a batch.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct RaisedIn(pub(super) Option<String>);

impl Failure {
    /// A failure from an error found before its statement ran.
    pub(super) fn of_binding(error: SqlError) -> Failure {
        let failure = Failure::from(error);
        let reach = match failure.reach {
            // A file is looked at when its statement runs.
            Reach::Statement if is_of_files(&failure.error) => Reach::Statement,
            Reach::Statement => Reach::Scope,
            further => further,
        };
        Failure { reach, ..failure }
    }

    /// A failure that ends the batch regardless of where it occurs.
    pub(super) fn of_batch(error: SqlError) -> Failure {
        Failure { reach: Reach::Batch, dooms: false, ..error.into() }
    }

    /// Attributes the failure to the call of `procedure` as a whole: SQL Server reports line 0 of the procedure.
    #[must_use]
    pub(super) fn of_call(mut self, procedure: &str) -> Failure {
        self.error.procedure = Some(Box::from(procedure));
        self.error.position = Some(Position { line: 0, column: 1 });
        self.raised_in = Some(RaisedIn(Some(procedure.to_owned())));
        self
    }

    /// Adds a second error, which is the one that a `CATCH` sees.
    #[must_use]
    pub(super) fn followed_by(self, error: SqlError) -> Failure {
        Failure { error, cause: Some(Box::new(self.error)), ..self }
    }

    /// The underlying error.
    pub(super) fn root(&self) -> &SqlError {
        self.cause.as_deref().unwrap_or(&self.error)
    }

    /// A failure because the statement was cancelled by its user, by `KILL`, or because the client accepts no more.
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

/// Whether an error says that files of rows are not there, may not be read, or are none.
fn is_of_files(error: &SqlError) -> bool {
    matches!(error.number, number::SINGLE_NCLOB_NOT_UNICODE..=number::RECORD_ODD_BYTES)
}

fn reach_of(error: &SqlError) -> Reach {
    match error.number {
        number::CANCELED => Reach::Cancelled,
        _ if dooms(error) => Reach::Batch,
        // Errors of the batch's text: nothing of the batch has run.
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

/// Whether an error aborts the transaction: errors that end a running batch do, errors of its text do not.
fn dooms(error: &SqlError) -> bool {
    matches!(
        error.number,
        number::CONVERSION
            | number::CONVERSION_TYPE
            | number::DATE_CONVERSION
            | number::DATE_OUT_OF_RANGE
            | number::GUID_CONVERSION
            | number::INT_OVERFLOW_TEXT
            | number::DEADLOCK
            | number::OUT_OF_MEMORY
            | number::TRANSACTION_DOOMED
            | number::SNAPSHOT_BEGUN_OTHERWISE
            | number::SNAPSHOT_CONFLICT
            | number::VERSION_GIVEN_UP
            | number::SNAPSHOT_DEFINITION_CHANGED
            | number::SNAPSHOT_OF_CLOSED
            | number::SNAPSHOT_DEFINITION
    ) || error.severity >= 19
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_base::errors;

    #[test]
    fn arithmetic_ends_the_statement_and_conversion_the_batch() {
        assert_eq!(Failure::from(errors::DIVIDE_BY_ZERO.error()).reach, Reach::Statement);
        assert_eq!(Failure::from(errors::OVERFLOW.with([&"", &""])).reach, Reach::Statement);
        assert_eq!(Failure::from(errors::CONVERSION.with([&"", &"", &""])).reach, Reach::Batch);
        assert_eq!(Failure::of_binding(errors::INVALID_COLUMN.with([&""])).reach, Reach::Scope);
    }
}
