//! Rows of files in statements: `OPENROWSET (BULK …)`, `BULK INSERT`, `COPY INTO`.
//!
//! | file | what |
//! |---|---|
//! | `options` | the options of a source of files |
//! | `resolve` | which files are meant, their columns, and the source of rows |
//! | `load` | `BULK INSERT` and `COPY INTO`: an `INSERT` of such a source |

mod load;
mod options;
mod resolve;
