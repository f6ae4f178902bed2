//! `BACKUP DATABASE` and `BACKUP LOG`: docs/design/0048-backup.md.
//!
//! A backup of a database holds the log from where recovery would begin, copies the pages that are allocated, then what
//! loads have written meanwhile past the log, and last the log up to a moment after all that. So it is what a crash at
//! that moment would have left, and a restore recovers it as an opening does.
//!
//! Left to others: the format (crate `hobt-backup`), the statement's text and messages (crate `interpreter`).

mod beside;
mod chain;
mod copy;
mod devices;
mod differential;
mod error;
mod facts;
mod history;
mod tail;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hobt_access::{CopyWatch, DataFile};
use hobt_backup::{MediaWriter, Opening, SetFacts, SetKind, SetWriter};
use hobt_base::{EXTENT_PAGES, Lsn, PageId, errors};
use hobt_disk::SIMULATED;
use hobt_instruments::processor::processor_count;
use hobt_log::{Log, LogHold, RecoveryStart, RoomFor};

use super::{DatabaseUse, Instance};
use crate::database::differential::NewBase;
use crate::database::{Database, MASTER, TEMPDB};
use crate::error::{EngineError, Result};
use copy::{Copying, Piece, pieces_of};
use facts::{finish, note_commit};

pub use copy::ObserveBackup;
pub(super) use error::of_read;
pub use tail::TailRequest;

/// Threads that copy pages, each one block at a time: so many transfers keep a disk busy.
const WORKERS: usize = 16;
/// Threads that compress for each processor: while one waits for the disk, another one computes.
const COMPRESSING_PER_PROCESSOR: usize = 2;
/// Threads that compress at most. Each has memory for two blocks.
const COMPRESSING_MAX: usize = 32;
/// After so many passes over what loads have written meanwhile, loads log their pages until the backup is done.
const PASSES_BEFORE_LOGGING: u32 = 3;

/// What is backed up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackupWhat {
    /// The whole database.
    Database,
    /// What has changed in it since the last backup of the whole.
    Differential,
    /// Its log.
    Log,
}

/// `BACKUP`.
pub struct BackupRequest<'a> {
    /// What is backed up.
    pub what: BackupWhat,
    /// The files, one or several.
    pub paths: &'a [PathBuf],
    /// What becomes of what they hold.
    pub opening: Opening,
    /// `COMPRESSION`.
    pub compresses: bool,
    /// `CHECKSUM`: a damaged page ends the backup.
    pub checks: bool,
    /// `CONTINUE_AFTER_ERROR`.
    pub continues_after_error: bool,
    /// `COPY_ONLY`: later backups do not build on it.
    pub is_copy_only: bool,
    /// `NO_TRUNCATE`: the log is kept, and is backed up even if the database cannot be opened.
    pub keeps_log: bool,
    /// `NORECOVERY`: the database is left restoring.
    pub leaves_restoring: bool,
    /// `NAME`.
    pub name: String,
    /// `DESCRIPTION`.
    pub description: String,
    /// `MEDIANAME`.
    pub media_name: String,
    /// `MEDIADESCRIPTION`.
    pub media_description: String,
    /// The login, for the history.
    pub user: String,
    /// The server's name.
    pub server: String,
    /// Told how far it is.
    pub observe: ObserveBackup<'a>,
}

impl std::fmt::Debug for BackupRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupRequest").field("what", &self.what).field("paths", &self.paths).finish_non_exhaustive()
    }
}

/// The runs of extents of a file that are copied: the first extent of each, and how many.
type RunsOf<'a> = &'a dyn Fn(&DataFile) -> Vec<(u32, u32)>;

/// What keeps the log, and has loads say which runs they fill past it, until it is known whether the log is kept for
/// the next backup.
struct Held {
    _hold: LogHold,
    _watch: CopyWatch,
    /// What later differential backups build on, once the files are known to stay.
    base: Option<NewBase>,
}

