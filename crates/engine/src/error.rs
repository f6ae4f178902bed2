//! Errors of instances and databases, and their SQL error numbers.

use std::fmt;
use std::path::{Path, PathBuf};

use hobt_access::AccessError;
use hobt_base::{SqlError, number};
use hobt_catalog::CatalogError;
use hobt_disk::{DiskError, Operation};

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
    /// A statement's error.
    pub(crate) fn statement(number: i32, message: impl Into<String>) -> EngineError {
        EngineError::Statement(SqlError::new(number, message))
    }

    /// The error as a client sees it.
    pub fn to_sql_error(&self) -> SqlError {
        match self {
            EngineError::Statement(error) => error.clone(),
            EngineError::Storage { database, filegroup, error } => storage_error(database, filegroup.as_deref(), error),
            EngineError::Unavailable { database, state, reason } => match state {
                DatabaseState::Suspect => SqlError::new(
                    number::DATABASE_SUSPECT,
                    format!(
                        "Database '{database}' cannot be opened. It has been marked SUSPECT: {reason}. Stop the \
                         instance and put back copies of all its files that were made while it was stopped, or drop \
                         the database and load it again."
                    ),
                ),
                DatabaseState::Offline => SqlError::new(
                    number::DATABASE_OFFLINE,
                    format!("Database '{database}' cannot be opened because it is offline."),
                ),
                _ => SqlError::new(
                    number::DATABASE_INACCESSIBLE,
                    format!(
                        "Database '{database}' cannot be opened due to inaccessible files or insufficient memory or \
                         disk space: {reason}. Make its files accessible and start the instance again."
                    ),
                ),
            },
            EngineError::Instance { path, reason } => SqlError::new(
                number::DEVICE_ACTIVATION,
                format!("The instance in \"{}\" cannot be opened: {reason}", path.display()),
            ),
        }
    }
}

/// 1088.
pub fn no_such_object(name: impl fmt::Display) -> SqlError {
    let text = format!("Cannot find the object \"{name}\" because it does not exist or you do not have permissions.");
    SqlError::new(number::NO_SUCH_OBJECT, text)
}

/// 2767.
pub fn no_such_statistics(name: &str) -> SqlError {
    let text = format!("Could not locate statistics '{name}' in the system catalogs.");
    SqlError::new(number::NO_SUCH_STATISTICS, text)
}

