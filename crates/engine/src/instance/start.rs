//! The start of an instance: the folder's lock, `master`, `tempdb`, the list of databases. `making` creates a new
//! instance completely or not at all.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use arc_swap::ArcSwap;
use hobt_base::{DatabaseId, FileId, FilegroupId, errors};
use hobt_buffer::{BufferPool, PoolSettings};
use hobt_catalog::{DatabaseFileRow, DatabaseRow, Growth};
use hobt_disk::{Disk, DiskError, DiskFile, OpenOptions, open_disk};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::Mutex;
use hobt_txn::{MemoryAccount, MemoryBudget};

use super::file_removal::delete_removed;
use super::making::Making;
use super::overlay_file::OVERLAY_FILE;
use super::registry::{Entry, EntryState, Registry};
use super::snapshot::{Copies, open_copies};
use super::{Instance, create};
use crate::data_file::{DataFile, FilePlan, FileProblem};
use crate::database::{
    BEHIND_FROM_BYTES, Database, DatabaseState, MASTER, NewDatabase, OldDatabase, Shared, StorageParts, TEMPDB,
    primary_filegroup,
};
use crate::error::{EngineError, Result, of_catalog};
use crate::isolation::{IsolationOptions, LOST, RESTORING, SNAPSHOT, STANDBY};
use crate::log_file::{self, LogFilePlan};
use crate::options::DatabaseOptions;
use crate::path::{AllowedFolders, LOCK_FILE, resolve_folder};
use crate::settings::{InstanceSettings, RuntimeSettings, TRACE_BACKOFF_STACKS, machine_memory};
use crate::spill::SpillFiles;
use hobt_instruments::time_of_day;

pub(super) const MASTER_FILE: &str = "master.mdf";
pub(super) const TEMPDB_FILE: &str = "tempdb.mdf";
/// The first id of users' databases.
const FIRST_USER_DATABASE: u16 = 5;

pub(super) fn refuse(path: &Path, reason: impl ToString) -> EngineError {
    EngineError::Instance { path: path.to_path_buf(), reason: reason.to_string() }
}

impl Instance {
    /// Opens the instance in `folder`; an empty or missing folder becomes a new one. Blocks.
    ///
    /// # Errors
    /// Another process has the folder open, `master` is damaged or cannot be recovered, or the disk fails. A user's
    /// database that cannot be used is no error: [`Instance::databases`] shows its state.
    pub fn open(folder: &Path, settings: InstanceSettings) -> Result<Arc<Instance>> {
        hobt_instruments::signals::fail_on_file_size_limit();
        let disk = open_disk(settings.disk.clone()).map_err(|error| refuse(folder, error))?;
        Instance::open_on(disk, folder, settings)
    }

