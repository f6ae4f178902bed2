//! External tables: tables whose rows are in files.
//!
//! The catalog has the text of a `CREATE EXTERNAL TABLE` with all that a reading needs: the absolute path, the columns
//! with their types, and the options of the file format as they were. So a name in `FROM` becomes the same source of
//! rows as an `OPENROWSET (BULK …)`.
//!
//! | file | what |
//! |---|---|
//! | `options` | the options of tables and of file formats, in the words of `OPENROWSET` |
//! | `definition` | the stored text, out of a statement and back |
//! | `create` | the statements |
//! | `location` | where a new file goes, and what is removed if there is none in the end |
//! | `export` | `CREATE EXTERNAL TABLE AS SELECT` |
//! | `refuse` | statements that external tables do not take |

mod create;
mod definition;
mod export;
mod location;
mod options;
mod refuse;

pub use definition::{ExternalFormat, ExternalTable};
