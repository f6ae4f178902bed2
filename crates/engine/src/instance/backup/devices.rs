//! The files of a media set: where they may lie, and opening them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hobt_backup::Media;
use hobt_base::errors;
use hobt_disk::{DiskError, DiskFile, OpenOptions};

use super::error::{cannot_open, of_read, why};
use crate::data_file::{lock_patiently, share_patiently};
use crate::error::{EngineError, Result};
use crate::instance::Instance;

/// The most files of a media set, as in SQL Server.
const DEVICES_MAX: usize = 64;

/// The files of a media set that is to be written.
pub(super) struct Devices {
    pub(super) files: Vec<Arc<dyn DiskFile>>,
    /// Those that did not exist before.
    created: Vec<PathBuf>,
}

impl Instance {
    /// The paths of backup files that a user names.
    ///
    /// # Errors
    /// 3205 there are too many, 3201 one may not lie there, or is given twice.
    pub(in crate::instance) fn backup_paths(&self, named: &[PathBuf], creates: bool) -> Result<Vec<PathBuf>> {
        if named.len() > DEVICES_MAX {
            return Err(EngineError::Statement(errors::TOO_MANY_BACKUP_DEVICES.error()));
        }
        let mut paths: Vec<PathBuf> = Vec::with_capacity(named.len());
        for path in named {
            let placed = if creates { self.allowed.place(&*self.disk, path) } else { self.allowed.existing(path) };
            let placed = placed.map_err(|error| cannot_open(path, &format_args!("5(Access is denied.): {error}")))?;
            if let Some(owner) = self.owner_of(&placed) {
                return Err(cannot_open(path, &format_args!("32(It is a file of database '{owner}'.)")));
            }
            if paths.contains(&placed) {
                return Err(cannot_open(path, &"32(It is given twice.)"));
            }
            paths.push(placed);
        }
        Ok(paths)
    }

    /// Opens files to write a backup to; creates those that do not exist.
    pub(super) fn open_devices(&self, named: &[PathBuf]) -> Result<Devices> {
        let mut devices = Devices { files: Vec::new(), created: Vec::new() };
        for path in self.backup_paths(named, true)? {
            let open = || {
                let create_new = !self.disk.exists(&path);
                let options = OpenOptions { create_new, read_only: false, direct: true };
                let opened = self.disk.open(&path, options).and_then(|file| lock_patiently(&*file).map(|()| file));
                (create_new, opened)
            };
            let (create_new, opened) = match open() {
                // Another backup that has failed has removed the file that it had made.
                (_, Err(DiskError::NotFound { .. } | DiskError::AlreadyExists { .. })) => open(),
                other => other,
            };
            match opened {
                Ok(file) => devices.files.push(file),
                Err(error) => {
                    self.forget_devices(devices);
                    return Err(cannot_open(&path, &why(&error)));
                }
            }
            if create_new {
                devices.created.push(path);
            }
        }
        Ok(devices)
    }

    /// Makes the names of new files durable.
    pub(super) fn keep_devices(&self, devices: &Devices) -> Result<()> {
        let paths: Vec<&Path> = devices.created.iter().map(PathBuf::as_path).collect();
        self.sync_folders(&paths)
    }

    /// Removes the files that a backup which has failed has created.
    pub(super) fn forget_devices(&self, devices: Devices) {
        drop(devices.files);
        for path in &devices.created {
            // A file that is left holds no complete backup set, and is overwritten by the next backup.
            let _left = self.disk.remove(path);
        }
    }

    /// Opens a whole media set for reading.
    ///
    /// # Errors
    /// 3201 a file cannot be opened; the errors of [`Media::open`].
    pub(in crate::instance) fn open_media(&self, named: &[PathBuf]) -> Result<Media> {
        Media::open(self.open_to_read(named)?).map_err(of_read)
    }

    /// Opens files of a media set for reading.
    pub(in crate::instance) fn open_to_read(&self, named: &[PathBuf]) -> Result<Vec<Arc<dyn DiskFile>>> {
        let open = |path: PathBuf| {
            let options = OpenOptions { create_new: false, read_only: true, direct: true };
            // A backup must not overwrite it meanwhile.
            let opened = self.disk.open(&path, options).and_then(|file| share_patiently(&*file).map(|()| file));
            opened.map_err(|error: DiskError| cannot_open(&path, &why(&error)))
        };
        self.backup_paths(named, false)?.into_iter().map(open).collect()
    }
}
