//! Files as sources of rows: `OPENROWSET (BULK …)`, `BULK INSERT`, `COPY INTO`.

use super::{DataType, Expression, Identifier, ObjectName, OptionItem, Position, Span, TableAlias};

/// The name of one file or of several: a path, a folder, or a pattern with `*`, `?` and `[…]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilePattern {
    /// The text.
    pub path: String,
    /// Its position.
    pub span: Span,
}

/// `OPENROWSET (BULK …, options) [WITH (columns)] [AS alias]`.
#[derive(Clone, PartialEq, Debug)]
pub struct FileSource {
    /// The files, at least one.
    pub files: Vec<FilePattern>,
    /// The options behind them.
    pub options: Vec<FileOption>,
    /// The columns that `WITH` lists; empty if absent.
    pub columns: Vec<FileSourceColumn>,
    /// The table that the rows go to, whose columns the fields of a file are. No text says it: it is set for the source
    /// of a `BULK INSERT`.
    pub target: Option<FileTarget>,
    /// Its alias.
    pub alias: Option<TableAlias>,
    /// Its position in the text.
    pub span: Span,
}

/// The table that the rows of files go to.
#[derive(Clone, PartialEq, Debug)]
pub struct FileTarget {
    /// The table.
    pub name: ObjectName,
    /// The columns that fields fill, each with the number of its field, from 0.
    pub columns: Vec<(Identifier, usize)>,
    /// How many fields a row has; `None` if the columns say which of them they take, and there may be more.
    pub fields: Option<usize>,
    /// Whether it is that of a `COPY INTO`, whose files are CSV if nothing says otherwise.
    pub is_copy: bool,
}

/// A column of `WITH (…)`.
#[derive(Clone, PartialEq, Debug)]
pub struct FileSourceColumn {
    /// Its name.
    pub name: Identifier,
    /// Its type.
    pub data_type: DataType,
    /// `COLLATE`.
    pub collation: Option<Identifier>,
    /// The number of the field that it is read from, from 1; by its name or place if absent.
    pub ordinal: Option<i64>,
    /// The name of the field, or the path of the property, that it is read from; its own name if absent.
    pub path: Option<String>,
    /// Whether it can be NULL. No text says that it cannot: it is set for the columns of an external table.
    pub nullable: bool,
}

/// An option of a source of files.
#[derive(Clone, PartialEq, Debug)]
pub enum FileOption {
    /// `NAME`, `NAME = value`.
    Item(OptionItem),
    /// `ORDER (column [ASC | DESC], …) [UNIQUE]`.
    Order {
        /// The columns.
        columns: Vec<FileOrder>,
        /// Whether `UNIQUE` was written.
        unique: bool,
        /// Its position.
        span: Span,
    },
}

/// A column of `ORDER (…)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileOrder {
    /// Its name.
    pub name: Identifier,
    /// Whether `DESC` was written.
    pub descending: bool,
}

impl FileOption {
    /// The option, unless it is `ORDER`.
    pub fn item(&self) -> Option<&OptionItem> {
        match self {
            FileOption::Item(item) => Some(item),
            FileOption::Order { .. } => None,
        }
    }
}

/// `BULK INSERT table FROM 'file' WITH (…)`, or `COPY INTO table (columns) FROM 'file', … WITH (…)`.
#[derive(Clone, PartialEq, Debug)]
pub struct BulkInsert {
    /// Whether it is `COPY INTO`.
    pub is_copy: bool,
    /// The table.
    pub target: ObjectName,
    /// The columns that `COPY INTO` lists; empty if absent.
    pub columns: Vec<CopyColumn>,
    /// The files, at least one.
    pub files: Vec<FilePattern>,
    /// The options.
    pub options: Vec<FileOption>,
    /// The position of the table's name.
    pub position: Position,
}

/// A column that `COPY INTO` lists.
#[derive(Clone, PartialEq, Debug)]
pub struct CopyColumn {
    /// Its name.
    pub name: Identifier,
    /// `DEFAULT value`.
    pub default: Option<Expression>,
    /// The number of its field, from 1.
    pub field: Option<i64>,
}
