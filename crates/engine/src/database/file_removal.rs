//! Removal of filegroups and data files from a database.
//!
//! A file is removed in steps; the second one decides:
//!
//! 1. no extent of it is allocated any more, it is empty, and the log is durable up to where it became so;
//! 2. `master` lists it as removed;
//! 3. the row in the catalog goes with the statement's commit, the file is removed from the pool and from disk, and
//!    `master` forgets it.
//!
//! After a crash before the second step the file stays a normal file. After a crash later than that, the next start
//! removes the rest of the file, and recovery removes the catalog's row. If it is uncertain whether the second step was
//! done, the database is not closed clean, so that recovery runs. Recovery skips log records for pages of the file, so
//! its id is given to another file only when recovery would not read those records any more.

use std::sync::Arc;

use hobt_base::{FileId, FilegroupId, Lsn, errors};
use hobt_catalog::{DataSpace, DatabaseFile, DatabaseSnapshot, SnapshotChange, name_equals};
use hobt_log::Unlisted;
use hobt_txn::StatementContext;

use super::Database;
use super::pending::{Name, Sharing};
use crate::error::{EngineError, Result};

/// 5020.
pub(crate) fn primary_file() -> EngineError {
    EngineError::Statement(errors::PRIMARY_FILE.error())
}

/// 5042; `kind` is "file" or "filegroup".
fn not_empty(kind: &str, name: &str, why: &str) -> EngineError {
    EngineError::Statement(errors::FILE_NOT_EMPTY.with([&kind, &name, &why]))
}

/// What prevents the removal of a filegroup.
fn user_of(snapshot: &DatabaseSnapshot, id: FilegroupId) -> Option<String> {
    if let Some(file) = snapshot.files.iter().find(|file| file.filegroup == id) {
        return Some(format!("Remove its file '{}' first.", file.name));
    }
    let uses = |scheme: &hobt_catalog::PartitionScheme| scheme.filegroups.contains(&id) || scheme.next_used == Some(id);
    if let Some(scheme) = snapshot.partition_schemes.iter().find(|scheme| uses(scheme)) {
        return Some(format!("Partition scheme '{}' uses it.", scheme.name));
    }
    let is_there = |index: &hobt_catalog::Index| {
        matches!(index.data_space, DataSpace::Filegroup(space) if space == id)
            || index.partitions.iter().any(|partition| partition.filegroup == id)
    };
    let mut tables = snapshot.tables.values().filter(|table| table.indexes.iter().any(is_there));
    tables.next().map(|table| format!("Table '{}' is in it.", table.name))
}

impl Database {
    /// Removes a filegroup that has no files and that is not referred to.
    ///
    /// # Errors
    /// 5043 it does not exist, 5042 it is not empty; a device's error.
    pub(crate) fn remove_filegroup(self: &Arc<Database>, ctx: &StatementContext, name: &str) -> Result<()> {
        let claims = vec![(Name::Filegroups, Sharing::Exclusive), (Name::FilegroupsOfSchemes, Sharing::Exclusive)];
        let change = self.begin(ctx, claims)?;
        let snapshot = self.snapshot_of(ctx);
        let filegroup =
            snapshot.filegroup(name).ok_or_else(|| EngineError::Statement(errors::NO_SUCH_FILEGROUP.with([&name])))?;
        let id = filegroup.id;
        if let Some(why) = user_of(&snapshot, id) {
            return Err(not_empty("filegroup", &filegroup.name, &why));
        }
        self.write_rows(ctx, |heaps, rows| heaps.delete_filegroup(rows, id))?;
        change.add(SnapshotChange::RemoveFilegroup(id));
        Ok(())
    }

