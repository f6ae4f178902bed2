//! An instance: a folder of databases, and what they share.

mod alter;
mod attach;
mod background;
mod backup;
mod clone;
mod create;
mod extension;
mod file_removal;
mod left_over;
mod log_files;
mod making;
mod overlay_file;
mod plan;
mod registry;
mod restore;
mod running;
mod snapshot;
mod standby;
mod start;
mod workers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16};

use arc_swap::ArcSwap;
use hobt_base::{DatabaseId, FileId, PAGE_SIZE, SessionId, SqlError, Stamp, errors};
use hobt_buffer::BufferPool;
use hobt_catalog::name_equals;
use hobt_disk::{Disk, DiskFile};
use hobt_instruments::rank::Ranked;
use hobt_instruments::schedule::Mutex;
use hobt_txn::locks::LockManager;
use hobt_txn::{
    MemoryAccount, MemoryBudget, Savepoint, StatementContext, StatementContextSettings, Transaction, UndoError,
};

use crate::database::{Database, DatabaseState, MASTER, StorageParts, TEMPDB, UndoneTransaction};
use crate::error::{EngineError, Result};
use crate::missing_index::MissingIndexes;
use crate::path::AllowedFolders;
use crate::recovery_progress::RecoveringDatabase;
use crate::settings::{InstanceSettings, RuntimeSettings};
use crate::spill::SpillFiles;
use registry::{EntryState, Registry};
use running::{Begun, Close, Running};

pub use background::BackgroundWork;
pub use backup::{BackupDone, BackupRequest, BackupWhat, ObserveBackup, TailRequest};
pub use clone::CloneOptions;
pub use create::Created;
pub use extension::ExtensionDescription;
pub use registry::{DatabaseDescription, DatabaseUse};
pub use restore::{RESTORED_PAGES_MAX, RestoreDone, RestoreEnd, RestoreRequest, StopPoint};
pub use snapshot::SnapshotDefinition;

/// A folder of databases that is open.
pub struct Instance {
    folder: PathBuf,
    settings: InstanceSettings,
    runtime: ArcSwap<RuntimeSettings>,
    disk: Arc<dyn Disk>,
    allowed: AllowedFolders,
    memory: Arc<MemoryBudget>,
    /// The pool's share of the budget.
    pool_memory: MemoryAccount,
    locks: Arc<LockManager>,
    spills: Arc<SpillFiles>,
    parts: StorageParts,
    registry: Arc<Registry>,
    next_database: AtomicU16,
    /// CREATE, DROP and ALTER DATABASE run one at a time.
    definitions: Ranked<Mutex<()>>,
    /// Keeps other processes out.
    lock_file: Mutex<Option<Arc<dyn DiskFile>>>,
    running: Arc<Running>,
    /// The buffer pool extension, if it was switched on.
    extension: Mutex<Option<extension::Extension>>,
    /// What works in databases in the background.
    background: Mutex<Option<Arc<dyn BackgroundWork>>>,
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Instance {
    /// Its folder, absolute.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The settings it was started with.
    pub fn settings(&self) -> &InstanceSettings {
        &self.settings
    }

    /// The files of rows that a user names, by a path or a pattern that `found` resolves.
    ///
    /// # Errors
    /// 4861: the path, or one of the files, lies outside the allowed folders; those of `found`.
    pub fn readable_files(
        &self,
        path: &Path,
        found: &dyn Fn(&Path) -> std::result::Result<Vec<PathBuf>, SqlError>,
    ) -> std::result::Result<Vec<PathBuf>, SqlError> {
        self.allowed.files_of_rows(path, found)
    }

    /// The path of a new file of rows that a user names.
    ///
    /// # Errors
    /// 4861: the path lies outside the allowed folders, or names no file.
    pub fn writable_file(&self, path: &Path) -> std::result::Result<PathBuf, SqlError> {
        self.allowed.new_file_of_rows(path)
    }

    /// The disk below its files, with its kind and its throughput.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The memory budget of the whole instance.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// The buffer pool's share of it.
    pub fn pool_memory(&self) -> &MemoryAccount {
        &self.pool_memory
    }

    /// The buffer pool.
    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.parts.pool
    }

