//! `RESTORE`: docs/design/0048-backup.md.
//!
//! A restore writes the pages of a backup to files and its log to a log, so that both are as a crash would have left
//! them when the backup ended. Further backups of the log are appended. The database opens when it is recovered, from
//! all of that log, as after a crash.
//!
//! What is where after a crash: `master` lists the database, with its files, as being restored before any of them is
//! changed, and no longer so only when the log reaches behind every change that the pages may have (`floor` in the
//! header of the log). The headers of data files are written last.
//!
//! Left to others: recovery (crate `access`), the format (crate `hobt-backup`), messages (crate `interpreter`).

mod create;
mod differential;
mod list;
mod log;
mod page;
mod pages;
mod point;
mod recover;
mod revert;
mod show;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hobt_backup::{HistoryEntry, Media, SetFacts, SetKind, SetPlace};
use hobt_base::{Lsn, errors};
use hobt_log::{LSN_FIRST, LSN_MAX, RecoveryStart};

use super::Instance;
use super::backup::{ObserveBackup, of_read};
use crate::definition::check_name;
use crate::error::{EngineError, Result};
use hobt_instruments::time_of_day;

pub use page::RESTORED_PAGES_MAX;
pub use point::StopPoint;

/// What a restore leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RestoreEnd {
    /// `RECOVERY`: a database that can be used.
    Recovery,
    /// `NORECOVERY`: a database to which more can be restored.
    NoRecovery,
    /// `STANDBY`: a database that can be read and to which more can be restored, and the path of its standby file.
    Standby(PathBuf),
}

/// `RESTORE DATABASE | LOG … FROM …`.
pub struct RestoreRequest<'a> {
    /// The name of the database.
    pub name: &'a str,
    /// Whether it is `RESTORE LOG`.
    pub is_log: bool,
    /// The files of the media set.
    pub paths: &'a [PathBuf],
    /// `FILE`: the number of the backup set; the first one if `None`.
    pub set: Option<u32>,
    /// `MOVE`: logical names and new paths.
    pub moves: &'a [(String, PathBuf)],
    /// `REPLACE`.
    pub replaces: bool,
    /// What it leaves.
    pub end: RestoreEnd,
    /// Where it stops.
    pub stop: Option<StopPoint>,
    /// `CHECKSUM`: the backup must have been made with it.
    pub checks: bool,
    /// `CONTINUE_AFTER_ERROR`: a backup of a damaged database is restored too.
    pub continues_after_error: bool,
    /// The login, for the history.
    pub user: String,
    /// Told how far it is.
    pub observe: ObserveBackup<'a>,
}

impl std::fmt::Debug for RestoreRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestoreRequest").field("name", &self.name).field("paths", &self.paths).finish_non_exhaustive()
    }
}

/// What a restore has done.
#[derive(Debug)]
pub struct RestoreDone {
    /// What the backup set says of itself.
    pub facts: SetFacts,
    /// Its number in the media set.
    pub position: u32,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether the database can be used now.
    pub is_recovered: bool,
    /// The backup ends before the point at which the restore was to stop.
    pub ends_before_stop: bool,
    /// Why `master` could not take it into the history. It is done all the same.
    pub unnoted: Option<EngineError>,
}

impl Instance {
    /// Restores a backup set. Blocks.
    ///
    /// # Errors
    /// 3201, 3203, 3241, 3132, 3189, 3256, 4038 the backup; 3101, 3108, 3117, 3118, 3154, 3156, 3159 the database;
    /// 3135, 3136, 4305, 4326, 4330, 4335, 4341 the backup does not fit what was restored before; 1834, 5123, 5170 the
    /// standby file; a device's error. A database that was being overwritten is left restoring.
    pub fn restore(&self, request: &RestoreRequest<'_>) -> Result<RestoreDone> {
        let since = Instant::now();
        let standby = match &request.end {
            RestoreEnd::Standby(path) => Some(self.place_standby_file(request.name, path)?),
            RestoreEnd::Recovery | RestoreEnd::NoRecovery => None,
        };
        let media = self.open_media(request.paths)?;
        let place = media.set(request.set.unwrap_or(1)).map_err(|error| of_set(error, request.paths))?.clone();
        let facts = &place.facts;
        check_positions(&media, &place)?;
        if request.checks && !facts.has_checksums {
            return Err(EngineError::Statement(errors::NO_BACKUP_CHECKSUMS.error()));
        }
        if facts.is_damaged && !request.continues_after_error {
            return Err(of_damaged_database(&place, request.paths));
        }
        let source = Source { media: &media, place: &place };
        let is_of_pages = self.is_restoring_pages(request.name)?;
        let outcome = match (request.is_log, facts.kind) {
            (is_log, SetKind::Log | SetKind::Differential) if is_log == (facts.kind == SetKind::Log) && is_of_pages => {
                self.roll_pages(request, &source)?
            }
            (true, SetKind::Log) => self.restore_log(request, &source)?,
            (false, SetKind::Database) => self.restore_database(request, &source)?,
            (false, SetKind::Differential) => self.restore_differential(request, &source)?,
            (_, kind) => {
                let made_by = match kind {
                    SetKind::Log => "BACKUP LOG",
                    SetKind::Database => "BACKUP DATABASE",
                    SetKind::Differential => "BACKUP DATABASE WITH DIFFERENTIAL",
                };
                let device = request.paths.first().map(|path| path.display().to_string()).unwrap_or_default();
                return Err(EngineError::Statement(errors::BACKUP_SET_KIND.with([&device, &made_by])));
            }
        };
        let recovers = request.end == RestoreEnd::Recovery && !outcome.ends_before_stop;
        let recovered = match &standby {
            Some(path) => self.enter_standby(request.name, path),
            None if recovers => self.recover_restored(request.name),
            None => Ok(()),
        };
        let unnoted = self.note_restore(request, facts, recovers && recovered.is_ok()).err();
        recovered?;
        Ok(RestoreDone {
            unnoted,
            facts: place.facts.clone(),
            position: place.number,
            elapsed: since.elapsed(),
            is_recovered: recovers,
            ends_before_stop: outcome.ends_before_stop,
        })
    }

