//! Text files: CSV and its relatives.
//!
//! A row ends at a row terminator that is not inside quotes. A field ends at a field terminator or at the row's end. A
//! field that begins with the quote is quoted: inside, terminators are text, and two quotes are one. A quote anywhere
//! else is text. Source: RFC 4180, and Microsoft's "BULK INSERT (Transact-SQL)".
//!
//! | file | what |
//! |---|---|
//! | `layout` | what ends rows and fields |
//! | `cut` | row ends, for stretches |
//! | `fields` | the fields of rows |
//! | `parse` | values from the text of a field |
//! | `columns` | columns of values |
//! | `batch` | a batch of rows, without those that cannot be read |
//! | `stretch_text` | a stretch as text |
//! | `reader` | batches of text files |

pub(crate) mod batch;
pub(crate) mod columns;
pub(crate) mod cut;
pub(crate) mod fields;
pub(crate) mod layout;
pub(crate) mod parse;
pub(crate) mod reader;
pub(crate) mod stretch_text;
