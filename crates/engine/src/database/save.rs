//! Checkpoints and the clean flag.
//!
//! A checkpoint begins a new epoch of the log, saves the row counts, and writes every changed page, then the boot page
//! and the headers of files. Last it tells the log that recovery may begin here. Statements run meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hobt_access::{AccessError, Hobt};
use hobt_base::{FileId, HobtId, Lsn, ObjectId, errors};
use hobt_catalog::{CatalogError, SystemHeaps};
use hobt_disk::CopyGuard;
use hobt_log::RoomFor;
use hobt_page::BootPage;
use hobt_txn::StatementContext;

use super::life::TEMPDB;
use super::{Database, Files, Marked};
use crate::error::{EngineError, Result};
use crate::options::{DatabaseOptions, RecoveryModel};

/// The maximum delay of a flush after a commit with delayed durability, not counting the flush itself.
const DELAYED_FLUSH_AFTER: Duration = Duration::from_millis(10);

impl Files {
    /// The generation of the database. A file that was added since has a lower one until the next mark.
    pub(super) fn generation(&self) -> u64 {
        self.files.iter().map(|file| file.header.generation).max().unwrap_or(0)
    }

    /// Writes into every header whether the database is clean. Does nothing if the headers are known to say so.
    fn mark(&mut self, clean: bool) -> Result<()> {
        let wanted = if clean { Marked::Clean } else { Marked::Unclean };
        if self.marked == wanted {
            return Ok(());
        }
        // A write that fails leaves the headers mixed or unknown: later calls write all of them again.
        self.marked = Marked::Unknown;
        let latest = self.generation() + u64::from(!clean);
        for file in &mut self.files {
            file.header.clean = clean;
            file.header.generation = latest;
            file.write_header()?;
        }
        self.marked = wanted;
        Ok(())
    }
}

/// Whether a checkpoint failed for lack of room, in the log or in memory, and can be repeated later. It has begun an
/// epoch and written pages, and changed nothing else.
fn is_for_now(error: &AccessError) -> bool {
    matches!(error, AccessError::LogFull { .. } | AccessError::OutOfFrames | AccessError::OutOfMemory(_))
}

impl Database {
    /// To be called before a statement changes rows through a writer that was opened for an earlier one: the checks
    /// made at its opening may not hold any more. Blocks if it is the first change since the database was saved.
    ///
    /// # Errors
    /// The database is suspect, closed, or read-only (3906).
    pub fn begin_change(&self) -> Result<()> {
        self.check_usable()?;
        self.prepare_to_change()
    }

