//! How a data file leaves its database.
//!
//! It is set aside first: nobody gets an extent of it any more. If it is empty then, it stays so, and the engine takes
//! it off the lists of files. Last it is taken out of the pool. What the log has of it is of no use from there on:
//! recovery passes over pages of files that are not there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_base::{FileId, FilegroupId};
use hobt_buffer::Dirty;
use hobt_page::EXTENTS_PER_MAP;

use super::{DataFile, Storage};
use crate::AccessError;

impl DataFile {
    /// Whether no extents are given out of it.
    pub fn is_set_aside(&self) -> bool {
        self.is_set_aside.load(Ordering::Acquire)
    }

    /// Whether every extent of it is free but those that hold allocation pages.
    pub fn is_empty(&self) -> bool {
        let free = self.free.lock();
        free.free() + free.extents().div_ceil(EXTENTS_PER_MAP) == free.extents()
    }

    pub(super) fn gives_extents_of(&self, filegroup: FilegroupId) -> bool {
        self.filegroup() == filegroup && !self.is_set_aside()
    }
}

impl Storage {
    /// Gives no more extents out of a file, or gives some again; whether it gave none before. What was given out before
    /// this returns shows in [`DataFile::is_empty`].
    ///
    /// # Errors
    /// There is no such file.
    pub fn set_aside(&self, id: FileId, is_set_aside: bool) -> Result<bool, AccessError> {
        let file = self.file(id)?;
        let _no_growth = self.growth.lock();
        let _no_deal = self.dealing.lock();
        Ok(file.is_set_aside.swap(is_set_aside, Ordering::AcqRel))
    }

    /// Takes a file out that is set aside, empty, and on no list of the database any more. What memory has of its pages
    /// is forgotten.
    ///
    /// # Errors
    /// There is no such file, or somebody holds a page of it: it stays, set aside.
    pub fn release_file(&self, id: FileId) -> Result<(), AccessError> {
        let file = self.file(id)?;
        assert!(file.is_set_aside() && file.is_empty(), "only an empty file is let go of");
        self.pool.unregister_file(&file.pool_file, Dirty::Discard).map_err(|error| file.pool_error(error))?;
        self.files.write().retain(|other| !Arc::ptr_eq(other, &file));
        Ok(())
    }

    /// Whether a file is one of the database's still.
    pub(crate) fn has(&self, file: &Arc<DataFile>) -> bool {
        self.files.read().iter().any(|other| Arc::ptr_eq(other, file))
    }
}
