//! Creating an instance: all of it exists, or nothing.
//!
//! A marker file shows that the creation is under way. It is durable before the first database file is created, and is
//! removed when all of them are complete and durable, before the instance is used:
//!
//! ```text
//! hobt.making ─ sync folder ─ master, its log ─ sync folder ─ tempdb ─ sync folder ─ remove hobt.making ─ sync folder
//! ```
//! A start that finds the marker removes what an unfinished one has created, and begins again. A start that fails
//! removes its files itself, as far as the disk lets it. An instance that was ever used is never taken for an
//! unfinished one: the header of its `master` shows that it was changed.
//!
//! Not here: the contents of the files (`start`).

use std::path::{Path, PathBuf};

use hobt_disk::{Disk, DiskError, OpenOptions};

use super::start::{MASTER_FILE, TEMPDB_FILE, refuse};
use crate::data_file::{DataFile, FileProblem};
use crate::error::Result;
use crate::log_file;
use crate::path::MAKING_FILE;

/// The creation of an instance, begun.
pub(super) struct Making<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
}

impl<'a> Making<'a> {
    /// Begins to create an instance if the folder has none, or an unfinished one; `None` if it has one. The caller has
    /// locked the folder.
    ///
    /// # Errors
    /// The folder is that of an instance whose `master` is missing, or the disk fails.
    pub(super) fn begin(disk: &'a dyn Disk, folder: &'a Path) -> Result<Option<Making<'a>>> {
        let (master, marker) = (folder.join(MASTER_FILE), folder.join(MAKING_FILE));
        let making = Making { disk, folder };
        if disk.exists(&marker) {
            if was_used(disk, &master).map_err(|problem| refuse(&master, problem))? {
                // Copied here, or restored by hand.
                making.finish()?;
                return Ok(None);
            }
            // The marker may not be durable yet: the start that created it may have been interrupted at once.
            making.sync()?;
            making.remove_files().map_err(|(path, error)| refuse(&path, error))?;
            return Ok(Some(making));
        }
        if disk.exists(&master) {
            return Ok(None);
        }
        // tempdb is created only after master.
        if disk.exists(&folder.join(TEMPDB_FILE)) {
            return Err(refuse(
                &master,
                "the file is missing, and the folder is that of an instance: its list of databases would be lost. Put \
                 the file back from a copy that was made while the instance was stopped, or start in a new folder.",
            ));
        }
        let options = OpenOptions { create_new: true, ..OpenOptions::default() };
        drop(disk.open(&marker, options).map_err(|error| refuse(&marker, error))?);
        match making.sync() {
            Ok(()) => Ok(Some(making)),
            Err(error) => {
                making.abandon();
                Err(error)
            }
        }
    }

    /// Records that everything was created and is durable. If this fails, the next start finds a complete instance or
    /// begins again, so nothing may be removed here any more.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn finish(&self) -> Result<()> {
        let marker = self.folder.join(MAKING_FILE);
        self.disk.remove(&marker).map_err(|error| refuse(&marker, error))?;
        self.sync()
    }

    /// Removes what was created before something failed. What the disk refuses to remove is removed by the next start.
    /// Errors are ignored: the caller reports the one that failed before.
    pub(super) fn abandon(&self) {
        // The marker is removed only if nothing is left that it stands for.
        if self.remove_files().is_ok() && self.sync().is_ok() {
            let _ = self.disk.remove(&self.folder.join(MAKING_FILE));
            let _ = self.sync();
        }
    }

    /// Removes the files of an unfinished instance, which hold no user data.
    fn remove_files(&self) -> std::result::Result<(), (PathBuf, DiskError)> {
        let master = self.folder.join(MASTER_FILE);
        let log = log_file::log_path(&master);
        for path in [self.folder.join(TEMPDB_FILE), log, master] {
            match self.disk.remove(&path) {
                Ok(()) | Err(DiskError::NotFound { .. }) => {}
                Err(error) => return Err((path, error)),
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.disk.sync_directory(self.folder).map_err(|error| refuse(self.folder, error))
    }
}

/// Whether a `master` was changed since it was created: its header gets another generation, durably, before the first
/// change. An error means that it cannot be opened or read, and must not be removed.
fn was_used(disk: &dyn Disk, master: &Path) -> std::result::Result<bool, FileProblem> {
    let options = OpenOptions { create_new: false, read_only: false, direct: true };
    let file = match disk.open(master, options) {
        Ok(file) => file,
        Err(DiskError::NotFound { .. }) => return Ok(false),
        Err(error) => return Err(FileProblem::Inaccessible(error)),
    };
    let header = DataFile::whole_header_of(&*file)?;
    Ok(header.is_some_and(|header| header.generation > 0))
}
