//! Snapshots of databases: read-only databases that show another one, their source, as it was at one moment.
//! docs/design/0050-overlays.md.
//!
//! A snapshot has a copy file for each data file of its source, with the former contents of what was overwritten there
//! since (crate `disk`, `FormerBlocks`), and a log with the records that recovery needs for the moment. It is opened
//! over these and the source's files, like a standby: recovery writes to an overlay.
//!
//! `master` lists a snapshot with the guid of its source and a bit. The copies are open for as long as the instance
//! is, and every opening of the source's files passes what it writes by them. A snapshot with a copy that has failed,
//! or is gone at a start, is lost, which `master` says from then on.
//!
//! Left to others: the overlay (`overlay_file`), reverting (`restore`).

mod copies;
mod create;
mod log;
mod open;

use std::path::PathBuf;
use std::sync::Arc;

use hobt_base::errors;

use super::Instance;
use super::registry::{Entry, Registry};
use crate::error::{EngineError, Result};

pub(super) use copies::Copies;
pub use create::SnapshotDefinition;
pub(super) use log::{LogCopy, plan_like};
pub(super) use open::open_copies;

impl Entry {
    /// Whether it is a snapshot of another database.
    pub(super) fn is_snapshot(&self) -> bool {
        self.copies.is_some()
    }

    /// Its copies, if it is a snapshot.
    pub(super) fn copies(&self) -> Option<Copies> {
        self.copies.as_ref().map(|copies| copies.lock().clone())
    }

    /// Lets go of the files of its copies: the instance is closed.
    pub(super) fn release_copies(&self) {
        if let Some(copies) = &self.copies {
            *copies.lock() = Copies::Unready("the instance was closed".to_owned());
        }
    }
}

impl Registry {
    /// The database with this guid, which is no snapshot.
    pub(super) fn source_of(&self, guid: &[u8; 16]) -> Option<Arc<Entry>> {
        self.all().into_iter().find(|entry| entry.guid == *guid && !entry.is_snapshot())
    }

    /// The snapshots of the database with this guid.
    pub(super) fn snapshots_of(&self, guid: &[u8; 16]) -> Vec<Arc<Entry>> {
        self.all().into_iter().filter(|entry| entry.guid == *guid && entry.is_snapshot()).collect()
    }

    /// Refuses what cannot be done to a database that has snapshots.
    ///
    /// # Errors
    /// 3709.
    pub(super) fn refuse_source(&self, entry: &Entry) -> Result<()> {
        let snapshots = if entry.is_snapshot() { Vec::new() } else { self.snapshots_of(&entry.guid) };
        match snapshots.first() {
            Some(snapshot) => Err(EngineError::Statement(errors::DATABASE_HAS_SNAPSHOTS.with([&snapshot.name]))),
            None => Ok(()),
        }
    }
}

impl Instance {
    /// Refuses to drop a snapshot to which its source is being reverted: it has the only good pages.
    ///
    /// # Errors
    /// 3702.
    pub(super) fn refuse_last_copy(&self, entry: &Entry) -> Result<()> {
        let has_copies = entry.copies().is_some_and(|copies| copies.problem().is_none());
        let source = if has_copies { self.registry.source_of(&entry.guid) } else { None };
        let is_restoring =
            |source: &Arc<Entry>| source.state_unless_opening().is_some_and(|state| state.is_restoring());
        match source.filter(is_restoring) {
            Some(source) => Err(EngineError::Statement(
                errors::DATABASE_IN_USE
                    .with([&entry.name, &format_args!(": database '{}' is being restored from it", source.name)]),
            )),
            None => Ok(()),
        }
    }
}

/// A file beside the first copy file of a snapshot: its log, or its overlay.
fn beside(first: &std::path::Path, what: &str, is_free: &dyn Fn(&std::path::Path) -> bool) -> PathBuf {
    let stem = first.file_stem().map_or_else(Default::default, |stem| stem.to_string_lossy().into_owned());
    let usual = first.with_file_name(format!("{stem}_{what}.ss"));
    let numbered = (2..).map(|number: u32| first.with_file_name(format!("{stem}_{what}_{number}.ss")));
    let mut candidates = std::iter::once(usual).chain(numbered);
    candidates.find(|path| is_free(path)).expect("one of endlessly many names is free")
}