/// A backup that was made.
#[derive(Debug)]
pub struct BackupDone {
    /// What it says of itself.
    pub facts: SetFacts,
    /// Its number in its media set.
    pub position: u32,
    /// How long it took.
    pub elapsed: Duration,
    /// Why `master` could not take it into the history. It is complete all the same.
    pub unnoted: Option<EngineError>,
}

/// Keeps the files of a database as they are while the result lives: no backup of it runs. One of the log has pages of
/// them too, those that loads have filled.
///
/// # Errors
/// 3023: one is running.
pub(super) fn without_backup(database: &Database) -> Result<impl Sized> {
    let running = || EngineError::Statement(errors::BACKUP_IN_PROGRESS.error());
    let of_data = database.data_backup.try_lock().ok_or_else(running)?;
    let of_log = database.log_backup.try_lock().ok_or_else(running)?;
    Ok((of_data, of_log))
}

impl Instance {
    /// Backs up a database or its log. The database is in use meanwhile. Blocks.
    ///
    /// # Errors
    /// 3002 it is a snapshot, 3023 another backup of it is running, 3024 and 3147 it is one of the instance's own, 3036
    /// it is a standby, 3035 there is no backup on which a differential one builds, 3043 a page is damaged, 3201, 3202,
    /// 3241, 3132 the files, 4208 and 4214 its log is not kept; a device's error.
    pub fn back_up(&self, database: &DatabaseUse, request: &BackupRequest<'_>) -> Result<BackupDone> {
        if database.id() == TEMPDB {
            return Err(EngineError::Statement(errors::BACKUP_OF_TEMPDB.with([&database.name()])));
        }
        if database.id() == MASTER && request.what != BackupWhat::Database {
            return Err(EngineError::Statement(errors::BACKUP_OF_MASTER.error()));
        }
        if database.is_snapshot() {
            return Err(EngineError::Statement(errors::BACKUP_OF_SNAPSHOT.error()));
        }
        if database.is_over_others() {
            return Err(EngineError::Statement(errors::BACKUP_OF_STANDBY.with([&database.name()])));
        }
        database.check_usable()?;
        let running = match request.what {
            BackupWhat::Log => database.log_backup.try_lock(),
            BackupWhat::Database | BackupWhat::Differential => database.data_backup.try_lock(),
        };
        let Some(_running) = running else { return Err(EngineError::Statement(errors::BACKUP_IN_PROGRESS.error())) };
        let since = Instant::now();
        if request.what == BackupWhat::Log {
            self.check_chain(database)?;
        }
        let devices = self.open_devices(request.paths)?;
        let label = self.new_label(request);
        let opened = MediaWriter::open(devices.files.clone(), request.opening, label).map_err(error::of_write);
        let media = match opened {
            Ok(media) => media,
            Err(error) => {
                self.forget_devices(devices);
                return Err(error);
            }
        };
        let (label, position) = (media.label().clone(), media.next_set());
        let made = match request.what {
            BackupWhat::Database => self.copy_database(database, request, media),
            BackupWhat::Differential => self.copy_differential(database, request, media),
            BackupWhat::Log => self.copy_log(database, request, media),
        };
        match made.and_then(|made| self.keep_devices(&devices).map(|()| made)) {
            Ok((facts, mut held)) => {
                held.base.take().map_or(Ok(()), |base| base.keep(&facts))?;
                self.backup_was_made(database, request, &facts)?;
                // From here on the log is kept for the next backup, if it is kept.
                drop(held);
                let unnoted = self.note_backup(&facts, label, position, request.paths).err();
                Ok(BackupDone { facts, position, elapsed: since.elapsed(), unnoted })
            }
            Err(error) => {
                self.forget_devices(devices);
                Err(error)
            }
        }
    }

