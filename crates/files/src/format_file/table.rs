//! The format file of a table: what `bcp … format nul` writes, and how bcp's own files of the table are laid out.
//!
//! In native format a column has a length in front if its values vary in length or may be NULL. So have columns of some
//! types of fixed length: what has no form without a length in SQL Server's protocol (`decimal`, `uniqueidentifier`,
//! `date`, `time`, `datetime2`) has none in a file either.
//!
//! | columns | bytes of the length |
//! |---|---|
//! | `bit`, integers, `real`, `float`, money, `datetime`, `smalldatetime` | 0; 1 if it may be NULL |
//! | `decimal`, `uniqueidentifier`, `date`, `time`, `datetime2` | 1 |
//! | text and binary | 2 |
//! | text and binary of `max` length | 8 |
//!
//! Source: Microsoft's "Specify prefix length in data files by using bcp" and "Specify field length by using bcp".

use hobt_types::{MaxLength, SqlType};

use super::{FileField, FormatFile, HostType, RowsetColumn};

/// A column of a table, as its format file needs it.
#[derive(Clone, PartialEq, Debug)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// For text, the collation that the file names, from which a reader of the file takes the code page.
    pub collation: Option<String>,
}

/// How bcp writes a table.
#[derive(Clone, PartialEq, Debug)]
pub enum FileStyle {
    /// `-n`, `DATAFILETYPE = 'native'`: binary, text in its code page.
    Native,
    /// `-N`, `DATAFILETYPE = 'widenative'`: binary, text in UTF-16.
    WideNative,
    /// `-c`, `DATAFILETYPE = 'char'`: everything as text, with these bytes after each field and after the last.
    Text {
        /// What ends each field but the last.
        field: Vec<u8>,
        /// What ends the last.
        row: Vec<u8>,
    },
    /// `-w`, `DATAFILETYPE = 'widechar'`: as text in UTF-16, with these bytes.
    WideText {
        /// What ends each field but the last, in UTF-16.
        field: Vec<u8>,
        /// What ends the last, in UTF-16.
        row: Vec<u8>,
    },
}

impl FormatFile {
    /// The format file of a table's columns in a style of bcp. A table without columns has no fields.
    pub fn for_table(columns: &[TableColumn], style: &FileStyle) -> FormatFile {
        let last = columns.len().saturating_sub(1);
        let fields = columns.iter().enumerate().map(|(place, column)| FileField {
            column: Some(place as u32 + 1),
            column_name: column.name.clone(),
            ..match style {
                FileStyle::Native => native(column, false),
                FileStyle::WideNative => native(column, true),
                FileStyle::Text { field, row } => text(column, false, if place == last { row } else { field }),
                FileStyle::WideText { field, row } => text(column, true, if place == last { row } else { field }),
            }
        });
        let rowset = columns.iter().enumerate().map(|(field, column)| RowsetColumn {
            name: column.name.clone(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            field,
        });
        FormatFile { fields: fields.collect(), columns: rowset.collect() }
    }
}

/// The collation of text.
fn collation(column: &TableColumn) -> Option<String> {
    column.collation.clone().filter(|_| column.sql_type.is_text())
}

/// The field of a column in native format, without its column.
fn native(column: &TableColumn, wide: bool) -> FileField {
    let host = HostType::of(column.sql_type, wide);
    let prefix_length = match column.sql_type {
        SqlType::Decimal { .. }
        | SqlType::UniqueIdentifier
        | SqlType::Date
        | SqlType::Time { .. }
        | SqlType::DateTime2 { .. } => 1,
        _ if host.bytes().is_some() => u8::from(column.nullable),
        _ if units_max(column.sql_type) == 0 => 8,
        _ => 2,
    };
    let units = units_max(column.sql_type);
    let length = match host.bytes() {
        Some(bytes) => bytes as u32,
        None if host == HostType::NChar => 2 * units,
        None => units,
    };
    FileField {
        host,
        prefix_length,
        length,
        terminator: Vec::new(),
        collation: collation(column),
        column: None,
        column_name: String::new(),
    }
}

/// The declared length of a text or binary type; 0 for `max` and for all other types.
fn units_max(sql_type: SqlType) -> u32 {
    match sql_type {
        SqlType::Char(units) | SqlType::NChar(units) | SqlType::Binary(units) => units.into(),
        SqlType::VarChar(length) | SqlType::NVarChar(length) | SqlType::VarBinary(length) => match length {
            MaxLength::Limited(units) => units.into(),
            MaxLength::Max => 0,
        },
        _ => 0,
    }
}

/// The field of a column as text, without its column.
fn text(column: &TableColumn, wide: bool, terminator: &[u8]) -> FileField {
    let characters = characters_max(column.sql_type, wide);
    FileField {
        host: if wide { HostType::NChar } else { HostType::Char },
        prefix_length: 0,
        length: if wide { 2 * characters } else { characters },
        terminator: terminator.to_vec(),
        collation: collation(column),
        column: None,
        column_name: String::new(),
    }
}

/// The characters that bcp allows for a column as text; 0 if there is no limit.
fn characters_max(sql_type: SqlType, wide: bool) -> u32 {
    match sql_type {
        SqlType::Bit => 1,
        SqlType::TinyInt => 5,
        SqlType::SmallInt => 7,
        SqlType::Int => 12,
        SqlType::BigInt => 21,
        SqlType::Decimal { .. } => 41,
        SqlType::SmallMoney | SqlType::Money | SqlType::Real | SqlType::Float => 30,
        SqlType::Date => 11,
        SqlType::Time { .. } => 16,
        SqlType::SmallDateTime | SqlType::DateTime => 24,
        SqlType::DateTime2 { .. } => 27,
        SqlType::Char(_) | SqlType::VarChar(_) => units_max(sql_type),
        SqlType::NChar(_) | SqlType::NVarChar(_) if wide => units_max(sql_type),
        // A national character may need two bytes of a code page.
        SqlType::NChar(_) | SqlType::NVarChar(_) => 2 * units_max(sql_type),
        SqlType::Binary(_) | SqlType::VarBinary(_) => match units_max(sql_type) {
            0 => 0,
            bytes => 2 * bytes + 1,
        },
        SqlType::UniqueIdentifier => 37,
    }
}
