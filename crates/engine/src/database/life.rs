//! Creating, opening and closing a database.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use hobt_access::{AccessError, AskCoordinator, RecoverySummary, Storage, StorageSettings};
use hobt_base::{DatabaseId, FileId, FilegroupId, HobtId, Lsn};
use hobt_buffer::BufferPool;
use hobt_catalog::{CatalogError, DatabaseIdentity, FIRST_SCHEME_ID, Filegroup, Schema, SystemHeaps};
use hobt_disk::{Disk, DiskError, Overlay};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::{Mutex, RwLock};
use hobt_log::{ChainState, LSN_FIRST, Recovered};
use hobt_page::BootPage;
use hobt_txn::{StatementContext, TransactionLog};

use super::pending::PendingChanges;
use super::recovery_time::RedoRate;
use super::{Database, DatabaseState, Files, Marked, NextIds, Shared};
use crate::data_file::{DataFile, FileProblem};
use crate::error::{EngineError, Result, of_catalog};
use crate::log_file::{self, LogFilePlan, LogOwner};
use crate::options::DatabaseOptions;
use crate::recovery_progress::{Recoveries, RecoveryObserver, RecoveryReports};

/// `master`, whose catalog lists the others.
pub(crate) const MASTER: DatabaseId = DatabaseId(1);
/// `tempdb`, created anew at each start.
pub(crate) const TEMPDB: DatabaseId = DatabaseId(2);

const FIRST_OBJECT_ID: i32 = 245_575_913;
const FIRST_HOBT_ID: u64 = 72_057_594_037_927_936 + (1 << 16);

/// A database to be created.
pub(crate) struct NewDatabase {
    pub(crate) id: DatabaseId,
    pub(crate) name: String,
    pub(crate) guid: [u8; 16],
    pub(crate) created: i64,
    /// PRIMARY first.
    pub(crate) filegroups: Vec<Filegroup>,
    /// With their headers written.
    pub(crate) files: Vec<DataFile>,
    /// Its log, which is empty; `tempdb` has none.
    pub(crate) log: Option<Arc<TransactionLog>>,
}

/// What the storage of a database is built from.
#[derive(Clone)]
pub(crate) struct StorageParts {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) settings: StorageSettings,
    pub(crate) shared: Shared,
    pub(crate) log_ring_bytes: usize,
    pub(crate) checkpoints_by_hand: bool,
    pub(crate) undo_behind_from_bytes: u64,
    pub(crate) on_recovery: Option<RecoveryObserver>,
    pub(crate) recoveries: Arc<Recoveries>,
}

impl StorageParts {
    /// The owner of a log file, for opening or creating it.
    pub(crate) fn log_owner<'a>(&'a self, database: DatabaseId, guid: &'a [u8; 16]) -> LogOwner<'a> {
        LogOwner { database, guid, settlements: &self.shared.settlements, ring_bytes: self.log_ring_bytes }
    }
}

/// A database to be opened.
pub(crate) struct OldDatabase<'a> {
    pub(crate) id: DatabaseId,
    pub(crate) name: &'a str,
    /// By their ids.
    pub(crate) files: Vec<DataFile>,
    /// The files of its log, by their ids.
    pub(crate) logs: &'a [PathBuf],
    /// Data files that `master` lists as removed.
    pub(crate) removed: &'a [FileId],
    /// Answers what became of transactions over several databases.
    pub(crate) ask: AskCoordinator<'a>,
    /// What takes all writes: `files` lie over it already, and the files of the log are to. The database is read-only
    /// then.
    pub(crate) overlay: Option<&'a Overlay>,
    /// It is a snapshot of another database.
    pub(crate) is_snapshot: bool,
}

/// The parts of a database.
struct Parts {
    id: DatabaseId,
    name: String,
    guid: [u8; 16],
    created: i64,
    storage: Arc<Storage>,
    heaps: SystemHeaps,
    files: Files,
    next_ids: NextIds,
    options: DatabaseOptions,
    redo_rate: RedoRate,
    is_over_others: bool,
    is_snapshot: bool,
}

