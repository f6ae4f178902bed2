//! Errors of instances and databases, and their SQL error numbers.

use std::fmt;
use std::path::{Path, PathBuf};

use hobt_access::AccessError;
use hobt_base::{SqlError, errors};
use hobt_catalog::CatalogError;
use hobt_disk::{DiskError, Operation};
use hobt_log::LogError;
use hobt_txn::VersionError;

use crate::database::DatabaseState;

/// An error of the engine, grouped by what the caller does next.
#[derive(Debug)]
pub enum EngineError {
    /// The request cannot be done; nothing was changed. The user corrects the statement.
    Statement(SqlError),
    /// A statement failed on storage or memory: roll it back.
    Storage {
        /// The database's name; empty if unknown.
        database: String,
        /// The name of the filegroup that is full, for that error.
        filegroup: Option<String>,
        /// What failed.
        error: AccessError,
    },
    /// A database exists but cannot be used: use another, or repair its files while the instance is down.
    Unavailable {
        /// Its name.
        database: String,
        /// Its state.
        state: DatabaseState,
        /// Why.
        reason: String,
    },
    /// The instance cannot be opened. Nothing works until the cause is repaired.
    Instance {
        /// The instance's folder, or the file that prevents it.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
}

/// The result of the engine's functions.
pub(crate) type Result<T> = std::result::Result<T, EngineError>;

impl EngineError {
    /// The error as a client sees it.
    pub fn to_sql_error(&self) -> SqlError {
        match self {
            EngineError::Statement(error) => error.clone(),
            EngineError::Storage { database, filegroup, error } => storage_error(database, filegroup.as_deref(), error),
            EngineError::Unavailable { database, state, reason } => match state {
                DatabaseState::Suspect => errors::DATABASE_SUSPECT.with([&database, &reason]),
                DatabaseState::Offline => errors::DATABASE_OFFLINE.with([&database]),
                DatabaseState::Restoring => errors::DATABASE_RESTORING.with([&database]),
                _ => errors::DATABASE_INACCESSIBLE.with([&database, &reason]),
            },
            EngineError::Instance { path, reason } => errors::DEVICE_ACTIVATION.with([&path.display(), &reason]),
        }
    }
}

/// 1088.
pub fn no_such_object(name: impl fmt::Display) -> SqlError {
    errors::NO_SUCH_OBJECT.with([&name])
}

/// 2767.
pub fn no_such_statistics(name: &str) -> SqlError {
    errors::NO_SUCH_STATISTICS.with([&name])
}

/// An error of the access methods as a client sees it: 824, 823, 1105, 701, 511 and others. `database` and `filegroup`
/// are names; the filegroup's id stands in for an absent one.
pub fn storage_error(database: &str, filegroup: Option<&str>, error: &AccessError) -> SqlError {
    match error {
        AccessError::Damaged { file, page, damage } => {
            errors::PAGE_DAMAGED.with([&damage, &page, &database, &format_args!("{:#018x}", page.byte_offset()), &file])
        }
        AccessError::FilegroupFull { filegroup: id, reason } => {
            let name = filegroup.map_or_else(|| format!("number {id}"), str::to_owned);
            errors::FILEGROUP_FULL.with([&database, &name, &reason])
        }
        AccessError::LogFull { wait, reason } => {
            let advice = match *wait {
                "LOG_BACKUP" => "back up the log, or set the recovery model to SIMPLE",
                "ACTIVE_TRANSACTION" => "end the oldest open transaction, or change fewer rows in one",
                "ACTIVE_BACKUP_OR_RESTORE" => "wait for the end of the backup, or cancel it",
                _ => "run a CHECKPOINT",
            };
            errors::LOG_FULL.with([&database, &wait, &reason, &advice])
        }
        AccessError::LogFailed(reason) => errors::LOG_NOT_AVAILABLE.with([&database, &reason]),
        AccessError::Undecided(reason) => errors::TRANSACTION_IN_DOUBT.with([&database, &reason]),
        AccessError::Disk(error) => disk_error(error),
        AccessError::OutOfFrames | AccessError::OutOfMemory(_) => errors::OUT_OF_MEMORY.with([&error]),
        AccessError::Versions(VersionError::GivenUp) => errors::VERSION_GIVEN_UP.with([&database]),
        AccessError::Versions(error @ VersionError::Unreadable(_)) => errors::IO_ERROR.with([error]),
        AccessError::VersionsFull(full) => errors::VERSION_STORE_FULL.with([&full]),
        AccessError::RowTooLarge { bytes } => errors::ROW_TOO_LARGE.with([&bytes]),
        AccessError::DataMoved => errors::DATA_MOVED.error(),
        AccessError::Cancelled => SqlError::cancelled(),
        AccessError::Closed(what) => errors::DATABASE_UNUSABLE.with([&database, &what]),
        AccessError::Visitor(error) => match error.downcast_ref::<SqlError>() {
            Some(error) => error.clone(),
            None => SqlError::internal(error),
        },
    }
}

/// A device's error as a client sees it: 823, or 1105 if there is no room.
pub fn disk_error(error: &DiskError) -> SqlError {
    match error {
        DiskError::NoSpace { .. } => errors::DISK_FULL.with([error]),
        DiskError::OutOfMemory { .. } => errors::DISK_MEMORY.with([error]),
        _ => errors::IO_ERROR.with([error]),
    }
}

/// The error for a file of a user that cannot be created: 5170 it exists, 5149 it cannot have the size, 5123 all else.
pub(crate) fn cannot_create(path: &Path, error: &DiskError) -> EngineError {
    let path = path.display();
    if let DiskError::AlreadyExists { .. } = error {
        return EngineError::Statement(errors::FILE_EXISTS.with([&path]));
    }
    let (entry, attempt, doing) = match error {
        DiskError::NoSpace { operation: Operation::SetSize, .. } => {
            (errors::CANNOT_EXPAND_FILE, "MODIFY FILE", "expand the physical file")
        }
        _ => (errors::CREATE_FILE_ERROR, "CREATE FILE", "open or create the physical file"),
    };
    let system = error.os_error_text().map(|text| format!(" {text}"));
    let why = match error {
        DiskError::NoSpace { operation, .. } | DiskError::Io { operation, .. } if system.is_some() => {
            let advice = error.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
            format!("{operation} failed{advice}")
        }
        error => error.to_string(),
    };
    let system = system.unwrap_or_default();
    EngineError::Statement(entry.with([&attempt, &system, &doing, &path, &why]))
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_sql_error().fmt(f)
    }
}

