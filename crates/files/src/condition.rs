//! Conditions on columns of files.

use hobt_types::Value;

/// How a column is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileTest {
    /// `=`
    Equal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A condition on a column of files. Rows that do not fulfil it are not wanted; rows of a file that notes no values are
/// read all.
#[derive(Clone, PartialEq, Debug)]
pub struct FileCondition {
    /// The column, by its place among the request's.
    pub column: usize,
    /// How it is compared.
    pub test: FileTest,
    /// With what; a number, date or time in the form of the column's type.
    pub value: Value,
}