impl Database {
    /// Creates a database in newly created files, and saves it: clean, unless it is `tempdb`.
    ///
    /// # Errors
    /// The disk is full or fails. The caller removes the files.
    pub(crate) fn create(parts: &StorageParts, new: NewDatabase) -> Result<Arc<Database>> {
        let tag = new.files[0].header.database_tag();
        let storage = Storage::new(new.id, tag, Arc::clone(&parts.pool), parts.settings, new.log.clone());
        let made = Database::create_in(parts, new, &storage);
        if made.is_err() {
            // The first error is the one to report. The pool never writes pages of a file that is gone.
            let _ = storage.discard();
        }
        made
    }

    fn create_in(parts: &StorageParts, new: NewDatabase, storage: &Arc<Storage>) -> Result<Arc<Database>> {
        let fail = |error| EngineError::Storage { database: new.name.clone(), filegroup: None, error };
        for file in &new.files {
            storage.create_file(file.description()).map_err(fail)?;
        }
        let ctx = parts.shared.internal_context();
        let heaps = SystemHeaps::create(storage, &ctx, new.id == MASTER)
            .and_then(|heaps| write_first_rows(&heaps, &ctx, &new).map(|()| heaps))
            .map_err(|error| of_catalog(&new.name, error))?;
        ctx.commit().map_err(|error| EngineError::Unavailable {
            database: new.name.clone(),
            state: DatabaseState::Suspect,
            reason: error.to_string(),
        })?;
        let database = Database::assemble(
            parts,
            Parts {
                id: new.id,
                name: new.name,
                guid: new.guid,
                created: new.created,
                storage: Arc::clone(storage),
                heaps,
                files: Files { files: new.files, marked: Marked::Unclean, is_removal_in_doubt: false },
                next_ids: NextIds { object: FIRST_OBJECT_ID, data_space: FIRST_SCHEME_ID, hobt: FIRST_HOBT_ID },
                options: DatabaseOptions::default(),
                redo_rate: RedoRate::default(),
                is_over_others: false,
                is_snapshot: false,
            },
        )?;
        database.save_clean()?;
        parts.shared.settlements.note(database.guid);
        Ok(database)
    }

    /// Opens a database, and recovers it if its files are not clean, which blocks. Large transactions that are open in
    /// its log are undone behind the opening.
    ///
    /// # Errors
    /// The log is missing or damaged, a page is damaged that the log cannot repair, the catalog contradicts itself, or
    /// a transaction is in doubt.
    pub(crate) fn open(parts: &StorageParts, old: OldDatabase<'_>) -> Result<Arc<Database>> {
        let suspect = |reason: String| EngineError::Unavailable {
            database: old.name.to_owned(),
            state: DatabaseState::Suspect,
            reason,
        };
        let first = old.files.first().ok_or_else(|| suspect("it has no files".to_owned()))?;
        let boot = first.read_boot()?.map_err(|damage| {
            let (path, page) = (first.path.display(), hobt_page::BOOT_PAGE);
            suspect(format!("the boot page (1:{page}) of '{path}' is damaged: {damage}"))
        })?;
        if boot.database_guid != first.header.database_guid {
            return Err(suspect("its boot page belongs to another database".to_owned()));
        }
        let tag = first.header.database_tag();
        let (log, recovered) = open_log(parts, &old)?;
        let floor = log.log().chain().unwrap_or_default().floor;
        if log.log().end() < floor {
            log.log().close();
            return Err(suspect("its log was not restored up to where its pages are".to_owned()));
        }
        let storage = Storage::new(old.id, tag, Arc::clone(&parts.pool), parts.settings, Some(log));
        let opened = Database::open_in(parts, old, &boot, &storage, recovered);
        match &opened {
            // What is under an overlay has not heard of any decision.
            Ok(database) if database.is_over_others => {}
            Ok(database) => parts.shared.settlements.note(database.guid),
            // The first error is the one to report.
            Err(_) => drop(storage.discard()),
        }
        opened
    }

