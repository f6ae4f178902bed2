//! The backup of a log without its database: `NO_TRUNCATE`, when the data files are gone, and `NORECOVERY`, which
//! leaves the database restoring.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use hobt_backup::{Guid, LogFileFact, MediaWriter, SetFacts, SetKind};
use hobt_base::{Lsn, errors};
use hobt_log::{ChainState, LSN_FIRST, Log, RecoveryStart};

use super::copy::Copying;
use super::facts::{SOFTWARE, machine_name, note_commit};
use super::{BackupDone, BackupRequest, error};
use crate::DatabaseState;
use crate::database::differential::set_guid;
use crate::error::{EngineError, Result};
use crate::instance::create::{is_system, new_guid};
use crate::instance::registry::{Entry, EntryState};
use crate::instance::{Instance, does_not_exist};
use crate::options::RecoveryModel;
use hobt_instruments::time_of_day;

/// The backup of the last part of a log.
#[derive(Debug)]
pub struct TailRequest<'a> {
    /// The name of the database.
    pub name: &'a str,
    /// The backup.
    pub request: &'a BackupRequest<'a>,
}

impl Instance {
    /// Backs up the log of a database that cannot be opened, or is not used again before it was restored. Blocks.
    ///
    /// # Errors
    /// 911 it does not exist, 3101 it is in use, 3147 it is one of the instance's own, 4208 and 4214 its log is not
    /// kept, 4216 loads have written past the log; the errors of [`Instance::back_up`].
    pub fn back_up_tail(&self, tail: &TailRequest<'_>) -> Result<BackupDone> {
        let request = tail.request;
        let since = Instant::now();
        let entry = self.registry.named(tail.name).ok_or_else(|| does_not_exist(tail.name))?;
        if is_system(entry.id) {
            return Err(EngineError::Statement(errors::BACKUP_OF_TEMPDB.with([&entry.name])));
        }
        if entry.is_snapshot() {
            return Err(EngineError::Statement(errors::BACKUP_OF_SNAPSHOT.error()));
        }
        if request.leaves_restoring {
            self.registry.refuse_source(&entry)?;
        }
        if entry.is_standby() {
            return Err(EngineError::Statement(errors::BACKUP_OF_STANDBY.with([&entry.name])));
        }
        if let Ok(database) = self.database_by_id(entry.id) {
            self.check_chain(&database)?;
        }
        let in_use = || EngineError::Statement(errors::RESTORE_IN_USE.error());
        let _transition = self.take_unused(entry.id).ok_or_else(in_use)?;
        if request.leaves_restoring {
            // Again, now that no snapshot can be made any more.
            self.registry.refuse_source(&entry)?;
        }
        let is_usable = match &*entry.state.lock() {
            EntryState::Unavailable { state: DatabaseState::Offline, reason } => {
                return Err(entry.unavailable(DatabaseState::Offline, reason));
            }
            EntryState::Unavailable { .. } => false,
            EntryState::Closed(_) | EntryState::Open(_) => true,
        };
        if is_usable {
            // What it still has to write is in the log then.
            let shut = entry.shut(&self.parts, &self.registry);
            if let Err(error) = shut {
                self.look_again(&entry);
                return Err(error);
            }
        }
        let done = self.back_up_log_alone(&entry, request);
        // While pages are restored it is restoring already, and stays as it is.
        // Where that cannot be said nothing is forgotten.
        let is_of_pages = self.is_restoring_pages(tail.name).unwrap_or(true);
        let is_left = request.leaves_restoring && done.is_ok() && !is_of_pages;
        let left = if is_left { self.leave_restoring(&entry) } else { Ok(()) };
        match is_left && left.is_ok() {
            true => *entry.state.lock() = EntryState::restoring(),
            false => self.look_again(&entry),
        }
        let (facts, position, unnoted) = left.and(done)?;
        Ok(BackupDone { facts, position, elapsed: since.elapsed(), unnoted })
    }

    /// Backs up the log of a database that is not open. Returns the backup set and its number, and why it is not in the
    /// history.
    fn back_up_log_alone(
        &self,
        entry: &Entry,
        request: &BackupRequest<'_>,
    ) -> Result<(SetFacts, u32, Option<EngineError>)> {
        let log = self.open_restored_log(entry)?;
        let devices = self.open_devices(request.paths).inspect_err(|_| log.close())?;
        let opened = MediaWriter::open(devices.files.clone(), request.opening, self.new_label(request));
        let made = opened.map_err(error::of_write).and_then(|media| {
            let (label, position) = (media.label().clone(), media.next_set());
            let facts = self.copy_log_alone(entry, request, media, &log)?;
            Ok((facts, label, position))
        });
        let (facts, label, position) = match made.and_then(|made| self.keep_devices(&devices).map(|()| made)) {
            Ok(made) => made,
            Err(error) => {
                log.close();
                self.forget_devices(devices);
                return Err(error);
            }
        };
        // The files stay from here on: part of the log may say that its records are backed up.
        let noted = if request.keeps_log || request.is_copy_only {
            Ok(())
        } else {
            log.set_chain(ChainState { from: Lsn(facts.last), ..log.chain().unwrap_or_default() })
        };
        log.close();
        noted?;
        let unnoted = self.note_backup(&facts, label, position, request.paths).err();
        Ok((facts, position, unnoted))
    }

