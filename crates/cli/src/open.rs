//! The instance that a sub-command works on.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use hobt_base::SqlError;
use hobt_engine::InstanceSettings;
use hobt_session::SessionOptions;

use crate::disk::DiskArguments;
use crate::interrupt::{Interrupts, Source};
use hobt::{Instance, Session};

/// With less than this, sorts of more rows than fit fail for lack of memory (701): what they spill is merged from
/// buffers that have to fit.
const MEMORY_MB_MIN: u64 = 128;
/// With less than this, a statement with many workers may find no frame.
const POOL_MB_MIN: u64 = 8;
/// The databases that a new instance has.
const OF_NEW_INSTANCE: [&str; 2] = ["master", "tempdb"];
/// What an instance's folder has from its first start on.
const MASTER_FILE: &str = "master.mdf";
/// What it has while a first start makes the instance, or if that was cut short.
const MAKING_FILE: &str = "hobt.making";
/// Files that an unused folder may have: those of a first start that was cut short, and those of operating systems.
const NOBODYS: [&str; 4] = ["hobt.lock", "tempdb.mdf", "lost+found", ".DS_Store"];

/// Which instance, and how it starts.
#[derive(Args, Clone, Debug)]
pub(crate) struct InstanceArguments {
    /// The instance's folder; `hobt sql` makes an empty or missing one a new instance
    #[arg(long, value_name = "DIR", default_value = "hobt-data")]
    pub(crate) data: PathBuf,
    /// The first database
    #[arg(short = 'd', long = "database", value_name = "NAME", default_value = "master")]
    pub(crate) database: String,
    /// Memory of the instance in megabytes, 128 or more; half of the machine's without
    #[arg(long, value_name = "MB", value_parser = memory_mb)]
    pub(crate) memory: Option<u64>,
    /// The buffer pool in megabytes, 8 or more; 60 % of the memory without
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(POOL_MB_MIN..))]
    pub(crate) pool: Option<u64>,
    /// A folder outside the instance's that files of databases may be made in; may be given several times
    #[arg(long = "allow", value_name = "DIR")]
    pub(crate) allowed_folders: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) disk: DiskArguments,
    /// Longer allocation runs
    #[arg(short = 'E', long = "long-runs")]
    pub(crate) long_runs: bool,
    /// A trace flag that is on from the start; may be given several times
    #[arg(short = 'T', long = "trace", value_name = "FLAG", value_parser = clap::value_parser!(i32).range(1..=32767))]
    pub(crate) trace_flags: Vec<i32>,
}

/// Why a sub-command has no instance.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The arguments cannot be used, or the folder cannot be one of an instance; the text says what to do.
    Usage(String),
    Sql(SqlError),
}

impl From<SqlError> for OpenError {
    fn from(error: SqlError) -> OpenError {
        OpenError::Sql(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Usage(text) => write!(f, "hobt: {text}"),
            OpenError::Sql(error) => write!(f, "{}\n{error}", error.header()),
        }
    }
}

/// Runs `work` in a session of an instance that signals can cancel, and closes the instance. Returns what the work has
/// returned, and how the closing ended.
pub(crate) fn in_session<R>(
    (instance, mut session): (Instance, Session),
    interrupts: &Interrupts,
    work: impl FnOnce(&mut Session) -> R,
) -> (R, Result<(), SqlError>) {
    session.expect_batch();
    interrupts.begin();
    interrupts.watch(session.cancel_handle(), &instance, Source::Script);
    let done = work(&mut session);
    interrupts.close();
    drop(session);
    (done, instance.close())
}

/// The exit code of a sub-command whose work is done, by how the closing of its instance ended.
pub(crate) fn exit_code(closed: Result<(), SqlError>, interrupts: &Interrupts) -> ExitCode {
    match (closed, interrupts.exit_code()) {
        (Err(error), _) => interrupts.failed(Some(error.number), &OpenError::from(error)),
        (Ok(()), Some(code)) => code,
        (Ok(()), None) => ExitCode::SUCCESS,
    }
}

impl InstanceArguments {
    /// Whether the instance is to be made anew. One is not made for the sake of a database that it cannot have.
    ///
    /// # Errors
    /// The folder cannot be one of an instance; a new instance would not have the database.
    pub(crate) fn is_new(&self) -> Result<bool, OpenError> {
        let is_new = !self.disk.is_in_memory() && is_new_instance(&self.data).map_err(OpenError::Usage)?;
        if is_new && OF_NEW_INSTANCE.iter().all(|name| !name.eq_ignore_ascii_case(&self.database)) {
            let what = format!("a new one has no database '{}'; leave -d out to make it", self.database);
            return Err(OpenError::Usage(no_instance(&self.data, &what)));
        }
        Ok(is_new)
    }

