//! Errors of the catalog.

use std::fmt;

use hobt_access::AccessError;

use crate::check::BrokenRule;
use crate::system::SystemTable;

/// An error of reading or writing system tables, grouped by what the caller does next.
#[derive(Debug)]
pub enum CatalogError {
    /// The pages could not be read or written, for a reason of the access methods.
    Access(AccessError),
    /// A row that this version does not write. Its page's checksum is right, so the database comes from another version
    /// or was changed by hand: it is refused.
    Row {
        /// The table.
        table: SystemTable,
        /// What is wrong with the row.
        what: String,
    },
    /// The rows contradict each other: the database is refused too.
    Rule(BrokenRule),
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CatalogError::Access(error) => error.fmt(f),
            CatalogError::Row { table, what } => write!(f, "a row of system table {} is damaged: {what}", table.name()),
            CatalogError::Rule(rule) => rule.fmt(f),
        }
    }
}

impl std::error::Error for CatalogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CatalogError::Access(error) => Some(error),
            CatalogError::Row { .. } => None,
            CatalogError::Rule(rule) => Some(rule),
        }
    }
}

impl From<AccessError> for CatalogError {
    fn from(error: AccessError) -> CatalogError {
        CatalogError::Access(error)
    }
}

impl From<BrokenRule> for CatalogError {
    fn from(rule: BrokenRule) -> CatalogError {
        CatalogError::Rule(rule)
    }
}

/// An error for an impossible row.
pub(crate) fn damaged(table: SystemTable, what: impl Into<String>) -> CatalogError {
    CatalogError::Row { table, what: what.into() }
}
