//! Rows of files in statements: `OPENROWSET (BULK …)`, `BULK INSERT`, `COPY INTO`, external tables.
//!
//! | file | what |
//! |---|---|
//! | `options` | the options of a source of files |
//! | `records` | files of records: native, described by a format file, one value a file |
//! | `resolve` | which files are meant, their columns, and the source of rows |
//! | `load` | `BULK INSERT` and `COPY INTO`: an `INSERT` of such a source |
//! | `external` | external tables and their file formats; files that a query's rows are written to |

mod external;
mod load;
mod options;
mod records;
mod resolve;

pub use external::{ExternalFormat, ExternalTable};
