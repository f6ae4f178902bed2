//! `RESTORE DATABASE` of a backup of the whole: makes the files, or overwrites those of another database.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hobt_backup::{Reading, SetFacts, SetKind, SetReader};
use hobt_base::{FileId, FilegroupId, Lsn, SqlError, errors};
use hobt_catalog::Growth;
use hobt_disk::{DiskError, OpenOptions, SIMULATED};
use hobt_instruments::WaitType;
use hobt_instruments::schedule::Mutex;
use hobt_log::{ChainState, Log};
use hobt_page::{BootPage, FileHeader};
use hobt_txn::TransactionLog;

use super::list::Listing;
use super::pages::{RestoreProgress, Target, restore_pages};
use super::point::{StopSearch, check_stop};
use super::{Outcome, RestoreRequest, Source};
use crate::data_file::{DataFile, FilePlan, is_of_another};
use crate::database::DatabaseState;
use crate::definition::check_name;
use crate::error::{EngineError, Result, cannot_create};
use crate::instance::Instance;
use crate::instance::backup::of_read;
use crate::instance::create::{is_system, new_guid, take_id, untold_participants};
use crate::instance::registry::{Entry, EntryState, Transition};
use crate::instance::workers::{Others, work_together};
use crate::log_file::{self, LogFilePlan};
use crate::options::{DatabaseOptions, RecoveryModel};

/// The generation of restored files: another than that of files that were never used.
const GENERATION: u64 = 1;

/// Where the files of a restored database go.
pub(super) struct Places {
    pub(super) files: Vec<(FileId, PathBuf)>,
    pub(super) logs: Vec<(FileId, PathBuf)>,
}

impl Instance {
    pub(super) fn restore_database(&self, request: &RestoreRequest<'_>, source: &Source<'_>) -> Result<Outcome> {
        let facts = source.facts();
        check_name(request.name)?;
        check_stop(request.stop.as_ref(), facts.last_commit.max(facts.started), Lsn(facts.last))?;
        let is_new = self.registry.named(request.name).is_none();
        let (listing, transition) = self.begin_to_restore(request, facts)?;
        let restored = self.restore_files(request, source, &listing);
        if restored.is_err() && is_new {
            // A database that was there before is left restoring: its files are overwritten.
            self.forget_restored(&listing, transition);
        } else {
            drop(transition);
        }
        restored
    }

    /// Lists the database as being restored, and keeps others away from it. From here on what it was is gone.
    fn begin_to_restore(&self, request: &RestoreRequest<'_>, facts: &SetFacts) -> Result<(Listing, Transition<'_>)> {
        let _alone = self.definitions.lock();
        let master = self.master()?;
        let existing = self.registry.named(request.name);
        if let Some(entry) = &existing {
            self.check_overwritten(request, facts, entry)?;
            self.tell_before_overwriting(entry)?;
        }
        let places = self.places_of(request, facts, existing.as_deref())?;
        let id = match &existing {
            Some(entry) => entry.id,
            None => take_id(&self.next_database)?,
        };
        let listing = Listing {
            id,
            name: existing.as_ref().map_or_else(|| request.name.to_owned(), |entry| entry.name.clone()),
            guid: self.guid_for(facts, existing.as_deref()),
            created: facts.database_created,
            isolation: facts.isolation & 3,
            files: places.files,
            logs: places.logs,
        };
        let transition = match &existing {
            Some(entry) => {
                let in_use = || EngineError::Statement(errors::RESTORE_IN_USE.error());
                let transition = self.take_unused(entry.id).ok_or_else(in_use)?;
                self.list_restoring(&master, &listing, true)?;
                self.forget_page_restore(entry);
                let before = std::mem::replace(&mut *entry.state.lock(), EntryState::restoring());
                if let EntryState::Open(database) = before {
                    // Nothing of it is needed any more.
                    let _left = database.abandon();
                }
                self.remove_overwritten(entry);
                self.registry.replace(listing.entry());
                transition
            }
            None => {
                self.list_restoring(&master, &listing, true)?;
                self.registry.insert_in_transition(listing.entry())
            }
        };
        Ok((listing, transition))
    }

