//! Adding filegroups and files to a database. For their removal see `file_removal`.

use std::collections::HashSet;
use std::sync::Arc;

use hobt_base::{FileId, FilegroupId, errors};
use hobt_catalog::{Filegroup, SnapshotChange, name_equals};
use hobt_log::LogFileRow;
use hobt_txn::StatementContext;

use super::Database;
use super::pending::{Name, Sharing};
use super::place::filegroup_named;
use crate::data_file::DataFile;
use crate::definition::check_name;
use crate::error::{EngineError, Result};
use crate::log_file::FIRST_LOG_FILE;

impl Database {
    /// Adds an empty filegroup.
    pub(crate) fn add_filegroup(self: &Arc<Database>, ctx: &StatementContext, name: &str) -> Result<()> {
        check_name(name)?;
        let change = self.begin(ctx, vec![(Name::Filegroups, Sharing::Exclusive)])?;
        let snapshot = self.snapshot_of(ctx);
        if snapshot.filegroup(name).is_some() || snapshot.partition_scheme(name).is_some() {
            return Err(EngineError::Statement(errors::FILEGROUP_NAME_IN_USE.with([&name])));
        }
        let last = snapshot.filegroups.iter().map(|filegroup| filegroup.id.0).max().unwrap_or(1);
        let id = last
            .checked_add(1)
            .filter(|id| *id <= i16::MAX.cast_unsigned())
            .ok_or_else(|| EngineError::Statement(errors::TOO_MANY_FILEGROUPS.error()))?;
        let filegroup = Filegroup { id: FilegroupId(id), name: name.to_owned(), is_default: false };
        let written = filegroup.clone();
        self.write_rows(ctx, |heaps, rows| heaps.insert_filegroup(rows, &written))?;
        change.add(SnapshotChange::AddFilegroup(filegroup));
        Ok(())
    }

    /// Makes a filegroup with files the default one.
    pub(crate) fn set_default_filegroup(self: &Arc<Database>, ctx: &StatementContext, name: &str) -> Result<()> {
        let change = self.begin(ctx, vec![(Name::Filegroups, Sharing::Exclusive)])?;
        let snapshot = self.snapshot_of(ctx);
        let id = self.filegroup_id(ctx, name)?;
        if !snapshot.files.iter().any(|file| file.filegroup == id) {
            return Err(EngineError::Statement(errors::FILEGROUP_NEEDS_FILE.with([&name])));
        }
        let old = snapshot.filegroups.clone();
        let mut new = old.clone();
        for filegroup in &mut new {
            filegroup.is_default = filegroup.id == id;
        }
        let replace = |filegroups: Vec<Filegroup>| {
            move |heaps: &hobt_catalog::SystemHeaps, rows: &StatementContext| {
                filegroups.iter().try_for_each(|filegroup| {
                    heaps.delete_filegroup(rows, filegroup.id)?;
                    heaps.insert_filegroup(rows, filegroup)
                })
            }
        };
        self.write_rows(ctx, replace(new))?;
        change.add(SnapshotChange::SetDefaultFilegroup(id));
        Ok(())
    }

    /// A filegroup's id by its name.
    pub(crate) fn filegroup_id(&self, ctx: &StatementContext, name: &str) -> Result<FilegroupId> {
        filegroup_named(&self.snapshot_of(ctx), name)
            .ok_or_else(|| EngineError::Statement(errors::INVALID_DATA_SPACE.with([&name])))
    }

    /// The ids that the next `count` files get: the lowest unused ones, none of `taken`, and none of a removed file of
    /// which recovery would still read records.
    pub(crate) fn free_file_ids(&self, count: usize, taken: &[FileId]) -> Result<Vec<FileId>> {
        let mut used: HashSet<FileId> = self.snapshot().files.iter().map(|file| file.id).collect();
        used.extend(self.storage.files().iter().map(|file| file.id()));
        used.extend(self.log_files().iter().map(|file| FileId(file.id)));
        used.extend(self.removed_file_ids());
        used.extend(taken);
        let free = (FIRST_LOG_FILE.0 + 1..=i16::MAX.cast_unsigned()).map(FileId).filter(|id| !used.contains(id));
        let ids: Vec<FileId> = free.take(count).collect();
        if ids.len() == count {
            return Ok(ids);
        }
        Err(EngineError::Statement(errors::TOO_MANY_FILES.error()))
    }

    /// Whether a file has this logical name.
    pub(crate) fn has_file_named(&self, name: &str) -> bool {
        self.snapshot().files.iter().any(|file| name_equals(&file.name, name))
            || self.log_files().iter().any(|file| name_equals(&file.name, name))
    }

    /// The files of its log.
    pub(crate) fn log_files(&self) -> Vec<LogFileRow> {
        self.storage.log().map_or_else(Vec::new, |log| log.log().files())
    }

    /// The generation in the headers of its files.
    pub(crate) fn generation(&self) -> u64 {
        self.files.lock().generation()
    }

    /// Adds a file that was created for this database and is complete ([`DataFile::complete`]). Its pages are used from
    /// now on, so this is the last step of its statement. Only the first action in it can fail.
    pub(crate) fn add_file(self: &Arc<Database>, ctx: &StatementContext, file: DataFile) -> Result<()> {
        let change = self.begin(ctx, vec![(Name::Filegroups, Sharing::Exclusive)])?;
        let added = file.database_file();
        self.write_rows(ctx, |heaps, rows| heaps.insert_file(rows, &added))?;
        self.storage.open_file(file.description()).map_err(|error| self.storage_error(error))?;
        change.add(SnapshotChange::AddFile(added));
        self.files.lock().files.push(file);
        Ok(())
    }
}