    /// The lock manager.
    pub fn locks(&self) -> &Arc<LockManager> {
        &self.locks
    }

    /// The files that statements spill to because the data does not fit into memory.
    pub fn spills(&self) -> &Arc<SpillFiles> {
        &self.spills
    }

    /// The spill files, if this file is tempdb's first, which they are counted with.
    pub fn spills_in(&self, database: DatabaseId, file: FileId) -> Option<&SpillFiles> {
        ((database, file) == (TEMPDB, FileId(1))).then_some(&*self.spills)
    }

    /// The size of a file in pages as views show it, including the spill files if they count with it.
    pub fn shown_pages(&self, database: DatabaseId, file: &hobt_access::DataFile) -> u32 {
        let spilled = self.spills_in(database, file.id()).map_or(0, SpillFiles::size_bytes);
        file.size_pages().saturating_add(u32::try_from(spilled.div_ceil(PAGE_SIZE as u64)).unwrap_or(u32::MAX))
    }

    /// Estimated bytes of memory that the row versions of all databases take.
    pub fn version_bytes(&self) -> u64 {
        self.parts.shared.clock.version_bytes()
    }

    /// The indexes that statements would have used.
    pub fn missing_indexes(&self) -> &MissingIndexes {
        &self.parts.shared.missing_indexes
    }

    /// The settings in force now. Cheap; a statement reads them once.
    pub fn runtime(&self) -> Arc<RuntimeSettings> {
        self.runtime.load_full()
    }

    /// Whether uses of indexes are counted now: [`RuntimeSettings::counts_index_use`].
    pub fn counts_index_use(&self) -> bool {
        self.runtime.load().counts_index_use
    }

    /// Changes settings for statements that start later. `change` may be called more than once.
    pub fn change_runtime(&self, change: impl Fn(&mut RuntimeSettings)) {
        self.runtime.rcu(|now| {
            let mut next = RuntimeSettings::clone(now);
            change(&mut next);
            next
        });
        let now = self.runtime.load();
        now.switch_process();
        self.registry.set_in_doubt_resolution(now.in_doubt_resolution);
    }

    /// A stamp later than all before, in every database.
    pub fn next_stamp(&self) -> Stamp {
        self.parts.shared.clock.next()
    }

    /// A new statement of `session` with up to `degree_of_parallelism` workers, which may be cancelled by setting
    /// `cancelled`. The caller ends it with [`Instance::end_statement`]; otherwise the statement is undone when its
    /// last owner drops it.
    ///
    /// # Errors
    /// 6005: the instance is closed, or about to be.
    pub fn statement_context(
        &self,
        session: SessionId,
        degree_of_parallelism: usize,
        cancelled: Arc<AtomicBool>,
    ) -> Result<Arc<StatementContext>> {
        let begun = self.begin_running()?;
        let running = self.parts.shared.clock.begin();
        let settings = self.statement_settings(session, running.stamp(), degree_of_parallelism);
        let ctx = StatementContext::new(&settings, cancelled);
        ctx.transaction().set_running(running);
        // Held first and so released last: the instance is not closed while the end of the statement is under way.
        ctx.hold(begun);
        Ok(ctx)
    }

    /// Begins a transaction of several statements. It ends by [`Instance::end_transaction`]; the instance is not closed
    /// before that.
    ///
    /// # Errors
    /// 6005: the instance is closed, or about to be.
    pub fn begin_transaction(&self, session: SessionId) -> Result<Arc<Transaction>> {
        let begun = self.begin_running()?;
        let running = self.parts.shared.clock.begin();
        let transaction = Transaction::new(session, running.stamp());
        transaction.set_running(running);
        transaction.hold(begun);
        Ok(transaction)
    }

    /// The context of a statement of a transaction. The statement ends by [`Instance::end_statement`].
    pub fn statement_of(
        &self,
        transaction: &Arc<Transaction>,
        session: SessionId,
        degree_of_parallelism: usize,
        cancelled: Arc<AtomicBool>,
    ) -> Arc<StatementContext> {
        let settings = self.statement_settings(session, transaction.stamp(), degree_of_parallelism);
        StatementContext::in_transaction(transaction, &settings, cancelled)
    }