/// An error of the access methods as a client sees it: 824, 823, 1105, 701, 511 and others. `database` and `filegroup`
/// are names; the filegroup's id stands in for an absent one.
pub fn storage_error(database: &str, filegroup: Option<&str>, error: &AccessError) -> SqlError {
    match error {
        AccessError::Damaged { file, page, damage } => SqlError::new(
            number::PAGE_DAMAGED,
            format!(
                "A logical consistency-based I/O error was detected: {damage}. It occurred during a read of page \
                 {page} in database '{database}' at offset {:#018x} in file '{file}'. This is a severe error \
                 condition that threatens database integrity: restore the file from a copy, and look for the cause \
                 in the storage below it.",
                page.byte_offset()
            ),
        ),
        AccessError::FilegroupFull { filegroup: id, reason } => {
            let name = filegroup.map_or_else(|| format!("number {id}"), str::to_owned);
            SqlError::new(
                number::FILEGROUP_FULL,
                format!(
                    "Could not allocate space in database '{database}' because the '{name}' filegroup is full: \
                     {reason}. Delete what is not needed, add files to the filegroup, or let its files grow."
                ),
            )
        }
        AccessError::LogFull { wait, reason } => {
            let advice = match *wait {
                "LOG_BACKUP" => "back up the log, or set the recovery model to SIMPLE",
                "ACTIVE_TRANSACTION" => "end the oldest open transaction, or change fewer rows in one",
                _ => "run a CHECKPOINT",
            };
            SqlError::new(
                number::LOG_FULL,
                format!(
                    "The transaction log for database '{database}' is full due to '{wait}': {reason}. The statement was \
                     undone; {advice}."
                ),
            )
        }
        AccessError::LogFailed(reason) => SqlError::new(
            number::LOG_NOT_AVAILABLE,
            format!(
                "The log for database '{database}' is not available: {reason}. Look for the cause in the storage \
                 below it, and restart: recovery brings back everything that was committed."
            ),
        ),
        AccessError::Undecided(reason) => SqlError::new(
            number::DATABASE_INACCESSIBLE,
            format!("Database '{database}' cannot be recovered: a transaction is in doubt, because {reason}."),
        ),
        AccessError::Disk(error) => disk_error(error),
        AccessError::OutOfFrames | AccessError::OutOfMemory(_) => SqlError::new(
            number::OUT_OF_MEMORY,
            format!("There is insufficient system memory to run this query: {error}. Raise the memory setting."),
        ),
        AccessError::VersionsFull(full) => SqlError::new(
            number::VERSION_STORE_FULL,
            format!(
                "Version store is full. New version(s) could not be added: {full}. End the transaction that has been open \
                 for longest (sys.dm_tran_active_snapshot_database_transactions lists them; KILL ends its session), or \
                 raise the memory setting."
            ),
        ),
        AccessError::RowTooLarge { bytes } => SqlError::new(
            number::ROW_TOO_LARGE,
            format!(
                "Cannot create a row of size {bytes} which is greater than the allowable maximum row size of 8060."
            ),
        ),
        AccessError::DataMoved => SqlError::new(
            number::DATA_MOVED,
            "Could not continue scan with NOLOCK due to data movement. The transaction that wrote a value rolled back \
             while the value was read: run the query again, or read committed rows.",
        ),
        AccessError::Cancelled => SqlError::cancelled(),
        AccessError::Closed(what) => {
            SqlError::new(number::DATABASE_INACCESSIBLE, format!("Database '{database}' cannot be used: {what}."))
        }
        AccessError::Visitor(error) => match error.downcast_ref::<SqlError>() {
            Some(error) => error.clone(),
            None => SqlError::internal(error.to_string()),
        },
    }
}

/// A device's error as a client sees it: 823, or 1105 if there is no room.
pub fn disk_error(error: &DiskError) -> SqlError {
    let text = format!("The operating system returned an error to a file operation: {error}.");
    match error {
        DiskError::NoSpace { .. } => SqlError::new(number::FILEGROUP_FULL, text),
        DiskError::OutOfMemory { .. } => SqlError::new(number::OUT_OF_MEMORY, error.to_string()),
        _ => SqlError::new(number::IO_ERROR, text),
    }
}

/// The error for a file of a user that cannot be created: 5170 it exists, 5149 it cannot have the size, 5123 all else.
pub(crate) fn cannot_create(path: &Path, error: &DiskError) -> EngineError {
    let path = path.display();
    if let DiskError::AlreadyExists { .. } = error {
        return EngineError::statement(
            number::FILE_EXISTS,
            format!(
                "Cannot create file '{path}' because it already exists. Change the file path or the file name, and \
                 retry the operation."
            ),
        );
    }
    let (number, attempt, doing) = match error {
        DiskError::NoSpace { operation: Operation::SetSize, .. } => {
            (number::CANNOT_EXPAND_FILE, "MODIFY FILE", "expand the physical file")
        }
        _ => (number::CANNOT_CREATE_FILE, "CREATE FILE", "open or create the physical file"),
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
    EngineError::statement(
        number,
        format!("{attempt} encountered operating system error{system} while attempting to {doing} '{path}': {why}."),
    )
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
    EngineError::statement(number::OBJECT_EXISTS, format!("There is already an object named '{name}' in the database."))
}

/// 3701.
pub(crate) fn cannot_drop(kind: &str, name: &str) -> EngineError {
    EngineError::statement(
        number::DROP_DOES_NOT_EXIST,
        format!("Cannot drop the {kind} '{name}', because it does not exist or you do not have permission."),
    )
}