    /// Whether a database that exists may be overwritten.
    fn check_overwritten(&self, request: &RestoreRequest<'_>, facts: &SetFacts, entry: &Entry) -> Result<()> {
        if is_system(entry.id) {
            return Err(EngineError::Statement(errors::RESTORE_OF_MASTER.with([&entry.name])));
        }
        if entry.is_snapshot() {
            return Err(EngineError::Statement(errors::BACKUP_OF_SNAPSHOT.error()));
        }
        self.registry.refuse_source(entry)?;
        let is_restoring = entry.is_standby() || entry.state.lock().is_restoring();
        if request.replaces {
            return Ok(());
        }
        if entry.guid[..4] != facts.database_guid.0[..4] {
            return Err(EngineError::Statement(errors::RESTORE_OTHER_DATABASE.with([&entry.name])));
        }
        if is_restoring || request.stop.is_some() {
            return Ok(());
        }
        // A database that cannot be opened has nothing that could be backed up otherwise.
        let Ok(database) = self.database_by_id(entry.id) else { return Ok(()) };
        let options = database.options();
        // Where no backup of the log can follow, as after a restore, all of it is the tail.
        let keeps_all = options.recovery_model != RecoveryModel::Simple;
        let has_tail = database.storage().log().is_some_and(|log| {
            let chain = log.log().chain().unwrap_or_default();
            keeps_all && (!options.keeps_log() || log.log().end() > chain.from)
        });
        match has_tail {
            true => Err(EngineError::Statement(errors::TAIL_NOT_BACKED_UP.with([&entry.name]))),
            false => Ok(()),
        }
    }

    /// Makes sure that what the database has decided for others is known there: it is gone with its log. A database
    /// that is in use meanwhile is refused next.
    pub(super) fn tell_before_overwriting(&self, entry: &Entry) -> Result<()> {
        self.stop_background(Some(entry.id));
        let untold = self.registry.tell_participants(&self.parts, entry);
        if untold.is_empty() {
            return Ok(());
        }
        let why = untold_participants(&untold);
        Err(EngineError::Statement(errors::RESTORE_UNTOLD.with([&entry.name, &why])))
    }

    /// The guid of the restored database: that of the backup, unless another database has it. The first bytes are in
    /// every page.
    fn guid_for(&self, facts: &SetFacts, existing: Option<&Entry>) -> [u8; 16] {
        let guid = facts.database_guid.0;
        let is_taken = |entry: &Arc<Entry>| {
            entry.guid == guid && !entry.is_snapshot() && existing.is_none_or(|existing| existing.id != entry.id)
        };
        if !self.registry.all().iter().any(is_taken) {
            return guid;
        }
        let mut other = new_guid();
        other[..4].copy_from_slice(&guid[..4]);
        other
    }

    /// Where one file of a backup goes: where `MOVE` says, or where it was. Not to one of `taken`.
    pub(super) fn place_of(
        &self,
        request: &RestoreRequest<'_>,
        existing: Option<&Entry>,
        (name, path): (&str, &str),
        taken: &[PathBuf],
    ) -> Result<PathBuf> {
        let moved = request.moves.iter().find(|(moved, _)| hobt_catalog::name_equals(moved, name));
        let wanted = moved.map_or_else(|| PathBuf::from(path), |(_, path)| path.clone());
        let refuse = |why: &dyn std::fmt::Display| {
            EngineError::Statement(errors::RESTORE_FILE_PLACE.with([&name, &wanted.display(), why]))
        };
        let placed = self.allowed.place(&*self.disk, &wanted).map_err(|error| refuse(&error))?;
        if let Some(owner) = self.owner_of(&placed)
            && existing.is_none_or(|existing| existing.name != owner)
        {
            return Err(refuse(&format_args!("it is a file of database '{owner}'")));
        }
        let is_own = existing.is_some_and(|existing| {
            let (files, logs) = (existing.files.lock(), existing.logs.lock());
            files.iter().chain(logs.iter()).any(|(_, path)| *path == placed)
        });
        if self.backup_paths(request.paths, false)?.contains(&placed) {
            return Err(refuse(&"it is a file of the backup"));
        }
        if self.disk.exists(&placed) && !is_own && !request.replaces {
            return Err(refuse(&"the file exists, and REPLACE is not given"));
        }
        if !is_own && self.is_used_elsewhere(&placed) {
            return Err(refuse(&"it is in use"));
        }
        if taken.contains(&placed) {
            return Err(refuse(&"another file of the database goes there"));
        }
        Ok(placed)
    }

