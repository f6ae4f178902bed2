//! A database: its files, its catalog snapshot, its heaps.
//!
//! How DDL works, the same in each function:
//!
//! 1. claim the names ([`pending`]), so that no other transaction can take or drop them before this one ends;
//! 2. check against the snapshot with the statement's own changes;
//! 3. create or drop heaps through the statement's context, which undoes or completes that;
//! 4. write the catalog's rows through the statement's context, one group at a time;
//! 5. record the [`SnapshotChange`]; the commit action publishes it and releases the names.
//!
//! The clean flag: a database is open and clean until its first change ([`Database::prepare_to_change`]), which marks
//! its files unclean, durably, before anything else is written. Reads never make a database unclean.

mod changed_definitions;
mod check;
mod claim;
mod clone;
mod column;
mod constraint;
mod current_row;
pub(crate) mod differential;
mod file_removal;
mod files;
mod foreign_key;
mod identity;
mod index;
mod left_open;
mod life;
mod module;
mod partition;
mod pending;
mod place;
mod recovery_time;
mod repartition;
mod save;
mod sequence;
mod state;
mod statistics;
mod switch;
mod table;
mod table_change;
#[cfg(test)]
mod tests;
mod truncate;
mod undo_behind;
mod writer;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use hobt_access::{AccessError, BTree, Hobt, RowStore, Storage, TreeDescription};
use hobt_base::{DatabaseId, FileId, FilegroupId, HobtId, Lsn, ObjectId, PageId, SessionId, Stamp};
use hobt_catalog::{
    CatalogError, CountsBeside, DatabaseSnapshot, Index, IndexKind, Partition, SnapshotChange, SystemHeaps,
    SystemTable, Table,
};
use hobt_instruments::rank::Ranked;
use hobt_instruments::schedule::{Mutex, RwLock};
use hobt_page::{PageDamage, RowLayout};
use hobt_txn::locks::{LockManager, LockMode, LockOwner, LockOwnerKind, LockResource, Patience};
use hobt_txn::{MemoryBudget, Settlements, Snapshot, StatementContext, StatementContextSettings, Transactions};

use crate::data_file::DataFile;
use crate::error::{EngineError, Result, of_catalog};
use crate::missing_index::MissingIndexes;
use crate::options::DatabaseOptions;
use changed_definitions::ChangedDefinitions;
use pending::{Claim, PendingChanges};

pub use check::{CheckScope, CheckedTable, DatabaseCheck, Found, Owner, Problem, problem_counts};
pub use claim::LockTable;
pub use column::{ColumnAlteration, is_stored_alike};
pub use constraint::CheckDefinition;
pub use current_row::current_row;
pub use foreign_key::ForeignKeyDefinition;
pub use index::{key_bytes_max, key_value_bytes, may_exceed_key_bytes};
pub use sequence::{SequenceAlteration, SequenceDefinition, SequenceRange, SequenceState};
pub use state::DatabaseState;
pub use statistics::{
    RowChangeNotes, RowChanges, SAID_MAX, SaidCounts, StatisticsDefinition, StatisticsState, statistics_columns,
    statistics_type,
};
pub use switch::SwitchSide;
pub use table_change::{IndexSelector, TableChange, partitions_named};
pub use truncate::partitions_in;
pub use undo_behind::UndoneTransaction;
pub use writer::{IndexMismatch, RowAt, RowUpdate, TableWriter, TakenOut, WriteError, uniqueifier_of_key, whole_row};

pub(crate) use file_removal::primary_file;
pub(crate) use life::{MASTER, NewDatabase, OldDatabase, StorageParts, TEMPDB, primary_filegroup};
pub(crate) use undo_behind::BEHIND_FROM_BYTES;

const OBJECT_ID_STEP: i64 = 16_000_057;

/// The object id after `id`: never one below 1000. Those below 100 are the system's.
fn following_object_id(id: i32) -> i32 {
    let next = (i64::from(id) + OBJECT_ID_STEP) % i64::from(i32::MAX);
    i32::try_from(next.max(1000)).expect("below the modulus")
}

