//! Standbys: databases that are being restored and can be read meanwhile. docs/design/0050-overlays.md.
//!
//! A standby is opened over its files: recovery, and all that it writes, go to the standby file, an overlay. The files
//! and the log stay as `NORECOVERY` leaves them. The next restore closes the standby, drops the overlay and goes on.
//!
//! `master` lists a standby as being restored, with another bit and the path of the standby file. Each opening makes
//! the overlay anew, so nothing in it has to survive a crash.
//!
//! Left to others: the overlay (crate `disk`), what is restored (`restore`).

use std::path::{Path, PathBuf};

use hobt_base::errors;
use hobt_catalog::{DatabaseFileRow, DatabaseRow, Text};
use hobt_disk::OpenOptions;

use super::overlay_file::{OVERLAY_FILE, is_standby_file};
use super::plan::in_use;
use super::registry::{Entry, EntryState};
use super::start::inspect;
use super::{DatabaseUse, Instance, does_not_exist};
use crate::error::{EngineError, Result, of_catalog};
use crate::isolation::{RESTORING, STANDBY};

/// Refuses what cannot be done to a standby or a snapshot.
///
/// # Errors
/// 5063, 5093.
pub(super) fn refuse_standby(database: &DatabaseUse) -> Result<()> {
    match (database.is_snapshot(), database.is_over_others()) {
        (true, _) => Err(EngineError::Statement(errors::DATABASE_IS_SNAPSHOT.error())),
        (false, true) => Err(EngineError::Statement(errors::WARM_STANDBY.with([&database.name()]))),
        (false, false) => Ok(()),
    }
}

impl Entry {
    /// Whether it is a database that is being restored and can be read.
    pub(super) fn is_standby(&self) -> bool {
        !self.is_snapshot() && self.overlay.lock().is_some()
    }

    /// As [`refuse_standby`].
    pub(super) fn refuse_standby(&self) -> Result<()> {
        match (self.is_snapshot(), self.is_standby()) {
            (true, _) => Err(EngineError::Statement(errors::DATABASE_IS_SNAPSHOT.error())),
            (false, true) => Err(EngineError::Statement(errors::WARM_STANDBY.with([&self.name]))),
            (false, false) => Ok(()),
        }
    }
}

impl Instance {
    /// Makes a database that is being restored a standby: it can be read, and restored further. Blocks while it is
    /// recovered over its files. A standby gets another standby file.
    ///
    /// # Errors
    /// 3118 it does not exist, 3153 it is not being restored, 3101 it is in use, 4333 its log was not restored up to
    /// where its pages may be; 1834, 5123, 5170 the path; 926 and 945 if it cannot be recovered, and then it is
    /// restoring.
    pub fn stand_by(&self, name: &str, path: &Path) -> Result<()> {
        let path = self.place_standby_file(name, path)?;
        self.enter_standby(name, &path)
    }

    /// The path of a standby file, which is not there, or is one.
    ///
    /// # Errors
    /// 5123 the path is not allowed, 1834 a database has the file, 5170 the file holds something else.
    pub(super) fn place_standby_file(&self, name: &str, path: &Path) -> Result<PathBuf> {
        let path = self.allowed.place(&*self.disk, path)?;
        let own = self.registry.named(name).filter(|entry| entry.is_standby());
        let own = own.and_then(|entry| entry.overlay.lock().clone());
        if own.as_ref() == Some(&path) {
            return Ok(path);
        }
        if let Some(owner) = self.owner_of(&path) {
            return Err(in_use(&path, &owner));
        }
        if self.disk.exists(&path) {
            let options = OpenOptions { create_new: false, read_only: true, direct: true };
            let found = self.disk.open(&path, options).and_then(|file| is_standby_file(&*file));
            if !found.unwrap_or(false) {
                return Err(EngineError::Statement(errors::FILE_EXISTS.with([&path.display()])));
            }
        }
        Ok(path)
    }

