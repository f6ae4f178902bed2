//! `RESTORE DATABASE … FROM DATABASE_SNAPSHOT`: makes a database again what a snapshot shows.
//!
//! The former pages go from the copy files back to the database's files, its log becomes the snapshot's, and it is
//! opened as after a crash at that moment. `master` lists it as being restored meanwhile. All of this can be done
//! again: after a crash the statement is repeated. The snapshot stays.

use std::path::Path;
use std::sync::Arc;

use hobt_base::{FileId, Lsn, errors};
use hobt_disk::OpenOptions;
use hobt_log::{ChainState, Log};

use super::list::Listing;
use crate::data_file::lock_patiently;
use crate::error::{EngineError, Result};
use crate::instance::Instance;
use crate::instance::registry::{Entry, EntryState};
use crate::instance::snapshot::{Copies, LogCopy, plan_like};
use crate::instance::start::inspect;
use crate::log_file;
use crate::options::DatabaseOptions;

fn cannot_revert(why: &str) -> EngineError {
    EngineError::Statement(errors::CANNOT_REVERT.with([&why]))
}

impl Instance {
    /// Makes a database what a snapshot of it shows. What was changed since is gone, and so is the chain of its
    /// backups. Blocks.
    ///
    /// # Errors
    /// 3137 they are not a database and its only snapshot, 3101 one of them is in use; a device's error, and then the
    /// database is restoring until the statement is repeated.
    pub fn revert(&self, name: &str, snapshot: &str) -> Result<()> {
        let named = |name: &str| self.registry.named(name).ok_or_else(|| cannot_revert(&format!("no '{name}'")));
        let (entry, snapshot) = (named(name)?, named(snapshot)?);
        let Some(Copies::Open(copies)) = snapshot.copies() else { return Err(cannot_revert("it is no snapshot")) };
        if entry.is_snapshot() || entry.guid != snapshot.guid {
            return Err(cannot_revert("it is a snapshot of another database"));
        }
        if self.registry.snapshots_of(&entry.guid).len() > 1 {
            return Err(cannot_revert("there are others"));
        }
        if let Some((_, lost)) = copies.iter().find(|(_, copy)| copy.lost().is_some()) {
            return Err(cannot_revert(&format!("'{}' is lost", lost.path().display())));
        }
        let in_use = || EngineError::Statement(errors::RESTORE_IN_USE.error());
        self.tell_before_overwriting(&entry)?;
        let transition = self.take_unused(entry.id).ok_or_else(in_use)?;
        let other = self.take_unused(snapshot.id).ok_or_else(in_use)?;
        // Again, now that no snapshot can be made and no transaction decided any more.
        if self.registry.snapshots_of(&entry.guid).len() > 1 {
            return Err(cannot_revert("there are others"));
        }
        self.tell_before_overwriting(&entry)?;
        // The snapshot is opened again at its next use.
        abandon(&snapshot, EntryState::Closed(Vec::new()));
        let was_restoring = entry.state.lock().is_restoring();
        abandon(&entry, EntryState::restoring());
        // Until now the database may have written, and a copy may have failed.
        if let Some((_, lost)) = copies.iter().find(|(_, copy)| copy.lost().is_some()) {
            if !was_restoring {
                let found = inspect(&*self.disk, &entry.files.lock(), entry.guid);
                *entry.state.lock() = found;
            }
            return Err(cannot_revert(&format!("'{}' is lost", lost.path().display())));
        }
        self.note_restoring(&entry, true)?;
        self.forbid_recovery(&entry);
        let logs: Vec<_> = snapshot.logs.lock().iter().map(|(_, path)| path.clone()).collect();
        let owner = self.parts.log_owner(entry.id, &entry.guid);
        let opened = log_file::open(&*self.disk, &logs, &owner, None);
        let (log, _) = opened.map_err(|(path, problem)| cannot_revert(&format!("'{}': {problem}", path.display())))?;
        let reverted = self.write_back(&entry, &copies, log.log());
        log.log().close();
        drop(log);
        reverted?;
        let mut files = self.open_restoring(&entry)?;
        entry.pass_by(&self.registry, &files)?;
        self.leave_chain(&mut files)?;
        // Last: from here on it can be recovered.
        let log = self.open_restored_log(&entry)?;
        let chain = ChainState { floor: log.end(), ..log.chain().unwrap_or_default() };
        let noted = log.set_chain(chain);
        log.close();
        noted?;
        self.note_restoring(&entry, false)?;
        *entry.state.lock() = EntryState::Closed(files);
        drop((transition, other));
        let database = self.database_by_id(entry.id)?;
        *entry.options.lock() = database.options();
        Ok(())
    }