/// The ids that the next objects get.
#[derive(Clone, Copy, Debug)]
struct NextIds {
    object: i32,
    data_space: u32,
    hobt: u64,
}

/// The files below the pool, with their headers.
struct Files {
    files: Vec<DataFile>,
    marked: Marked,
    /// It is unknown before the next start whether `master` lists a file as removed. Recovery has to find out, so the
    /// headers must not say "clean" any more.
    is_removal_in_doubt: bool,
}

/// Whether the headers on disk say that the database is clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Marked {
    /// All of them do.
    Clean,
    /// None of them does.
    Unclean,
    /// A header write failed: all headers are written again before anything relies on them.
    Unknown,
}

/// What a database shares with its instance.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) clock: Arc<Transactions>,
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) locks: Arc<LockManager>,
    /// Which databases know of every earlier decision.
    pub(crate) settlements: Arc<Settlements>,
    /// The indexes that statements would have used.
    pub(crate) missing_indexes: Arc<MissingIndexes>,
}

impl Shared {
    /// A statement without a session, in a transaction of its own.
    fn internal_context(&self) -> Arc<StatementContext> {
        let settings = StatementContextSettings {
            session: SessionId(0),
            stamp: self.clock.next(),
            degree_of_parallelism: 1,
            memory: Arc::clone(&self.memory),
        };
        StatementContext::new(&settings, Arc::default())
    }
}

/// A database that is open.
pub struct Database {
    id: DatabaseId,
    name: String,
    guid: [u8; 16],
    created: i64,
    shared: Shared,
    storage: Arc<Storage>,
    heaps: SystemHeaps,
    published: ArcSwap<DatabaseSnapshot>,
    pending: PendingChanges,
    definitions: ChangedDefinitions,
    /// When it was opened. Versions of earlier changes, and the record of changed definitions, were lost at the last
    /// close.
    opened: Stamp,
    /// Writers of catalog rows run one group at a time.
    catalog_writes: Ranked<Mutex<()>>,
    /// Groups of catalog rows whose transactions are still open.
    open_writes: Arc<AtomicUsize>,
    stores: Ranked<RwLock<HashMap<HobtId, RowStore>>>,
    /// The sequences whose values were requested.
    sequences: Ranked<RwLock<HashMap<ObjectId, Arc<sequence::LiveSequence>>>>,
    /// Committed row changes, for statistics.
    live_statistics: Arc<statistics::LiveStatistics>,
    /// Row and page counts shown for partitions, relative to the actual ones.
    shown_counts: RwLock<HashMap<HobtId, CountsBeside>>,
    next_ids: Mutex<NextIds>,
    options: Mutex<DatabaseOptions>,
    /// Whether the options say that the database is read-only.
    read_only: AtomicBool,
    files: Ranked<Mutex<Files>>,
    /// Data files that were removed since it was opened, each with the end of the log at that time.
    removed_files: Mutex<Vec<(FileId, Lsn)>>,
    /// Copies of headers and of the boot page whose checksum was wrong when the database was opened, clean.
    mended: Mutex<Vec<(PageId, PageDamage)>>,
    /// Something other than the engine's own saved changes was or is being written.
    changed: AtomicBool,
    closed: AtomicBool,
    /// What a crash has left open and is not undone yet.
    undo: left_open::UndoBehind,
    redo_rate: recovery_time::RedoRate,
    /// It lies over files that stay as they are, and is read-only: what it writes is gone when it is closed.
    is_over_others: bool,
    /// It shows another database as it was.
    is_snapshot: bool,
    differential: differential::Differential,
    /// Held while a backup of its pages runs: no file comes or goes.
    pub(crate) data_backup: Mutex<()>,
    /// Held while a backup of its log runs.
    pub(crate) log_backup: Mutex<()>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Database {
    /// Its id in the instance.
    pub fn id(&self) -> DatabaseId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it was created: 100 ns since 1970-01-01 UTC.
    pub fn created(&self) -> i64 {
        self.created
    }

    /// Its state: `Suspect` after [`Database::mark_suspect`].
    pub fn state(&self) -> DatabaseState {
        if self.storage.broken().is_some() { DatabaseState::Suspect } else { DatabaseState::Online }
    }

    /// Whether it is a snapshot of another database.
    pub fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }

