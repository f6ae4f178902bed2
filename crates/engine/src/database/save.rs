//! Checkpoints and the clean flag.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_access::Hobt;
use hobt_base::{HobtId, ObjectId};
use hobt_catalog::{CatalogError, SystemHeaps};
use hobt_page::BootPage;
use hobt_txn::StatementContext;

use super::life::TEMPDB;
use super::{Database, Files};
use crate::error::Result;

impl Files {
    /// Writes `clean` into every header; nothing happens when it stands there.
    fn mark(&mut self, clean: bool) -> Result<()> {
        if self.clean == clean {
            return Ok(());
        }
        // Whatever comes of it, some header may say "not clean" from here on.
        self.clean = false;
        for file in &mut self.files {
            file.header.clean = clean;
            file.write_header()?;
        }
        self.clean = clean;
        Ok(())
    }
}

impl Database {
    /// Marks the files unclean before the first change. Later calls cost one load.
    ///
    /// # Errors
    /// The headers cannot be written.
    pub(crate) fn prepare_to_change(&self) -> Result<()> {
        if self.changed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut files = self.files.lock();
        if self.id != TEMPDB {
            files.mark(false)?;
        }
        self.changed.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes everything that was changed and syncs it. Statements may run meanwhile; the database stays unclean.
    ///
    /// # Errors
    /// The device failed: what is on disk is not known, and the database will be SUSPECT at the next start.
    pub fn checkpoint(&self) -> Result<()> {
        self.check_usable()?;
        let mut files = self.files.lock();
        if files.clean || self.id == TEMPDB { Ok(()) } else { self.save(&mut files) }
    }

    /// Writes everything and marks the files clean. No statement may be running that changes something.
    pub(super) fn save_clean(&self) -> Result<()> {
        let mut files = self.files.lock();
        if files.clean || self.id == TEMPDB {
            return Ok(());
        }
        self.save(&mut files)?;
        files.mark(true)
    }

    fn save(&self, files: &mut Files) -> Result<()> {
        let hobts: Vec<Arc<Hobt>> = self.hobts.read().values().cloned().collect();
        for hobt in self.heaps.tables().map(|(_, heap)| heap).chain(&hobts) {
            hobt.save_counts().map_err(|error| self.storage_error(error))?;
        }
        self.storage.checkpoint().map_err(|error| self.storage_error(error))?;
        let ids = *self.next_ids.lock();
        let boot = BootPage {
            database_guid: self.guid,
            next_object: ObjectId(ids.object),
            next_data_space: ids.data_space,
            next_hobt: HobtId(ids.hobt),
            max_stamp: self.shared.clock.latest(),
            created: self.created,
            name: self.name.clone(),
            hobts: self.heaps.listed(),
        };
        files.files[0].write_boot(&boot)?;
        for file in &mut files.files {
            let id = file.header.file;
            file.header.size_pages = self.storage.file(id).map_err(|error| self.storage_error(error))?.size_pages();
            file.write_header()?;
        }
        Ok(())
    }

    /// A change of the engine's own (the list of databases): written, saved, and the database clean again if nothing
    /// else is being changed. Runs alone with respect to checkpoints.
    pub(crate) fn change_and_save(
        &self,
        write: impl FnOnce(&SystemHeaps, &StatementContext) -> std::result::Result<(), CatalogError>,
    ) -> Result<()> {
        self.check_usable()?;
        let mut files = self.files.lock();
        files.mark(false)?;
        let written = self.write_rows(write);
        self.save(&mut files)?;
        if !self.changed.load(Ordering::Acquire) {
            files.mark(true)?;
        }
        written
    }
}