    /// Removes a data file from the lists; `unlist` removes it from that of `master`. When the statement has committed,
    /// the file is not visible any more, and [`Database::let_go_of_file`] is to be called.
    ///
    /// # Errors
    /// 5009 it does not exist, 5020 it is the primary one, 5031 it is the only one of the default filegroup, 5042 it is
    /// not empty; what `unlist` gives; a device's error.
    pub(crate) fn remove_file(
        self: &Arc<Database>,
        ctx: &StatementContext,
        name: &str,
        unlist: impl FnOnce(&DatabaseFile) -> Unlisted<EngineError>,
    ) -> Result<FileId> {
        let change = self.begin(ctx, vec![(Name::Filegroups, Sharing::Exclusive)])?;
        let snapshot = self.snapshot_of(ctx);
        let file = snapshot.files.iter().find(|file| name_equals(&file.name, name));
        let file = file.ok_or_else(|| self.no_such_file(name))?;
        if file.id == FileId(1) {
            return Err(primary_file());
        }
        let others = snapshot.files.iter().filter(|other| other.filegroup == file.filegroup && other.id != file.id);
        if snapshot.default_filegroup() == file.filegroup && others.count() == 0 {
            let name = &file.name;
            return Err(EngineError::Statement(errors::ONLY_DEFAULT_FILE.with([&name])));
        }
        let id = file.id;
        // Before it is set aside too: a statement that needs room in a filegroup with no other file must not be refused
        // for nothing.
        self.expect_empty(file)?;
        let was_aside = self.storage.set_aside(id, true).map_err(|error| self.storage_error(error))?;
        let unlisted = match self.write_removal(ctx, file) {
            Ok(()) => unlist(file),
            Err(error) => Unlisted::Failed(error),
        };
        match unlisted {
            Unlisted::Done => {
                change.add(SnapshotChange::RemoveFile(id));
                Ok(id)
            }
            Unlisted::Failed(error) => {
                self.storage.set_aside(id, was_aside).map_err(|error| self.storage_error(error))?;
                Err(error)
            }
            // The file may be gone after the next start: nothing may be put into it, and recovery has to follow
            // `master`.
            Unlisted::Unknown(error) => {
                self.files.lock().is_removal_in_doubt = true;
                Err(error)
            }
        }
    }

    /// 5042 unless the file is empty.
    fn expect_empty(&self, file: &DatabaseFile) -> Result<()> {
        if self.storage.file(file.id).map_err(|error| self.storage_error(error))?.is_empty() {
            return Ok(());
        }
        let why = "Move what is in it to other files of its filegroup first: DBCC SHRINKFILE (…, EMPTYFILE).";
        Err(not_empty("file", &file.name, why))
    }

    /// Checks that a file that is set aside is empty, and writes what must be durable before it is removed.
    fn write_removal(&self, ctx: &StatementContext, file: &DatabaseFile) -> Result<()> {
        self.expect_empty(file)?;
        self.write_rows(ctx, |heaps, rows| heaps.delete_file(rows, file.id))?;
        // Makes the commit durable after which the file was empty.
        self.storage.log().map_or(Ok(()), |log| log.flush()).map_err(|error| self.storage_error(error.into()))
    }

    /// Closes a file that [`Database::remove_file`] has removed from the lists.
    ///
    /// # Errors
    /// A page of it is held: the file stays open, unused.
    pub(crate) fn let_go_of_file(&self, id: FileId) -> Result<()> {
        // Under this lock no checkpoint runs that would write its header.
        let mut files = self.files.lock();
        self.storage.release_file(id).map_err(|error| self.storage_error(error))?;
        files.files.retain(|file| file.header.file != id);
        let end = self.storage.log().map_or(Lsn(0), |log| log.log().end());
        self.removed_files.lock().push((id, end));
        Ok(())
    }

    /// The ids of removed files whose log records recovery would still read.
    pub(super) fn removed_file_ids(&self) -> Vec<FileId> {
        let read_from = self.storage.log().and_then(|log| log.log().recovery_start()).map(|start| start.keep);
        let mut removed = self.removed_files.lock();
        removed.retain(|(_, end)| read_from.is_none_or(|from| from < *end));
        removed.iter().map(|(id, _)| *id).collect()
    }

    /// 5009.
    pub(crate) fn no_such_file(&self, name: &str) -> EngineError {
        EngineError::Statement(errors::NO_SUCH_FILE.with([&self.name, &name]))
    }
}
