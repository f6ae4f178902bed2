//! Rows in files: text, JSON lines, Parquet and bcp's native format, in and out.
//!
//! Not here: where files may lie (crate `engine`), statements (crate `interpreter`), and scans of files in plans (crate
//! `operators`).

pub mod format_file;
pub mod native;
pub mod record;

#[cfg(test)]
mod fuzz;
