//! The file of a database's log: where it lies, how it is made, opened and locked.
//!
//! It lies beside the database's first file. What is in it is the matter of crate `hobt_log`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hobt_base::DatabaseId;
use hobt_disk::{Disk, DiskError, DiskFile, OpenOptions};
use hobt_log::{Log, LogError, LogFile, Recovered};
use hobt_txn::{Settlements, TransactionLog};

use crate::LOG_FILE_ID;
use crate::data_file::{FileProblem, lock_patiently};

/// How large a log is at first, in bytes.
const LOG_BYTES: u64 = 8 << 20;
/// By how much it grows, in bytes.
const LOG_GROWTH_BYTES: u64 = 64 << 20;
/// How large it may become, in bytes: SQL Server's limit of a log file.
const LOG_BYTES_MAX: u64 = 2 << 40;
/// What may be appended and not flushed, in bytes, unless the settings say otherwise.
pub(crate) const RING_BYTES: usize = 4 << 20;

/// Whose log it is, and what is above it.
pub(crate) struct LogOwner<'a> {
    pub(crate) database: DatabaseId,
    pub(crate) guid: &'a [u8; 16],
    pub(crate) settlements: &'a Arc<Settlements>,
    pub(crate) ring_bytes: usize,
}

impl LogOwner<'_> {
    fn transactions(&self, log: Log) -> Arc<TransactionLog> {
        TransactionLog::of_database(Arc::new(log), self.database, *self.guid, Arc::clone(self.settlements))
    }
}

/// Where the log of a database lies whose first file is `first`.
pub(crate) fn log_path(first: &Path) -> PathBuf {
    let stem = first.file_stem().map_or_else(Default::default, |stem| stem.to_string_lossy().into_owned());
    first.with_file_name(format!("{stem}_log.ldf"))
}

/// What makes the log of the database `guid` different from every other.
fn log_id(guid: &[u8; 16]) -> u64 {
    u64::from_le_bytes(guid[..8].try_into().expect("eight of sixteen bytes"))
}

fn problem(error: LogError) -> FileProblem {
    match error {
        LogError::Disk(error) => FileProblem::Inaccessible(error),
        other => FileProblem::Invalid(other.to_string()),
    }
}

fn open_file(disk: &dyn Disk, path: &Path, create_new: bool) -> Result<Arc<dyn DiskFile>, DiskError> {
    let file = disk.open(path, OpenOptions { create_new, read_only: false, direct: true })?;
    lock_patiently(&*file)?;
    Ok(file)
}

/// Makes an empty log; a file that is there already is an error.
pub(crate) fn create(disk: &dyn Disk, path: &Path, owner: &LogOwner<'_>) -> Result<Arc<TransactionLog>, DiskError> {
    let made = open_file(disk, path, true).and_then(|opened| {
        let file = LogFile {
            disk: opened,
            id: LOG_FILE_ID.0,
            name: path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned()),
            bytes: LOG_BYTES,
            growth_bytes: LOG_GROWTH_BYTES,
            bytes_max: LOG_BYTES_MAX,
        };
        Log::create(&[file], log_id(owner.guid), owner.ring_bytes).map_err(|error| match error {
            LogError::Disk(error) => error,
            other => unreachable!("a new log holds nothing that can be wrong: {other}"),
        })
    });
    match made {
        Ok(log) => Ok(owner.transactions(log)),
        Err(error @ DiskError::AlreadyExists { .. }) => Err(error),
        Err(error) => {
            // The first error is the one to report.
            let _ = disk.remove(path);
            Err(error)
        }
    }
}

/// Opens the log of a database, with what recovery may need of it.
pub(crate) fn open(
    disk: &dyn Disk,
    path: &Path,
    owner: &LogOwner<'_>,
) -> Result<(Arc<TransactionLog>, Recovered), FileProblem> {
    let file = open_file(disk, path, false).map_err(FileProblem::Inaccessible)?;
    let (log, recovered) = Log::open(&[file], owner.ring_bytes).map_err(problem)?;
    if log.id() != log_id(owner.guid) {
        return Err(FileProblem::Invalid("it is the log of another database".to_owned()));
    }
    Ok((owner.transactions(log), recovered))
}