    fn begin_running(&self) -> Result<Begun> {
        let begun = Running::begin(&self.running);
        begun.ok_or_else(|| EngineError::Statement(errors::SHUTDOWN.error()))
    }

    fn statement_settings(
        &self,
        session: SessionId,
        stamp: Stamp,
        degree_of_parallelism: usize,
    ) -> StatementContextSettings {
        StatementContextSettings { session, stamp, degree_of_parallelism, memory: Arc::clone(&self.memory) }
    }

    /// Ends a statement: keeps its changes if it succeeded, rolls it back if not, and then drops what it held. Its
    /// transaction ends with it, unless it is one of several statements. `databases` are those that it may have
    /// changed. If the end itself fails, the databases that it failed in become SUSPECT, because the contents of their
    /// pages are unknown.
    ///
    /// # Errors
    /// 926: the statement could not be ended, or one of the databases became SUSPECT while it ran. It is rolled back
    /// then, and what it has read may never have been committed.
    pub fn end_statement(&self, ctx: &StatementContext, succeeded: bool, databases: &[&Database]) -> Result<()> {
        let ended = end_in(databases, succeeded, |keeps| if keeps { ctx.commit() } else { ctx.roll_back() });
        ctx.let_go();
        ended
    }

    /// Ends a transaction of several statements, as [`Instance::end_statement`] ends a single one.
    ///
    /// # Errors
    /// 926: the transaction could not be ended, or one of the databases has become SUSPECT. It is rolled back then.
    pub fn end_transaction(&self, transaction: &Transaction, commits: bool, databases: &[&Database]) -> Result<()> {
        let end = |keeps| if keeps { transaction.commit() } else { transaction.roll_back() };
        let ended = end_in(databases, commits, end);
        transaction.let_go();
        ended
    }

    /// Undoes what a transaction did since a savepoint.
    ///
    /// # Errors
    /// As [`Instance::end_transaction`].
    pub fn roll_back_to(&self, transaction: &Transaction, place: &Savepoint, databases: &[&Database]) -> Result<()> {
        suspect_if_failed(transaction.roll_back_to(place), databases)
    }

    /// All databases, by id, including those that cannot be used.
    pub fn databases(&self) -> Vec<DatabaseDescription> {
        self.registry.descriptions()
    }

    /// A database by its name, ignoring case. Its first user opens it, which reads its catalog.
    ///
    /// # Errors
    /// 911 it does not exist, 926 it is SUSPECT, 945 its files are not accessible, 952 it is being dropped, detached,
    /// or taken offline or back.
    pub fn database(&self, name: &str) -> Result<DatabaseUse> {
        let held = self.registry.hold(&self.parts, |entry| name_equals(&entry.name, name));
        held.unwrap_or_else(|| Err(does_not_exist(name)))
    }

    /// A database by its id.
    ///
    /// # Errors
    /// As [`Instance::database`].
    pub fn database_by_id(&self, id: DatabaseId) -> Result<DatabaseUse> {
        let held = self.registry.hold(&self.parts, |entry| entry.id == id);
        held.unwrap_or_else(|| Err(does_not_exist(&id.to_string())))
    }

    /// `master`.
    ///
    /// # Errors
    /// The instance was closed, or a statement in `master` could not be undone.
    pub fn master(&self) -> Result<DatabaseUse> {
        self.database_by_id(MASTER)
    }

    /// `tempdb`.
    ///
    /// # Errors
    /// The instance was closed, or a statement in `tempdb` could not be undone.
    pub fn tempdb(&self) -> Result<DatabaseUse> {
        self.database_by_id(TEMPDB)
    }

    /// The transactions that are undone behind the openings of databases.
    pub fn transactions_undone(&self) -> Vec<UndoneTransaction> {
        let all = self.registry.all();
        let open = all.iter().filter_map(|entry| match entry.state_unless_opening().as_deref() {
            Some(EntryState::Open(database)) => Some(Arc::clone(database)),
            _ => None,
        });
        open.flat_map(|database| database.transactions_undone()).collect()
    }

