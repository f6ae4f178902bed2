//! How far an error reaches: one statement, its procedure, or the whole batch.
//!
//! SQL Server's rules, as Erland Sommarskog's "Error and Transaction Handling in SQL Server" lists them: constraint
//! violations, arithmetic errors and most others end their statement; errors of names and types found when a statement
//! is bound end the procedure or batch that it stands in; failed conversions, `THROW` and attentions end the batch.

use hobt_base::{SqlError, number};

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
    pub(super) reach: Reach,
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
        let reach = match reach_of(&error) {
            Reach::Statement => Reach::Scope,
            further => further,
        };
        Failure { error, reach, reported: false, raised_in: None }
    }

    /// An error that ends the batch wherever it stands.
    pub(super) fn of_batch(error: SqlError) -> Failure {
        Failure { error, reach: Reach::Batch, reported: false, raised_in: None }
    }

    /// The statement was cancelled by its user, by `KILL`, or because the client wants no more.
    pub(super) fn cancelled() -> Failure {
        Failure { error: SqlError::cancelled(), reach: Reach::Cancelled, reported: false, raised_in: None }
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Failure {
        Failure { reach: reach_of(&error), error, reported: false, raised_in: None }
    }
}

fn reach_of(error: &SqlError) -> Reach {
    match error.number {
        number::CANCELED => Reach::Cancelled,
        number::CONVERSION
        | number::CONVERSION_TYPE
        | number::DATE_CONVERSION
        | number::DATE_OUT_OF_RANGE
        | number::GUID_CONVERSION
        | number::INT_OVERFLOW_TEXT
        | number::MONEY_OVERFLOW
        | number::SYNTAX
        | number::SYNTAX_KEYWORD
        | number::UNCLOSED_QUOTE
        | number::UNCLOSED_COMMENT
        | number::UNDECLARED_VARIABLE
        | number::VARIABLE_REDECLARED
        | number::NESTED_TOO_DEEPLY
        | number::DEADLOCK
        | number::OUT_OF_MEMORY => Reach::Batch,
        _ if error.severity >= 19 => Reach::Batch,
        number::INVALID_OBJECT
        | number::INVALID_COLUMN
        | number::AMBIGUOUS_COLUMN
        | number::MULTI_PART_IDENTIFIER
        | number::UNKNOWN_FUNCTION => Reach::Scope,
        _ => Reach::Statement,
    }
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