    /// Whether a file is there and is locked: a backup that is being written, or a file of another instance, which
    /// would go on with files that no longer have a name.
    fn is_used_elsewhere(&self, path: &Path) -> bool {
        let options = OpenOptions { create_new: false, read_only: false, direct: true };
        let Ok(file) = self.disk.open(path, options) else { return false };
        matches!(file.try_lock_exclusive(), Err(DiskError::Locked { .. }))
    }

    /// Refuses `MOVE` of a file that the backup does not list.
    pub(super) fn check_moves(request: &RestoreRequest<'_>, facts: &SetFacts) -> Result<()> {
        let names = || facts.files.iter().map(|file| &file.name).chain(facts.logs.iter().map(|log| &log.name));
        match request.moves.iter().find(|(moved, _)| !names().any(|name| hobt_catalog::name_equals(name, moved))) {
            Some((moved, _)) => Err(EngineError::Statement(errors::MOVE_UNKNOWN_FILE.with([moved, &facts.database]))),
            None => Ok(()),
        }
    }

    /// Where the files go: where `MOVE` says, or where they were.
    pub(super) fn places_of(
        &self,
        request: &RestoreRequest<'_>,
        facts: &SetFacts,
        existing: Option<&Entry>,
    ) -> Result<Places> {
        Instance::check_moves(request, facts)?;
        let mut taken: Vec<PathBuf> = Vec::new();
        let mut place = |name: &str, path: &str| -> Result<PathBuf> {
            let placed = self.place_of(request, existing, (name, path), &taken)?;
            taken.push(placed.clone());
            Ok(placed)
        };
        let mut files = Vec::new();
        for file in &facts.files {
            files.push((FileId(file.id), place(&file.name, &file.path)?));
        }
        let mut logs = Vec::new();
        for log in &facts.logs {
            logs.push((FileId(log.id), place(&log.name, &log.path)?));
        }
        files.sort();
        logs.sort();
        if files.first().is_none_or(|(id, _)| *id != FileId(1)) || logs.is_empty() {
            let why = "it lists no primary file, or no log";
            return Err(EngineError::Statement(errors::BACKUP_SET_DAMAGED.with([&why])));
        }
        Ok(Places { files, logs })
    }

    /// Removes the files of a database that is overwritten.
    fn remove_overwritten(&self, entry: &Entry) {
        let (files, logs) = (entry.files.lock().clone(), entry.logs.lock().clone());
        let all: Vec<&Path> = files.iter().chain(&logs).map(|(_, path)| path.as_path()).collect();
        // Another database may have got a place of it while it was OFFLINE.
        let is_own = |path: &&Path| !is_of_another(&*self.disk, path, &entry.guid);
        self.remove_files(all.into_iter().filter(is_own));
        self.drop_overlay_file(entry);
    }

    /// Makes the files and writes everything that the backup has.
    fn restore_files(&self, request: &RestoreRequest<'_>, source: &Source<'_>, listing: &Listing) -> Result<Outcome> {
        let facts = source.facts();
        let reader = SetReader::new(source.media, source.place, Reading::Whole).map_err(of_read)?;
        let progress = RestoreProgress { observe: request.observe, done: AtomicU64::new(0), all: facts.bytes };
        let mut files = Vec::new();
        for fact in &facts.files {
            let (_, path) = listing.files.iter().find(|(id, _)| id.0 == fact.id).expect("placed before");
            let plan = FilePlan {
                file: FileId(fact.id),
                filegroup: FilegroupId(fact.filegroup),
                name: fact.name.clone(),
                path: path.clone(),
                size_pages: fact.pages,
                growth: growth_of(fact.growth_pages, fact.growth_percent),
                max_pages: (fact.pages_max > 0).then_some(fact.pages_max),
            };
            // A file that is in the way may be overwritten, or it would have been refused.
            let _gone = self.disk.remove(path);
            let file = DataFile::create_without_header(&*self.disk, &plan, listing.guid);
            files.push(file.map_err(|error| cannot_create(path, &error))?);
        }
        let target = Target {
            files: files.iter().map(|file| (file.header.file.0, (file.disk.clone(), file.header.size_pages))).collect(),
            database_tag: files[0].header.database_tag(),
            is_simulated: self.disk.kind() == SIMULATED,
        };
        let (boot, log) = self.restore_pages_beside_log(source, listing, &reader, &target, &progress)?;
        let filled = self.fill_first_log(source, &reader, &progress, log.log(), Lsn(facts.last));
        log.log().close();
        filled?;
        self.complete(listing, facts, &mut files, boot)?;
        let paths: Vec<&Path> = listing.files.iter().chain(&listing.logs).map(|(_, path)| path.as_path()).collect();
        self.sync_folders(&paths)?;
        Ok(Outcome { ends_before_stop: request.stop.is_some() })
    }

