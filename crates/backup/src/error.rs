//! Errors of backup files, by what the caller does next.

use std::fmt;
use std::path::PathBuf;

use hobt_disk::DiskError;

/// Why a backup cannot be written or read.
#[derive(Debug)]
pub enum BackupError {
    /// The device failed, or has no room.
    Disk(DiskError),
    /// The file is no backup, or none that this version reads.
    NotBackup {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// A later version wrote the file.
    Version {
        /// The file.
        path: PathBuf,
        /// The version of its format.
        found: u16,
        /// The latest version that this build reads.
        known: u16,
    },
    /// The backup set was cut short.
    CutShort {
        /// A file of it.
        path: PathBuf,
    },
    /// The file is a backup, and its bytes are not what was written.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The position in it, in bytes.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The files given are not one whole media set.
    Stripes {
        /// A file that is wrong, or the first one.
        path: PathBuf,
        /// How many were given.
        given: usize,
        /// How many the media set has.
        expected: usize,
        /// Whether the file belongs to another media set, or is given twice.
        is_other: bool,
    },
    /// The list of the database's files is longer than a block.
    TooManyFiles {
        /// A file of the media set.
        path: PathBuf,
    },
    /// There is no backup set of this number.
    NoSuchSet {
        /// The number.
        number: u32,
    },
}

impl BackupError {
    pub(crate) fn damaged(path: &std::path::Path, offset: u64, what: &'static str) -> BackupError {
        BackupError::Damaged { path: path.to_path_buf(), offset, what }
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupError::Disk(error) => error.fmt(f),
            BackupError::NotBackup { path, what } => write!(f, "'{}' is no backup: {what}", path.display()),
            BackupError::Version { path, found, known } => write!(
                f,
                "version {found} of the format of '{}' is newer than this build, which reads up to {known}",
                path.display()
            ),
            BackupError::CutShort { path } => write!(f, "the backup set in '{}' was cut short", path.display()),
            BackupError::Damaged { path, offset, what } => {
                write!(f, "backup file '{}' is damaged at byte {offset}: {what}", path.display())
            }
            BackupError::Stripes { path, given, expected, is_other: false } => {
                write!(f, "the media set of '{}' has {expected} files, and {given} are given", path.display())
            }
            BackupError::Stripes { path, .. } => {
                write!(f, "'{}' belongs to another media set, or is given twice", path.display())
            }
            BackupError::TooManyFiles { path } => {
                write!(f, "the database has more files than a backup set in '{}' can list", path.display())
            }
            BackupError::NoSuchSet { number } => write!(f, "there is no backup set {number}"),
        }
    }
}

impl std::error::Error for BackupError {}

impl From<DiskError> for BackupError {
    fn from(error: DiskError) -> BackupError {
        BackupError::Disk(error)
    }
}
