//! `CREATE DATABASE … AS SNAPSHOT OF`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hobt_base::{DatabaseId, FileId, Lsn, PAGE_SIZE, errors};
use hobt_catalog::{DatabaseFileRow, DatabaseRow, Text, Timestamp, name_equals};
use hobt_disk::{CopyGuard, DiskFile, FormerBlocks, FormerIdentity};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::Mutex;
use hobt_instruments::time_of_day;
use hobt_log::{ChainState, RoomFor};

use super::log::{LogCopy, plan_like};
use super::{Copies, beside};
use crate::definition::check_name;
use crate::error::{EngineError, Result, cannot_create};
use crate::instance::backup::without_backup;
use crate::instance::create::{delete_database, is_system, new_guid, take_id};
use crate::instance::overlay_file::OVERLAY_FILE;
use crate::instance::plan::in_use;
use crate::instance::registry::{Entry, EntryState};
use crate::instance::{DatabaseUse, Instance};
use crate::isolation::{IsolationOptions, SNAPSHOT};
use crate::log_file::FIRST_LOG_FILE;

/// The bytes that the log of a snapshot begins with.
const LOG_BYTES: u64 = 4 << 20;

/// `CREATE DATABASE … AS SNAPSHOT OF`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotDefinition {
    /// Its name.
    pub name: String,
    /// The database that it shows.
    pub source: String,
    /// The logical names of the source's data files, and the paths of the copy files.
    pub files: Vec<(String, PathBuf)>,
}

/// Copies by the ids of their files.
type FileCopies = Vec<(FileId, Arc<FormerBlocks>)>;

/// What was made for a snapshot.
struct Made {
    copies: FileCopies,
    log: PathBuf,
}

impl Instance {
    /// Makes a snapshot of a database, and holds it. The source is in use meanwhile. Blocks while it is saved.
    ///
    /// # Errors
    /// 1801 the name is taken, 911 the source does not exist, 1822 it can have no snapshots, 3023 a backup of it runs,
    /// 5014 it has no such file, 5127 a file of it is not named, 1828 one is named twice, 1834, 5123, 5170 a path; 823,
    /// 9002 and others if the source cannot be saved. Nothing is left then.
    pub fn create_snapshot(&self, definition: &SnapshotDefinition) -> Result<DatabaseUse> {
        let _alone = self.definitions.lock();
        check_name(&definition.name)?;
        if self.registry.named(&definition.name).is_some() {
            return Err(EngineError::Statement(errors::DATABASE_EXISTS.with([&definition.name])));
        }
        let source = self.database(&definition.source)?;
        if is_system(source.id()) || source.is_over_others() {
            return Err(EngineError::Statement(errors::NO_SNAPSHOT_OF.with([&source.name()])));
        }
        let _no_backup = without_backup(&source)?;
        let paths = self.place_copies(definition, &source)?;
        let id = take_id(&self.next_database)?;
        let made = self.copy_source(&source, id, &paths)?;
        let first = paths.first().map(|(_, path)| path.clone()).unwrap_or_default();
        let overlay = beside(&first, "undo", &|path| !self.disk.exists(path) && self.owner_of(path).is_none());
        let entry = self.entry_of_snapshot(definition, &source, id, (paths, made, overlay));
        if let Err(error) = self.list_snapshot(&entry) {
            // If the list in master is uncertain, master may list the snapshot after its recovery.
            if self.master().is_ok_and(|master| master.check_usable().is_ok()) {
                self.forget_snapshot(&entry);
            }
            return Err(error);
        }
        self.registry.insert(entry);
        let opened = self.database_by_id(id);
        if opened.is_err() {
            // The first error is the one to report.
            let _gone = self.drop_snapshot(id);
        }
        opened
    }

