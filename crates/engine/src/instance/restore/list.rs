//! How `master` lists a database that is being restored.

use std::path::PathBuf;
use std::sync::Arc;

use hobt_base::{DatabaseId, FileId};
use hobt_catalog::{DatabaseFileRow, DatabaseRow, Text, Timestamp};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::Mutex;

use crate::database::DatabaseState;
use crate::error::{Result, of_catalog};
use crate::instance::create::delete_database;
use crate::instance::overlay_file::OVERLAY_FILE;
use crate::instance::registry::{Entry, EntryState};
use crate::instance::{DatabaseUse, Instance, does_not_exist};
use crate::isolation::{IsolationOptions, RESTORING, STANDBY};

/// What `master` has of a database that is being restored.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    pub(super) id: DatabaseId,
    pub(super) name: String,
    pub(super) guid: [u8; 16],
    pub(super) created: i64,
    /// The isolation options, without what says that it is being restored.
    pub(super) isolation: i32,
    pub(super) files: Vec<(FileId, PathBuf)>,
    pub(super) logs: Vec<(FileId, PathBuf)>,
}

impl Listing {
    /// What is listed of a database now.
    pub(super) fn of(entry: &Entry) -> Listing {
        Listing {
            id: entry.id,
            name: entry.name.clone(),
            guid: entry.guid,
            created: entry.created,
            isolation: entry.isolation.bits() & !(RESTORING | STANDBY),
            files: entry.files.lock().clone(),
            logs: entry.logs.lock().clone(),
        }
    }

    /// The entry of a database that is being restored.
    pub(super) fn entry(&self) -> Entry {
        Entry {
            id: self.id,
            name: self.name.clone(),
            guid: self.guid,
            created: self.created,
            isolation: Arc::new(IsolationOptions::of_bits(self.isolation)),
            options: Mutex::default(),
            files: Mutex::new(self.files.clone()),
            logs: Mutex::new(self.logs.clone()),
            overlay: Mutex::default(),
            copies: None,
            removed: Mutex::default(),
            is_opening: Default::default(),
            state: Ranked::new(Rank::DatabaseState, Mutex::new(EntryState::restoring())),
        }
    }
}

impl EntryState {
    /// The state of a database that is being restored.
    pub(in crate::instance) fn restoring() -> EntryState {
        EntryState::Unavailable { state: DatabaseState::Restoring, reason: "it is being restored".to_owned() }
    }

    /// Whether the database is being restored.
    pub(in crate::instance) fn is_restoring(&self) -> bool {
        matches!(self, EntryState::Unavailable { state: DatabaseState::Restoring, .. })
    }
}

impl Instance {
    /// Lists a database, in place of what is listed of it, durably.
    pub(super) fn list_restoring(&self, master: &DatabaseUse, listing: &Listing, is_restoring: bool) -> Result<()> {
        let id = listing.id.0.cast_signed();
        let row = DatabaseRow {
            id,
            name: listing.name.clone(),
            guid: listing.guid,
            created: Timestamp(listing.created),
            isolation: listing.isolation | if is_restoring { RESTORING } else { 0 },
            is_offline: false,
        };
        master.change_and_save(|heaps, ctx| {
            delete_database(heaps, ctx, id)?;
            heaps.insert(ctx, &row)?;
            let files = listing.files.iter().map(|file| (file, false));
            files.chain(listing.logs.iter().map(|file| (file, true))).try_for_each(|((file, path), is_log)| {
                let path = Text(self.allowed.stored(path));
                let file = file.0.cast_signed();
                heaps.insert(ctx, &DatabaseFileRow { database: id, file, is_log, is_removed: false, path })
            })
        })
    }

    /// Records in `master` whether a database is being restored, and that it is no standby, durably.
    pub(in crate::instance) fn note_restoring(&self, entry: &Entry, is_restoring: bool) -> Result<()> {
        let master = self.master()?;
        let id = entry.id.0.cast_signed();
        let (rows, _) = master.listed_databases().map_err(|error| of_catalog("master", error))?;
        let row = rows.into_iter().find(|row| row.id == id).ok_or_else(|| does_not_exist(&entry.name))?;
        let bits = row.isolation & !(RESTORING | STANDBY);
        let row = DatabaseRow { isolation: bits | if is_restoring { RESTORING } else { 0 }, ..row };
        master.change_and_save(|heaps, ctx| {
            heaps.delete(ctx, |row: &DatabaseFileRow| row.database == id && row.file == OVERLAY_FILE)?;
            heaps.delete(ctx, |row: &DatabaseRow| row.id == id)?;
            heaps.insert(ctx, &row)
        })
    }
}