    /// Makes the log, with the records that the backup has. Until it reaches `floor` the database is not recovered.
    pub(super) fn restore_first_log(
        &self,
        source: &Source<'_>,
        listing: &Listing,
        reader: &SetReader,
        progress: &RestoreProgress<'_>,
        floor: Lsn,
    ) -> Result<()> {
        let log = self.make_first_log(source, listing, &AtomicBool::new(false))?;
        let filled = self.fill_first_log(source, reader, progress, log.log(), floor);
        log.log().close();
        filled
    }

    /// Writes all pages, and makes the log meanwhile: filling its files with zeros takes as long as writing so many
    /// pages.
    fn restore_pages_beside_log(
        &self,
        source: &Source<'_>,
        listing: &Listing,
        reader: &SetReader,
        target: &Target,
        progress: &RestoreProgress<'_>,
    ) -> Result<(Option<BootPage>, Arc<TransactionLog>)> {
        // When one fails, the other one is given up.
        let (pages_failed, log_failed) = (AtomicBool::new(false), AtomicBool::new(false));
        let (mut boot, log) = (None, Mutex::new(None));
        let make_log = || {
            let made = self.make_first_log(source, listing, &pages_failed);
            *log.lock() = Some(made.inspect_err(|_| log_failed.store(true, Ordering::Relaxed))?);
            Ok(())
        };
        let mut write_pages = |others: &Others| {
            boot = restore_pages(reader, target, progress, &log_failed)?;
            others.wait(WaitType::BackupIo, &mut || progress.report())
        };
        let own = |others: &Others| {
            write_pages(others).inspect_err(|_| pages_failed.store(true, Ordering::Relaxed))?;
            if others.count == 0 { make_log() } else { Ok(()) }
        };
        // One thread in a simulation, so that the order of operations is the same in every run.
        let makers = usize::from(!target.is_simulated);
        work_together(("restore log", 0..makers), &AtomicBool::new(false), |_| make_log(), own)?;
        Ok((boot, log.into_inner().expect("a log that is not made is an error")))
    }

    /// Makes the files of the log, empty, for records as they are in the backup. Blocks while they are filled with
    /// zeros, unless it `is_over`.
    fn make_first_log(
        &self,
        source: &Source<'_>,
        listing: &Listing,
        is_over: &AtomicBool,
    ) -> Result<Arc<TransactionLog>> {
        let facts = source.facts();
        let mut plans = Vec::new();
        for fact in &facts.logs {
            let (file, path) = listing.logs.iter().find(|(id, _)| id.0 == fact.id).expect("placed before").clone();
            let _gone = self.disk.remove(&path);
            let (bytes, growth_bytes, bytes_max) = (fact.bytes, fact.growth_bytes, fact.bytes_max);
            plans.push(LogFilePlan { file, name: fact.name.clone(), path, bytes, growth_bytes, bytes_max });
        }
        plans.sort_by_key(|plan| plan.file);
        let owner = self.parts.log_owner(listing.id, &listing.guid);
        let made = log_file::create_at(Lsn(facts.first), &*self.disk, &plans, &owner, is_over);
        made.map_err(|(path, error)| cannot_create(&path, &error))
    }