    /// As [`Instance::stand_by`], for a path of [`Instance::place_standby_file`].
    pub(super) fn enter_standby(&self, name: &str, path: &Path) -> Result<()> {
        let entry = self.restoring_or(name, errors::ALREADY_RECOVERED.error())?;
        let in_use_now = || EngineError::Statement(errors::RESTORE_IN_USE.error());
        let transition = self.take_unused(entry.id).ok_or_else(in_use_now)?;
        if self.is_restoring_pages(name)? {
            return Err(EngineError::Statement(errors::BACKUP_OPTIONS_CONFLICT.with([&"page", &"standby"])));
        }
        self.close_standby(&entry);
        let (files, _) = self.open_restored(&entry).inspect_err(|_| self.reopen_standby(&entry))?;
        self.leave_standby(&entry)?;
        {
            // From here on no other database gets a file of this name.
            let _alone = self.definitions.lock();
            if let Some(owner) = self.owner_of(path) {
                return Err(in_use(path, &owner));
            }
            self.note_standby(&entry, path)?;
            *entry.overlay.lock() = Some(path.to_path_buf());
        }
        self.sync_folders(&[path])?;
        *entry.state.lock() = EntryState::Closed(files);
        drop(transition);
        match self.database_by_id(entry.id) {
            Ok(database) => {
                *entry.options.lock() = database.options();
                Ok(())
            }
            Err(error) => {
                if let Some(_transition) = self.take_unused(entry.id) {
                    self.close_standby(&entry);
                    // The first error is the one to report. A standby that stays one can be restored further as well.
                    let _left = self.leave_standby(&entry);
                }
                Err(error)
            }
        }
    }

    /// Closes a standby, so that its files can be opened. `master` and the entry go on saying that it is one. The
    /// caller holds its transition. Does nothing to another database.
    pub(super) fn close_standby(&self, entry: &Entry) {
        if !entry.is_standby() {
            return;
        }
        let before = std::mem::replace(&mut *entry.state.lock(), EntryState::restoring());
        if let EntryState::Open(database) = before {
            // All that it has written is dropped.
            let _left = database.abandon();
        }
    }

    /// Lets a database that was closed by [`Instance::close_standby`] and is still a standby be opened again.
    pub(super) fn reopen_standby(&self, entry: &Entry) {
        if entry.is_standby() {
            let found = inspect(&*self.disk, &entry.files.lock(), entry.guid);
            *entry.state.lock() = found;
        }
    }

    /// Makes a closed standby a database that is merely being restored, durably: its files are about to change. Does
    /// nothing to another database.
    pub(super) fn leave_standby(&self, entry: &Entry) -> Result<()> {
        if !entry.is_standby() {
            return Ok(());
        }
        self.note_restoring(entry, true)?;
        self.drop_overlay_file(entry);
        Ok(())
    }

    /// Removes the overlay of a database that `master` does not list with one any more.
    pub(super) fn drop_overlay_file(&self, entry: &Entry) {
        let Some(path) = entry.overlay.lock().take() else { return };
        let options = OpenOptions { create_new: false, read_only: true, direct: true };
        let is_one = self.disk.open(&path, options).and_then(|file| is_standby_file(&*file));
        if is_one.unwrap_or(false) {
            // One that stays is overwritten by the next standby of that name.
            let _gone = self.disk.remove(&path);
        }
    }

    /// Lists a database as a standby, durably.
    fn note_standby(&self, entry: &Entry, path: &Path) -> Result<()> {
        let master = self.master()?;
        let id = entry.id.0.cast_signed();
        let (rows, _) = master.listed_databases().map_err(|error| of_catalog("master", error))?;
        let row = rows.into_iter().find(|row| row.id == id).ok_or_else(|| does_not_exist(&entry.name))?;
        let row = DatabaseRow { isolation: row.isolation | RESTORING | STANDBY, ..row };
        let path = Text(self.allowed.stored(path));
        let file = DatabaseFileRow { database: id, file: OVERLAY_FILE, is_log: false, is_removed: false, path };
        master.change_and_save(|heaps, ctx| {
            heaps.delete(ctx, |row: &DatabaseRow| row.id == id)?;
            heaps.insert(ctx, &row)?;
            heaps.delete(ctx, |row: &DatabaseFileRow| row.database == id && row.file == OVERLAY_FILE)?;
            heaps.insert(ctx, &file)
        })
    }
}
