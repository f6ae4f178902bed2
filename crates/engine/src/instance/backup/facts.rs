//! What a backup set says of itself, and of the database.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_access::DataFile;
use hobt_backup::{DataFileFact, Guid, LogFileFact, MediaLabel, SetFacts, SetKind};
use hobt_catalog::Growth;
use hobt_log::{Record, RecoveryStart};
use hobt_txn::{COMMIT_RECORD, commit_time};

use super::copy::Copying;
use super::{BackupRequest, error};
use crate::database::Database;
use crate::database::differential::set_guid;
use crate::error::Result;
use crate::instance::create::new_guid;
use crate::instance::{DatabaseUse, Instance};
use crate::log_description::LogDescription;
use hobt_instruments::time_of_day;

/// The program, as backups name it.
pub(super) const SOFTWARE: &str = concat!("hobt ", env!("CARGO_PKG_VERSION"));

impl Instance {
    pub(super) fn new_label(&self, request: &BackupRequest<'_>) -> MediaLabel {
        MediaLabel {
            media: Guid(new_guid()),
            name: request.media_name.clone(),
            description: request.media_description.clone(),
            created: time_of_day(),
            software: SOFTWARE.to_owned(),
            ..MediaLabel::default()
        }
    }

    /// What is known of a backup set when it begins.
    pub(super) fn first_facts(&self, database: &DatabaseUse, request: &BackupRequest<'_>, kind: SetKind) -> SetFacts {
        let options = database.options();
        let chain = database.storage().log().and_then(|log| log.log().chain()).unwrap_or_default();
        SetFacts {
            guid: set_guid(u64::from_le_bytes(*new_guid().first_chunk().expect("sixteen bytes"))),
            kind,
            name: request.name.clone(),
            description: request.description.clone(),
            database: database.name().to_owned(),
            database_guid: Guid(database.guid()),
            database_created: database.created(),
            recovery_model: options.recovery_model.name().to_owned(),
            started: time_of_day(),
            fork: fork_of(database, &chain),
            database_backup: database.base().map_or(0, |(_, first)| first.0),
            is_copy_only: request.is_copy_only,
            is_tail: request.keeps_log || request.leaves_restoring,
            has_checksums: request.checks,
            is_compressed: request.compresses,
            isolation: database.isolation().bits(),
            machine: machine_name(),
            server: request.server.clone(),
            user: request.user.clone(),
            software: SOFTWARE.to_owned(),
            files: file_facts(database),
            logs: log_facts(database),
            ..SetFacts::default()
        }
    }
}

/// Completes a backup set.
pub(super) fn finish(
    database: &Database,
    copying: &Copying<'_>,
    facts: SetFacts,
    start: RecoveryStart,
) -> Result<SetFacts> {
    let saved: Vec<u64> = copying.saved.iter().map(|pages| pages.load(Ordering::Relaxed)).collect();
    let is_damaged = !copying.damaged.lock().is_empty();
    let files = copying.files.iter().map(|file| file.id().0).zip(&saved).collect::<Vec<_>>();
    let mut facts = SetFacts {
        redo: start.redo.0,
        read_from: start.read_from.0,
        keep: start.keep.0,
        pages: saved.iter().sum(),
        is_damaged,
        finished: time_of_day(),
        ..facts
    };
    facts.files = file_facts(database);
    for file in &mut facts.files {
        file.pages_saved = files.iter().find(|(id, _)| *id == file.id).map_or(0, |(_, pages)| **pages);
    }
    facts.logs = log_facts(database);
    (facts.stored_bytes, facts.bytes) = copying.set.bytes();
    copying.set.finish(&facts).map_err(error::of_write)?;
    Ok(facts)
}

/// Notes when a transaction has committed, if the record says so.
pub(super) fn note_commit(last: &mut i64, record: &Record) {
    if record.kind == COMMIT_RECORD
        && let Some(time) = commit_time(&record.payload)
    {
        *last = (*last).max(time);
    }
}

/// What tells the log of a database apart from that of others restored from the same backups.
fn fork_of(database: &Database, chain: &hobt_log::ChainState) -> Guid {
    if chain.fork == [0; 16] { Guid(database.guid()) } else { Guid(chain.fork) }
}

fn file_facts(database: &Database) -> Vec<DataFileFact> {
    let snapshot = database.snapshot();
    let fact = |file: &Arc<DataFile>| {
        let listed = snapshot.files.iter().find(|listed| listed.id == file.id());
        let (growth_pages, growth_percent) = match listed.map(|listed| listed.growth) {
            Some(Growth::Pages(pages)) => (pages, 0),
            Some(Growth::Percent(percent)) => (0, percent),
            Some(Growth::None) | None => (0, 0),
        };
        DataFileFact {
            id: file.id().0,
            filegroup: file.filegroup().0,
            filegroup_name: snapshot
                .filegroup_by_id(file.filegroup())
                .map_or_else(String::new, |filegroup| filegroup.name.clone()),
            name: file.name().to_owned(),
            path: file.path().display().to_string(),
            pages: file.size_pages(),
            growth_pages,
            growth_percent,
            pages_max: listed.and_then(|listed| listed.max_pages).unwrap_or(0),
            pages_saved: 0,
        }
    };
    database.storage().files().iter().map(fact).collect()
}

fn log_facts(database: &Database) -> Vec<LogFileFact> {
    let files = LogDescription::of(database.storage()).map_or_else(Vec::new, |log| log.files);
    let fact = |file: crate::LogFileDescription| LogFileFact {
        id: file.id.0,
        name: file.name,
        path: file.path.display().to_string(),
        bytes: file.bytes,
        growth_bytes: file.growth_bytes,
        bytes_max: file.bytes_max,
    };
    files.into_iter().map(fact).collect()
}

/// The name of this machine.
pub(super) fn machine_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| String::new(), |name| name.trim().to_owned())
}
