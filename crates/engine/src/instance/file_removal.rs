//! ALTER DATABASE: removing files and filegroups from a database, and deleting what a crash has left of them.

use std::path::{Path, PathBuf};

use hobt_base::FileId;
use hobt_catalog::{DatabaseFile, DatabaseFileRow, Text, name_equals};
use hobt_disk::{Disk, DiskError};
use hobt_log::Unlisted;

use super::backup::without_backup;
use super::log_files::refuse_system;
use super::registry::Entry;
use super::{DatabaseUse, Instance};
use crate::data_file::DataFile;
use crate::database::{Database, primary_file};
use crate::error::{EngineError, Result};

/// Selects a file's row in `master`.
fn row_of(database: &Database, file: FileId) -> impl Fn(&DatabaseFileRow) -> bool + use<> {
    let number = (database.id().0.cast_signed(), file.0.cast_signed());
    move |row| (row.database, row.file) == number
}

/// Removes a file from the list in `master`, durably.
pub(super) fn unlist_file(master: &DatabaseUse, database: &Database, file: FileId) -> Result<()> {
    master.change_and_save(|heaps, ctx| heaps.delete(ctx, row_of(database, file)).map(|_| ()))
}

/// What a change of the list in `master` has come to.
pub(super) fn outcome(master: &DatabaseUse, changed: Result<()>) -> Unlisted<EngineError> {
    match changed {
        Ok(()) => Unlisted::Done,
        Err(error) if master.check_usable().is_ok() => Unlisted::Failed(error),
        Err(error) => Unlisted::Unknown(error),
    }
}

impl Instance {
    /// Removes a filegroup that has no files and that is not referred to.
    ///
    /// # Errors
    /// 5043 it does not exist, 5042 it is not empty; a device's error.
    pub fn remove_filegroup(&self, database: &DatabaseUse, name: &str) -> Result<()> {
        refuse_system(database)?;
        self.alter(database, |ctx| database.remove_filegroup(ctx, name))
    }

    /// Removes a log file that holds nothing needed, or an empty data file, and deletes it. Blocks until that is
    /// durable.
    ///
    /// # Errors
    /// 5009 it does not exist, 5020 it is the first one of the log or the primary data file, 5031 it is the only one of
    /// the default filegroup, 5042 it holds something; a device's error.
    pub fn remove_file(&self, database: &DatabaseUse, name: &str) -> Result<()> {
        let _alone = self.definitions.lock();
        refuse_system(database)?;
        self.registry.refuse_source(&*self.entry_of(database)?)?;
        let _no_backup = without_backup(database)?;
        let logs = database.log_files();
        match logs.iter().position(|file| name_equals(&file.name, name)) {
            Some(0) => Err(primary_file()),
            Some(place) => {
                let (id, path) = (FileId(logs[place].id), logs[place].disk.path().to_path_buf());
                drop(logs);
                self.remove_log_file(database, name, id, &path)
            }
            None => self.remove_data_file(database, name),
        }
    }

    fn remove_data_file(&self, database: &DatabaseUse, name: &str) -> Result<()> {
        let master = self.master()?;
        let entry = self.entry_of(database)?;
        let mut removed = None;
        let unlist = |file: &DatabaseFile| {
            let row = DatabaseFileRow {
                database: database.id().0.cast_signed(),
                file: file.id.0.cast_signed(),
                is_log: false,
                is_removed: true,
                path: Text(self.allowed.stored(&file.path)),
            };
            let listed = master.change_and_save(|heaps, ctx| {
                heaps.delete(ctx, row_of(database, file.id))?;
                heaps.insert(ctx, &row)
            });
            if listed.is_ok() {
                entry.files.lock().retain(|(id, _)| *id != file.id);
                entry.removed.lock().push((file.id, file.path.clone()));
                removed = Some((file.id, file.path.clone()));
            }
            outcome(&master, listed)
        };
        self.run(database, |ctx| database.remove_file(ctx, name, unlist).map(drop))?;
        let (id, path) = removed.expect("it was removed");
        // The file is removed, even if a later step fails: the next start does the rest.
        let _done = self.delete_data_file(&master, database, id, &path);
        Ok(())
    }

    /// Deletes a file that is not listed any more, and removes its row from `master`.
    fn delete_data_file(&self, master: &DatabaseUse, database: &DatabaseUse, id: FileId, path: &Path) -> Result<()> {
        database.let_go_of_file(id)?;
        self.remove_files([path].into_iter());
        if self.disk.exists(path) {
            return Ok(());
        }
        // Without the note in `master`, recovery could not tell why the database has a file that is not there.
        database.flush_log()?;
        unlist_file(master, database, id)?;
        self.entry_of(database)?.removed.lock().retain(|(removed, _)| *removed != id);
        Ok(())
    }

    /// Deletes removed files that could not be deleted earlier, of a database that is being dropped.
    pub(super) fn delete_removed_of(&self, entry: &Entry) {
        let all = self.registry.all();
        let listed: Vec<PathBuf> =
            all.iter().flat_map(|entry| entry.files.lock().clone()).map(|(_, path)| path).collect();
        for (file, path) in entry.removed.lock().iter() {
            // A file left behind only takes room.
            let _is_gone = delete_removed(&*self.disk, path, *file, entry.guid, &listed);
        }
    }
}

/// Deletes what a crash has left of a file that was removed from the database `guid`. Returns whether nothing is left.
pub(super) fn delete_removed(disk: &dyn Disk, path: &Path, file: FileId, guid: [u8; 16], listed: &[PathBuf]) -> bool {
    // Another file may have taken its path by now.
    if listed.iter().any(|other| other == path) || !disk.exists(path) {
        return true;
    }
    match DataFile::open(disk, path, file, guid) {
        Ok(opened) => drop(opened),
        Err(_) => return false,
    }
    let is_gone = matches!(disk.remove(path), Ok(()) | Err(DiskError::NotFound { .. }));
    is_gone && path.parent().is_none_or(|folder| disk.sync_directory(folder).is_ok())
}
