//! Files as sources of rows.

use std::fmt::{Display, Formatter, Result};

use super::{commas, list, optional, string};
use crate::ast::*;

impl Display for FilePattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        string(f, &self.path)
    }
}

impl Display for FileSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("OPENROWSET (BULK ")?;
        match &self.files[..] {
            [file] => write!(f, "{file}")?,
            files => list(f, "", files)?,
        }
        for option in &self.options {
            write!(f, ", {option}")?;
        }
        f.write_str(")")?;
        list(f, " WITH ", &self.columns)?;
        optional(f, " AS ", &self.alias)
    }
}

impl Display for FileOption {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            FileOption::Item(item) => write!(f, "{item}"),
            FileOption::Order { columns, unique, .. } => {
                list(f, "ORDER ", columns)?;
                f.write_str(if *unique { " UNIQUE" } else { "" })
            }
        }
    }
}

impl Display for FileOrder {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}{}", self.name, if self.descending { " DESC" } else { "" })
    }
}

impl Display for FileSourceColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}", self.name, self.data_type)?;
        optional(f, " COLLATE ", &self.collation)?;
        optional(f, " ", &self.ordinal)?;
        match &self.path {
            Some(path) => {
                f.write_str(" ")?;
                string(f, path)
            }
            None => Ok(()),
        }
    }
}

impl Display for BulkInsert {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}", if self.is_copy { "COPY INTO" } else { "BULK INSERT" }, self.target)?;
        list(f, " ", &self.columns)?;
        f.write_str(" FROM ")?;
        commas(f, &self.files)?;
        list(f, " WITH ", &self.options)
    }
}

impl Display for CopyColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.name)?;
        optional(f, " DEFAULT ", &self.default)?;
        optional(f, " ", &self.field)
    }
}
