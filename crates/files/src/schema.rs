//! The columns of files.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use hobt_functions::carrier;
use hobt_types::SqlType;

/// A column that is read from files.
#[derive(Clone, PartialEq, Debug)]
pub struct FileColumn {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub sql_type: SqlType,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// The field of a row that it is read from, from 0. In Parquet the column of the file.
    pub field: usize,
    /// The path of the property that it is read from, in JSON; its name if absent.
    pub path: Option<String>,
}

/// Columns in their carriers.
pub fn file_schema(columns: &[FileColumn]) -> SchemaRef {
    // NULLs of a file are found row by row, so a row with one can be rejected: no carrier excludes them.
    let field = |column: &FileColumn| Field::new(&column.name, carrier(column.sql_type), true);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}
