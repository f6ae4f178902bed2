//! Checkpoints and the clean flag.
//!
//! A checkpoint begins a new epoch of the log, saves the counts of rows, writes every page that is changed, then the
//! boot page and the headers of files, and lastly tells the log that recovery may begin here. Statements run meanwhile.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hobt_access::{AccessError, Hobt};
use hobt_base::{HobtId, Lsn, ObjectId, number};
use hobt_catalog::{CatalogError, SystemHeaps};
use hobt_log::RoomFor;
use hobt_page::BootPage;
use hobt_txn::StatementContext;

use super::life::TEMPDB;
use super::{Database, Files, Marked};
use crate::error::{EngineError, Result};
use crate::options::{DatabaseOptions, RecoveryModel};

/// How long a commit that need not be durable waits for a flush at most, beside the flush itself.
const DELAYED_FLUSH_AFTER: Duration = Duration::from_millis(10);

impl Files {
    /// The generation of the database; a file that was added since has a lower one until the next mark.
    pub(super) fn generation(&self) -> u64 {
        self.files.iter().map(|file| file.header.generation).max().unwrap_or(0)
    }

    /// Writes into every header whether the database is clean; nothing happens when they are known to say so.
    fn mark(&mut self, clean: bool) -> Result<()> {
        let wanted = if clean { Marked::Clean } else { Marked::Unclean };
        if self.marked == wanted {
            return Ok(());
        }
        // A write that fails leaves headers of both kinds, or nobody knows of which: later calls write all of them
        // again.
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

/// Whether a checkpoint failed for want of room, in the log or in memory, and may be made later. An epoch has begun,
/// and pages were written; nothing else has changed.
fn is_for_now(error: &AccessError) -> bool {
    matches!(error, AccessError::LogFull { .. } | AccessError::OutOfFrames | AccessError::OutOfMemory(_))
}

impl Database {
    /// To be called before a statement changes rows through a writer that was opened for an earlier one: what opening
    /// it looks at may have changed. Blocks where it is the first change since the database was saved.
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
            let text = format!("Failed to update database \"{}\" because the database is read-only.", self.name);
            return Err(EngineError::statement(number::DATABASE_READ_ONLY, text));
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

    /// Writes everything that was changed and syncs it. Statements may run meanwhile; the database stays unclean.
    ///
    /// # Errors
    /// The device failed: what is on disk is not known, and recovery will look at the next start. Or the log is full
    /// (9002), and nothing has changed but that pages were written.
    pub fn checkpoint(self: &Arc<Database>) -> Result<()> {
        let mut files = self.files.lock();
        // Under the lock: who closes the database waits for it, and leaves no files behind.
        self.check_usable()?;
        if files.marked == Marked::Clean || self.id == TEMPDB { Ok(()) } else { self.save(&mut files) }
    }

    /// Has a thread of its own make a checkpoint whenever the log asks for one.
    pub(super) fn checkpoint_when_due(self: &Arc<Database>) {
        let Some(log) = self.storage.log() else { return };
        let database = Arc::downgrade(self);
        log.on_checkpoint_due(move || {
            let database = Weak::clone(&database);
            // Who asks may hold pages: he is not to wait.
            let started = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(move || {
                let Some(database) = database.upgrade() else { return };
                match database.checkpoint() {
                    Ok(()) => {}
                    // It is being closed, which makes its own checkpoint; or it is suspect already.
                    Err(EngineError::Unavailable { .. }) => {}
                    // Nothing is lost: the log keeps what this one has not made free.
                    Err(EngineError::Storage { error, .. }) if is_for_now(&error) => database.postpone_checkpoint(),
                    Err(error) => database.mark_suspect(&format!("a checkpoint failed: {error}")),
                }
            });
            // Without a thread the log grows, until an explicit CHECKPOINT or a close.
            drop(started);
        });
    }

    /// Has the log ask for a checkpoint again a little later.
    fn postpone_checkpoint(&self) {
        if let Some(log) = self.storage.log() {
            log.checkpoint_postponed();
        }
    }

    /// Writes everything and marks the files clean, unless recovery is to look at them all the same. No statement may
    /// be running that changes something.
    pub(super) fn save_clean(&self) -> Result<()> {
        let mut files = self.files.lock();
        if files.marked == Marked::Clean || self.id == TEMPDB {
            return Ok(());
        }
        self.save(&mut files)?;
        if files.is_removal_in_doubt { Ok(()) } else { self.mark_clean(&mut files) }
    }

    /// The last step of saving, which a change that was not undone forbids.
    fn mark_clean(&self, files: &mut Files) -> Result<()> {
        self.check_whole()?;
        let log_end = self.storage.log().map_or(Lsn(0), |log| log.log().end());
        if let Some(log) = self.storage.log() {
            // The headers say where the log ends, so it ends there on the device before they do.
            let flushed = log.log().flush_for(RoomFor::Checkpoint, Lsn(log_end.0.saturating_sub(1)));
            flushed.map_err(|error| self.storage_error(error.into()))?;
        }
        files.files.iter_mut().for_each(|file| file.header.log_end = log_end);
        files.mark(true)
    }

    fn save(&self, files: &mut Files) -> Result<()> {
        self.check_whole()?;
        // Headers that could not be marked before a change may be clean still, and say where the log ends, which now
        // moves.
        files.mark(false)?;
        let begun = self.storage.begin_checkpoint().map_err(|error| self.storage_error(error))?;
        let mut hobts: Vec<Arc<Hobt>> = self.stores.read().values().map(|store| Arc::clone(store.hobt())).collect();
        // In an order that does not change from run to run.
        hobts.sort_unstable_by_key(|hobt| hobt.id());
        for hobt in self.heaps.tables().map(|(_, heap)| heap).chain(&hobts) {
            hobt.save_counts().map_err(|error| self.storage_error(error))?;
        }
        self.storage.flush().map_err(|error| self.storage_error(error))?;
        self.write_headers(files)?;
        self.storage.end_checkpoint(begun).map_err(|error| self.storage_error(error))
    }

    /// Changes the options, durably.
    ///
    /// # Errors
    /// The boot page cannot be written: then nobody knows which options the next start finds.
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

    /// Notes, durably, which stamps may have been given out.
    ///
    /// # Errors
    /// The boot page cannot be written.
    pub(crate) fn note_stamps(&self) -> Result<()> {
        let mut files = self.files.lock();
        let options = *self.options.lock();
        self.write_boot(&mut files, options)
    }

    /// Gives the files another generation than that of a database that nobody has used: whoever takes such a database
    /// off the list keeps its files.
    ///
    /// # Errors
    /// The headers cannot be written.
    pub(crate) fn note_in_use(&self) -> Result<()> {
        let mut files = self.files.lock();
        if files.generation() == 0 && self.id != TEMPDB { files.mark(false) } else { Ok(()) }
    }

    /// Tells the log and the loads what the options say.
    pub(super) fn heed_options(&self) {
        let options = self.options();
        self.read_only.store(options.is_read_only, Ordering::Release);
        if let Some(log) = self.storage.log() {
            log.set_delayed_durability(options.delayed_durability);
            log.log().keep_for_backup(options.keeps_log());
            self.storage.set_logs_loads(options.recovery_model == RecoveryModel::Full);
        }
    }

    /// Has a thread of its own flush the log a moment after a commit that did not.
    pub(super) fn flush_delayed_commits(self: &Arc<Database>) {
        let Some(log) = self.storage.log() else { return };
        let database = Arc::downgrade(self);
        log.on_delayed_commit(move || {
            let kept = Weak::clone(&database);
            let started = std::thread::Builder::new().name("log flush".to_owned()).spawn(move || {
                std::thread::sleep(DELAYED_FLUSH_AFTER);
                // A log that fails says so to whoever writes into it next.
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

    /// Writes the boot page and the headers that are not as they were written last.
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

    /// A change of the engine's own (the list of databases), durable when this returns. Runs alone with respect to
    /// checkpoints. If nobody knows whether it is kept, because it could be neither committed nor undone, the database
    /// is SUSPECT, and its recovery decides.
    pub(crate) fn change_and_save(
        &self,
        write: impl FnOnce(&SystemHeaps, &StatementContext) -> std::result::Result<(), CatalogError>,
    ) -> Result<()> {
        let mut files = self.files.lock();
        self.check_usable()?;
        files.mark(false)?;
        // Why the change failed says more than that its undo did too.
        self.write_rows_alone(write).and_then(|()| self.check_whole())
    }
}