    /// Notes what the log is, and appends the records of the backup.
    fn fill_first_log(
        &self,
        source: &Source<'_>,
        reader: &SetReader,
        progress: &RestoreProgress<'_>,
        log: &Arc<Log>,
        floor: Lsn,
    ) -> Result<()> {
        let facts = source.facts();
        let base = if facts.kind == SetKind::Differential { &facts.base } else { &facts.guid };
        let chain = ChainState {
            from: Lsn(0),
            floor,
            fork: facts.fork.0,
            time: facts.last_commit.max(facts.started),
            // A differential backup is of the backup of the whole too, on which later ones build.
            base: u64::from_le_bytes(*base.0.first_chunk().expect("sixteen bytes")),
        };
        log.set_chain(chain)?;
        let mut search = StopSearch::new(None);
        super::log::append_log(source, reader, log, &mut search, progress)?;
        let start = source.recovery_start();
        if start.redo < log.durable() {
            log.set_recovery_start(start)?;
        }
        Ok(())
    }

    /// Writes boot page and headers: from here on the files are those of a database.
    pub(super) fn complete(
        &self,
        listing: &Listing,
        facts: &SetFacts,
        files: &mut [DataFile],
        boot: Option<BootPage>,
    ) -> Result<()> {
        let no_boot = || EngineError::Statement(errors::BACKUP_SET_DAMAGED.with([&"it has no boot page"]));
        let boot = boot.ok_or_else(no_boot)?;
        let options = DatabaseOptions { has_log_chain: false, ..DatabaseOptions::decode(boot.options) };
        let boot =
            BootPage { database_guid: listing.guid, name: listing.name.clone(), options: options.encode(), ..boot };
        let first = files.iter().find(|file| file.header.file == FileId(1)).ok_or_else(no_boot)?;
        first.write_boot(&boot)?;
        for file in files {
            let pages = facts.files.iter().find(|fact| fact.id == file.header.file.0).map_or(0, |fact| fact.pages);
            file.header = FileHeader {
                database_guid: listing.guid,
                size_pages: pages.max(file.header.size_pages),
                clean: false,
                generation: GENERATION,
                ..file.header.clone()
            };
            file.write_header()?;
        }
        Ok(())
    }

    /// Removes what a restore that has failed has made.
    fn forget_restored(&self, listing: &Listing, transition: Transition<'_>) {
        let paths: Vec<&Path> = listing.files.iter().chain(&listing.logs).map(|(_, path)| path.as_path()).collect();
        let unlisted = self.master().and_then(|master| {
            let id = listing.id.0.cast_signed();
            master.change_and_save(|heaps, ctx| crate::instance::create::delete_database(heaps, ctx, id))
        });
        // If the list cannot be changed, it goes on saying that the database is being restored.
        if unlisted.is_ok() {
            transition.remove();
            self.remove_files(paths.into_iter());
        }
    }

    /// A database that is being restored, or is a standby, to which more is restored.
    pub(in crate::instance) fn restoring(&self, name: &str) -> Result<Arc<Entry>> {
        self.restoring_or(name, errors::NO_ROLL_FORWARD.error())
    }

    /// A database that is being restored, or is a standby; any other one is refused with this error.
    pub(in crate::instance) fn restoring_or(&self, name: &str, refusal: SqlError) -> Result<Arc<Entry>> {
        let missing = || EngineError::Statement(errors::RESTORE_NO_DATABASE.with([&name]));
        let entry = self.registry.named(name).ok_or_else(missing)?;
        let is_restoring = entry.state_unless_opening().is_some_and(|state| state.is_restoring());
        let is_standby = entry.is_standby();
        match is_restoring || is_standby {
            true => Ok(entry),
            false => Err(EngineError::Statement(refusal)),
        }
    }

    /// Opens the data files of a database that is being restored.
    pub(super) fn open_restoring(&self, entry: &Entry) -> Result<Vec<DataFile>> {
        match crate::instance::start::inspect(&*self.disk, &entry.files.lock(), entry.guid) {
            EntryState::Closed(files) => Ok(files),
            EntryState::Unavailable { reason, .. } => Err(EngineError::Unavailable {
                database: entry.name.clone(),
                state: DatabaseState::RecoveryPending,
                reason: format!("it was not restored whole: {reason}"),
            }),
            EntryState::Open(_) => Err(EngineError::Statement(errors::NO_ROLL_FORWARD.error())),
        }
    }
}

pub(super) fn growth_of(pages: u32, percent: u32) -> Growth {
    match (pages, percent) {
        (0, 0) => Growth::None,
        (0, percent) => Growth::Percent(percent),
        (pages, _) => Growth::Pages(pages),
    }
}
