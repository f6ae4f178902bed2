//! Files that a crash has left of a `CREATE DATABASE` or an `ADD FILE` before `master` listed them.
//!
//! Such a file stands in the way of the same statement when it is given again. It is removed, and said to be, only
//! where nothing of anybody can be in it:
//!
//! * it is all zeros, as it is before its header is written;
//! * its header is that of a database that nobody has ever changed (its generation is 0: the headers get another one,
//!   durably, before the first change), and the database is listed nowhere here. A database that is detached gets one
//!   too;
//! * its header names a listed database that has no file of this number, and its allocation maps say that all of it is
//!   free;
//! * its header names a listed database that it was removed from, which it could not be deleted at;
//! * it is a file of the log of a database that was found so, or of a listed one that has no file of this number, and
//!   no record was ever written to it. One of any other database stays, also without a record: its log is not whole
//!   without.
//!
//! Whatever else is there stays, and is error 5170 as ever. A file that another process has open is never looked at.

use std::path::{Path, PathBuf};

use hobt_base::FileId;
use hobt_disk::{AlignedBuffer, DiskFile, OpenOptions, SECTOR_SIZE};
use hobt_log::{LogFileLabel, SEGMENTS_START};

use super::Instance;
use crate::data_file::DataFile;
use crate::log_file::log_id;

/// Bytes that are looked at together.
const CHUNK_BYTES: usize = 1 << 20;

/// What a statement has found of an earlier one that a crash has cut off.
#[derive(Debug, Default)]
pub(super) struct LeftOver {
    /// The databases that files of it belong to.
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
    /// Removes a file that is in the way, if a crash has left it and nothing is in it. Whether it is gone.
    pub(super) fn remove_left_over(&self, path: &Path, left: &mut LeftOver) -> bool {
        let options = OpenOptions { create_new: false, read_only: false, direct: true };
        // What cannot be opened or read is nothing that this instance has left.
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
            let owner = listed.iter().find(|entry| is_its(&entry.guid));
            let was_added = || owner.is_some_and(|owner| !owner.lists(FileId(label.id)));
            return left.guids.iter().any(is_its) || (was_added() && is_zero_from(file, SEGMENTS_START));
        }
        let Some(header) = DataFile::header_of(file) else { return false };
        let guid = header.database_guid;
        let Some(owner) = listed.iter().find(|entry| entry.guid == guid) else {
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

/// Whether a file has nothing but zeros from a position on, and is as long as one of an instance's may be.
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