    /// As [`InstanceArguments::open`], for what asks about data that are there: makes no instance.
    pub(crate) fn open_existing(&self, program: &str) -> Result<(Instance, Session), OpenError> {
        if !self.disk.is_in_memory() && is_new_instance(&self.data).map_err(OpenError::Usage)? {
            return Err(OpenError::Usage(no_instance(&self.data, "name an instance's folder with --data")));
        }
        self.open(program)
    }

    /// Opens the instance and a session in it. Says on the error stream when the instance is a new one, or in memory.
    pub(crate) fn open(&self, program: &str) -> Result<(Instance, Session), OpenError> {
        let disk = self.disk.kind().map_err(OpenError::Usage)?;
        let is_new = self.is_new()?;
        // What a user types is a path from where he is, not from the instance's folder.
        let absolute = |folder: &PathBuf| {
            let unusable = |error| OpenError::Usage(format!("--allow {}: {error}", folder.display()));
            std::path::absolute(folder).map_err(unusable)
        };
        let bytes = |megabytes: u64| megabytes.saturating_mul(1 << 20);
        let settings = InstanceSettings {
            memory_bytes: self.memory.map(bytes),
            pool_bytes: self.pool.map(bytes),
            disk,
            allowed_folders: self.allowed_folders.iter().map(absolute).collect::<Result<_, _>>()?,
            // Files of rows are named from where the user is.
            rows_folder: std::env::current_dir().ok(),
            long_runs: self.long_runs,
            trace_flags: self.trace_flags.clone(),
            on_recovery: Some(crate::progress::recovery_observer()),
            ..InstanceSettings::default()
        };
        let instance = Instance::open_with(&self.data, settings)?;
        if self.disk.is_in_memory() {
            eprintln!("The instance is in memory alone, and gone when the program ends.");
        } else if is_new {
            announce_new_instance(&self.data);
        }
        let session = instance.session_with(&SessionOptions {
            database: self.database.clone(),
            program: program.to_owned(),
            host: instance.server().name().to_owned(),
            ..SessionOptions::default()
        })?;
        Ok((instance, session))
    }
}

/// The megabytes of the memory setting.
fn memory_mb(text: &str) -> Result<u64, String> {
    let megabytes: u64 =
        text.parse().map_err(|_| "give a number of megabytes without a unit, such as 1024".to_owned())?;
    Some(megabytes).filter(|megabytes| *megabytes >= MEMORY_MB_MIN).ok_or_else(|| {
        format!(
            "at least {MEMORY_MB_MIN} are needed: with less, what sorts, groups and joins put on disk could not be read \
             back. Give {MEMORY_MB_MIN} or more, or leave the flag out for half of the machine's memory"
        )
    })
}

/// That there is no instance in a folder, and what to do.
fn no_instance(folder: &Path, what_to_do: &str) -> String {
    let path = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    format!("there is no instance in {}: {what_to_do}.", path.display())
}

/// Whether an instance opened in this folder will be a new one. A user who mistypes a name is not to find an instance
/// among other files.
///
/// # Errors
/// The folder is none, or has other things in it; the text says so.
pub(crate) fn is_new_instance(folder: &Path) -> Result<bool, String> {
    let shown = folder.display();
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(_) if folder.is_file() => return Err(format!("{shown} is a file. --data names the instance's folder.")),
        Err(error) => return Err(format!("{shown} cannot be read: {error}")),
    };
    if folder.join(MAKING_FILE).exists() {
        return Ok(true);
    }
    if folder.join(MASTER_FILE).exists() {
        return Ok(false);
    }
    for entry in entries {
        let name = entry.map_err(|error| format!("{shown} cannot be read: {error}"))?.file_name();
        if NOBODYS.iter().all(|nobodys| name != *nobodys) {
            return Err(format!(
                "{shown} has files in it and is no instance: there is no {MASTER_FILE}. Name an instance's folder with \
                 --data, or an empty or missing folder for a new instance."
            ));
        }
    }
    Ok(true)
}

/// Says on the error stream where a new instance is.
pub(crate) fn announce_new_instance(folder: &Path) {
    let path = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    eprintln!("A new instance is created in {}.", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_not_made_among_other_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data");
        assert_eq!(is_new_instance(&path), Ok(true), "missing");
        std::fs::create_dir(&path).expect("a folder");
        assert_eq!(is_new_instance(&path), Ok(true), "empty");
        std::fs::write(path.join("hobt.lock"), "").expect("a file");
        assert_eq!(is_new_instance(&path), Ok(true), "a start that was cut short");
        std::fs::write(path.join("thesis.txt"), "").expect("a file");
        assert!(is_new_instance(&path).expect_err("not empty").contains("no instance"));
        assert!(is_new_instance(&path.join("thesis.txt")).expect_err("a file").contains("is a file"));
        std::fs::write(path.join(MASTER_FILE), "").expect("a file");
        assert_eq!(is_new_instance(&path), Ok(false), "an instance");
        std::fs::write(path.join(MAKING_FILE), "").expect("a file");
        assert_eq!(is_new_instance(&path), Ok(true), "an instance that was not made to its end");
    }
}