impl std::error::Error for EngineError {}

impl From<SqlError> for EngineError {
    fn from(error: SqlError) -> EngineError {
        EngineError::Statement(error)
    }
}

/// For callers of the access methods that do not know the database.
impl From<AccessError> for EngineError {
    fn from(error: AccessError) -> EngineError {
        EngineError::Storage { database: String::new(), filegroup: None, error }
    }
}

/// For users of a log alone, while its database is closed.
impl From<LogError> for EngineError {
    fn from(error: LogError) -> EngineError {
        EngineError::from(AccessError::from(error))
    }
}

impl From<DiskError> for EngineError {
    fn from(error: DiskError) -> EngineError {
        EngineError::from(AccessError::Disk(error))
    }
}

impl From<EngineError> for SqlError {
    fn from(error: EngineError) -> SqlError {
        error.to_sql_error()
    }
}

/// Converts a catalog error of `database`. An impossible row in the catalog makes the database SUSPECT.
pub(crate) fn of_catalog(database: &str, error: CatalogError) -> EngineError {
    match error {
        CatalogError::Access(error) => EngineError::Storage { database: database.to_owned(), filegroup: None, error },
        other => EngineError::Unavailable {
            database: database.to_owned(),
            state: DatabaseState::Suspect,
            reason: other.to_string(),
        },
    }
}

/// 2714.
pub(crate) fn name_is_taken(name: &str) -> EngineError {
    EngineError::Statement(errors::OBJECT_EXISTS.with([&name]))
}

/// 3701.
pub(crate) fn cannot_drop(kind: &str, name: &str) -> EngineError {
    EngineError::Statement(errors::DROP_DOES_NOT_EXIST.with([&kind, &name]))
}
