//! Errors of the laboratory, classified by what the user does next.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use hobt_base::SqlError;
use hobt_disk::DiskError;

/// The result of laboratory work.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

/// Why an experiment has no result.
#[derive(Debug)]
pub enum LabError {
    /// A statement of the experiment failed.
    Sql {
        /// What was being done.
        doing: String,
        /// The statement's error.
        error: SqlError,
    },
    /// The disk refused.
    Disk(DiskError),
    /// The system refused an operation other than a page's transfer.
    Io {
        /// What was being done.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// The user's request cannot be fulfilled. The text says what to do instead.
    Input(String),
    /// A file that the user wrote has an error.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// A result is inconsistent: for example, a scan read a different number of rows than the table has.
    Wrong(String),
}

impl LabError {
    /// Adds what was being done when the system refused an operation.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
        let doing = doing.into();
        move |source| LabError::Io { doing, source }
    }

    /// Adds what was being done when a statement failed.
    pub(crate) fn sql(doing: impl Into<String>, error: impl Into<SqlError>) -> LabError {
        LabError::Sql { doing: doing.into(), error: error.into() }
    }

    /// An error in a user's file.
    pub(crate) fn file(path: &Path, line: usize, message: impl Into<String>) -> LabError {
        LabError::File { path: path.to_path_buf(), line, message: message.into() }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::Sql { doing, error } => write!(f, "{doing}: {}\n{error}", error.header()),
            LabError::Disk(error) => write!(f, "{error}"),
            LabError::Io { doing, source } => write!(f, "{doing}: {source}"),
            LabError::Input(text) | LabError::Wrong(text) => f.write_str(text),
            LabError::File { path, line, message } => write!(f, "{}:{line}: {message}", path.display()),
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LabError::Sql { error, .. } => Some(error),
            LabError::Disk(error) => Some(error),
            LabError::Io { source, .. } => Some(source),
            LabError::Input(_) | LabError::Wrong(_) | LabError::File { .. } => None,
        }
    }
}

impl From<DiskError> for LabError {
    fn from(error: DiskError) -> LabError {
        LabError::Disk(error)
    }
}