    fn open_in(
        parts: &StorageParts,
        old: OldDatabase<'_>,
        boot: &BootPage,
        storage: &Arc<Storage>,
        recovered: Option<Recovered>,
    ) -> Result<Arc<Database>> {
        let OldDatabase { id, name, mut files, ask, removed, overlay, is_snapshot, .. } = old;
        let fail = |error| match error {
            AccessError::Undecided(reason) => EngineError::Unavailable {
                database: name.to_owned(),
                state: DatabaseState::RecoveryPending,
                reason: format!("a transaction over several databases is in doubt: {reason}"),
            },
            error => EngineError::Storage { database: name.to_owned(), filegroup: None, error },
        };
        let reports = RecoveryReports::new(parts.on_recovery.as_ref(), &parts.recoveries, name, id);
        let (mut summary, mut left) = (RecoverySummary::default(), Vec::new());
        if let Some(recovered) = &recovered {
            // An interrupted write of the headers may have left a copy that says "clean": from here on no copy may say
            // so.
            for file in &mut files {
                file.header.clean = false;
                file.write_header()?;
            }
            files.iter().for_each(|file| storage.open_file_to_recover(file.description()));
            let is_users = |hobt: HobtId| hobt.0 >= FIRST_HOBT_ID;
            let report = |phase, done, total| reports.note(phase, done, total);
            let found = hobt_access::recover_to_open(storage, recovered, ask, &is_users, &report);
            (summary, left) = found.map_err(fail)?;
            refuse_mixed(name, &files, &summary)?;
            make_alike(&mut files)?;
        } else {
            files.iter().try_for_each(|file| storage.open_file(file.description())).map_err(fail)?;
        }
        parts.shared.clock.raise_above(boot.max_stamp.max(summary.newest));
        let heaps = SystemHeaps::open(storage, &boot.hobts, id == MASTER).map_err(|error| of_catalog(name, error))?;
        if recovered.is_some() {
            list_as_master_does(parts, &heaps, &files, removed).map_err(|error| of_catalog(name, error))?;
        }
        let hobt = boot.next_hobt.0.max(FIRST_HOBT_ID).max(summary.newest_hobt.0.saturating_add(1 << 16));
        let database = Database::assemble(
            parts,
            Parts {
                id,
                name: name.to_owned(),
                guid: boot.database_guid,
                created: boot.created,
                storage: Arc::clone(storage),
                heaps,
                files: Files {
                    files,
                    marked: if recovered.is_some() { Marked::Unclean } else { Marked::Clean },
                    is_removal_in_doubt: false,
                },
                next_ids: NextIds {
                    object: boot.next_object.0.max(1000),
                    data_space: boot.next_data_space.max(FIRST_SCHEME_ID),
                    hobt,
                },
                options: match DatabaseOptions::decode(boot.options) {
                    options if overlay.is_some() => DatabaseOptions { is_read_only: true, ..options },
                    options => options,
                },
                redo_rate: RedoRate::of(&summary),
                is_over_others: overlay.is_some(),
                is_snapshot,
            },
        )?;
        database.pass_used_ids();
        if recovered.is_some() {
            // The list of databases is in `master`: whatever is undone there is undone at once.
            let behind_from = if id == MASTER || overlay.is_some() { u64::MAX } else { parts.undo_behind_from_bytes };
            database.take_over(left, behind_from, &reports)?;
            database.save_clean()?;
        } else {
            // A crash that interrupted such a write has left one intact copy, which is correct.
            let files = database.files.lock();
            let mut mended = Vec::new();
            for file in &files.files {
                mended.extend(file.mend_header_copies()?);
            }
            mended.extend(files.files[0].mend_boot_copies(boot)?);
            *database.mended.lock() = mended;
        }
        if let Some(log) = database.storage.log() {
            log.log().recovery_ended();
            let chain = log.log().chain().unwrap_or_default();
            if chain.floor != Lsn(0) {
                // It was restored. What is written to the log from here on is not what others restored from the same
                // backups write.
                let fork = crate::database::differential::new_fork(chain.fork);
                let noted = log.log().set_chain(ChainState { fork, ..ChainState::default() });
                noted.map_err(|error| database.storage_error(error.into()))?;
            }
        }
        if !parts.checkpoints_by_hand {
            database.undo_behind_opening();
        }
        Ok(database)
    }

