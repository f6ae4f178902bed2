//! Files left by a crash of a `CREATE DATABASE` or an `ADD FILE` before `master` listed them.
//!
//! Such a file would make the same statement fail when it is repeated. It is removed, and reported, only if it cannot
//! hold data of any database:
//!
//! * it is all zeros, as it is before its header is written;
//! * its header is that of a database that was never changed, and the database is not listed here. Its generation is
//!   then 0: the headers get another one, durably, before the first change, and when a database is detached;
//! * its header names a listed database that has no file of this number, and its generation is 0 or its allocation maps
//!   say that all of it is free;
//! * its header names a listed database from which it was removed, but it could not be deleted then;
//! * it is a log file of an unlisted database that was found above to be unused, or a log file of a listed database
//!   that has no file of this number, and no record was ever written to it. A log file of any other database stays,
//!   even without records: that log is incomplete without it.
//!
//! Any other file stays, and is error 5170. The contents of a file that another process has locked are never read.

use std::path::{Path, PathBuf};

use hobt_base::FileId;
use hobt_disk::{AlignedBuffer, DiskFile, OpenOptions, SECTOR_SIZE};
use hobt_log::{LogFileLabel, SEGMENTS_START};

use super::Instance;
use crate::data_file::DataFile;
use crate::log_file::log_id;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What a statement has found of an earlier one that a crash interrupted.
#[derive(Debug, Default)]
pub(super) struct LeftOver {
    /// The databases that the files found belong to.
    guids: Vec<[u8; 16]>,
    /// The files that were removed.
    removed: Vec<PathBuf>,
}

impl LeftOver {
    /// The files that were removed.
    pub(super) fn into_removed(self) -> Vec<PathBuf> {
        self.removed
    }
}

impl Instance {
    /// Removes a file that occupies `path` if a crash has left it and it is empty. Returns whether it is gone.
    pub(super) fn remove_left_over(&self, path: &Path, left: &mut LeftOver) -> bool {
        let options = OpenOptions { create_new: false, read_only: false, direct: true };
        // A file that cannot be opened or read was not left by this instance.
        let Ok(file) = self.disk.open(path, options) else { return false };
        if file.try_lock_exclusive().is_err() || !self.is_left_over(&*file, left) {
            return false;
        }
        drop(file);
        let is_removed = self.disk.remove(path).is_ok();
        if is_removed {
            left.removed.push(path.to_path_buf());
        }
        is_removed
    }

    fn is_left_over(&self, file: &dyn DiskFile, left: &mut LeftOver) -> bool {
        if is_zero_from(file, 0) {
            return true;
        }
        let listed = self.registry.all();
        if let Ok(Some(label)) = LogFileLabel::read(file) {
            let is_its = |guid: &[u8; 16]| log_id(guid) == label.log;
            let owner = listed.iter().find(|entry| is_its(&entry.guid) && !entry.is_snapshot());
            let was_added = || owner.is_some_and(|owner| !owner.lists(FileId(label.id)));
            return left.guids.iter().any(is_its) || (was_added() && is_zero_from(file, SEGMENTS_START));
        }
        let Some(header) = DataFile::header_of(file) else { return false };
        let guid = header.database_guid;
        let Some(owner) = listed.iter().find(|entry| entry.guid == guid && !entry.is_snapshot()) else {
            let is_unused = header.generation == 0;
            if is_unused {
                left.guids.push(guid);
            }
            return is_unused;
        };
        let was_removed = owner.removed_ids().contains(&header.file);
        !owner.lists(header.file) && (was_removed || header.generation == 0 || DataFile::is_all_free(file, &header))
    }
}

/// Whether a file has only zeros from a position on, and a length that a file of an instance may have.
fn is_zero_from(file: &dyn DiskFile, start: u64) -> bool {
    let (Ok(size), Ok(mut buffer)) = (file.size(), AlignedBuffer::new(CHUNK_BYTES)) else { return false };
    if !size.is_multiple_of(SECTOR_SIZE as u64) {
        return false;
    }
    let mut at = start;
    while at < size {
        let bytes = usize::try_from(size - at).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        buffer.set_len(bytes);
        if file.read_at(&mut buffer, at).is_err() || buffer.iter().any(|byte| *byte != 0) {
            return false;
        }
        at += bytes as u64;
    }
    true
}