    /// Whether it lies over files that stay as they are: it is a standby or a snapshot, which are read-only.
    pub fn is_over_others(&self) -> bool {
        self.is_over_others
    }

    /// Its options that are in force now.
    pub fn options(&self) -> DatabaseOptions {
        *self.options.lock()
    }

    /// Returns when every commit acknowledged before is durable. Blocks.
    ///
    /// # Errors
    /// The log has failed, or the database is suspect or closed.
    pub fn flush_log(&self) -> Result<()> {
        self.check_usable()?;
        let flushed = self.storage.log().map_or(Ok(()), |log| log.flush());
        flushed.map_err(|error| self.storage_error(error.into()))
    }

    /// Its permanent identity, independent of its name and id.
    pub(crate) fn guid(&self) -> [u8; 16] {
        self.guid
    }

    /// Its data files: pages, extents, sizes.
    pub fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The committed objects. Cheap: a statement takes it once and keeps it.
    pub fn snapshot(&self) -> Arc<DatabaseSnapshot> {
        self.published.load_full()
    }

    /// Whether a snapshot sees the current definition of a table: the table was not created, changed or truncated by a
    /// transaction that is invisible to the snapshot.
    pub fn has_seen_definition(&self, table: ObjectId, snapshot: &Snapshot) -> bool {
        self.definitions.are_seen(table, snapshot)
    }

    /// Whether the database was open when a snapshot was taken, and has been since. What an older snapshot sees of its
    /// rows is unknown.
    pub fn was_open(&self, snapshot: &Snapshot) -> bool {
        snapshot.sees(self.opened)
    }

    /// The objects that `ctx` sees: the committed ones with its own changes.
    pub fn snapshot_of(&self, ctx: &StatementContext) -> Arc<DatabaseSnapshot> {
        self.snapshot_seen_by(ctx.stamp())
    }

    /// The objects that the transaction with this stamp sees.
    pub(crate) fn snapshot_seen_by(&self, stamp: Stamp) -> Arc<DatabaseSnapshot> {
        self.pending.view(self.snapshot(), stamp)
    }

    /// Refuses the database from now on (926), also after a restart: a statement could not be undone, so its pages are
    /// inconsistent. Storage does this itself if a change stops half-way or cannot be undone.
    pub fn mark_suspect(&self, reason: &str) {
        self.storage.mark_broken(reason);
    }

    /// Refuses the database from now on if its log has failed: what was to be written may or may not be on disk.
    pub(crate) fn suspect_if_log_failed(&self) {
        let failed = self.storage.log().and_then(|log| log.log().check().err());
        if let Some(error) = failed.filter(|_| !self.closed.load(Ordering::Acquire)) {
            self.mark_suspect(&error.to_string());
        }
    }

    /// Refuses a database whose pages are inconsistent: none of it may be saved as clean.
    pub(crate) fn check_whole(&self) -> Result<()> {
        match self.storage.broken() {
            None => Ok(()),
            Some(reason) => Err(EngineError::Unavailable {
                database: self.name.clone(),
                state: DatabaseState::Suspect,
                reason: reason.to_owned(),
            }),
        }
    }

    /// Whether the database can be used now.
    ///
    /// # Errors
    /// It is suspect or closed.
    pub fn check_usable(&self) -> Result<()> {
        self.check_whole()?;
        if !self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        let (state, reason) = (DatabaseState::RecoveryPending, "the instance was closed".to_owned());
        Err(EngineError::Unavailable { database: self.name.clone(), state, reason })
    }

    /// An error of the access methods with names: of this database, and a file by its path, so that the user can find
    /// it.
    pub fn storage_error(&self, error: AccessError) -> EngineError {
        let error = match error {
            AccessError::Damaged { file, page, damage } => {
                let files = self.storage().files();
                let path =
                    files.iter().find(|known| known.name() == file).map(|known| known.path().display().to_string());
                AccessError::Damaged { file: path.unwrap_or(file), page, damage }
            }
            other => other,
        };
        let filegroup = match &error {
            AccessError::FilegroupFull { filegroup, .. } => self.filegroup_name(*filegroup),
            _ => None,
        };
        EngineError::Storage { database: self.name.clone(), filegroup, error }
    }