    /// Copies all pages that are allocated, and the log that makes them whole.
    fn copy_database(
        &self,
        database: &DatabaseUse,
        request: &BackupRequest<'_>,
        media: MediaWriter,
    ) -> Result<(SetFacts, Held)> {
        // The log of the backup is shorter for it. If it finds no room, the log that there is does as well.
        let _saved = database.checkpoint();
        let facts = self.first_facts(database, request, SetKind::Database);
        let base = database.begin_base(request.is_copy_only);
        let (facts, held) = self.copy_extents(database, request, media, facts, &|file| file.allocated_runs())?;
        Ok((facts, Held { base: Some(base), ..held }))
    }

    /// Copies runs of extents, and the log that makes them whole.
    fn copy_extents(
        &self,
        database: &DatabaseUse,
        request: &BackupRequest<'_>,
        media: MediaWriter,
        facts: SetFacts,
        runs_of: RunsOf<'_>,
    ) -> Result<(SetFacts, Held)> {
        let storage = database.storage();
        let log = storage.log().expect("every database but tempdb has a log").log();
        let watch = storage.watch_loads();
        let (hold, start) = log.hold().ok_or_else(|| closed(database))?;
        let files = storage.files();
        let set = media.begin(&facts, request.compresses).map_err(error::of_write)?;
        let copying = self.copying(database, request, &set, &files);
        let mut pieces = Vec::new();
        for (place, file) in files.iter().enumerate() {
            pieces.extend(pieces_of(place, &runs_of(file)));
        }
        copying.expect(&pieces);
        copying.copy(0, &pieces)?;
        let mut pass = 0;
        let end = loop {
            let ended = watch.take_ended();
            if ended.is_empty()
                && let Some(end) = watch.close().map_err(|error| database.storage_error(error))?
            {
                break end;
            }
            pass += 1;
            if pass == PASSES_BEFORE_LOGGING {
                watch.log_loads();
            }
            let again = pieces_of_runs(&files, &ended);
            copying.expect(&again);
            copying.copy(pass, &again)?;
        };
        self.flush_to(database, log, end)?;
        copying.all.fetch_add(end.0 - start.keep.0, Ordering::Relaxed);
        let mut last_commit = 0;
        copying.copy_log(log, start.keep, end, &mut |record| note_commit(&mut last_commit, record))?;
        let facts = SetFacts { first: start.keep.0, last: end.0, last_commit, ..facts };
        Ok((finish(database, &copying, facts, start)?, Held { _hold: hold, _watch: watch, base: None }))
    }