    /// Makes sure that ids in the catalog are not reused, whatever the boot page says: only checkpoints write it.
    pub(crate) fn pass_used_ids(&self) {
        let snapshot = self.snapshot();
        let mut next = self.next_ids.lock();
        for table in snapshot.tables.values() {
            for partition in table.indexes.iter().flat_map(|index| &index.partitions) {
                next.hobt = next.hobt.max(partition.hobt.0.saturating_add(1 << 16));
            }
        }
        for scheme in &snapshot.partition_schemes {
            next.data_space = next.data_space.max(scheme.id.saturating_add(1));
        }
        for function in &snapshot.partition_functions {
            next.data_space = next.data_space.max(function.id.saturating_add(1));
        }
    }

    fn assemble(parts: &StorageParts, made: Parts) -> Result<Arc<Database>> {
        let identity = DatabaseIdentity {
            id: made.id,
            name: made.name.clone(),
            created: made.created,
            files: made.files.files.iter().map(DataFile::database_file).collect(),
        };
        let snapshot = made.heaps.load(identity).map_err(|error| of_catalog(&made.name, error))?;
        let database = Arc::new(Database {
            id: made.id,
            name: made.name,
            guid: made.guid,
            created: made.created,
            shared: parts.shared.clone(),
            storage: made.storage,
            heaps: made.heaps,
            published: ArcSwap::from_pointee(snapshot),
            pending: PendingChanges::default(),
            definitions: Default::default(),
            opened: parts.shared.clock.next(),
            catalog_writes: Ranked::new(Rank::CatalogWrites, Mutex::new(())),
            open_writes: Arc::default(),
            stores: Ranked::new(Rank::Stores, RwLock::new(HashMap::new())),
            sequences: Ranked::new(Rank::Sequences, RwLock::new(HashMap::new())),
            live_statistics: Arc::default(),
            shown_counts: RwLock::default(),
            next_ids: Mutex::new(made.next_ids),
            options: Mutex::new(made.options),
            read_only: AtomicBool::new(false),
            files: Ranked::new(Rank::DatabaseFiles, Mutex::new(made.files)),
            removed_files: Mutex::default(),
            mended: Mutex::default(),
            changed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            undo: Default::default(),
            redo_rate: made.redo_rate,
            is_over_others: made.is_over_others,
            is_snapshot: made.is_snapshot,
            differential: Default::default(),
            data_backup: Mutex::default(),
            log_backup: Mutex::default(),
        });
        if database.id != TEMPDB {
            database.read_written();
        }
        database.heed_options();
        database.read_shown_counts()?;
        if !parts.checkpoints_by_hand {
            database.checkpoint_when_due();
            database.flush_delayed_commits();
        }
        Ok(database)
    }