    fn filegroup_name(&self, id: FilegroupId) -> Option<String> {
        self.snapshot().filegroup_by_id(id).map(|filegroup| filegroup.name.clone())
    }

    fn catalog_error(&self, error: CatalogError) -> EngineError {
        match error {
            CatalogError::Access(error) => self.storage_error(error),
            other => of_catalog(&self.name, other),
        }
    }

    /// The heap or B+tree of a partition, opened as by [`Database::hobt`], to be read or changed.
    ///
    /// # Errors
    /// As [`Database::hobt`].
    pub fn store(&self, id: HobtId) -> Result<RowStore> {
        self.check_usable()?;
        self.prepare_to_change()?;
        self.find_store(id)
    }

    /// Like [`Database::store`], for reading only, as [`Database::hobt_to_read`].
    ///
    /// # Errors
    /// As [`Database::hobt`].
    pub fn store_to_read(&self, id: HobtId) -> Result<RowStore> {
        self.check_usable()?;
        self.find_store(id)
    }

    /// The number of rows of heaps and B+trees together, as they count them.
    ///
    /// # Errors
    /// As [`Database::hobt`].
    pub fn row_count(&self, hobts: impl IntoIterator<Item = HobtId>) -> Result<u64> {
        hobts.into_iter().map(|hobt| Ok(self.store_to_read(hobt)?.hobt().row_count())).sum()
    }

    /// A heap or B+tree by its id, opened at first use, to be read or changed. A table that the caller's statement has
    /// created is found too. Blocks on reading the run list and, if it is the first of the database, on marking the
    /// files unclean.
    ///
    /// # Errors
    /// The heap does not exist any more (208), its run list is damaged, or the database is suspect or closed.
    pub fn hobt(&self, id: HobtId) -> Result<Arc<Hobt>> {
        Ok(Arc::clone(self.store(id)?.hobt()))
    }

    /// Like [`Database::hobt`], for a caller that changes nothing: a database that is only read stays clean, so it
    /// needs no recovery after a crash. A change through this heap, without a call of [`Database::hobt`] before, would
    /// go unnoticed by the next start. So only scans and views call this.
    ///
    /// # Errors
    /// As [`Database::hobt`].
    pub fn hobt_to_read(&self, id: HobtId) -> Result<Arc<Hobt>> {
        Ok(Arc::clone(self.store_to_read(id)?.hobt()))
    }

    fn find_store(&self, id: HobtId) -> Result<RowStore> {
        if let Some(store) = self.stores.read().get(&id) {
            return Ok(store.clone());
        }
        if let Some((_, heap)) = self.heaps.tables().find(|(table, _)| table.hobt() == id) {
            return Ok(RowStore::Heap(Arc::clone(heap)));
        }
        let snapshot = self.snapshot();
        let Some((table, index, partition)) = snapshot.partition_of_hobt(id) else { return Err(self.was_dropped(id)) };
        let opened = self.open_store(table, index, partition);
        self.keep_opened(id, opened)
    }

    fn open_store(
        &self,
        table: &Table,
        index: &Index,
        partition: &Partition,
    ) -> std::result::Result<RowStore, AccessError> {
        match self.store_shape(table, index, partition.filegroup) {
            StoreShape::Heap { rows, layout_version } => {
                let (id, filegroup, first) = (partition.hobt, partition.filegroup, partition.run_list);
                Hobt::open(&self.storage, id, filegroup, rows, layout_version, first).map(RowStore::Heap)
            }
            StoreShape::Tree(shape) => {
                let description = TreeDescription { id: partition.hobt, ..shape };
                BTree::open(&self.storage, &description, partition.run_list).map(RowStore::Tree)
            }
        }
    }

