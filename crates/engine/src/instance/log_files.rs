//! ALTER DATABASE: the files of the log. For data files see `alter` and `file_removal`.

use std::path::{Path, PathBuf};

use hobt_base::{FileId, errors};
use hobt_catalog::{DatabaseFileRow, Text};
use hobt_log::{LogError, Unlisted};

use super::backup::without_backup;
use super::create::is_system;
use super::file_removal::{outcome, unlist_file};
use super::plan::Planning;
use super::standby::refuse_standby;
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
    /// Adds files to the log of a database. All are planned before the first is created. If creating one fails, the
    /// earlier ones stay. Blocks for as long as it takes to fill them with zeros. Returns the files it removed, as
    /// [`Instance::add_files`] does.
    ///
    /// # Errors
    /// 1828 the name is taken, 1834 a file belongs to a database, 5170 a file exists, 5123 a path is not allowed or the
    /// system refuses it, 5149 the system refuses the size, 5169 a size above its maximum, 3906; a device's error.
    pub fn add_log_files(&self, database: &DatabaseUse, files: &[FileDefinition]) -> Result<Vec<PathBuf>> {
        let _alone = self.definitions.lock();
        refuse_system(database)?;
        let _no_backup = without_backup(database)?;
        let entry = self.entry_of(database)?;
        let first_path = entry.files.lock().first().map(|(_, path)| path.clone()).unwrap_or_default();
        let ids = database.free_file_ids(files.len(), &entry.taken_ids())?;
        let mut planning = Planning::of(database);
        let plan = |(file, id)| self.plan_log_file(&mut planning, &first_path, id, file);
        let plans = files.iter().zip(ids).map(plan).collect::<Result<Vec<LogFilePlan>>>()?;
        plans.iter().try_for_each(|plan| self.add_log_file(database, plan))?;
        Ok(planning.into_removed())
    }

    /// Creates the file, syncs the folder, inserts the row in `master`, and last adds the file to the log, which uses
    /// it from then on. After a crash before that last step, opening the log adds it.
    fn add_log_file(&self, database: &DatabaseUse, plan: &LogFilePlan) -> Result<()> {
        let master = self.master()?;
        database.begin_change()?;
        let log = database.storage().log().expect("a user's database has a log").log();
        let file =
            log_file::create_to_join(&*self.disk, plan, log).map_err(|error| cannot_create(&plan.path, &error))?;
        let row = DatabaseFileRow {
            database: database.id().0.cast_signed(),
            file: plan.file.0.cast_signed(),
            is_log: true,
            is_removed: false,
            path: Text(self.allowed.stored(&plan.path)),
        };
        let file = self.list_file(&master, file, &row, &plan.path)?;
        self.entry_of(database)?.logs.lock().push((plan.file, plan.path.clone()));
        log.join(file).map_err(|error| database.storage_error(error.into()))
    }

    /// Removes a file of the log that holds nothing needed.
    pub(super) fn remove_log_file(&self, database: &DatabaseUse, name: &str, id: FileId, path: &Path) -> Result<()> {
        let master = self.master()?;
        database.begin_change()?;
        let entry = self.entry_of(database)?;
        let mut is_unlisted = false;
        let unlist = || {
            let unlisted = outcome(&master, unlist_file(&master, database, id));
            is_unlisted = matches!(unlisted, Unlisted::Done);
            match unlisted {
                Unlisted::Done => Unlisted::Done,
                Unlisted::Failed(error) => Unlisted::Failed(NotRemoved::Engine(error)),
                Unlisted::Unknown(error) => Unlisted::Unknown(NotRemoved::Engine(error)),
            }
        };
        let log = database.storage().log().expect("it has files").log();
        let removed = log.remove_file(id.0, unlist).map_err(|error| match error {
            NotRemoved::Log(LogError::FileInUse { why }) => {
                EngineError::Statement(errors::LOG_FILE_NOT_EMPTY.with([&name, &why]))
            }
            NotRemoved::Log(error) => database.storage_error(error.into()),
            NotRemoved::Engine(error) => error,
        });
        // Even if the log has failed since: the next opening follows the list.
        if is_unlisted {
            entry.logs.lock().retain(|(file, _)| *file != id);
            self.remove_files([path].into_iter());
        }
        removed
    }
}

pub(super) fn refuse_system(database: &DatabaseUse) -> Result<()> {
    if !is_system(database.id()) {
        return refuse_standby(database);
    }
    Err(EngineError::Statement(errors::FILES_OF_INSTANCE_DATABASE.with([&database.name()])))
}
