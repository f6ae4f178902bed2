//! The files of a database's log: creating, opening and locking them.
//!
//! `master` stores their paths, as for data files. Their names, sizes and growth are in their own headers. The log of
//! `master` itself is not listed; it lies beside its data file. The contents belong to crate `hobt_log`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hobt_base::{DatabaseId, FileId, Lsn};
use hobt_disk::{Disk, DiskError, DiskFile, OpenOptions, Overlay};
use hobt_instruments::time_of_day;
use hobt_log::{LSN_FIRST, Log, LogError, LogFile, NewLogFile, Recovered};
use hobt_txn::{Settlements, TransactionLog};

use crate::data_file::{FileProblem, lock_patiently};

/// The initial size of a log file in bytes.
pub(crate) const LOG_BYTES: u64 = 8 << 20;
/// The growth increment of a log file in bytes.
pub(crate) const LOG_GROWTH_BYTES: u64 = 64 << 20;
/// The maximum size of a log file in bytes: SQL Server's limit.
pub(crate) const LOG_BYTES_MAX: u64 = 2 << 40;
/// How many bytes may be appended and not yet flushed, unless the settings say otherwise.
pub(crate) const RING_BYTES: usize = 4 << 20;

/// The id of a log's first file, as SQL Server numbers them.
pub(crate) const FIRST_LOG_FILE: FileId = FileId(2);

/// The database that a log belongs to, and what the log is opened with.
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

/// The default path of the log of a database whose first data file is `first`.
pub(crate) fn log_path(first: &Path) -> PathBuf {
    let stem = first.file_stem().map_or_else(Default::default, |stem| stem.to_string_lossy().into_owned());
    first.with_file_name(format!("{stem}_log.ldf"))
}

/// The log's identity, which distinguishes the log of the database `guid` from every other.
pub(crate) fn log_id(guid: &[u8; 16]) -> u64 {
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

/// A log file to be created.
#[derive(Clone, Debug)]
pub(crate) struct LogFilePlan {
    pub(crate) file: FileId,
    pub(crate) name: String,
    /// Absolute and allowed.
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) growth_bytes: u64,
    pub(crate) bytes_max: u64,
}

impl LogFilePlan {
    /// A log of one file with default settings.
    pub(crate) fn usual(path: PathBuf) -> LogFilePlan {
        LogFilePlan {
            file: FIRST_LOG_FILE,
            name: path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned()),
            path,
            bytes: LOG_BYTES,
            growth_bytes: LOG_GROWTH_BYTES,
            bytes_max: LOG_BYTES_MAX,
        }
    }

    /// Creates, opens and locks the file. A file that exists already is an error.
    fn create(&self, disk: &dyn Disk) -> Result<LogFile, DiskError> {
        let opened = open_file(disk, &self.path, true)?;
        let (id, name) = (self.file.0, self.name.clone());
        let (bytes, growth_bytes, bytes_max) = (self.bytes, self.growth_bytes, self.bytes_max);
        Ok(LogFile { disk: opened, id, name, bytes, growth_bytes, bytes_max })
    }
}

fn of_disk(error: LogError) -> DiskError {
    match error {
        LogError::Disk(error) => error,
        other => unreachable!("a new log holds nothing that can be wrong: {other}"),
    }
}

/// Creates an empty log. A file that exists already is an error. If a step fails, the files created so far are removed,
/// and the error has the path of the file that failed.
pub(crate) fn create(
    disk: &dyn Disk,
    plans: &[LogFilePlan],
    owner: &LogOwner<'_>,
) -> Result<Arc<TransactionLog>, (PathBuf, DiskError)> {
    make((LSN_FIRST, 0), disk, plans, owner, &AtomicBool::new(false))
}

/// Like [`create`], for a log that goes on where another one ended, at `start` or before, or that gets its records.
/// Once it `is_over`, the caller gives the files up.
pub(crate) fn create_at(
    start: Lsn,
    disk: &dyn Disk,
    plans: &[LogFilePlan],
    owner: &LogOwner<'_>,
    is_over: &AtomicBool,
) -> Result<Arc<TransactionLog>, (PathBuf, DiskError)> {
    // Seconds since 1970: lives of the other log are not taken for lives of this one.
    let making = u32::try_from(time_of_day() / 10_000_000).unwrap_or(u32::MAX);
    make((start, making), disk, plans, owner, is_over)
}

fn make(
    start: (Lsn, u32),
    disk: &dyn Disk,
    plans: &[LogFilePlan],
    owner: &LogOwner<'_>,
    is_over: &AtomicBool,
) -> Result<Arc<TransactionLog>, (PathBuf, DiskError)> {
    let mut files = Vec::with_capacity(plans.len());
    let mut failed = None;
    for plan in plans {
        match plan.create(disk) {
            Ok(file) => files.push(file),
            Err(error) => {
                failed = Some((plan.path.clone(), error));
                break;
            }
        }
    }
    if failed.is_none() {
        match Log::create_at(start, &files, log_id(owner.guid), owner.ring_bytes, is_over) {
            Ok(log) => return Ok(owner.transactions(log)),
            Err(error) => failed = Some((plans[0].path.clone(), of_disk(error))),
        }
    }
    let made = files.len();
    drop(files);
    for plan in &plans[..made] {
        // The first error is the one to report.
        let _ = disk.remove(&plan.path);
    }
    Err(failed.expect("one of the two has failed"))
}

/// Creates a file that is to join a log; removes it again if that fails.
pub(crate) fn create_to_join(disk: &dyn Disk, plan: &LogFilePlan, log: &Log) -> Result<NewLogFile, DiskError> {
    let file = plan.create(disk)?;
    NewLogFile::make(log, &file).map_err(|error| {
        drop(file);
        // The first error is the one to report.
        let _ = disk.remove(&plan.path);
        of_disk(error)
    })
}

/// Opens the log of a database. Also returns what recovery may need of it. With an overlay the files stay as they are.
/// The error has the path of the file that failed.
pub(crate) fn open(
    disk: &dyn Disk,
    paths: &[PathBuf],
    owner: &LogOwner<'_>,
    overlay: Option<&Overlay>,
) -> Result<(Arc<TransactionLog>, Recovered), (PathBuf, FileProblem)> {
    let open = |path: &PathBuf| {
        let opened = open_file(disk, path, false).and_then(|file| match overlay {
            Some(overlay) => overlay.over(file),
            None => Ok(file),
        });
        opened.map_err(|error| (path.clone(), FileProblem::Inaccessible(error)))
    };
    let files: Vec<Arc<dyn DiskFile>> = paths.iter().map(open).collect::<Result<_, _>>()?;
    let (log, recovered) = Log::open(&files, owner.ring_bytes).map_err(|error| (paths[0].clone(), problem(error)))?;
    if log.id() != log_id(owner.guid) {
        let problem = FileProblem::Invalid("it is the log of another database".to_owned());
        return Err((paths[0].clone(), problem));
    }
    Ok((owner.transactions(log), recovered))
}