    /// The paths of the copy files, by the ids of the source's files.
    fn place_copies(&self, definition: &SnapshotDefinition, source: &DatabaseUse) -> Result<Vec<(FileId, PathBuf)>> {
        let files = source.storage().files();
        let mut paths: Vec<(FileId, PathBuf)> = Vec::new();
        for (logical, path) in &definition.files {
            let file = files.iter().find(|file| name_equals(file.name(), logical));
            let unknown = || EngineError::Statement(errors::NO_SUCH_FILE_OF.with([logical, &source.name()]));
            let id = file.ok_or_else(unknown)?.id();
            if paths.iter().any(|(known, _)| *known == id) {
                return Err(EngineError::Statement(errors::FILE_NAME_IN_USE.with([logical])));
            }
            let placed = self.allowed.place(&*self.disk, path)?;
            if let Some(owner) = self.owner_of(&placed) {
                return Err(in_use(&placed, &owner));
            }
            if paths.iter().any(|(_, taken)| *taken == placed) {
                return Err(in_use(&placed, &definition.name));
            }
            if self.disk.exists(&placed) && !self.remove_unlisted_copy(&placed, &source.guid()) {
                return Err(EngineError::Statement(errors::FILE_EXISTS.with([&placed.display()])));
            }
            paths.push((id, placed));
        }
        paths.sort();
        match files.iter().find(|file| paths.iter().all(|(id, _)| *id != file.id())) {
            Some(missing) => Err(EngineError::Statement(errors::SNAPSHOT_FILE_MISSING.with([&missing.name()]))),
            None => Ok(paths),
        }
    }

    /// Removes a copy file of a database that a crash has left before `master` listed its snapshot.
    fn remove_unlisted_copy(&self, path: &Path, source: &[u8; 16]) -> bool {
        self.is_copy_of(path, source) && self.disk.remove(path).is_ok()
    }

    /// Whether a file is a copy file of the database with this guid.
    fn is_copy_of(&self, path: &Path, source: &[u8; 16]) -> bool {
        matches!(FormerIdentity::at(&*self.disk, path), Ok(Some(found)) if found.owner == *source)
    }

    /// Makes the copy files and the log, and has the source pass by the copies from one moment on.
    fn copy_source(&self, source: &DatabaseUse, id: DatabaseId, paths: &[(FileId, PathBuf)]) -> Result<Made> {
        // The headers say that the log is needed. What recovery has to do is little after a checkpoint.
        source.note_unclean()?;
        source.checkpoint()?;
        let guards = source.guards();
        let closed = || EngineError::Statement(errors::NO_SNAPSHOT_OF.with([&source.name()]));
        let log = source.storage().log().ok_or_else(closed)?.log();
        let (_hold, start) = log.hold().ok_or_else(closed)?;
        let (copies, end) = self.begin_to_copy(source, &guards, paths)?;
        let first = paths.first().map(|(_, path)| path.clone()).unwrap_or_default();
        let path = beside(&first, "log", &|path| !self.disk.exists(path) && self.owner_of(path).is_none());
        let made = Made { copies, log: path };
        let copied = if log.durable() < end { log.flush_for(RoomFor::Checkpoint, Lsn(end.0 - 1)) } else { Ok(()) };
        let copied = copied.map_err(|error| source.storage_error(error.into())).and_then(|()| {
            let copy = LogCopy { from: log, start, end, chain: ChainState::default() };
            let guid = source.guid();
            self.copy_log_to(plan_like(log, &made.log, LOG_BYTES), &copy, &self.parts.log_owner(id, &guid))
        });
        let all: Vec<&Path> = paths.iter().map(|(_, path)| path.as_path()).chain([made.log.as_path()]).collect();
        if let Err(error) = copied.and_then(|()| self.sync_folders(&all)) {
            made.copies.iter().for_each(|(_, copy)| copy.retire());
            self.remove_files(all.into_iter());
            return Err(error);
        }
        Ok(made)
    }

    /// Makes the copy files, and arms them at one moment. Returns the end of the log at that moment.
    fn begin_to_copy(
        &self,
        source: &DatabaseUse,
        guards: &[(FileId, Arc<CopyGuard>)],
        paths: &[(FileId, PathBuf)],
    ) -> Result<(FileCopies, Lsn)> {
        let of = |id: FileId| guards.iter().find(|(known, _)| *known == id).map(|(_, guard)| guard);
        let salt = u64::from_le_bytes(*new_guid().first_chunk().expect("sixteen bytes"));
        loop {
            let mut copies = FileCopies::new();
            let forget = |copies: &[(FileId, Arc<FormerBlocks>)]| {
                copies.iter().for_each(|(_, copy)| copy.retire());
                self.remove_files(copies.iter().map(|(_, copy)| copy.path()));
            };
            for (id, path) in paths {
                let size = of(*id).map_or(Ok(0), |guard| guard.size()).inspect_err(|_| forget(&copies))?;
                let identity =
                    FormerIdentity { owner: source.guid(), file: id.0, salt, blocks: size / PAGE_SIZE as u64 };
                match FormerBlocks::create(&self.disk, path, identity) {
                    Ok(copy) => copies.push((*id, copy)),
                    Err(error) => {
                        forget(&copies);
                        return Err(cannot_create(path, &error));
                    }
                }
            }
            // The moment: all guards are held, so no file is written to.
            let mut held: Vec<_> = copies
                .iter()
                .filter_map(|(id, copy)| Some((of(*id)?, copy)))
                .map(|(guard, copy)| (guard, guard.hold(), copy))
                .collect();
            let is_grown = held.iter().any(|(guard, _, copy)| {
                guard.size().map_or(true, |size| size / PAGE_SIZE as u64 != copy.identity().blocks)
            });
            if is_grown {
                drop(held);
                forget(&copies);
                continue;
            }
            let end = source.storage().log().map_or(Lsn(0), |log| log.log().end());
            for (_, held, copy) in &mut held {
                held.arm(Arc::clone(*copy));
            }
            drop(held);
            return Ok((copies, end));
        }
    }

