//! Arguments of DDL, as the interpreter passes them: names as the user wrote them, types and values resolved.

use std::path::PathBuf;

use hobt_base::errors;
use hobt_catalog::{Growth, IdentityColumn, IndexOptions, ModuleKind, NAME_LENGTH_MAX};
use hobt_types::{Collation, SqlType, Value};

use crate::error::{EngineError, Result};

/// `CREATE TABLE`.
#[derive(Clone, PartialEq, Debug)]
pub struct TableDefinition {
    /// The schema's name.
    pub schema: String,
    /// The table's name.
    pub name: String,
    /// Its columns, at least one.
    pub columns: Vec<ColumnDefinition>,
    /// Where its rows go.
    pub data_space: DataSpaceDefinition,
    /// Its keys and indexes.
    pub indexes: Vec<IndexDefinition>,
}

/// What a key constraint is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyKind {
    /// `PRIMARY KEY`.
    Primary,
    /// `UNIQUE`.
    Unique,
}

/// `CREATE INDEX`, or a key of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexDefinition {
    /// Its name; generated for a constraint if absent.
    pub name: Option<String>,
    /// `CLUSTERED` or `NONCLUSTERED` as written. By default a primary key is clustered if the table has no clustered
    /// index; everything else is nonclustered.
    pub is_clustered: Option<bool>,
    /// The key's columns, and whether each is `DESC`.
    pub columns: Vec<(String, bool)>,
    /// `INCLUDE`.
    pub included: Vec<String>,
    /// Where it is stored; by default with the table's rows.
    pub data_space: DataSpaceDefinition,
    /// The constraint that it enforces.
    pub constraint: Option<KeyKind>,
    /// Its options.
    pub options: IndexOptions,
    /// `DROP_EXISTING`: it replaces the index of this name.
    pub drops_existing: bool,
}

/// A column of `CREATE TABLE`.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The collation of a text column; the database's if absent.
    pub collation: Option<Collation>,
    /// The DEFAULT constraint.
    pub default: Option<DefaultDefinition>,
    /// `IDENTITY`.
    pub identity: Option<IdentityColumn>,
    /// `ROWGUIDCOL`.
    pub is_rowguid: bool,
    /// The expression of a computed column.
    pub computed: Option<ComputedDefinition>,
}

/// A computed column's expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ComputedDefinition {
    /// Its text, in parentheses.
    pub definition: String,
    /// `PERSISTED`: its values are stored.
    pub is_persisted: bool,
}

impl ColumnDefinition {
    /// A column without constraints.
    pub fn new(name: impl Into<String>, sql_type: SqlType, nullable: bool) -> ColumnDefinition {
        ColumnDefinition {
            name: name.into(),
            sql_type,
            nullable,
            collation: None,
            default: None,
            identity: None,
            is_rowguid: false,
            computed: None,
        }
    }
}

/// A DEFAULT constraint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefaultDefinition {
    /// Its name; generated if absent.
    pub name: Option<String>,
    /// The expression's text.
    pub definition: String,
}

/// `ON` of `CREATE TABLE`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum DataSpaceDefinition {
    /// No `ON` clause: the default filegroup.
    #[default]
    Default,
    /// A filegroup by name; `default` is the default one.
    Named(String),
    /// A partition scheme and the column that it partitions by.
    Scheme {
        /// The scheme's name.
        scheme: String,
        /// The column's name.
        column: String,
    },
}

/// `CREATE VIEW`, `CREATE FUNCTION`, `CREATE PROCEDURE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleDefinition {
    /// The schema's name; of no account for a file format, which has none.
    pub schema: String,
    /// The module's name.
    pub name: String,
    /// What it is.
    pub kind: ModuleKind,
    /// The text of the statement, or of an equal one.
    pub definition: String,
    /// What to do with an existing object of this name.
    pub replace: Replace,
}

/// What `CREATE` does with an existing object of the same name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replace {
    /// `CREATE`: there must be none.
    #[default]
    No,
    /// `CREATE OR ALTER`.
    IfExists,
    /// `ALTER`: there must be one.
    Must,
}

/// `CREATE PARTITION FUNCTION`.
#[derive(Clone, PartialEq, Debug)]
pub struct PartitionFunctionDefinition {
    /// Its name.
    pub name: String,
    /// The parameter's type.
    pub parameter: SqlType,
    /// The parameter's collation; the database's if absent.
    pub collation: Option<Collation>,
    /// `RANGE RIGHT`.
    pub range_right: bool,
    /// The boundary values as written, each converted to the parameter's type.
    pub boundaries: Vec<Value>,
}

/// `CREATE PARTITION SCHEME`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionSchemeDefinition {
    /// Its name.
    pub name: String,
    /// Its function's name.
    pub function: String,
    /// The filegroups as written.
    pub filegroups: Vec<String>,
    /// `ALL TO`: one filegroup for all partitions.
    pub all: bool,
}

/// `CREATE DATABASE`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DatabaseDefinition {
    /// Its name.
    pub name: String,
    /// The files of the primary filegroup; one by default.
    pub primary: Vec<FileDefinition>,
    /// Further filegroups.
    pub filegroups: Vec<FilegroupDefinition>,
    /// The files of the log; by default one beside the first data file.
    pub log: Vec<FileDefinition>,
}

/// A filegroup of `CREATE DATABASE`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FilegroupDefinition {
    /// Its name.
    pub name: String,
    /// Whether new objects go there.
    pub is_default: bool,
    /// Its files.
    pub files: Vec<FileDefinition>,
}

/// A data file. Defaults: a name from the database's, a path from the name, 8 MiB, growth by 64 MiB, no limit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileDefinition {
    /// The logical name.
    pub name: Option<String>,
    /// The path; a relative one starts at the instance's folder.
    pub path: Option<PathBuf>,
    /// The size in pages.
    pub size_pages: Option<u32>,
    /// How it grows.
    pub growth: Option<Growth>,
    /// The largest size in pages.
    pub max_pages: Option<u32>,
}

/// Checks the length of an identifier.
///
/// # Errors
/// 1038 for an empty name, 103 for one of more than 128 characters.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(EngineError::Statement(errors::EMPTY_NAME.error()));
    }
    if name.encode_utf16().count() > NAME_LENGTH_MAX {
        let start: String = name.chars().take(NAME_LENGTH_MAX).collect();
        return Err(EngineError::Statement(errors::IDENTIFIER_TOO_LONG.with([&start, &128])));
    }
    Ok(())
}
