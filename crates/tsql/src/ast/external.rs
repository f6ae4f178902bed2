//! Tables whose rows are in files, and the formats of such files.

use super::{DataType, Identifier, ObjectName, OptionItem, Query};

/// `CREATE EXTERNAL TABLE name (columns) WITH (options) [AS query]`.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateExternalTable {
    /// The table.
    pub name: ObjectName,
    /// Its columns. With a query they have names alone, or are absent.
    pub columns: Vec<ExternalColumn>,
    /// The options: where the files are, and their format.
    pub options: Vec<OptionItem>,
    /// The query whose rows are written to a new file.
    pub query: Option<Box<Query>>,
}

/// A column of an external table.
#[derive(Clone, PartialEq, Debug)]
pub struct ExternalColumn {
    /// Its name.
    pub name: Identifier,
    /// Its type; absent if a query says it.
    pub data_type: Option<DataType>,
    /// `COLLATE`.
    pub collation: Option<Identifier>,
    /// `NULL` or `NOT NULL`, if written.
    pub nullable: Option<bool>,
}

/// `CREATE EXTERNAL FILE FORMAT name WITH (options)`.
#[derive(Clone, PartialEq, Debug)]
pub struct CreateExternalFileFormat {
    /// Its name, which has no schema.
    pub name: Identifier,
    /// The options.
    pub options: Vec<OptionItem>,
}