    fn entry_of_snapshot(
        &self,
        definition: &SnapshotDefinition,
        source: &DatabaseUse,
        id: DatabaseId,
        (paths, made, overlay): (Vec<(FileId, PathBuf)>, Made, PathBuf),
    ) -> Entry {
        let options = source.options();
        Entry {
            id,
            name: definition.name.clone(),
            guid: source.guid(),
            created: time_of_day(),
            isolation: Arc::new(IsolationOptions::of_bits(source.isolation().bits())),
            options: Mutex::new(crate::options::DatabaseOptions { is_read_only: true, ..options }),
            files: Mutex::new(paths),
            logs: Mutex::new(vec![(FIRST_LOG_FILE, made.log)]),
            overlay: Mutex::new(Some(overlay)),
            copies: Some(Mutex::new(Copies::Open(made.copies))),
            removed: Mutex::default(),
            is_opening: Default::default(),
            state: Ranked::new(Rank::DatabaseState, Mutex::new(EntryState::Closed(Vec::new()))),
        }
    }

    fn list_snapshot(&self, entry: &Entry) -> Result<()> {
        let id = entry.id.0.cast_signed();
        let row = DatabaseRow {
            id,
            name: entry.name.clone(),
            guid: entry.guid,
            created: Timestamp(entry.created),
            isolation: entry.isolation.bits() | SNAPSHOT,
            is_offline: false,
        };
        let listed = |file: i16, is_log: bool, path: &Path| DatabaseFileRow {
            database: id,
            file,
            is_log,
            is_removed: false,
            path: Text(self.allowed.stored(path)),
        };
        let mut rows = Vec::new();
        for (file, path) in entry.files.lock().iter() {
            rows.push(listed(file.0.cast_signed(), false, path));
        }
        for (file, path) in entry.logs.lock().iter() {
            rows.push(listed(file.0.cast_signed(), true, path));
        }
        if let Some(path) = &*entry.overlay.lock() {
            rows.push(listed(OVERLAY_FILE, false, path));
        }
        self.master()?.change_and_save(|heaps, ctx| {
            heaps.insert(ctx, &row)?;
            rows.iter().try_for_each(|row| heaps.insert(ctx, row))
        })
    }

    /// Removes what a snapshot that is not listed has.
    pub(in crate::instance) fn forget_snapshot(&self, entry: &Entry) {
        let copies = entry.copies();
        if let Some(copies) = &copies {
            copies.retire();
        }
        // The place of a copy that was lost may have another file by now.
        let is_held = |path: &Path| match &copies {
            Some(Copies::Open(open)) => open.iter().any(|(_, copy)| copy.path() == path && copy.lost().is_none()),
            _ => false,
        };
        let is_its = |path: &Path| is_held(path) || self.is_copy_of(path, &entry.guid);
        let (mut files, logs) = (entry.files.lock().clone(), entry.logs.lock().clone());
        files.retain(|(_, path)| is_its(path));
        self.remove_files(logs.iter().chain(&files).map(|(_, path)| path.as_path()));
        self.drop_overlay_file(entry);
    }

    /// Drops a snapshot that was just made and cannot be opened.
    fn drop_snapshot(&self, id: DatabaseId) -> Result<()> {
        let Some(entry) = self.registry.all().into_iter().find(|entry| entry.id == id) else { return Ok(()) };
        let Some(transition) = self.take_unused(id) else { return Ok(()) };
        let number = id.0.cast_signed();
        self.master()?.change_and_save(|heaps, ctx| delete_database(heaps, ctx, number))?;
        transition.remove();
        self.forget_snapshot(&entry);
        Ok(())
    }
}