    /// Marks the files unclean before the first change. Later calls cost one load.
    ///
    /// # Errors
    /// 3906: the database is read-only. The headers cannot be written.
    pub(crate) fn prepare_to_change(&self) -> Result<()> {
        if self.read_only.load(Ordering::Acquire) {
            return Err(EngineError::Statement(errors::DATABASE_READ_ONLY.with([&self.name])));
        }
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

    /// Writes and syncs all changes. Statements may run meanwhile. The database stays unclean.
    ///
    /// # Errors
    /// The device failed: the contents of the disk are unknown, and recovery checks them at the next start. Or the log
    /// is full (9002): then pages were written, and nothing else has changed.
    pub fn checkpoint(self: &Arc<Database>) -> Result<()> {
        let mut files = self.files.lock();
        // Under the lock, so that a close of the database waits for this, and releases all files.
        self.check_usable()?;
        if files.marked == Marked::Clean || self.id == TEMPDB { Ok(()) } else { self.save(&mut files) }
    }

    /// Makes the log start a thread for a checkpoint whenever one is due.
    pub(super) fn checkpoint_when_due(self: &Arc<Database>) {
        let Some(log) = self.storage.log() else { return };
        let database = Arc::downgrade(self);
        log.on_checkpoint_due(move || {
            let of_thread = Weak::clone(&database);
            // The caller may hold pages, so it must not wait.
            let started = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(move || {
                let Some(database) = of_thread.upgrade() else { return };
                // After a panic, too, the log must ask again: without checkpoints it grows until it is full.
                let Ok(saved) = catch_unwind(AssertUnwindSafe(|| database.checkpoint())) else {
                    return database.postpone_checkpoint();
                };
                match saved {
                    Ok(()) => {}
                    // The database is being closed, which makes its own checkpoint, or is suspect already.
                    Err(EngineError::Unavailable { .. }) => {}
                    // Nothing is lost: the log keeps what this checkpoint has not freed.
                    Err(EngineError::Storage { error, .. }) if is_for_now(&error) => database.postpone_checkpoint(),
                    Err(error) => database.mark_suspect(&format!("a checkpoint failed: {error}")),
                }
            });
            // Without a thread the log grows meanwhile.
            if started.is_err()
                && let Some(database) = database.upgrade()
            {
                database.postpone_checkpoint();
            }
        });
    }

    /// Makes the log ask for a checkpoint again a little later.
    fn postpone_checkpoint(&self) {
        if let Some(log) = self.storage.log() {
            log.checkpoint_postponed();
        }
    }

    /// Writes everything and marks the files clean, unless recovery has to check them anyway or something is still to
    /// be undone. No statement that changes data may be running.
    pub(super) fn save_clean(&self) -> Result<()> {
        let mut files = self.files.lock();
        if files.marked == Marked::Clean || self.id == TEMPDB {
            return Ok(());
        }
        self.save(&mut files)?;
        if files.is_removal_in_doubt || !self.undo.is_done() { Ok(()) } else { self.mark_clean(&mut files) }
    }

    /// Writes everything, for a recovery that goes on with an undo. If the log has no room for that, the recovery
    /// redoes what was not written.
    pub(super) fn save_for_recovery(&self) -> Result<()> {
        match self.save_clean() {
            Err(EngineError::Storage { error, .. }) if is_for_now(&error) => {
                self.storage.log().map_or(Ok(()), |log| log.flush()).map_err(|error| self.storage_error(error.into()))
            }
            saved => saved,
        }
    }

    /// Marks the files clean, the last step of saving. Refused if a change could not be undone.
    fn mark_clean(&self, files: &mut Files) -> Result<()> {
        self.check_whole()?;
        let log_end = self.storage.log().map_or(Lsn(0), |log| log.log().end());
        if let Some(log) = self.storage.log() {
            // The headers have the end of the log, so the log must be durable up to there before they are written.
            let flushed = log.log().flush_for(RoomFor::Checkpoint, Lsn(log_end.0.saturating_sub(1)));
            flushed.map_err(|error| self.storage_error(error.into()))?;
        }
        files.files.iter_mut().for_each(|file| file.header.log_end = log_end);
        files.mark(true)
    }

    fn save(&self, files: &mut Files) -> Result<()> {
        self.check_whole()?;
        // Headers whose marking failed before a change may still say "clean" and name an end of the log that moves now.
        files.mark(false)?;
        let begun = self.storage.begin_checkpoint().map_err(|error| self.storage_error(error))?;
        let mut hobts: Vec<Arc<Hobt>> = self.stores.read().values().map(|store| Arc::clone(store.hobt())).collect();
        // In an order that is the same in every run.
        hobts.sort_unstable_by_key(|hobt| hobt.id());
        for hobt in self.heaps.tables().map(|(_, heap)| heap).chain(&hobts) {
            hobt.save_counts().map_err(|error| self.storage_error(error))?;
        }
        self.storage.flush().map_err(|error| self.storage_error(error))?;
        self.save_written()?;
        self.write_headers(files)?;
        self.storage.end_checkpoint(begun).map_err(|error| self.storage_error(error))
    }

    /// Changes the options, durably.
    ///
    /// # Errors
    /// The boot page cannot be written: then it is unknown which options the next start finds.
    pub(crate) fn set_options(&self, change: impl Fn(&mut DatabaseOptions)) -> Result<()> {
        let mut files = self.files.lock();
        self.check_usable()?;
        let mut options = *self.options.lock();
        change(&mut options);
        self.write_boot(&mut files, options)?;
        *self.options.lock() = options;
        self.heed_options();
        Ok(())
    }

    /// Records, durably, which stamps may have been given out.
    ///
    /// # Errors
    /// The boot page cannot be written.
    pub(crate) fn note_stamps(&self) -> Result<()> {
        let mut files = self.files.lock();
        let options = *self.options.lock();
        self.write_boot(&mut files, options)
    }

    /// Gives the files a generation other than that of an unused database, so that its files are kept when it is
    /// detached.
    ///
    /// # Errors
    /// The headers cannot be written.
    pub(crate) fn note_in_use(&self) -> Result<()> {
        let mut files = self.files.lock();
        if files.generation() == 0 && self.id != TEMPDB { files.mark(false) } else { Ok(()) }
    }

    /// Makes the headers of all files say that the database is not clean: what is copied of them needs the log.
    ///
    /// # Errors
    /// The headers cannot be written; the database is suspect or closed.
    pub(crate) fn note_unclean(&self) -> Result<()> {
        let mut files = self.files.lock();
        self.check_usable()?;
        files.mark(false)
    }

    /// What is in front of its data files.
    pub(crate) fn guards(&self) -> Vec<(FileId, Arc<CopyGuard>)> {
        let files = self.files.lock();
        files.files.iter().map(|file| (file.header.file, Arc::clone(&file.guard))).collect()
    }

    /// Applies the options to the log and to loads.
    pub(super) fn heed_options(&self) {
        let options = self.options();
        self.read_only.store(options.is_read_only, Ordering::Release);
        self.storage.set_fill(options.fill);
        if let Some(log) = self.storage.log() {
            log.set_delayed_durability(options.delayed_durability);
            log.log().keep_for_backup(options.keeps_log());
            log.bound_recovery(self.redo_rate.bytes_in(options.target_recovery_time));
            self.storage.set_logs_loads(options.recovery_model == RecoveryModel::Full);
        }
    }

    /// Makes the log start a thread that flushes it shortly after a commit with delayed durability.
    pub(super) fn flush_delayed_commits(self: &Arc<Database>) {
        let Some(log) = self.storage.log() else { return };
        let database = Arc::downgrade(self);
        log.on_delayed_commit(move || {
            let kept = Weak::clone(&database);
            let started = std::thread::Builder::new().name("log flush".to_owned()).spawn(move || {
                std::thread::sleep(DELAYED_FLUSH_AFTER);
                // A log that has failed reports it to its next writer.
                let _failed = kept.upgrade().map(|database| database.flush_log());
            });
            if started.is_err() {
                let _failed = database.upgrade().map(|database| database.flush_log());
            }
        });
    }

    fn write_boot(&self, files: &mut Files, options: DatabaseOptions) -> Result<()> {
        let ids = *self.next_ids.lock();
        let boot = BootPage {
            database_guid: self.guid,
            next_object: ObjectId(ids.object),
            next_data_space: ids.data_space,
            next_hobt: HobtId(ids.hobt),
            max_stamp: self.shared.clock.latest(),
            created: self.created,
            name: self.name.clone(),
            options: options.encode(),
            hobts: self.heaps.listed(),
        };
        Ok(files.files[0].write_boot(&boot)?)
    }

    /// Writes the boot page and the headers that have changed since they were last written.
    fn write_headers(&self, files: &mut Files) -> Result<()> {
        self.write_boot(files, self.options())?;
        for file in &mut files.files {
            let id = file.header.file;
            let size_pages = self.storage.settled_size_pages(id).map_err(|error| self.storage_error(error))?;
            if file.header.size_pages != size_pages {
                file.header.size_pages = size_pages;
                file.write_header()?;
            }
        }
        Ok(())
    }

    /// Makes a change of the engine's own (the list of databases), durable on return. Excludes checkpoints meanwhile.
    /// If the outcome is unknown, because the change could be neither committed nor undone, the database is SUSPECT,
    /// and its recovery decides.
    pub(crate) fn change_and_save(
        &self,
        write: impl FnOnce(&SystemHeaps, &StatementContext) -> std::result::Result<(), CatalogError>,
    ) -> Result<()> {
        let mut files = self.files.lock();
        self.check_usable()?;
        files.mark(false)?;
        // The error of the change says more than the error of its undo.
        self.write_rows_alone(write).and_then(|()| self.check_whole())
    }
}