    fn note_restore(&self, request: &RestoreRequest<'_>, facts: &SetFacts, recovers: bool) -> Result<()> {
        let paths = self.registry.named(request.name).map_or_else(Vec::new, |entry| entry.files.lock().clone());
        let named = facts.files.iter().filter_map(|file| {
            let path = paths.iter().find(|(id, _)| id.0 == file.id)?;
            Some((file.name.clone(), path.1.display().to_string()))
        });
        let stop = request.stop.as_ref();
        self.note_in_history(&HistoryEntry::Restore {
            at: time_of_day(),
            database: request.name.to_owned(),
            user: request.user.clone(),
            kind: facts.kind.letter().to_owned(),
            set: facts.guid,
            replaces: request.replaces,
            recovers,
            stop_at: stop.and_then(StopPoint::time),
            stop_at_mark: stop.and_then(StopPoint::mark),
            stops_before_mark: stop.is_some_and(StopPoint::is_before),
            files: named.collect(),
        })
    }
}

/// A backup set that is being restored.
pub(super) struct Source<'a> {
    pub(super) media: &'a Media,
    pub(super) place: &'a SetPlace,
}

impl Source<'_> {
    pub(super) fn facts(&self) -> &SetFacts {
        &self.place.facts
    }

    /// Where recovery begins behind its records.
    pub(super) fn recovery_start(&self) -> RecoveryStart {
        let facts = self.facts();
        RecoveryStart { redo: Lsn(facts.redo), read_from: Lsn(facts.read_from), keep: Lsn(facts.keep) }
    }
}

/// What a restore of one backup set has come to.
pub(super) struct Outcome {
    pub(super) ends_before_stop: bool,
}

/// 4038 with the device.
fn of_set(error: hobt_backup::BackupError, paths: &[PathBuf]) -> EngineError {
    match error {
        hobt_backup::BackupError::NoSuchSet { number } => {
            let device = paths.first().map(|path| path.display().to_string()).unwrap_or_default();
            EngineError::Statement(errors::NO_SUCH_BACKUP_SET.with([&number, &device]))
        }
        other => of_read(other),
    }
}

/// The error for a backup set that was made of a damaged database.
pub(super) fn of_damaged_database(place: &SetPlace, paths: &[PathBuf]) -> EngineError {
    let device = paths.first().map(|path| path.display().to_string()).unwrap_or_default();
    let why = format!(
        "backup set {} of '{device}' has pages that were damaged when it was made. CONTINUE_AFTER_ERROR restores it; DBCC \
         CHECKDB then says which",
        place.number
    );
    EngineError::Statement(errors::BACKUP_SET_DAMAGED.with([&why]))
}

/// Refuses a backup set whose positions cannot be: everything below relies on their order.
fn check_positions(media: &Media, place: &SetPlace) -> Result<()> {
    let facts = &place.facts;
    let is_whole = |position: u64| (LSN_FIRST.0..=LSN_MAX.0).contains(&position) && position.is_multiple_of(8);
    let of_log = facts.first <= facts.last && is_whole(facts.first) && is_whole(facts.last);
    let start = facts.keep <= facts.read_from && facts.read_from <= facts.redo && facts.redo <= facts.last;
    let of_data = facts.kind == SetKind::Log || facts.first == facts.keep;
    let names: Vec<_> = facts.files.iter().map(|file| file.id).chain(facts.logs.iter().map(|log| log.id)).collect();
    let is_twice = (1..names.len()).any(|at| names[..at].contains(&names[at]));
    let mut logical = facts.files.iter().map(|file| &file.name).chain(facts.logs.iter().map(|log| &log.name));
    let are_names = logical.all(|name| check_name(name).is_ok());
    if of_log && start && of_data && !is_twice && are_names {
        return Ok(());
    }
    let path = media.files().first().map(|file| file.path().display().to_string()).unwrap_or_default();
    let why = format!("backup set {} of '{path}' contradicts itself", place.number);
    Err(EngineError::Statement(errors::BACKUP_SET_DAMAGED.with([&why])))
}