    /// Saves the changes, marks the files clean and releases them. The database cannot be used any more. If something
    /// is being undone behind the opening, that stops here: the files are not clean, and the next recovery goes on with
    /// it. A database over an overlay has nothing to save.
    ///
    /// # Errors
    /// Pages could not be written: the files stay as they are, not clean.
    pub(crate) fn close(self: &Arc<Database>) -> Result<()> {
        if self.is_over_others {
            return self.abandon();
        }
        self.undo.stop();
        let folded = match self.closed.load(Ordering::Acquire) || self.id == TEMPDB {
            true => Ok(()),
            false => self.fold_with_room(),
        };
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.shared.missing_indexes.forget_database(self.id);
        self.forget_waits(|_| true);
        let is_suspect = self.storage.broken().is_some();
        let is_undone = self.undo.is_done();
        let saved = match is_suspect || self.id == TEMPDB {
            true => Ok(()),
            false if is_undone => self.save_clean(),
            false => self.save_for_recovery(),
        };
        if saved.is_ok() && !is_suspect {
            self.shared.settlements.note(self.guid);
        }
        self.stores.write().clear();
        self.undo.let_go();
        let released = if saved.is_ok() && !is_suspect && is_undone && self.id != TEMPDB {
            self.storage.close()
        } else {
            self.storage.discard()
        };
        self.files.lock().files.clear();
        folded.and(saved).and(released.map_err(|error| self.storage_error(error)))
    }

    /// Folds the statistics. If the log is full, folds again after a checkpoint that frees some of it. If there is
    /// still no room, estimates begin after the next start with what was saved before, as after a crash.
    fn fold_with_room(self: &Arc<Database>) -> Result<()> {
        let is_full = |folded: &Result<()>| {
            matches!(folded, Err(EngineError::Storage { error: AccessError::LogFull { .. }, .. }))
        };
        let folded = self.fold_statistics();
        // If the checkpoint has failed, the save that follows fails too, and reports it.
        if !is_full(&folded) || self.checkpoint().is_err() {
            return if is_full(&folded) { Ok(()) } else { folded };
        }
        let again = self.fold_statistics();
        if is_full(&again) { Ok(()) } else { again }
    }

    /// Releases the files without saving: for a database that is dropped.
    pub(crate) fn abandon(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        self.undo.stop();
        self.undo.let_go();
        self.shared.missing_indexes.forget_database(self.id);
        self.forget_waits(|_| true);
        self.stores.write().clear();
        let released = self.storage.discard();
        self.files.lock().files.clear();
        released.map_err(|error| self.storage_error(error))
    }
}

/// Opens the log of a database. Also returns what is to be recovered from it, unless the files are clean.
fn open_log(parts: &StorageParts, old: &OldDatabase<'_>) -> Result<(Arc<TransactionLog>, Option<Recovered>)> {
    let first = &old.files[0];
    let owner = parts.log_owner(old.id, &first.header.database_guid);
    let is_clean = old.files.iter().all(|file| file.header.clean);
    let refuse = |state, reason| EngineError::Unavailable { database: old.name.to_owned(), state, reason };
    match log_file::open(&*parts.disk, old.logs, &owner, old.overlay) {
        Ok((log, recovered)) if !is_clean => Ok((log, Some(recovered))),
        Ok((log, recovered)) => {
            if recovered.end == first.header.log_end {
                let decisions = hobt_access::recovered_decisions(&recovered);
                log.recover_decisions(decisions.map_err(|error| refuse(DatabaseState::Suspect, error.to_string()))?);
                return Ok((log, None));
            }
            let reason = format!(
                "its log '{}' is not of the same time as its files: put back copies of all of them that were made \
                 together while the instance was stopped",
                old.logs[0].display()
            );
            Err(refuse(DatabaseState::Suspect, reason))
        }
        Err((path, FileProblem::Inaccessible(DiskError::NotFound { .. }))) if is_clean && old.logs.len() == 1 => {
            // Nothing in the lost log is needed: the files are clean.
            let plan = LogFilePlan::usual(path);
            // Pages have positions in the lost log, which must be less than all positions in the new one.
            let ended = Lsn(first.header.log_end.0.next_multiple_of(8)).max(LSN_FIRST);
            let (disk, is_over) = (&*parts.disk, AtomicBool::new(false));
            let made = log_file::create_at(ended, disk, &[plan], &owner, &is_over).map_err(|(path, error)| {
                refuse(DatabaseState::RecoveryPending, format!("its log '{}' cannot be made: {error}", path.display()))
            })?;
            Ok((made, None))
        }
        Err((path, problem)) => {
            let state = match problem {
                FileProblem::Inaccessible(_) => DatabaseState::RecoveryPending,
                FileProblem::Invalid(_) => DatabaseState::Suspect,
            };
            let reason = format!("its log '{}', without which it cannot be recovered: {problem}", path.display());
            Err(refuse(state, reason))
        }
    }
}

