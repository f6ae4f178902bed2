//! Rows in files: text, JSON lines, Parquet and bcp's native format, in and out.
//!
//! A [`ReadRequest`] says which files, in which form, with which columns. [`ReadRequest::open`] begins a reading that
//! several workers share: each takes stretches of whole rows and decodes them into batches of carriers. Rows that
//! cannot be read are collected as [`Rejections`].
//!
//! Not here: where files may lie (crate `engine`), statements (crate `interpreter`), and scans of files in plans (crate
//! `operators`).

mod batches;
mod compression;
mod condition;
mod encoding;
mod file_name;
mod file_set;
pub mod format_file;
#[cfg(test)]
mod fuzz;
mod infer;
mod json_lines;
pub mod native;
mod open;
mod parquet;
mod read;
pub mod record;
mod record_columns;
mod record_form;
mod records;
mod rejected;
mod schema;
mod source;
mod stretches;
mod terminator;
mod text;
mod whole;
pub mod write;

pub use batches::FileBatches;
pub use compression::Compression;
pub use condition::{FileCondition, FileTest};
pub use encoding::CodePage;
pub use file_name::{FileKind, FileName};
pub use file_set::{files_of, fixed_part, is_pattern};
pub use infer::{Header, Inferred};
pub use open::{first_row, infer_columns, infer_json_columns};
pub use parquet::{ParquetColumn, ParquetSchema, parquet_schema};
pub use read::{BatchReader, FileForm, FileRows, ReadRequest};
pub use record_form::RecordForm;
pub use rejected::{Fault, FaultKind, Rejections};
pub use schema::{FileColumn, file_schema};
pub use terminator::terminator;
pub use text::layout::TextLayout;
pub use whole::wide_code_page;
