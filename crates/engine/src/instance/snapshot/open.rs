//! Opening the copies of a snapshot, and the snapshot over them.

use std::path::PathBuf;
use std::sync::Arc;

use hobt_base::FileId;
use hobt_disk::{Disk, DiskError, FormerBlocks, OpenOptions};

use super::Copies;
use crate::data_file::{DataFile, FileProblem, lock_patiently};
use crate::database::{Database, DatabaseState, OldDatabase, StorageParts};
use crate::error::{EngineError, Result};
use crate::instance::overlay_file::put_over;
use crate::instance::registry::{Entry, Registry};

/// Opens the copies of a snapshot of the database `source`.
pub(in crate::instance) fn open_copies(disk: &Arc<dyn Disk>, paths: &[(FileId, PathBuf)], source: &[u8; 16]) -> Copies {
    let mut copies: Vec<(FileId, Arc<FormerBlocks>)> = Vec::new();
    for (id, path) in paths {
        let copy = match FormerBlocks::open(disk, path, lock_patiently) {
            Ok(Some(copy)) => copy,
            Ok(None) => return Copies::Lost(format!("'{}' is no copy file, or damaged", path.display())),
            // A folder that is not there may be that of a volume that is not mounted yet.
            Err(error @ DiskError::NotFound { .. })
                if path.parent().is_some_and(|folder| disk.sync_directory(folder).is_ok()) =>
            {
                return Copies::Lost(error.to_string());
            }
            Err(error) => return Copies::Unready(error.to_string()),
        };
        let identity = copy.identity();
        let is_its = identity.owner == *source
            && identity.file == id.0
            && copies.first().is_none_or(|(_, first)| first.identity().salt == identity.salt);
        if !is_its {
            return Copies::Lost(format!("'{}' is a file of another snapshot", path.display()));
        }
        copies.push((*id, copy));
    }
    Copies::Open(copies)
}

impl Entry {
    /// Makes what is written to a database's files pass by the copies of its snapshots. Nothing was written to them
    /// before since they were opened.
    ///
    /// # Errors
    /// 945: a copy cannot be opened now.
    pub(in crate::instance) fn pass_by(&self, registry: &Registry, files: &[DataFile]) -> Result<()> {
        for snapshot in registry.snapshots_of(&self.guid) {
            match snapshot.copies() {
                Some(Copies::Open(copies)) => {
                    for (id, copy) in copies.into_iter().filter(|(_, copy)| !copy.is_over()) {
                        if let Some(file) = files.iter().find(|file| file.header.file == id) {
                            file.guard.hold().arm(copy);
                        }
                    }
                }
                Some(Copies::Unready(why)) => {
                    let why = format!(
                        "its snapshot '{}' could not be kept: {why}. Restart the instance when the file can be opened, or \
                         drop the snapshot",
                        snapshot.name
                    );
                    return Err(self.unavailable(DatabaseState::RecoveryPending, &why));
                }
                Some(Copies::Lost(_)) | None => {}
            }
        }
        Ok(())
    }

    /// Opens a snapshot over the files of its source.
    pub(in crate::instance) fn open_snapshot(
        &self,
        copies: &Copies,
        parts: &StorageParts,
        registry: &Registry,
    ) -> Result<Arc<Database>> {
        let suspect = |why: &str| self.unavailable(DatabaseState::Suspect, why);
        let pending = |why: &str| self.unavailable(DatabaseState::RecoveryPending, why);
        if let Some(why) = copies.problem() {
            return Err(suspect(&format!("a copy of what was overwritten in its source is gone: {why}")));
        }
        let Copies::Open(copies) = copies else { return Err(suspect("its copies are gone")) };
        let source = registry.source_of(&self.guid).ok_or_else(|| pending("its source is not there"))?;
        let sources = source.files.lock().clone();
        let mut files = Vec::new();
        for (id, copy) in copies {
            let (_, path) = sources.iter().find(|(file, _)| file == id).ok_or_else(|| pending("a file is gone"))?;
            let options = OpenOptions { create_new: false, read_only: true, direct: true };
            let now = parts.disk.open(path, options).map_err(|error| pending(&error.to_string()))?;
            let opened = DataFile::over(copy.path(), copy.view(now), *id, self.guid);
            files.push(opened.map_err(|problem| match problem {
                FileProblem::Inaccessible(error) => pending(&error.to_string()),
                FileProblem::Invalid(why) => suspect(&why),
            })?);
        }
        let overlay = self.overlay.lock().clone().ok_or_else(|| pending("it has no overlay"))?;
        let overlay = put_over(&*parts.disk, &overlay, &mut files).map_err(|error| pending(&error.to_string()))?;
        // What was not decided at the moment is not in the snapshot.
        let ask = |_: &_| Ok(false);
        let logs: Vec<PathBuf> = self.logs.lock().iter().map(|(_, path)| path.clone()).collect();
        let old = OldDatabase {
            id: self.id,
            name: &self.name,
            files,
            logs: &logs,
            removed: &[],
            ask: &ask,
            overlay: Some(&overlay),
            is_snapshot: true,
        };
        Database::open(parts, old).map_err(|error| match error {
            EngineError::Unavailable { state, reason, .. } => self.unavailable(state, &reason),
            other => other,
        })
    }
}
