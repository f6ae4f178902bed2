//! Format files of `bcp`, `BULK INSERT` and `OPENROWSET(BULK …)`: what the fields of a data file are, and which
//! columns they fill.
//!
//! There are two notations. [`FormatFile::parse`] reads both into the same fields:
//!
//! ```text
//! 14.0                                                            <BCPFORMAT …><RECORD>
//! 2                                                                <FIELD ID="1" xsi:type="NativeFixed" LENGTH="4"/>
//! 1  SQLINT  0  4   ""    1  id    ""                              <FIELD ID="2" xsi:type="CharTerm" TERMINATOR="\n"/>
//! 2  SQLCHAR 0  30  "\n"  2  name  SQL_Latin1_General_CP1_CI_AS    </RECORD><ROW> … </ROW></BCPFORMAT>
//! │  │       │  │   │     │  │     └ collation, says the code page
//! │  │       │  │   │     │  └ a name, for people
//! │  │       │  │   │     └ the column of the table, 0: none
//! │  │       │  │   └ what ends the field
//! │  │       │  └ bytes, where nothing else says them
//! │  │       └ bytes of the length in front of the field
//! │  └ the type of the bytes
//! └ the place of the field in the record
//! ```
//!
//! The XML notation names columns with types of their own, of which `OPENROWSET` makes a rowset; a native field has the
//! type of its column there. Terminators are bytes: those of the file, or the UTF-8 of an XML file. Only those of wide
//! fields become UTF-16.
//!
//! Source: Microsoft's pages "Use non-XML format files", "XML format files" and "Specify field and row terminators".
//! What bcp writes by default is that of its pages on prefix and field lengths.
//!
//! Not here: how records are cut by these fields (module `record`), and values ([`crate::native`]).

mod code_page;
mod host_type;
mod non_xml;
mod table;
mod terminator;
#[cfg(test)]
pub(crate) mod tests;
mod write;
mod xml;
mod xml_column;

use std::borrow::Cow;

use hobt_base::{SqlError, errors};
use hobt_types::SqlType;

pub use host_type::HostType;
pub use table::{FileStyle, TableColumn};

/// The largest format file that is read.
pub const FORMAT_FILE_BYTES_MAX: usize = 16 << 20;
/// The most fields that a record may have.
pub const FIELDS_MAX: usize = 32_767;

/// What a format file says.
#[derive(Clone, PartialEq, Debug)]
pub struct FormatFile {
    /// The fields in the order in which a record has them; at least one.
    pub fields: Vec<FileField>,
    /// The rowset of an XML format file, in order; empty for the other notation.
    pub columns: Vec<RowsetColumn>,
}

/// A field of the records of a data file.
#[derive(Clone, PartialEq, Debug)]
pub struct FileField {
    /// The type of its bytes.
    pub host: HostType,
    /// Bytes of the length in front of it: 0 if there is none, or 1, 2, 4, 8.
    pub prefix_length: u8,
    /// Its bytes if it has no prefix and no terminator and its type does not say them; otherwise the most that the
    /// format file says, which is not checked. 0 if unknown.
    pub length: u32,
    /// The bytes that follow it; empty if none do.
    pub terminator: Vec<u8>,
    /// The collation of its text.
    pub collation: Option<String>,
    /// The column that it fills: of the table, counted from 1, or of the rowset of an XML format file, counted alike.
    /// `None` if it is skipped.
    pub column: Option<u32>,
    /// The name of that column. It identifies nothing.
    pub column_name: String,
}

/// A column of the rowset that an XML format file describes.
#[derive(Clone, PartialEq, Debug)]
pub struct RowsetColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether it may be NULL; `SELECT … FROM OPENROWSET` alone looks at it.
    pub nullable: bool,
    /// The field that fills it, as an index of [`FormatFile::fields`].
    pub field: usize,
}

impl FileField {
    /// The number of the code page of its text, if its collation says one.
    pub fn code_page(&self) -> Option<u16> {
        self.collation.as_deref().and_then(code_page::of_collation)
    }

    /// Its bytes, if it is one of fixed length: no prefix, and a type or a length that says them.
    pub fn fixed_bytes(&self) -> Option<usize> {
        if self.prefix_length > 0 {
            return None;
        }
        match self.host.bytes() {
            // A length in an XML format file may differ; the reader of the value sees whether it can be.
            Some(bytes) if self.length == 0 => Some(bytes),
            Some(_) => Some(self.length as usize),
            None => (self.terminator.is_empty() && self.length > 0).then_some(self.length as usize),
        }
    }
}

impl FormatFile {
    /// Reads a format file in either notation, in UTF-8, UTF-16 with a byte order mark, or any code page that has ASCII
    /// in it. `name` is what errors call it.
    ///
    /// # Errors
    /// 4820 to 4829, 4839, 4882 for the notation in lines; 4855 to 4859, 4872 to 4874, 4883 for XML; 4862 for a file of
    /// more than 16 MiB.
    pub fn parse(bytes: &[u8], name: &str) -> Result<FormatFile, SqlError> {
        if bytes.len() > FORMAT_FILE_BYTES_MAX {
            return Err(errors::FORMAT_FILE_TOO_LARGE.with([&name]));
        }
        let bytes = in_ascii(bytes);
        match bytes.trim_ascii_start().first() {
            Some(b'<') => xml::parse(&bytes, name),
            _ => non_xml::parse(&bytes, name),
        }
    }
}

/// The bytes of a format file without a byte order mark; UTF-16 as UTF-8.
fn in_ascii(bytes: &[u8]) -> Cow<'_, [u8]> {
    match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => Cow::Borrowed(rest),
        [0xFF, 0xFE, ..] => Cow::Owned(encoding_rs::UTF_16LE.decode(bytes).0.into_owned().into_bytes()),
        [0xFE, 0xFF, ..] => Cow::Owned(encoding_rs::UTF_16BE.decode(bytes).0.into_owned().into_bytes()),
        _ => Cow::Borrowed(bytes),
    }
}

/// Bytes as text: UTF-8, or else code page 1252, which has a character for every byte.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes).0,
    }
}
