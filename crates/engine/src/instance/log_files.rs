//! ALTER DATABASE: the files of the log.

use std::path::PathBuf;

use hobt_base::{FileId, number};
use hobt_catalog::{DatabaseFileRow, Text, name_equals};
use hobt_log::LogError;

use super::create::is_system;
use super::left_over::LeftOver;
use super::plan::logical_name_in_use;
use super::{DatabaseUse, Instance};
use crate::definition::FileDefinition;
use crate::error::{EngineError, Result, cannot_create};
use crate::log_file::{self, LogFilePlan};

/// Why a file was not removed.
enum NotRemoved {
    Log(LogError),
    Engine(EngineError),
}

impl From<LogError> for NotRemoved {
    fn from(error: LogError) -> NotRemoved {
        NotRemoved::Log(error)
    }
}

impl Instance {
    /// Adds files to the log of a database. All are planned before the first is made; if making one fails, those before it
    /// stay. Blocks for as long as it takes to fill them with zeros. Gives what it removed, as [`Instance::add_files`] does.
    ///
    /// # Errors
    /// 1828 the name is taken, 1834 a file belongs to a database, 5170 a file exists, 5123 a path is not allowed or the
    /// system refuses it, 5149 the system refuses the size, 5169 a size above its maximum; a device's error.
    pub fn add_log_files(&self, database: &DatabaseUse, files: &[FileDefinition]) -> Result<Vec<PathBuf>> {
        let _alone = self.definitions.lock();
        refuse_system(database)?;
        let entry = self.entry_of(database)?;
        let first_path = entry.files.lock().first().map(|(_, path)| path.clone()).unwrap_or_default();
        let first = database.next_file_id()?;
        let left = LeftOver::default();
        let mut plans: Vec<LogFilePlan> = Vec::with_capacity(files.len());
        for (file, offset) in files.iter().zip(0..) {
            let id = first.0.checked_add(offset).filter(|id| *id <= i16::MAX.cast_unsigned());
            let id =
                id.ok_or_else(|| EngineError::statement(number::NOT_SUPPORTED, "A database has at most 32767 files."))?;
            let plan = self.plan_log_file(database.name(), &first_path, FileId(id), file, &left)?;
            let is_twice = plans.iter().any(|other| name_equals(&other.name, &plan.name) || other.path == plan.path);
            if is_twice || database.has_file_named(&plan.name) {
                return Err(logical_name_in_use(&plan.name));
            }
            plans.push(plan);
        }
        plans.iter().try_for_each(|plan| self.add_log_file(database, plan))?;
        Ok(left.into_removed())
    }

    /// File, folder, row in `master`, and last the log itself, which uses the file from then on; or, after a crash in
    /// between, when it is opened.
    fn add_log_file(&self, database: &DatabaseUse, plan: &LogFilePlan) -> Result<()> {
        let master = self.master()?;
        database.check_usable()?;
        let log = database.storage().log().expect("a user's database has a log").log();
        let file =
            log_file::create_to_join(&*self.disk, plan, log).map_err(|error| cannot_create(&plan.path, &error))?;
        let row = DatabaseFileRow {
            database: database.id().0.cast_signed(),
            file: plan.file.0.cast_signed(),
            is_log: true,
            path: Text(self.allowed.stored(&plan.path)),
        };
        let listed = self
            .sync_folders(&[&plan.path])
            .and_then(|()| master.change_and_save(|heaps, ctx| heaps.insert(ctx, &row)));
        if let Err(error) = listed {
            drop(file);
            // A master that nobody knows the list of may list it after its recovery.
            if master.check_usable().is_ok() {
                self.remove_files([plan.path.as_path()].into_iter());
            }
            return Err(error);
        }
        self.entry_of(database)?.logs.lock().push((plan.file, plan.path.clone()));
        log.join(file).map_err(|error| database.storage_error(error.into()))
    }

    /// Removes a file of the log that holds nothing needed.
    ///
    /// # Errors
    /// 5009 there is no such file, 5020 it is the first one or the primary data file, 5042 it holds something; 40517 for other
    /// data files; a device's error.
    pub fn remove_file(&self, database: &DatabaseUse, name: &str) -> Result<()> {
        let _alone = self.definitions.lock();
        refuse_system(database)?;
        let logs = database.log_files();
        let Some(place) = logs.iter().position(|file| name_equals(&file.name, name)) else {
            return Err(not_a_log_file(database, name));
        };
        if place == 0 {
            return Err(primary_file());
        }
        let id = FileId(logs[place].id);
        let path = logs[place].disk.path().to_path_buf();
        drop(logs);
        let master = self.master()?;
        let entry = self.entry_of(database)?;
        let unlist = || {
            let number = (database.id().0.cast_signed(), id.0.cast_signed());
            let matches = |row: &DatabaseFileRow| (row.database, row.file) == number;
            let done = master.change_and_save(|heaps, ctx| heaps.delete(ctx, matches).map(|_| ()));
            done.map_err(NotRemoved::Engine)
        };
        let log = database.storage().log().expect("it has files").log();
        log.remove_file(id.0, unlist).map_err(|error| match error {
            NotRemoved::Log(LogError::FileInUse { why }) => EngineError::statement(
                number::FILE_NOT_EMPTY,
                format!("The file '{name}' cannot be removed because it is not empty: {why}."),
            ),
            NotRemoved::Log(error) => database.storage_error(error.into()),
            NotRemoved::Engine(error) => error,
        })?;
        entry.logs.lock().retain(|(file, _)| *file != id);
        self.remove_files([path.as_path()].into_iter());
        Ok(())
    }
}

fn refuse_system(database: &DatabaseUse) -> Result<()> {
    if !is_system(database.id()) {
        return Ok(());
    }
    let text = format!("Database '{}' is the instance's own: its files are fixed.", database.name());
    Err(EngineError::statement(number::NOT_SUPPORTED, text))
}

fn primary_file() -> EngineError {
    let text = "The primary data or log file cannot be removed from a database.";
    EngineError::statement(number::PRIMARY_FILE, text)
}

/// Why a file that is none of the log's cannot be removed.
fn not_a_log_file(database: &DatabaseUse, name: &str) -> EngineError {
    let snapshot = database.snapshot();
    match snapshot.files.iter().find(|file| name_equals(&file.name, name)) {
        Some(file) if file.id == FileId(1) => primary_file(),
        Some(_) => EngineError::statement(
            number::NOT_SUPPORTED,
            format!("'{name}' is a data file: ALTER DATABASE … REMOVE FILE removes files of the log alone."),
        ),
        None => EngineError::statement(
            number::NO_SUCH_FILE,
            format!(
                "One or more files listed in the statement could not be found or could not be initialized: database '{}' \
                 has no file '{name}'.",
                database.name()
            ),
        ),
    }
}