    fn copying<'a>(
        &self,
        database: &'a DatabaseUse,
        request: &BackupRequest<'a>,
        set: &'a SetWriter,
        files: &'a [Arc<DataFile>],
    ) -> Copying<'a> {
        // One thread where the order of operations is to be the same in every run.
        let workers = match (self.disk.kind() == SIMULATED, request.compresses) {
            (true, _) => 1,
            (false, true) => (COMPRESSING_PER_PROCESSOR * processor_count()).min(COMPRESSING_MAX),
            (false, false) => WORKERS,
        };
        Copying {
            set,
            files,
            database: database.name(),
            database_tag: database.storage().database_tag(),
            refuses_damage: request.checks && !request.continues_after_error,
            workers,
            compresses: request.compresses,
            observe: request.observe,
            done: AtomicU64::new(0),
            all: AtomicU64::new(0),
            saved: files.iter().map(|_| AtomicU64::new(0)).collect(),
            damaged: Default::default(),
        }
    }

    /// Makes the log durable up to a position.
    fn flush_to(&self, database: &Database, log: &Log, end: Lsn) -> Result<()> {
        if log.durable() >= end {
            return Ok(());
        }
        let flushed = log.flush_for(RoomFor::Checkpoint, Lsn(end.0 - 1));
        flushed.map_err(|error| database.storage_error(error.into()))
    }

    /// Copies the log since its last backup.
    fn copy_log(
        &self,
        database: &DatabaseUse,
        request: &BackupRequest<'_>,
        media: MediaWriter,
    ) -> Result<(SetFacts, Held)> {
        let storage = database.storage();
        let log = storage.log().expect("every database but tempdb has a log").log();
        let facts = self.first_facts(database, request, SetKind::Log);
        let watch = storage.watch_loads();
        let hold = log.hold_for_backup().ok_or_else(|| closed(database))?;
        let start = log.recovery_start().unwrap_or(RecoveryStart::at(hold.from()));
        let first = log.chain().map_or(hold.from(), |chain| chain.from.max(hold.from()));
        let files = storage.files();
        let set = media.begin(&facts, request.compresses).map_err(error::of_write)?;
        let copying = self.copying(database, request, &set, &files);
        // What loads have written past the log is copied as it is now.
        let mut runs = self.runs_loaded(database, log, first.min(log.end()))?;
        let mut pass = 0;
        let end = loop {
            let again = pieces_of_runs(&files, &runs);
            copying.expect(&again);
            copying.copy(pass, &again)?;
            runs = watch.take_ended();
            pass += 1;
            if pass == PASSES_BEFORE_LOGGING {
                watch.log_loads();
            }
            if runs.is_empty()
                && let Some(end) = watch.close().map_err(|error| database.storage_error(error))?
            {
                break end;
            }
        };
        self.flush_to(database, log, end)?;
        copying.all.fetch_add(end.0 - first.0.min(end.0), Ordering::Relaxed);
        let mut last_commit = 0;
        copying.copy_log(log, first.min(end), end, &mut |record| note_commit(&mut last_commit, record))?;
        let has_bulk = copying.saved.iter().any(|pages| pages.load(Ordering::Relaxed) > 0);
        let facts = SetFacts { first: first.min(end).0, last: end.0, last_commit, has_bulk, ..facts };
        Ok((finish(database, &copying, facts, start)?, Held { _hold: hold, _watch: watch, base: None }))
    }

    /// The runs that loads have filled past the log, or began to, since `from`.
    fn runs_loaded(&self, database: &Database, log: &Arc<Log>, from: Lsn) -> Result<Vec<(PageId, u32)>> {
        let end = log.end();
        self.flush_to(database, log, end)?;
        let mut reader = hobt_log::LogReader::forwards(log);
        let (mut runs, mut damage, mut at) = (Vec::new(), None, from);
        let unread = |why: String| database.storage_error(hobt_access::AccessError::LogFailed(why));
        while at < end {
            let bytes = reader.bytes_from(at).map_err(|error| database.storage_error(error.into()))?;
            let next = hobt_log::for_each_saved(bytes, at, &mut |record| {
                match hobt_access::runs_loaded_by(record) {
                    Ok(some) => runs.extend(some),
                    Err(error) => damage = Some(format!("the record at {}: {error}", record.lsn)),
                }
                damage.is_none()
            });
            at = next.map_err(|lsn| unread(format!("there is no record at {lsn}")))?;
            if let Some(why) = damage {
                return Err(unread(why));
            }
        }
        Ok(runs)
    }
}

impl Copying<'_> {
    /// Adds pieces to what is to be copied.
    fn expect(&self, pieces: &[Piece]) {
        let bytes: u64 = pieces.iter().map(Piece::bytes).sum();
        self.all.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The pieces of runs of pages, as far as their files exist.
fn pieces_of_runs(files: &[Arc<DataFile>], runs: &[(PageId, u32)]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (first, extents) in runs {
        if let Some(place) = files.iter().position(|file| file.id() == first.file) {
            let in_file = files[place].size_pages() / EXTENT_PAGES;
            let from = (first.number / EXTENT_PAGES).min(in_file);
            let count = (*extents).min(in_file - from);
            pieces.extend(pieces_of(place, &[(from, count)]));
        }
    }
    pieces
}

/// The error for a log that is closed.
fn closed(database: &Database) -> EngineError {
    EngineError::Unavailable {
        database: database.name().to_owned(),
        state: crate::DatabaseState::RecoveryPending,
        reason: "it was closed".to_owned(),
    }
}