    /// Opens the instance in a folder of `disk`; `settings.disk` is ignored. For tests that keep a simulated disk from
    /// one start to the next.
    ///
    /// # Errors
    /// As [`Instance::open`].
    pub fn open_on(disk: Arc<dyn Disk>, folder: &Path, settings: InstanceSettings) -> Result<Arc<Instance>> {
        let folder = resolve_folder(folder)?;
        disk.create_directory(&folder).map_err(|error| refuse(&folder, error))?;
        let lock_file = lock_folder(&*disk, &folder)?;
        let limit = settings.memory_bytes.unwrap_or_else(|| machine_memory() / 2);
        let memory = MemoryBudget::new(limit);
        let pool_bytes = settings.pool_bytes.unwrap_or(limit / 5 * 3);
        let pool_memory = MemoryAccount::new(&memory, "Buffer pool");
        pool_memory.grow(pool_bytes).map_err(|error| refuse(&folder, format!("the buffer pool: {error}")))?;
        let bytes = usize::try_from(pool_bytes).map_err(|_| refuse(&folder, "the buffer pool is too large"))?;
        let pool = BufferPool::new(PoolSettings { bytes }).map_err(|error| refuse(&folder, error))?;
        let shared = Shared {
            clock: Arc::default(),
            memory: Arc::clone(&memory),
            locks: Arc::default(),
            settlements: Arc::default(),
            missing_indexes: Arc::default(),
        };
        shared.clock.keep_versions_in(&memory, settings.version_bytes);
        shared.clock.keep_rebuilt_pages_in(&memory, settings.rebuilt_bytes);
        let locks = Arc::clone(&shared.locks);
        let parts = StorageParts {
            disk: Arc::clone(&disk),
            pool,
            settings: settings.storage(),
            shared,
            log_ring_bytes: settings.log_ring_bytes.unwrap_or(log_file::RING_BYTES),
            checkpoints_by_hand: settings.checkpoints_by_hand,
            undo_behind_from_bytes: settings.undo_behind_from_bytes.unwrap_or(BEHIND_FROM_BYTES),
            on_recovery: settings.on_recovery.clone(),
            recoveries: Arc::default(),
        };
        let allowed = AllowedFolders::new(folder.clone(), &settings.allowed_folders, settings.rows_folder.as_deref());
        let registry = Arc::new(Registry::default());
        let started = Start { disk: &*disk, folder: &folder, allowed: &allowed, parts: &parts, registry: &registry };
        let next_database = started.run()?;
        let runtime = RuntimeSettings::at_start(&settings);
        if runtime.trace_flags.contains(&TRACE_BACKOFF_STACKS) {
            runtime.switch_process();
        }
        let spills = SpillFiles::new(&disk, &folder);
        parts.shared.clock.spill_versions_to(spills.clone(), !parts.checkpoints_by_hand);
        Ok(Arc::new(Instance {
            folder,
            runtime: ArcSwap::from_pointee(runtime),
            settings,
            disk,
            allowed,
            memory,
            pool_memory,
            locks,
            spills,
            parts,
            registry,
            next_database: AtomicU16::new(next_database),
            definitions: Ranked::new(Rank::Definitions, Mutex::new(())),
            lock_file: Mutex::new(Some(lock_file)),
            running: Arc::default(),
            extension: Mutex::default(),
            background: Mutex::default(),
        }))
    }
}

/// Locks the folder against other processes, for as long as the file is open.
fn lock_folder(disk: &dyn Disk, folder: &Path) -> Result<Arc<dyn DiskFile>> {
    let path = folder.join(LOCK_FILE);
    let open = |create_new| disk.open(&path, OpenOptions { create_new, ..OpenOptions::default() });
    // Another process may create the file between the two attempts.
    let file = match open(false) {
        Err(DiskError::NotFound { .. }) => match open(true) {
            Err(DiskError::AlreadyExists { .. }) => open(false),
            made => made,
        },
        opened => opened,
    };
    let file = file.map_err(|error| refuse(folder, error))?;
    match file.try_lock_exclusive() {
        Ok(()) => Ok(file),
        Err(DiskError::Locked { .. }) => {
            Err(refuse(folder, "another process has it open. Stop that process, or choose another folder."))
        }
        Err(error) => Err(refuse(&path, error)),
    }
}

/// A start in progress.
struct Start<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    allowed: &'a AllowedFolders,
    parts: &'a StorageParts,
    registry: &'a Registry,
}