    /// The shape of an index's heaps or trees. The caller fills in the id of a tree.
    fn store_shape(&self, table: &Table, index: &Index, filegroup: FilegroupId) -> StoreShape {
        let Some(leaf) = table.index_leaf(index) else {
            return StoreShape::Heap { rows: Arc::clone(&table.rows), layout_version: table.layout_version };
        };
        // The rows of a nonclustered index do not depend on the table's other columns.
        let layout_version = if index.kind == IndexKind::Clustered { table.layout_version } else { 1 };
        let rows = if index.kind == IndexKind::Clustered { Arc::clone(&table.rows) } else { leaf.rows };
        StoreShape::Tree(TreeDescription { id: HobtId(0), filegroup, rows, layout_version, key: leaf.key })
    }

    /// Keeps a heap that was opened by the definition in a snapshot, if it still exists. The table may have been
    /// dropped since, and the pages that were read may belong to another one. A statement that drops a table publishes
    /// that before it removes the heaps from the list, so a heap kept here before that is removed there.
    fn keep_opened(&self, id: HobtId, opened: std::result::Result<RowStore, AccessError>) -> Result<RowStore> {
        let mut stores = self.stores.write();
        if self.snapshot().partition_of_hobt(id).is_none() {
            return Err(self.was_dropped(id));
        }
        let opened = opened.map_err(|error| self.storage_error(error))?;
        // Two threads may have opened it. Both must use the one that is kept.
        Ok(stores.entry(id).or_insert(opened).clone())
    }

    fn was_dropped(&self, id: HobtId) -> EngineError {
        EngineError::Statement(hobt_base::errors::TABLE_DROPPED.with([&id, &self.name]))
    }

    /// Drops the wait counts of heaps and trees that are gone.
    fn forget_waits(&self, is_gone: impl Fn(HobtId) -> bool) {
        let is_gone = |database: DatabaseId, hobt: HobtId| database == self.id && is_gone(hobt);
        self.shared.locks.forget_hobts(is_gone);
        self.storage.pool().forget_waits(is_gone);
    }

    /// The system tables.
    pub(crate) fn heaps(&self) -> &SystemHeaps {
        &self.heaps
    }

    /// Begins a change of objects for `ctx`: claims names until its transaction ends.
    fn begin(self: &Arc<Database>, ctx: &StatementContext, claims: Vec<Claim>) -> Result<Change> {
        self.check_usable()?;
        self.prepare_to_change()?;
        let token = self.pending.claim(ctx, claims)?;
        let database = Arc::clone(self);
        ctx.on_undo(move || {
            database.pending.release(token, |_| {});
            Ok(())
        });
        let database = Arc::clone(self);
        let changer = ctx.stamp();
        ctx.on_commit(move || {
            // What is dropped is freed by later actions, which must run even if this one panics.
            database.storage.in_one_piece(|| {
                database.pending.release(token, |changes| {
                    database.definitions.changed(&changes, changer, &database.shared.clock);
                    database.publish(&changes);
                });
            });
            Ok(())
        });
        Ok(Change { database: Arc::clone(self), token })
    }

    /// Publishes changes. Callers hold the lock of `pending`, so snapshots follow one another.
    fn publish(&self, changes: &[SnapshotChange]) {
        let mut snapshot = (*self.snapshot()).clone();
        changes.iter().for_each(|change| snapshot.apply(change));
        self.published.store(Arc::new(snapshot));
        for change in changes {
            match change {
                SnapshotChange::AddTable(table) => self.shared.missing_indexes.forget_table(self.id, table.id),
                SnapshotChange::RemoveTable(table) => {
                    self.shared.missing_indexes.forget_table(self.id, *table);
                    self.live_statistics.forget(*table, None);
                }
                SnapshotChange::RemoveStatistics(table, id) => self.live_statistics.forget(*table, Some(*id)),
                _ => {}
            }
        }
    }

