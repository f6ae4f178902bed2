//! What a writer knows of a column.

use hobt_types::SqlType;

/// A column of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type. Batches have that type's carrier.
    pub sql_type: SqlType,
    /// Whether NULL can occur.
    pub nullable: bool,
}
