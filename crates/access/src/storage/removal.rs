//! Removal of a data file from its database.
//!
//! The file is set aside first: no extent is allocated from it any more. If it is empty then, it stays empty, and the
//! engine removes it from the lists of files. Last it is removed from the pool. Log records of it are not needed from
//! then on: recovery skips pages of files that do not exist.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_base::{FileId, FilegroupId};
use hobt_buffer::Dirty;
use hobt_page::EXTENTS_PER_MAP;

use super::{DataFile, Storage};
use crate::AccessError;

impl DataFile {
    /// Whether no extents are allocated from it.
    pub fn is_set_aside(&self) -> bool {
        self.is_set_aside.load(Ordering::Acquire)
    }

    /// Whether every extent of it is free except those that hold allocation pages.
    pub fn is_empty(&self) -> bool {
        let free = self.free.lock();
        free.free() + free.extents().div_ceil(EXTENTS_PER_MAP) == free.extents()
    }

    pub(super) fn gives_extents_of(&self, filegroup: FilegroupId) -> bool {
        self.filegroup() == filegroup && !self.is_set_aside()
    }
}

impl Storage {
    /// Stops or resumes the allocation of extents from a file. Returns whether it was stopped before. Allocations from
    /// before this returns show in [`DataFile::is_empty`].
    ///
    /// # Errors
    /// There is no such file.
    pub fn set_aside(&self, id: FileId, is_set_aside: bool) -> Result<bool, AccessError> {
        let file = self.file(id)?;
        let _no_growth = self.growth.lock();
        let _no_deal = self.dealing.lock();
        Ok(file.is_set_aside.swap(is_set_aside, Ordering::AcqRel))
    }

    /// Removes a file that is set aside, empty, and on no list of the database any more. Its pages in memory are
    /// discarded.
    ///
    /// # Errors
    /// There is no such file, or a page of it is in use. The file then stays, set aside.
    pub fn release_file(&self, id: FileId) -> Result<(), AccessError> {
        let file = self.file(id)?;
        assert!(file.is_set_aside() && file.is_empty(), "only an empty file is let go of");
        self.pool.unregister_file(&file.pool_file, Dirty::Discard).map_err(|error| file.pool_error(error))?;
        let mut files = self.files.write();
        files.retain(|other| !Arc::ptr_eq(other, &file));
        // Its disk has room again.
        files.iter().for_each(|other| other.note_growth(true));
        Ok(())
    }

    /// Whether a file still belongs to the database.
    pub(crate) fn has(&self, file: &Arc<DataFile>) -> bool {
        self.files.read().iter().any(|other| Arc::ptr_eq(other, file))
    }
}