impl Start<'_> {
    /// Fills the registry and returns the id of the next database. A new instance exists completely afterwards, or not
    /// at all.
    fn run(&self) -> Result<u16> {
        let Some(making) = Making::begin(self.disk, self.folder)? else {
            return self.fill(Start::old_master, || Ok(()));
        };
        let is_made = Cell::new(false);
        let filled = self.fill(
            |start| start.new_database(MASTER, "master", MASTER_FILE, 512),
            || {
                is_made.set(true);
                making.finish()
            },
        );
        if filled.is_err() && !is_made.get() {
            making.abandon();
        }
        filled
    }

    /// Fills the registry with what `master` lists. Calls `then` when everything exists and nothing is registered yet.
    fn fill(
        &self,
        master: impl FnOnce(&Self) -> Result<Arc<Database>>,
        then: impl FnOnce() -> Result<()>,
    ) -> Result<u16> {
        let master = master(self)?;
        // Pages have the stamp of their last writer. A crash may have hidden stamps of an earlier life from `master`.
        // If a writer of this life got such a stamp, it would hide what the earlier one has loaded for as long as it
        // runs.
        self.parts.shared.clock.begin_life();
        let listed = master.note_stamps().and_then(|()| self.listed(&master));
        let all = listed.and_then(|listed| {
            let tempdb = self.tempdb()?;
            match then() {
                Ok(()) => Ok((listed, tempdb)),
                Err(error) => {
                    let _ = tempdb.abandon();
                    Err(error)
                }
            }
        });
        let (listed, tempdb) = match all {
            Ok(all) => all,
            Err(error) => {
                // The files must be released; the first error is the one to report.
                let _ = master.close();
                return Err(error);
            }
        };
        self.register(MASTER, MASTER_FILE, &master);
        self.register(TEMPDB, TEMPDB_FILE, &tempdb);
        listed.into_iter().for_each(|entry| self.registry.insert(entry));
        let last = self.registry.all().iter().map(|entry| entry.id.0).max().unwrap_or(0);
        Ok(last.saturating_add(1).max(FIRST_USER_DATABASE))
    }

    fn register(&self, id: DatabaseId, file: &str, database: &Arc<Database>) {
        self.registry.insert(Entry {
            id,
            name: database.name().to_owned(),
            guid: database.guid(),
            created: database.created(),
            isolation: Arc::new(IsolationOptions::of_system_database()),
            options: Mutex::new(database.options()),
            files: Mutex::new(vec![(FileId(1), self.folder.join(file))]),
            logs: Mutex::new(match id {
                TEMPDB => Vec::new(),
                _ => vec![(log_file::FIRST_LOG_FILE, log_file::log_path(&self.folder.join(file)))],
            }),
            overlay: Mutex::default(),
            copies: None,
            removed: Mutex::default(),
            is_opening: Default::default(),
            state: Ranked::new(Rank::DatabaseState, Mutex::new(EntryState::Open(Arc::clone(database)))),
        });
    }

    fn old_master(&self) -> Result<Arc<Database>> {
        let path = self.folder.join(MASTER_FILE);
        let file = DataFile::open_any(self.disk, &path).map_err(|problem| refuse(&path, problem))?;
        // Of several databases master has the lowest id, so it is always the coordinator.
        let ask = |_: &_| Err("nobody decides for master".to_owned());
        let logs = [log_file::log_path(&path)];
        let old = OldDatabase {
            id: MASTER,
            name: "master",
            files: vec![file],
            logs: &logs,
            removed: &[],
            ask: &ask,
            overlay: None,
            is_snapshot: false,
        };
        Database::open(self.parts, old).map_err(|error| refuse(&path, format!("{error} Restore the file from a copy.")))
    }

    /// `tempdb` is created anew: nothing of the last run is kept.
    fn tempdb(&self) -> Result<Arc<Database>> {
        let path = self.folder.join(TEMPDB_FILE);
        match self.disk.remove(&path) {
            Ok(()) | Err(DiskError::NotFound { .. }) => {}
            Err(error) => return Err(refuse(&path, error)),
        }
        self.new_database(TEMPDB, "tempdb", TEMPDB_FILE, 1024)
    }

    fn new_database(&self, id: DatabaseId, name: &str, file: &str, size_pages: u32) -> Result<Arc<Database>> {
        let path = self.folder.join(file);
        let plan = FilePlan {
            file: FileId(1),
            filegroup: FilegroupId(1),
            name: if id == MASTER { name.to_owned() } else { "tempdev".to_owned() },
            path: path.clone(),
            size_pages,
            growth: Growth::Pages(size_pages * 8),
            max_pages: None,
        };
        let guid = create::new_guid();
        let data_file = DataFile::create(self.disk, &plan, guid).map_err(|error| refuse(&path, error))?;
        let log_path = log_file::log_path(&path);
        let log = match id {
            TEMPDB => None,
            _ => {
                let made =
                    log_file::create(self.disk, &[LogFilePlan::usual(log_path)], &self.parts.log_owner(id, &guid));
                Some(made.map_err(|(path, error)| refuse(&path, error))?)
            }
        };
        let new = NewDatabase {
            log,
            id,
            name: name.to_owned(),
            guid,
            created: time_of_day(),
            filegroups: vec![primary_filegroup(true)],
            files: vec![data_file],
        };
        // If this fails for master, the creator of the instance removes the files. tempdb is removed at every start.
        let made = Database::create(self.parts, new)?;
        self.disk.sync_directory(self.folder).map_err(|error| {
            let _ = made.abandon();
            refuse(self.folder, error)
        })?;
        Ok(made)
    }

    /// The users' databases that `master` lists, each with what its headers say.
    fn listed(&self, master: &Arc<Database>) -> Result<Vec<Entry>> {
        let (rows, files) = master.listed_databases().map_err(|error| of_catalog("master", error))?;
        let entries: Vec<Entry> = rows.iter().map(|row| self.entry(row, &files)).collect::<Result<_>>()?;
        self.note_lost(master, rows, &entries)?;
        let mut forgotten = Vec::new();
        let paths: Vec<PathBuf> =
            files.iter().filter(|row| !row.is_removed).map(|row| self.allowed.path_of(&row.path.0)).collect();
        for entry in &entries {
            entry.removed.lock().retain(|(file, path)| {
                let is_gone = delete_removed(self.disk, path, *file, entry.guid, &paths);
                // A clean database has been recovered since, and knows of the removal.
                let is_known = matches!(&*entry.state.lock(), EntryState::Closed(files)
                    if files.iter().all(|file| file.header.clean));
                if is_gone && is_known {
                    forgotten.push((entry.id.0.cast_signed(), file.0.cast_signed()));
                }
                !(is_gone && is_known)
            });
        }
        if !forgotten.is_empty() {
            let is_forgotten = |row: &DatabaseFileRow| row.is_removed && forgotten.contains(&(row.database, row.file));
            master.change_and_save(|heaps, ctx| heaps.delete(ctx, is_forgotten).map(|_| ()))?;
        }
        Ok(entries)
    }

    /// The copies of a snapshot; `None` for any other database.
    fn copies(&self, row: &DatabaseRow, paths: &[(FileId, PathBuf)]) -> Option<Copies> {
        if row.isolation & SNAPSHOT == 0 {
            return None;
        }
        if row.isolation & LOST != 0 {
            return Some(Copies::Lost("it was found to be gone at an earlier start".to_owned()));
        }
        Some(open_copies(&self.parts.disk, paths, &row.guid))
    }

    /// Has `master` say which snapshots have lost a copy: from now on nothing is copied for them.
    fn note_lost(&self, master: &Arc<Database>, rows: Vec<DatabaseRow>, entries: &[Entry]) -> Result<()> {
        let is_lost = |row: &DatabaseRow| {
            let lost = |entry: &&Entry| matches!(entry.copies(), Some(Copies::Lost(_)));
            row.isolation & LOST == 0 && entries.iter().filter(lost).any(|entry| entry.id.0.cast_signed() == row.id)
        };
        for row in rows.into_iter().filter(is_lost) {
            let row = DatabaseRow { isolation: row.isolation | LOST, ..row };
            master.change_and_save(|heaps, ctx| {
                heaps.delete(ctx, |old: &DatabaseRow| old.id == row.id)?;
                heaps.insert(ctx, &row)
            })?;
        }
        Ok(())
    }

    fn entry(&self, row: &DatabaseRow, files: &[DatabaseFileRow]) -> Result<Entry> {
        let listed = |is_log: bool| {
            let mut paths: Vec<(FileId, PathBuf)> = files
                .iter()
                .filter(|file| {
                    file.database == row.id && file.is_log == is_log && !file.is_removed && file.file != OVERLAY_FILE
                })
                .map(|file| (FileId(file.file.cast_unsigned()), self.allowed.path_of(&file.path.0)))
                .collect();
            paths.sort();
            paths
        };
        let (paths, logs) = (listed(false), listed(true));
        let removed = files.iter().filter(|file| file.database == row.id && file.is_removed);
        let removed =
            removed.map(|file| (FileId(file.file.cast_unsigned()), self.allowed.path_of(&file.path.0))).collect();
        let id = DatabaseId(row.id.cast_unsigned());
        if id.0 < FIRST_USER_DATABASE || paths.first().is_none_or(|(file, _)| *file != FileId(1)) || logs.is_empty() {
            return Err(EngineError::Statement(errors::DATABASE_LISTED_WRONGLY.with([&row.name])));
        }
        let is_overlay = |file: &&DatabaseFileRow| file.database == row.id && file.file == OVERLAY_FILE;
        let overlay = files.iter().find(is_overlay).filter(|_| row.isolation & (STANDBY | SNAPSHOT) != 0);
        let overlay = overlay.map(|file| self.allowed.path_of(&file.path.0));
        let copies = self.copies(row, &paths);
        let state = if row.is_offline {
            EntryState::offline()
        } else if let Some(copies) = &copies {
            match copies.problem() {
                None => EntryState::Closed(Vec::new()),
                Some(reason) => {
                    let is_unready = matches!(copies, Copies::Unready(_));
                    let state = if is_unready { DatabaseState::RecoveryPending } else { DatabaseState::Suspect };
                    EntryState::Unavailable { state, reason }
                }
            }
        } else if overlay.is_none() && row.isolation & RESTORING != 0 {
            EntryState::restoring()
        } else {
            inspect(self.disk, &paths, row.guid)
        };
        let boot = match &state {
            // A boot page that cannot be read is reported when the database is opened.
            EntryState::Closed(files) => files.first().and_then(|first| first.read_boot().ok()?.ok()),
            EntryState::Open(_) | EntryState::Unavailable { .. } => None,
        };
        let options = boot.map(|boot| DatabaseOptions::decode(boot.options)).unwrap_or_default();
        Ok(Entry {
            id,
            name: row.name.clone(),
            guid: row.guid,
            created: row.created.0,
            isolation: Arc::new(IsolationOptions::of_bits(row.isolation)),
            options: Mutex::new(DatabaseOptions { is_read_only: overlay.is_some() || options.is_read_only, ..options }),
            overlay: Mutex::new(overlay),
            copies: copies.map(Mutex::new),
            state: Ranked::new(Rank::DatabaseState, Mutex::new(state)),
            files: Mutex::new(paths),
            logs: Mutex::new(logs),
            removed: Mutex::new(removed),
            is_opening: Default::default(),
        })
    }
}