/// Refuses files of different generations, unless a crash explains them: it interrupted the marking of the headers,
/// before anything was changed. Otherwise one file is from another time.
fn refuse_mixed(name: &str, files: &[DataFile], summary: &RecoverySummary) -> Result<()> {
    let latest = files.iter().map(|file| file.header.generation).max();
    let older = files.iter().find(|file| Some(file.header.generation) != latest);
    match older {
        Some(file) if summary.redone > 0 || summary.undone > 0 || summary.left_open > 0 => {
            Err(EngineError::Unavailable {
                database: name.to_owned(),
                state: DatabaseState::Suspect,
                reason: format!(
                    "file '{}' is older than the database's other files; restore all of them from one copy",
                    file.path.display()
                ),
            })
        }
        _ => Ok(()),
    }
}

/// Gives all files one generation, before anything is changed. Otherwise a file changed now would look, after the next
/// crash, like a file from another time.
fn make_alike(files: &mut [DataFile]) -> Result<()> {
    let latest = files.iter().map(|file| file.header.generation).max().unwrap_or(0);
    for file in files.iter_mut().filter(|file| file.header.generation != latest) {
        file.header.generation = latest;
        file.write_header()?;
    }
    Ok(())
}

/// Makes the catalog's list of files agree with `master`: files that `master` lists belong to the database, and those
/// that it lists as removed do not, even if a crash came before the database itself recorded it.
fn list_as_master_does(
    parts: &StorageParts,
    heaps: &SystemHeaps,
    files: &[DataFile],
    removed: &[FileId],
) -> std::result::Result<(), CatalogError> {
    let known = heaps.file_ids()?;
    let is_listed = |id: &FileId| files.iter().any(|file| file.header.file == *id);
    let ctx = parts.shared.internal_context();
    for file in files.iter().filter(|file| !known.contains(&file.header.file)) {
        heaps.insert_file(&ctx, &file.database_file())?;
    }
    for id in known.iter().filter(|id| removed.contains(id) && !is_listed(id)) {
        heaps.delete_file(&ctx, *id)?;
    }
    ctx.commit().map_err(|error| CatalogError::Access(AccessError::LogFailed(error.to_string())))
}

/// Writes the schemas, filegroups and files that a new database has.
fn write_first_rows(
    heaps: &SystemHeaps,
    ctx: &StatementContext,
    new: &NewDatabase,
) -> std::result::Result<(), CatalogError> {
    for (id, name) in [(1, "dbo"), (2, "guest"), (3, "INFORMATION_SCHEMA"), (4, "sys")] {
        heaps.insert_schema(ctx, &Schema { id, name: name.to_owned() })?;
    }
    for filegroup in &new.filegroups {
        heaps.insert_filegroup(ctx, filegroup)?;
    }
    new.files.iter().try_for_each(|file| heaps.insert_file(ctx, &file.database_file()))
}

/// The filegroup that every database has.
pub(crate) fn primary_filegroup(is_default: bool) -> Filegroup {
    Filegroup { id: FilegroupId(1), name: "PRIMARY".to_owned(), is_default }
}

#[cfg(test)]
mod tests {
    use super::super::following_object_id;
    use super::*;

    #[test]
    fn object_ids_wander_over_positive_numbers_without_coming_back_soon() {
        let mut seen = std::collections::HashSet::new();
        let mut id = FIRST_OBJECT_ID;
        for _ in 0..100_000 {
            assert!(id >= 1000);
            assert!(seen.insert(id), "id {id} comes twice");
            id = following_object_id(id);
        }
    }
}
