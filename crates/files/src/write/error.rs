//! Why a file cannot be written, by what the caller does next.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use hobt_base::SqlError;
use parquet::errors::ParquetError;

/// The result type of writers.
pub type Result<T> = std::result::Result<T, WriteError>;

/// Why a file cannot be written.
#[derive(Debug)]
pub enum WriteError {
    /// The file is there already. The caller may ask for it to be replaced.
    Exists(PathBuf),
    /// The name, an option, a column or a value is not possible in such a file. The text says what to do.
    Unfit(String),
    /// The system refuses.
    Io {
        /// The file that was to be written.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A broken invariant: a batch is not as its columns say, or the encoder refuses what it should take.
    Internal(SqlError),
}

impl WriteError {
    /// A function that makes an error of the system one of the file `path`.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> WriteError {
        move |error| WriteError::Io { path: path.to_path_buf(), error }
    }

    /// What the Parquet encoder reports: an error of the system below it, or else a broken invariant.
    pub(super) fn parquet(path: &Path) -> impl FnOnce(ParquetError) -> WriteError {
        move |error| match error {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(error) => WriteError::Io { path: path.to_path_buf(), error: *error },
                Err(other) => WriteError::internal(other),
            },
            other => WriteError::internal(other),
        }
    }

    pub(super) fn internal(what: impl fmt::Display) -> WriteError {
        WriteError::Internal(SqlError::internal(what.to_string()))
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Exists(path) => write!(f, "{} exists already", path.display()),
            WriteError::Unfit(text) => f.write_str(text),
            WriteError::Io { path, error } => write!(f, "{} cannot be written: {error}", path.display()),
            WriteError::Internal(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for WriteError {}