    fn copy_log_alone(
        &self,
        entry: &Entry,
        request: &BackupRequest<'_>,
        media: MediaWriter,
        log: &Arc<Log>,
    ) -> Result<SetFacts> {
        let chain = log.chain().unwrap_or_default();
        let first = chain.from;
        if first == Lsn(0) || first < log.retained_from() {
            return Err(EngineError::Statement(errors::LOG_BACKUP_WITHOUT_BASE.error()));
        }
        let end = log.end();
        let start = log.recovery_start().unwrap_or(RecoveryStart::at(end));
        let fork = if chain.fork == [0; 16] { entry.guid } else { chain.fork };
        let logs = log.files().into_iter().map(|file| LogFileFact {
            id: file.id,
            name: file.name,
            path: file.disk.path().display().to_string(),
            bytes: file.bytes,
            growth_bytes: file.growth_bytes,
            bytes_max: file.bytes_max,
        });
        let model = match entry.options.lock().recovery_model {
            // The option itself is gone with the data files: a log that is kept is not under this one.
            RecoveryModel::Simple => RecoveryModel::Full,
            known => known,
        };
        let mut facts = SetFacts {
            guid: set_guid(u64::from_le_bytes(*new_guid().first_chunk().expect("sixteen bytes"))),
            kind: SetKind::Log,
            name: request.name.clone(),
            description: request.description.clone(),
            database: entry.name.clone(),
            database_guid: Guid(entry.guid),
            database_created: entry.created,
            recovery_model: model.name().to_owned(),
            started: time_of_day(),
            first: first.0,
            last: end.0,
            redo: start.redo.0,
            read_from: start.read_from.0,
            keep: start.keep.0,
            fork: Guid(fork),
            is_copy_only: request.is_copy_only,
            is_tail: true,
            has_checksums: request.checks,
            is_compressed: request.compresses,
            isolation: entry.isolation.bits(),
            machine: machine_name(),
            server: request.server.clone(),
            user: request.user.clone(),
            software: SOFTWARE.to_owned(),
            logs: logs.collect(),
            ..SetFacts::default()
        };
        let set = media.begin(&facts, request.compresses).map_err(error::of_write)?;
        let copying = Copying {
            set: &set,
            files: &[],
            database: &entry.name,
            database_tag: 0,
            refuses_damage: false,
            workers: 1,
            compresses: request.compresses,
            observe: request.observe,
            done: AtomicU64::new(0),
            all: AtomicU64::new(end.0 - first.0.min(end.0)),
            saved: Vec::new(),
            damaged: Default::default(),
        };
        let (mut last_commit, mut is_bulk) = (0, false);
        copying.copy_log(log, first, end, &mut |record| {
            note_commit(&mut last_commit, record);
            // A list that cannot be read names some run.
            is_bulk |= hobt_access::runs_loaded_by(record).map_or(true, |runs| !runs.is_empty());
        })?;
        if is_bulk {
            return Err(EngineError::Statement(errors::TAIL_WITH_BULK.error()));
        }
        (facts.last_commit, facts.finished) = (last_commit, time_of_day());
        (facts.stored_bytes, facts.bytes) = set.bytes();
        set.finish(&facts).map_err(error::of_write)?;
        Ok(facts)
    }

    /// Leaves a database, which is closed, restoring: backups of the log continue it.
    fn leave_restoring(&self, entry: &Entry) -> Result<()> {
        self.forget_page_restore(entry);
        let mut files = match crate::instance::start::inspect(&*self.disk, &entry.files.lock(), entry.guid) {
            EntryState::Closed(files) => files,
            _ => Vec::new(),
        };
        let log = self.open_restored_log(entry)?;
        let chain = log.chain().unwrap_or_default();
        let fork = if chain.fork == [0; 16] { entry.guid } else { chain.fork };
        // The floor says that it is recovered next, and not merely opened.
        let chain = ChainState { from: Lsn(0), floor: chain.floor.max(LSN_FIRST), fork, ..chain };
        let noted = log.set_chain(chain);
        log.close();
        noted?;
        for file in &mut files {
            file.header.clean = false;
            file.write_header()?;
        }
        self.note_restoring(entry, true)?;
        Ok(())
    }
}
