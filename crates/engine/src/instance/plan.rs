//! Plans the files of a new database: names, paths, sizes. Refuses every plan that could harm another file.

use std::path::{Path, PathBuf};

use hobt_base::{EXTENT_PAGES, FileId, FilegroupId, PAGE_SIZE, errors};
use hobt_catalog::{Filegroup, Growth, name_equals};
use hobt_disk::DiskError;
use hobt_log::SEGMENT_BYTES_MIN;

use super::left_over::LeftOver;
use super::{DatabaseDescription, Instance};
use crate::data_file::FilePlan;
use crate::database::{Database, primary_filegroup};
use crate::definition::{DatabaseDefinition, FileDefinition, check_name};
use crate::error::{EngineError, Result, cannot_create};
use crate::log_file::{FIRST_LOG_FILE, LOG_BYTES, LOG_BYTES_MAX, LOG_GROWTH_BYTES, LogFilePlan, log_path};

/// 8 MiB.
const SIZE_PAGES: u32 = 1024;
/// 64 MiB.
const GROWTH_PAGES: u32 = 8192;
/// 2 MiB: the first file holds the catalog.
const PRIMARY_SIZE_PAGES_MIN: u32 = 256;
/// 512 KiB.
const SIZE_PAGES_MIN: u32 = 64;

/// 1828.
fn logical_name_in_use(name: &str) -> EngineError {
    EngineError::Statement(errors::FILE_NAME_IN_USE.with([&name]))
}

/// The filegroups and files of a new database.
pub(super) struct DatabasePlan {
    pub(super) filegroups: Vec<Filegroup>,
    pub(super) files: Vec<FilePlan>,
    pub(super) logs: Vec<LogFilePlan>,
}

/// What the files of one statement have taken so far, so that no two of them take the same name or path.
pub(super) struct Planning<'a> {
    /// The database's name.
    database: &'a str,
    /// The database, if it exists already.
    existing: Option<&'a Database>,
    names: Vec<String>,
    paths: Vec<PathBuf>,
    left: LeftOver,
}