    /// Writes rows of the system tables for a statement. A roll-back undoes them one by one, because rows of several
    /// statements share pages.
    fn write_rows(
        &self,
        ctx: &StatementContext,
        write: impl FnOnce(&SystemHeaps, &StatementContext) -> std::result::Result<(), CatalogError>,
    ) -> Result<()> {
        // One group at a time, so that no group is read half-written.
        let _alone = self.catalog_writes.lock();
        self.compact_system_tables();
        self.check_whole()?;
        self.open_writes.fetch_add(1, Ordering::SeqCst);
        // Before the rows: what is undone before this is the undo of theirs.
        let open = Arc::clone(&self.open_writes);
        ctx.on_undo(move || {
            open.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        });
        let open = Arc::clone(&self.open_writes);
        ctx.on_commit(move || {
            open.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        });
        write(&self.heaps, ctx).map_err(|error| self.catalog_error(error))
    }

    /// Writes system tables of which less than half is in use anew, each in a transaction of its own. The caller holds
    /// `catalog_writes`.
    ///
    /// Does nothing while a transaction that has written rows there is open, or a query reads the table. What fails,
    /// for want of room in the log for one, is undone, and tried again when the table has doubled.
    fn compact_system_tables(&self) {
        for table in self.heaps.grown() {
            if self.open_writes.load(Ordering::SeqCst) > 0 {
                return;
            }
            // A page that cannot be read is the error of a statement that needs it.
            if self.heaps.is_sparse(table).unwrap_or(false) {
                self.compact(table);
            }
            self.heaps.leave(table);
        }
    }

    fn compact(&self, table: SystemTable) {
        // Held until the old pages are free: a query may read them.
        let owner = LockOwner::new(SessionId(0), LockOwnerKind::Session, self.shared.clock.next());
        let resource = LockResource::Object(self.id, table.id());
        let at_once = Patience { timeout: Some(Duration::ZERO), ..Patience::default() };
        let locked = self.shared.locks.hold(&owner, resource, LockMode::SchemaModification, at_once, &|| false);
        if locked.is_err() {
            return;
        }
        let alone = self.heaps.without_readers();
        let ctx = self.shared.internal_context();
        let compacted = self.heaps.compact(&alone, &ctx, table);
        let ended = if compacted.is_ok() { ctx.commit() } else { ctx.roll_back() };
        if let Err(error) = ended {
            self.mark_suspect(&error.to_string());
        }
    }

    /// Writes rows of the system tables in a statement of its own, which is undone as a whole if it fails.
    fn write_rows_alone(
        &self,
        write: impl FnOnce(&SystemHeaps, &StatementContext) -> std::result::Result<(), CatalogError>,
    ) -> Result<()> {
        let ctx = self.shared.internal_context();
        let written = self.write_rows(&ctx, write);
        let ended = if written.is_ok() { ctx.commit() } else { ctx.roll_back() };
        if let Err(error) = ended {
            self.mark_suspect(&error.to_string());
        }
        written
    }

    /// An unused object id. Steps through the positive numbers as SQL Server does.
    fn next_object_id(&self, snapshot: &DatabaseSnapshot) -> ObjectId {
        let mut next = self.next_ids.lock();
        loop {
            let id = ObjectId(next.object);
            next.object = following_object_id(next.object);
            if !snapshot.has_object_id(id) {
                return id;
            }
        }
    }

    fn next_data_space_id(&self) -> u32 {
        let mut next = self.next_ids.lock();
        next.data_space += 1;
        next.data_space - 1
    }

    fn next_hobt_id(&self) -> HobtId {
        let mut next = self.next_ids.lock();
        next.hobt += 1 << 16;
        HobtId(next.hobt - (1 << 16))
    }
}

/// The definition that a heap or tree is created with.
enum StoreShape {
    Heap { rows: Arc<RowLayout>, layout_version: u32 },
    Tree(TreeDescription),
}

/// A change of objects in progress, with the names that it claims.
struct Change {
    database: Arc<Database>,
    token: u64,
}

impl Change {
    /// Records a change, to be published at commit.
    fn add(&self, change: SnapshotChange) {
        self.database.pending.add(self.token, change);
    }

    /// Releases the names before the statement ends, with nothing changed.
    fn release(self) {
        self.database.pending.release(self.token, |_| {});
    }
}
