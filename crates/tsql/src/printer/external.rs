//! External tables and file formats.

use std::fmt::{Display, Formatter, Result};

use super::{flag, list, optional};
use crate::ast::*;

impl Display for CreateExternalTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "CREATE EXTERNAL TABLE {}", self.name)?;
        list(f, " ", &self.columns)?;
        list(f, " WITH ", &self.options)?;
        optional(f, " AS ", &self.query)
    }
}

impl Display for ExternalColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.name)?;
        optional(f, " ", &self.data_type)?;
        optional(f, " COLLATE ", &self.collation)?;
        flag(f, self.nullable == Some(true), " NULL")?;
        flag(f, self.nullable == Some(false), " NOT NULL")
    }
}

impl Display for CreateExternalFileFormat {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "CREATE EXTERNAL FILE FORMAT {}", self.name)?;
        list(f, " WITH ", &self.options)
    }
}