impl<'a> Planning<'a> {
    /// For the files of a new database.
    pub(super) fn of_new(database: &'a str) -> Planning<'a> {
        let left = LeftOver::default();
        Planning { database, existing: None, names: Vec::new(), paths: Vec::new(), left }
    }

    /// For files that are added to a database.
    pub(super) fn of(database: &'a Database) -> Planning<'a> {
        Planning { existing: Some(database), ..Planning::of_new(database.name()) }
    }

    /// The empty files that occupied the paths and were removed.
    pub(super) fn into_removed(self) -> Vec<PathBuf> {
        self.left.into_removed()
    }

    /// Takes a logical name. Called before its path is taken: the user is to be told that the name is taken, and not
    /// that the path made from it is.
    fn take_name(&mut self, name: &str) -> Result<()> {
        check_name(name)?;
        let is_taken = self.names.iter().any(|other| name_equals(other, name))
            || self.existing.is_some_and(|database| database.has_file_named(name));
        if is_taken {
            return Err(logical_name_in_use(name));
        }
        self.names.push(name.to_owned());
        Ok(())
    }
}

impl Instance {
    /// Plans a new database.
    pub(super) fn plan_database(
        &self,
        definition: &DatabaseDefinition,
        planning: &mut Planning<'_>,
    ) -> Result<DatabasePlan> {
        let defaults = definition.filegroups.iter().filter(|filegroup| filegroup.is_default).count();
        if defaults > 1 {
            return Err(EngineError::Statement(errors::ONE_DEFAULT_FILEGROUP.error()));
        }
        let mut filegroups = vec![primary_filegroup(defaults == 0)];
        let one = [FileDefinition::default()];
        let primary = if definition.primary.is_empty() { &one[..] } else { &definition.primary[..] };
        let mut wanted: Vec<(FilegroupId, &FileDefinition)> =
            primary.iter().map(|file| (FilegroupId(1), file)).collect();
        for filegroup in &definition.filegroups {
            check_name(&filegroup.name)?;
            if filegroups.iter().any(|other| name_equals(&other.name, &filegroup.name)) {
                return Err(logical_name_in_use(&filegroup.name));
            }
            let id = FilegroupId(u16::try_from(filegroups.len() + 1).expect("filegroups of one statement"));
            let (name, is_default) = (filegroup.name.clone(), filegroup.is_default);
            filegroups.push(Filegroup { id, name, is_default });
            wanted.extend(filegroup.files.iter().map(|file| (id, file)));
        }
        let mut files: Vec<FilePlan> = Vec::with_capacity(wanted.len());
        // The log's first file is number 2, as SQL Server numbers them.
        let mut ids = std::iter::once(1).chain(FIRST_LOG_FILE.0 + 1..);
        let mut next_id = || FileId(ids.next().expect("more ids than files of one statement"));
        for (filegroup, file) in wanted {
            files.push(self.plan_file(planning, next_id(), filegroup, file)?);
        }
        let one = [FileDefinition::default()];
        let log = if definition.log.is_empty() { &one[..] } else { &definition.log[..] };
        let mut logs: Vec<LogFilePlan> = Vec::with_capacity(log.len());
        for file in log {
            let id = if logs.is_empty() { FIRST_LOG_FILE } else { next_id() };
            logs.push(self.plan_log_file(planning, &files[0].path, id, file)?);
        }
        Ok(DatabasePlan { filegroups, files, logs })
    }

    /// Plans one file of a log; without a path it lies beside `first`, the database's first data file.
    pub(super) fn plan_log_file(
        &self,
        planning: &mut Planning<'_>,
        first: &Path,
        id: FileId,
        definition: &FileDefinition,
    ) -> Result<LogFilePlan> {
        let suffix = if id == FIRST_LOG_FILE { String::new() } else { id.to_string() };
        let name = definition.name.clone().unwrap_or_else(|| format!("{}_log{suffix}", planning.database));
        planning.take_name(&name)?;
        let beside = || match &definition.name {
            Some(name) => file_named(name, PathBuf::from(format!("{name}.ldf"))).map(|file| first.with_file_name(file)),
            None => Ok(log_path(first)),
        };
        let path = self.place_new(&definition.path.clone().map_or_else(beside, Ok)?, planning)?;
        let bytes = |pages: u32| u64::from(pages) * PAGE_SIZE as u64;
        let size = definition.size_pages.map_or(LOG_BYTES, bytes);
        let bytes_max = definition.max_pages.filter(|pages| *pages > 0).map_or(LOG_BYTES_MAX, bytes);
        if size > bytes_max {
            return Err(size_above_maximum(&name));
        }
        let growth_bytes = match definition.growth {
            None => LOG_GROWTH_BYTES,
            Some(Growth::None) => 0,
            Some(Growth::Pages(pages)) => bytes(pages),
            // Relative to the initial size: a log does not grow by ever longer steps.
            Some(Growth::Percent(percent)) => size.saturating_mul(percent.into()) / 100,
        };
        // A step shorter than a segment would add nothing.
        let growth_bytes = if growth_bytes == 0 { 0 } else { growth_bytes.max(SEGMENT_BYTES_MIN) };
        Ok(LogFilePlan { file: id, name, path, bytes: size, growth_bytes, bytes_max })
    }

    /// The path of a new file. A file that a crash has left there is removed; any other existing file is an error.
    fn place_new(&self, path: &Path, planning: &mut Planning<'_>) -> Result<PathBuf> {
        let path = self.allowed.place(&*self.disk, path)?;
        if let Some(owner) = self.owner_of(&path) {
            return Err(in_use(&path, &owner));
        }
        if planning.paths.contains(&path) {
            return Err(in_use(&path, planning.database));
        }
        if self.disk.exists(&path) && !self.remove_left_over(&path, &mut planning.left) {
            return Err(cannot_create(&path, &DiskError::AlreadyExists { path: path.clone() }));
        }
        planning.paths.push(path.clone());
        Ok(path)
    }

    /// Plans one data file.
    pub(super) fn plan_file(
        &self,
        planning: &mut Planning<'_>,
        id: FileId,
        filegroup: FilegroupId,
        definition: &FileDefinition,
    ) -> Result<FilePlan> {
        let is_first = id == FileId(1);
        let name = match &definition.name {
            Some(name) => name.clone(),
            None if is_first => planning.database.to_owned(),
            None => format!("{}_{id}", planning.database),
        };
        planning.take_name(&name)?;
        let default_path = || PathBuf::from(format!("{name}.{}", if is_first { "mdf" } else { "ndf" }));
        let path = match &definition.path {
            Some(path) => path.clone(),
            None => file_named(&name, default_path())?,
        };
        let path = self.place_new(&path, planning)?;
        let size_min = if is_first { PRIMARY_SIZE_PAGES_MIN } else { SIZE_PAGES_MIN };
        let size_pages = definition.size_pages.unwrap_or(SIZE_PAGES).max(size_min);
        let size_pages = size_pages.checked_next_multiple_of(EXTENT_PAGES);
        let max_pages = definition.max_pages.filter(|pages| *pages > 0);
        let fits = size_pages.filter(|size| max_pages.is_none_or(|max| *size <= max));
        let size_pages = fits.ok_or_else(|| size_above_maximum(&name))?;
        let growth = definition.growth.unwrap_or(Growth::Pages(GROWTH_PAGES));
        Ok(FilePlan { file: id, filegroup, name, path, size_pages, growth, max_pages })
    }

    /// The database that a file belongs to.
    pub(super) fn owner_of(&self, path: &Path) -> Option<String> {
        let databases = self.databases();
        let has = |database: &DatabaseDescription| {
            let files = database.files.iter().chain(&database.log_files).chain(&database.overlay_file);
            files.into_iter().any(|file| file == path)
        };
        databases.into_iter().find(has).map(|found| found.name)
    }
}

/// The path of the file named after a logical name, if the name gives a file and not a folder.
///
/// # Errors
/// 5105.
fn file_named(name: &str, path: PathBuf) -> Result<PathBuf> {
    if !name.contains(['/', '\\', '\0']) {
        return Ok(path);
    }
    Err(EngineError::Statement(errors::FILE_ACTIVATION.with([&path.display()])))
}

/// 5169.
fn size_above_maximum(name: &str) -> EngineError {
    EngineError::Statement(errors::FILE_SIZE.with([&name]))
}

/// 1834.
pub(super) fn in_use(path: &Path, database: &str) -> EngineError {
    EngineError::Statement(errors::FILE_OF_ANOTHER_DATABASE.with([&path.display(), &database]))
}
