//! Parquet files, decoded by the crate `parquet`.
//!
//! | file | what |
//! |---|---|
//! | `bytes` | a file as that crate reads it |
//! | `types` | the SQL types of a file's columns |
//! | `convert` | columns of a file in the carriers of SQL types |
//! | `prune` | row groups without a row that is wanted |
//! | `reader` | batches of rows |

mod bytes;
mod convert;
mod prune;
mod reader;
mod types;

pub(crate) use reader::ParquetRows;
pub use types::{ParquetColumn, ParquetSchema, parquet_schema};