/// Opens, locks and checks the files of a database.
pub(super) fn inspect(disk: &dyn Disk, paths: &[(FileId, PathBuf)], guid: [u8; 16]) -> EntryState {
    let mut files = Vec::with_capacity(paths.len());
    for (file, path) in paths {
        match DataFile::open(disk, path, *file, guid) {
            Ok(opened) => files.push(opened),
            Err(problem) => {
                let state = match problem {
                    FileProblem::Inaccessible(_) => DatabaseState::RecoveryPending,
                    FileProblem::Invalid(_) => DatabaseState::Suspect,
                };
                return EntryState::Unavailable { state, reason: problem.to_string() };
            }
        }
    }
    let suspect = |reason| EntryState::Unavailable { state: DatabaseState::Suspect, reason };
    let latest = files.iter().map(|file| file.header.generation).max().unwrap_or(0);
    let all_clean = files.iter().all(|file| file.header.clean);
    // A crash while the generation is being raised leaves the headers at most one apart.
    let oldest_possible = if all_clean { latest } else { latest.saturating_sub(1) };
    if let Some(file) = files.iter().find(|file| file.header.generation < oldest_possible) {
        return suspect(format!(
            "file '{}' is older than the database's other files; restore all of them from one copy",
            file.path.display()
        ));
    }
    EntryState::Closed(files)
}