    /// Has the log of a database say that it cannot be recovered: its pages are about to be those of another time. A
    /// log that cannot be opened, because a crash came when it was being replaced, says so without.
    fn forbid_recovery(&self, entry: &Entry) {
        if let Ok(log) = self.open_restored_log(entry) {
            // One that fails here fails when it is opened to recover, too.
            let _noted = log.set_chain(ChainState { floor: Lsn(u64::MAX), ..log.chain().unwrap_or_default() });
            log.close();
        }
    }

    /// Writes the former pages and the former log to the files of a database.
    fn write_back(
        &self,
        entry: &Entry,
        copies: &[(FileId, Arc<hobt_disk::FormerBlocks>)],
        log: &Arc<Log>,
    ) -> Result<()> {
        let paths = entry.files.lock().clone();
        for (id, copy) in copies {
            let path = paths.iter().find(|(file, _)| file == id).map(|(_, path)| path);
            let path = path.ok_or_else(|| cannot_revert(&format!("file {id} is gone")))?;
            let file = self.disk.open(path, OpenOptions { create_new: false, read_only: false, direct: true })?;
            lock_patiently(&*file)?;
            copy.write_back(&*file)?;
        }
        let mut listing = Listing::of(entry);
        let is_former = |id: &FileId| copies.iter().any(|(file, _)| file == id);
        let (former, later): (Vec<_>, Vec<_>) = listing.files.into_iter().partition(|(id, _)| is_former(id));
        listing.files = former;
        let (first, others) = listing.logs.split_first().expect("a database has a log");
        let gone: Vec<&Path> = later.iter().chain(others).map(|(_, path)| path.as_path()).collect();
        self.remove_files(gone.into_iter());
        let start = log.recovery_start().unwrap_or(hobt_log::RecoveryStart::at(log.end()));
        // As after a restore: what is written from here on is not what others restored from the same backups.
        // The floor says that all is not done yet.
        let chain = ChainState { floor: Lsn(u64::MAX), ..log.chain().unwrap_or_default() };
        let copy = LogCopy { from: log, start, end: log.end(), chain };
        let path = first.1.clone();
        let _gone = self.disk.remove(&path);
        self.copy_log_to(
            plan_like(log, &path, log_file::LOG_BYTES),
            &copy,
            &self.parts.log_owner(entry.id, &entry.guid),
        )?;
        listing.logs.truncate(1);
        let all: Vec<&Path> = listing.files.iter().chain(&listing.logs).map(|(_, path)| path.as_path()).collect();
        self.sync_folders(&all)?;
        {
            let _alone = self.definitions.lock();
            self.list_restoring(&self.master()?, &listing, true)?;
        }
        *entry.files.lock() = listing.files;
        *entry.logs.lock() = listing.logs;
        Ok(())
    }

    /// Has the boot page say that the log is not kept for backups: there is no chain any more.
    fn leave_chain(&self, files: &mut [crate::data_file::DataFile]) -> Result<()> {
        let Some(first) = files.first() else { return Ok(()) };
        let Ok(boot) = first.read_boot()? else { return Ok(()) };
        let options = DatabaseOptions { has_log_chain: false, ..DatabaseOptions::decode(boot.options) };
        Ok(first.write_boot(&hobt_page::BootPage { options: options.encode(), ..boot })?)
    }
}

/// Closes a database whose contents are not needed.
fn abandon(entry: &Entry, state: EntryState) {
    let before = std::mem::replace(&mut *entry.state.lock(), state);
    if let EntryState::Open(database) = before {
        let _left = database.abandon();
    }
}