    /// The databases that are being recovered.
    pub fn databases_recovering(&self) -> Vec<RecoveringDatabase> {
        self.parts.recoveries.now()
    }

    /// Writes and syncs the changes in all open databases. Blocks.
    ///
    /// # Errors
    /// The first one that occurred; the other databases have been saved nevertheless.
    pub fn checkpoint(&self) -> Result<()> {
        let mut result = Ok(());
        for entry in self.registry.all() {
            let database = match &*entry.state.lock() {
                EntryState::Open(database) if database.check_usable().is_ok() => Arc::clone(database),
                _ => continue,
            };
            result = result.and(database.checkpoint());
        }
        result
    }

    /// Saves all databases, marks them clean and releases the folder. Later calls do nothing. Blocks.
    ///
    /// # Errors
    /// 3702: statements are running, and their changes would be saved as if they had committed. The instance stays
    /// open. Or the error of the first database that could not be saved: it will be SUSPECT at the next start, and the
    /// others have been saved nevertheless.
    pub fn close(&self) -> Result<()> {
        self.stop_background(None);
        let _alone = self.definitions.lock();
        match self.running.close() {
            Close::Closed => self.shut(true),
            Close::WasClosed => Ok(()),
            Close::Running(count) => Err(EngineError::Statement(errors::INSTANCE_IN_USE.with([&count]))),
        }
    }

    /// Releases everything. Without `save`, changed databases stay marked as not clean. No statement begins any more.
    fn shut(&self, save: bool) -> Result<()> {
        let mut result = Ok(());
        // master last: its catalog lists the others.
        for entry in self.registry.all().iter().rev() {
            let closed = EntryState::Unavailable {
                state: DatabaseState::RecoveryPending,
                reason: "the instance was closed".into(),
            };
            let state = std::mem::replace(&mut *entry.state.lock(), closed);
            if let EntryState::Open(database) = state {
                result = result.and(if save { database.close() } else { database.abandon() });
            }
        }
        self.registry.all().iter().for_each(|entry| entry.release_copies());
        self.end_extension();
        *self.lock_file.lock() = None;
        result
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // A statement that was dropped without an end has undone itself. One that still lives cannot be undone any
        // more. A failure cannot be reported here: the files then stay marked as not clean, which the next start
        // reports.
        let _ = match self.running.close_whatever_runs() {
            Close::Closed => self.shut(true),
            Close::WasClosed => Ok(()),
            Close::Running(_) => self.shut(false),
        };
    }
}

fn does_not_exist(name: &str) -> EngineError {
    EngineError::Statement(errors::DATABASE_DOES_NOT_EXIST.with([&name]))
}

/// Ends a statement or transaction by `end`, whose argument says whether its changes are kept. They are not if one of
/// the databases is SUSPECT: what it has read there may never have been committed, and a statement of it that failed
/// could not be undone. A database becomes SUSPECT before the locks of what could not end in it are released, so that
/// whatever has waited for them finds out here.
fn end_in(
    databases: &[&Database],
    keeps: bool,
    end: impl FnOnce(bool) -> std::result::Result<(), UndoError>,
) -> Result<()> {
    let whole = if keeps { databases.iter().try_for_each(|database| database.check_whole()) } else { Ok(()) };
    let ended = suspect_if_failed(end(keeps && whole.is_ok()), databases);
    whole.and(ended)
}

/// Makes the databases suspect in which the end of a transaction failed.
fn suspect_if_failed(ended: std::result::Result<(), UndoError>, databases: &[&Database]) -> Result<()> {
    ended.map_err(|error| {
        let reason = error.to_string();
        databases.iter().for_each(|database| database.suspect_if_log_failed());
        let is_suspect = |database: &&Database| database.state() == DatabaseState::Suspect;
        let mut failed: Vec<&Database> = databases.iter().copied().filter(is_suspect).collect();
        if failed.is_empty() {
            // An undo action of the caller, which does not say where it failed.
            databases.iter().for_each(|database| database.mark_suspect(&reason));
            failed = databases.to_vec();
        }
        let names: Vec<&str> = failed.iter().map(|database| database.name()).collect();
        EngineError::Unavailable { database: names.join("', '"), state: DatabaseState::Suspect, reason }
    })
}
